"""Which statements are still open: not done at once, not taken back or replaced."""

import re
import sys
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, lru_cache
from itertools import islice

from tasuki.draft.facts.statements import Statement
from tasuki.draft.text.lexicon import STOP_WORDS
from tasuki.draft.text.split import split_sentences
from tasuki.model import Entry
from tasuki.patterns import compile_pattern

REVERSAL_WINDOW = 300
"""Newest statements of the user among which reversals are looked for."""
COMMON_COUNT = 20
"""A word in more statements than this distinguishes nothing."""
RARE_COUNT = 4
"""Maximum statements that contain a word which identifies the subject."""
REFUSAL_WINDOW = 3
"""Messages of the user in which a refusal of a proposal is looked for."""
SMALL_WEIGHT, LAST_MESSAGES = 1.0, 3
"""Weight under which a request is small, and messages of the user that are still in progress."""
_TAKES_BACK = compile_pattern(
    r"\b(?:forget|drop|scrap|cancel|undo|revert|skip|remove|without|vergiss|lass|olvida)\s+(?:about\s+)?"
    r"(?:the\s+|that\s+|this\s+|those\s+|my\s+|die\s+|das\s+|den\s+|el\s+|la\s+)?([\w-]{3,})(?:\s+([\w-]{4,}))?",
    re.IGNORECASE,
)
_REFUSES = compile_pattern(
    r"\b(?:no|not|nope|nah|don'?t|never|rather|without|skip|nicht|kein\w*|lieber|non|pas|sin)\b|不",
    re.IGNORECASE,
)
_FIGURE = compile_pattern(r"\d[\d.,]*")
_TOKEN = compile_pattern(r"[^\W_]{3,}")
_MEASURE = compile_pattern(r"(\d[\d.,]*)((?:[ ][^\s.;:!?]+){1,3})?")
"""A figure and the words after it, if any, which say what it counts: `60 requests a second`."""
_INSTEAD = compile_pattern(
    r"\b(?:instead|rather|make it|make that|raise|lower|change|no longer|now|after all|statt|lieber|mejor)\b",
    re.IGNORECASE,
)
_WORD = compile_pattern(r"[^\W\d_]{4,}")


def find_done_at_once(statements: Iterable[Statement], entries: Sequence[Entry]) -> set[Statement]:
    """Return small requests of the user that the edits before the next message carried out.

    A request is carried out if at least half of its telling words are in the paths and texts of
    those edits. Wishes, rulings and the user's last messages are never small.
    """
    users = [e.ref for e in entries if e.kind == "user"]
    edits = [e for e in entries if e.tool and e.tool.changes]
    refs = [e.ref for e in edits]
    done: set[Statement] = set()
    seen, text = (0, 0), ""
    for statement in statements:
        is_request = statement.by_user and statement.kind == "request"
        is_small = is_request and statement.weight < SMALL_WEIGHT
        if not (is_small and users and statement.ref < users[-LAST_MESSAGES:][0]):
            continue
        words = _extract_telling_words(statement.text)
        if len(words) < 2:
            continue
        index = bisect_right(users, statement.ref)
        end = users[index] if index < len(users) else sys.maxsize
        span = bisect_right(refs, statement.ref), bisect_right(refs, end)
        if span != seen:  # Sentences of one message share their turn.
            calls = [e.tool for e in edits[slice(*span)] if e.tool]
            text = " ".join(f"{c.path} {c.old} {c.new}" for t in calls for c in t.changes).lower()
            seen = span
        if sum(w in text for w in words) * 2 >= len(words):
            done.add(statement)
    return done


