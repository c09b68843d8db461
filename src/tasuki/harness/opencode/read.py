"""Read threads of opencode 1.18, from its database or from an export."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import force_setattr as put
from msgspec.structs import replace

from tasuki.harness.opencode import format as record
from tasuki.harness.opencode import store
from tasuki.harness.opencode.format import OpencodeMessage, OpencodePart
from tasuki.harness.opencode.store import OpencodeRow, StoredSession
from tasuki.harness.reading.answers import OfferedQuestion, format_answers
from tasuki.harness.reading.jsonl import KEEP_HUGE, ThreadLines, clip, decode_part
from tasuki.harness.reading.threads import NoticeKind, ThreadReader
from tasuki.harness.tool_table import tools
from tasuki.harness.tool_table.calls import CallLog
from tasuki.model import Entry, EntryKind, Notice, Sidechain, Thread, ToolCall, ToolStatus

KEEP = 60_000
"""Characters kept of a tool result.

opencode itself cuts results at 50 KB, and a database cannot be searched for what was left
out here.
"""
LARGE = 64 << 20
"""Bytes of a thread above which less is kept of each result."""
_GOES_ON = (
    "opencode 2 went on with this thread in tables of its own, which are not read: newer words and "
    "work are not in this brief."
)
_USER_SHELL = "The following tool was executed by the user"
_REFUSED = ("The user rejected permission", "The user dismissed this question")
_FEEDBACK = "with the following feedback: "
_STOPPED = "User aborted the command"
_STATUS: dict[str, ToolStatus] = {"completed": "ok", "error": "error"}


class _OpenMessage(Struct):
    """A message whose parts may still come."""

    message: OpencodeMessage
    row: OpencodeRow
    entry: Entry | None = None
    """What the user said in it."""
    by_user: bool = False
    """Its calls are shell commands that the user ran."""
    left: bool = False
    """The user went back to before it."""


class OpencodeReader(ThreadReader):
    """One pass over the rows of one session, in the order of their creation.

    Refs are given in that order, so what is written later never changes earlier numbers.
    """

    harness = "opencode"

    def __init__(self, path: Path, database: Path, stored: StoredSession) -> None:
        size = sum(len(row.data) for row in stored.rows)
        super().__init__(ThreadLines(path), CallLog(KEEP_HUGE if size > LARGE else KEEP))
        self.lines.bytes, self.database = size, database
        self.stored, self.session, self.rows = stored, stored.session, stored.rows
        self.messages: dict[str, _OpenMessage] = {}
        self.owners: list[str] = []
        """The message of each entry."""
        self.tails: dict[str, str] = {}
        """Message that is still in view after a compaction, by the message that asked for it."""
        self.tail_of_next = ""
        """The same of a compaction that has no summary yet."""
        self.answers: list[tuple[int, OpencodeRow, str]] = []
        self.reverted = False
        self.agents: dict[str, str] = {}
        """Calls of sub-agents that work in the background, by the id of their session."""
        self.replied: _OpenMessage | None = None

    def read(self) -> Thread:
        self.lines.number = 1
        for row in self.rows:
            if not row.deleted:
                self.lines.number += 1
            self._add_answers(row.moment)
            if row.message:
                self._read_part(row)
            else:
                self._read_message(row)
        self._add_answers(None)
        self._settle_open_calls()
        return self._build_thread()

    # -- entries -----------------------------------------------------------------------

    def _add_row(
        self, kind: EntryKind, row: OpencodeRow, *parts: Any, moment: int = 0, **more: Any
    ) -> Entry:
        """Add the entry of a row, as `add_entry` takes it."""
        self.id, self.at = row.id, format_iso((moment or row.moment) >> 12)
        if self.reverted or row.deleted:
            self.left.add(len(self.entries))
        self.owners.append(row.message)
        return self.add_entry(kind, *parts, **more)

    def _add_answers(self, moment: int | None) -> None:
        """Add what the user answered before this moment, while calls waited for it."""
        due = [a for a in self.answers if moment is None or a[0] < moment]
        for answered_at, row, words in sorted(due, key=lambda answer: answer[0]):
            self._add_row("user", row, words, "answer", moment=answered_at)
        if due:
            self.answers = [a for a in self.answers if a not in due]

    # -- messages ----------------------------------------------------------------------

    def _read_message(self, row: OpencodeRow) -> None:
        message = self.lines.decode(record.MESSAGE, row.data + b"\n")
        if message is None:
            return
        if message.role not in ("user", "assistant"):
            self.lines.count_unknown(f"message {message.role or '(no role)'}")
            return
        revert = self.session.revert
        if revert and revert.messageID == row.id and not revert.partID:
            self.reverted = True
        left = self.reverted or row.deleted
        message_state = self.messages[row.id] = _OpenMessage(message, row, left=left)
        if message.role == "assistant":
            parent = self.messages.get(message.parentID)
            message_state.by_user = parent is not None and parent.by_user
            if not message_state.by_user and not left:
                self._record_reply(message_state)

    def _record_reply(self, message_state: _OpenMessage) -> None:
        message = message_state.message
        self.replied = message_state
        self.context_tokens = message.tokens.context or self.context_tokens
        if bytes(message.summary) != b"true" and message.modelID:
            provider = message.providerID
            self.model = f"{provider}/{message.modelID}" if provider else message.modelID
            self.thinking = message.variant or ""

    def _is_at_work(self, row: OpencodeRow) -> bool:
        """Tell whether the agent was still at work when a message of the user came."""
        if self.replied is None or self.replied.message.error is not None:
            return False
        reply = self.replied.message
        ended = reply.time.completed
        return reply.finish == "tool-calls" or (ended is not None and ended > row.moment >> 12)

    # -- parts -------------------------------------------------------------------------

    def _read_part(self, row: OpencodeRow) -> None:
        part = self.lines.decode(record.PART, row.data + b"\n")
        if part is None:
            return
        revert = self.session.revert
        if revert and revert.partID and revert.partID == row.id:
            self.reverted = True
        message = self.messages.get(row.message)
        if part.type not in record.KNOWN_PARTS:
            self.lines.count_unknown(f"part {part.type or '(no type)'}", has_words=part.text)
        elif message is None:
            self.lines.count_unknown("part without a message")
        elif part.type == "tool":
            self._add_call(message, row, part)
        elif part.type == "compaction":
            self.tails[row.message] = self.tail_of_next = part.tail_start_id or ""
        elif part.type == "subtask":
            self._add_prompt(message, row, f"/{part.command}" if part.command else part.prompt)
        elif part.type == "text" and (part.text or "").strip():
            self._read_text(message, row, part)

    def _read_text(self, message: _OpenMessage, row: OpencodeRow, part: OpencodePart) -> None:
        text = part.text or ""
        if message.message.role == "assistant":
            self._add_reply(message, row, text)
        elif part.synthetic:
            self._read_synthetic(message, row, text)
        elif not part.ignored:
            self._add_prompt(message, row, text)

    def _add_reply(self, message: _OpenMessage, row: OpencodeRow, text: str) -> None:
        if bytes(message.message.summary) != b"true":
            self._add_row("assistant", row, text)
        elif message.message.is_compaction:
            entry = self._add_row("compaction", row, text, "harness")
            self.tail_of_next = ""
            if tail := self.tails.get(message.message.parentID):
                put(entry, "kept_from", self._find_first_ref(tail))

    def _find_first_ref(self, message: str) -> int:
        """Return the ref of the first entry of a message, or of one after it; 0 for none."""
        first_message = self.messages.get(message)
        if first_message is None:
            return 0
        starts = enumerate(map(self._find_start, self.owners), 1)
        return next((ref for ref, start in starts if start >= first_message.row.moment), 0)

    def _find_start(self, message: str) -> int:
        found = self.messages.get(message)
        return found.row.moment if found else 0

    def _add_prompt(self, message: _OpenMessage, row: OpencodeRow, text: str) -> None:
        if message.entry is not None:
            put(message.entry, "text", f"{message.entry.text}\n{text}")
            return
        text, skill = record.restore_skill_call(text)
        if skill:
            self.log.skills.append(skill)
        origin, text = self.lines.gate.judge(text, queued=self._is_at_work(message.row))
        message.entry = self._add_row("user", row, text, origin)

    def _read_synthetic(self, message: _OpenMessage, row: OpencodeRow, text: str) -> None:
        """Read what opencode itself says in the user's name."""
        if text.startswith(_USER_SHELL):
            message.by_user = True
            return
        self.lines.gate.log.find(text)
        if text.startswith("<task id="):
            head = text[: text.find(">")]
            call = self.agents.get(head.partition('"')[2].partition('"')[0], "")
            self.log.background.record_end(call, failed='state="error"' in head)
        self._add_row("user", row, clip(text, self.log.keep), "harness")

    def _add_call(self, message: _OpenMessage, row: OpencodeRow, part: OpencodePart) -> None:
        state = part.state or record.OpencodeToolState()
        given = tools.read_input(state.input)
        metadata = decode_part(record.METADATA, state.metadata, record.OpencodeMetadata())
        name, is_new = part.tool or "tool", not metadata.exists
        call = tools.build_tool_call(part.callID, name, given, creates=is_new)
        output = (state.error if state.status == "error" else state.output) or ""
        status = _find_status(call.kind, state, metadata, output)
        code = metadata.exit if call.kind == "shell" else None
        if message.by_user:
            put(call, "name", "!")
            if status == "ok" and code is None:
                status = "unknown"  # opencode does not record how it ended.
            self._add_row("tool", row, origin="command", tool=call)
            self.log.finish(call, output, status, code)
            return
        self.log.add(self._add_row("tool", row, tool=call), given)
        if call.kind == "agent" and status == "ok" and 'state="running"' in output[:200]:
            put(call, "background", metadata.sessionId)
            self.agents[metadata.sessionId] = call.id
        self.log.finish(call, output, status, code)
        if words := _find_answer(call, self.log.questions.get(call.id, ()), metadata):
            ended = state.time.end
            self.answers.append((int(ended) << 12 if ended else row.moment, row, words))

    # -- the whole ---------------------------------------------------------------------

    def _settle_open_calls(self) -> None:
        """Settle open calls when the conversation goes on: they will never get a result."""
        last = self.replied.row.moment if self.replied else 0
        for entry, owner in zip(self.entries, self.owners, strict=True):
            call = entry.tool
            if call and call.status == "running" and self._find_start(owner) < last:
                put(call, "status", "unknown")
                self.log.background.record_end(call.id, failed=True)

    def _note_errors(self) -> None:
        """Note the errors of messages, in the order of the entries that they follow."""
        ends = {owner: ref for ref, owner in enumerate(self.owners, 1)}
        for id, message in self.messages.items():
            error = message.message.error
            if error is None or message.left:
                continue
            starts = enumerate(map(self._find_start, self.owners), 1)
            before = (ref for ref, start in starts if start < message.row.moment)
            after = ends.get(id) or max(before, default=0)
            stopped = error.name == "MessageAbortedError"
            kind: NoticeKind = "interrupted" if stopped else "error"
            data = decode_part(record.ERROR_DATA, error.data, record.OpencodeErrorData())
            text = data.message[:300] or error.name
            self.notices.append(Notice(after, kind, text))
            if not stopped:
                moment = format_iso(message.row.moment >> 12)
                self.failure.note_error(data.responseBody or text, moment, after)
        self.notices.sort(key=lambda notice: notice.after)

    def _build_thread(self) -> Thread:
        session = self.session
        self._note_errors()
        created, updated = map(store.parse_number, (session.time.created, session.time.updated))
        started = created or min((r.moment >> 12 for r in self.rows), default=0)
        last = max((e.ref for e in self.choose_entries()), default=0)
        ends = [notice.kind for notice in self.notices[-1:] if notice.after >= last]
        return self.build_thread(
            session.id,
            cwd=session.directory,
            version=session.version,
            name=record.choose_name(session.title),
            parent=session.parentID or "",
            started=format_iso(started),
            updated=format_iso(max(updated, started)),
            keeps_from=self._find_first_ref(self.tail_of_next) if self.tail_of_next else 0,
            sidechains=tuple(
                Sidechain(id=id, path=str(self.database / id), label=title)
                for id, title in self.stored.children
            ),
            aborted=ends == ["interrupted"],
            sources=(str(self.database),),
            report=replace(
                self.lines.build_report(), lacks_end=_GOES_ON if self.stored.goes_on else ""
            ),
        )


def format_iso(milliseconds: int) -> str:
    """Format a time as ISO 8601 in UTC; the epoch for an impossible one."""
    try:
        moment = datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        moment = datetime.fromtimestamp(0, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _find_answer(
    call: ToolCall, questions: Sequence[OfferedQuestion], metadata: record.OpencodeMetadata
) -> str:
    """Return what the user says in a result: answers, or the words with which they refused."""
    if call.status == "refused":
        is_own = tools.is_own_tool(call.name)  # A server of MCP could say so, too.
        return call.output.partition(_FEEDBACK)[2].strip() if is_own else ""
    answers = [", ".join(choices) for choices in metadata.answers]
    return format_answers(questions, answers) if call.kind == "ask" else ""


def _find_status(
    kind: str, state: record.OpencodeToolState, metadata: record.OpencodeMetadata, output: str
) -> ToolStatus:
    status = _STATUS.get(state.status, "running")
    if status == "error" and output.startswith(_REFUSED):
        return "refused"
    is_shell = kind == "shell"
    if metadata.interrupted or (is_shell and _STOPPED in output[-200:] and metadata.exit is None):
        return "aborted"
    return "error" if metadata.exit and is_shell and status == "ok" else status
