"""The benchmark's figures as one page that needs nothing else: plots and tables, light and dark."""

import io
import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from html import escape
from importlib.resources import files
from string import Template
from typing import Any, NamedTuple

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tasuki.config.installation import build_install_line
from tasuki.errors import ExtraMissing
from tasuki.text_safety import shorten_to_line
from tasuki_evals.continuation import benchmark, metric
from tasuki_evals.continuation import report as reports
from tasuki_evals.continuation.benchmark import (
    CURVE_BASELINES,
    HALF_METHOD,
    OWN_METHOD,
    ContinuationCase,
    ContinuationReport,
)
from tasuki_evals.continuation.report import FigureTable, TableCell
from tasuki_evals.statistics import Estimate

ContinuationRow = benchmark.ContinuationRow
WIDTH = 3.5
"""Inches of 72 units: the drawing's own size, at which its letters are as large as the page's."""
INK_COLOR, PALE_COLOR = "#010203", "#010204"
"""Placeholders for the page's colours of letters and of lines."""
SERIES_COLORS = {OWN_METHOD: "#010211", HALF_METHOD: "#010212", "random": "#010213", "last": "#010214",
          "index": "#010215", "index+users+last": "#010216", "native summary": "#010217"}  # fmt: skip
"""Placeholders for the colours of methods."""
VARIABLES = {
    INK_COLOR: "--ink",
    PALE_COLOR: "--pale",
    **{c: f"--s{n}" for n, c in enumerate(SERIES_COLORS.values())},
}
CURVE_COLUMNS = ("edit", "file", "cmd", "id")
MAX_REPOSITORIES = 40
_PLOT_STYLE: Any = {
    "svg.fonttype": "none", "svg.hashsalt": "tasuki", "text.parse_math": False, "font.size": 9,
    "axes.edgecolor": PALE_COLOR, "axes.labelcolor": INK_COLOR, "axes.titlecolor": INK_COLOR, "axes.titlesize": 10,
    "axes.titlelocation": "left", "axes.titleweight": "bold", "axes.spines.top": False, "axes.spines.right": False,
    "axes.grid": True, "axes.axisbelow": True, "grid.color": PALE_COLOR, "grid.linewidth": 0.5,
    "xtick.color": PALE_COLOR, "ytick.color": PALE_COLOR, "xtick.labelcolor": INK_COLOR, "ytick.labelcolor": INK_COLOR,
    "text.color": INK_COLOR, "lines.linewidth": 1.6, "lines.markersize": 4,
}  # fmt: skip


class SvgPlot(NamedTuple):
    """A drawing and a description of it, for people who cannot see it."""

    svg: str
    about: str


def plot_curves(report: ContinuationReport) -> Iterator[SvgPlot]:
    """Yield recall against budget, one drawing per target; none if only one budget was measured."""
    cases = [c for c in report.cases if c.kind == "cut"]
    names = [m.partition("@") for c in cases for m in c.methods]
    budgets = {int(budget) for method, mark, budget in names if mark and method == OWN_METHOD}
    if not budgets:
        return
    for column in CURVE_COLUMNS:
        with _open_drawing(2.4) as (axes, done):
            for method in (OWN_METHOD, *CURVE_BASELINES):
                points = _collect_points(cases, method, column, budgets, report.budget)
                line = zip(*points, strict=True) if points else ((), ())
                axes.plot(*line, marker="o", color=SERIES_COLORS[method])
            axes.set(title=column, xlabel="tokens", ylim=(0, 1.03), xlim=(0, None))
            axes.set_yticks((0, 0.25, 0.5, 0.75, 1), ("0", ".25", ".5", ".75", "1"))
        yield SvgPlot(done[0], f"{column} against budget")


def _collect_points(
    cases: Sequence[ContinuationCase], method: str, column: str, budgets: Iterable[int],
    usual_budget: int,
) -> list[tuple[float, float]]:  # fmt: skip
    """Return the tokens that were really used, and the share contained."""
    found = []
    for budget in sorted({*budgets, usual_budget}):
        name = method if budget == usual_budget else f"{method}@{budget}"
        size, held = (
            benchmark.compute_mean(cases, name, "tokens"),
            benchmark.compute_mean(cases, name, column),
        )
        if size is not None and held is not None:
            found.append((size, held))
    return found


