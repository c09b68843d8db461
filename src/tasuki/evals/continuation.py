"""The continuation benchmark: how much of what the future used does a handoff hold?

    thread file → cuts → truncated copy → the whole tool → brief → figures, beside the baselines

Nobody judges: the targets are what the agent really did next. See docs/evaluation.md.
"""

import os
import re
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct, to_builtins
from msgspec.structs import replace

import tasuki
from tasuki import harness as harnesses
from tasuki.config import Loaded, Settings
from tasuki.draft import pipeline
from tasuki.errors import TasukiError
from tasuki.evals import metric
from tasuki.evals.baselines import BASELINES, drawn
from tasuki.evals.cuts import Cut, cuts, predecessor_copy, targets
from tasuki.evals.places import Source, repository, sources, unpacked
from tasuki.evals.statistics import Estimate, by_thread, estimate
from tasuki.evals.workers import each
from tasuki.harness.protocol import Harness
from tasuki.model import Authorship, Goal
from tasuki.plain import one_line

BUDGET = 2_000
"""Tokens of a handoff at a cut; at a compaction it gets the length of the harness's summary."""
CURVE = (500, 1_000, 1_500, 3_000, 4_000)
"""Further budgets, for the plot of recall against budget."""
CURVED = ("random", "last", "index+users+last")
"""Baselines that are measured at those budgets too."""
OWN, HALF = "tasuki", "tasuki at half"
SHOWN = (*metric.COLUMNS, "id1 random", "tokens")
_REF = re.compile(r"#(\d+)")

Figures = dict[str, float | None]


class Case(Struct, frozen=True):
    """The figures of every method in one case. No word of the thread is in it."""

    name: str
    thread: str
    harness: str
    repository: str
    kind: str
    methods: dict[str, Figures]
    by: str = "offline"
    """The author that wrote the brief, and its model if it has one."""
    fell: tuple[str, ...] = ()
    """Why an author that should have written it did not."""


class LeftOut(Struct, frozen=True):
    """A thread or case that could not be measured, and why."""

    name: str
    reason: str


class Report(Struct, frozen=True, kw_only=True):
    """What a run found; as JSON it is what `tasuki eval compare` reads."""

    metric: int = metric.VERSION
    tasuki: str = ""
    author: str = "offline"
    budget: int = BUDGET
    cases: tuple[Case, ...] = ()
    left_out: tuple[LeftOut, ...] = ()


class Options(Struct, frozen=True):
    """What is measured: the author with its settings, and at which budgets."""

    loaded: Loaded = Loaded(Settings())
    budget: int = BUDGET
    curve: tuple[int, ...] = ()


DEFAULTS = Options()
Measured = tuple[list[Case], list[LeftOut]]


def run(
    paths: Iterable[Path],
    options: Options = DEFAULTS,
    *,
    workers: int = 0,
    done: Callable[[int, int], None] = lambda done, total: None,
) -> Report:
    """Measure all threads in some files and folders.

    `done` is told how many of all files are through. The figures do not depend on `workers`, 0 for
    one a core. What cannot be measured is left out, with its reason. Raises ThreadNotFound and
    UsageError for paths that name nothing.
    """
    found = sources(paths)
    with tempfile.TemporaryDirectory(prefix="tasuki-eval-") as scratch:
        results = each(
            partial(measure, options=options, scratch=scratch),
            found,
            min(workers or os.cpu_count() or 1, len(found)),
            lost=_lost,
            done=lambda count: done(count, len(found)),
        )
    cases: dict[str, Case] = {}
    left = [one for _, lost in results for one in lost]
    for case in (case for of_thread, _ in results for case in of_thread):
        if cases.setdefault(case.name, case) is not case:
            left.append(LeftOut(case.name, "the same place of the same thread is in another file"))
    return Report(
        tasuki=tasuki.__version__,
        author=options.loaded.settings.author,
        budget=options.budget,
        cases=tuple(cases.values()),
        left_out=tuple(left),
    )


def _lost(source: Source) -> Measured:
    return [], [LeftOut(source.called, "its process was ended from outside, perhaps for want of memory")]  # fmt: skip


def measure(source: Source, options: Options, scratch: str | None = None) -> Measured:
    """All cases of one thread file, and what had to be left out of it.

    Copies are made in a folder below `scratch`, by default the system's, and removed.
    """
    with tempfile.TemporaryDirectory(prefix="tasuki-eval-", dir=scratch) as folder:
        return _Measurement(source, options, Path(folder).resolve()).done()


