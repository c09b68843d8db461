"""Is anything in a brief invented? Read from the finished Markdown, against the thread alone.

Shares nothing with `tasuki.draft`, which makes and checks drafts: what judges must not be what is
judged. Looked at is what a brief claims to the letter: paths, commands, words of the user, code in
backticks, and the entries it cites. Prose in an author's own words is not looked at, nor is the
section on changes since the thread, whose source is the folder and not the thread.
"""

import json
import posixpath
import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Literal

from msgspec import Struct

from tasuki.harness.jsonl import after_handoff, occurring
from tasuki.model import Entry, Thread, ToolCall
from tasuki.plain import shown

Kind = Literal["path", "command", "quote", "code", "entry", "excerpt"]
FILES, COMMANDS = "Relevant Files", "Relevant Commands"
ASKED = "What the user asked for and ruled"
_FROM_THE_FOLDER = "Changed since the thread"
_OPENED, _CLOSED = "<record-of-the-past>", "</record-of-the-past>"
_GOAL = re.compile(r"(?m)^## Next Goal \(verbatim.*$")
_REFS = re.compile(r"(?<!\s)\s*\[(#\d+(?:, ?#\d+)*)\]:?\s*$")
"""At the end of an item, or of the line that cites a quoted block."""
_EACH_REFS = re.compile(r"(?<!\s)\s*\[(#\d+(?:, ?#\d+)*)\](?=\s*(?:,|$))")
"""Of an item that names several things, each with its own."""
_CODE = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)")
_QUOTED = re.compile(
    r'^(?:(?P<label>[^"`:]{0,60}): )?"(?P<words>.*)"(?: — (?:answering: (?P<asked>.*)|refusing: (?P<refused>.*)))?$'
)
_PLACEHOLDER = re.compile(r"\[REDACTED:[a-z0-9-]+\]")
_CUT = " …"
_HEADING = re.compile(r"^\*\*(.+?)\*\* (?:\[…\]|(?:\[…\] )?(\S.*))$")
"""A heading of a message, before the paragraph below it."""
_GAP, _BETWEEN = "[…]", " … "
"""What stands where lines of a block, or sentences of a message, are left out."""
_ALSO = "also: "
"""Begins an item that names several files or commands of which nothing is told."""
_HIDDEN_SECRET = 8_000
"""Characters that a placeholder stands for at most."""
_CD = re.compile(r"^\s*cd\s+(\S+)\s*(?:&&|;)\s*")
_CHANGED_FOLDER = re.compile(r"(?:^|&&|;|\n)[^\S\n]*cd\s+['\"]?([^\s'\"&;]+)")
_WORD = re.compile(r"[A-Za-z0-9_]")
_AT_WORD, _PAST_WORD = r"(?<![A-Za-z0-9_])", r"(?![A-Za-z0-9_])"
_COMMAND_BEGINS = r"(?:\A|(?<=[;&|({!])|(?<=[;&|({!] )|(?<=\bdo )|(?<=\bthen )|(?<=\belse )|(?<=\btime )|(?<=[A-Z]{2} ))(?:\w+=\S* )*"
_COMMAND_ENDS = r"(?=\s*(?:\Z|[;&|)}\n#]|\d?[<>]))"
"""Where a command of a command line begins and ends."""
_EMPHASIS = re.compile(r"[*_`]")
_CURLY = str.maketrans({"‘": "'", "’": "'", "“": '"', "”": '"', "‹": "<"})
_LEAST = 5
"""Characters of what is looked for in the thread's file where a result was cut in memory."""
_BY_HAND = ("typed", "queued", "answer")


class Invented(Struct, frozen=True, order=True):
    """Something in a brief that the thread does not hold: under which heading, what, and as what."""

    section: str
    text: str
    kind: Kind


class Line(Struct, frozen=True):
    """One item of a brief without its mark and references."""

    section: str
    text: str
    refs: tuple[int, ...]
    excerpt: bool = False
    """A line of a quoted block, which must stand in the thread as it is."""


