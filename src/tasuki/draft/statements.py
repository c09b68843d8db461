"""Sentences of a thread that may be worth handing on, each with who said it and how much it says."""

import re
from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Literal

from msgspec import Struct

from tasuki.draft import said
from tasuki.draft.text import (
    MAX_QUOTE,
    STOP_WORDS,
    comparable,
    one_line,
    own_words,
    sentences,
    shorten,
)
from tasuki.model import Entry, Quote

StatementKind = Literal[
    "request", "constraint", "reversal", "decision", "question", "next", "rejected", "finding"
]
MAX_CHARACTERS = 150_000
"""Assistant text looked at in full, newest first. Of what is older, only entries that name
something the goal names. User text is always looked at in full."""
MAX_STATEMENTS = 1_200
"""Statements of the agent that are weighed, the newest."""
LEAST = 0.7
"""Weight under which a sentence of the agent says too little to be quoted."""
PRINTED = 6
"""How many assistant texts back a sentence of the user may have been copied from."""
OWN_LOOKED_AT = 300
"""Newest statements of the user in which something may be taken back."""
COMMON = 20
"""A word in more statements than this tells nothing."""
RARE = 4
"""Statements in which a word may stand to tell what is spoken of."""
REPLIES = 3
"""Messages of the user in which a refusal of a proposal is looked for."""
NEXT_WORDS = 4
"""Texts after a question in which an answer is looked for."""
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
    """A short message as a whole, so that its sentences explain each other; a long one cut up.

    Where pasted lines were taken out, what stands on both sides of them is not one sentence.
    """
    text = text[: 2 * MAX_OWN_WORDS]
    own = own_words(text)[:MAX_OWN_WORDS]
    whole, said_so = one_line(own), comparable(text)
    if len(whole) <= WHOLE_MESSAGE and "\n\n" not in own and comparable(whole) in said_so:
        return (whole,) if len(whole) >= 8 else ()
    return [s for s in sentences(own) if comparable(s) in said_so]


def _by_user(sentence: str, entry: Entry, printed: Sequence[str]) -> Statement:
    sentence = sentence[:MAX_SENTENCE]
    found = said.marks(sentence)
    weight = said.weight_user(sentence, found)
    kind: StatementKind = "request"
    if found & said.REVERSAL:
        kind = "reversal"
    elif found & said.WISH and weight >= 1.3:
        kind = "constraint"
    elif found & said.DECISION or entry.origin == "answer":
        kind = "decision"
    elif said.asks_to_know(sentence, found):
        kind, weight = "question", max(weight, 0.8)
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
        if len(found) >= MAX_STATEMENTS:
            break
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
    before = ""
    for sentence in sentences(entry.text):
        sentence, alone = sentence[:MAX_SENTENCE], sentence
        if len(sentence) < 60 and sentence.endswith(":"):
            section = said.marks(sentence)
        if said.is_narration(sentence):
            before = alone
            continue
        previous, before = before, alone
        found = said.marks(sentence)
        weight = said.weight_assistant(sentence, found)
        if weight < LEAST:
            continue
        kind = _assistant_kind(sentence, found, section)
        if kind is not None:
            text = _with_what_it_speaks_of(sentence, previous, entry.text)
            yield Statement(
                text=shorten(text), ref=entry.ref, kind=kind, weight=weight, by_user=False
            )


_POINTS_BACK = re.compile(
    r"(?:That|This|It|They|But|So|Because|Which|Those|These|Both|Neither|Das|Dies|Es|Aber|Eso|Pero)\b"
)


def _with_what_it_speaks_of(sentence: str, before: str, text: str) -> str:
    """A sentence that points back, behind the one before it where both stand side by side."""
    if not before or not _POINTS_BACK.match(sentence) or said.is_narration(before):
        return sentence
    both = f"{before} {sentence}"
    return both if len(both) <= MAX_QUOTE and both in one_line(text.replace("**", "")) else sentence


def _assistant_kind(sentence: str, found: int, section: int) -> StatementKind | None:
    if found & said.OPEN:
        return None if said.RHETORICAL.search(sentence.lower()) else "question"
    if found & said.FAILED:
        return "rejected"
    if (found | section) & said.NEXT:
        return "next"
    if found & said.DECISION:
        return "decision"
    return "finding"


