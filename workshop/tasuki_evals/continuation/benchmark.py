"""The continuation benchmark: how much of what the future used is in a handoff?

    thread file → cuts → truncated copy → the whole tool → brief → figures, next to the baselines

No judge is needed: the targets are what the agent really did next. See workshop/evaluation.md.
"""

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
from tasuki.draft.text.split import count_tokens
from tasuki.errors import TasukiError
from tasuki.harness import registry as harnesses
from tasuki.harness.protocol import Harness
from tasuki.model import Authorship
from tasuki.text_safety import format_plural
from tasuki_evals import runs
from tasuki_evals.continuation import cuts, metric
from tasuki_evals.continuation.baselines import BASELINES, create_random
from tasuki_evals.continuation.cuts import ThreadCut, ThreadSource
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
    paths: Iterable[Path], options: ContinuationOptions = DEFAULTS, *, workers: int = 0,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> ContinuationReport:  # fmt: skip
    """Measure all threads in some files and folders.

    `on_progress` is called with the number of finished files and of all files. The figures do
    not depend on `workers`, 0 for one per core. What cannot be measured is left out, with its
    reason. Raises ThreadNotFound and UsageError for paths that name nothing.
    """
    results = runs.run_measurements(
        partial(measure_thread, options=options), cuts.list_sources(paths), workers,
        on_lost=_report_lost, on_progress=on_progress,
    )  # fmt: skip
    cases: dict[str, ContinuationCase] = {}
    left = [one for _, lost in results for one in lost]
    for case in (case for thread_cases, _ in results for case in thread_cases):
        if cases.setdefault(case.name, case) is not case:
            reason = "the same place of the same thread is in another file"
            left.append(UnmeasuredItem(case.name, reason))
    return ContinuationReport(
        tasuki=tasuki.__version__, author=options.loaded.settings.author, budget=options.budget,
        cases=tuple(cases.values()), left_out=tuple(left),
    )  # fmt: skip


def _report_lost(source: ThreadSource) -> MeasuredThread:
    reason = "its process was ended by another program, perhaps because memory ran out"
    return [], [UnmeasuredItem(source.display_name, reason)]


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
        except Exception as error:
            self._leave_out(name, error)
        return self.cases, self.left_out

    def _find_cuts(self) -> list[ThreadCut]:
        path = cuts.unpack_source(self.source, self.folder)
        self.harness = harnesses.detect_harness(path)
        thread = self.harness.read(path)
        # An id that is derived from the path differs on other machines.
        if thread.id.startswith(f"{self.harness.name}-"):
            thread = replace(thread, id=self.source.display_name)
        return cuts.find_cuts(thread)

    def _measure_cut(self, cut: ThreadCut) -> None:
        below = self.folder / "cut"
        below.mkdir(exist_ok=True)
        try:
            copy = cuts.write_predecessor_copy(self.harness, cut, below)
        except (ValueError, OSError) as error:
            self._leave_out(cut.name, error, ValueError)
            return
        try:
            known_cut = replace(cut, predecessor=self.harness.read(copy))  # No later results.
            found, by = _compute_figures(self.harness, known_cut, copy, self.options)
            copy.unlink()
        except Exception as error:
            self._leave_out(cut.name, error)
            return
        cwd = cut.predecessor.cwd
        folder = "" if cwd.startswith(str(self.folder)) else cwd
        self.cases.append(
            ContinuationCase(
                name=cut.name, thread=self.source.display_name, harness=self.harness.name,
                repository=cuts.choose_repository_name(self.source.repository, folder),
                kind=cut.kind, methods=found, by=f"{by.author} {by.model}".rstrip(), fell=by.fell,
            )
        )  # fmt: skip

    def _leave_out(self, name: str, problem: Exception | str, *expected: type[Exception]) -> None:
        """Record the reason without a path of this machine, so that reports and reasons compare."""
        own = (self.folder / self.source.path.stem, self.source.path, self.folder)
        reason = runs.explain_failure(problem, (TasukiError, OSError, *expected), *map(str, own))
        self.left_out.append(UnmeasuredItem(name, reason))


