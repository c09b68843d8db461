"""The continuation benchmark: how much of what the future used is in a handoff?

    thread file → cuts → truncated copy → the whole tool → brief → figures, next to the baselines

No judge is needed: the targets are what the agent really did next. See workshop/evaluation.md.
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
from tasuki.config.settings import LoadedSettings, Settings
from tasuki.draft import pipeline
from tasuki.draft.text.split import count_tokens
from tasuki.errors import TasukiError
from tasuki.harness import registry as harnesses
from tasuki.harness.protocol import Harness
from tasuki.model import Authorship, Goal
from tasuki.text_safety import shorten_to_line
from tasuki_evals.continuation import metric
from tasuki_evals.continuation.baselines import BASELINES, create_random
from tasuki_evals.continuation.cuts import (
    ThreadCut,
    ThreadSource,
    choose_repository_name,
    find_cut_targets,
    find_cuts,
    list_sources,
    unpack_source,
    write_predecessor_copy,
)
from tasuki_evals.runs import run_each
from tasuki_evals.statistics import Estimate, compute_thread_means, estimate_mean

BUDGET = 2_000
"""Tokens of a handoff at a cut; at a compaction it gets the length of the harness's summary."""
CURVE_BUDGETS = (500, 1_000, 1_500, 3_000, 4_000)
"""Further budgets, for the plot of recall against budget."""
CURVE_BASELINES = ("random", "last", "index+users+last")
"""Baselines that are measured at those budgets too."""
OWN_METHOD, HALF_METHOD = "tasuki", "tasuki at half"
SHOWN_COLUMNS = (*metric.COLUMNS, "id1 random", "tokens")
_REF = re.compile(r"#(\d+)")

MethodFigures = dict[str, float | None]


class ContinuationCase(Struct, frozen=True):
    """The figures of every method in one case. It contains no word of the thread."""

    name: str
    thread: str
    harness: str
    repository: str
    kind: str
    methods: dict[str, MethodFigures]
    by: str = "offline"
    """The author that wrote the brief, and its model if it has one."""
    fell: tuple[str, ...] = ()
    """Why an author that should have written it did not."""


class UnmeasuredItem(Struct, frozen=True):
    """A thread or case that could not be measured, and why."""

    name: str
    reason: str


class ContinuationReport(Struct, frozen=True, kw_only=True):
    """The findings of a run; as JSON it is what `tasuki eval compare` reads."""

    metric: int = metric.VERSION
    tasuki: str = ""
    author: str = "offline"
    budget: int = BUDGET
    cases: tuple[ContinuationCase, ...] = ()
    left_out: tuple[UnmeasuredItem, ...] = ()


class ContinuationOptions(Struct, frozen=True):
    """What is measured: the author with its settings, and at which budgets."""

    loaded: LoadedSettings = LoadedSettings(Settings())
    budget: int = BUDGET
    curve: tuple[int, ...] = ()


DEFAULTS = ContinuationOptions()
MeasuredThread = tuple[list[ContinuationCase], list[UnmeasuredItem]]


