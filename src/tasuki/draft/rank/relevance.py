"""Relevance of facts and files to a goal."""

import math
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import chain

from tasuki.draft.facts.commands import is_help_or_version
from tasuki.draft.facts.derive import DerivedFacts
from tasuki.draft.facts.files import is_noise
from tasuki.draft.facts.statements import Statement
from tasuki.draft.text.lexicon import STOP_WORDS
from tasuki.draft.text.split import extract_terms
from tasuki.model import FIRST_DOCUMENT, CommandFact, Facts, FileFact, Lesson, Thread
from tasuki.paths import is_outside
from tasuki.patterns import compile_pattern

TERMS = {
    "touched": "edits and reads, as a logarithm: each counts 1 (a read 0.8), halved every 60 entries, and "
    "0.7 for a message of the agent that names the file, halved every 30",
    "goal": "2 × how much of the goal's words its path holds, and 2 where the goal names it",
    "place": "1 for the file touched last, ½ for the one before it, ⅓ and so on",
    "last_words": "0.3 where the agent's last message names it",
    "printed": "0.3 for each time a tool printed its name, halved every 15 entries",
    "outside": "−1 where it lies outside of the thread's folder",
}
"""The terms of a file's rank, by the names that `tasuki eval play` shows."""
TOUCH_HALF_LIFE, MENTION_HALF_LIFE, PRINT_HALF_LIFE = 60, 30, 15
"""Entries after which a touch, a mention or a printed name of a file counts half."""
MAX_GOAL = 4_000
"""Characters of a goal whose words are looked for in paths."""
FULL_MATCH_WORDS = 3
"""Words of the goal in a path that make a full match."""
_BETWEEN = compile_pattern(r"[^a-zA-Z0-9]+|(?<=[a-z0-9])(?=[A-Z])")
_WORD = compile_pattern(r"[^\W\d_]{4,}")


