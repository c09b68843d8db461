"""Read session files of pi (0.73 to 1.5, and of 2025) and omp (14 to 18)."""

import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import force_setattr as put

from tasuki.harness.pi_v3 import format as record
from tasuki.harness.reading.jsonl import UNDECODABLE, ThreadLines, choose_keep_limit
from tasuki.harness.reading.threads import NoticeKind, ThreadReader
from tasuki.harness.tool_table.calls import CallLog, build_user_command
from tasuki.harness.tool_table.tools import list_todos, read_input
from tasuki.model import Notice, Thread, ToolStatus
from tasuki.patterns import compile_pattern

SKIPPED = frozenset({
    "label", "usage", "mode_change", "service_tier_change", "credential_pin", "reset_boundary",
    "model_usage", "ttsr_injection", "session_init", "session_pin", "mcp_tool_selection", "leaf",
})  # fmt: skip
"""Line types that do not concern the conversation."""
_SKILL = compile_pattern(r"\A/skill:([\w.:-]+)")
_SKILL_BLOCK = compile_pattern(r"\A<skill name=\"([^\"]+)\"[^>]*>.*?</skill>\s*", re.DOTALL)
_SETTINGS: dict[str, tuple[str, Callable[[record.PiLine, str], str]]] = {
    "model_change": ("model", lambda line, old: record.build_model_name(line) or old),
    "thinking_level_change": ("thinking", lambda line, _: line.thinkingLevel or ""),
    "session_info": ("name", lambda line, _: line.name or ""),
    "title_change": ("name", lambda line, old: line.title or old),
}
"""What lines change for the whole thread: which attribute, and its value by the line and the old one."""
_ABORTED = ("Command aborted", "Operation aborted", "Tool execution was aborted")


class _PiLastSkill(Struct):
    skill: str = ""


class _PiTree:
    """The parents of lines. A line without a parent field follows the line before it."""

    def __init__(self) -> None:
        self.parents: list[int] = []
        self.index: dict[str, int] = {}
        self.leaf = -1

    def add_line(self, line: record.PiLine) -> int:
        node = len(self.parents)
        if not line.id:
            parent = node - 1
        elif line.parentId is None:
            parent = -1
        else:
            parent = self.index.get(line.parentId, node - 1)
        self.parents.append(parent)
        if line.id:
            self.index[line.id] = node
        self.leaf = node
        return node

    def find_branch(self) -> bytearray:
        """Return which nodes lead to the last line, as flags."""
        active = bytearray(len(self.parents))
        node = self.leaf
        while node >= 0 and not active[node]:
            active[node] = 1
            node = self.parents[node]
        return active


