"""`tasuki eval continuation`: handoffs at cuts of real threads, measured by what came after."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tasuki.cli.output import format_json, print_json
from tasuki_evals.cli import options as evaluating
from tasuki_evals.cli.options import ProgressBar

if TYPE_CHECKING:
    from tasuki_evals.continuation.benchmark import ContinuationReport, ContinuationRow

EPILOG = """
\b
Examples:
  tasuki eval continuation ~/.claude/projects
  tasuki eval continuation threads/ --save before.json
  tasuki eval continuation threads/ --html figures.html --intervals
"""


@click.command(epilog=EPILOG)
@click.argument(
    "paths", nargs=-1, required=True, metavar="PATH...", type=click.Path(path_type=Path)
)
@evaluating.author_option
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
@evaluating.workers_option
def continuation(
    paths: tuple[Path, ...],
    author: str,
    model: str | None,
    budget: int | None,
    intervals: bool,
    markdown: bool,
    as_json: bool,
    html: Path | None,
    save: Path | None,
    workers: int | None,
) -> int:
    """Measure handoffs by how much of what came after they hold.

    PATH is a thread, also gzipped, or a folder of threads. Each is cut at messages of the user; the
    handoff is made from what comes before, and compared with what the agent did next, next to trivial briefs of the same size. Where the harness compacted automatically, its summary is compared
    too: the tool gets half its length. No model judges, and nothing is kept in the vault.
    """
    from tasuki.errors import UsageError
    from tasuki_evals.continuation import benchmark, page
    from tasuki_evals.continuation.report import format_report

    if html:
        page.check_plots()
    # Checked before minutes of work.
    for file in (html, save):
        if file and not file.absolute().parent.is_dir():
            raise UsageError(f"Cannot write {file}: there is no folder {file.parent}.")
    options = benchmark.ContinuationOptions(
        evaluating.load_settings(author, budget or benchmark.BUDGET, model),
        budget or benchmark.BUDGET,
        benchmark.CURVE_BUDGETS if html else (),
    )
    workers = workers or (1 if author == "model" else 0)
    with ProgressBar() as bar:
        report = benchmark.run_benchmark(paths, options, workers=workers, on_progress=bar)
    evaluating.print_other_authors([why for c in report.cases for why in c.fell], len(report.cases))
    rows = benchmark.build_rows(report.cases)
    document = benchmark.build_document(report, rows)
    if save:
        save.write_text(format_json(document), encoding="utf-8")
    if html and report.cases:
        html.write_text(page.render_page(report, rows), encoding="utf-8")
    if as_json:
        print_json(document)
    elif text := format_report(report, rows, markdown=markdown, every=intervals):
        click.echo(text)
    return _compute_exit_code(report, rows)


def _compute_exit_code(report: "ContinuationReport", rows: "list[ContinuationRow]") -> int:
    """Return 0 if there are figures, and they can be believed."""
    from tasuki_evals.continuation.benchmark import find_broken_gates

    if not report.cases:
        click.echo(
            "tasuki: Nothing was measured. A case needs a message of the user with 20 tool calls before "
            "it and 5 after it, or a compaction; the reasons are listed under: left out.",
            err=True,
        )
        return 1
    broken = find_broken_gates(rows)
    for why in broken:
        click.echo(f"tasuki: Do not believe these figures: {why}.", err=True)
    return int(bool(broken))