class _Measurement:
    """One thread file under way. Whatever is wrong with it, the other ones are measured."""

    def __init__(self, source: Source, options: Options, folder: Path) -> None:
        self.source, self.options, self.folder = source, options, folder
        self.cases: list[Case] = []
        self.left: list[LeftOut] = []

    def done(self) -> Measured:
        name = self.source.called
        try:
            found = self._cuts()
            if not found:
                self._leave(name, "no message of the user with enough work before and after")
            for cut in found:
                self._measure(cut)
        except (TasukiError, OSError) as error:
            self._leave(name, error)
        except Exception as error:
            self._leave(name, _defect(error))
        return self.cases, self.left

    def _cuts(self) -> list[Cut]:
        path = unpacked(self.source, self.folder)
        self.harness = harnesses.of_file(path)
        thread = self.harness.read(path)
        if thread.id.startswith(
            f"{self.harness.name}-"
        ):  # Made of the path, so not the same elsewhere.
            thread = replace(thread, id=self.source.called)
        return cuts(thread)

    def _measure(self, cut: Cut) -> None:
        below = self.folder / "cut"
        below.mkdir(exist_ok=True)
        try:
            copy = predecessor_copy(self.harness, cut, below)
        except (ValueError, OSError) as error:
            return self._leave(cut.name, error)
        try:
            known = replace(cut, predecessor=self.harness.read(copy))  # No result of a later line.
            found, by = _figures(self.harness, known, copy, self.options)
            copy.unlink()
        except (TasukiError, OSError) as error:
            self._leave(cut.name, error)
        except Exception as error:
            self._leave(cut.name, _defect(error))
        else:
            self.cases.append(self._case(cut, found, by))

    def _case(self, cut: Cut, methods: dict[str, Figures], by: Authorship) -> Case:
        cwd = cut.predecessor.cwd
        return Case(
            name=cut.name,
            thread=self.source.called,
            harness=self.harness.name,
            repository=repository(
                self.source.repository, "" if cwd.startswith(str(self.folder)) else cwd
            ),
            kind=cut.kind,
            methods=methods,
            by=f"{by.author} {by.model}".rstrip(),
            fell=by.fell,
        )

    def _leave(self, name: str, why: Exception | str) -> None:
        """The reason without a path of this machine, so that reports compare and reasons group."""
        reason = (why.strerror or str(why)) if isinstance(why, OSError) else str(why)
        for path in (
            str(self.folder / self.source.path.stem),
            str(self.source.path),
            str(self.folder),
        ):
            reason = reason.replace(path, "it").removeprefix("it: ")
        self.left.append(LeftOut(name, one_line(reason.partition(". ")[0].rstrip("."), 200)))


def _defect(error: Exception) -> str:
    return f"a defect of tasuki, please tell us: {type(error).__name__}: {error}"


def _figures(
    harness: Harness, cut: Cut, copy: Path, options: Options
) -> tuple[dict[str, Figures], Authorship]:
    """The figures of every method in one case, and who wrote the brief."""
    wanted = targets(cut)
    opened = metric.used(cut.future, cut.predecessor.cwd).opened
    length = metric.tokens(cut.summary) if cut.kind == "compaction" else options.budget
    budgets = {OWN: length}
    curve = options.curve if cut.kind == "cut" else ()
    if cut.kind == "compaction":
        budgets[HALF] = length // 2
    budgets |= {f"{OWN}@{b}": b for b in curve}
    found: dict[str, Figures] = {}
    by = Authorship()
    for method, budget in budgets.items():
        found[method], wrote = _own(harness, copy, cut, wanted, opened, budget, options.loaded)
        by = wrote if method == OWN else by
    for method, write in BASELINES.items():
        if method == "native summary" and not cut.summary:
            continue
        sizes = {"": length} | ({f"@{b}": b for b in curve} if method in CURVED else {})
        for mark, size in sizes.items():
            scored = metric.score(wanted, write(cut, size * 4), opened)
            found[method + mark] = {**scored.values, "tokens": scored.tokens}
    return found, by


