"""Reading session files of pi (0.73 to 1.5, and of 2025) and omp (14 to 18)."""

import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import force_setattr as put
from msgspec.structs import replace

from tasuki.errors import ThreadUnreadable
from tasuki.harness import tools
from tasuki.harness.jsonl import (
    UNDECODABLE,
    Lines,
    begins_handoff,
    clip,
    keep_limit,
    mark_compacted,
)
from tasuki.harness.pi_v3.calls import shell_result, todos_of, tool_call
from tasuki.harness.pi_v3.format import (
    LAST_SKILL,
    LINE,
    Block,
    Line,
    Message,
    Usage,
    context_tokens,
    model_name,
    plain,
)
from tasuki.model import Entry, EntryKind, Notice, Origin, Thread, ToolCall, ToolStatus

SKIPPED = frozenset({
    "label", "usage", "mode_change", "service_tier_change", "credential_pin", "reset_boundary",
    "model_usage", "ttsr_injection", "session_init", "session_pin", "mcp_tool_selection", "leaf",
})  # fmt: skip
"""Line types that say nothing about the conversation."""
_SKILL = re.compile(r"\A/skill:([\w.:-]+)")
_SKILL_BLOCK = re.compile(r"\A<skill name=\"([^\"]+)\"[^>]*>.*?</skill>\s*", re.DOTALL)
_ABORTED = ("Command aborted", "Operation aborted", "Tool execution was aborted")


class _LastSkill(Struct):
    skill: str = ""


class _Slot(Struct):
    """An entry under construction, and the line in the tree that it hangs on."""

    entry: Entry
    node: int


class _Tree:
    """Who follows whom. A line without a parent field follows the line before it."""

    def __init__(self) -> None:
        self.parents: list[int] = []
        self.index: dict[str, int] = {}
        self.leaf = -1

    def add(self, line: Line) -> int:
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

    def branch(self) -> bytearray:
        """Which nodes lead to the last line, as flags."""
        active = bytearray(len(self.parents))
        node = self.leaf
        while node >= 0 and not active[node]:
            active[node] = 1
            node = self.parents[node]
        return active


