"""Two runs of the continuation benchmark, paired on the cases that both have.

A release fails if the lower bound of (new − last released) is below −0.03 on `id` or −0.02
on `edit`, judged on 60 threads or more; on fewer, a person judges.
"""

from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from tasuki.errors import UsageError
from tasuki_evals.continuation import metric
from tasuki_evals.continuation.benchmark import (
    HALF_METHOD,
    OWN_METHOD,
    SHOWN_COLUMNS,
    ContinuationCase,
    ContinuationReport,
    count_threads,
    estimate_columns,
)
from tasuki_evals.continuation.benchmark import estimate_difference as paired
from tasuki_evals.statistics import ENOUGH_THREADS, Estimate

MAX_LOSS = {"id": 0.03, "edit": 0.02}
"""How far the lower bound of a difference may be below 0."""
LAYOUT = 1


class MethodComparison(Struct, frozen=True):
    """One method in one kind of case, in both runs and their difference, B minus A, by column."""

    kind: str
    method: str
    cases: int
    threads: int
    a: dict[str, Estimate]
    b: dict[str, Estimate]
    minus: dict[str, Estimate]

    @property
    def judged_columns(self) -> list[str]:
        """Columns of the rule that have figures of enough threads."""
        return [c for c in MAX_LOSS if c in self.minus and self.minus[c].threads >= ENOUGH_THREADS]

    @property
    def failed_columns(self) -> list[str]:
        """Columns in which B lost more than the rule allows."""
        return [c for c in self.judged_columns if self.minus[c].low < -MAX_LOSS[c]]


class RunComparison(Struct, frozen=True):
    """What two runs have in common, and how they differ."""

    a: ContinuationReport
    b: ContinuationReport
    only_a: int
    """Cases that the other run does not have."""
    only_b: int
    compared: tuple[MethodComparison, ...]

    @property
    def is_judged(self) -> bool:
        """Whether the rule could be judged anywhere."""
        return any(one.judged_columns for one in self.compared)

    @property
    def has_failed(self) -> bool:
        """Whether the release rule fails."""
        return any(one.failed_columns for one in self.compared)


class _SavedReport(ContinuationReport, frozen=True, kw_only=True):
    """A report as it was saved."""

    version: int


def read_report(path: Path) -> ContinuationReport:
    """Return a saved report. Raises UsageError, naming the file, for anything else."""
    how = "Save one with: tasuki eval continuation PATH --save FILE"
    try:
        report = msgspec.json.decode(path.read_bytes(), type=_SavedReport)
    except FileNotFoundError as error:
        raise UsageError(f"No report {path}: there is no such file. {how}") from error
    except OSError as error:
        raise UsageError(f"Cannot read the report {path}: {error.strerror}.") from error
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"{path} is not a report of the continuation benchmark. {how}") from error
    if report.version != LAYOUT:
        raise UsageError(
            f"{path} has the layout {report.version}; this version of tasuki reads {LAYOUT}. Measure again."
        )
    return report


def compare_reports(
    a: ContinuationReport, b: ContinuationReport, method: str = ""
) -> RunComparison:
    """Return what B has more than A on the cases of both, for a method, or for the tool.

    Raises UsageError if the reports were counted differently, have no case in common, or no
    case with the method.
    """
    if a.metric != b.metric:
        older, version = ("A", b.metric) if a.metric < b.metric else ("B", a.metric)
        raise UsageError(
            f"A was counted by version {a.metric} of the metric, B by version {b.metric}. They cannot "
            "be compared: each version counts different things, so a difference would not come from the "
            f"handoffs. Measure {older} again with a tasuki whose metric has version {version}: "
            "tasuki eval continuation PATH --save FILE"
        )
    ours, theirs = {c.name: c for c in a.cases}, {c.name: c for c in b.cases}
    both = [name for name in ours if name in theirs]
    if not both:
        raise UsageError("The two reports have no case in common: they measure different threads.")
    pairs = [(ours[name], theirs[name]) for name in both]
    known = list(dict.fromkeys(m for pair in pairs for c in pair for m in c.methods))
    if method and method not in known:
        raise UsageError(f"No method {method!r} in these reports. There are: {', '.join(known)}.")
    compared = [
        one
        for kind in ("cut", "compaction")
        for name in ([method] if method else [OWN_METHOD, HALF_METHOD])
        if (one := _compare_method(kind, name, [p for p in pairs if p[0].kind == kind])) is not None
    ]
    return RunComparison(a, b, len(ours) - len(both), len(theirs) - len(both), tuple(compared))


def _compare_method(
    kind: str, method: str, pairs: Sequence[tuple[ContinuationCase, ContinuationCase]]
) -> MethodComparison | None:
    pairs = [p for p in pairs if method in p[0].methods and method in p[1].methods]
    if not pairs:
        return None
    merged = [_merge_cases(method, one, other) for one, other in pairs]
    minus = {c: e for c in metric.COLUMNS if (e := paired(merged, "b", "a", c))}
    return MethodComparison(
        kind, method, len(merged), count_threads(merged),
        estimate_columns(merged, "a", SHOWN_COLUMNS), estimate_columns(merged, "b", SHOWN_COLUMNS), minus,
    )  # fmt: skip


def _merge_cases(method: str, one: ContinuationCase, other: ContinuationCase) -> ContinuationCase:
    """Return a case whose methods are the two runs; figures that only one has count in neither."""
    a, b = one.methods[method], other.methods[method]
    both = {c for c in a if a[c] is not None and b.get(c) is not None}
    return msgspec.structs.replace(
        one, methods={"a": {c: a[c] for c in both}, "b": {c: b[c] for c in both}}
    )
