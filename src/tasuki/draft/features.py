"""What the rank of a file is made of: one number a feature, weighed by what real threads did next.

The weights stand in `rank_weights.json`; `bench/train_rank.py` learns them, and nothing else
writes them. A file's worth is the chance that the successor opens it, as the weights see it.
"""

import math
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import msgspec
from msgspec import Struct

from tasuki.draft.files import is_noise, is_outside
from tasuki.draft.text import STOP_WORDS
from tasuki.model import Facts, FileFact, Thread

FEATURES = {
    "edits": "how often the thread edited the file, as a logarithm",
    "edited": "how lately it was edited: 1 for the newest entry, halved every 60 entries",
    "reads": "how often the thread read it, as a logarithm",
    "read": "how lately it was read, halved every 60 entries",
    "place": "1 for the file touched last, ½ for the one before it, ⅓ and so on",
    "turn": "whether it was touched since the user's last message",
    "uncommitted": "whether it was edited after the thread's last commit",
    "created": "whether the thread made it",
    "deleted": "whether the thread removed it",
    "said": "how lately the agent spoke of it, halved every 30 entries",
    "said_often": "how often the agent spoke of it, as a logarithm",
    "asked": "how often the user named it, as a logarithm",
    "given": "how often a tool was given its name, as a logarithm",
    "printed": "how lately a tool printed its name, halved every 15 entries",
    "printed_often": "how often tools printed its name, as a logarithm",
    "failing": "whether a failed check among the last runs printed its name",
    "goal_names": "whether the goal names it, by path or by name",
    "goal_stem": "whether the goal holds its name without the ending",
    "goal_terms": "how much of the goal its path and its symbols share, 0 to 1",
    "goal_match": "how much of the goal's words its path holds, rare ones among the files counting more",
    "in_last_words": "whether the agent's last message names it and the goal is short",
    "neighbour": "whether it lies in the folder of the file edited last",
    "partner": "whether it is the test of an edited file, or what an edited test tests",
    "prose": "whether it is Markdown",
    "outside": "whether it lies outside of the thread's folder",
    "company": "how many files there are to choose from, as a logarithm",
}
"""What each feature says, by its name, in the order of the weights."""

SHORT_GOAL = 60
MAX_GOAL = 4_000
"""Characters of a goal whose words are looked for in paths."""
MATCHES = 3
"""Words of the goal in a path that make the whole of a match."""
_BETWEEN = re.compile(r"[^a-zA-Z0-9]+|(?<=[a-z0-9])(?=[A-Z])")
_WORD = re.compile(r"[^\W\d_]{4,}")
_CHECKS_LOOKED_AT = 12
_TEST = re.compile(r"^test_|(?:_test|\.test|\.spec|_spec)$|(?<=[a-z])Test$")


class Weights(Struct, frozen=True):
    """One weight a feature, and what a file without any feature is worth before the logistic."""

    features: dict[str, float]
    intercept: float


@cache
def _shipped() -> Weights:
    data = Path(__file__).with_name("rank_weights.json").read_bytes()
    return msgspec.json.decode(data, type=Weights)


_used: list[Weights] = []


def weights() -> Weights:
    """The weights in use: those of the package, unless others were put in their place."""
    return _used[-1] if _used else _shipped()


@contextmanager
def using(other: Weights) -> Iterator[None]:
    """Other weights for a while, to measure them."""
    _used.append(other)
    try:
        yield
    finally:
        _used.pop()


