"""Look up in one thread what is said to be in it verbatim.

Texts in memory are searched first. The bytes of the thread files are searched only for what
is still missing, since long results are cut in memory.
"""

import os
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import islice
from pathlib import Path

from tasuki.draft.text.entries import (
    QUOTE_WINDOW,
    TextClaim,
    contains_verbatim,
    extract_user_words,
    join_entry_text,
    strip_colours,
    strip_hidden,
)
from tasuki.draft.text.pasted import PASTED
from tasuki.draft.text.split import fold_for_comparison, fold_whitespace
from tasuki.harness.reading.answers import parse_answers
from tasuki.model import Entry, Goal, Thread
from tasuki.paths import make_relative
from tasuki.patterns import compile_pattern

_BEFORE = compile_pattern(
    r"(?:^|[;&|(]|\s--|['\"]|\bsudo|\btime|\btimeout \S+|\bexec|(?<!\S)\w+=\S*) $|^$|['\"(]$"
)
_AFTER = compile_pattern(r"\s*(?:$|[;&|)'\"<>]|\d?>)")

_MEMBER = compile_pattern(r"[A-Za-z_]\w{2,}(?:(?:\.|::|#|->)[A-Za-z_]\w{2,})+(?:\(\))?")
_JOINTS = compile_pattern(r"\.|::|#|->|\(\)")
_WORDS = compile_pattern(r"[\w-]+(?:/[\w-]+)+")
_INSERTED = compile_pattern(r"\[[^\]]{3,}\]")
_QUOTE_MARKS = "`*\"“”'‘’\u00ad\u200b\u200c\u200d\u200e\u200f\u2060\ufeff"
_NEGATES = compile_pattern(
    r"(?:\b(?:never|not|(?:do|does|did|must|should|ca|wo|need|is|are)nt|no|without|nicht|nie|kein\w*|pas|jamais"
    r"|nunca|не)(?: \w+)?|不|别|没)\s*$"
)
_WRAPPED_NEGATION = compile_pattern(
    r"\b(?:never|without|(?:do|must|should)nt|(?:do|must|should|may|can|shall|will) not|kein\w*)\s*$"
)
"""A negation at the end of a line that continues in the next one, so that it negates what is there."""
_LINE_END = "\x00"
"""Represents a line's end while a message is folded; no text of a thread contains it then."""
_TEXT_PREFIX = compile_pattern(r"(?<=\b[fbru])(?=[\"'][^\"'\s])", re.IGNORECASE)
"""Where the text of a literal begins, `f"Hello"`: without its mark the two are no word."""
_ENDS = " .,;:!?。！？"
_LAYOUT = compile_pattern(r" ?([()\[\]{}<>,;:=+*/|&]) ?")
_LAST_COMMA = compile_pattern(r",(?=[)\]}])")
_PLACE = compile_pattern(r"([\w-]+(?:\.[\w-]+)*):(\d{2,5})")
"""A host and a port, which commands give apart."""
_DECIMAL = compile_pattern(r"\d+(?:\.(\d+))")
_FRACTION = compile_pattern(r"(?<![\w.])\d+\.\d+(?![\w.])")
MIN_SEARCHED = 5
"""Minimum characters of what is looked for in the files: shorter texts occur in ids and times."""


