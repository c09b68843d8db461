"""Reading SpecStory's Markdown: turns under `_**User (…)**_`, blocks of tools, thoughts, texts.

Between pieces of an agent's turn there may be a line `---`; before a turn there is one, but for
one agent's turn after another. Headings inside of code count only behind such a line.
"""

import os
import re
from collections import Counter
from pathlib import Path
from typing import Literal

from msgspec import Struct

from tasuki.harness import markdown, tools
from tasuki.harness.jsonl import begins_handoff, mark_compacted
from tasuki.harness.specstory.calls import LEGACY, legacy_call, tool_call
from tasuki.model import Entry, EntryKind, Notice, Origin, Thread, ToolCall

_TURN = re.compile(r"_\*\*(\w[\w -]*?)?(?: \((.*)\))?\*\*_\s*\Z")
_SESSION = re.compile(r"<!--\s*(.+?) Session ([\w-]+)(?: \((.*?)\))?\s*-->\s*\Z")
_MESSAGE_ID = re.compile(r"<!-- message-id: .* -->\s*\Z")
_TITLE = re.compile(r"##? (?!SpecStory\s*\Z)(.+?)\s*\Z")
_TIME = re.compile(
    r"(\d{4}-\d\d-\d\d)[ T_](\d\d)[:-](\d\d)(?:[:-](\d\d))?(?:\.\d+)? ?(Z|[+-]\d\d:?\d\d)?"
)
_NAME_TIME = re.compile(r"\d{4}-\d\d-\d\d(?:_\d\d-\d\d(?:-\d\d)?(?:Z|[+-]\d{4})?)?")
_STAMP = re.compile(r"\s*\([\d\-T/:,. ]+(?:[AP]M|Z|[+-]\d{4})?\)\s*\Z")
_TOOL_USE = re.compile(r"<tool-use\b")
_TOOL_END = re.compile(r"(?:</details>)?\s*</tool-use>\s*\Z")
_THINK_END = re.compile(r".*</think>\s*\Z")
_CONTINUED = "This session is being continued from a previous conversation"
_CANCELLED = re.compile(r"\[Request interrupted by user|Cancelled\s*\Z")

Speaker = Literal["user", "agent", ""]
_SPEAKERS: dict[str, Speaker] = {"User": "user", "Assistant": "agent", "Agent": "agent"}


class _Turn(Struct):
    """Who speaks, and when."""

    speaker: Speaker = ""
    at: str = ""
    line: int = 0
    aside: bool = False
    """A sub-agent's, or one of a speaker nobody knows."""


