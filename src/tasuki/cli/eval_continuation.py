"""`tasuki eval continuation`: handoffs at places of real threads, measured by what came after."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tasuki.cli import evaluating
from tasuki.cli.evaluating import ProgressBar
from tasuki.cli.printing import json_text, print_json

if TYPE_CHECKING:
    from tasuki.evals.continuation import Options, Report, Row

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
    "--intervals", is_flag=True, help="The interval of every figure, not the tool's alone."
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
@click.option(
    "--workers", type=click.IntRange(min=1), metavar="N",
    help="Processes at work.  [default: one a core; with --author model one]",
)  # fmt: skip
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
    handoff is made from what stands before, and compared with what the agent did next, beside
    trivial briefs of the same size. Where the harness compacted by itself, its summary is compared
    too: the tool gets half its length. No model judges, and nothing is kept in the vault.
    """
    from tasuki.evals import continuation as benchmark
    from tasuki.evals import page

    if html:
        page.check()
    for file in (html, save):
        _check_folder(file)
    options = benchmark.Options(
        evaluating.loaded(author, budget or benchmark.BUDGET, model),
        budget or benchmark.BUDGET,
        benchmark.CURVE if html else (),
    )
    report = _run(paths, options, workers or (1 if author == "model" else 0))
    evaluating.say_who_wrote([why for c in report.cases for why in c.fell], len(report.cases))
    rows = benchmark.rows(report.cases)
    document = benchmark.document(report, rows)
    if save:
        save.write_text(json_text(document), encoding="utf-8")
    if html and report.cases:
        html.write_text(page.render(report, rows), encoding="utf-8")
    if as_json:
        print_json(document)
    else:
        _print(report, rows, markdown=markdown, every=intervals)
    return _code(report, rows)


def _check_folder(file: Path | None) -> None:
    """Before minutes of work, not after. Raises UsageError."""
    from tasuki.errors import UsageError

    if file and not file.absolute().parent.is_dir():
        raise UsageError(f"Cannot write {file}: there is no folder {file.parent}.")


def _run(paths: tuple[Path, ...], options: "Options", workers: int) -> "Report":
    from tasuki.evals import continuation as benchmark

    with ProgressBar() as bar:
        return benchmark.run(paths, options, workers=workers, done=bar)


def _print(report: "Report", rows: "list[Row]", *, markdown: bool, every: bool) -> None:
    from tasuki.evals.report import for_people

    if text := for_people(report, rows, markdown=markdown, every=every):
        click.echo(text)


def _code(report: "Report", rows: "list[Row]") -> int:
    """0 if there are figures, and they can be believed."""
    from tasuki.evals.continuation import broken_gates

    if not report.cases:
        click.echo(
            "tasuki: Nothing was measured. A case needs a message of the user with 20 tool calls before "
            "it and 5 after it, or a compaction; why nothing was one is told under: left out.",
            err=True,
        )
        return 1
    broken = broken_gates(rows)
    for why in broken:
        click.echo(f"tasuki: Do not believe these figures: {why}.", err=True)
    return int(bool(broken))
