"""`tasuki eval questions`: looks in briefs for what a successor must know."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tasuki.cli.output import print_json
from tasuki_evals.cli import options as evaluating
from tasuki_evals.cli.options import ProgressBar, make_visible

if TYPE_CHECKING:
    from tasuki_evals.questions.question_runs import QuestionReport
    from tasuki_evals.questions.question_sets import QuestionSet

WIDTH_COLUMNS = 160
"""Most characters of a line below the tables."""
LEAST_TOKENS, MOST_TOKENS = 100, 100_000
EPILOG = """
\b
Examples:
  tasuki eval questions questions.json threads/
  tasuki eval questions questions.json threads/ --budget 2000 -v
  tasuki eval questions questions.json threads/ --curve 1000,2000,4000,8000
"""


def _read_budgets(
    context: click.Context, parameter: click.Parameter, value: str
) -> tuple[int, ...]:
    """Parse `1000,2000` as numbers, each once, smallest first."""
    words = [word.strip() for word in value.split(",")] if value else []
    if not all(word.isascii() and word.isdigit() and len(word) < 8 for word in words) or not all(
        LEAST_TOKENS <= int(word) <= MOST_TOKENS for word in words
    ):
        raise click.BadParameter(
            f"{value!r} is no list of budgets from {LEAST_TOKENS} to {MOST_TOKENS:,} tokens; "
            "write 1000,2000,4000."
        )
    return tuple(sorted({int(word) for word in words}))


@click.command(epilog=EPILOG)
@click.argument("file", metavar="SET", type=click.Path(path_type=Path))
@click.argument(
    "threads", nargs=-1, required=True, metavar="THREADS...", type=click.Path(path_type=Path)
)
@evaluating.author_option
@click.option("--model", metavar="PROVIDER/MODEL", help="Model that writes, with --author model.")
@click.option(
    "--budget", type=click.IntRange(LEAST_TOKENS, MOST_TOKENS), metavar="TOKENS",
    help="Tokens of every brief.  [default: that of your settings; at a compaction, the length of "
    "the harness's summary, at least 500]",
)  # fmt: skip
@click.option(
    "--curve", callback=_read_budgets, default="", metavar="N,N,…",
    help="Ask at these budgets too, and print what is answered directly by budget.",
)  # fmt: skip
@click.option(
    "-v", "--verbose", is_flag=True, help="List every question that is not answered directly."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
@evaluating.workers_option
def questions(
    file: Path,
    threads: tuple[Path, ...],
    author: str,
    model: str | None,
    budget: int | None,
    curve: tuple[int, ...],
    verbose: bool,
    as_json: bool,
    workers: int | None,
) -> int:
    """Count what a successor must know and finds in a brief.

    SET is a JSON file of questions, each with the patterns that answer it; THREADS are the files and
    folders with the threads that it names, also gzipped. Each thread is cut where the set says, and
    a brief is made for the goal that came next. A question is answered directly if all its patterns
    match the brief without the goal, and with one hop if they match once the entries are opened that
    the brief cites. It is compared with simple briefs of the same size and the harness's own summary.
    No model judges, and nothing is kept in the vault.
    """
    from tasuki.config import settings
    from tasuki_evals.questions.question_runs import QuestionOptions, ask_questions
    from tasuki_evals.questions.question_sets import load_questions

    question_set = load_questions(file)
    usual_budget = budget or settings.load_with_sources(Path.cwd(), {}).settings.budget
    options = QuestionOptions(evaluating.load_settings(author, usual_budget, model), budget, curve)
    with ProgressBar() as bar:
        report = ask_questions(
            question_set, file.name, threads, options,
            workers=workers or (1 if author == "model" else 0), on_progress=bar,
        )  # fmt: skip
    evaluating.print_other_authors([why for c in report.cases for why in c.fell], len(report.cases))
    if as_json:
        from tasuki_evals.questions.question_report import build_question_document

        print_json(build_question_document(report, question_set))
    else:
        _print_tables(report, question_set, verbose=verbose)
    return int(bool(report.left_out))


def _print_tables(report: "QuestionReport", question_set: "QuestionSet", *, verbose: bool) -> None:
    from tasuki_evals.continuation.report import format_text_table
    from tasuki_evals.questions.question_report import build_question_tables, list_missed

    if report.cases:
        click.echo(
            "\n\n".join(
                format_text_table(table) for table in build_question_tables(report, question_set)
            )
        )
    for name, missed in list_missed(report, question_set) if verbose else ():
        click.echo(f"\n{make_visible(name)[:WIDTH_COLUMNS]}")
        for verdict, question in missed:
            text = f"{make_visible(question.kind):<11} {make_visible(question.question)}"
            click.echo(f"  {verdict:<4} {text}"[:WIDTH_COLUMNS])
    for one in report.left_out:
        click.echo(
            f"tasuki: Not asked: {make_visible(one.name)}: {make_visible(one.reason)}.", err=True
        )