class ThreadLookup:
    """The texts of a thread and of its goal, put together on first use."""

    def __init__(
        self, thread: Thread, goal: Goal | None = None, ends: Mapping[str, int] | None = None
    ) -> None:
        """`ends` are byte offsets up to which files are searched, by their paths."""
        self.thread = thread
        self.goal = goal
        self._texts: dict[int, str] = {}
        self._file_matches: dict[str, bool] = {}
        self._text_matches: dict[TextClaim, bool] = {}
        self._extents: dict[str, int] = {}
        """What is written after it from now on, perhaps an author's answer, supports nothing."""
        for path in thread.sources:
            with suppress(OSError):
                self._extents[path] = os.stat(path).st_size
        self._extents |= ends or {}

    @cached_property
    def entries(self) -> dict[int, Entry]:
        """The entries by their refs."""
        return {e.ref: e for e in self.thread.entries}

    def find_entry(self, ref: int) -> Entry | None:
        """Return the entry of a ref, None for an unknown one.

        Where no branch was left the refs count on, so a table of them all is seldom needed.
        """
        entries = self.thread.entries
        index = ref - entries[0].ref if entries else -1
        if 0 <= index < len(entries) and entries[index].ref == ref:
            return entries[index]
        return self.entries.get(ref)

    def get_text(self, ref: int) -> str:
        """Return everything in an entry, or an empty string for an unknown ref."""
        if ref not in self._texts:
            entry = self.find_entry(ref)
            self._texts[ref] = strip_colours(join_entry_text(entry)) if entry else ""
        return self._texts[ref]

    @cached_property
    def folded(self) -> str:
        """All texts with the goal, each on its own line."""
        goal = self.goal.text if self.goal else ""
        return "\n".join(
            [fold_whitespace(goal), *(fold_whitespace(self.get_text(ref)) for ref in self.entries)]
        )

    @cached_property
    def lower(self) -> str:
        """The same without case, quote marks and emphasis."""
        return _strip_marks(self.folded).lower()

    @cached_property
    def code(self) -> str:
        """The same without the white space and the commas that only lay code out."""
        return _fold_code(self.folded)

    @cached_property
    def user_text(self) -> str:
        """What the user wrote, in the same form; each message is one line."""
        return self._user_text_and_starts[0]

    @cached_property
    def _user_text_and_starts(self) -> tuple[str, frozenset[int]]:
        """What the user wrote, and where in it each of their lines begins."""
        texts = [words for entry in self.thread.entries if (words := extract_user_words(entry))]
        if self.goal and self.goal.said_by == "user":
            texts.append(self.goal.text)
        messages: list[str] = []
        begins: set[int] = set()
        position = 0
        for text in texts:
            lines = _fold_quote_lines(text)
            messages.append(" ".join(lines))
            for line in lines:
                begins.add(position)
                position += len(line) + 1
        return "\n".join(messages), frozenset(begins)

    def is_anywhere(self, text: str) -> bool:
        """Return whether a text is in some entry, or in the thread's files after a cut."""
        in_memory = any(text in self.get_text(ref) for ref in self.entries)
        return in_memory or self._are_in_files([text])

    def look_up_claims(self, sentences: Iterable[Iterable[TextClaim]]) -> None:
        """Look for the claims of several sentences, one of each per pass over the files.

        A pass costs as much as reading them. If one claim is found nowhere, the rest of its
        sentence is skipped.
        """

        def may_be_in_files(claim: TextClaim) -> bool:
            return _is_searchable(claim) and not self._is_in_texts(claim)

        left = [filter(may_be_in_files, claims) for claims in sentences]
        while pairs := [(claim.text, rest) for rest in left if (claim := next(rest, None))]:
            self._are_in_files([text for text, _ in pairs])
            left = [rest for text, rest in pairs if self._file_matches[text]]

    def _are_in_files(self, texts: Sequence[str]) -> bool:
        unknown = [text for text in texts if text not in self._file_matches]
        if unknown:
            found = find_occurring(self.thread.sources, unknown, self._extents)
            self._file_matches.update((text, text in found) for text in unknown)
        return all(self._file_matches[text] for text in texts)

    def has_claim(self, claim: TextClaim, refs: Sequence[int]) -> bool:
        """Return whether a claim is in the thread or its goal; `refs` are the entries cited for it.

        A number is looked for in the files only if a cited result was cut: every number occurs
        among their times and sizes.
        """
        number = claim.text[1:]
        if claim.text.startswith("#") and number.isdigit():
            return int(number) in self.entries or contains_verbatim(number, self.folded)
        if self._is_in_texts(claim) or self._is_rounded(claim, refs):
            return True
        if claim.text in self.folded or not (_is_searchable(claim) or self._is_cut(refs)):
            return False
        return self._are_in_files([claim.text])

    def _is_rounded(self, claim: TextClaim, refs: Sequence[int]) -> bool:
        """Return whether a number is one of a cited entry, rounded to fewer digits."""
        match = _DECIMAL.fullmatch(claim.text) if claim.kind == "value" else None
        if match is None:
            return False
        digits = len(match[1])
        return any(
            abs(float(found) - float(claim.text)) <= 0.5 * 10**-digits + 1e-9
            for ref in refs
            for found in _FRACTION.findall(self.get_text(ref))
        )

    def _is_in_texts(self, claim: TextClaim) -> bool:
        if claim not in self._text_matches:
            self._text_matches[claim] = self._matches_texts(claim)
        return self._text_matches[claim]

    def _matches_texts(self, claim: TextClaim) -> bool:
        text = claim.text
        if claim.kind == "quote":
            forms = _list_forms(text)
            return any(contains_verbatim(form, self.lower, QUOTE_WINDOW) for form in forms)
        below = make_relative(text, self.thread.cwd)
        if any(contains_verbatim(form, self.folded) for form in dict.fromkeys((text, below))):
            return True
        if " " in text and contains_verbatim(_strip_marks(text).lower(), self.lower):
            return True
        if claim.kind in ("value", "command") and _fold_code(text) in self.code:
            return True
        if place := _PLACE.fullmatch(text):
            return self._has_together(list(place.groups()))
        if claim.kind == "value" and _MEMBER.fullmatch(text):
            return self._has_together([part for part in _JOINTS.split(text) if part])
        if claim.kind == "path" and _WORDS.fullmatch(text):
            folder = f"{text.partition('/')[0]}/"
            is_folder = contains_verbatim(folder, self.folded)
            return self._has_together(text.split("/")) and not is_folder
        return False

    def _has_together(self, names: Sequence[str]) -> bool:
        if not all(name in self.folded for name in names):
            return False
        lines = (line for line in self.folded.split("\n") if names[0] in line)
        return any(all(contains_verbatim(name, line) for name in names) for line in lines)

    def has_name(self, word: str) -> bool:
        """Return whether a name occurs, in any case."""
        return word.lower() in self.lower

    def find_quoting_entries(self, words: str, refs: Sequence[int]) -> tuple[int, ...]:
        """Return those of some refs whose entries contain a quote, else the newest that does.

        `words` are the quote as `fold_quote` returns it.
        """
        if not words or not contains_verbatim(words, self.lower, QUOTE_WINDOW):
            return ()
        lines = dict(zip(self.entries, self.lower.split("\n")[1:], strict=True))

        def list_quoting(refs: Iterable[int]) -> Iterator[int]:
            known = (ref for ref in refs if ref in lines)
            return (r for r in known if contains_verbatim(words, lines[r], QUOTE_WINDOW))

        return tuple(list_quoting(refs)) or tuple(islice(list_quoting(reversed(self.entries)), 1))

    def _is_cut(self, refs: Sequence[int]) -> bool:
        calls = [entry.tool for r in refs if (entry := self.find_entry(r))]
        return any(call and call.output_size > len(call.output) for call in calls)

    def is_user_quote(self, words: str, refs: Sequence[int] = ()) -> bool:
        """Return whether the user wrote these words, apart from case, white space and emphasis.

        A part of what they wrote does not count if a negation is right before it in the same
        sentence. The end of a line ends a sentence, unless the line breaks off after a negation.
        """
        cited = [entry for ref in refs if (entry := self.find_entry(ref))]
        parts = list(filter(None, map(_list_forms, PASTED.split(words))))

        def is_said(form: str) -> bool:
            return any(_is_plainly_said(form, one) for one in cited) or self._is_by_user(form)

        return bool(parts) and all(any(map(is_said, forms)) for forms in parts)

    def is_user_choice(self, text: str, refs: Sequence[int]) -> bool:
        """Return whether a line says what the user chose where a tool of the agent asked."""
        given = parse_answers(text)
        cited = (entry.text for ref in refs if (entry := self.find_entry(ref)))
        known = [one for answered in cited for one in parse_answers(answered) if one.is_chosen]
        return bool(given) and all(
            any(_is_begun(g.question, k.question) and _is_begun(g.answer, k.answer) for k in known)
            for g in given
        )

    def _is_by_user(self, wanted: str) -> bool:
        if not contains_verbatim(wanted, self.user_text, QUOTE_WINDOW):
            return False
        before = ""
        for part in filter(None, (part.strip(_ENDS) for part in wanted.split("…"))):
            if not (_NEGATES.search(before) or self._is_said_without_negation(part)):
                return False
            before = part
        return True

    def _is_said_without_negation(self, wanted: str) -> bool:
        """Whether some words occur without a negation before them, or do not occur verbatim."""
        text, begins = self._user_text_and_starts
        position, seen = text.find(wanted), False
        while position >= 0:
            negates = _WRAPPED_NEGATION if position in begins else _NEGATES
            if not negates.search(text[max(0, position - 24) : position].rpartition("\n")[2]):
                return True
            position, seen = text.find(wanted, position + 1), True
        return not seen  # Parts of it were left out.


