"""Is anything in a brief invented? Read from the finished Markdown, against the thread alone.

Shares nothing with `tasuki.draft`, which makes and checks drafts: the judge must be
independent of what it judges. It checks what a brief claims literally: paths, commands,
words of the user, code in backticks, and the entries it cites. It does not check prose in
an author's own words, nor the section on changes since the thread, whose source is the
folder and not the thread.
"""

import json
import posixpath
import re
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Literal

from msgspec import Struct

from tasuki.draft.claims.lookup import find_occurring
from tasuki.model import Entry, Thread, ToolCall
from tasuki.text_safety import clean_for_display
from tasuki.typed_prompts import extract_words_after_handoff

InventionKind = Literal["path", "command", "quote", "code", "entry", "excerpt"]
FILES, COMMANDS = "Relevant Files", "Relevant Commands"
ASKED = "What the user asked for and ruled"
_FROM_THE_FOLDER = "Changed since the thread"
_OPENED, _CLOSED = "<record-of-the-past>", "</record-of-the-past>"
_GOAL = re.compile(r"(?m)^## Next Goal \(verbatim.*$")
_REFS = re.compile(r"(?<!\s)\s*\[(#\d+(?:, ?#\d+)*)\]:?\s*$")
"""At the end of an item, or of the line that cites a quoted block."""
_EACH_REFS = re.compile(r"(?<!\s)\s*\[(#\d+(?:, ?#\d+)*)\](?=\s*(?:,|$))")
"""Refs in an item that names several things, each with its own."""
_CODE = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)")
_QUOTED = re.compile(
    r'^(?:(?P<label>[^"`:]{0,60}): )?"(?P<words>.*)"(?: — (?:answering: (?P<asked>.*)|refusing: (?P<refused>.*)))?$'
)
_PLACEHOLDER = re.compile(r"\[REDACTED:[a-z0-9-]+\]")
_CUT = " …"
_HEADING = re.compile(r"^\*\*(.+?)\*\* (?:\[…\]|(?:\[…\] )?(\S.*))$")
"""A heading of a message, before the paragraph below it."""
_GAP, _BETWEEN = "[…]", " … "
"""Marks for omitted lines of a block, or sentences of a message."""
_ALSO = "also: "
"""Start of an item that names several files or commands without a note."""
_HIDDEN_SECRET = 8_000
"""Maximum characters that a placeholder represents."""
_CD = re.compile(r"^\s*cd\s+(\S+)\s*(?:&&|;)\s*")
_CHANGED_FOLDER = re.compile(r"(?:^|&&|;|\n)[^\S\n]*cd\s+['\"]?([^\s'\"&;]+)")
_WORD = re.compile(r"[A-Za-z0-9_]")
_AT_WORD, _PAST_WORD = r"(?<![A-Za-z0-9_])", r"(?![A-Za-z0-9_])"
_COMMAND_BEGINS = r"(?:\A|(?<=[;&|({!])|(?<=[;&|({!] )|(?<=\bdo )|(?<=\bthen )|(?<=\belse )|(?<=\btime )|(?<=[A-Z]{2} ))(?:\w+=\S* )*"
_COMMAND_ENDS = r"(?=\s*(?:\Z|[;&|)}\n#]|\d?[<>]))"
"""Where a command of a command line begins and ends."""
_EMPHASIS = re.compile(r"[*_`]")
_CURLY = str.maketrans({"‘": "'", "’": "'", "“": '"', "”": '"', "‹": "<"})
_MIN_SEARCHED = 5
"""Minimum characters of what is looked for in the thread's file where a result was cut in
memory.
"""
_BY_HAND = ("typed", "queued", "channel", "answer")


class InventedClaim(Struct, frozen=True, order=True):
    """Something in a brief that is not in the thread: under which heading, what, and as what."""

    section: str
    text: str
    kind: InventionKind


class BriefLine(Struct, frozen=True):
    """One item of a brief without its mark and references."""

    section: str
    text: str
    refs: tuple[int, ...]
    excerpt: bool = False
    """A line of a quoted block, which must be in the thread as it is."""


