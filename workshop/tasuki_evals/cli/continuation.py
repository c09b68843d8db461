"""`tasuki eval continuation` measures handoffs at cuts of real threads by what came after; `tasuki
eval compare` compares two saved runs, which is the rule for releases.
"""

from collections.abc import Iterator
from pathlib import Path

import click
import msgspec

from tasuki.cli.output import format_json, print_json
from tasuki.errors import UsageError
from tasuki.text_safety import format_plural, shorten_to_line
from tasuki_evals.cli import options
from tasuki_evals.continuation import benchmark
from tasuki_evals.continuation import report as reports
from tasuki_evals.continuation.benchmark import ContinuationReport, ContinuationRow
from tasuki_evals.continuation.report import FigureTable, MethodComparison, RunComparison
from tasuki_evals.statistics import ENOUGH_THREADS

CONTINUATION_EXAMPLES = """
\b
Examples:
  tasuki eval continuation ~/.claude/projects
  tasuki eval continuation threads/ --save before.json
  tasuki eval continuation threads/ --html figures.html --intervals
"""


@click.command(epilog=CONTINUATION_EXAMPLES)
@click.argument(
    "paths", nargs=-1, required=True, metavar="PATH...", type=click.Path(path_type=Path)
)
@options.author_option
@click.option("--model", metavar="PROVIDER/MODEL", help="Model that writes, with --author model.")
@click.option(
    "--budget", type=click.IntRange(100, 100_000), metavar="TOKENS",
    help="Tokens of a brief at a cut.  [default: 2000]",
)  # fmt: skip
@click.option(
    "--intervals", is_flag=True, help="The interval of every figure, not only of the tool's."
)
@click.option("--markdown", is_flag=True, help="The tables as Markdown.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
@click.option(
    "--html", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
    help="Write a page with plots, which also measures five further budgets.",
)  # fmt: skip
@click.option(
    "--save", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
    help="Write the JSON document, for `tasuki eval compare`.",
)  # fmt: skip
@options.workers_option
def continuation(
    paths: tuple[Path, ...], author: str, model: str | None, budget: int | None, intervals: bool,
    markdown: bool, as_json: bool, html: Path | None, save: Path | None, workers: int | None,
) -> int:  # fmt: skip
    """Measure how much of an agent's later work each handoff contained.

    PATH is a thread, also gzipped, or a folder of threads. Each is cut at messages of the user; the
    handoff is made from what comes before and compared with what the agent did next. Trivial briefs
    of the same size are measured too. Where the harness compacted automatically, its summary is
    compared too: the tool gets half its length. No model judges, and nothing is stored in the
    vault.
    """
    if html:
        from tasuki_evals.continuation import page  # Draws with matplotlib, which is an extra.

        page.check_plots()
    # Checked before minutes of work.
    for file in (html, save):
        if file and not file.absolute().parent.is_dir():
            raise UsageError(f"Cannot write {file}: there is no folder {file.parent}.")
    budget = budget or benchmark.BUDGET
    loaded = options.load_settings(author, budget, model)
    curve = benchmark.CURVE_BUDGETS if html else ()
    measured = benchmark.ContinuationOptions(loaded, budget, curve)
    workers = workers or (1 if author == "model" else 0)
    with options.show_progress() as progress:
        report = benchmark.run_benchmark(paths, measured, workers=workers, on_progress=progress)
    options.print_other_authors([why for c in report.cases for why in c.fell], len(report.cases))
    rows = benchmark.build_rows(report.cases)
    document = benchmark.build_document(report, rows)
    if save:
        save.write_text(format_json(document), encoding="utf-8")
    if html and report.cases:
        html.write_text(page.render_page(report, rows), encoding="utf-8")
    if as_json:
        print_json(document)
    elif text := reports.format_report(report, rows, markdown=markdown, every=intervals):
        click.echo(text)
    return _compute_exit_code(report, rows)


def _compute_exit_code(report: ContinuationReport, rows: list[ContinuationRow]) -> int:
    """Return 0 if there are figures, and they can be believed."""
    if not report.cases:
        click.echo(
            "tasuki: Nothing was measured. A case needs a message of the user with 20 tool calls before "
            "it and 5 after it, or a compaction; the reasons are listed under: left out.",
            err=True,
        )
        return 1
    broken = benchmark.find_broken_gates(rows)
    for why in broken:
        click.echo(f"tasuki: Do not believe these figures: {why}.", err=True)
    return int(bool(broken))


COMPARE_EXAMPLES = """
\b
Examples:
  tasuki eval compare released.json new.json
  tasuki eval compare before.json after.json --method "index+users+last"
"""


@click.command(epilog=COMPARE_EXAMPLES)
@click.argument("a", metavar="A.json", type=click.Path(path_type=Path))
@click.argument("b", metavar="B.json", type=click.Path(path_type=Path))
@click.option("--method", default="", metavar="NAME", help="A method other than the tool.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
def compare(a: Path, b: Path, method: str, as_json: bool) -> int:
    """Compare two saved runs of the continuation benchmark, case by case.

    A and B are what `tasuki eval continuation --save` wrote; the differences are B minus A. Exits
    with 1 where B lost too much: on 60 threads or more, with 95 % confidence perhaps more than 0.03
    of `id` or 0.02 of `edit`. On fewer threads a person has to judge.
    """
    comparison = reports.compare_reports(reports.read_report(a), reports.read_report(b), method)
    if as_json:
        print_json(_build_document(comparison))
    else:
        for line in _format_comparison(comparison, a, b):
            click.echo(line)
    return int(comparison.has_failed)


def _format_comparison(comparison: RunComparison, a: Path, b: Path) -> Iterator[str]:
    yield f"A  {_describe_report(comparison.a, a)}"
    yield f"B  {_describe_report(comparison.b, b)}"
    if comparison.only_a or comparison.only_b:
        yield f"Left out: {format_plural(comparison.only_a, 'case')} only in A, {comparison.only_b} only in B"
    for one in comparison.compared:
        yield f"\n{reports.format_text_table(_build_table(one))}"
    yield ""
    yield from _format_verdict(comparison)


def _describe_report(report: ContinuationReport, path: Path) -> str:
    authors = ", ".join(sorted({case.by for case in report.cases})) or report.author
    version, authors = shorten_to_line(report.tasuki, 20), shorten_to_line(authors, 60)
    return (
        f"{shorten_to_line(path.name, 40)}: tasuki {version}, {authors}, {report.budget:,} tokens, "
        f"{benchmark.format_counts(report.cases, 'case')}"
    )


def _build_table(compared: MethodComparison) -> FigureTable:
    columns = tuple(c for c in benchmark.SHOWN_COLUMNS if c in compared.a)
    rows = (
        ("A", tuple(reports.format_figure(compared.a.get(c), c) for c in columns)),
        ("B", tuple(reports.format_figure(compared.b.get(c), c) for c in columns)),
        ("B – A", tuple(reports.format_difference(compared.minus.get(c)) for c in columns)),
    )
    cases = format_plural(compared.cases, compared.kind)
    threads = format_plural(compared.threads, "thread")
    return FigureTable(f"{compared.method} at {cases} of {threads}", columns, rows)


def _format_verdict(comparison: RunComparison) -> Iterator[str]:
    needs = f"too few for the rule, which needs {ENOUGH_THREADS}"
    if not comparison.is_judged:
        yield (
            f"Too few threads for the rule, which needs {ENOUGH_THREADS}: a person has to judge the "
            "difference."
        )
        return
    for one in comparison.compared:
        for column, most in reports.MAX_LOSS.items():
            place = f"{one.method} at {one.kind}s, {column}"
            if (value := one.minus.get(column)) is None:
                continue
            if column not in one.judged_columns:
                threads = format_plural(value.threads, "thread")
                yield f"{place}: {threads}, {needs}; a person has to judge the difference."
            elif column in one.failed_columns:
                yield f"{place}: fails. Perhaps {-value.low:.3f} was lost; {most:.2f} is allowed."
            else:
                yield f"{place}: passes."


def _build_document(comparison: RunComparison) -> dict[str, object]:
    def build_about(report: ContinuationReport) -> dict[str, object]:
        about = {"tasuki": report.tasuki, "author": report.author, "budget": report.budget}
        return {**about, "cases": len(report.cases)}

    compared = [
        {
            **benchmark.round_figures(msgspec.to_builtins(one)),
            "judged": one.judged_columns, "fallen": one.failed_columns,
        }
        for one in comparison.compared
    ]  # fmt: skip
    return {
        "metric": comparison.a.metric,
        "a": build_about(comparison.a), "b": build_about(comparison.b),
        "only_a": comparison.only_a, "only_b": comparison.only_b, "compared": compared,
        "judged": comparison.is_judged, "failed": comparison.has_failed,
    }  # fmt: skip
