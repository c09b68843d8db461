"""`tasuki eval compare`: two saved runs of the continuation benchmark, and the rule for releases."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tasuki.cli.printing import print_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tasuki.evals.compare import Compared, Comparison
    from tasuki.evals.continuation import Report
    from tasuki.evals.report import Table

EPILOG = """
\b
Examples:
  tasuki eval compare released.json new.json
  tasuki eval compare before.json after.json --method "index+users+last"
"""


@click.command(epilog=EPILOG)
@click.argument("a", metavar="A.json", type=click.Path(path_type=Path))
@click.argument("b", metavar="B.json", type=click.Path(path_type=Path))
@click.option("--method", default="", metavar="NAME", help="Another method than the tool.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
def compare(a: Path, b: Path, method: str, as_json: bool) -> int:
    """Compare two saved runs of the continuation benchmark, case by case.

    A and B are what `tasuki eval continuation --save` wrote; the differences are B minus A. Exits
    with 1 where B lost too much: on 60 threads or more, with 95 % confidence perhaps more than 0.03
    of `id` or 0.02 of `edit`. On fewer threads a person has to judge.
    """
    from tasuki.evals import compare as comparing

    found = comparing.compare(comparing.read(a), comparing.read(b), method)
    if as_json:
        print_json(_document(found))
    else:
        for line in _lines(found, a, b):
            click.echo(line)
    return int(found.failed)


def _lines(found: "Comparison", a: Path, b: Path) -> "Iterator[str]":
    from tasuki.evals.report import amount, as_text

    yield f"A  {_about(found.a, a)}"
    yield f"B  {_about(found.b, b)}"
    if found.only_a or found.only_b:
        yield f"Left out: {amount(found.only_a, 'case')} that only A has, {found.only_b} that only B has"  # fmt: skip
    for one in found.compared:
        yield f"\n{as_text(_table(one))}"
    yield ""
    yield from _verdict(found)


def _about(report: "Report", path: Path) -> str:
    from tasuki.evals.continuation import threads
    from tasuki.evals.report import amount
    from tasuki.plain import one_line

    by = ", ".join(sorted({case.by for case in report.cases})) or report.author
    return (
        f"{one_line(path.name, 40)}: tasuki {one_line(report.tasuki, 20)}, {one_line(by, 60)}, {report.budget:,} tokens, "
        f"{amount(len(report.cases), 'case')} of {amount(threads(report.cases), 'thread')}"
    )  # fmt: skip


def _table(one: "Compared") -> "Table":
    from tasuki.evals.continuation import SHOWN
    from tasuki.evals.report import Table, amount, difference_cell, figure_cell

    columns = tuple(c for c in SHOWN if c in one.a)
    rows = (
        ("A", tuple(figure_cell(one.a.get(c), c) for c in columns)),
        ("B", tuple(figure_cell(one.b.get(c), c) for c in columns)),
        ("B – A", tuple(difference_cell(one.minus.get(c)) for c in columns)),
    )
    counted = f"{amount(one.cases, one.kind)} of {amount(one.threads, 'thread')}"
    return Table(f"{one.method} at {counted}", columns, rows)


def _verdict(found: "Comparison") -> "Iterator[str]":
    from tasuki.evals.compare import MOST_LOST
    from tasuki.evals.report import amount
    from tasuki.evals.statistics import ENOUGH_THREADS

    if not found.judged:
        yield (
            f"Too few threads for the rule, which needs {ENOUGH_THREADS}: a person has to judge the "
            "difference."
        )
        return
    for one in found.compared:
        where = f"{one.method} at {one.kind}s"
        for column, most in MOST_LOST.items():
            value = one.minus.get(column)
            if value is None:
                continue
            if column not in one.judged:
                yield (
                    f"{where}, {column}: {amount(value.threads, 'thread')}, too few for the rule, which "
                    f"needs {ENOUGH_THREADS}; a person has to judge the difference."
                )
            elif column in one.fallen:
                yield f"{where}, {column}: fails. Perhaps {-value.low:.3f} was lost; {most:.2f} is allowed."
            else:
                yield f"{where}, {column}: passes."


def _document(found: "Comparison") -> dict[str, object]:
    import msgspec

    from tasuki.evals.continuation import rounded

    def about(report: "Report") -> dict[str, object]:
        return {"tasuki": report.tasuki, "author": report.author, "budget": report.budget, "cases": len(report.cases)}  # fmt: skip

    return {
        "metric": found.a.metric,
        "a": about(found.a),
        "b": about(found.b),
        "only_a": found.only_a,
        "only_b": found.only_b,
        "compared": [
            {**rounded(msgspec.to_builtins(one)), "judged": one.judged, "fallen": one.fallen}
            for one in found.compared
        ],
        "judged": found.judged,
        "failed": found.failed,
    }