def _own(
    harness: Harness,
    copy: Path,
    cut: Cut,
    wanted: metric.Targets,
    opened: frozenset[str],
    budget: int,
    loaded: Loaded,
) -> tuple[Figures, Authorship]:
    """What the tool's brief holds of the targets, and the entries it cites with it."""
    loaded = replace(loaded, settings=replace(loaded.settings, budget=budget))
    made = pipeline.make(
        harness, copy, Goal(cut.goal, forced=True), loaded,
        handoff_id="0" * 32, to=harness.name, replay=True,
    )  # fmt: skip
    entries = cut.predecessor.entries
    refs = {int(ref) for ref in _REF.findall(made.context)}
    cited = [e for e in entries if e.ref in refs]
    others = drawn(cut).sample(list(entries), len(cited))
    scored = metric.score(wanted, made.context, opened, metric.whole_text(cited))
    beside = metric.score(wanted, made.context, opened, metric.whole_text(others))
    figures = {**scored.values, "id1 random": beside.values["id1"], "tokens": scored.tokens}
    return figures, made.handoff.draft.authorship


# -- the table -------------------------------------------------------------------------


class Row(Struct, frozen=True):
    """One method in one kind of case: an estimate a column, and the paired difference to it."""

    kind: str
    method: str
    values: dict[str, Estimate]
    own_minus: dict[str, Estimate] = {}
    """The tool's figure minus this method's, on the cases that have both."""


def rows(cases: Sequence[Case]) -> list[Row]:
    """The table's rows: every method in every kind of case, the tool first."""
    found = []
    for kind in ("cut", "compaction"):
        of_kind = [c for c in cases if c.kind == kind]
        own = HALF if kind == "compaction" else OWN
        methods = dict.fromkeys(m for c in of_kind for m in c.methods if "@" not in m)
        for method in methods:
            values = estimates(of_kind, method, SHOWN)
            minus = {c: e for c in metric.COLUMNS if (e := difference(of_kind, own, method, c))}
            found.append(Row(kind, method, values, minus if method != own else {}))
    return found


def estimates(cases: Sequence[Case], method: str, columns: Iterable[str]) -> dict[str, Estimate]:
    """What a method holds in each column that it has figures in."""
    return {c: e for c in columns if (e := estimate(by_thread(_values(cases, method, c))))}


def _values(cases: Iterable[Case], method: str, column: str) -> dict[str, list[float]]:
    """The figures of each thread that has them."""
    values = defaultdict(list)
    for case in cases:
        value = case.methods.get(method, {}).get(column)
        if value is not None:
            values[case.thread].append(value)
    return values


def difference(cases: Iterable[Case], one: str, other: str, column: str) -> Estimate | None:
    """The paired difference of two methods on the cases that have both figures."""
    values = defaultdict(list)
    for case in cases:
        a = case.methods.get(one, {}).get(column)
        b = case.methods.get(other, {}).get(column)
        if a is not None and b is not None:
            values[case.thread].append(a - b)
    return estimate(by_thread(values))


DIGITS = 6
"""Of figures in the document: the last ones differ by machine."""


def document(report: Report, found: Iterable[Row]) -> dict[str, object]:
    """A report with its table as plain data: no time, no path, no word of a thread."""
    return {**rounded(to_builtins(report)), "rows": rounded(to_builtins(list(found)))}


def rounded(value: Any) -> Any:
    """Plain data whose figures are rounded to `DIGITS`."""
    if isinstance(value, dict):
        return {name: rounded(v) for name, v in value.items()}
    if isinstance(value, list):
        return [rounded(v) for v in value]
    return round(value, DIGITS) if isinstance(value, float) else value


def threads(cases: Iterable[Case]) -> int:
    """How many threads some cases are of."""
    return len({case.thread for case in cases})


def mean(cases: Iterable[Case], method: str, column: str) -> float | None:
    """The mean over threads alone."""
    means = by_thread(_values(cases, method, column))
    return sum(means) / len(means) if means else None


RECALLS = {"edit": 1.0, "file": 1.0, "cmd": 0.98, "id": 1.0, "only": 1.0}
"""What the whole thread must hold of each recall."""


def broken_gates(found: Iterable[Row]) -> list[str]:
    """Why the figures are not to be believed; nothing if whole and empty handoff are as they must."""
    told = []
    for row in found:
        for column, least in RECALLS.items():
            value = row.values.get(column)
            if value and row.method == "whole" and value.mean < least - 1e-9:
                told.append(f"at {row.kind}s the whole thread holds {value.mean:.4f} of `{column}`, not {least:.2f}")  # fmt: skip
            if value and row.method == "empty" and value.mean > 0:
                told.append(f"at {row.kind}s the empty handoff holds {value.mean:.4f} of `{column}`")  # fmt: skip
    return told
