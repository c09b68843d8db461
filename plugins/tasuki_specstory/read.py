"""Read SpecStory's Markdown: turns under `_**User (…)**_`, blocks of tools, thoughts, texts.

Between pieces of an agent's turn there may be a line `---`; before a turn there is one,
except between consecutive turns of one agent. Headings inside code count only after such a
line.
"""

import os
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from tasuki.harness.reading import markdown
from tasuki.harness.reading.jsonl import KEEP_WHOLE
from tasuki.harness.reading.speakers import INTERRUPTED
from tasuki.harness.reading.threads import ThreadReader
from tasuki.harness.tool_table.calls import CallLog
from tasuki.model import Entry, EntryKind, Thread, ToolCall
from tasuki.patterns import compile_pattern
from tasuki_specstory.tool_calls import LEGACY, build_legacy_call, build_tool_call

_TURN = compile_pattern(r"_\*\*(\w[\w -]*?)?(?: \((.*)\))?\*\*_\s*\Z")
_SESSION = compile_pattern(r"<!--\s*(.+?) Session ([\w-]+)(?: \((.*?)\))?\s*-->\s*\Z")
_MESSAGE_ID = compile_pattern(r"<!-- message-id: .* -->\s*\Z")
_TITLE = compile_pattern(r"##? (?!SpecStory\s*\Z)(.+?)\s*\Z")
_TIME = compile_pattern(
    r"(\d{4}-\d\d-\d\d)[ T_](\d\d)[:-](\d\d)(?:[:-](\d\d))?(?:\.\d+)? ?(Z|[+-]\d\d:?\d\d)?"
)
_NAME_TIME = compile_pattern(r"\d{4}-\d\d-\d\d(?:_\d\d-\d\d(?:-\d\d)?(?:Z|[+-]\d{4})?)?")
_STAMP = compile_pattern(r"\s*\([\d\-T/:,. ]+(?:[AP]M|Z|[+-]\d{4})?\)\s*\Z")
_TOOL_USE = compile_pattern(r"<tool-use\b")
_TOOL_END = compile_pattern(r"(?:</details>)?\s*</tool-use>\s*\Z")
_THINK_END = compile_pattern(r".*</think>\s*\Z")
_CONTINUED = "This session is being continued from a previous conversation that ran out"
_CANCELLED = compile_pattern(rf"(?:{INTERRUPTED.pattern})\Z|Cancelled\s*\Z")

Speaker = Literal["user", "agent", ""]
_SPEAKERS: dict[str, Speaker] = {"User": "user", "Assistant": "agent", "Agent": "agent"}


class _SpeakerTurn(Struct):
    speaker: Speaker = ""
    at: str = ""
    line: int = 0
    aside: bool = False
    """A sub-agent's turn, or one of an unknown speaker."""