class Talk:
    """Who said what after an entry: the texts of each side, in order, ready to be searched."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        self._refs: dict[str, list[int]] = {"user": [], "assistant": []}
        self._texts: dict[str, list[str]] = {"user": [], "assistant": []}
        for entry in entries:
            if entry.kind in ("user", "assistant"):
                self._refs[entry.kind].append(entry.ref)
                self._texts[entry.kind].append(entry.text)

    def after(self, ref: int, side: str, count: int) -> list[str]:
        """The next few texts of one side."""
        at = bisect_right(self._refs[side], ref)
        return self._texts[side][at : at + count]


def unanswered(question: Statement, talk: Talk) -> bool:
    """Whether nobody took a question up in what was said after it.

    Taken up means: the other side's next words share a third of its terms (two thirds where the
    user asked), or a short reply follows at once. What nobody had a chance to answer is open.
    """
    about = _telling(question.text)
    after = talk.after(question.ref, "assistant" if question.by_user else "user", NEXT_WORDS)
    if not question.by_user and after and len(after[0]) <= SHORT_REPLY:
        return False
    said_after = " ".join(after).lower()
    taken_up = sum(t in said_after for t in about)
    return taken_up * 3 < max(len(about), 1) * (2 if question.by_user else 1)


def superseded(statements: Sequence[Statement]) -> set[int]:
    """Positions of statements that the user later took back, refused or replaced.

    A reversal takes back the newest earlier statement of the user that it shares two telling words
    with, or the thing it names ("forget the toggle"). A statement with other figures replaces an
    earlier one that shares half of its words. A proposal of the agent goes with a refusal by one of
    the user's next messages that names the same thing.
    """
    own = [_Own(i, s) for i, s in enumerate(statements) if s.by_user][-OWN_LOOKED_AT:]
    gone: set[int] = set()
    for later, others in _pairs(own):
        if later.statement.kind == "reversal":
            taken = (e.position for e, shared in others if later.takes_back(e, shared))
            gone.update(islice(taken, 1))
        if later.figures:
            gone.update(e.position for e, shared in others if later.replaces(e, shared))
    return gone | _refused_proposals(statements, own)


class _Own:
    """A statement of the user, prepared for comparing."""

    def __init__(self, position: int, statement: Statement) -> None:
        self.position = position
        self.statement = statement
        self.words = _telling(statement.text)
        self.figures = set(_FIGURE.findall(statement.text))
        self.named = {
            w.lower() for m in _TAKES_BACK.finditer(statement.text) for w in m.groups() if w
        }

    def takes_back(self, earlier: "_Own", shared: int) -> bool:
        alike = shared >= 2 and shared * 3 >= min(len(self.words), len(earlier.words))
        return alike or bool(self.named & earlier.words)

    def replaces(self, earlier: "_Own", shared: int) -> bool:
        if shared < 2 or not earlier.figures or self.figures == earlier.figures:
            return False
        return shared * 2 >= max(len(earlier.words), 4)


def _pairs(own: Sequence[_Own]) -> Iterator[tuple[_Own, list[tuple[_Own, int]]]]:
    """Each statement with the earlier ones it shares telling words with, the newest first."""
    holding: dict[str, list[int]] = {}
    for n, later in enumerate(own):
        shared: Counter[int] = Counter()
        for word in later.words:
            found = holding.setdefault(word, [])
            if len(found) <= COMMON:
                shared.update(found)
            found.append(n)
        if shared:
            yield later, [(own[i], shared[i]) for i in sorted(shared, reverse=True)]


def _refused_proposals(statements: Sequence[Statement], own: Sequence[_Own]) -> set[int]:
    words = [_telling(s.text) for s in statements]
    seen = Counter(w for found in words for w in found)
    refusals = [o for o in own if _REFUSES.search(o.statement.text)]
    later = {o.statement.ref: n for n, o in enumerate(own)}
    gone = set()
    for i, statement in enumerate(statements):
        if statement.by_user or statement.kind not in ("next", "decision"):
            continue
        rare = {w for w in words[i] if seen[w] <= RARE}
        first = next((n for ref, n in later.items() if ref > statement.ref), len(own))
        near = {o.position for o in own[first : first + REPLIES]}
        if any(o.position in near and rare & o.words for o in refusals):
            gone.add(i)
    return gone


_TAKES_BACK = re.compile(
    r"\b(?:forget|drop|scrap|cancel|undo|revert|skip|remove|without|vergiss|lass|olvida)\s+(?:about\s+)?"
    r"(?:the\s+|that\s+|this\s+|those\s+|my\s+|die\s+|das\s+|den\s+|el\s+|la\s+)?([\w-]{3,})(?:\s+([\w-]{4,}))?",
    re.IGNORECASE,
)
_REFUSES = re.compile(
    r"\b(?:no|not|nope|nah|don'?t|never|rather|without|skip|nicht|kein\w*|lieber|non|pas|sin)\b|不",
    re.IGNORECASE,
)


_FIGURE = re.compile(r"\d[\d.,]*")
_WORD = re.compile(r"[^\W\d_]{4,}")


def _telling(text: str) -> set[str]:
    return set(_WORD.findall(text.lower())) - STOP_WORDS