class PiReader(ThreadReader):
    """One pass over one session file; with `follows` one more for what was appended."""

    def __init__(self, path: Path, harness: str, *, follows: bool = False) -> None:
        super().__init__(ThreadLines(path, follows=follows), CallLog(choose_keep_limit(path)))
        self.harness = harness
        self.tree = _PiTree()
        self.header: record.PiLine | None = None
        self.removed: set[int] = set()
        self.numbered: list[int] = []
        """Node of each line of the file, for the indexes that old compactions hold."""
        self.noted: list[tuple[int, Notice]] = []
        """All notices, each with its line in the tree."""
        self.skills: list[tuple[int, str]] = []
        self.build_handlers()

    def build_handlers(self) -> None:
        self.handlers: dict[str, Callable[[record.PiLine], None]] = {
            "message": self._on_message,
            "custom": self._on_custom,
            "custom_message": self._on_custom_message,
            "compaction": self._on_compaction,
            "branch_summary": self._on_branch_summary,
            "context_edit": self._on_context_edit,
        }

    def read(self) -> Thread:
        decode, lines = self.lines.decode, self.lines
        for offset, raw in lines:
            if (line := decode(record.LINE, raw)) is not None:
                self.offset = offset
                self._take_line(line)
        return self._build_thread()

    def _take_line(self, line: record.PiLine) -> None:
        kind, self.id, self.at = line.type, line.id, line.timestamp
        if kind == "title":
            self.name = line.title or ""
            return
        if kind == "session":
            if self.header is None:
                self._read_header(line)
            return
        if line.id and line.id in self.tree.index:
            self.tree.leaf = self.tree.index[line.id]
            return
        self.node = self.tree.add_line(line)
        self.numbered.append(self.node)
        self.updated = line.timestamp or self.updated
        if setting := _SETTINGS.get(kind):
            name, choose = setting
            setattr(self, name, choose(line, getattr(self, name)))
        elif (handler := self.handlers.get(kind)) is not None:
            handler(line)
        elif kind not in SKIPPED:
            self.lines.count_unknown(kind, has_words=line.message or line.content)

    def _read_header(self, line: record.PiLine) -> None:
        self.header = line
        self.numbered.append(-1)
        self.updated = line.timestamp
        self.name = self.name or line.title or ""
        self.thinking = line.thinkingLevel or ""
        self.model = record.build_model_name(line)

    def add_notice(self, kind: NoticeKind, text: str) -> None:
        super().add_notice(kind, text)
        self.noted.append((self.node, self.notices.pop()))

    # -- lines by type -----------------------------------------------------------------

    def _on_custom(self, line: record.PiLine) -> None:
        """Read what an extension remembers: the skill that was used last, by the seed's name for it."""
        if line.customType != record.LAST_SKILL:
            return
        with suppress(*UNDECODABLE):
            skill = msgspec.json.decode(line.data, type=_PiLastSkill).skill
            if skill and skill not in [name for _, name in self.skills[-1:]]:
                self.skills.append((self.node, skill))

    def _on_message(self, line: record.PiLine) -> None:
        message = line.message
        if message is None:
            return
        if message.role == "toolResult":
            self._add_result(message)
            return
        if message.role in ("user", "assistant"):
            self.log.settle("unknown")
        if message.role == "user":
            self._add_user_text(
                record.extract_text(message.content), message.attribution == "agent"
            )
        elif message.role == "assistant":
            self._on_assistant(line, message)
        elif message.role == "bashExecution":
            ended: ToolStatus = "aborted" if message.cancelled else "ok"
            command, output = message.command, message.output
            keep, code = self.log.keep, message.exitCode
            call = build_user_command(line.id, command, output, keep, code, ended)
            self.add_entry("tool", origin="command", tool=call)
        elif message.role in ("developer", "hookMessage", "custom"):
            self.add_notice("context", record.extract_text(message.content))

    def _add_user_text(self, text: str, by_agent: bool = False) -> None:
        text = text.strip()
        if not text:
            return
        if match := _SKILL_BLOCK.match(text):
            text = f"/skill:{match[1]} {text[match.end() :]}".strip()
        if match := _SKILL.match(text):
            self.skills.append((self.node, match[1]))
        origin, text = self.lines.gate.judge(text, "program" if by_agent else "")
        self.add_entry("user", text, origin)

    def _on_assistant(self, line: record.PiLine, message: record.PiMessage) -> None:
        content = message.content
        if isinstance(content, str):
            content = [record.PiBlock(type="text", text=content)]
        for block in content or ():
            if block.type == "text" and block.text.strip():
                self.add_entry("assistant", block.text)
            elif block.type == "toolCall":
                self.add_call(block.id, block.name, read_input(block.arguments))
        if message.model:
            self.model = (
                f"{message.provider}/{message.model}" if message.provider else message.model
            )
        if message.usage and message.usage.input + message.usage.output:
            self.context_tokens = record.count_context_tokens(message.usage)
        if message.stopReason == "aborted":
            self.log.settle("aborted")
            self.add_notice("interrupted", message.errorMessage or "")
        elif message.stopReason == "error":
            self.log.settle("aborted")
            text = message.errorMessage or ""
            self.add_notice("error", text)
            self.failure.note_error(text, line.timestamp, len(self.entries))

    def _add_result(self, message: record.PiMessage) -> None:
        entry = self.log.calls.get(message.toolCallId)
        if entry is None or (call := entry.tool) is None:
            self.lines.count_unknown("toolResult without a call")
            return
        output, code = record.extract_text(message.content), None
        status: ToolStatus = "error" if message.isError else "ok"
        if message.isError and output.rstrip().endswith(_ABORTED):
            status = "aborted"
        elif call.kind == "shell":
            output, code = record.parse_shell_result(output, message.isError)
        self.log.finish(call, output, status, code)
        if call.kind == "todo":
            put(call, "todos", list_todos(read_input(message.details)) or call.todos)

    def _on_custom_message(self, line: record.PiLine) -> None:
        text = record.extract_text(line.content)
        if line.customType == "handoff":
            self.add_entry("user", text, "handoff")
        else:
            self.add_notice("context", f"{line.customType}: {text}")

    def _on_compaction(self, line: record.PiLine) -> None:
        kept_node = self.tree.index.get(line.firstKeptEntryId or "", -1)
        kept_index = line.firstKeptEntryIndex
        if kept_index is not None and 0 <= kept_index < len(self.numbered):
            kept_node = self.numbered[kept_index]
        refs = (ref for ref, node in enumerate(self.entry_nodes, 1) if node >= kept_node)
        first = next(refs, 0) if kept_node >= 0 else 0
        put(self.add_entry("compaction", line.summary or "", "harness"), "kept_from", first)

    def _on_branch_summary(self, line: record.PiLine) -> None:
        notice = Notice(after=len(self.entries), kind="context", text=line.summary or "")
        self.noted.append((self.node, notice))

    def _on_context_edit(self, line: record.PiLine) -> None:
        target = self.tree.index.get(line.targetId, -1)
        if bytes(line.replacement) == b"null" and target >= 0:
            self.removed.add(target)

    # -- the whole ---------------------------------------------------------------------

    def _build_thread(self) -> Thread:
        header = self.header
        if header is None or not header.id:  # It is lost; the name of the file holds the id.
            if not self.entries:
                raise self.lines.build_error("header of a pi session", "pi session")
            header = record.PiLine("session", id=self.path.stem.rpartition("_")[2], cwd="")
            self.lines.notes.append("the header of the session is missing, and with it the folder")
        active = self.tree.find_branch()
        gone = (not active[node] or node in self.removed for node in self.entry_nodes)
        self.left = {index for index, is_gone in enumerate(gone) if is_gone}
        self.notices = [notice for node, notice in self.noted if node < 0 or active[node]]
        return self.build_thread(
            header.id,
            cwd=header.cwd,
            version=str(header.version or 1),
            parent=header.parentSession or header.branchedFrom or "",
            started=header.timestamp,
            skills=tuple(name for node, name in self.skills if active[node]),
        )