def plot_targets(rows: Sequence[ContinuationRow], kind: str) -> Iterator[SvgPlot]:
    """Yield every method's figure with its interval, one drawing per target."""
    of_kind = [r for r in rows if r.kind == kind and r.method not in reports.GATE_METHODS]
    for column in metric.COLUMNS:
        shown = [(r.method, r.values[column]) for r in of_kind if column in r.values]
        if column == "id1":
            drawn = [(r.method, r.values.get("id1 random")) for r in of_kind]
            shown += [(f"{method}, random entries", value) for method, value in drawn if value]
        if not shown:
            continue
        with _open_drawing(0.75 + 0.24 * len(shown)) as (axes, done):
            for at, (method, value) in enumerate(shown):
                color = SERIES_COLORS.get(method, SERIES_COLORS["random"])
                axes.barh(at, value.mean, height=0.62, color=color, alpha=0.55, linewidth=0)
                _draw_interval(axes, at, value, INK_COLOR)
            _set_row_labels(axes, [method for method, _ in shown])
            _set_share_axis(axes, column)
        yield SvgPlot(done[0], f"{column} of every method at {kind}s")


def plot_differences(rows: Sequence[ContinuationRow], kind: str) -> Iterator[SvgPlot]:
    """Yield the tool minus each other method, one drawing per method."""
    own = benchmark.get_own_method(kind)
    of_kind = reports.list_differing(rows, kind)
    bounds = [b for r in of_kind for e in r.own_minus.values() for b in (e.low, e.high)]
    reach = max((abs(b) for b in bounds), default=0.1) * 1.08 or 0.1
    for row in of_kind:
        with _open_drawing(0.75 + 0.24 * len(row.own_minus)) as (axes, done):
            axes.axvline(0, color=INK_COLOR, linewidth=0.9)
            for at, value in enumerate(row.own_minus.values()):
                sure = value.low > 0 or value.high < 0
                color = SERIES_COLORS[own] if sure else INK_COLOR
                _draw_interval(axes, at, value, color)
                face = color if sure else "none"
                axes.plot(value.mean, at, marker="o", color=color, markerfacecolor=face)
            _set_row_labels(axes, list(row.own_minus))
            axes.set(title=f"{own} – {row.method}", xlim=(-reach, reach))
        yield SvgPlot(done[0], f"{own} minus {row.method} at {kind}s")


def plot_repositories(report: ContinuationReport) -> Iterator[SvgPlot]:
    """Yield the tool's mean in each repository at cuts, one drawing per target."""
    cases = [c for c in report.cases if c.kind == "cut"]
    names = sorted({c.repository for c in cases})[:MAX_REPOSITORIES]
    inside = {name: [c for c in cases if c.repository == name] for name in names}
    labels = [f"{_make_ascii(n)} ({len({c.thread for c in inside[n]})})" for n in names]
    for column in reports.REPOSITORY_COLUMNS if len(names) > 1 else ():
        with _open_drawing(0.75 + 0.21 * len(names)) as (axes, done):
            for at, name in enumerate(names):
                value = benchmark.compute_mean(inside[name], OWN_METHOD, column)
                if value is not None:
                    axes.plot((0, value), (at, at), color=PALE_COLOR, linewidth=1)
                    axes.plot(value, at, marker="o", color=SERIES_COLORS[OWN_METHOD])
            _set_row_labels(axes, labels)
            _set_share_axis(axes, column)
        yield SvgPlot(done[0], f"{column} by repository")


def _make_ascii(name: str) -> str:
    """Return a name in letters that every font has, so the drawing is the same everywhere."""
    return shorten_to_line(name.encode("ascii", "replace").decode(), 26) or "?"


def _draw_interval(axes: Axes, row: int, value: Estimate, color: str) -> None:
    axes.plot((value.low, value.high), (row, row), color=color, linewidth=1.1)


def _set_share_axis(axes: Axes, title: str) -> None:
    axes.set(title=title, xlim=(0, 1.03))
    axes.set_xticks((0, 0.25, 0.5, 0.75, 1), ("0", ".25", ".5", ".75", "1"))


def _set_row_labels(axes: Axes, names: Sequence[str]) -> None:
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.grid(visible=False, axis="y")
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)


@contextmanager
def _open_drawing(height: float) -> Iterator[tuple[Axes, list[str]]]:
    """Yield axes to draw on without the user's own styles, and a list that gets the SVG."""
    with matplotlib.rc_context(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # A letter that the font lacks is in the page's font.
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_PLOT_STYLE)
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        svg_texts: list[str] = []
        yield figure.subplots(), svg_texts
        text = io.StringIO()
        unnamed = {"Date": None, "Creator": None}
        figure.savefig(text, format="svg", transparent=True, metadata=unnamed)
        svg_texts.append(_inline_svg(text.getvalue()))


_ADDRESSES = re.compile(r' xmlns(?::\w+)?="[^"]*"')
_METADATA = re.compile(r"<metadata>.*?</metadata>\s*", re.DOTALL)
_SIZE = re.compile(r' (?:width|height)="[\d.]+pt"')
_FONT = re.compile(r"font: ([\d.]+)px [^;\"]+")


