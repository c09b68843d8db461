"""The figures of the continuation benchmark as tables, and two runs of it compared.

Tables are for a terminal, as Markdown, and for the page. Runs are paired on the cases that
both have. A release fails if the lower bound of (new − last released) is below −0.03 on `id`
or −0.02 on `edit`, judged on 60 threads or more; on fewer, a person judges.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from tasuki.errors import UsageError
from tasuki.text_safety import shorten_to_line
from tasuki_evals.continuation import benchmark, metric
from tasuki_evals.continuation.benchmark import (
    ContinuationCase,
    ContinuationReport,
    ContinuationRow,
)
from tasuki_evals.statistics import ENOUGH_THREADS, Estimate

OWN_METHOD, HALF_METHOD = benchmark.OWN_METHOD, benchmark.HALF_METHOD
SHOWN_COLUMNS = benchmark.SHOWN_COLUMNS
GATE_METHODS = ("whole", "empty")
"""Methods that show whether the metric works; they are not competitors."""
REPOSITORY_COLUMNS = ("edit", "file", "cmd", "id", "pfile")
NO_FIGURE = "–"


class TableCell(Struct, frozen=True):
    """A figure, its interval if it has one, and whether it should be emphasised."""

    text: str
    bounds: str = ""
    strong: bool = False


class FigureTable(Struct, frozen=True):
    """A title, the names of the columns, and rows: a name and its cells."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[TableCell, ...]], ...]


def build_methods_table(
    rows: Sequence[ContinuationRow], cases: Sequence[ContinuationCase], kind: str,
    *, every: bool = True,
) -> FigureTable:  # fmt: skip
    """Return every method in one kind of case; with `every` false, only the tool has intervals."""
    of_kind = [r for r in rows if r.kind == kind]
    columns = tuple(c for c in SHOWN_COLUMNS if any(c in r.values for r in of_kind))
    lines = []
    for row in of_kind:
        bounds = every or row.method in (OWN_METHOD, HALF_METHOD)
        cells = (format_figure(row.values.get(c), c, bounds) for c in columns)
        lines.append((row.method, tuple(cells)))
    return FigureTable(f"At {_format_counts(cases, kind)}", columns, tuple(lines))


def list_differing(rows: Iterable[ContinuationRow], kind: str) -> list[ContinuationRow]:
    """Return the rows of methods that the tool is compared with, in one kind of case."""
    skipped = (*GATE_METHODS, OWN_METHOD)
    return [r for r in rows if r.kind == kind and r.own_minus and r.method not in skipped]


def build_differences_table(
    rows: Sequence[ContinuationRow], cases: Sequence[ContinuationCase], kind: str
) -> FigureTable:
    """Return the tool minus each other method, on the same cases, in one kind of case."""
    of_kind = list_differing(rows, kind)
    columns = tuple(c for c in metric.COLUMNS if any(c in r.own_minus for r in of_kind))
    lines = []
    for row in of_kind:
        cells = (format_difference(row.own_minus.get(c)) for c in columns)
        lines.append((f"{NO_FIGURE} {row.method}", tuple(cells)))
    title = f"{benchmark.get_own_method(kind)} minus the others at {_format_counts(cases, kind)}"
    return FigureTable(title, columns, tuple(lines))


def build_repositories_table(cases: Sequence[ContinuationCase], kind: str) -> FigureTable:
    """Return the tool's means in each repository, in one kind of case."""
    of_kind = [c for c in cases if c.kind == kind]
    own = benchmark.get_own_method(kind)
    lines = []
    for name in sorted({c.repository for c in of_kind}):
        inside = [c for c in of_kind if c.repository == name]
        counts = (str(benchmark.count_threads(inside)), str(len(inside)))
        means = (benchmark.compute_mean(inside, own, column) for column in REPOSITORY_COLUMNS)
        texts = (NO_FIGURE if mean is None else f"{mean:.2f}" for mean in means)
        lines.append((shorten_to_line(name, 40) or "?", tuple(map(TableCell, (*counts, *texts)))))
    columns = ("threads", "cases", *REPOSITORY_COLUMNS)
    return FigureTable(f"{own} by repository, at {kind}s", columns, tuple(lines))


def build_tables(
    report: ContinuationReport, rows: Sequence[ContinuationRow], *, every: bool = True
) -> list[FigureTable]:
    """Return all tables of a report: figures, differences, repositories; only kinds that occur."""
    kinds = [k for k in ("cut", "compaction") if any(c.kind == k for c in report.cases)]
    return [
        *(build_methods_table(rows, report.cases, kind, every=every) for kind in kinds),
        *(build_differences_table(rows, report.cases, kind) for kind in kinds),
        *(build_repositories_table(report.cases, kind) for kind in kinds),
    ]


def group_reasons(left_out: Iterable[benchmark.UnmeasuredItem]) -> list[tuple[str, list[str]]]:
    """Return why something was left out, with the names, the most frequent reason first."""
    found: dict[str, list[str]] = {}
    for one in left_out:
        found.setdefault(one.reason, []).append(one.name)
    return sorted(found.items(), key=lambda pair: (-len(pair[1]), pair[0]))


def format_difference(value: Estimate | None) -> TableCell:
    """Return a difference with its sign, emphasised if the interval does not contain 0."""
    if value is None:
        return TableCell(NO_FIGURE)
    bounds = f"{_shorten_number(value.low, '+.2f')}…{_shorten_number(value.high, '+.2f')}"
    return TableCell(f"{value.mean:+.2f}", bounds, strong=value.low > 0 or value.high < 0)


