"""The benchmark's plots: small SVG drawings whose colours and letters are the page's own.

Needs the extra `eval`. Each drawing is as wide as a phone, so that it is never shrunk.
"""

import io
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tasuki.evals import metric
from tasuki.evals.continuation import CURVED, HALF, OWN, Case, Report, Row, mean
from tasuki.evals.report import GATES, OF_REPOSITORY
from tasuki.evals.statistics import Estimate
from tasuki.plain import one_line

WIDTH = 3.5
"""Inches of 72 units: the drawing's own size, at which its letters are as large as the page's."""
INK, PALE = "#010203", "#010204"
"""Stand for the page's colours of letters and of lines."""
SERIES = {OWN: "#010211", HALF: "#010212", "random": "#010213", "last": "#010214",
          "index": "#010215", "index+users+last": "#010216", "native summary": "#010217"}  # fmt: skip
"""Stand for the colours of methods."""
VARIABLES = {INK: "--ink", PALE: "--pale", **{c: f"--s{n}" for n, c in enumerate(SERIES.values())}}
CURVE_COLUMNS = ("edit", "file", "cmd", "id")
MAX_REPOSITORIES = 40
_PLAIN: Any = {
    "svg.fonttype": "none", "svg.hashsalt": "tasuki", "text.parse_math": False, "font.size": 9,
    "axes.edgecolor": PALE, "axes.labelcolor": INK, "axes.titlecolor": INK, "axes.titlesize": 10,
    "axes.titlelocation": "left", "axes.titleweight": "bold", "axes.spines.top": False, "axes.spines.right": False,
    "axes.grid": True, "axes.axisbelow": True, "grid.color": PALE, "grid.linewidth": 0.5,
    "xtick.color": PALE, "ytick.color": PALE, "xtick.labelcolor": INK, "ytick.labelcolor": INK,
    "text.color": INK, "lines.linewidth": 1.6, "lines.markersize": 4,
}  # fmt: skip


class Plot:
    """A drawing and what it shows, for those who cannot see it."""

    def __init__(self, svg: str, about: str) -> None:
        self.svg, self.about = svg, about


def curves(report: Report) -> Iterator[Plot]:
    """Recall against budget, a drawing a target; none if only one budget was measured."""
    cases = [c for c in report.cases if c.kind == "cut"]
    budgets = sorted(
        {int(m.rpartition("@")[2]) for c in cases for m in c.methods if m.startswith(f"{OWN}@")}
    )
    if not budgets:
        return
    for column in CURVE_COLUMNS:
        with _drawing(2.4) as (axes, done):
            for method in (OWN, *CURVED):
                points = _points(cases, method, column, budgets, report.budget)
                axes.plot(*zip(*points, strict=True) if points else ((), ()), marker="o", color=SERIES[method])  # fmt: skip
            axes.set(title=column, xlabel="tokens", ylim=(0, 1.03), xlim=(0, None))
            axes.set_yticks((0, 0.25, 0.5, 0.75, 1), ("0", ".25", ".5", ".75", "1"))
        yield Plot(done[0], f"{column} against budget")


def _points(
    cases: Sequence[Case], method: str, column: str, budgets: Iterable[int], usual: int
) -> list[tuple[float, float]]:
    """Tokens that were really used, and the share held."""
    found = []
    for budget in sorted({*budgets, usual}):
        name = method if budget == usual else f"{method}@{budget}"
        size, held = mean(cases, name, "tokens"), mean(cases, name, column)
        if size is not None and held is not None:
            found.append((size, held))
    return found


def targets(rows: Sequence[Row], kind: str) -> Iterator[Plot]:
    """Every method's figure with its interval, a drawing a target."""
    of_kind = [r for r in rows if r.kind == kind and r.method not in GATES]
    for column in metric.COLUMNS:
        shown = [(r.method, r.values[column]) for r in of_kind if column in r.values]
        if column == "id1":
            shown += [
                (f"{r.method}, random entries", r.values["id1 random"])
                for r in of_kind
                if "id1 random" in r.values
            ]
        if not shown:
            continue
        with _drawing(0.75 + 0.24 * len(shown)) as (axes, done):
            for at, (method, value) in enumerate(shown):
                color = SERIES.get(method, SERIES["random"])
                axes.barh(at, value.mean, height=0.62, color=color, alpha=0.55, linewidth=0)
                _interval(axes, at, value, INK)
            _rows(axes, [method for method, _ in shown])
            _shares(axes, column)
        yield Plot(done[0], f"{column} of every method at {kind}s")


