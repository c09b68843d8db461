"""Read threads of opencode 1.18, from its database or from an export."""

from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import force_setattr as put
from msgspec.structs import replace

from tasuki.harness.opencode import format as record
from tasuki.harness.opencode.format import OpencodeMessage, OpencodePart
from tasuki.harness.opencode.store import OpencodeRow, StoredSession
from tasuki.harness.opencode.tool_calls import build_tool_call, find_answer, read_result
from tasuki.harness.reading.jsonl import (
    KEEP_HUGE,
    UNDECODABLE,
    ThreadLines,
    clip,
    decode_nested,
    mark_compacted,
)
from tasuki.harness.reading.usage_limits import LimitRecord
from tasuki.harness.tool_table.calls import CallLog
from tasuki.harness.tool_table.tools import read_input
from tasuki.model import Entry, EntryKind, Notice, Origin, Sidechain, Thread, ToolCall

T = TypeVar("T")
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


class _EntrySlot(Struct):
    """An entry, and the message it belongs to."""

    entry: Entry
    message: str
    left: bool


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


class OpencodeReader:
    """One pass over the rows of one session, in the order of their creation.

    Refs are given in that order, so what is written later never changes earlier numbers.
    """

    def __init__(self, path: Path, source: Path, stored: StoredSession) -> None:
        self.path, self.source = path, source
        self.session, self.rows = stored.session, stored.rows
        self.lines = ThreadLines(path)
        self.lines.bytes = sum(len(row.data) for row in self.rows)
        self.log = CallLog(KEEP_HUGE if self.lines.bytes > LARGE else KEEP)
        self.messages: dict[str, _OpenMessage] = {}
        self.slots: list[_EntrySlot] = []
        self.tails: dict[str, str] = {}
        """Message that is still in view after a compaction, by the message that asked for it."""
        self.tail_of_next = ""
        """The same of a compaction that has no summary yet."""
        self.answers: list[tuple[int, OpencodeRow, str]] = []
        self.reverted = False
        self.limit = LimitRecord()
        self.agents: dict[str, str] = {}
        """Calls of sub-agents that work in the background, by the id of their session."""
        self.model = self.thinking = ""
        self.context: int | None = None
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

    def _decode_row(self, decoder: "msgspec.json.Decoder[T]", data: bytes) -> T | None:
        try:
            return decoder.decode(data)
        except UNDECODABLE:
            return self.lines.decode(decoder, data + b"\n")

    # -- entries -----------------------------------------------------------------------

    def _add_entry(
        self,
        kind: EntryKind,
        row: OpencodeRow,
        text: str = "",
        origin: Origin = "typed",
        tool: ToolCall | None = None,
        moment: int = 0,
    ) -> Entry:
        entry = Entry(
            ref=len(self.slots) + 1,
            kind=kind,
            text=text,
            at=format_iso((moment or row.moment) >> 12),
            id=row.id,
            origin=origin,
            tool=tool,
        )
        self.slots.append(_EntrySlot(entry, row.message, self.reverted or row.deleted))
        return entry

    def _add_answers(self, moment: int | None) -> None:
        """Add what the user answered before this moment, while calls waited for it."""
        due = [a for a in self.answers if moment is None or a[0] < moment]
        for answered_at, row, words in sorted(due, key=lambda answer: answer[0]):
            self._add_entry("user", row, words, "answer", moment=answered_at)
        if due:
            self.answers = [a for a in self.answers if a not in due]

    # -- messages ----------------------------------------------------------------------

    def _read_message(self, row: OpencodeRow) -> None:
        message = self._decode_row(record.MESSAGE, row.data)
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
        self.context = message.tokens.context or self.context
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
        part = self._decode_row(record.PART, row.data)
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
            self._add_entry("assistant", row, text)
        elif message.message.is_compaction:
            entry = self._add_entry("compaction", row, text, "harness")
            self.tail_of_next = ""
            if tail := self.tails.get(message.message.parentID):
                put(entry, "kept_from", self._find_first_ref(tail))

    def _find_first_ref(self, message: str) -> int:
        """Return the ref of the first entry of a message, or of one after it; 0 for none."""
        first_message = self.messages.get(message)
        if first_message is None:
            return 0
        later = (
            s.entry.ref
            for s in self.slots
            if self._find_start(s.message) >= first_message.row.moment
        )
        return next(later, 0)

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
        message.entry = self._add_entry("user", row, text, origin)

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
        self._add_entry("user", row, clip(text, self.log.keep), "harness")

    def _add_call(self, message: _OpenMessage, row: OpencodeRow, part: OpencodePart) -> None:
        state = part.state or record.OpencodeToolState()
        given = read_input(state.input)
        call, metadata = build_tool_call(part, given)
        output, status, code = read_result(call, state, metadata)
        if message.by_user:
            put(call, "name", "!")
            if status == "ok" and code is None:
                status = "unknown"  # opencode does not record how it ended.
            self._add_entry("tool", row, origin="command", tool=call)
            self.log.finish(call, output, status, code)
            return
        self.log.add(self._add_entry("tool", row, tool=call), given)
        if call.kind == "agent" and status == "ok" and 'state="running"' in output[:200]:
            put(call, "background", metadata.sessionId)
            self.agents[metadata.sessionId] = call.id
        self.log.finish(call, output, status, code)
        if words := find_answer(call, self.log.questions.get(call.id, ()), metadata):
            ended = state.time.end
            moment = int(ended) << 12 if ended else row.moment
            self.answers.append((moment, row, words))

    # -- the whole ---------------------------------------------------------------------

    def _settle_open_calls(self) -> None:
        """Settle open calls when the conversation goes on: they will never get a result."""
        last = self.replied.row.moment if self.replied else 0
        for slot in self.slots:
            call = slot.entry.tool
            if call and call.status == "running" and self._find_start(slot.message) < last:
                put(call, "status", "unknown")
                self.log.background.record_end(call.id, failed=True)

    def _build_notices(self) -> tuple[Notice, ...]:
        ends: dict[str, int] = {}
        for slot in self.slots:
            ends[slot.message] = slot.entry.ref
        notices = []
        for id, message in self.messages.items():
            error = message.message.error
            if error is None or message.left:
                continue
            before = (
                s.entry.ref for s in self.slots if self._find_start(s.message) < message.row.moment
            )
            after = ends.get(id) or max(before, default=0)
            stopped = error.name == "MessageAbortedError"
            text, body = _extract_error(error)
            notices.append(Notice(after, "interrupted" if stopped else "error", text))
            if not stopped:
                moment = format_iso(message.row.moment >> 12)
                self.limit.note_error(body or text, moment, after)
        return tuple(sorted(notices, key=lambda n: n.after))

    def _build_thread(self) -> Thread:
        session = self.session
        live = [s.entry for s in self.slots if not s.left]
        notices = self._build_notices()
        started = session.created or min((r.moment >> 12 for r in self.rows), default=0)
        updated = max(session.updated, started)
        last = live[-1].ref if live else 0
        return Thread(
            harness="opencode",
            id=session.id,
            path=str(self.path),
            cwd=session.directory,
            model=self.model,
            thinking=self.thinking,
            version=session.version,
            tools=tuple(self.log.names),
            name=record.choose_name(session.title),
            parent=session.parent,
            started=format_iso(started),
            updated=format_iso(updated),
            context_tokens=self.context,
            entries=tuple(mark_compacted(live)),
            keeps_from=self._find_first_ref(self.tail_of_next) if self.tail_of_next else 0,
            notices=notices,
            background=self.log.background.list_items(),
            sidechains=tuple(
                Sidechain(id=id, path=str(self.source / id), label=title)
                for id, title in session.children
            ),
            skills=tuple(self.log.skills),
            aborted=bool(notices)
            and notices[-1].kind == "interrupted"
            and notices[-1].after >= last,
            abandoned=len(self.slots) - len(live),
            sources=(str(self.source),),
            report=replace(
                self.lines.build_report(), lacks_end=_GOES_ON if session.goes_on else ""
            ),
            limit=self.limit.choose(live),
            documents=tuple(self.lines.gate.log.documents),
        )


def format_iso(milliseconds: int) -> str:
    """Format a time as ISO 8601 in UTC; the epoch for an impossible one."""
    try:
        moment = datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        moment = datetime.fromtimestamp(0, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _extract_error(error: record.OpencodeError) -> tuple[str, str]:
    """Return what an error says, and the body of the provider's response."""
    try:
        data = decode_nested(record.ERROR_DATA, error.data)
    except UNDECODABLE:
        return error.name, ""
    return data.message[:300] or error.name, data.responseBody or ""