def format_figure(value: Estimate | None, column: str, bounds: bool = True) -> TableCell:
    """Return a mean with its interval; of tokens, the mean alone."""
    if value is None:
        return TableCell(NO_FIGURE)
    if column == "tokens":
        return TableCell(f"{value.mean:,.0f}")
    interval = f"{_shorten_number(value.low)}–{_shorten_number(value.high)}" if bounds else ""
    return TableCell(f"{value.mean:.2f}", interval)


def _shorten_number(value: float, format: str = ".2f") -> str:
    """Return a number without the leading 0, so that intervals stay narrow."""
    text = f"{value:{format}}"
    return text.replace("0.", ".", 1) if abs(value) < 0.995 else text.removesuffix(".00")


def _format_counts(cases: Iterable[ContinuationCase], kind: str) -> str:
    return benchmark.format_counts((c for c in cases if c.kind == kind), kind)


def format_text_table(table: FigureTable) -> str:
    """Return aligned columns, intervals on a line below the figures; `*` marks emphasis."""
    first = max((len(name) + 2 for name, _ in table.rows), default=0)
    widths = [len(column) for column in table.columns]
    lines = [("", list(table.columns))]
    for name, cells in table.rows:
        lines.append((f"  {name}", [f"{c.text}*" if c.strong else c.text for c in cells]))
        if any(c.bounds for c in cells):
            lines.append(("", [c.bounds for c in cells]))
    for _, texts in lines:
        widths = [max(width, len(text)) for width, text in zip(widths, texts, strict=True)]
    aligned = [table.title]
    for name, texts in lines:
        figures = (text.rjust(w + 2) for text, w in zip(texts, widths, strict=True))
        aligned.append(f"{name.ljust(first)}{''.join(figures)}".rstrip())
    return "\n".join(aligned)


def format_markdown_table(table: FigureTable, *, intervals: bool = True) -> str:
    """Return a Markdown table; with intervals, each figure is followed by its bounds."""
    lines = [
        f"| {_escape_markdown(table.title)} | {' | '.join(table.columns)} |",
        f"|---|{'---|' * len(table.columns)}",
    ]
    for name, cells in table.rows:
        bounds = [f" [{c.bounds}]" if intervals and c.bounds else "" for c in cells]
        shown = [f"**{c.text}**" if c.strong else c.text for c in cells]
        texts = map("".join, zip(shown, bounds, strict=True))
        lines.append(f"| {_escape_markdown(name)} | {' | '.join(texts)} |")
    return "\n".join(lines)


def _escape_markdown(text: str) -> str:
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("`", "\\`")


def format_report(
    report: ContinuationReport, rows: Sequence[ContinuationRow], *, markdown: bool, every: bool
) -> str:
    """Return all tables of a report, and what was left out; `every` figure with its interval."""
    figure_tables = build_tables(report, rows, every=every)
    parts = [format_markdown_table(t) if markdown else format_text_table(t) for t in figure_tables]
    if any(cell.strong for t in figure_tables for _, cells in t.rows for cell in cells):
        mark = "Bold" if markdown else "*"
        parts.append(f"{mark}: the 95 % interval of the difference does not contain 0.")
    if left := group_reasons(report.left_out):
        lines = (f"Left out: {len(report.left_out)}", *_format_left_out(left, markdown))
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def _format_left_out(left: Iterable[tuple[str, list[str]]], markdown: bool) -> Iterable[str]:
    for reason, names in left:
        if markdown:
            yield f"- {len(names)}: {_escape_markdown(reason)}"
            continue
        yield f"  {len(names):>5}  {shorten_to_line(reason, 108)}"
        some = ", ".join(shorten_to_line(name, 48) for name in names[:2])
        more = f", and {len(names) - 2} more" if len(names) > 2 else ""
        yield f"         {some}{more}"


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
    compared = (
        _compare_method(kind, name, [p for p in pairs if p[0].kind == kind])
        for kind in ("cut", "compaction")
        for name in ([method] if method else [OWN_METHOD, HALF_METHOD])
    )
    only_a, only_b = len(ours) - len(both), len(theirs) - len(both)
    return RunComparison(a, b, only_a, only_b, tuple(one for one in compared if one))


def _compare_method(
    kind: str, method: str, pairs: Sequence[tuple[ContinuationCase, ContinuationCase]]
) -> MethodComparison | None:
    pairs = [p for p in pairs if method in p[0].methods and method in p[1].methods]
    if not pairs:
        return None
    merged = [_merge_cases(method, one, other) for one, other in pairs]
    a, b = (benchmark.estimate_columns(merged, run, SHOWN_COLUMNS) for run in ("a", "b"))
    minus = benchmark.estimate_differences(merged, "b", "a")
    threads = benchmark.count_threads(merged)
    return MethodComparison(kind, method, len(merged), threads, a, b, minus)


def _merge_cases(method: str, one: ContinuationCase, other: ContinuationCase) -> ContinuationCase:
    """Return a case whose methods are the two runs; figures that only one has count in neither."""
    a, b = one.methods[method], other.methods[method]
    both = {c for c in a if a[c] is not None and b.get(c) is not None}
    methods = {"a": {c: a[c] for c in both}, "b": {c: b[c] for c in both}}
    return msgspec.structs.replace(one, methods=methods)
