"""Two runs of the continuation benchmark, paired on the cases that both have.

A release fails where the lower bound of (new − last released) is below −0.03 on `id` or −0.02 on
`edit`, judged on 60 threads or more; on fewer, a person judges.
"""

from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from tasuki.errors import UsageError
from tasuki.evals import metric
from tasuki.evals.continuation import HALF, OWN, SHOWN, Case, Report, estimates, threads
from tasuki.evals.continuation import difference as paired
from tasuki.evals.statistics import ENOUGH_THREADS, Estimate

MOST_LOST = {"id": 0.03, "edit": 0.02}
"""How far the lower bound of a difference may lie below 0."""
LAYOUT = 1


class Compared(Struct, frozen=True):
    """One method in one kind of case, in both runs and their difference, B minus A, by column."""

    kind: str
    method: str
    cases: int
    threads: int
    a: dict[str, Estimate]
    b: dict[str, Estimate]
    minus: dict[str, Estimate]

    @property
    def judged(self) -> list[str]:
        """Columns of the rule that enough threads have figures in."""
        return [c for c in MOST_LOST if c in self.minus and self.minus[c].threads >= ENOUGH_THREADS]

    @property
    def fallen(self) -> list[str]:
        """Columns in which B lost more than the rule allows."""
        return [c for c in self.judged if self.minus[c].low < -MOST_LOST[c]]


class Comparison(Struct, frozen=True):
    """What two runs have in common, and how they differ."""

    a: Report
    b: Report
    only_a: int
    """Cases that the other run does not have."""
    only_b: int
    compared: tuple[Compared, ...]

    @property
    def judged(self) -> bool:
        """Whether the rule could be judged anywhere."""
        return any(one.judged for one in self.compared)

    @property
    def failed(self) -> bool:
        """Whether the release rule fails."""
        return any(one.fallen for one in self.compared)


class _Saved(Report, frozen=True, kw_only=True):
    """A report as it was saved."""

    version: int


def read(path: Path) -> Report:
    """A saved report. Raises UsageError, naming the file, for anything else."""
    how = "Save one with: tasuki eval continuation PATH --save FILE"
    try:
        report = msgspec.json.decode(path.read_bytes(), type=_Saved)
    except FileNotFoundError as error:
        raise UsageError(f"No report {path}: there is no such file. {how}") from error
    except OSError as error:
        raise UsageError(f"Cannot read the report {path}: {error.strerror}.") from error
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"{path} is not a report of the continuation benchmark. {how}") from error
    if report.version != LAYOUT:
        raise UsageError(
            f"{path} has the layout {report.version}; this tasuki reads {LAYOUT}. Measure again."
        )
    return report


def compare(a: Report, b: Report, method: str = "") -> Comparison:
    """What B has more than A on the cases of both, for a method; without one, for the tool.

    Raises UsageError if the reports were counted differently, have no case in common, or no case
    with the method.
    """
    if a.metric != b.metric:
        older, version = ("A", b.metric) if a.metric < b.metric else ("B", a.metric)
        raise UsageError(
            f"A was counted by version {a.metric} of the metric, B by version {b.metric}. They cannot "
            "be compared: each version counts other things, so a difference would not be one of the "
            f"handoffs. Measure {older} again with a tasuki whose metric has version {version}: "
            "tasuki eval continuation PATH --save FILE"
        )
    ours, theirs = {c.name: c for c in a.cases}, {c.name: c for c in b.cases}
    both = [name for name in ours if name in theirs]
    if not both:
        raise UsageError("The two reports have no case in common: they are of different threads.")
    pairs = [(ours[name], theirs[name]) for name in both]
    known = list(dict.fromkeys(m for pair in pairs for c in pair for m in c.methods))
    if method and method not in known:
        raise UsageError(f"No method {method!r} in these reports. There are: {', '.join(known)}.")
    compared = [
        one
        for kind in ("cut", "compaction")
        for name in ([method] if method else [OWN, HALF])
        if (one := _compared(kind, name, [p for p in pairs if p[0].kind == kind])) is not None
    ]
    return Comparison(a, b, len(ours) - len(both), len(theirs) - len(both), tuple(compared))


def _compared(kind: str, method: str, pairs: Sequence[tuple[Case, Case]]) -> Compared | None:
    pairs = [p for p in pairs if method in p[0].methods and method in p[1].methods]
    if not pairs:
        return None
    merged = [_merged(method, one, other) for one, other in pairs]
    minus = {c: e for c in metric.COLUMNS if (e := paired(merged, "b", "a", c))}
    return Compared(
        kind, method, len(merged), threads(merged),
        estimates(merged, "a", SHOWN), estimates(merged, "b", SHOWN), minus,
    )  # fmt: skip


def _merged(method: str, one: Case, other: Case) -> Case:
    """A case whose methods are the two runs: figures that only one of them has count in neither."""
    a, b = one.methods[method], other.methods[method]
    both = {c for c in a if a[c] is not None and b.get(c) is not None}
    return msgspec.structs.replace(
        one, methods={"a": {c: a[c] for c in both}, "b": {c: b[c] for c in both}}
    )