def parse_lines(brief: str) -> Iterator[BriefLine]:
    """Yield the items of a brief by section: those inside its fence, else all above the goal."""
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
                yield BriefLine(section, text, (), excerpt=True)
        elif section and (text := re.sub(r"^\s*[-*] ", "", line).strip()):
            marks = _EACH_REFS if text.startswith(_ALSO) else _REFS
            cited = "".join(mark[1] for mark in marks.finditer(text))
            refs = tuple(map(int, re.findall(r"\d+", cited)))
            yield BriefLine(section, marks.sub("", text), refs)


def extract_paths(line: BriefLine) -> tuple[str, ...]:
    """Return the paths that an item under Relevant Files names: one, or several after `also:`."""
    if line.text.startswith(_ALSO):
        return tuple(path.strip() for path in line.text.removeprefix(_ALSO).split(", "))
    return (line.text.partition(" — ")[0].removesuffix(" (unverified)").strip(),)


def extract_commands(line: BriefLine) -> tuple[str, ...]:
    """Return the commands that an item under Relevant Commands shows, each on one line."""
    if line.text.startswith(_ALSO):
        return tuple(fold_line(span[2]) for span in _CODE.finditer(line.text))
    span = _CODE.match(line.text)
    return (fold_line(span[2]) if span else line.text.partition(" — ")[0].strip(),)


def find_invented(brief: str, thread: Thread, goal: str = "") -> list[InventedClaim]:
    """Return every literal claim of a brief that is not in the thread, in the brief's order.

    `goal` is the successor's goal, in which code may occur too.
    """
    witness = _ThreadWitness(thread, goal)
    found: dict[InventedClaim, None] = {}
    for line in parse_lines(brief):
        if line.section == _FROM_THE_FOLDER:
            continue
        for kind, text in _find_false_claims(line, witness):
            found[InventedClaim(line.section, text, kind)] = None
    return list(found)


def _find_false_claims(
    line: BriefLine, witness: "_ThreadWitness"
) -> Iterator[tuple[InventionKind, str]]:
    for ref in line.refs:
        if ref not in witness.refs:
            yield "entry", f"#{ref}"
    if line.excerpt:
        if not all(map(witness.has_text, _split_excerpt(line.text))):
            yield "excerpt", line.text
        return
    rest = line.text
    if line.section == FILES:
        yield from (("path", path) for path in extract_paths(line) if not witness.has_path(path))
        rest = line.text.partition(" — ")[2]
    elif line.section == COMMANDS:
        yield from (("command", one) for one in extract_commands(line) if not witness.was_run(one))
        rest = "" if line.text.startswith(_ALSO) else _CODE.sub("", line.text, count=1)
    else:
        yield from _find_false_quotes(line, witness)
    if not witness.has_text(rest):
        spans = (fold_line(span[2]) for span in _CODE.finditer(rest))
        yield from (("code", span) for span in spans if not witness.has_code(span))


def _split_excerpt(text: str) -> tuple[str, ...]:
    """Return a quoted line, with a heading before its paragraph separated from it."""
    heading = _HEADING.match(text)
    return (heading[1].removesuffix(":"), heading[2] or "") if heading else (text,)


def _find_false_quotes(
    line: BriefLine, witness: "_ThreadWitness"
) -> Iterator[tuple[InventionKind, str]]:
    quoted = _QUOTED.match(line.text)
    of_user = line.section == ASKED or (quoted and "user" in (quoted["label"] or "").lower())
    if not of_user:
        return
    words = quoted["words"] if quoted else line.text
    if not witness.is_by_user(words):
        yield "quote", words
    if quoted and quoted["asked"] and not witness.has_text(quoted["asked"]):
        yield "quote", quoted["asked"]
    if quoted and quoted["refused"] and not witness.was_refused(quoted["refused"]):
        yield "command", quoted["refused"]


def fold_line(text: str) -> str:
    """Return a text on one line as a brief shows it: no control characters, single blanks."""
    return " ".join(clean_for_display(text).translate(_CURLY).split())


def strip_emphasis(text: str) -> str:
    """Return the same without emphasis and backticks, which a quote may have lost."""
    return " ".join(_EMPHASIS.sub("", fold_line(text)).split())


