"""Which facts matter for a goal: shared terms weighted by rarity, times how lately they came up.

Weights are set by hand here; nothing else in the package knows a number of relevance.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence

from tasuki.draft.facts import Derived
from tasuki.draft.statements import Statement
from tasuki.draft.text import terms
from tasuki.model import CommandFact, FileFact, Goal, Lesson, Thread

MIN_HALF_LIFE = 40
"""Entries after which recency counts half, at least; a sixth of the thread if that is more."""


_PLAIN = re.compile(r"(?<![\w`./_-])[^\W\d_]{4,}(?![\w`/_])")
MAX_TERMS = 60
"""Terms of a goal that are used, the first ones."""


_POINTS_BACK = re.compile(
    r"\b(?:these|those|this|that|them|it|all of|above|option|both|first|second|\d)\b|^.{0,60}$",
    re.IGNORECASE | re.DOTALL,
)


class Relevance:
    """Scores texts and entries against one goal in one thread.

    A short goal, or one that points back ("fix all of these"), speaks of the agent's last words,
    `last_words`: what they say counts more then.
    """

    def __init__(
        self, goal: str, corpus: Iterable[str], last_ref: int, last_words: int = 0
    ) -> None:
        self.last = last_ref
        self.last_words = last_words if _POINTS_BACK.search(goal[:400]) else 0
        self._statements: dict[Statement, float] = {}
        self.half_life = max(MIN_HALF_LIFE, last_ref / 6)
        weights = dict(list(terms(goal).items())[:MAX_TERMS])
        texts = [text.lower() for text in corpus]
        rarity = {
            term: math.log1p(len(texts) / (1 + sum(term in text for text in texts)))
            for term in weights
        }
        self.weights: dict[str, float] = {
            t: math.sqrt(w) * rarity[t] ** 1.5 for t, w in weights.items() if rarity[t] > 0.05
        }
        self._seen_in = Counter(w for text in texts for w in set(_PLAIN.findall(text)))
        self._most = math.log1p(len(texts)) or 1.0
        self._norm = sum(sorted(self.weights.values(), reverse=True)[:3]) or 1.0

    def overlap(self, text: str) -> float:
        """How much of the goal a text is about, 0 to 1; three telling terms make 1."""
        low = text.lower()
        return min(1.0, sum(w for t, w in self.weights.items() if t in low) / self._norm)

    def rarity(self, text: str) -> float:
        """How rare the plain words of a text are in the thread, 0 to 1: what is said once counts."""
        words = set(_PLAIN.findall(text.lower()))
        if not words:
            return 0.0
        rare = sorted((self._most - math.log1p(self._seen_in[w]) for w in words), reverse=True)
        best = rare[:6]
        return max(0.0, sum(best) / (len(best) * self._most))

    def recency(self, ref: int) -> float:
        """1 for the newest entry, halved every half-life."""
        return math.exp2((ref - self.last) / self.half_life)

    def freshness(self, ref: int) -> float:
        """What is left of a plan's worth: most of it in the last third of a thread, little early."""
        return 0.35 + 0.9 * math.exp2((ref - self.last) / max(MIN_HALF_LIFE, self.last / 3))

    def statement(self, statement: Statement) -> float:
        """Worth of a sentence: what it says, what of the goal it shares, how late it came."""
        if statement not in self._statements:
            self._statements[statement] = self._worth(statement)
        return self._statements[statement]

    def _worth(self, statement: Statement) -> float:
        overlap, recency = self.overlap(statement.text), self.recency(statement.ref)
        rarity = self.rarity(statement.text)
        if statement.by_user:
            return statement.weight * (0.5 + 0.7 * overlap + 0.3 * recency + 0.6 * rarity)
        pointed_at = 0.7 * (statement.ref == self.last_words)
        return statement.weight * (1.3 * overlap + 0.5 * recency + 0.8 * rarity + pointed_at)

    def file(self, file: FileFact) -> float:
        """Worth of a file: lately edited, often edited, named by the goal, with its symbols."""
        named = self.overlap(file.path + " " + " ".join(file.symbols))
        edited = self.recency(file.edits[-1]) if file.edits else 0.0
        read = self.recency(file.reads[-1]) if file.reads else 0.0
        often = min(1.0, math.log1p(len(file.edits)) / 3)
        looked_at_once = not file.edits and len(file.reads) == 1
        score = 1.6 * edited + 0.8 * often * edited + 0.5 * read + 1.8 * named
        score += 0.6 * bool(file.mentioned)
        return score * (0.45 if looked_at_once else 1.0) * (0.3 if file.deleted else 1.0)

    def command(self, command: CommandFact) -> float:
        """Worth of a command: checks and repeated ones first, then what the goal names."""
        score = 1.0 * bool(command.check) + 0.35 * min(len(command.refs), 4)
        score += 1.5 * self.overlap(command.command) + 1.2 * self.recency(command.refs[-1])
        score += 0.5 * command.by_user + 0.3 * command.ok
        return score - 1.2 * (len(command.command) > 220)

    def lesson(self, lesson: Lesson) -> float:
        """Worth of a failure: open ones first, then those with a sentence that explains them."""
        score = 1.2 * self.recency(lesson.passed or lesson.failed) + 0.5 * bool(lesson.words)
        score += 1.2 * (not lesson.passed)
        return score + self.overlap(f"{lesson.command} {lesson.error} {lesson.words}")


def relevance_of(thread: Thread, derived: Derived, goal: Goal) -> Relevance:
    """What is relevant for a goal in a thread."""
    last = max((e.ref for e in thread.entries), default=0)
    corpus = [s.text for s in derived.statements] + [f.path for f in derived.facts.files]
    spoken = max((e.ref for e in thread.entries if e.kind == "assistant"), default=0)
    return Relevance(goal.text, corpus, last, spoken)


def best(scored: Iterable[tuple[float, Statement]], limit: int) -> list[Statement]:
    """The highest scored statements, without near repetitions."""
    chosen: list[Statement] = []
    bags: list[set[str]] = []
    for _, statement in sorted(scored, key=lambda pair: (-pair[0], -pair[1].ref)):
        bag = set(statement.text.lower().split())
        if not any(alike(bag, other) for other in bags):
            chosen.append(statement)
            bags.append(bag)
        if len(chosen) >= limit:
            break
    return chosen


def alike(one: set[str], other: set[str]) -> bool:
    """Whether two texts, as sets of words, say nearly the same."""
    return len(one & other) > 0.7 * min(len(one), len(other))


def order_files(files: Sequence[FileFact], relevance: Relevance) -> list[FileFact]:
    """Files by worth, the best first."""
    return sorted(files, key=lambda f: -relevance.file(f))