class Reader:
    """One pass over one session file."""

    def __init__(self, path: Path, harness: str) -> None:
        self.path = path
        self.harness = harness
        self.lines = Lines(path)
        self.keep = keep_limit(path)
        self.tree = _Tree()
        self.header: Line | None = None
        self.slots: list[_Slot] = []
        self.calls: dict[str, int] = {}
        self.open: dict[str, int] = {}
        """Calls of the last assistant message that have no result yet."""
        self.removed: set[int] = set()
        self.numbered: list[int] = []
        """Node of each line of the file, for the indexes that old compactions hold."""
        self.notices: list[tuple[int, Notice]] = []
        self.background = tools.BackgroundLog()
        self.skills: list[tuple[int, str]] = []
        self.tool_names: dict[str, None] = {}
        self.name = self.model = self.thinking = self.updated = ""
        self.usage: Usage | None = None
        self.node = -1
        self.offset = 0
        self.handlers: dict[str, Callable[[Line], None]] = {
            "message": self._on_message,
            "custom": self._on_custom,
            "custom_message": self._on_custom_message,
            "compaction": self._on_compaction,
            "branch_summary": self._on_branch_summary,
            "model_change": self._on_model_change,
            "thinking_level_change": self._on_thinking_level_change,
            "session_info": self._on_session_info,
            "title_change": self._on_title_change,
            "context_edit": self._on_context_edit,
        }

    def read(self) -> Thread:
        decode, lines = self.lines.decode, self.lines
        for offset, raw in lines:
            if (line := decode(LINE, raw)) is not None:
                self.offset = offset
                self._take(line)
        return self._thread()

    def _take(self, line: Line) -> None:
        kind = line.type
        if kind == "title":
            self.name = line.title or ""
            return
        if kind == "session":
            if self.header is None:
                self._begin(line)
            return
        if line.id and line.id in self.tree.index:
            self.tree.leaf = self.tree.index[line.id]
            return
        self.node = self.tree.add(line)
        self.numbered.append(self.node)
        self.updated = line.timestamp or self.updated
        if (handler := self.handlers.get(kind)) is not None:
            handler(line)
        elif kind not in SKIPPED:
            self.lines.unknown[kind or "(no type)"] += 1

    def _begin(self, line: Line) -> None:
        self.header = line
        self.numbered.append(-1)
        self.updated = line.timestamp
        self.name = self.name or line.title or ""
        self.thinking = line.thinkingLevel or ""
        self.model = model_name(line)

    def _add(self, entry: Entry) -> int:
        self.slots.append(_Slot(entry, self.node))
        return len(self.slots) - 1

    def _entry(
        self, kind: EntryKind, line: Line, text: str = "", origin: Origin = "typed",
        tool: ToolCall | None = None,
    ) -> Entry:  # fmt: skip
        ref = len(self.slots) + 1
        return Entry(
            ref, kind, text, line.timestamp, line.id, origin, tool, False, 0, 0, self.offset
        )

    def _notice(self, kind: str, text: str) -> None:
        notice = Notice(after=len(self.slots), kind=kind, text=text[:300])  # type: ignore[arg-type]
        self.notices.append((self.node, notice))

    # -- lines by type -----------------------------------------------------------------

    def _on_custom(self, line: Line) -> None:
        """What an extension remembers; the skill that was used last is known by its seed's name."""
        if line.customType != LAST_SKILL:
            return
        with suppress(*UNDECODABLE):
            skill = msgspec.json.decode(line.data, type=_LastSkill).skill
            if skill and skill not in [name for _, name in self.skills[-1:]]:
                self.skills.append((self.node, skill))

    def _on_message(self, line: Line) -> None:
        message = line.message
        if message is None:
            return
        if message.role == "toolResult":
            self._result(message)
            return
        if message.role in ("user", "assistant"):
            self._settle("unknown")
        if message.role == "user":
            self._said(line, plain(message.content), message.attribution == "agent")
        elif message.role == "assistant":
            self._on_assistant(line, message)
        elif message.role == "bashExecution":
            self._user_command(line, message)
        elif message.role in ("developer", "hookMessage", "custom"):
            self._notice("context", plain(message.content))

    def _said(self, line: Line, text: str, by_agent: bool = False) -> None:
        text = text.strip()
        if not text:
            return
        if match := _SKILL_BLOCK.match(text):
            text = f"/skill:{match[1]} {text[match.end() :]}".strip()
        if match := _SKILL.match(text):
            self.skills.append((self.node, match[1]))
        origin: Origin = "harness" if by_agent else "typed"
        if begins_handoff(text):
            origin = "handoff"
        self._add(self._entry("user", line, text, origin))

    def _on_assistant(self, line: Line, message: Message) -> None:
        content = message.content
        if isinstance(content, str):
            content = [Block(type="text", text=content)]
        for block in content or ():
            if block.type == "text" and block.text.strip():
                self._add(self._entry("assistant", line, block.text))
            elif block.type == "toolCall":
                self._call(line, block)
        if message.model:
            self.model = (
                f"{message.provider}/{message.model}" if message.provider else message.model
            )
        if message.usage and message.usage.input + message.usage.output:
            self.usage = message.usage
        if message.stopReason == "aborted":
            self._settle("aborted")
            self._notice("interrupted", message.errorMessage or "")
        elif message.stopReason == "error":
            self._settle("aborted")
            self._notice("error", message.errorMessage or "")

    def _call(self, line: Line, block: Block) -> None:
        call = tool_call(block)
        self.tool_names[call.name] = None
        index = self._add(self._entry("tool", line, tool=call))
        self.calls[block.id] = self.open[block.id] = index
        if call.kind == "agent":
            self.background.started(block.id, "agent", call.detail, index + 1)

    def _result(self, message: Message) -> None:
        index = self.calls.get(message.toolCallId)
        if index is None:
            self.lines.unknown["toolResult without a call"] += 1
            return
        self.open.pop(message.toolCallId, None)
        entry = self.slots[index].entry
        call = entry.tool
        assert call is not None
        output, code = plain(message.content), None
        status: ToolStatus = "error" if message.isError else "ok"
        if message.isError and output.rstrip().endswith(_ABORTED):
            status = "aborted"
        elif call.kind == "shell":
            output, code = shell_result(output, message.isError)
        size = len(output)
        put(call, "output", output if size <= self.keep else clip(output, self.keep))
        put(call, "output_size", size)
        put(call, "exit_code", code)
        put(call, "status", status)
        if call.kind == "todo":
            put(call, "todos", todos_of(message.details) or call.todos)
        if call.kind == "agent":
            self.background.ended(call.id, failed=message.isError)

    def _user_command(self, line: Line, message: Message) -> None:
        status: ToolStatus = "error" if message.exitCode else "ok"
        call = ToolCall(
            id=line.id,
            name="!",
            kind="shell",
            command=message.command,
            output=clip(message.output, self.keep),
            output_size=len(message.output),
            exit_code=message.exitCode,
            status="aborted" if message.cancelled else status,
        )
        self._add(self._entry("tool", line, origin="command", tool=call))

    def _settle(self, status: ToolStatus) -> None:
        """The conversation went on: calls that got no result will never get one."""
        for index in self.open.values():
            if call := self.slots[index].entry.tool:
                put(call, "status", status)
                self.background.ended(call.id, failed=True)
        self.open.clear()

    def _on_custom_message(self, line: Line) -> None:
        text = plain(line.content)
        if line.customType == "handoff":
            self._add(self._entry("user", line, text, "handoff"))
        else:
            self._notice("context", f"{line.customType}: {text}")

    def _on_compaction(self, line: Line) -> None:
        entry = self._entry("compaction", line, line.summary or "", "harness")
        kept = self.tree.index.get(line.firstKeptEntryId or "", -1)
        at = line.firstKeptEntryIndex
        if at is not None and 0 <= at < len(self.numbered):
            kept = self.numbered[at]
        if kept >= 0:
            first = next((s.entry.ref for s in self.slots if s.node >= kept), 0)
            entry = replace(entry, kept_from=first)
        self._add(entry)

    def _on_branch_summary(self, line: Line) -> None:
        self.notices.append(
            (self.node, Notice(after=len(self.slots), kind="context", text=line.summary or ""))
        )

    def _on_model_change(self, line: Line) -> None:
        self.model = model_name(line) or self.model

    def _on_thinking_level_change(self, line: Line) -> None:
        self.thinking = line.thinkingLevel or ""

    def _on_session_info(self, line: Line) -> None:
        self.name = line.name or ""

    def _on_title_change(self, line: Line) -> None:
        self.name = line.title or self.name

    def _on_context_edit(self, line: Line) -> None:
        target = self.tree.index.get(line.targetId, -1)
        if bytes(line.replacement) == b"null" and target >= 0:
            self.removed.add(target)

    # -- the whole ---------------------------------------------------------------------

    def _thread(self) -> Thread:
        header = self.header
        if header is None:
            raise ThreadUnreadable(_why_unreadable(self.path, self.lines))
        active = self.tree.branch()
        live = [s for s in self.slots if active[s.node] and s.node not in self.removed]
        notices = [n for node, n in self.notices if node < 0 or active[node]]
        usage = self.usage
        return Thread(
            harness=self.harness,
            id=header.id,
            path=str(self.path),
            cwd=header.cwd,
            model=self.model,
            thinking=self.thinking,
            version=str(header.version or 1),
            tools=tuple(self.tool_names),
            name=self.name,
            parent=header.parentSession or header.branchedFrom or "",
            started=header.timestamp,
            updated=self.updated,
            context_tokens=context_tokens(usage) if usage else None,
            entries=tuple(mark_compacted([s.entry for s in live])),
            notices=tuple(notices),
            background=self.background.items(),
            skills=tuple(name for node, name in self.skills if active[node]),
            aborted=bool(notices)
            and notices[-1].kind == "interrupted"
            and notices[-1].after == len(self.slots),
            abandoned=len(self.slots) - len(live),
            sources=(str(self.path),),
            report=self.lines.report(),
        )


def _why_unreadable(path: Path, lines: Lines) -> str:
    if lines.truncated or lines.broken:
        return f"{path} holds no header of a pi session: it is cut off or damaged."
    return f"{path} holds no pi session."
