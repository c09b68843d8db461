"""Reading threads of opencode 1.18, from its database or from an export."""

from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import force_setattr as put

from tasuki.harness import tools
from tasuki.harness.jsonl import (
    KEEP_HUGE,
    UNDECODABLE,
    Lines,
    begins_handoff,
    clip,
    mark_compacted,
    nested,
)
from tasuki.harness.opencode import format as record
from tasuki.harness.opencode.calls import answer_in, skill_of, tool_call
from tasuki.harness.opencode.format import Message, Part
from tasuki.harness.opencode.store import Found, Row
from tasuki.model import Entry, EntryKind, Notice, Origin, Sidechain, Thread, ToolCall

T = TypeVar("T")
KEEP = 60_000
"""Characters kept of a tool result. opencode itself cuts them at 50 KB, and a database cannot be
searched for what was left out here."""
LARGE = 64 << 20
"""Bytes of a thread from which on less is kept of each."""
_USER_SHELL = "The following tool was executed by the user"
_BASE = "\nBase directory for this skill: "
_UNNAMED = ("New session - ", "Child session - ")


class _Slot(Struct):
    """An entry, and the message it belongs to."""

    entry: Entry
    message: str
    left: bool


class _Said(Struct):
    """A message whose parts may still come."""

    message: Message
    row: Row
    entry: Entry | None = None
    """What the user said in it."""
    by_user: bool = False
    """Its calls are shell commands that the user ran."""
    left: bool = False
    """The user went back to before it."""


