"""The benchmark's figures as tables: for a terminal, as Markdown, and for the page."""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from tasuki.evals import metric
from tasuki.evals.continuation import (
    HALF,
    OWN,
    SHOWN,
    Case,
    LeftOut,
    Report,
    Row,
    mean,
    threads,
)
from tasuki.evals.statistics import Estimate
from tasuki.plain import one_line

GATES = ("whole", "empty")
"""Methods that show whether the metric works; nobody wants to beat them."""
OF_REPOSITORY = ("edit", "file", "cmd", "id", "pfile")
NONE = "–"


class Cell(Struct, frozen=True):
    """A figure, its interval if it has one, and whether it should stand out."""

    text: str
    bounds: str = ""
    strong: bool = False


class Table(Struct, frozen=True):
    """A title, what the columns are called, and rows: a name and its cells."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Cell, ...]], ...]


def methods(rows: Sequence[Row], cases: Sequence[Case], kind: str, *, every: bool = True) -> Table:
    """Every method in one kind of case; with `every` false, only the tool has intervals."""
    of_kind = [r for r in rows if r.kind == kind]
    columns = tuple(c for c in SHOWN if any(c in r.values for r in of_kind))
    lines = []
    for row in of_kind:
        bounds = every or row.method in (OWN, HALF)
        lines.append(
            (row.method, tuple(figure_cell(row.values.get(c), c, bounds) for c in columns))
        )
    return Table(f"At {_counted(cases, kind)}", columns, tuple(lines))


def differences(rows: Sequence[Row], cases: Sequence[Case], kind: str) -> Table:
    """The tool minus each other method, on the same cases, in one kind of case."""
    of_kind = [r for r in rows if r.kind == kind and r.own_minus and r.method not in (*GATES, OWN)]
    columns = tuple(c for c in metric.COLUMNS if any(c in r.own_minus for r in of_kind))
    lines = [
        (f"{NONE} {row.method}", tuple(difference_cell(row.own_minus.get(c)) for c in columns))
        for row in of_kind
    ]
    own = HALF if kind == "compaction" else OWN
    return Table(f"{own} minus the others at {_counted(cases, kind)}", columns, tuple(lines))


def repositories(cases: Sequence[Case], kind: str) -> Table:
    """The tool's means in each repository, in one kind of case."""
    of_kind = [c for c in cases if c.kind == kind]
    own = HALF if kind == "compaction" else OWN
    lines = []
    for name in sorted({c.repository for c in of_kind}):
        inside = [c for c in of_kind if c.repository == name]
        counts = (Cell(str(threads(inside))), Cell(str(len(inside))))
        means = tuple(_mean_cell(mean(inside, own, c)) for c in OF_REPOSITORY)
        lines.append((one_line(name, 40) or "?", (*counts, *means)))
    return Table(
        f"{own} by repository, at {kind}s", ("threads", "cases", *OF_REPOSITORY), tuple(lines)
    )


def tables(report: Report, rows: Sequence[Row], *, every: bool = True) -> list[Table]:
    """All tables of a report: figures, differences, repositories; only kinds that occur."""
    kinds = [k for k in ("cut", "compaction") if any(c.kind == k for c in report.cases)]
    return [
        *(methods(rows, report.cases, kind, every=every) for kind in kinds),
        *(differences(rows, report.cases, kind) for kind in kinds),
        *(repositories(report.cases, kind) for kind in kinds),
    ]


def reasons(left_out: Iterable[LeftOut]) -> list[tuple[str, list[str]]]:
    """Why something was left out, with the names, the most frequent reason first."""
    found: dict[str, list[str]] = {}
    for one in left_out:
        found.setdefault(one.reason, []).append(one.name)
    return sorted(found.items(), key=lambda pair: (-len(pair[1]), pair[0]))


def difference_cell(value: Estimate | None) -> Cell:
    """A difference with its sign; it stands out where the interval does not hold 0."""
    if value is None:
        return Cell(NONE)
    return Cell(
        f"{value.mean:+.2f}",
        f"{_short(value.low, '+.2f')}…{_short(value.high, '+.2f')}",
        strong=value.low > 0 or value.high < 0,
    )


def figure_cell(value: Estimate | None, column: str, bounds: bool = True) -> Cell:
    """A mean with its interval; of tokens, the mean alone."""
    if value is None:
        return Cell(NONE)
    if column == "tokens":
        return Cell(f"{value.mean:,.0f}")
    return Cell(f"{value.mean:.2f}", f"{_short(value.low)}–{_short(value.high)}" if bounds else "")