def lines(brief: str) -> Iterator[Line]:
    """The items of a brief by section: what stands inside its fence, else all above the goal."""
    opened, closed = brief.find(_OPENED), brief.find(f"\n{_CLOSED}")
    if 0 <= opened < closed:
        brief = brief[opened:closed]
    elif goal := _GOAL.search(brief):
        brief = brief[: goal.start()]
    section = ""
    for line in brief.split("\n"):
        if line.startswith("## "):
            section = line[3:].strip()
        elif section and line.startswith("> "):
            if (text := line[2:].strip()) and text != _GAP and not text.startswith(("```", "~~~")):
                yield Line(section, text, (), excerpt=True)
        elif section and (text := re.sub(r"^\s*[-*] ", "", line).strip()):
            marks = _EACH_REFS if text.startswith(_ALSO) else _REFS
            cited = "".join(mark[1] for mark in marks.finditer(text))
            refs = tuple(map(int, re.findall(r"\d+", cited)))
            yield Line(section, marks.sub("", text), refs)


def paths_of(line: Line) -> tuple[str, ...]:
    """The paths that an item under Relevant Files names: one, or several behind `also:`."""
    if line.text.startswith(_ALSO):
        return tuple(path.strip() for path in line.text.removeprefix(_ALSO).split(", "))
    return (line.text.partition(" — ")[0].removesuffix(" (unverified)").strip(),)


def commands_of(line: Line) -> tuple[str, ...]:
    """The commands that an item under Relevant Commands shows, each on one line."""
    if line.text.startswith(_ALSO):
        return tuple(folded(span[2]) for span in _CODE.finditer(line.text))
    span = _CODE.match(line.text)
    return (folded(span[2]) if span else line.text.partition(" — ")[0].strip(),)


def invented(brief: str, thread: Thread, goal: str = "") -> list[Invented]:
    """Everything a brief claims to the letter that the thread does not hold, in the brief's order.

    `goal` is the successor's goal, in which code may stand too.
    """
    witness = _Witness(thread, goal)
    found: dict[Invented, None] = {}
    for line in lines(brief):
        if line.section == _FROM_THE_FOLDER:
            continue
        for kind, text in _false(line, witness):
            found[Invented(line.section, text, kind)] = None
    return list(found)


def _false(line: Line, witness: "_Witness") -> Iterator[tuple[Kind, str]]:
    for ref in line.refs:
        if ref not in witness.refs:
            yield "entry", f"#{ref}"
    if line.excerpt:
        if not all(map(witness.holds, _parts_of_excerpt(line.text))):
            yield "excerpt", line.text
        return
    rest = line.text
    if line.section == FILES:
        yield from (("path", path) for path in paths_of(line) if not witness.has_path(path))
        rest = line.text.partition(" — ")[2]
    elif line.section == COMMANDS:
        yield from (("command", one) for one in commands_of(line) if not witness.was_run(one))
        rest = "" if line.text.startswith(_ALSO) else _CODE.sub("", line.text, count=1)
    else:
        yield from _false_quotes(line, witness)
    if not witness.holds(rest):
        spans = (folded(span[2]) for span in _CODE.finditer(rest))
        yield from (("code", span) for span in spans if not witness.has_code(span))


def _parts_of_excerpt(text: str) -> tuple[str, ...]:
    """A quoted line; a heading that stands before its paragraph, and the paragraph, by themselves."""
    heading = _HEADING.match(text)
    return (heading[1].removesuffix(":"), heading[2] or "") if heading else (text,)


def _false_quotes(line: Line, witness: "_Witness") -> Iterator[tuple[Kind, str]]:
    quoted = _QUOTED.match(line.text)
    of_user = line.section == ASKED or (quoted and "user" in (quoted["label"] or "").lower())
    if not of_user:
        return
    words = quoted["words"] if quoted else line.text
    if not witness.user_said(words):
        yield "quote", words
    if quoted and quoted["asked"] and not witness.holds(quoted["asked"]):
        yield "quote", quoted["asked"]
    if quoted and quoted["refused"] and not witness.was_refused(quoted["refused"]):
        yield "command", quoted["refused"]


# -- what the thread holds -----------------------------------------------------------------


def folded(text: str) -> str:
    """A text on one line as a brief shows it: no control characters, single blanks."""
    return " ".join(shown(text).translate(_CURLY).split())