def _compute_figures(
    harness: Harness, cut: ThreadCut, copy: Path, options: ContinuationOptions
) -> tuple[dict[str, MethodFigures], Authorship]:
    """Return the figures of every method in one case, and who wrote the brief."""
    wanted = cuts.find_cut_targets(cut)
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
        result = runs.draft_handoff(
            harness, copy, cut.goal, options.loaded, budget=budget, to=harness.name
        )
        found[method] = _score_brief(cut, result.context, wanted, opened)
        by = result.handoff.draft.authorship if method == OWN_METHOD else by
    for method, write in BASELINES.items():
        if method == "native summary" and not cut.summary:
            continue
        sizes = {"": length} | ({f"@{b}": b for b in curve} if method in CURVE_BASELINES else {})
        for mark, size in sizes.items():
            scored = metric.score_handoff(wanted, write(cut, size * 4), opened)
            found[method + mark] = {**scored.values, "tokens": scored.tokens}
    return found, by


def _score_brief(
    cut: ThreadCut, brief: str, wanted: metric.HandoffTargets, opened: frozenset[str]
) -> MethodFigures:
    """Return the share of the targets in the tool's brief, also with the entries it cites."""
    entries = cut.predecessor.entries
    refs = {int(ref) for ref in _REF.findall(brief)}
    cited = [e for e in entries if e.ref in refs]
    others = create_random(cut).sample(list(entries), len(cited))
    scored, by_chance = (
        metric.score_handoff(wanted, brief, opened, metric.join_whole_text(some))
        for some in (cited, others)
    )
    return {**scored.values, "id1 random": by_chance.values["id1"], "tokens": scored.tokens}


class ContinuationRow(Struct, frozen=True):
    """One method in one kind of case: an estimate per column, and the paired difference."""

    kind: str
    method: str
    values: dict[str, Estimate]
    own_minus: dict[str, Estimate] = {}
    """The tool's figure minus this method's, on the cases that have both."""


def get_own_method(kind: str) -> str:
    """Return the tool's method that competes in a kind of case."""
    return HALF_METHOD if kind == "compaction" else OWN_METHOD


def build_rows(cases: Sequence[ContinuationCase]) -> list[ContinuationRow]:
    """Return the table's rows: every method in every kind of case, the tool first."""
    found = []
    for kind in ("cut", "compaction"):
        of_kind = [c for c in cases if c.kind == kind]
        own = get_own_method(kind)
        methods = dict.fromkeys(m for c in of_kind for m in c.methods if "@" not in m)
        for method in methods:
            values = estimate_columns(of_kind, method, SHOWN_COLUMNS)
            minus = estimate_differences(of_kind, own, method)
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
        a, b = (case.methods.get(method, {}).get(column) for method in (one, other))
        if a is not None and b is not None:
            values[case.thread].append(a - b)
    return estimate_mean(compute_thread_means(values))


def estimate_differences(
    cases: Sequence[ContinuationCase], one: str, other: str
) -> dict[str, Estimate]:
    """Return the paired difference of two methods in each column that has one."""
    columns = metric.COLUMNS
    return {c: e for c in columns if (e := estimate_difference(cases, one, other, c))}


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


def format_counts(cases: Iterable[ContinuationCase], kind: str) -> str:
    """Return `3 cuts of 2 threads`."""
    cases = list(cases)
    threads = format_plural(count_threads(cases), "thread")
    return f"{format_plural(len(cases), kind)} of {threads}"


def compute_mean(cases: Iterable[ContinuationCase], method: str, column: str) -> float | None:
    """Return the mean over threads alone."""
    means = compute_thread_means(_collect_values(cases, method, column))
    return sum(means) / len(means) if means else None


MIN_RECALLS = {"edit": 1.0, "file": 1.0, "cmd": 0.98, "id": 1.0, "only": 1.0}
"""What the whole thread must contain of each recall."""


def find_broken_gates(found: Iterable[ContinuationRow]) -> list[str]:
    """Return why the figures cannot be trusted: what the whole or the empty handoff scores."""
    problems = []
    for row in found:
        for column, least in MIN_RECALLS.items():
            if not (value := row.values.get(column)):
                continue
            holds = f"holds {value.mean:.4f} of `{column}`"
            if row.method == "whole" and value.mean < least - 1e-9:
                problems.append(f"at {row.kind}s the whole thread {holds}, not {least:.2f}")
            if row.method == "empty" and value.mean > 0:
                problems.append(f"at {row.kind}s the empty handoff {holds}")
    return problems