class Reader:
    """One pass over one history, or over its beginning."""

    def __init__(self, text: markdown.Text) -> None:
        self.text, self.lines = text, text.lines
        self.entries: list[Entry] = []
        self.notices: list[Notice] = []
        self.unknown: Counter[str] = Counter()
        self.turns = 0
        self.detailed = False
        """Headings tell a time or a model: one that does not is a quotation, inside of code."""
        self.background = tools.BackgroundLog()
        self.tool_names: dict[str, None] = {}
        self.turn = _Turn()
        self.body: list[str] = []
        self.begun = 0
        self.path_edited = ""
        """The file of the last edit: a later diff without a name is of the same."""
        self.id = self.started = self.updated = self.model = self.version = self.name = ""
        self.program = ""

    def read(self) -> Thread:
        at, mark = 0, ""
        while at < len(self.lines):
            line = self.lines[at]
            new = self._new_turn(at, bool(mark))
            if new is not None:
                self._flush()
                self.turn, mark = new, ""
                self.turns += 1
                at += 1
            elif self._begins_tool(at, bool(mark)):
                self._flush()
                mark = ""
                end = self._tool_end(at)
                self._tool(at, end)
                at = end
            elif self.turn.speaker == "agent" and line.startswith("<think") and not mark:
                self._flush()
                at = self._past_thought(at)
            else:
                mark = self._line(at, line, mark)
                at += 1
        self._flush()
        return self._thread()

    def _line(self, at: int, line: str, mark: str) -> str:
        """Take in one line of text; returns the mark of the code block that is open behind it."""
        if self.turn.line == 0:
            self._heading(line)
            return ""
        if self.turn.speaker == "agent" and not mark and line.strip() == "---":
            self._flush()
            return ""
        if not self.body:
            self.begun = at
        if not (_MESSAGE_ID.match(line) and not any(self.body)):
            self.body.append(line)
        if mark:
            return "" if markdown.closes(line, mark) else mark
        return markdown.fence(line)

    def _new_turn(self, at: int, in_code: bool) -> _Turn | None:
        """The turn that begins at a line; inside of code only behind a line `---`."""
        line = self.lines[at]
        if not line.startswith("_**"):
            return None
        match = _TURN.match(line)
        if not match or (in_code and not self._separated(at)):
            return None
        who, _, kind = (match[1] or "").partition(" - ")
        detail = match[2] or ""
        if in_code and self.detailed != bool(detail):
            return None
        self.detailed = bool(detail) if self.turns == 0 else self.detailed
        if not who:  # `_****_` goes on with the agent's turn in files of early 2025
            return _Turn("agent", self.turn.at, at + 1)
        speaker = _SPEAKERS.get(who.strip())
        when = moment(detail)
        if speaker is None:
            self.unknown[f"turn of {who.strip()}"] += 1
        elif speaker == "agent":
            self.model = _model(detail) or self.model
        if not kind and speaker is not None:
            self.started = self.started or when
            self.updated = max(self.updated, when)
        at_time = when or (self.turn.at if speaker == "agent" else "")
        return _Turn(speaker or "agent", at_time, at + 1, speaker is None or kind == "sidechain")

    def _begins_tool(self, at: int, in_code: bool) -> bool:
        found = self.turn.speaker == "agent" and _TOOL_USE.match(self.lines[at])
        return bool(found) and (not in_code or self._separated(at))

    def _separated(self, at: int) -> bool:
        above = at - 1
        while above >= 0 and not self.lines[above].strip():
            above -= 1
        return above >= 0 and self.lines[above].strip() == "---"

    def _heading(self, line: str) -> None:
        """What stands above the first turn."""
        if match := _SESSION.match(line):
            self.program, self.id = match[1], match[2]
            self.started = moment(match[3] or "") or self.started
        elif line.startswith("<!-- Generated by SpecStory"):
            self.version = line.partition("Markdown ")[2].removesuffix("-->").strip()
        elif match := _TITLE.match(line):
            self.started = self.started or moment(match[1])
            title = _STAMP.sub("", match[1])
            self.name = "" if moment(title) else title

    # -- pieces of a turn --------------------------------------------------------------

    def _add(self, kind: EntryKind, at: int, text: str = "", origin: Origin = "typed",
             tool: ToolCall | None = None) -> Entry:  # fmt: skip
        entry = Entry(
            ref=len(self.entries) + 1,
            kind=kind,
            text=text,
            at=self.turn.at or self.started,
            id=f"L{at + 1}",
            origin=origin,
            tool=tool,
            offset=self.text.offsets[at],
        )
        self.entries.append(entry)
        return entry

    def _flush(self) -> None:
        """What was gathered is a whole piece."""
        body, self.body = self.body, []
        if self.turn.aside:
            return
        if self.turn.speaker == "user":
            while body and body[-1].strip() in ("", "---"):
                body.pop()
            self._said(markdown.stripped(body))
        elif text := markdown.stripped(body):
            self._replied(text)

    def _said(self, text: str) -> None:
        if not text:
            return
        if _CANCELLED.match(text):
            self._notice("interrupted", text)
        elif text.startswith(_CONTINUED):
            self._add("compaction", self.begun, text, "harness")
        else:
            self._add("user", self.begun, text, "handoff" if begins_handoff(text) else "typed")

    def _replied(self, text: str) -> None:
        if _CANCELLED.match(text):
            self._notice("interrupted", text)
        elif LEGACY.match(text):
            self._call(self.begun, legacy_call(text, f"L{self.begun + 1}", self.path_edited))
        else:
            self._add("assistant", self.begun, text)

    def _notice(self, kind: Literal["interrupted"], text: str) -> None:
        self.notices.append(Notice(after=len(self.entries), kind=kind, text=text[:300]))

    def _tool_end(self, at: int) -> int:
        """The line behind a block of a tool, which ends at the next turn if nothing ends it."""
        if _TOOL_END.search(self.lines[at]):
            return at + 1
        for end in range(at + 1, len(self.lines)):
            line = self.lines[end]
            if _TOOL_END.match(line):
                return end + 1
            if line.startswith("_**") and _TURN.match(line) and self._separated(end):
                return end
        return len(self.lines)

    def _past_thought(self, at: int) -> int:
        for end in range(at, len(self.lines)):
            if _THINK_END.match(self.lines[end]):
                return end + 1
            if end > at and self._new_turn_at(end):
                return end
        return len(self.lines)

    def _new_turn_at(self, at: int) -> bool:
        line = self.lines[at]
        return line.startswith("_**") and bool(_TURN.match(line)) and self._separated(at)

    def _tool(self, at: int, end: int) -> None:
        if not self.turn.aside:
            self._call(at, tool_call(self.lines[at:end], f"L{at + 1}"))

    def _call(self, at: int, call: ToolCall) -> None:
        entry = self._add("tool", at, tool=call)
        self.tool_names[call.name] = None
        if call.changes and call.changes[-1].path:
            self.path_edited = call.changes[-1].path
        if call.kind == "agent":
            self.background.started(call.id, "agent", call.detail, entry.ref)
            if call.status != "running":
                self.background.ended(call.id, failed=call.status == "error")
        elif call.background:
            self.background.started(call.background, "command", call.command, entry.ref)

    # -- the whole ---------------------------------------------------------------------

    def _thread(self) -> Thread:
        path = self.text.path
        named = _NAME_TIME.match(path.name)
        started = self.started or (moment(named[0]) or named[0][:10] if named else "")
        last = self.entries[-1].ref if self.entries else 0
        return Thread(
            harness="specstory",
            id=self.id or markdown.stable_id("specstory", path),
            path=str(path),
            cwd=str(project(path)),
            model=self.model,
            version=self.version,
            tools=tuple(self.tool_names),
            name=self.name,
            started=started,
            updated=max(self.updated, started),
            entries=tuple(mark_compacted(self.entries)),
            notices=tuple(self.notices),
            background=self.background.items(),
            aborted=bool(self.notices) and self.notices[-1].after >= last,
            sources=(str(path),),
            report=self.text.report(dict(self.unknown)),
        )


def project(path: Path) -> Path:
    """The project of a history: the folder that holds `.specstory`, else that of the file."""
    whole = Path(os.path.abspath(path))
    for place in whole.parents:
        if place.name == ".specstory":
            return place.parent
    return whole.parent


def moment(text: str) -> str:
    """A time in a heading as ISO 8601, empty if there is none."""
    match = _TIME.search(text)
    if not match:
        return ""
    zone = match[5] or ""
    if zone and zone != "Z" and ":" not in zone:
        zone = f"{zone[:3]}:{zone[3:]}"
    return f"{match[1]}T{match[2]}:{match[3]}:{match[4] or '00'}{zone}"


def _model(detail: str) -> str:
    """The model that a heading names: `model x, mode Agent`, or `x 2026-01-05 09:00:00Z`."""
    name = _TIME.sub("", detail).partition(", mode ")[0].strip().removeprefix("model ").strip()
    return "" if name.startswith("mode ") else name
