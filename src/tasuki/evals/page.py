"""The benchmark's figures as one page that needs nothing else: plots and tables, light and dark."""

from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from string import Template

from tasuki.errors import ExtraMissing
from tasuki.evals.continuation import CURVED, HALF, OWN, Report, Row, threads
from tasuki.evals.report import Cell, Table, amount, reasons, tables
from tasuki.extras import install_line
from tasuki.plain import one_line

TITLE = "Continuation benchmark"
NEEDED = "--html needs the extra `eval`. Install it: "
LEGENDS = ((OWN, "random", "last", "index+users+last"),)


def check() -> None:
    """Raises ExtraMissing if plots cannot be drawn, before minutes are spent on measuring."""
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError as error:
        raise ExtraMissing(f"{NEEDED}{install_line('eval')}") from error


def render(report: Report, rows: Sequence[Row]) -> str:
    """The page. Raises ExtraMissing if plots cannot be drawn."""
    check()
    template = files("tasuki.evals").joinpath("page.html").read_text(encoding="utf-8")
    by = ", ".join(sorted({case.by for case in report.cases})) or report.author
    about = (
        f"{amount(len(report.cases), 'case')} of {amount(threads(report.cases), 'thread')}, "
        f"{report.budget:,} tokens at a cut, written by {by}, tasuki {report.tasuki}, "
        f"metric {report.metric}"
    )
    return Template(template).substitute(
        title=TITLE,
        about=_text(about),
        plots="\n".join(_plots(report, rows)),
        tables="\n".join(_table(table) for table in tables(report, rows)),
        left_out=_left_out(report),
    )


def _plots(report: Report, rows: Sequence[Row]) -> Iterable[str]:
    from tasuki.evals import plots

    yield _section(
        "Recall against budget",
        "Share of what came after that a brief holds, by the tokens it really has.",
        plots.curves(report),
        (OWN, *CURVED),
    )
    kinds = [k for k in ("cut", "compaction") if any(r.kind == k for r in rows)]
    for kind in kinds:
        own = HALF if kind == "compaction" else OWN
        yield _section(
            f"Each target at {kind}s",
            "Means over threads with 95 % intervals. The figures count only together.",
            plots.targets(rows, kind),
        )
        yield _section(
            f"Differences at {kind}s",
            f"{own} minus another method on the same cases, with 95 % intervals. Filled: the interval "
            "does not hold 0. Right of the line, the tool is better.",
            plots.differences(rows, kind),
        )
    yield _section(
        "By repository", "The tool at cuts; in brackets, the number of threads.", plots.repositories(report)
    )  # fmt: skip


def _section(title: str, about: str, drawn: Iterable[object], legend: Sequence[str] = ()) -> str:
    from tasuki.evals.plots import SERIES, VARIABLES, Plot

    panels = [
        f'<figure role="img" aria-label="{_text(plot.about)}">{plot.svg}</figure>'
        for plot in drawn
        if isinstance(plot, Plot)
    ]
    if not panels:
        return ""
    keys = "".join(
        f'<li><span style="background:var({VARIABLES[SERIES[m]]})"></span>{_text(m)}</li>' for m in legend
    )  # fmt: skip
    keys = f'<ul class="legend">{keys}</ul>' if keys else ""
    inside = f'{keys}<div class="plots">{"".join(panels)}</div>'
    return f"<section><h2>{_text(title)}</h2><p>{_text(about)}</p>{inside}</section>"


def _table(table: Table) -> str:
    head = "".join(f"<th>{_text(column)}</th>" for column in table.columns)
    body = "".join(
        f"<tr><th>{_text(name)}</th>{''.join(map(_cell, cells))}</tr>" for name, cells in table.rows
    )
    return (
        f'<section><h2>{_text(table.title)}</h2><div class="wide"><table><thead><tr><th></th>{head}'
        f"</tr></thead><tbody>{body}</tbody></table></div></section>"
    )


def _cell(cell: Cell) -> str:
    text = f"<b>{_text(cell.text)}</b>" if cell.strong else _text(cell.text)
    return f"<td>{text}<small>{_text(cell.bounds)}</small></td>" if cell.bounds else f"<td>{text}</td>"  # fmt: skip


def _left_out(report: Report) -> str:
    found = reasons(report.left_out)
    if not found:
        return ""
    lines = "".join(f"<li>{len(names)}: {_text(reason)}</li>" for reason, names in found)
    return f"<section><h2>Left out: {len(report.left_out)}</h2><ul>{lines}</ul></section>"


def _text(text: str) -> str:
    """One line without control characters or marks of HTML."""
    return escape(one_line(text, 300))