def _is_plainly_said(wanted: str, entry: Entry) -> bool:
    """Return whether the user wrote these words in a message, and nothing right before negates.

    What is so needs no look through the other messages.
    """
    if "…" in wanted:
        return False
    text = " ".join(_fold_quote_lines(extract_user_words(entry)))
    if wanted not in text or not contains_verbatim(wanted, text, QUOTE_WINDOW):
        return False
    position = text.find(wanted.strip(_ENDS))
    before = text[max(0, position - 24) : position]
    return not (_NEGATES.search(before) or _WRAPPED_NEGATION.search(before))


def _list_forms(quote: str) -> list[str]:
    """Return how a quote may occur: as it is, and without inserted parts, `[the test output]`."""
    return [form for form in (fold_quote(quote), fold_quote(_INSERTED.sub("…", quote))) if form]


def fold_quote(text: str) -> str:
    """Return a quote in the form for comparison: no case, emphasis, apostrophes or quote marks. Closing marks are removed too."""
    bare = _strip_marks(fold_for_comparison(strip_hidden(text))).lower()
    return bare.strip(" ").removesuffix("…").strip(_ENDS)


def _fold_quote_lines(text: str) -> list[str]:
    """The lines of a text as `fold_quote` folds them; joined with blanks they equal its result."""
    marked = f" {_LINE_END} ".join(filter(None, map(strip_hidden, text.split("\n"))))
    lines = _strip_marks(fold_for_comparison(marked)).lower().split(_LINE_END)
    return [line.strip() for line in lines if line.strip()]


