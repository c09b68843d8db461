"""Looks up in one thread what is said to stand there to the letter.

Texts in memory are searched first, and only for what is still missing the bytes of the thread
files, since long results are cut in memory.
"""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import islice

from tasuki.draft.entries import entry_text, users_words
from tasuki.draft.occurrence import OF_A_QUOTE, Claim, stands, visible
from tasuki.draft.text import comparable, one_line
from tasuki.harness.jsonl import occurring
from tasuki.model import Goal, Thread

_MEMBER = re.compile(r"[A-Za-z_]\w{2,}(?:(?:\.|::|#|->)[A-Za-z_]\w{2,})+(?:\(\))?")
_JOINTS = re.compile(r"\.|::|#|->|\(\)")
_WORDS = re.compile(r"[\w-]+(?:/[\w-]+)+")
_INSERTED = re.compile(r"\[[^\]]{3,}\]")
_UNHEARD = "`*\"“”'‘’\u00ad\u200b\u200c\u200d\u200e\u200f\u2060\ufeff"
_NEGATES = re.compile(
    r"(?:\b(?:never|not|(?:do|does|did|must|should|ca|wo|need|is|are)nt|no|without|nicht|nie|kein\w*|pas|jamais"
    r"|nunca|не)(?: \w+)?|不|别|没)\s*$"
)
_WRAPPED_NEGATION = re.compile(
    r"\b(?:never|without|(?:do|must|should)nt|(?:do|must|should|may|can|shall|will) not|kein\w*)\s*$"
)
"""A negation at the end of a line that goes on in the next one, so that it negates what stands there."""
_LINE_END = "\x00"
"""Stands for a line's end while a message is folded; no text of a thread holds it then."""
_ENDS = " .,;:!?。！？"
LEAST = 5
"""Characters of what is looked for in the files: less than that occurs in ids and times."""


