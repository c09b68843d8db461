"""Which facts matter for a goal: shared terms weighted by rarity, times how lately they came up.

Files have a rank of their own (`file_ranks.py`), excerpts another (`excerpts.py`).
"""

import math
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable

from tasuki.draft.commands import asks_about_itself
from tasuki.draft.facts import Derived
from tasuki.draft.file_ranks import FileRanks
from tasuki.draft.statements import Statement
from tasuki.draft.text import terms
from tasuki.model import CommandFact, Goal, Lesson, Thread

MIN_HALF_LIFE = 40
"""Entries after which recency counts half, at least; a sixth of the thread if that is more."""


_PLAIN = re.compile(r"(?<![\w`./_-])[^\W\d_]{4,}(?![\w`/_])")
COMMAND_HALF_LIFE = 40
"""Entries after which it counts half that a command was run."""
SHORT_COMMAND = 60
TOPIC = 0.45
"""How much of a goal a path or a sentence of the user shares, to be what the goal is about."""
TOPIC_HALF_LIFE = 3
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

    def __init__(self, thread: Thread, derived: Derived, goal: str) -> None:
        self.goal = goal
        self.last = max((e.ref for e in thread.entries), default=0)
        self.last_spoken = max((e.ref for e in thread.entries if e.kind == "assistant"), default=0)
        self.last_words = self.last_spoken if _POINTS_BACK.search(goal[:400]) else 0
        self._statements: dict[Statement, float] = {}
        self.half_life = max(MIN_HALF_LIFE, self.last / 6)
        weights = dict(list(terms(goal).items())[:MAX_TERMS])
        texts = [s.text.lower() for s in derived.statements]
        texts += [f.path.lower() for f in derived.facts.files]
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
        self.files = FileRanks(thread, derived.facts, goal, self.overlap)
        self.topic = self._topic(derived)
        """Refs of the entries that work on what the goal names, in order."""

    def _topic(self, derived: Derived) -> list[int]:
        """Entries that touch a file the goal's words name, or in which the user spoke of it."""
        refs = {
            ref
            for file in derived.facts.files
            if self.files.match(file.path) >= TOPIC
            for ref in (*file.reads, *file.edits)
        }
        refs |= {s.ref for s in derived.statements if s.by_user and self.overlap(s.text) >= TOPIC}
        return sorted(refs)

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

    def near_topic(self, ref: int) -> float:
        """1 for an entry that works on what the goal names, halved every few entries around it."""
        at = bisect_left(self.topic, ref)
        near = self.topic[max(0, at - 1) : at + 1]
        return max((math.exp2(-abs(ref - r) / TOPIC_HALF_LIFE) for r in near), default=0.0)

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
        near = self.near_topic(statement.ref)
        if statement.by_user:
            return statement.weight * (
                0.5 + 0.7 * overlap + 0.3 * recency + 0.6 * rarity + 0.1 * near
            )
        pointed_at = 0.7 * (statement.ref == self.last_words)
        return statement.weight * (
            1.3 * overlap + 0.5 * recency + 0.8 * rarity + 0.15 * near + pointed_at
        )

    def command(self, command: CommandFact) -> float:
        """Worth of a command: how lately and how often it ran, checks, and what the goal names."""
        age = command.refs[-1] - self.last
        score = 1.0 * math.exp2(age / COMMAND_HALF_LIFE) + 0.3 * math.log1p(len(command.refs))
        score += 0.5 * bool(command.check) + 1.2 * self.overlap(command.command)
        score -= 0.8 * asks_about_itself(command.command)
        return score + 0.3 * command.by_user + 0.2 * (len(command.command) < SHORT_COMMAND)

    def lesson(self, lesson: Lesson) -> float:
        """Worth of a failure: open ones first, then those with a sentence that explains them."""
        score = 1.2 * self.recency(lesson.passed or lesson.failed) + 0.5 * bool(lesson.words)
        score += 1.2 * (not lesson.passed)
        return score + self.overlap(f"{lesson.command} {lesson.error} {lesson.words}")


def relevance_of(thread: Thread, derived: Derived, goal: Goal) -> Relevance:
    """What is relevant for a goal in a thread."""
    return Relevance(thread, derived, goal.text)


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