def differences(rows: Sequence[Row], kind: str) -> Iterator[Plot]:
    """The tool minus each other method, a drawing a method."""
    own = HALF if kind == "compaction" else OWN
    of_kind = [r for r in rows if r.kind == kind and r.own_minus and r.method not in (*GATES, OWN)]
    bounds = [b for r in of_kind for e in r.own_minus.values() for b in (e.low, e.high)]
    reach = max((abs(b) for b in bounds), default=0.1) * 1.08 or 0.1
    for row in of_kind:
        with _drawing(0.75 + 0.24 * len(row.own_minus)) as (axes, done):
            axes.axvline(0, color=INK, linewidth=0.9)
            for at, value in enumerate(row.own_minus.values()):
                sure = value.low > 0 or value.high < 0
                color = SERIES[own] if sure else INK
                _interval(axes, at, value, color)
                axes.plot(value.mean, at, marker="o", color=color, markerfacecolor=color if sure else "none")  # fmt: skip
            _rows(axes, list(row.own_minus))
            axes.set(title=f"{own} – {row.method}", xlim=(-reach, reach))
        yield Plot(done[0], f"{own} minus {row.method} at {kind}s")


def repositories(report: Report) -> Iterator[Plot]:
    """The tool's mean in each repository at cuts, a drawing a target."""
    cases = [c for c in report.cases if c.kind == "cut"]
    names = sorted({c.repository for c in cases})[:MAX_REPOSITORIES]
    inside: Mapping[str, Sequence[Case]] = {
        n: [c for c in cases if c.repository == n] for n in names
    }
    labels = [f"{_ascii(n)} ({len({c.thread for c in inside[n]})})" for n in names]
    for column in OF_REPOSITORY if len(names) > 1 else ():
        with _drawing(0.75 + 0.21 * len(names)) as (axes, done):
            for at, name in enumerate(names):
                value = mean(inside[name], OWN, column)
                if value is not None:
                    axes.plot((0, value), (at, at), color=PALE, linewidth=1)
                    axes.plot(value, at, marker="o", color=SERIES[OWN])
            _rows(axes, labels)
            _shares(axes, column)
        yield Plot(done[0], f"{column} by repository")


def _ascii(name: str) -> str:
    """A name whose letters every font has, so that the drawing is the same everywhere."""
    return one_line(name.encode("ascii", "replace").decode(), 26) or "?"


def _interval(axes: Axes, at: int, value: Estimate, color: str) -> None:
    axes.plot((value.low, value.high), (at, at), color=color, linewidth=1.1)


def _shares(axes: Axes, title: str) -> None:
    axes.set(title=title, xlim=(0, 1.03))
    axes.set_xticks((0, 0.25, 0.5, 0.75, 1), ("0", ".25", ".5", ".75", "1"))


def _rows(axes: Axes, names: Sequence[str]) -> None:
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.grid(visible=False, axis="y")
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)


@contextmanager
def _drawing(height: float) -> Iterator[tuple[Axes, list[str]]]:
    """Axes to draw on, and a list that holds the SVG afterwards. The user's own styles play no part."""
    with matplotlib.rc_context(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # A letter that the font lacks: the page's font has it.
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_PLAIN)
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        done: list[str] = []
        yield figure.subplots(), done
        text = io.StringIO()
        figure.savefig(text, format="svg", transparent=True, metadata={"Date": None, "Creator": None})  # fmt: skip
        done.append(_inline(text.getvalue()))


_ADDRESSES = re.compile(r' xmlns(?::\w+)?="[^"]*"')
_METADATA = re.compile(r"<metadata>.*?</metadata>\s*", re.DOTALL)
_SIZE = re.compile(r' (?:width|height)="[\d.]+pt"')
_FONT = re.compile(r"font: ([\d.]+)px [^;\"]+")


def _inline(svg: str) -> str:
    """A drawing as a part of a page: no address, no colour or font of its own."""
    svg = _METADATA.sub("", svg[svg.index("<svg") :])
    head, end, rest = svg.partition(">")
    svg = _SIZE.sub("", _ADDRESSES.sub("", head)) + end + rest
    svg = _FONT.sub(r"font-size: \1px", svg).replace("xlink:href", "href")
    for color, variable in VARIABLES.items():
        svg = svg.replace(color, f"var({variable})")
    return svg.strip()