class Standing:
    """The texts of a thread and of its goal, put together when they are first asked for."""

    def __init__(self, thread: Thread, goal: Goal | None = None) -> None:
        self.thread = thread
        self.goal = goal
        self.entries = {e.ref: e for e in thread.entries}
        self._texts: dict[int, str] = {}
        self._behind: dict[str, bool] = {}
        self._known: dict[Claim, bool] = {}
        self._extents = dict(_sizes(thread.sources))
        """What is written behind it from now on, an author's answer perhaps, bears nothing out."""

    def text(self, ref: int) -> str:
        """Everything an entry holds; empty for an unknown ref."""
        if ref not in self._texts:
            entry = self.entries.get(ref)
            self._texts[ref] = entry_text(entry) if entry else ""
        return self._texts[ref]

    @cached_property
    def folded(self) -> str:
        """All texts with the goal, each on a line of its own."""
        goal = self.goal.text if self.goal else ""
        return "\n".join([one_line(goal), *(one_line(self.text(ref)) for ref in self.entries)])

    @cached_property
    def lower(self) -> str:
        """The same without regard to case, quote marks and emphasis."""
        return _unmarked(self.folded).lower()

    @cached_property
    def by_hand(self) -> str:
        """What the user wrote, in the same way; each message is one line."""
        return self._by_hand[0]

    @cached_property
    def _by_hand(self) -> tuple[str, frozenset[int]]:
        """What the user wrote, and where in it a line of theirs begins."""
        texts = [words for entry in self.entries.values() if (words := users_words(entry))]
        if self.goal and self.goal.said_by == "user":
            texts.append(self.goal.text)
        messages: list[str] = []
        begins: set[int] = set()
        at = 0
        for text in texts:
            lines = _spoken_lines(text)
            messages.append(" ".join(lines))
            for line in lines:
                begins.add(at)
                at += len(line) + 1
        return "\n".join(messages), frozenset(begins)

    def anywhere(self, text: str) -> bool:
        """Whether a text stands in some entry, or in the thread's files behind what was cut."""
        in_memory = any(text in self.text(ref) for ref in self.entries)
        return in_memory or self._in_files([text])

    def look_up(self, sentences: Iterable[Iterable[Claim]]) -> None:
        """Look for the claims of several sentences, one of each in one pass over the files.

        A pass costs as much as reading them. The rest of a sentence goes with what is nowhere.
        """
        left = [filter(self._can_be_behind, claims) for claims in sentences]
        while pairs := [(claim.text, rest) for rest in left if (claim := next(rest, None))]:
            self._in_files([text for text, _ in pairs])
            left = [rest for text, rest in pairs if self._behind[text]]

    def _can_be_behind(self, claim: Claim) -> bool:
        return _in_files(claim) and not self._in_texts(claim)

    def _in_files(self, texts: Sequence[str]) -> bool:
        unknown = [text for text in texts if text not in self._behind]
        if unknown:
            found = occurring(self.thread.sources, unknown, self._extents)
            self._behind.update((text, text in found) for text in unknown)
        return all(self._behind[text] for text in texts)

    def holds(self, claim: Claim, refs: Sequence[int]) -> bool:
        """Whether a claim stands in the thread or its goal; `refs` are what is cited for it.

        A number is looked for in the files only where a result that is cited was cut: among their
        times and sizes every number occurs.
        """
        if claim.text.startswith("#") and claim.text[1:].isdigit():
            return int(claim.text[1:]) in self.entries or stands(claim.text[1:], self.folded)
        if self._in_texts(claim):
            return True
        if claim.text in self.folded or not (_in_files(claim) or self._is_cut(refs)):
            return False
        return self._in_files([claim.text])

    def _in_texts(self, claim: Claim) -> bool:
        if claim not in self._known:
            self._known[claim] = self._stands(claim)
        return self._known[claim]

    def _stands(self, claim: Claim) -> bool:
        text = claim.text
        if claim.kind == "quote":
            return any(stands(words, self.lower, OF_A_QUOTE) for words in _forms(text))
        below = text.removeprefix(f"{self.thread.cwd}/") if self.thread.cwd else text
        if stands(text, self.folded) or (below != text and stands(below, self.folded)):
            return True
        if " " in text and stands(_unmarked(text).lower(), self.lower):
            return True
        if claim.kind == "value" and _MEMBER.fullmatch(text):
            return self._together([part for part in _JOINTS.split(text) if part])
        if claim.kind == "path" and _WORDS.fullmatch(text):
            return self._together(text.split("/")) and not stands(
                f"{text.partition('/')[0]}/", self.folded
            )
        return False

    def _together(self, names: Sequence[str]) -> bool:
        """Whether some entry holds all of some names."""
        if not all(name in self.folded for name in names):
            return False
        lines = self.folded.split("\n")
        return any(all(stands(name, line) for name in names) for line in lines if names[0] in line)

    def names(self, word: str) -> bool:
        """Whether a name occurs, whatever its case."""
        return word.lower() in self.lower

    def holding(self, words: str, refs: Sequence[int]) -> tuple[int, ...]:
        """Of some refs those whose entries hold what was said, as `spoken` gives it, else the newest."""
        if not words or not stands(words, self.lower, OF_A_QUOTE):
            return ()
        lines = dict(zip(self.entries, self.lower.split("\n")[1:], strict=True))
        cited = tuple(r for r in refs if r in lines and stands(words, lines[r], OF_A_QUOTE))
        newest = (r for r in reversed(self.entries) if stands(words, lines[r], OF_A_QUOTE))
        return cited or tuple(islice(newest, 1))

    def _is_cut(self, refs: Sequence[int]) -> bool:
        calls = [entry.tool for r in refs if (entry := self.entries.get(r))]
        return any(call and call.output_size > len(call.output) for call in calls)

    def by_user(self, words: str) -> bool:
        """Whether the user wrote these words, case, white space and emphasis aside.

        A part of what they wrote does not count where a negation stands right before it in the same
        sentence. The end of a line ends a sentence, unless the line breaks off after a negation.
        """
        return any(self._is_by_user(form) for form in _forms(words))

    def _is_by_user(self, wanted: str) -> bool:
        if not stands(wanted, self.by_hand, OF_A_QUOTE):
            return False
        before = ""
        for part in filter(None, (part.strip(_ENDS) for part in wanted.split("…"))):
            if not (_NEGATES.search(before) or self._is_said_so(part)):
                return False
            before = part
        return True

    def _is_said_so(self, wanted: str) -> bool:
        """Whether some words stand somewhere without a negation before them, or nowhere as they are."""
        text, begins = self._by_hand
        at, seen = text.find(wanted), False
        while at >= 0:
            negates = _WRAPPED_NEGATION if at in begins else _NEGATES
            if not negates.search(text[max(0, at - 24) : at].rpartition("\n")[2]):
                return True
            at, seen = text.find(wanted, at + 1), True
        return not seen  # Parts of it were left out.


def _sizes(paths: Iterable[str]) -> Iterator[tuple[str, int]]:
    for path in paths:
        with suppress(OSError):
            yield path, os.stat(path).st_size


def _forms(quote: str) -> list[str]:
    """How a quote may stand: as it is, and without what was put into it, `[the test output]`."""
    return [form for form in (spoken(quote), spoken(_INSERTED.sub("…", quote))) if form]


def spoken(text: str) -> str:
    """What quotes are compared by: no case, no emphasis, apostrophes, quote or closing marks."""
    bare = _unmarked(comparable(visible(text))).lower()
    return bare.strip(" ").removesuffix("…").strip(_ENDS)


def _spoken_lines(text: str) -> list[str]:
    """The lines of a text as `spoken` folds them; together, with blanks between, they are that."""
    marked = f" {_LINE_END} ".join(filter(None, map(visible, text.split("\n"))))
    lines = _unmarked(comparable(marked)).lower().split(_LINE_END)
    return [line.strip() for line in lines if line.strip()]


def _unmarked(text: str) -> str:
    """A text without quote marks and emphasis, and without the double blanks that they leave behind."""
    for mark in _UNHEARD:
        text = text.replace(mark, "")
    while "  " in text:
        text = text.replace("  ", " ")
    return text


def _in_files(claim: Claim) -> bool:
    """Whether a claim is long enough to be looked for among the bytes of a file, and no number."""
    return len(claim.text) >= LEAST and any(character.isalpha() for character in claim.text)