def bare(text: str) -> str:
    """The same without emphasis and backticks, which a quote may have lost."""
    return " ".join(_EMPHASIS.sub("", folded(text)).split())


class _Witness:
    """A thread as far as it can be asked whether something stands in it."""

    def __init__(self, thread: Thread, goal: str) -> None:
        self.thread = thread
        self.refs = {entry.ref for entry in thread.entries}
        self.goal = goal

    @cached_property
    def texts(self) -> str:
        """Everything the thread and the goal say, one entry a line."""
        known = (self.goal, *_about(self.thread))
        return "\n".join([*map(folded, known), *(folded(_whole(e)) for e in self.thread.entries)])

    @cached_property
    def bare_texts(self) -> str:
        return "\n".join(map(bare, self.texts.split("\n")))

    @cached_property
    def by_user(self) -> str:
        return "\n".join(bare(text) for e in self.thread.entries for text in _by_hand(e))

    @cached_property
    def runs(self) -> list[str]:
        """Commands that were run, each also without the `cd`s that lead it."""
        calls = [e.tool for e in self.thread.entries if e.tool and e.tool.kind == "shell"]
        ran = [c.command for c in calls if c.command and c.status != "refused"]
        return [folded(form) for command in ran for form in _without_cd(command)]

    @cached_property
    def refusals(self) -> list[str]:
        """Calls that the user refused: the tool with its command, or with the names of its files."""
        calls = (e.tool for e in self.thread.entries if e.tool and e.tool.status == "refused")
        given = ((c.name, c.command or " ".join(map(posixpath.basename, c.paths))) for c in calls)
        return [bare(f"{name} {what}") for name, what in given]

    @cached_property
    def paths(self) -> set[str]:
        """Paths that calls name, from the thread's folder."""
        calls = (e.tool for e in self.thread.entries if e.tool)
        return {self._below(path) for call in calls for path in _paths(call)}

    def _below(self, path: str) -> str:
        normal = posixpath.normpath(path)
        cwd = self.thread.cwd.rstrip("/")
        return normal.removeprefix(f"{cwd}/") if cwd else normal

    def has_path(self, path: str) -> bool:
        """Whether a path is named, whole, from the thread's folder or from where a command ran."""
        wanted = folded(path)
        if not wanted:
            return True
        if self._below(wanted) in self.paths or self.holds(wanted):
            return True
        return self._from_elsewhere(wanted) or self._behind(wanted)

    def was_run(self, command: str) -> bool:
        """Whether a command was run, perhaps with others; one that ends in ` …` may have gone on."""
        head = command.removesuffix(_CUT)
        end = _COMMAND_ENDS if head == command else _PAST_WORD
        return any(_stands(head, run, begin=_COMMAND_BEGINS, end=end) for run in self.runs)

    def was_refused(self, call: str) -> bool:
        """Whether the user refused this call; one that ends in ` …` may have gone on."""
        head = call.removesuffix(_CUT)
        end = r"\Z" if head == call else _PAST_WORD
        return any(_stands(bare(head), one, begin=r"\A", end=end) for one in self.refusals)

    def user_said(self, words: str) -> bool:
        """Whether the user wrote these words; sentences may be left out between them."""
        parts = words.strip().removesuffix("…").split(_BETWEEN)
        return all(_stands(bare(part), self.by_user) for part in parts)

    def holds(self, text: str) -> bool:
        """Whether a text stands somewhere as it is, emphasis aside; true of an empty one."""
        text = folded(text).removesuffix("…").rstrip()
        return _stands(text, self.texts) or _stands(bare(text), self.bare_texts)

    def has_code(self, span: str) -> bool:
        """Whether what stands in backticks occurs: as it is, as a path, or in what was cut."""
        return self.holds(span) or ("/" in span and self.has_path(span)) or self._behind(span)

    @cached_property
    def _is_cut(self) -> bool:
        calls = (entry.tool for entry in self.thread.entries)
        return any(call and call.output_size > len(call.output) for call in calls)

    @cached_property
    def _elsewhere(self) -> list[tuple[str, str]]:
        """Folders that calls ran in, each with everything the call says."""
        found = []
        for entry in self.thread.entries:
            for folder in _folders(entry.tool) if entry.tool else ():
                below = self._below(posixpath.join(self.thread.cwd, folder))
                found.append((f"{below}/", folded(_whole(entry))))
        return found

    def _from_elsewhere(self, path: str) -> bool:
        """Whether a call that ran in another folder names a path from there."""
        told = ((path.removeprefix(f), text) for f, text in self._elsewhere if path.startswith(f))
        return any(rest and _stands(rest, text) for rest, text in told)

    def _behind(self, text: str) -> bool:
        """Whether a text stands in the thread's files, which hold whole what was cut in memory."""
        text = text.removesuffix(_CUT)
        if not self._is_cut or len(text) < _LEAST or _PLACEHOLDER.search(text):
            return False
        files = [f for f in self.thread.sources or (self.thread.path,) if occurring([f], [text])]
        return any(_in_file(text, Path(file)) for file in files)