class Reader:
    """One pass over the rows of one session, in the order they came to be.

    Refs are given in that order, so what is written later never renumbers what was there.
    """

    def __init__(self, path: Path, source: Path, found: Found) -> None:
        self.path, self.source = path, source
        self.session, self.rows = found.session, found.rows
        self.lines = Lines(path)
        self.lines.bytes = sum(len(row.data) for row in self.rows)
        self.keep = KEEP_HUGE if self.lines.bytes > LARGE else KEEP
        self.said: dict[str, _Said] = {}
        self.slots: list[_Slot] = []
        self.tails: dict[str, str] = {}
        """Message that is still in view after a compaction, by the message that asked for it."""
        self.answers: list[tuple[int, Row, str]] = []
        self.reverted = False
        self.background = tools.BackgroundLog()
        self.agents: dict[str, str] = {}
        """Calls of sub-agents that work in the background, by the id of their session."""
        self.skills: list[str] = []
        self.tool_names: dict[str, None] = {}
        self.model = self.thinking = ""
        self.context: int | None = None
        self.replied: _Said | None = None

    def read(self) -> Thread:
        self.lines.number = 1
        for row in self.rows:
            if not row.deleted:
                self.lines.number += 1
            self._answer(row.moment)
            if row.message:
                self._part(row)
            else:
                self._message(row)
        self._answer(None)
        self._settle()
        return self._thread()

    def _decoded(self, decoder: "msgspec.json.Decoder[T]", data: bytes) -> T | None:
        try:
            return decoder.decode(data)
        except UNDECODABLE:
            return self.lines.decode(decoder, data + b"\n")

    # -- entries -----------------------------------------------------------------------

    def _add(
        self, kind: EntryKind, row: Row, text: str = "", origin: Origin = "typed",
        tool: ToolCall | None = None, moment: int = 0,
    ) -> Entry:  # fmt: skip
        entry = Entry(
            ref=len(self.slots) + 1,
            kind=kind,
            text=text,
            at=iso((moment or row.moment) >> 12),
            id=row.id,
            origin=origin,
            tool=tool,
        )
        self.slots.append(_Slot(entry, row.message, self.reverted or row.deleted))
        return entry

    def _answer(self, moment: int | None) -> None:
        """Take in what the user answered before this moment, while calls were waiting for it."""
        due = [a for a in self.answers if moment is None or a[0] < moment]
        for at, row, words in sorted(due, key=lambda answer: answer[0]):
            self._add("user", row, words, "answer", moment=at)
        if due:
            self.answers = [a for a in self.answers if a not in due]

    # -- messages ----------------------------------------------------------------------

    def _message(self, row: Row) -> None:
        message = self._decoded(record.MESSAGE, row.data)
        if message is None:
            return
        if message.role not in ("user", "assistant"):
            self.lines.unknown[f"message {message.role or '(no role)'}"] += 1
            return
        revert = self.session.revert
        if revert and revert.messageID == row.id and not revert.partID:
            self.reverted = True
        left = self.reverted or row.deleted
        said = self.said[row.id] = _Said(message, row, left=left)
        if message.role == "assistant":
            parent = self.said.get(message.parentID)
            said.by_user = parent is not None and parent.by_user
            if not said.by_user and not left:
                self._replied(said)

    def _replied(self, said: _Said) -> None:
        message = said.message
        self.replied = said
        self.context = message.tokens.context or self.context
        if bytes(message.summary) != b"true" and message.modelID:
            by = message.providerID
            self.model = f"{by}/{message.modelID}" if by else message.modelID
            self.thinking = message.variant or ""

    def _at_work(self, row: Row) -> bool:
        """Whether the agent was still at work when a message of the user came."""
        if self.replied is None or self.replied.message.error is not None:
            return False
        reply = self.replied.message
        ended = reply.time.completed
        return reply.finish == "tool-calls" or (ended is not None and ended > row.moment >> 12)

    # -- parts -------------------------------------------------------------------------

    def _part(self, row: Row) -> None:
        part = self._decoded(record.PART, row.data)
        if part is None:
            return
        revert = self.session.revert
        if revert and revert.partID and revert.partID == row.id:
            self.reverted = True
        said = self.said.get(row.message)
        if part.type not in record.KNOWN_PARTS:
            self.lines.unknown[f"part {part.type or '(no type)'}"] += 1
        elif said is None:
            self.lines.unknown["part without a message"] += 1
        elif part.type == "tool":
            self._call(said, row, part)
        elif part.type == "compaction":
            self.tails[row.message] = part.tail_start_id or ""
        elif part.type == "subtask":
            self._typed(said, row, f"/{part.command}" if part.command else part.prompt)
        elif part.type == "text" and (part.text or "").strip():
            self._text(said, row, part)

    def _text(self, said: _Said, row: Row, part: Part) -> None:
        text = part.text or ""
        if said.message.role == "assistant":
            self._replied_text(said, row, text)
        elif part.synthetic:
            self._synthetic(said, row, text)
        elif not part.ignored:
            self._typed(said, row, text)

    def _replied_text(self, said: _Said, row: Row, text: str) -> None:
        if bytes(said.message.summary) != b"true":
            self._add("assistant", row, text)
        elif said.message.compacts:
            entry = self._add("compaction", row, text, "harness")
            if tail := self.tails.get(said.message.parentID):
                put(entry, "kept_from", self._first_of(tail))

    def _first_of(self, message: str) -> int:
        """Ref of the first entry of a message, or behind it; 0 if there is none."""
        begun = self.said.get(message)
        if begun is None:
            return 0
        later = (s.entry.ref for s in self.slots if self._begun(s.message) >= begun.row.moment)
        return next(later, 0)

    def _begun(self, message: str) -> int:
        said = self.said.get(message)
        return said.row.moment if said else 0

    def _typed(self, said: _Said, row: Row, text: str) -> None:
        if said.entry is not None:
            put(said.entry, "text", f"{said.entry.text}\n{text}")
            return
        text, skill = unfolded(text)
        if skill:
            self.skills.append(skill)
        origin: Origin = "queued" if self._at_work(said.row) else "typed"
        if begins_handoff(text):
            origin = "handoff"
        said.entry = self._add("user", row, text, origin)

    def _synthetic(self, said: _Said, row: Row, text: str) -> None:
        """What opencode itself says in the user's name."""
        if text.startswith(_USER_SHELL):
            said.by_user = True
            return
        if text.startswith("<task id="):
            head = text[: text.find(">")]
            call = self.agents.get(head.partition('"')[2].partition('"')[0], "")
            self.background.ended(call, failed='state="error"' in head)
        self._add("user", row, clip(text, self.keep), "harness")

    def _call(self, said: _Said, row: Row, part: Part) -> None:
        call, noted = tool_call(part, self.keep)
        if said.by_user:
            put(call, "name", "!")
            if call.status == "ok" and call.exit_code is None:
                put(call, "status", "unknown")  # opencode does not record how it ended.
            self._add("tool", row, origin="command", tool=call)
            return
        self.tool_names[call.name] = None
        entry = self._add("tool", row, tool=call)
        if call.kind == "skill" and (skill := skill_of(part.state)):
            self.skills.append(skill)
        elif call.kind == "agent":
            self._agent(entry, call, noted.sessionId)
        if part.state and (words := answer_in(call, noted)):
            ended = part.state.time.end
            moment = int(ended) << 12 if ended else row.moment
            self.answers.append((moment, row, words))

    def _agent(self, entry: Entry, call: ToolCall, session: str) -> None:
        self.background.started(call.id, "agent", call.detail, entry.ref)
        if call.status == "ok" and 'state="running"' in call.output[:200]:
            put(call, "background", session)
            self.agents[session] = call.id
        elif call.status != "running":
            self.background.ended(call.id, failed=call.status != "ok")

    # -- the whole ---------------------------------------------------------------------

    def _settle(self) -> None:
        """The conversation went on: calls that got no result will never get one."""
        last = self.replied.row.moment if self.replied else 0
        for slot in self.slots:
            call = slot.entry.tool
            if call and call.status == "running" and self._begun(slot.message) < last:
                put(call, "status", "unknown")
                self.background.ended(call.id, failed=True)

    def _notices(self) -> tuple[Notice, ...]:
        ends: dict[str, int] = {}
        for slot in self.slots:
            ends[slot.message] = slot.entry.ref
        found = []
        for id, said in self.said.items():
            error = said.message.error
            if error is None or said.left:
                continue
            before = (s.entry.ref for s in self.slots if self._begun(s.message) < said.row.moment)
            after = ends.get(id) or max(before, default=0)
            stopped = error.name == "MessageAbortedError"
            text = _error_text(error)
            found.append(Notice(after, "interrupted" if stopped else "error", text))
        return tuple(sorted(found, key=lambda n: n.after))

    def _thread(self) -> Thread:
        session = self.session
        live = [s.entry for s in self.slots if not s.left]
        notices = self._notices()
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
            tools=tuple(self.tool_names),
            name=named(session.title),
            parent=session.parent,
            started=iso(started),
            updated=iso(updated),
            context_tokens=self.context,
            entries=tuple(mark_compacted(live)),
            notices=notices,
            background=self.background.items(),
            sidechains=tuple(
                Sidechain(id=id, path=str(self.source / id), label=title)
                for id, title in session.children
            ),
            skills=tuple(self.skills),
            aborted=bool(notices) and notices[-1].kind == "interrupted" and notices[-1].after >= last,
            abandoned=len(self.slots) - len(live),
            sources=(str(self.source),),
            report=self.lines.report(),
        )  # fmt: skip


def iso(milliseconds: int) -> str:
    """A time as ISO 8601 in UTC; the epoch for one that no calendar has."""
    try:
        at = datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        at = datetime.fromtimestamp(0, UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def named(title: str) -> str:
    """The title of a session, empty while it has only the one that each begins with."""
    return "" if title.startswith(_UNNAMED) else title


def unfolded(text: str) -> tuple[str, str]:
    """What the user typed, and the skill they invoked; opencode records its text in its place."""
    at = text.find(_BASE)
    if at < 0:
        return text, ""
    folder, _, rest = text[at + len(_BASE) :].partition("\n")
    if not rest.startswith("Relative paths in this skill"):
        return text, ""
    name = folder.rstrip("/").rpartition("/")[2]
    return f"/{name} {rest.partition(chr(10))[2].strip()}".strip(), name


def _error_text(error: record.Error) -> str:
    try:
        return nested(record.ERROR_DATA, error.data).message[:300] or error.name
    except UNDECODABLE:
        return error.name
