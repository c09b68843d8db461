"""Which files a successor is likely to open: a few terms, set by hand, that real threads bear out.

Twenty-six learnt weights did no better on repositories that they had not seen; docs/evaluation.md
has the figures.
"""

import math
import re
from collections.abc import Callable, Sequence

from tasuki.draft.files import is_noise, is_outside
from tasuki.draft.text import STOP_WORDS
from tasuki.model import Facts, FileFact, Thread

TERMS = {
    "touched": "edits and reads, as a logarithm: each counts 1 (a read 0.8), halved every 60 entries, and "
    "0.7 for a message of the agent that names the file, halved every 30",
    "goal": "2 × how much of the goal's words its path holds, and 2 where the goal names it",
    "place": "1 for the file touched last, ½ for the one before it, ⅓ and so on",
    "last_words": "0.3 where the agent's last message names it",
    "printed": "0.3 for each time a tool printed its name, halved every 15 entries",
    "outside": "−1 where it lies outside of the thread's folder",
}
"""What makes the rank of a file, by the names that `tasuki eval play` shows."""
TOUCHED, SPOKEN, PRINTED = 60, 30, 15
"""Entries after which it counts half that a file was touched, spoken of, printed."""
MAX_GOAL = 4_000
"""Characters of a goal whose words are looked for in paths."""
MATCHES = 3
"""Words of the goal in a path that make the whole of a match."""
_BETWEEN = re.compile(r"[^a-zA-Z0-9]+|(?<=[a-z0-9])(?=[A-Z])")
_WORD = re.compile(r"[^\W\d_]{4,}")


class FileRanks:
    """The files of one thread as candidates for one goal."""

    def __init__(
        self, thread: Thread, facts: Facts, goal: str, overlap: Callable[[str], float]
    ) -> None:
        self.all: tuple[FileFact, ...] = (*facts.files, *facts.spoken_of)
        self.goal, self.overlap = goal, overlap
        self.last = max((e.ref for e in thread.entries), default=0)
        self.last_words = max((e.ref for e in thread.entries if e.kind == "assistant"), default=0)
        order = sorted(self.all, key=lambda f: -f.last)
        self.place = {f.path: n for n, f in enumerate(order, 1)}
        paths = [_words(f.path) for f in self.all]
        stems = {_stem(word) for word in _WORD.findall(goal[:MAX_GOAL].lower())}
        held = {s: sum(f"_{s}" in p for p in paths) for s in stems - STOP_WORDS}
        self._rarity = {s: math.log(1 + len(paths) / n) for s, n in sorted(held.items()) if n}
        self._matches: dict[str, float] = {}
        self._most = sum(sorted(self._rarity.values(), reverse=True)[:MATCHES]) or 1.0

    def terms(self, file: FileFact) -> dict[str, float]:
        """What each term adds to the worth of a file, by its name in `TERMS`."""
        named, path = file.named, file.path
        name = path.rpartition("/")[2]
        is_named = path in self.goal or (len(name) > 3 and name in self.goal)
        touched = self._lately(file.edits, TOUCHED) + 0.8 * self._lately(file.reads, TOUCHED)
        touched += 0.7 * self._lately(named.assistant, SPOKEN)
        return {
            "touched": math.log1p(touched),
            "goal": 2.0 * self.match(path) + 2.0 * is_named,
            "place": 1 / self.place[path],
            "last_words": 0.3 * (self.last_words in named.assistant),
            "printed": 0.3 * self._lately(named.output, PRINTED),
            "outside": -1.0 * is_outside(path),
        }

    def worth(self, file: FileFact) -> float:
        """The sum of the terms: how likely a successor opens a file, beside others of its thread."""
        return math.fsum(self.terms(file).values())

    def match(self, path: str) -> float:
        """How much of the goal's words a path holds, 0 to 1; in the file's name they count most."""
        if path not in self._matches:
            self._matches[path] = self._match(path)
        return self._matches[path]

    def _match(self, path: str) -> float:
        if not self._rarity:
            return 0.0
        folder, _, name = path.rpartition("/")
        folder, name = _words(folder), _words(name)
        found = sum(
            rarity * (1.0 if f"_{stem}" in name else 0.6 if f"_{stem}" in folder else 0.0)
            for stem, rarity in self._rarity.items()
        )
        return min(1.0, found / self._most)

    def _lately(self, refs: Sequence[int], half_life: int) -> float:
        return math.fsum(math.exp2((ref - self.last) / half_life) for ref in refs)

    def ranked(self) -> list[tuple[float, FileFact]]:
        """The user's files with their worth, the best first; scratch space is left out."""
        scored = ((self.worth(f), f) for f in self.all if not is_noise(f.path))
        return sorted(scored, key=lambda pair: (-pair[0], pair[1].path))

    def is_only_spoken_of(self, file: FileFact) -> bool:
        """Whether nothing but words names a file, and the goal does not."""
        return not (file.edits or file.reads) and file.path not in self.goal


def _words(path: str) -> str:
    """The words of a path in lower case, `_` before each: `_src_undo_stack_cpp`."""
    return f"_{_BETWEEN.sub('_', path)}".lower()


def _stem(word: str) -> str:
    """The first letters of a word, which its forms share: `reconcil` of "reconciliation"."""
    return word[: max(5, len(word) // 2 + 1)]