class Files:
    """The files of one thread as candidates for one goal.

    `overlap` tells how much of the goal a text shares, 0 to 1.
    """

    def __init__(
        self, thread: Thread, facts: Facts, goal: str, overlap: Callable[[str], float]
    ) -> None:
        self.all: tuple[FileFact, ...] = (*facts.files, *facts.spoken_of)
        self.goal, self.overlap = goal, overlap
        self.last = max((e.ref for e in thread.entries), default=0)
        self.last_user = _newest(thread, "user")
        self.last_words = _newest(thread, "assistant")
        self.uncommitted = set(facts.uncommitted)
        order = sorted(self.all, key=lambda f: -f.last)
        self.place = {f.path: n for n, f in enumerate(order, 1)}
        edited = [f for f in facts.files if f.edits]
        newest = max(edited, key=lambda f: f.edits[-1], default=None)
        self.folder = _folder(newest.path) if newest else None
        self.edited_stems = {_subject(f.path) for f in edited}
        self.failed = {
            c.refs[-1] for c in facts.commands[:_CHECKS_LOOKED_AT] if c.check and not c.ok
        }
        paths = [_words(f.path) for f in self.all]
        stems = {_stem(word) for word in _WORD.findall(goal[:MAX_GOAL].lower())}
        held = {s: sum(f"_{s}" in p for p in paths) for s in stems - STOP_WORDS}
        self._rarity = {s: math.log(1 + len(paths) / n) for s, n in sorted(held.items()) if n}
        self._matches: dict[str, float] = {}
        self._most = sum(sorted(self._rarity.values(), reverse=True)[:MATCHES]) or 1.0
        self.company = math.log1p(len(self.all)) / 5

    def features(self, file: FileFact) -> dict[str, float]:
        """The features of one file, by name."""
        named, path = file.named, file.path
        name = path.rpartition("/")[2]
        stem = name.partition(".")[0]
        short = len(self.goal) < SHORT_GOAL
        return {
            "edits": math.log1p(len(file.edits)),
            "edited": self._lately(file.edits, 60),
            "reads": math.log1p(len(file.reads)),
            "read": self._lately(file.reads, 60),
            "place": 1 / self.place[path],
            "turn": float(bool(file.edits or file.reads) and file.last > self.last_user),
            "uncommitted": float(path in self.uncommitted),
            "created": float(file.created),
            "deleted": float(file.deleted),
            "said": self._lately(named.assistant, 30),
            "said_often": math.log1p(len(named.assistant)),
            "asked": math.log1p(len(named.user)),
            "given": math.log1p(len(named.input)),
            "printed": self._lately(named.output, 15),
            "printed_often": math.log1p(len(named.output)),
            "failing": float(not self.failed.isdisjoint(named.output)),
            "goal_names": float(path in self.goal or (len(name) > 3 and name in self.goal)),
            "goal_stem": float(len(stem) > 3 and stem.lower() in self.goal.lower()),
            "goal_terms": self.overlap(f"{path} {' '.join(file.symbols)}"),
            "goal_match": self.match(path),
            "in_last_words": float(short and self.last_words in named.assistant),
            "neighbour": float(_folder(path) == self.folder),
            "partner": float(not file.edits and _subject(path) in self.edited_stems),
            "prose": float(path.endswith(".md")),
            "outside": float(is_outside(path)),
            "company": self.company,
        }

    def match(self, path: str) -> float:
        """How much of the goal's words stand in a path, 0 to 1; in the file's name they count most."""
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
        return math.exp2((refs[-1] - self.last) / half_life) if refs else 0.0

    def ranked(self) -> list[tuple[float, FileFact]]:
        """The user's files with their worth, the best first; scratch space is left out."""
        scored = ((self.worth(f), f) for f in self.all if not is_noise(f.path))
        return sorted(scored, key=lambda pair: (-pair[0], pair[1].path))

    def is_only_spoken_of(self, file: FileFact) -> bool:
        """Whether nothing but words names a file, and the goal does not."""
        return not (file.edits or file.reads) and file.path not in self.goal

    def worth(self, file: FileFact) -> float:
        """The chance, 0 to 1, that the successor opens a file."""
        by = weights()
        sum_ = by.intercept
        sum_ += sum(by.features.get(n, 0.0) * x for n, x in self.features(file).items())
        return 1 / (1 + math.exp(-max(-30.0, min(30.0, sum_))))


def _words(path: str) -> str:
    """The words of a path in lower case, `_` before each: `_src_undo_stack_cpp`."""
    return f"_{_BETWEEN.sub('_', path)}".lower()


def _stem(word: str) -> str:
    """The first letters of a word, which its forms share: `reconcil` of "reconciliation"."""
    return word[: max(5, len(word) // 2 + 1)]


def _newest(thread: Thread, kind: str) -> int:
    return max((e.ref for e in thread.entries if e.kind == kind), default=0)


def _folder(path: str) -> str:
    return path.rpartition("/")[0]


def _subject(path: str) -> str:
    """What a file is about, the same for a module and its test."""
    return _TEST.sub("", path.rpartition("/")[2].partition(".")[0].removesuffix(".test"))
