"""`tasuki eval questions`: looks in briefs for what a successor must know, and tabulates it."""

from collections.abc import Iterator
from pathlib import Path

import click

from tasuki.cli.output import make_visible, print_json
from tasuki.config import settings
from tasuki.text_safety import format_plural
from tasuki_evals import question_runs
from tasuki_evals.cli import options
from tasuki_evals.continuation.benchmark import OWN_METHOD
from tasuki_evals.continuation.report import NO_FIGURE, FigureTable, TableCell, format_text_table
from tasuki_evals.question_runs import QuestionReport, count_by_kind, list_methods, sum_answers
from tasuki_evals.question_sets import QuestionSet, QuestionVerdict, SetQuestion, load_questions

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
            f"{value!r} is not a list of budgets from {LEAST_TOKENS} to {MOST_TOKENS:,} tokens; "
            "write 1000,2000,4000."
        )
    return tuple(sorted({int(word) for word in words}))


@click.command(epilog=EPILOG)
@click.argument("file", metavar="SET", type=click.Path(path_type=Path))
@click.argument(
    "threads", nargs=-1, required=True, metavar="THREADS...", type=click.Path(path_type=Path)
)
@options.author_option
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
@options.workers_option
def questions(
    file: Path, threads: tuple[Path, ...], author: str, model: str | None, budget: int | None,
    curve: tuple[int, ...], verbose: bool, as_json: bool, workers: int | None,
) -> int:  # fmt: skip
    """Count what a successor must know and finds in a brief.

    SET is a JSON file of questions, each with the patterns that answer it; THREADS are the files
    and folders with the threads that it names, also gzipped. Each thread is cut where the set says,
    and a brief is made for the goal that came next. A question is answered directly if all its
    patterns match the brief without the goal, and with one hop if they match once the entries
    that the brief cites are opened. It is compared with simple briefs of the same size and the
    harness's own summary. No model judges, and nothing is stored in the vault.
    """
    question_set = load_questions(file)
    usual_budget = budget or settings.load_with_sources(Path.cwd(), {}).settings.budget
    loaded = options.load_settings(author, usual_budget, model)
    with options.show_progress() as progress:
        report = question_runs.ask_questions(
            question_set, file.name, threads, question_runs.QuestionOptions(loaded, budget, curve),
            workers=workers or (1 if author == "model" else 0), on_progress=progress,
        )  # fmt: skip
    options.print_other_authors([why for c in report.cases for why in c.fell], len(report.cases))
    if as_json:
        print_json(build_question_document(report, question_set))
    else:
        _print_tables(report, question_set, verbose=verbose)
    return int(bool(report.left_out))


def _print_tables(report: QuestionReport, question_set: QuestionSet, *, verbose: bool) -> None:
    if report.cases:
        click.echo("\n\n".join(map(format_text_table, build_question_tables(report, question_set))))
    for name, missed in list_missed(report, question_set) if verbose else ():
        click.echo(f"\n{make_visible(name)[:WIDTH_COLUMNS]}")
        for verdict, question in missed:
            text = f"{make_visible(question.kind):<11} {make_visible(question.question)}"
            click.echo(f"  {verdict:<4} {text}"[:WIDTH_COLUMNS])
    for one in report.left_out:
        name, reason = make_visible(one.name), make_visible(one.reason)
        click.echo(f"tasuki: Not asked: {name}: {reason}.", err=True)


def build_question_tables(report: QuestionReport, question_set: QuestionSet) -> list[FigureTable]:
    """Return all tables of a report; the one by budget if more than one was measured."""
    found = [_build_total_table(report, question_set), _build_kind_table(report, question_set)]
    return [*found, _build_budget_table(report)] if report.curve else found


def _build_total_table(report: QuestionReport, question_set: QuestionSet) -> FigureTable:
    cases = [case for case, _ in question_runs.pair_cases(report, question_set)]
    count = format_plural(sum(len(case.questions) for case in cases), "question")
    threads = format_plural(len({case.file for case in cases}), "thread")
    rows = []
    for method in list_methods(report):
        if sums := sum_answers(report.cases, method):
            hop = str(sums.hop) if method == OWN_METHOD else NO_FIGURE
            texts = (str(sums.direct), hop, str(sums.no), f"{sums.tokens:,.0f}")
            rows.append((method, tuple(map(TableCell, texts))))
    title = f"{count} on {threads}, answered"
    return FigureTable(title, ("directly", "one hop", "no", "tokens"), tuple(rows))


def _build_kind_table(report: QuestionReport, question_set: QuestionSet) -> FigureTable:
    methods = list_methods(report)
    of_method = {method: count_by_kind(report, question_set, method) for method in methods}
    rows = []
    for kind, counts in of_method[OWN_METHOD].items() if methods else ():
        cells = [TableCell(str(counts.total()))]
        for method in methods:
            verdicts = of_method[method].get(kind)
            hops = f" + {verdicts['hop']}" if verdicts and verdicts["hop"] else ""
            cells.append(TableCell(f"{verdicts['direct']}{hops}" if verdicts else NO_FIGURE))
        rows.append((kind, tuple(cells)))
    return FigureTable("Directly, by kind; + one hop", ("of", *methods), tuple(rows))


def _build_budget_table(report: QuestionReport) -> FigureTable:
    rows = []
    for method in list_methods(report):
        sums = [sum_answers(report.cases, f"{method}@{budget}") for budget in report.curve]
        if any(sums):
            rows.append((method, tuple(TableCell(str(s.direct) if s else NO_FIGURE) for s in sums)))
    return FigureTable("Directly, by budget", tuple(f"{b:,}" for b in report.curve), tuple(rows))


def list_missed(
    report: QuestionReport, question_set: QuestionSet
) -> Iterator[tuple[str, list[tuple[QuestionVerdict, SetQuestion]]]]:
    """Yield by case the questions that the tool's brief does not answer directly."""
    for case, found in question_runs.pair_cases(report, question_set):
        pairs = zip(found.methods[OWN_METHOD].verdicts, case.questions, strict=True)
        missed: list[tuple[QuestionVerdict, SetQuestion]] = [p for p in pairs if p[0] != "direct"]
        if missed:
            yield case.name, missed


def build_question_document(report: QuestionReport, question_set: QuestionSet) -> dict[str, object]:
    """Return a report as plain data: no time, no path of this machine, no word of a thread."""
    methods: dict[str, object] = {}
    for method in dict.fromkeys(m for case in report.cases for m in case.methods):
        kinds = count_by_kind(report, question_set, method)
        if sums := sum_answers(report.cases, method):
            methods[method] = {
                "direct": sums.direct, "hop": sums.hop, "no": sums.no, "tokens": round(sums.tokens, 1),
                "kinds": {k: {v: c[v] for v in ("direct", "hop", "no")} for k, c in kinds.items()},
            }  # fmt: skip
    return {
        "set": report.name, "tasuki": report.tasuki, "author": report.author, "budget": report.budget,
        "curve": report.curve, "methods": methods, "cases": report.cases, "left_out": report.left_out,
    }  # fmt: skip
