"""Read threads of Claude Code (2.0 and 2.1): one JSON object a line, linked into a tree."""

from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

from tasuki.harness.claude import format as record
from tasuki.harness.claude.tool_calls import ClaudeCallLog
from tasuki.harness.claude.tree import hash_id
from tasuki.harness.claude.user_rows import ClaudeUserRows
from tasuki.harness.reading.jsonl import UNDECODABLE, ThreadLines, decode_part, extract_text
from tasuki.harness.reading.records import may_be_damaged
from tasuki.harness.tool_table.tools import fold_input, read_input
from tasuki.model import Entry, Notice, Sidechain, Thread
from tasuki.patterns import compile_pattern

_SKIM_TYPE = compile_pattern(rb'\A\{"type": ?"([a-z-]+)"')
_SKIPPED_BYTES = frozenset(name.encode() for name in record.SKIPPED)
_TYPE = b'"type":"'
_RESULT = b',"toolUseResult":'
_CONTENT_KEY, _TEXT_KEY = b'"content":[{', b'"content":"'
_SPECIAL = (
    b'"Async agent',
    b'"Command running',
    b'"Monitor started',
    b'"<persisted-output>',
    b'"\\',
)
"""Beginnings of results that are read at once; what begins with an escape may be one of them."""
_UNMARKED = "message(s) without a mark of who wrote them are not taken for the user's words"