def _fold_code(text: str) -> str:
    """Return code without white space at signs, and without commas before a closing one."""
    return _LAST_COMMA.sub("", _LAYOUT.sub(r"\1", text))


def _strip_marks(text: str) -> str:
    """Return a text without quote marks and emphasis, and without the double blanks they leave."""
    text = _TEXT_PREFIX.sub(" ", text)
    for mark in _QUOTE_MARKS:
        text = text.replace(mark, "")
    while "  " in text:
        text = text.replace("  ", " ")
    return text


def _is_searchable(claim: TextClaim) -> bool:
    """Return whether a claim is long enough to be looked for in a file's bytes, and no number."""
    return len(claim.text) >= MIN_SEARCHED and any(character.isalpha() for character in claim.text)


def contains_command(command: str, part: str, *, is_cut: bool) -> bool:
    """Return whether a command line runs a command, perhaps with others. If `is_cut`, more arguments may follow it."""
    index = command.find(part) if part else -1
    while index >= 0:
        rest = command[index + len(part) :]
        whole = not (is_cut and rest[:1] in ("", " ")) and not _AFTER.match(rest)
        if not whole and _BEFORE.search(command[:index]):
            return True
        index = command.find(part, index + 1)
    return False


def matches_shortened(shortened: str, command: str) -> bool:
    """Return whether `shortened` shows a command from its start with parts left out. For example `git commit -m "…"`."""
    head, left_out, _ = shortened.partition("…")
    is_begun = bool(left_out and head.strip()) and command.startswith(head)
    return is_begun and contains_verbatim(shortened, command)


def is_unique_tail(path: str, known_paths: Sequence[str]) -> bool:
    """Return whether a path of two parts or more is the end of exactly one known path."""
    if "/" not in path:
        return False
    counts = Counter(k for k in known_paths if k.endswith("/" + path))
    return len(counts) == 1


def _is_begun(text: str, whole: str) -> bool:
    """Return whether a text is another one, perhaps shortened at its end."""
    return text == whole or (text.endswith("…") and whole.startswith(text[:-1].rstrip()))


_SQLITE = b"SQLite format 3\0"
_BLOCK = 1 << 20


def find_occurring(
    paths: Iterable[str], needles: Iterable[str], extents: Mapping[str, int] | None = None
) -> set[str]:
    """Find which texts occur in the strings of thread files, whatever was clipped in memory.

    `extents` are the bytes of each file that count, from its beginning; by default all.
    Compares JSON-escaped bytes, in Markdown the plain ones, block by block, so the cost is that
    of reading the files. Databases are left out: their pages hold other threads, and split
    texts.
    """
    import json  # Heavy at start.

    texts = {n for n in needles if n}
    found: set[str] = set()
    for path in paths:
        plain = path.endswith(".md")
        wanted: dict[str, set[bytes]] = {}
        for text in texts - found:
            wanted[text] = {text.encode("utf-8", "replace")}
            if not plain:
                as_is = json.dumps(text, ensure_ascii=False).encode("utf-8", "replace")
                wanted[text] = {as_is[1:-1], json.dumps(text)[1:-1].encode()}
        longest = max((len(e) for es in wanted.values() for e in es), default=0)
        for block in _read_blocks(Path(path), longest, (extents or {}).get(path)):
            found |= {n for n, es in wanted.items() if any(e in block for e in es)}
            wanted = {n: es for n, es in wanted.items() if n not in found}
            if not wanted:
                break
    return found


def _read_blocks(path: Path, overlap: int, extent: int | None) -> Iterator[bytes]:
    carried = b""
    left = sys.maxsize if extent is None else extent
    try:
        with path.open("rb") as file:
            while block := file.read(min(_BLOCK, left)):
                left -= len(block)
                if not carried and block.startswith(_SQLITE):
                    return
                yield carried + block
                carried = block[-overlap:] if overlap else b""
    except OSError:
        return