def find_superseded(statements: Sequence[Statement]) -> set[int]:
    """Return positions of statements that the user later took back, refused or replaced.

    A reversal takes back the newest earlier statement of the user that it shares two telling
    words with, or the thing it names ("forget the toggle"). A statement with other figures
    replaces an earlier one that shares half of its words. A proposal of the agent is refused by
    one of the user's next messages that refuses and names the same thing. A message of several
    sentences stays: the others of them still hold.
    """
    by_user = [i for i, s in enumerate(statements) if s.by_user][-REVERSAL_WINDOW:]
    own = [_UserStatement(i, statements[i]) for i in by_user]
    gone: set[int] = set()
    for later, others in _list_related(own):
        if later.statement.kind == "reversal":
            taken = (e.position for e, shared in others if later.has_taken_back(e, shared))
            gone.update(islice(taken, 1))
        if later.figures:
            gone.update(e.position for e, shared in others if later.has_replaced(e, shared))
            if later.is_refusal:  # By its own figure: "not after 90 days".
                ruled = (e for e, _ in others if not e.is_refusal)
                gone.update(e.position for e in ruled if later.measures & e.measures)
    whole = {n for n in gone if len(split_sentences(statements[n].text)) > 1}
    return (gone - whole) | _find_refused_proposals(statements, own)


class _UserStatement:
    """A statement of the user, prepared for comparing."""

    def __init__(self, position: int, statement: Statement) -> None:
        self.position = position
        self.statement = statement
        self.words = _extract_telling_words(statement.text)
        self.tokens = set(_TOKEN.findall(statement.text.lower()))
        self.figures = set(_FIGURE.findall(statement.text))
        self.measures = {
            (m[1], word)
            for m in _MEASURE.finditer(statement.text)
            for word in _TOKEN.findall((m[2] or "").lower())
        }
        self.units = {unit for _, unit in self.measures}
        self.named = {
            w.lower() for m in _TAKES_BACK.finditer(statement.text) for w in m.groups() if w
        }

    @cached_property
    def is_refusal(self) -> bool:
        return bool(_REFUSES.search(self.statement.text))

    @cached_property
    def says_instead(self) -> bool:
        return bool(_INSTEAD.search(self.statement.text))

    def has_taken_back(self, earlier: "_UserStatement", shared: int) -> bool:
        alike = shared >= 2 and shared * 3 >= min(len(self.words), len(earlier.words))
        return alike or bool(self.named & earlier.tokens)

    def has_replaced(self, earlier: "_UserStatement", shared: int) -> bool:
        if not earlier.figures or self.figures == earlier.figures:
            return False
        if shared >= 2 and shared * 2 >= max(len(earlier.words), 4):
            return True
        binds = shared >= 2 and self.statement.kind == "constraint"
        return bool(self.units & earlier.units) and (binds or self.says_instead)


def _list_related(
    own: Sequence[_UserStatement],
) -> Iterator[tuple[_UserStatement, list[tuple[_UserStatement, int]]]]:
    """Yield each statement with the earlier ones it shares telling words with, the newest first."""
    holding: dict[str, list[int]] = {}
    for n, later in enumerate(own):
        shared: Counter[int] = Counter()
        for word in later.words:
            found = holding.setdefault(word, [])
            if len(found) <= COMMON_COUNT:
                shared.update(found)
            found.append(n)
        if shared:
            yield later, [(own[i], shared[i]) for i in sorted(shared, reverse=True)]


def _find_refused_proposals(
    statements: Sequence[Statement], own: Sequence[_UserStatement]
) -> set[int]:
    later = {o.statement.ref: n for n, o in enumerate(own)}
    refs = sorted(later)
    shared: dict[int, set[str]] = {}
    for i, statement in enumerate(statements):
        if statement.by_user or statement.kind not in ("next", "decision"):
            continue
        index = bisect_right(refs, statement.ref)
        first = later[refs[index]] if index < len(refs) else len(own)
        refusals = [o for o in own[first : first + REFUSAL_WINDOW] if o.is_refusal]
        if refusals:
            refused = set[str]().union(*(o.words for o in refusals))
            shared[i] = refused & _extract_telling_words(statement.text)
    if not any(shared.values()):
        return set()
    seen = Counter(w for s in statements for w in _extract_telling_words(s.text))
    return {i for i, words in shared.items() if any(seen[w] <= RARE_COUNT for w in words)}


@lru_cache(maxsize=2_048)
def _extract_telling_words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text.lower())) - STOP_WORDS