class _ThreadWitness:
    """A thread, ready for questions on whether something is in it."""

    def __init__(self, thread: Thread, goal: str) -> None:
        self.thread = thread
        self.refs = {entry.ref for entry in thread.entries}
        self.goal = goal

    @cached_property
    def texts(self) -> str:
        """Everything the thread and the goal say, one line per entry."""
        known = (self.goal, *_list_thread_texts(self.thread))
        texts = (*known, *map(_join_entry_text, self.thread.entries))
        return "\n".join(map(fold_line, texts))

    @cached_property
    def bare_texts(self) -> str:
        return "\n".join(map(strip_emphasis, self.texts.split("\n")))

    @cached_property
    def user_text(self) -> str:
        texts = (text for e in self.thread.entries for text in _list_user_texts(e))
        return "\n".join(map(strip_emphasis, texts))

    @cached_property
    def runs(self) -> list[str]:
        """Commands that were run, each also without the leading `cd`s."""
        calls = [e.tool for e in self.thread.entries if e.tool and e.tool.kind == "shell"]
        ran = [c.command for c in calls if c.command and c.status != "refused"]
        return [fold_line(form) for command in ran for form in _strip_cd(command)]

    @cached_property
    def refusals(self) -> list[str]:
        """Calls that the user refused: the tool with its command, or with the names of its files."""
        calls = (e.tool for e in self.thread.entries if e.tool and e.tool.status == "refused")
        given = ((c.name, c.command or " ".join(map(posixpath.basename, c.paths))) for c in calls)
        return [strip_emphasis(f"{name} {what}") for name, what in given]

    @cached_property
    def paths(self) -> set[str]:
        """Paths that calls name, relative to the thread's folder."""
        calls = (e.tool for e in self.thread.entries if e.tool)
        return {self._make_relative(path) for call in calls for path in _list_paths(call)}

    def _make_relative(self, path: str) -> str:
        normal = posixpath.normpath(path)
        cwd = self.thread.cwd.rstrip("/")
        return normal.removeprefix(f"{cwd}/") if cwd else normal

    def has_path(self, path: str) -> bool:
        """Return whether a path is named whole, from the thread's or a command's folder."""
        wanted = fold_line(path)
        if not wanted:
            return True
        if self._make_relative(wanted) in self.paths or self.has_text(wanted):
            return True
        return self._is_from_elsewhere(wanted) or self._is_in_files(wanted)

    def was_run(self, command: str) -> bool:
        """Return whether a command was run, perhaps with others; ` …` stands for a cut-off end."""
        head = command.removesuffix(_CUT)
        end = _COMMAND_ENDS if head == command else _PAST_WORD
        return any(_contains_whole(head, run, begin=_COMMAND_BEGINS, end=end) for run in self.runs)

    def was_refused(self, call: str) -> bool:
        """Return whether the user refused this call; one that ends in ` …` may have continued."""
        head = call.removesuffix(_CUT)
        end = r"\Z" if head == call else _PAST_WORD
        head = strip_emphasis(head)
        return any(_contains_whole(head, one, begin=r"\A", end=end) for one in self.refusals)

    def is_by_user(self, words: str) -> bool:
        """Return whether the user wrote these words; sentences may be left out between them."""
        parts = words.strip().removesuffix("…").split(_BETWEEN)
        return all(_contains_whole(strip_emphasis(part), self.user_text) for part in parts)

    def has_text(self, text: str) -> bool:
        """Return whether a text occurs somewhere as it is, apart from emphasis; true if empty."""
        text = fold_line(text).removesuffix("…").rstrip()
        bare = strip_emphasis(text)
        return _contains_whole(text, self.texts) or _contains_whole(bare, self.bare_texts)

    def has_code(self, span: str) -> bool:
        """Return whether code in backticks occurs: as it is, as a path, or in a cut part."""
        is_path = "/" in span and self.has_path(span)
        return is_path or self.has_text(span) or self._is_in_files(span)

    @cached_property
    def _is_cut(self) -> bool:
        calls = (entry.tool for entry in self.thread.entries)
        return any(call and call.output_size > len(call.output) for call in calls)

    @cached_property
    def _other_folders(self) -> list[tuple[str, str]]:
        """Folders that calls ran in, each with everything the call says."""
        found = []
        for entry in self.thread.entries:
            for folder in _list_folders(entry.tool) if entry.tool else ():
                below = self._make_relative(posixpath.join(self.thread.cwd, folder))
                found.append((f"{below}/", fold_line(_join_entry_text(entry))))
        return found

    def _is_from_elsewhere(self, path: str) -> bool:
        """Return whether a call that ran in another folder names a path from there."""
        found = ((path[len(f) :], text) for f, text in self._other_folders if path.startswith(f))
        return any(rest and _contains_whole(rest, text) for rest, text in found)

    def _is_in_files(self, text: str) -> bool:
        """Return whether a text is in the thread's files, which are whole where memory was cut."""
        text = text.removesuffix(_CUT)
        if not self._is_cut or len(text) < _MIN_SEARCHED or _PLACEHOLDER.search(text):
            return False
        files = self.thread.sources or (self.thread.path,)
        return any(find_occurring([f], [text]) and _is_in_file(text, Path(f)) for f in files)