def _mean_cell(value: float | None) -> Cell:
    return Cell(NONE if value is None else f"{value:.2f}")


def _short(value: float, format: str = ".2f") -> str:
    """Without the 0 in front, so that intervals stay narrow."""
    text = f"{value:{format}}"
    return text.replace("0.", ".", 1) if abs(value) < 0.995 else text.removesuffix(".00")


def _counted(cases: Iterable[Case], kind: str) -> str:
    of_kind = [c for c in cases if c.kind == kind]
    return f"{amount(len(of_kind), kind)} of {amount(threads(of_kind), 'thread')}"


def amount(count: int, what: str) -> str:
    """`1 thread`, `2 threads`."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


# -- as text ---------------------------------------------------------------------------


def as_text(table: Table) -> str:
    """Aligned columns; intervals in a line of their own below the figures; `*` stands out."""
    first = max((len(name) + 2 for name, _ in table.rows), default=0)
    widths = [_width(table, n) for n in range(len(table.columns))]
    head = "".join(c.rjust(w) for c, w in zip(table.columns, widths, strict=True))
    lines = [table.title, f"{'':{first}}{head}"]
    for name, cells in table.rows:
        figures = "".join(_starred(c).rjust(w) for c, w in zip(cells, widths, strict=True))
        lines.append(f"  {name}".ljust(first) + figures)
        if any(c.bounds for c in cells):
            below = "".join(c.bounds.rjust(w) for c, w in zip(cells, widths, strict=True))
            lines.append(" " * first + below)
    return "\n".join(line.rstrip() for line in lines)


def _width(table: Table, column: int) -> int:
    cells = [cells[column] for _, cells in table.rows]
    inside = [len(table.columns[column])]
    inside += [n for c in cells for n in (len(_starred(c)), len(c.bounds))]
    return max(inside) + 2


def _starred(cell: Cell) -> str:
    return f"{cell.text}*" if cell.strong else cell.text


# -- as Markdown -----------------------------------------------------------------------


def as_markdown(table: Table, *, intervals: bool = True) -> str:
    """A Markdown table; with intervals, each figure is followed by its bounds."""
    lines = [
        f"| {_escaped(table.title)} | {' | '.join(table.columns)} |",
        f"|---|{'---|' * len(table.columns)}",
    ]
    for name, cells in table.rows:
        shown = [_bold(c) + (f" [{c.bounds}]" if intervals and c.bounds else "") for c in cells]
        lines.append(f"| {_escaped(name)} | {' | '.join(shown)} |")
    return "\n".join(lines)


def _bold(cell: Cell) -> str:
    return f"**{cell.text}**" if cell.strong else cell.text


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("`", "\\`")


def table(rows: Iterable[Row], *, intervals: bool = False) -> str:
    """The methods in every kind of case, as Markdown."""
    rows = list(rows)
    parts = []
    for kind in dict.fromkeys(r.kind for r in rows):
        made = methods(rows, (), kind)
        parts.append(
            as_markdown(Table(f"at {kind}s", made.columns, made.rows), intervals=intervals)
        )
    return "\n\n".join(parts)


def for_people(report: Report, rows: Sequence[Row], *, markdown: bool, every: bool) -> str:
    """All tables of a report, and what was left out; with `every`, each figure has its interval."""
    made = tables(report, rows, every=every)
    parts = [as_markdown(t) if markdown else as_text(t) for t in made]
    if any(cell.strong for t in made for _, cells in t.rows for cell in cells):
        mark = "Bold" if markdown else "*"
        parts.append(f"{mark}: the 95 % interval of the difference does not hold 0.")
    if left := reasons(report.left_out):
        parts.append("\n".join((f"Left out: {len(report.left_out)}", *_left_lines(left, markdown))))
    return "\n\n".join(parts)


def _left_lines(left: Iterable[tuple[str, list[str]]], markdown: bool) -> Iterable[str]:
    for reason, names in left:
        if markdown:
            yield f"- {len(names)}: {_escaped(reason)}"
            continue
        yield f"  {len(names):>5}  {one_line(reason, 108)}"
        some = ", ".join(one_line(name, 48) for name in names[:2])
        more = f", and {len(names) - 2} more" if len(names) > 2 else ""
        yield f"         {some}{more}"