class SpecStoryReader(ThreadReader):
    """One pass over one history, or over its beginning."""

    harness = "specstory"

    def __init__(self, text: markdown.MarkdownText) -> None:
        super().__init__(text.read, CallLog(KEEP_WHOLE))
        self.offsets, self.rows = text.offsets, text.lines
        self.turns = 0
        self.detailed = False
        """Headings show a time or a model: one that does not is a quotation, inside code."""
        self.turn = _SpeakerTurn()
        self.body: list[str] = []
        self.begun = 0
        self.path_edited = ""
        """The file of the last edit: a later diff without a name is of the same file."""
        self.session = self.started = ""

    def read(self) -> Thread:
        at, mark = 0, ""
        while at < len(self.rows):
            line = self.rows[at]
            new = self._parse_turn(at, bool(mark))
            if new is not None:
                self._flush_text()
                self.turn, mark = new, ""
                self.turns += 1
                at += 1
            elif self._is_tool_start(at, bool(mark)):
                self._flush_text()
                mark = ""
                end = self._find_tool_end(at)
                if not self.turn.aside:
                    self._add_call(at, build_tool_call(self.rows[at:end], f"L{at + 1}"))
                at = end
            elif self.turn.speaker == "agent" and line.startswith("<think") and not mark:
                self._flush_text()
                at = self._skip_thought(at)
            else:
                mark = self._read_line(at, line, mark)
                at += 1
        self._flush_text()
        return self._build_thread()

    def _read_line(self, at: int, line: str, mark: str) -> str:
        """Read one line of text; return the mark of the code block that is open after it."""
        if self.turn.line == 0:
            self._read_heading(line)
            return ""
        if self.turn.speaker == "agent" and not mark and line.strip() == "---":
            self._flush_text()
            return ""
        if not self.body:
            self.begun = at
        if not (_MESSAGE_ID.match(line) and not any(self.body)):
            self.body.append(line)
        if mark:
            return "" if markdown.is_closing_fence(line, mark) else mark
        return markdown.find_fence(line)

    def _parse_turn(self, at: int, in_code: bool) -> _SpeakerTurn | None:
        """Return the turn that begins at a line; inside code only after a line `---`."""
        line = self.rows[at]
        if not line.startswith("_**"):
            return None
        match = _TURN.match(line)
        if not match or (in_code and not self._is_after_rule(at)):
            return None
        if in_code and self._is_closed_below(at):
            return None
        speaker_name, _, kind = (match[1] or "").partition(" - ")
        detail = match[2] or ""
        is_of_user = speaker_name == "User" and self.turns > 0
        if (in_code or is_of_user) and self.detailed != bool(detail):
            return None
        if is_of_user and self.turn.speaker == "agent" and not self._is_after_rule(at):
            return None
        self.detailed = bool(detail) if self.turns == 0 else self.detailed
        if not speaker_name:  # `_****_` goes on with the agent's turn in files of early 2025
            return _SpeakerTurn("agent", self.turn.at, at + 1)
        speaker = _SPEAKERS.get(speaker_name.strip())
        time = parse_moment(detail)
        if speaker is None:
            self.lines.count_unknown(f"turn of {speaker_name.strip()}", has_words=False)
        elif speaker == "agent":
            self.model = _parse_model(detail) or self.model
        if not kind and speaker is not None:
            self.started = self.started or time
            self.updated = max(self.updated, time)
        at_time = time or (self.turn.at if speaker == "agent" else "")
        is_aside = speaker is None or kind == "sidechain"
        return _SpeakerTurn(speaker or "agent", at_time, at + 1, is_aside)

    def _is_tool_start(self, at: int, in_code: bool) -> bool:
        match = self.turn.speaker == "agent" and _TOOL_USE.match(self.rows[at])
        return bool(match) and (not in_code or self._is_after_rule(at))

    def _is_after_rule(self, at: int) -> bool:
        above = at - 1
        while above >= 0 and not self.rows[above].strip():
            above -= 1
        return above >= 0 and self.rows[above].strip() == "---"

    def _is_closed_below(self, at: int) -> bool:
        """Return whether the block of code that is open at a line ends before the next turn."""
        fences = 0
        for line in self.rows[at + 1 :]:
            if line.startswith("_**") and _TURN.match(line):
                break
            fences += bool(markdown.find_fence(line))
        return fences % 2 == 1

    def _read_heading(self, line: str) -> None:
        """Read a line above the first turn."""
        if match := _SESSION.match(line):
            self.session = match[2]
            self.started = parse_moment(match[3] or "") or self.started
        elif line.startswith("<!-- Generated by SpecStory"):
            self.version = line.partition("Markdown ")[2].removesuffix("-->").strip()
        elif match := _TITLE.match(line):
            self.started = self.started or parse_moment(match[1])
            title = _STAMP.sub("", match[1])
            self.name = "" if parse_moment(title) else title

    def _add_entry(self, kind: EntryKind, at: int, *parts: Any, **more: Any) -> Entry:
        """Add the entry that begins in a line, as `add_entry` takes it."""
        self.at, self.id = self.turn.at or self.started, f"L{at + 1}"
        self.offset = self.offsets[at]
        return self.add_entry(kind, *parts, **more)

    def _flush_text(self) -> None:
        """Add the gathered lines as one piece."""
        body, self.body = self.body, []
        if self.turn.aside:
            return
        if self.turn.speaker == "user":
            while body and body[-1].strip() in ("", "---"):
                body.pop()
            self._add_user_text(markdown.strip_blank_lines(body))
        elif text := markdown.strip_blank_lines(body):
            self._add_reply(text)

    def _add_user_text(self, text: str) -> None:
        if not text:
            return
        if _CANCELLED.match(text):
            self.add_notice("interrupted", text)
        elif text.startswith(_CONTINUED):
            self._add_entry("compaction", self.begun, text, "harness")
        else:
            origin, text = self.lines.gate.judge(text)
            self._add_entry("user", self.begun, text, origin)

    def _add_reply(self, text: str) -> None:
        if _CANCELLED.match(text):
            self.add_notice("interrupted", text)
        elif LEGACY.match(text):
            call = build_legacy_call(text, f"L{self.begun + 1}", self.path_edited)
            self._add_call(self.begun, call)
        else:
            self._add_entry("assistant", self.begun, text)

    def _find_tool_end(self, at: int) -> int:
        """Find the line after a tool's block; it ends at the next turn if nothing else ends it."""
        if _TOOL_END.search(self.rows[at]):
            return at + 1
        for end in range(at + 1, len(self.rows)):
            line = self.rows[end]
            if _TOOL_END.match(line):
                return end + 1
            if _TOOL_USE.match(line):
                break
        return self._find_next_turn(at)

    def _skip_thought(self, at: int) -> int:
        for end in range(at, len(self.rows)):
            if _THINK_END.match(self.rows[end]):
                return end + 1
            if end > at and self.rows[end].startswith("<think"):
                break
        return self._find_next_turn(at)

    def _find_next_turn(self, at: int) -> int:
        for place in range(at + 1, len(self.rows)):
            line = self.rows[place]
            if line.startswith("_**") and _TURN.match(line) and self._is_after_rule(place):
                return place
        return len(self.rows)

    def _add_call(self, at: int, call: ToolCall) -> None:
        entry = self._add_entry("tool", at, tool=call)
        self.log.names[call.name] = None
        if call.changes and call.changes[-1].path:
            self.path_edited = call.changes[-1].path
        if call.kind == "agent":
            self.log.background.record_start(call.id, "agent", call.detail, entry.ref)
            if call.status != "running":
                self.log.background.record_end(call.id, failed=call.status == "error")
        elif call.background:
            self.log.background.record_start(call.background, "command", call.command, entry.ref)

    def _build_thread(self) -> Thread:
        path = self.path
        name_time = _NAME_TIME.match(path.name)
        started = self.started or (
            parse_moment(name_time[0]) or name_time[0][:10] if name_time else ""
        )
        last = self.entries[-1].ref if self.entries else 0
        return self.build_thread(
            self.session or markdown.derive_id("specstory", path), cwd=str(find_project(path)),
            started=started, updated=max(self.updated, started),
            aborted=bool(self.notices) and self.notices[-1].after >= last,
        )  # fmt: skip


def find_project(path: Path) -> Path:
    """Find the project of a history: the folder that holds `.specstory`, else the file's."""
    whole = Path(os.path.abspath(path))
    for folder in whole.parents:
        if folder.name == ".specstory":
            return folder.parent
    return whole.parent


def parse_moment(text: str) -> str:
    """Parse a time in a heading to ISO 8601, empty if there is none."""
    match = _TIME.search(text)
    if not match:
        return ""
    zone = match[5] or ""
    if zone and zone != "Z" and ":" not in zone:
        zone = f"{zone[:3]}:{zone[3:]}"
    return f"{match[1]}T{match[2]}:{match[3]}:{match[4] or '00'}{zone}"


def _parse_model(detail: str) -> str:
    """Return the model that a heading names: `model x, mode Agent`, or `x 2026-01-05 09:00:00Z`."""
    name = _TIME.sub("", detail).partition(", mode ")[0].strip().removeprefix("model ").strip()
    return "" if name.startswith("mode ") else name
