"""Names in the files of a thread that the work goes on with: what a successor would search for.

A name counts by how lately a tool was given it (an edit's text, a pattern), by whether the agent's
last words and the goal speak of it, and by how rare it is among the newest entries.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence

from tasuki.draft.text import STOP_WORDS
from tasuki.model import Entry, FileFact, Thread

WINDOW = 200
"""Newest entries in which names are counted."""
EDITS, READS = 8, 3
"""Of a file, the newest, whose texts are looked through."""
TEXT = 12_000
"""Characters of one of them."""
GIVEN_HALF_LIFE, SAID_HALF_LIFE = 40, 10
CITED_FROM = 10
"""Newest reads and edits of a file that may be cited."""
LEAST_NAME = 0.5
"""Worth under which a name is not told: nothing but the file speaks for it."""
LEAST_SHOWN = 3.0
"""Worth of names under which one more entry is not worth its number."""
_NAME = re.compile(r"(?<![\w$.-])(?:[A-Za-z_$][\w$]*\.)*[A-Za-z_$][\w$]{3,}(?![\w$])")
_TELLING = re.compile(r"[a-z][A-Z]|[a-z\d]_[a-z\d]|[A-Z]_[A-Z]")
_LONGEST = 48
_OF_THE_LANGUAGE = tuple(
    f"{module}."
    for module in "os strings strconv fmt time errors json bytes filepath path sys re math console process context sync "
    "Object Array JSON Math Promise String Number std io log slog testing pytest assert expect".split()
)
"""Modules that every program uses: what is called in them tells nothing of this one."""


class Vocabulary:
    """The names of one thread; `goal` is what the next thread is about."""

    def __init__(self, thread: Thread, goal: str) -> None:
        entries = thread.entries[-WINDOW:]
        self.by_ref = {e.ref: e for e in thread.entries}
        self.last = entries[-1].ref if entries else 0
        self.goal = goal
        self.seen: Counter[str] = Counter()
        self.given: dict[str, int] = {}
        self.said: dict[str, int] = {}
        self.last_words: set[str] = set()
        self.count = len(entries)
        self._names: dict[int, tuple[dict[str, None], dict[str, None]]] = {}
        self._worth: dict[str, float] = {}
        for entry in entries:
            self._count(entry)

    def _count(self, entry: Entry) -> None:
        call = entry.tool
        if call is None:
            found = set(self._in_entry(entry)[1])
            if entry.kind == "assistant":
                self.said.update(dict.fromkeys(found, entry.ref))
                self.last_words = found
        else:
            given, printed = self._in_entry(entry)
            self.given.update(dict.fromkeys(given, entry.ref))
            found = {*given, *printed}
        self.seen.update(found)

    def _in_entry(self, entry: Entry) -> tuple[dict[str, None], dict[str, None]]:
        """Names that a tool was given, and those it printed or somebody said, in order."""
        if entry.ref not in self._names:
            said = entry.tool.output if entry.tool else entry.text
            both = dict.fromkeys(names(_given(entry))), dict.fromkeys(names(said))
            self._names[entry.ref] = both
        return self._names[entry.ref]

    def worth(self, name: str) -> float:
        """How likely a name is used next, times how much it tells."""
        if name not in self._worth:
            self._worth[name] = self._weigh(name)
        return self._worth[name]

    def _weigh(self, name: str) -> float:
        given, said = self.given.get(name), self.said.get(name)
        score = 0.15 + 0.9 * (name in self.last_words) + 1.5 * (name in self.goal)
        if given is not None:
            score += 1.8 * math.exp2((given - self.last) / GIVEN_HALF_LIFE)
        if said is not None:
            score += 0.5 * math.exp2((said - self.last) / SAID_HALF_LIFE)
        return score * math.log1p(self.count / (1 + self.seen[name]))

    def of_files(self, files: Sequence[FileFact], total: int, each: int) -> list[list[str]]:
        """Names inside the newest edits and reads of some files: the best in all, by file.

        A name is told once, with the first file that holds it.
        """
        found: dict[str, tuple[float, int]] = {}
        for number, file in enumerate(files):
            own = set(file.symbols)
            for name in self._names_in(file):
                worth = self.worth(name) * (1.4 if name in own else 1.0)
                if worth >= LEAST_NAME and (name not in found or worth > found[name][0] * 1.2):
                    found[name] = (worth, number)
        chosen: list[list[str]] = [[] for _ in files]
        for name, (_, number) in sorted(found.items(), key=lambda kv: -kv[1][0]):
            if total <= 0:
                break
            if len(chosen[number]) < each and not any(_same(name, o) for o in chosen[number]):
                chosen[number].append(name)
                total -= 1
        return chosen

    def _names_in(self, file: FileFact) -> dict[str, None]:
        found: dict[str, None] = {}
        for ref in (*file.edits[-EDITS:], *file.reads[-READS:]):
            entry = self.by_ref.get(ref)
            if entry and entry.tool:
                given, printed = self._in_entry(entry)
                found.update(given if entry.tool.changes else printed)
        found.update(dict.fromkeys(file.symbols))
        return found

    def entries_of(self, file: FileFact, limit: int, covered: set[str]) -> tuple[int, ...]:
        """The entries of a file that show most of what is not covered yet, in order.

        What they show is added to `covered`: what one line cites, the next need not.
        """
        touched = (*file.reads[-CITED_FROM:], *file.edits[-CITED_FROM:])
        named = (*file.named.output[-3:], *file.named.assistant[-2:])
        showing = {ref: self._shown(ref) for ref in touched or named}
        chosen: list[int] = []
        while showing and len(chosen) < limit:
            fresh = {r: self._fresh(shown, covered) for r, shown in showing.items()}
            ref = max(fresh, key=lambda r: (fresh[r], r))
            if chosen and fresh[ref] < LEAST_SHOWN:
                break
            chosen.append(ref)
            covered |= showing.pop(ref)
        return tuple(sorted(chosen))

    def _shown(self, ref: int) -> set[str]:
        entry = self.by_ref.get(ref)
        if entry is None:
            return set()
        given, printed = self._in_entry(entry)
        return {*given, *printed}

    def _fresh(self, shown: set[str], covered: set[str]) -> float:
        return math.fsum(self.worth(n) for n in shown - covered)  # Exact: a set has no order.


def names(text: str) -> Iterable[str]:
    """Names of code in a text: those with case or an underscore inside."""
    for match in _NAME.finditer(text[:TEXT].replace("\\n", " ").replace("\\t", " ")):
        name = match[0]
        if name.startswith(_OF_THE_LANGUAGE):
            continue
        if len(name) <= _LONGEST and _TELLING.search(name) and name.lower() not in STOP_WORDS:
            yield name


def _given(entry: Entry) -> str:
    call = entry.tool
    if call is None:
        return ""
    changes = [t for c in call.changes for t in (c.old, c.new)]
    return "\n".join((call.command, call.detail, *changes))


def _same(one: str, other: str) -> bool:
    """Whether one name is the end of the other: `Count` of `server.Count`."""
    return one.endswith(f".{other}") or other.endswith(f".{one}")