def run_benchmark(
    paths: Iterable[Path],
    options: ContinuationOptions = DEFAULTS,
    *,
    workers: int = 0,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> ContinuationReport:
    """Measure all threads in some files and folders.

    `on_progress` is called with the number of finished files and of all files. The figures do
    not depend on `workers`, 0 for one per core. What cannot be measured is left out, with its
    reason. Raises ThreadNotFound and UsageError for paths that name nothing.
    """
    found = list_sources(paths)
    with tempfile.TemporaryDirectory(prefix="tasuki-eval-") as scratch:
        results = run_each(
            partial(measure_thread, options=options, scratch=scratch),
            found,
            min(workers or os.cpu_count() or 1, len(found)),
            on_lost=_report_lost,
            on_done=lambda count: on_progress(count, len(found)),
        )
    cases: dict[str, ContinuationCase] = {}
    left = [one for _, lost in results for one in lost]
    for case in (case for thread_cases, _ in results for case in thread_cases):
        if cases.setdefault(case.name, case) is not case:
            left.append(
                UnmeasuredItem(case.name, "the same place of the same thread is in another file")
            )
    return ContinuationReport(
        tasuki=tasuki.__version__,
        author=options.loaded.settings.author,
        budget=options.budget,
        cases=tuple(cases.values()),
        left_out=tuple(left),
    )


def _report_lost(source: ThreadSource) -> MeasuredThread:
    return [], [
        UnmeasuredItem(
            source.display_name,
            "its process was ended by another program, perhaps because memory ran out",
        )
    ]


def measure_thread(
    source: ThreadSource, options: ContinuationOptions, scratch: str | None = None
) -> MeasuredThread:
    """Return all cases of one thread file, and what had to be left out of it.

    Copies are made in a folder below `scratch`, by default the system's, and removed.
    """
    with tempfile.TemporaryDirectory(prefix="tasuki-eval-", dir=scratch) as folder:
        return _Measurement(source, options, Path(folder).resolve()).measure_all()


class _Measurement:
    """The measurement of one thread file. Its errors do not stop the other files."""

    def __init__(self, source: ThreadSource, options: ContinuationOptions, folder: Path) -> None:
        self.source, self.options, self.folder = source, options, folder
        self.cases: list[ContinuationCase] = []
        self.left_out: list[UnmeasuredItem] = []

    def measure_all(self) -> MeasuredThread:
        name = self.source.display_name
        try:
            found = self._find_cuts()
            if not found:
                self._leave_out(name, "no message of the user with enough work before and after")
            for cut in found:
                self._measure_cut(cut)
        except (TasukiError, OSError) as error:
            self._leave_out(name, error)
        except Exception as error:
            self._leave_out(name, _describe_defect(error))
        return self.cases, self.left_out

    def _find_cuts(self) -> list[ThreadCut]:
        path = unpack_source(self.source, self.folder)
        self.harness = harnesses.detect_harness(path)
        thread = self.harness.read(path)
        if thread.id.startswith(
            f"{self.harness.name}-"
        ):  # Derived from the path, so it differs on other machines.
            thread = replace(thread, id=self.source.display_name)
        return find_cuts(thread)

    def _measure_cut(self, cut: ThreadCut) -> None:
        below = self.folder / "cut"
        below.mkdir(exist_ok=True)
        try:
            copy = write_predecessor_copy(self.harness, cut, below)
        except (ValueError, OSError) as error:
            return self._leave_out(cut.name, error)
        try:
            known_cut = replace(
                cut, predecessor=self.harness.read(copy)
            )  # Without results of later lines.
            found, by = _compute_figures(self.harness, known_cut, copy, self.options)
            copy.unlink()
        except (TasukiError, OSError) as error:
            self._leave_out(cut.name, error)
        except Exception as error:
            self._leave_out(cut.name, _describe_defect(error))
        else:
            cwd = cut.predecessor.cwd
            self.cases.append(
                ContinuationCase(
                    name=cut.name,
                    thread=self.source.display_name,
                    harness=self.harness.name,
                    repository=choose_repository_name(
                        self.source.repository, "" if cwd.startswith(str(self.folder)) else cwd
                    ),
                    kind=cut.kind,
                    methods=found,
                    by=f"{by.author} {by.model}".rstrip(),
                    fell=by.fell,
                )
            )

    def _leave_out(self, name: str, problem: Exception | str) -> None:
        """Record the reason without a path of this machine, so that reports and reasons compare."""
        reason = (
            (problem.strerror or str(problem)) if isinstance(problem, OSError) else str(problem)
        )
        for path in (
            str(self.folder / self.source.path.stem),
            str(self.source.path),
            str(self.folder),
        ):
            reason = reason.replace(path, "it").removeprefix("it: ")
        self.left_out.append(
            UnmeasuredItem(name, shorten_to_line(reason.partition(". ")[0].rstrip("."), 200))
        )


def _describe_defect(error: Exception) -> str:
    return f"a bug in tasuki, please report it: {type(error).__name__}: {error}"


def _compute_figures(
    harness: Harness, cut: ThreadCut, copy: Path, options: ContinuationOptions
) -> tuple[dict[str, MethodFigures], Authorship]:
    """Return the figures of every method in one case, and who wrote the brief."""
    wanted = find_cut_targets(cut)
    opened = metric.collect_used(cut.future, cut.predecessor.cwd).opened
    length = count_tokens(cut.summary) if cut.kind == "compaction" else options.budget
    budgets = {OWN_METHOD: length}
    curve = options.curve if cut.kind == "cut" else ()
    if cut.kind == "compaction":
        budgets[HALF_METHOD] = length // 2
    budgets |= {f"{OWN_METHOD}@{b}": b for b in curve}
    found: dict[str, MethodFigures] = {}
    by = Authorship()
    for method, budget in budgets.items():
        found[method], wrote = _score_own_brief(
            harness, copy, cut, wanted, opened, budget, options.loaded
        )
        by = wrote if method == OWN_METHOD else by
    for method, write in BASELINES.items():
        if method == "native summary" and not cut.summary:
            continue
        sizes = {"": length} | ({f"@{b}": b for b in curve} if method in CURVE_BASELINES else {})
        for mark, size in sizes.items():
            scored = metric.score_handoff(wanted, write(cut, size * 4), opened)
            found[method + mark] = {**scored.values, "tokens": scored.tokens}
    return found, by


def _score_own_brief(
    harness: Harness,
    copy: Path,
    cut: ThreadCut,
    wanted: metric.HandoffTargets,
    opened: frozenset[str],
    budget: int,
    loaded: LoadedSettings,
) -> tuple[MethodFigures, Authorship]:
    """Return the share of the targets in the tool's brief, also with the entries it cites."""
    loaded = replace(loaded, settings=replace(loaded.settings, budget=budget))
    result = pipeline.make_handoff(
        harness, copy, Goal(cut.goal, forced=True), loaded,
        handoff_id="0" * 32, to=harness.name, replay=True,
    )  # fmt: skip
    entries = cut.predecessor.entries
    refs = {int(ref) for ref in _REF.findall(result.context)}
    cited = [e for e in entries if e.ref in refs]
    others = create_random(cut).sample(list(entries), len(cited))
    scored = metric.score_handoff(wanted, result.context, opened, metric.join_whole_text(cited))
    random_scored = metric.score_handoff(
        wanted, result.context, opened, metric.join_whole_text(others)
    )
    figures = {**scored.values, "id1 random": random_scored.values["id1"], "tokens": scored.tokens}
    return figures, result.handoff.draft.authorship


# -- the table -------------------------------------------------------------------------


class ContinuationRow(Struct, frozen=True):
    """One method in one kind of case: an estimate per column, and the paired difference."""

    kind: str
    method: str
    values: dict[str, Estimate]
    own_minus: dict[str, Estimate] = {}
    """The tool's figure minus this method's, on the cases that have both."""


def build_rows(cases: Sequence[ContinuationCase]) -> list[ContinuationRow]:
    """Return the table's rows: every method in every kind of case, the tool first."""
    found = []
    for kind in ("cut", "compaction"):
        of_kind = [c for c in cases if c.kind == kind]
        own = HALF_METHOD if kind == "compaction" else OWN_METHOD
        methods = dict.fromkeys(m for c in of_kind for m in c.methods if "@" not in m)
        for method in methods:
            values = estimate_columns(of_kind, method, SHOWN_COLUMNS)
            minus = {
                c: e for c in metric.COLUMNS if (e := estimate_difference(of_kind, own, method, c))
            }
            found.append(ContinuationRow(kind, method, values, minus if method != own else {}))
    return found


def estimate_columns(
    cases: Sequence[ContinuationCase], method: str, columns: Iterable[str]
) -> dict[str, Estimate]:
    """Return the estimate of a method in each column that it has figures in."""
    return {
        c: e
        for c in columns
        if (e := estimate_mean(compute_thread_means(_collect_values(cases, method, c))))
    }


def _collect_values(
    cases: Iterable[ContinuationCase], method: str, column: str
) -> dict[str, list[float]]:
    """Return the figures of each thread that has them."""
    values = defaultdict(list)
    for case in cases:
        value = case.methods.get(method, {}).get(column)
        if value is not None:
            values[case.thread].append(value)
    return values


def estimate_difference(
    cases: Iterable[ContinuationCase], one: str, other: str, column: str
) -> Estimate | None:
    """Return the paired difference of two methods on the cases that have both figures."""
    values = defaultdict(list)
    for case in cases:
        a = case.methods.get(one, {}).get(column)
        b = case.methods.get(other, {}).get(column)
        if a is not None and b is not None:
            values[case.thread].append(a - b)
    return estimate_mean(compute_thread_means(values))


DIGITS = 6
"""Digits of figures in the document: further ones differ by machine."""


def build_document(
    report: ContinuationReport, found: Iterable[ContinuationRow]
) -> dict[str, object]:
    """Return a report with its table as plain data: no time, no path, no word of a thread."""
    return {**round_figures(to_builtins(report)), "rows": round_figures(to_builtins(list(found)))}


def round_figures(value: Any) -> Any:
    """Return plain data with figures rounded to `DIGITS`."""
    if isinstance(value, dict):
        return {name: round_figures(v) for name, v in value.items()}
    if isinstance(value, list):
        return [round_figures(v) for v in value]
    return round(value, DIGITS) if isinstance(value, float) else value


def count_threads(cases: Iterable[ContinuationCase]) -> int:
    """Return how many threads some cases are of."""
    return len({case.thread for case in cases})


def compute_mean(cases: Iterable[ContinuationCase], method: str, column: str) -> float | None:
    """Return the mean over threads alone."""
    means = compute_thread_means(_collect_values(cases, method, column))
    return sum(means) / len(means) if means else None


MIN_RECALLS = {"edit": 1.0, "file": 1.0, "cmd": 0.98, "id": 1.0, "only": 1.0}
"""What the whole thread must contain of each recall."""


def find_broken_gates(found: Iterable[ContinuationRow]) -> list[str]:
    """Return why the figures cannot be trusted.

    Return nothing if the whole and the empty handoff score as they must.
    """
    problems = []
    for row in found:
        for column, least in MIN_RECALLS.items():
            value = row.values.get(column)
            if value and row.method == "whole" and value.mean < least - 1e-9:
                problems.append(
                    f"at {row.kind}s the whole thread holds {value.mean:.4f} of `{column}`, not {least:.2f}"
                )
            if value and row.method == "empty" and value.mean > 0:
                problems.append(
                    f"at {row.kind}s the empty handoff holds {value.mean:.4f} of `{column}`"
                )
    return problems
