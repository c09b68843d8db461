"""Sentences of a thread that may be worth handing on, each with who said it and how much it says."""

import re
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Literal

from msgspec import Struct

from tasuki.draft import said
from tasuki.draft.text import comparable, one_line, own_words, sentences, shorten
from tasuki.model import Entry, Quote

StatementKind = Literal[
    "request", "constraint", "reversal", "decision", "question", "next", "rejected", "finding"
]
MAX_CHARACTERS = 200_000
"""Assistant text looked at in full, newest first. Of what is older, only entries that name
something the goal names. User text is always looked at in full."""
PRINTED = 6
"""How many assistant texts back a sentence of the user may have been copied from."""
SHORT_REPLY = 48
"""A message up to this length is shown with what it answers."""
MAX_SENTENCE = 1_200
WHOLE_MESSAGE = 260
"""A message of the user up to this length is quoted as one."""
MAX_OWN_WORDS = 4_000
"""A longer message of the user is taken to be pasted, but for its first paragraphs."""

_PICK = re.compile(
    r"\W*(?:(?:let'?s|go with|do|take|option|number)\s+)*#?(\d|[a-d])\b(?![.\w])", re.IGNORECASE
)


class Statement(Struct, frozen=True, gc=False):
    """One sentence, to the letter, with its weight before any goal is considered."""

    text: str
    ref: int
    kind: StatementKind
    weight: float
    by_user: bool
    answers: str = ""
    """The agent's sentence that a short message of the user replies to."""

    @property
    def quote(self) -> Quote:
        """The sentence as a quote of its entry."""
        return Quote(text=self.text, ref=self.ref)


def of_user(entries: Iterable[Entry]) -> list[Statement]:
    """What the user wrote with their own hands, sentence by sentence, oldest first.

    Sentences that the agent or a tool had printed before are not the user's own and left out;
    so are pasted blocks, and everything that the harness put into a user message.
    """
    found: list[Statement] = []
    printed: deque[str] = deque(maxlen=PRINTED)
    for entry in entries:
        if entry.kind == "assistant":
            printed.append(entry.text)
        elif entry.kind == "user" and entry.origin in ("typed", "queued", "answer"):
            before = "\n".join(printed)
            for sentence in _own_sentences(entry.text):
                if len(sentence) < 40 or sentence not in before:
                    found.append(_by_user(sentence, entry, printed))
    return found


def _own_sentences(text: str) -> Iterable[str]:
    """A short message as a whole, so that its sentences explain each other; a long one cut up."""
    own = own_words(text[: 2 * MAX_OWN_WORDS])[:MAX_OWN_WORDS]
    whole = one_line(own)
    if len(whole) <= WHOLE_MESSAGE and "\n\n" not in own:
        return (whole,) if len(whole) >= 8 else ()
    return sentences(own)


def _by_user(sentence: str, entry: Entry, printed: Sequence[str]) -> Statement:
    sentence = sentence[:MAX_SENTENCE]
    found = said.marks(sentence)
    weight = said.weight_user(sentence, found)
    kind: StatementKind = "request"
    if found & said.REVERSAL:
        kind = "reversal"
    elif found & said.WISH and weight >= 1.2:
        kind = "constraint"
    elif found & said.DECISION or entry.origin == "answer":
        kind = "decision"
    return Statement(text=shorten(sentence), ref=entry.ref, kind=kind, weight=weight, by_user=True)


def of_assistant(entries: Sequence[Entry], focus: Sequence[str] = ()) -> list[Statement]:
    """What the agent said that is more than an announcement, oldest first.

    Looks at the newest `MAX_CHARACTERS` and at older entries in which one of the identifiers in
    `focus` stands; drops a sentence that a later one repeats.
    """
    found: list[Statement] = []
    seen: set[str] = set()
    left = MAX_CHARACTERS
    for entry in reversed(entries):
        if entry.kind != "assistant":
            continue
        left -= len(entry.text)
        if left < 0 and not any(name in entry.text for name in focus):
            continue
        for statement in _by_assistant(entry):
            key = comparable(statement.text).lower()
            if key not in seen:
                seen.add(key)
                found.append(statement)
    found.sort(key=lambda s: s.ref)
    return found


def _by_assistant(entry: Entry) -> Iterable[Statement]:
    section = 0
    for sentence in sentences(entry.text):
        sentence = sentence[:MAX_SENTENCE]
        if len(sentence) < 60 and sentence.endswith(":"):
            section = said.marks(sentence)
        if said.is_narration(sentence):
            continue
        found = said.marks(sentence)
        weight = said.weight_assistant(sentence, found)
        if weight < 0.8:
            continue
        kind = _assistant_kind(sentence, found, section)
        if kind is not None:
            yield Statement(
                text=shorten(sentence), ref=entry.ref, kind=kind, weight=weight, by_user=False
            )


def _assistant_kind(sentence: str, found: int, section: int) -> StatementKind | None:
    if found & said.OPEN:
        return None if said.RHETORICAL.search(sentence.lower()) else "question"
    if (found | section) & said.NEXT:
        return "next"
    if found & said.FAILED:
        return "rejected"
    if found & said.DECISION:
        return "decision"
    return "finding"