class ClaudeReader(ClaudeUserRows):
    """One pass over one file; with `follows` one more for what was appended.

    A fast path each reads lines of the three kinds that are most of a thread. What it refuses,
    and all other lines, are decoded as a whole.
    """

    def __init__(self, path: Path, *, leaves_outputs: bool = False, follows: bool = False) -> None:
        super().__init__(
            ThreadLines(path, follows=follows), ClaudeCallLog(path, leaves_outputs=leaves_outputs)
        )
        self.leaves_outputs, self.ready = leaves_outputs, False
        """The first lines are decoded as a whole until id and folder are known."""
        self.branch = ""
        self.summaries: list[tuple[str, str]] = []
        self.usage: record.ClaudeUsage | None = None
        self.build_handlers()

    def build_handlers(self) -> None:
        self.fast_paths: dict[bytes, Callable[[bytes], bool]] = {
            b"assistant": self._read_reply_line,
            b'message",': self._read_reply_line,
            b'user","me': self._read_result_line,
            b'progress"': self._skip_line,
        }
        """The key is the first type that a line names: its own, or that of its message."""
        self.handlers: dict[str, Callable[[record.ClaudeLine], None]] = {
            "assistant": self._on_assistant,
            "user": self._on_user,
            "system": self._on_system,
            "attachment": self._on_attachment,
            "queue-operation": self._on_queue_operation,
            "custom-title": self._on_title,
            "ai-title": self._on_title,
            "summary": self._on_summary,
        }

    def read(self) -> Thread:
        fast_paths, lines = self.fast_paths, self.lines
        for offset, line in lines:
            self.offset = offset
            start = line.find(_TYPE) + 8
            fast_path = fast_paths.get(line[start : start + 9])
            if fast_path is None or lines.is_recovered or not fast_path(line):
                self._take_line(line)
        self.log.copied = record.NO_COPY
        thread = self._build_thread()
        if not lines.follows:
            # Their methods hold the reader, which else would stay until the next search for cycles.
            fast_paths.clear()
            self.handlers.clear()
        return thread

    # -- the fast paths: True if they read the line ------------------------------------

    def _read_reply_line(self, line: bytes) -> bool:
        try:
            parsed = record.REPLY.decode(line)
        except UNDECODABLE:
            return False
        if parsed.isApiErrorMessage or parsed.isSidechain or not self.ready:
            return False
        if not self._place_line(parsed):
            return True
        message = parsed.message
        content = message.content
        if len(content) == 1 and content[0].type == "thinking":
            return True  # Like progress, it shows nothing but its place.
        self._record_state(parsed)
        self._record_reply(message.model, message.usage)
        log, offset, node = self.log, self.offset, len(self.uuids) - 1
        for block in content:
            if block.type == "tool_use":
                given = fold_input(block.input)
                log.add_call(block.id, block.name, given, parsed, offset, node, message.id)
            elif block.type == "text" and block.text.strip():
                log.add_entry("assistant", block.text, parsed, offset, node, message.id)
        return True

    def _place_line(self, parsed: record.ClaudeReplyLine | record.ClaudeResultLine) -> bool:
        """Place a line in the tree; False for one that was read before."""
        tree, parent = self.tree, parsed.parentUuid
        is_older = parent != tree.last and parsed.timestamp <= self.updated
        if is_older and not tree.follows(parent) and tree.is_repeated(parsed.uuid):
            return False
        tree.add_line(parsed.uuid, parent)
        return True

    def _skip_line(self, line: bytes) -> bool:
        """Skip a line that says nothing of the conversation."""
        return self.ready and not may_be_damaged(line)

    def _read_result_line(self, line: bytes) -> bool:
        """Read a line of results alone; their copy for the screen behind them is not decoded."""
        cut = self._find_copy(line, _RESULT)
        try:
            parsed = record.RESULTS.decode(line[:cut] + b"}" if cut > 0 else line)
        except UNDECODABLE:
            return False
        if parsed.isSidechain or not self.ready:
            return False
        blocks = parsed.message.content
        if self.leaves_outputs and len(blocks) == 1 and self._leave_result(line, blocks[0]):
            self.tree.add_line(parsed.uuid, parsed.parentUuid)
            self._record_state(parsed)
            return True
        try:
            outputs = [extract_text(record.CONTENT.decode(b.content)) for b in blocks]
        except UNDECODABLE:
            return False
        if not self._place_line(parsed):
            return True
        self._record_state(parsed)
        for block, output in zip(blocks, outputs, strict=True):
            self.log.add_result(block.tool_use_id, output, block.is_error, parsed, self.offset)
        return True

    def _leave_result(self, line: bytes, block: record.ClaudeResultBlock) -> bool:
        """Leave the text of a result in the file; False where it is needed now, or is elsewhere."""
        size = len(memoryview(block.content))
        start = line.find(_TEXT_KEY, line.find(_CONTENT_KEY)) + len(_TEXT_KEY) - 1
        is_plain = (
            not block.is_error
            and size > 2
            and line.startswith(bytes(block.content), start)
            and not line.startswith(_SPECIAL, start)
        )
        return is_plain and self.log.leave_unread(block.tool_use_id, self.offset + start, size)

    def _find_copy(self, line: bytes, mark: bytes) -> int:
        """Find where the copy of a result for the screen begins, for what it alone says of the call.

        0 where another row may begin in the line: then it is decoded as a whole.
        """
        cut = line.find(mark)
        if cut > 0 and may_be_damaged(line, cut):
            cut = 0
        self.log.copied = record.CopiedFacts(line, max(cut, 0))
        return cut

    def _record_state(
        self, line: record.ClaudeReplyLine | record.ClaudeResultLine | record.ClaudeLine
    ) -> None:
        """Keep what shows the state at the end."""
        self.updated = line.timestamp or self.updated
        self.branch = line.gitBranch or self.branch
        self.version = line.version or self.version

    def _record_reply(self, model: str, usage: record.ClaudeUsage | None) -> None:
        if model and model != "<synthetic>":
            self.model = model
            self.usage = usage or self.usage

    # -- any line ----------------------------------------------------------------------

    def _take_line(self, text: bytes) -> None:
        line = self._parse_line(text)
        if line is None or line.isSidechain:
            return
        self.id, self.at = line.uuid, line.timestamp
        if line.uuid:
            parent = line.parentUuid or line.logicalParentUuid
            is_older = line.timestamp <= self.updated and not self.tree.follows(parent)
            if is_older and self.tree.is_repeated(line.uuid):
                return
            self.tree.add_line(line.uuid, parent)
            self._record_meta(line)
        if (handler := self.handlers.get(line.type)) is not None:
            handler(line)
        elif line.type not in record.SKIPPED:
            self.lines.count_unknown(line.type, has_words=line.message)

    def _parse_line(self, line: bytes) -> record.ClaudeLine | None:
        """Parse one line; None if it contributes nothing or is broken."""
        skim = _SKIM_TYPE.match(line)
        if skim and skim[1] in _SKIPPED_BYTES and not may_be_damaged(line):
            return None
        try:
            if (cut := self._find_copy(line, b'"toolUseResult":')) > 0:
                parsed = record.LINE.decode(line[:cut].rstrip(b", ") + b"}")
                if parsed.uuid:
                    return parsed
            return record.LINE.decode(line)
        except UNDECODABLE:
            return self.lines.decode(record.LINE, line)

    def _record_meta(self, line: record.ClaudeLine) -> None:
        """Keep what the head of the thread needs: mostly the first line and the last."""
        if "id" not in self.meta:
            self.meta["started"] = line.timestamp
            self.meta["id"] = line.sessionId
        if line.cwd and "cwd" not in self.meta:
            self.meta["cwd"] = line.cwd
            self.ready = True
        self._record_state(line)
        if line.thinkingMetadata and line.thinkingMetadata.level:
            self.meta["thinking"] = line.thinkingMetadata.level

    # -- lines by type -----------------------------------------------------------------

    def _on_assistant(self, line: record.ClaudeLine) -> None:
        message = line.message
        if message is None:
            return
        if line.isApiErrorMessage:
            text = extract_text(message.content)
            self.notices.append(Notice(len(self.entries), "error", text))
            code = record.decode_text(line.apiError) or record.decode_text(line.error)
            resets = decode_part(record.QUOTA, line.quotaLimits, record.ClaudeQuota()).resetsAt
            after = len(self.entries)
            self.failure.note_error(text, line.timestamp, after, code=code, resets_at=resets)
            return
        self._record_reply(message.model, message.usage)
        blocks = message.content
        if isinstance(blocks, str):
            blocks = [record.ClaudeBlock(type="text", text=blocks)]
        for block in blocks or ():
            if block.type == "text" and block.text.strip():
                self.add_entry("assistant", block.text, message=message.id)
            elif block.type == "tool_use":
                node, given = len(self.uuids) - 1, read_input(block.input)
                self.log.add_call(block.id, block.name, given, line, self.offset, node, message.id)

    def _on_title(self, line: record.ClaudeLine) -> None:
        own = line.type == "custom-title"
        self.meta["title" if own else "ai_title"] = line.customTitle if own else line.aiTitle

    def _on_summary(self, line: record.ClaudeLine) -> None:
        self.summaries.append((line.leafUuid or "", line.summary))

    def _find_summary(self) -> str:
        """Find the newest summary of this thread: files also begin with those of other threads."""
        uuids = set(self.tree.uuids) if self.summaries else set()
        own = (
            text for leaf, text in reversed(self.summaries) if not leaf or hash_id(leaf) in uuids
        )
        return next(own, "")

    # -- the whole ---------------------------------------------------------------------

    def _build_thread(self) -> Thread:
        meta, log, usage = self.meta, self.log, self.usage
        if "id" not in meta:
            raise self.lines.build_error(
                "complete line of a Claude Code thread", "conversation of Claude Code"
            )
        self._settle_senders()
        self.lacking = tuple(log.lacking)
        agents = sorted((self.path.with_suffix("") / "subagents").glob("agent-*.jsonl"))
        notes = [f"{len(self.queued)} queued message(s) never sent"] if self.queued else []
        notes += [f"{self.unmarked} {_UNMARKED}"] if self.unmarked else []
        report = self.lines.build_report(notes)
        return self.build_thread(
            self.path.stem if len(self.path.stem) == 36 else meta["id"],
            cwd=meta.get("cwd", ""),
            git_branch=self.branch,
            git_head=meta.get("head", ""),
            thinking=meta.get("thinking", ""),
            name=meta.get("title") or meta.get("ai_title") or self._find_summary(),
            started=meta["started"],
            context_tokens=record.count_context_tokens(usage) if usage else None,
            sidechains=tuple(Sidechain(f.stem[6:], str(f)) for f in agents if f.stat().st_size),
            artifacts=tuple(log.artifacts),
            sources=(str(self.path), *log.persisted),
            report=replace(report, lacks_beginning=self.tree.lacks_beginning()),
        )

    def choose_entries(self) -> list[Entry]:
        return self.log.select_branch(self.tree.find_branch())