def _is_in_file(text: str, path: Path) -> bool:
    """Return whether a text that occurs in a file is not part of a longer word there."""
    forms = {text, *(json.dumps(text, ensure_ascii=one)[1:-1] for one in (False, True))}
    shape = "|".join(map(re.escape, forms))
    whole = re.compile(rf"(?:{_AT_WORD}|(?<=\\[ntr]))(?:{shape}){_PAST_WORD}".encode())
    with path.open("rb") as file:
        return any(whole.search(line) for line in file)


def _list_thread_texts(thread: Thread) -> Iterator[str]:
    """Yield what is known of a thread apart from its entries."""
    yield from (
        thread.id, thread.cwd, thread.name, thread.model, thread.git_branch, thread.git_head,
    )  # fmt: skip
    yield from (thread.parent, thread.version, *thread.tools, *thread.skills, *thread.artifacts)
    yield from (notice.text for notice in thread.notices)
    yield from (text for one in thread.background for text in (one.id, one.label))


def _join_entry_text(entry: Entry) -> str:
    """Return everything in an entry."""
    call = entry.tool
    if call is None:
        return entry.text
    parts = [entry.text, call.name, call.command, call.detail, call.workdir, *call.paths]
    parts += [part for c in call.changes for part in (c.path, c.old, c.new)]
    parts += [todo.text for todo in call.todos or ()]
    return "\n".join([*parts, call.output])


def _list_user_texts(entry: Entry) -> Iterator[str]:
    """Yield what the user wrote in an entry; of an earlier brief its goal and quotes of them."""
    if entry.kind != "user":
        return
    if entry.origin in _BY_HAND:
        yield entry.text
    elif entry.origin == "handoff":
        yield extract_words_after_handoff(entry.text)
        if goal := list(_GOAL.finditer(entry.text)):
            yield entry.text[goal[-1].end() :]
        for line in parse_lines(entry.text):
            if quoted := _QUOTED.match(line.text):
                yield quoted["words"]


def _strip_cd(command: str) -> Iterator[str]:
    yield command
    while match := _CD.match(command):
        command = command[match.end() :]
        yield command


def _list_paths(call: ToolCall) -> Iterator[str]:
    yield from call.paths
    yield from (change.path for change in call.changes)


def _list_folders(call: ToolCall) -> Iterator[str]:
    """Yield where a call ran, or parts of its command, if not in the thread's folder."""
    if call.workdir:
        yield call.workdir
    yield from _CHANGED_FOLDER.findall(call.command)


def _contains_whole(
    wanted: str, text: str, *, begin: str | None = None, end: str | None = None
) -> bool:
    """Return whether a line of `text` contains a text, and not as part of a longer word.

    A placeholder in it matches anything.
    """
    parts = [part.strip() for part in _PLACEHOLDER.split(wanted)]
    if not any(parts):
        return True
    if not all(part in text for part in parts):  # Cheap, and mostly decisive.
        return False
    hidden = rf"[^\n]{{0,{_HIDDEN_SECRET}}}?"
    if begin is None:
        begin = _AT_WORD if _WORD.match(parts[0]) else ""
    if end is None:
        end = _PAST_WORD if _WORD.match(parts[-1][-1:]) else ""
    return bool(re.search(begin + hidden.join(map(re.escape, parts)) + end, text))