class FileRanks:
    """The files of one thread as candidates for one goal."""

    def __init__(
        self, thread: Thread, facts: Facts, goal: str, overlap: Callable[[str], float]
    ) -> None:
        self.candidates: tuple[FileFact, ...] = (*facts.files, *facts.spoken_of)
        self.goal, self.overlap = goal, overlap
        self.last = max((e.ref for e in thread.entries), default=0)
        self.last_words = max((e.ref for e in thread.entries if e.kind == "assistant"), default=0)
        order = sorted(self.candidates, key=lambda f: -f.last)
        self.place = {f.path: n for n, f in enumerate(order, 1)}
        paths = [_split_words(f.path) for f in self.candidates]
        words = _WORD.findall(goal[:MAX_GOAL].lower())
        # The first letters of a word, which its forms share: `reconcil` of "reconciliation".
        stems = {word[: max(5, len(word) // 2 + 1)] for word in words}
        held = {s: sum(f"_{s}" in p for p in paths) for s in stems - STOP_WORDS}
        self._rarity = {s: math.log(1 + len(paths) / n) for s, n in sorted(held.items()) if n}
        self._matches: dict[str, float] = {}
        self._ranked: list[tuple[float, FileFact]] = []
        self._full_match = (
            sum(sorted(self._rarity.values(), reverse=True)[:FULL_MATCH_WORDS]) or 1.0
        )

    def compute_terms(self, file: FileFact) -> dict[str, float]:
        """Return what each term adds to the worth of a file, by its name in `TERMS`."""
        named, path = file.named, file.path
        name = path.rpartition("/")[2]
        is_named = path in self.goal or (len(name) > 3 and name in self.goal)
        touched = self._weigh_recency(file.edits, TOUCH_HALF_LIFE) + 0.8 * self._weigh_recency(
            file.reads, TOUCH_HALF_LIFE
        )
        touched += 0.7 * self._weigh_recency(named.assistant, MENTION_HALF_LIFE)
        return {
            "touched": math.log1p(touched),
            "goal": 2.0 * self.match_goal(path) + 2.0 * is_named,
            "place": 1 / self.place[path],
            "last_words": 0.3 * (self.last_words in named.assistant),
            "printed": 0.3 * self._weigh_recency(named.output, PRINT_HALF_LIFE),
            "outside": -1.0 * is_outside(path),
        }

    def compute_worth(self, file: FileFact) -> float:
        """Return the sum of the terms: how likely a successor opens a file, relative to others."""
        return math.fsum(self.compute_terms(file).values())

    def match_goal(self, path: str) -> float:
        """How much of the goal's words a path holds, 0 to 1; most count those in the file's name."""
        if path not in self._matches:
            folder, _, name = path.rpartition("/")
            folder, name = _split_words(folder), _split_words(name)
            found = sum(
                rarity * (1.0 if f"_{stem}" in name else 0.6 if f"_{stem}" in folder else 0.0)
                for stem, rarity in self._rarity.items()
            )
            self._matches[path] = min(1.0, found / self._full_match)
        return self._matches[path]

    def _weigh_recency(self, refs: Sequence[int], half_life: int) -> float:
        return math.fsum(math.exp2((ref - self.last) / half_life) for ref in refs)

    def rank_files(self) -> list[tuple[float, FileFact]]:
        """Return the user's files with their worth, the best first, without scratch space."""
        if not self._ranked:
            scored = ((self.compute_worth(f), f) for f in self.candidates if not is_noise(f.path))
            self._ranked = sorted(scored, key=lambda pair: (-pair[0], pair[1].path))
        return list(self._ranked)

    def is_only_mentioned(self, file: FileFact) -> bool:
        """Return whether only words name a file, and the goal does not."""
        return not (file.edits or file.reads) and file.path not in self.goal


def _split_words(path: str) -> str:
    """Return the words of a path in lower case, `_` before each: `_src_undo_stack_cpp`."""
    return f"_{_BETWEEN.sub('_', path)}".lower()


MIN_HALF_LIFE = 40
"""Entries after which recency counts half, at least; a sixth of the thread if that is more."""


_PLAIN = compile_pattern(r"(?<![\w`./_-])[^\W\d_]{4,}(?![\w`/_])")
COMMAND_HALF_LIFE = 40
"""Entries after which a run of a command counts half."""
SHORT_COMMAND = 60
TOPIC_OVERLAP = 0.45
"""Minimum overlap of a path or a user's sentence with the goal, for it to be the goal's topic."""
TOPIC_HALF_LIFE = 3
MAX_TERMS = 60
"""Number of a goal's first terms that are used."""


_POINTS_BACK = compile_pattern(
    r"\b(?:these|those|this|that|them|it|all of|above|option|both|first|second|\d)\b|^.{0,60}$",
    re.IGNORECASE | re.DOTALL,
)


class Relevance:
    """Scores texts and entries against one goal in one thread.

    A short goal, or one that points back ("fix all of these"), refers to the agent's last
    words, `last_words`; these count more then.
    """

    def __init__(self, thread: Thread, derived: DerivedFacts, goal: str) -> None:
        self.goal = goal
        self.last = max((e.ref for e in thread.entries), default=0)
        self.last_spoken = max((e.ref for e in thread.entries if e.kind == "assistant"), default=0)
        self.last_words = self.last_spoken if _POINTS_BACK.search(goal[:400]) else 0
        self._statements: dict[Statement, float] = {}
        self.half_life = max(MIN_HALF_LIFE, self.last / 6)
        weights = dict(list(extract_terms(goal).items())[:MAX_TERMS])
        texts = [s.text.lower() for s in derived.statements]
        texts += [f.path.lower() for f in derived.facts.files]
        lines = "\n".join([text.replace("\n", " ") for text in texts])
        rarity = {
            term: math.log1p(len(texts) / (1 + _count_lines(lines, term))) for term in weights
        }
        self.weights: dict[str, float] = {
            t: math.sqrt(w) * rarity[t] ** 1.5 for t, w in weights.items() if rarity[t] > 0.05
        }
        said = texts[: len(derived.statements)]
        self._word_counts = derived.remember("plain words", lambda: _count_plain_words(said)).copy()
        self._word_counts.update(_count_plain_words(texts[len(said) :]))
        self._max_rarity = math.log1p(len(texts)) or 1.0
        self._norm = sum(sorted(self.weights.values(), reverse=True)[:3]) or 1.0
        self.files = FileRanks(thread, derived.facts, goal, self.measure_overlap)
        near = [f for f in derived.facts.files if self.files.match_goal(f.path) >= TOPIC_OVERLAP]
        by_user = (s for s in derived.statements if s.by_user)
        topic = {ref for file in near for ref in (*file.reads, *file.edits)}
        topic |= {s.ref for s in by_user if self.measure_overlap(s.text) >= TOPIC_OVERLAP}
        self.topic = sorted(topic)
        """Refs of the entries that touch a file named by the goal, or in which the user mentioned it, in order."""

    def measure_overlap(self, text: str) -> float:
        """Return how much of the goal a text is about, 0 to 1; three telling terms make 1."""
        low = text.lower()
        return min(1.0, sum(w for t, w in self.weights.items() if t in low) / self._norm)

    def measure_rarity(self, text: str) -> float:
        """Return how rare the plain words of a text are in the thread, 0 to 1. What is said only once counts most."""
        words = _find_plain_words(text.lower())
        if not words:
            return 0.0
        rare = (self._max_rarity - math.log1p(self._word_counts[w]) for w in words)
        best = sorted(rare, reverse=True)[:6]
        return max(0.0, sum(best) / (len(best) * self._max_rarity))

    def measure_recency(self, ref: int) -> float:
        """Return 1 for the newest entry, halved every half-life; a document was there from the start."""
        return math.exp2(((0 if ref >= FIRST_DOCUMENT else ref) - self.last) / self.half_life)

    def measure_topic_nearness(self, ref: int) -> float:
        """Return 1 for an entry on the goal's topic, halved every few entries around it."""
        index = bisect_left(self.topic, ref)
        near = self.topic[max(0, index - 1) : index + 1]
        return max((math.exp2(-abs(ref - r) / TOPIC_HALF_LIFE) for r in near), default=0.0)

    def measure_freshness(self, ref: int) -> float:
        """What is left of a plan's worth: most in the last third of a thread, little early."""
        return 0.35 + 0.9 * math.exp2((ref - self.last) / max(MIN_HALF_LIFE, self.last / 3))

    def score_statement(self, statement: Statement) -> float:
        """Return the worth of a sentence: its content, its share of the goal, how late it came."""
        if statement not in self._statements:
            overlap, rarity = (
                self.measure_overlap(statement.text),
                self.measure_rarity(statement.text),
            )
            recency = self.measure_recency(statement.ref)
            near = self.measure_topic_nearness(statement.ref)
            if statement.by_user:
                share = 0.5 + 0.7 * overlap + 0.3 * recency + 0.6 * rarity + 0.1 * near
            else:
                pointed_at = 0.7 * (statement.ref == self.last_words)
                share = 1.3 * overlap + 0.5 * recency + 0.8 * rarity + 0.15 * near + pointed_at
            self._statements[statement] = statement.weight * share
        return self._statements[statement]

    def score_command(self, command: CommandFact) -> float:
        """The worth of a command: how recently and often it ran, checks, what the goal names."""
        age = command.refs[-1] - self.last
        score = 1.0 * math.exp2(age / COMMAND_HALF_LIFE) + 0.3 * math.log1p(len(command.refs))
        score += 0.5 * bool(command.check) + 1.2 * self.measure_overlap(command.command)
        score -= 0.8 * is_help_or_version(command.command)
        return score + 0.3 * command.by_user + 0.2 * (len(command.command) < SHORT_COMMAND)

    def score_lesson(self, lesson: Lesson) -> float:
        """The worth of a failure: open ones first, then those with an explaining sentence."""
        score = 1.2 * self.measure_recency(lesson.passed or lesson.failed)
        score += 0.5 * bool(lesson.words)
        score += 1.2 * (not lesson.passed)
        return score + self.measure_overlap(f"{lesson.command} {lesson.error} {lesson.words}")


@lru_cache(maxsize=2_048)
def _find_plain_words(low: str) -> frozenset[str]:
    return frozenset(_PLAIN.findall(low))


def _count_plain_words(texts: Iterable[str]) -> Counter[str]:
    return Counter(chain.from_iterable(map(_find_plain_words, texts)))


def _count_lines(lines: str, term: str) -> int:
    """Return how many lines hold a term, which holds no white space."""
    count, index = 0, lines.find(term)
    while index >= 0:
        count += 1
        end = lines.find("\n", index)
        index = lines.find(term, end) if end >= 0 else -1
    return count


def select_best(scored: Iterable[tuple[float, Statement]], limit: int) -> list[Statement]:
    """Return the highest scored statements, without near repetitions."""
    chosen: list[Statement] = []
    bags: list[set[str]] = []
    for _, statement in sorted(scored, key=lambda pair: (-pair[0], -pair[1].ref)):
        bag = set(statement.text.lower().split())
        if not any(is_alike(bag, other) for other in bags):
            chosen.append(statement)
            bags.append(bag)
        if len(chosen) >= limit:
            break
    return chosen


def is_alike(one: set[str], other: set[str]) -> bool:
    """Return whether two texts, as sets of words, say nearly the same."""
    return len(one & other) > 0.7 * min(len(one), len(other))