def _inline_svg(svg: str) -> str:
    """Return a drawing as a part of a page: without its own addresses, colours or fonts."""
    svg = _METADATA.sub("", svg[svg.index("<svg") :])
    head, end, rest = svg.partition(">")
    svg = _SIZE.sub("", _ADDRESSES.sub("", head)) + end + rest
    svg = _FONT.sub(r"font-size: \1px", svg).replace("xlink:href", "href")
    for color, variable in VARIABLES.items():
        svg = svg.replace(color, f"var({variable})")
    return svg.strip()


TITLE = "Continuation benchmark"
EXTRA_NEEDED = "--html needs the extra `eval`. Install it: "


def check_plots() -> None:
    """Raise ExtraMissing if plots cannot be drawn, before minutes are spent on measuring."""
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError as error:
        raise ExtraMissing(f"{EXTRA_NEEDED}{build_install_line('eval')}") from error


def render_page(report: ContinuationReport, rows: Sequence[ContinuationRow]) -> str:
    """Return the page. Raises ExtraMissing if plots cannot be drawn."""
    check_plots()
    template = files("tasuki_evals.continuation").joinpath("page.html").read_text(encoding="utf-8")
    by = ", ".join(sorted({case.by for case in report.cases})) or report.author
    about = (
        f"{benchmark.format_counts(report.cases, 'case')}, {report.budget:,} tokens at a cut, written by {by}, tasuki {report.tasuki}, "
        f"metric {report.metric}"
    )
    return Template(template).substitute(
        title=TITLE, about=_escape_text(about), plots="\n".join(_render_plots(report, rows)),
        tables="\n".join(map(_render_table, reports.build_tables(report, rows))),
        left_out=_render_left_out(report),
    )  # fmt: skip


def _render_plots(report: ContinuationReport, rows: Sequence[ContinuationRow]) -> Iterable[str]:
    yield _render_section(
        "Recall against budget",
        "Share of what came after that a brief holds, by its real number of tokens.",
        plot_curves(report), (OWN_METHOD, *CURVE_BASELINES),
    )  # fmt: skip
    for kind in (k for k in ("cut", "compaction") if any(r.kind == k for r in rows)):
        about = "Means over threads with 95 % intervals. Read the figures together."
        yield _render_section(f"Each target at {kind}s", about, plot_targets(rows, kind))
        about = (
            f"{benchmark.get_own_method(kind)} minus another method on the same cases, with 95 % intervals. "
            "Filled: the interval does not contain 0. Right of the line, the tool is better."
        )
        yield _render_section(f"Differences at {kind}s", about, plot_differences(rows, kind))
    about = "The tool at cuts; in brackets, the number of threads."
    yield _render_section("By repository", about, plot_repositories(report))


def _render_section(
    title: str, about: str, plots: Iterable[SvgPlot], legend: Sequence[str] = ()
) -> str:
    panels = [
        f'<figure role="img" aria-label="{_escape_text(plot.about)}">{plot.svg}</figure>'
        for plot in plots
    ]
    if not panels:
        return ""
    keys = "".join(
        f'<li><span style="background:var({VARIABLES[SERIES_COLORS[m]]})"></span>{_escape_text(m)}</li>'
        for m in legend
    )
    keys = f'<ul class="legend">{keys}</ul>' if keys else ""
    inside = f'{keys}<div class="plots">{"".join(panels)}</div>'
    return f"<section><h2>{_escape_text(title)}</h2><p>{_escape_text(about)}</p>{inside}</section>"


def _render_table(table: FigureTable) -> str:
    head = "".join(f"<th>{_escape_text(column)}</th>" for column in table.columns)
    body = "".join(
        f"<tr><th>{_escape_text(name)}</th>{''.join(map(_render_cell, cells))}</tr>"
        for name, cells in table.rows
    )
    return (
        f'<section><h2>{_escape_text(table.title)}</h2><div class="wide"><table><thead><tr><th></th>{head}'
        f"</tr></thead><tbody>{body}</tbody></table></div></section>"
    )


def _render_cell(cell: TableCell) -> str:
    text = f"<b>{_escape_text(cell.text)}</b>" if cell.strong else _escape_text(cell.text)
    bounds = f"<small>{_escape_text(cell.bounds)}</small>" if cell.bounds else ""
    return f"<td>{text}{bounds}</td>"


def _render_left_out(report: ContinuationReport) -> str:
    found = reports.group_reasons(report.left_out)
    if not found:
        return ""
    lines = "".join(f"<li>{len(names)}: {_escape_text(reason)}</li>" for reason, names in found)
    return f"<section><h2>Left out: {len(report.left_out)}</h2><ul>{lines}</ul></section>"


def _escape_text(text: str) -> str:
    """Return one line without control characters or marks of HTML."""
    return escape(shorten_to_line(text, 300))