def _in_file(text: str, path: Path) -> bool:
    """Whether a text that occurs in a file stands there, as no part of a longer word."""
    forms = {text, *(json.dumps(text, ensure_ascii=one)[1:-1] for one in (False, True))}
    shape = "|".join(map(re.escape, forms))
    whole = re.compile(rf"(?:{_AT_WORD}|(?<=\\[ntr]))(?:{shape}){_PAST_WORD}".encode())
    with path.open("rb") as file:
        return any(whole.search(line) for line in file)


def _about(thread: Thread) -> Iterator[str]:
    """What is known of a thread beside its entries."""
    yield from (
        thread.id,
        thread.cwd,
        thread.name,
        thread.model,
        thread.git_branch,
        thread.git_head,
    )
    yield from (thread.parent, thread.version, *thread.tools, *thread.skills, *thread.artifacts)
    yield from (notice.text for notice in thread.notices)
    yield from (text for one in thread.background for text in (one.id, one.label))


def _whole(entry: Entry) -> str:
    """Everything that an entry holds."""
    call = entry.tool
    if call is None:
        return entry.text
    parts = [entry.text, call.name, call.command, call.detail, call.workdir, *call.paths]
    parts += [part for c in call.changes for part in (c.path, c.old, c.new)]
    parts += [todo.text for todo in call.todos or ()]
    return "\n".join([*parts, call.output])


def _by_hand(entry: Entry) -> Iterator[str]:
    """What the user wrote in an entry; of an earlier brief its goal and what it quotes of them."""
    if entry.kind != "user":
        return
    if entry.origin in _BY_HAND:
        yield entry.text
    elif entry.origin == "handoff":
        yield after_handoff(entry.text)
        if goal := list(_GOAL.finditer(entry.text)):
            yield entry.text[goal[-1].end() :]
        for line in lines(entry.text):
            if quoted := _QUOTED.match(line.text):
                yield quoted["words"]


def _without_cd(command: str) -> Iterator[str]:
    yield command
    while match := _CD.match(command):
        command = command[match.end() :]
        yield command


def _paths(call: ToolCall) -> Iterator[str]:
    yield from call.paths
    yield from (change.path for change in call.changes)


def _folders(call: ToolCall) -> Iterator[str]:
    """Where a call ran, or parts of its command, if not in the thread's folder."""
    if call.workdir:
        yield call.workdir
    yield from _CHANGED_FOLDER.findall(call.command)


def _stands(wanted: str, hay: str, *, begin: str | None = None, end: str | None = None) -> bool:
    """Whether a text stands in a line of `hay`, as no part of a longer word.

    A placeholder in it stands for anything.
    """
    parts = [part.strip() for part in _PLACEHOLDER.split(wanted)]
    if not any(parts):
        return True
    if not all(part in hay for part in parts):  # Cheap, and mostly the answer.
        return False
    hidden = rf"[^\n]{{0,{_HIDDEN_SECRET}}}?"
    if begin is None:
        begin = _AT_WORD if _WORD.match(parts[0]) else ""
    if end is None:
        end = _PAST_WORD if _WORD.match(parts[-1][-1:]) else ""
    return bool(re.search(begin + hidden.join(map(re.escape, parts)) + end, hay))


def summary(found: Iterable[Invented]) -> str:
    """Inventions in one line, for a message."""
    return "; ".join(f"{one.kind} {one.text!r} under {one.section!r}" for one in found)
