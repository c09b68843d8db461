"""`tasuki eval cases`: made-up threads with planted facts, handed off and judged."""

import difflib
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path

import click
from msgspec.structs import asdict

from tasuki.cli.output import make_visible, print_json
from tasuki.errors import UsageError
from tasuki_evals.cases import case_runs, scenario
from tasuki_evals.cases.case_runs import CaseFigures, CaseResult
from tasuki_evals.cases.scenario import ScenarioCase
from tasuki_evals.cli import options
from tasuki_evals.cli.options import build_share, format_share

MOST_LINES = 3
"""Most lines of one kind that are printed below a case."""
WIDTH_COLUMNS = 120
"""Most characters of a line below a case."""
EPILOG = """
\b
Examples:
  tasuki eval cases --smoke
  tasuki eval cases --only ten-facts --keep /tmp/kept
  tasuki eval cases my-cases/ --author model --fail-under 0.9
"""
_TITLES = {
    "passed": "cases passed", "facts": "facts kept", "context": "all context kept",
    "files": "all files named", "commands": "all commands named",
    "nothing_forbidden": "nothing forbidden", "nothing_invented": "nothing invented",
    "in_size": "at most 6,000 characters",
}  # fmt: skip


@click.command(epilog=EPILOG)
@click.argument("paths", nargs=-1, metavar="[PATH]...", type=click.Path(path_type=Path))
@options.author_option
@click.option("--smoke", is_flag=True, help="Only the few cases that are marked as smoke.")
@click.option("--only", multiple=True, metavar="ID", help="Only this case; repeatable.")
@click.option(
    "--chains/--no-chains", default=True, show_default=True, help="Include the chains of handoffs."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
@click.option(
    "--keep", type=click.Path(path_type=Path, file_okay=False), metavar="FOLDER",
    help="Keep threads and briefs there, a folder for each case.",
)  # fmt: skip
@click.option(
    "--fail-under", type=click.FloatRange(0, 1), metavar="SHARE",
    help="Exit with 1 if a smaller share of cases passes, or anything is invented.",
)  # fmt: skip
def cases(
    paths: tuple[Path, ...], author: str, smoke: bool, only: tuple[str, ...], chains: bool,
    as_json: bool, keep: Path | None, fail_under: float | None,
) -> int:  # fmt: skip
    """Hand off made-up threads and judge the briefs.

    PATH is a file or folder with your own cases; without it, the project's cases are run. Each
    thread is written in the format of its harness, and the handoff is made from that file with
    1,500 tokens. A case passes when all expected files, commands and facts are in the brief,
    nothing forbidden is, and nothing in it is invented. Nothing is stored in the vault.
    """
    selected = _select_cases(scenario.load_cases(paths), smoke=smoke, only=only, chains=chains)
    loaded = options.load_settings(author, case_runs.BUDGET)
    numbers = count(1)
    with options.show_status() as show:

        def show_case(case: ScenarioCase) -> None:
            show(f"Case {next(numbers)} of {len(selected)}: {case.id}")

        results = case_runs.run_cases(selected, loaded, keep_folder=keep, on_start=show_case)
    if as_json:
        print_json(_build_document(results, author))
    else:
        _print(results)
    verdicts = [verdict for result in results for verdict in result.verdicts]
    options.print_other_authors([why for v in verdicts for why in v.fell], len(verdicts))
    if fail_under is None:
        return 0
    too_few = sum(r.has_passed for r in results) < fail_under * len(results)
    return int(too_few or any(verdict.invented for verdict in verdicts))


def _select_cases(
    all_cases: Sequence[ScenarioCase], *, smoke: bool, only: tuple[str, ...], chains: bool
) -> list[ScenarioCase]:
    ids = [case.id for case in all_cases]
    for id in only:
        if id not in ids:
            near = difflib.get_close_matches(id, ids, n=1)
            hint = f" Did you mean {near[0]}?" if near else f" There are: {', '.join(ids)}."
            raise UsageError(f"No case {id!r}.{hint}")
    selected = [case for case in all_cases if not only or case.id in only]
    selected = [c for c in selected if (c.smoke or not smoke) and (chains or not c.chain)]
    if not selected:
        raise UsageError(
            f"None of the {len(all_cases)} cases is left to run; omit --smoke, --only or --no-chains."
        )
    return selected


def _print(results: Sequence[CaseResult]) -> None:
    titles = ("case", "category", "pass", "files", "commands", "context", "invented", "forbidden")
    rows = [_build_row(result) for result in results]
    widths = [max(len(row[i]) for row in (titles, *rows)) for i in range(len(titles))]
    click.echo(_align_row(titles, widths))
    for row, result in zip(rows, results, strict=True):
        click.echo(_align_row(row, widths))
        for line in _explain_failure(result):
            click.echo(f"    {options.cut_line(line, WIDTH_COLUMNS)}")
    click.echo()
    whole, parts = case_runs.compute_figures(results), case_runs.compute_by_category(results)
    width = max(map(len, _TITLES.values()))
    for name, title in _TITLES.items():
        click.echo(f"{title.ljust(width)}  {format_share(getattr(whole, name))}")
    if len(parts) > 1:
        click.echo()
        width = max(map(len, parts))
        for name, part in parts.items():
            passed, facts = format_share(part.passed), format_share(part.facts)
            click.echo(f"{name.ljust(width)}  passed {passed}   facts {facts}")
    if chains := case_runs.compute_chain_figures(results):
        number = sum(bool(r.case.chain) for r in results)
        click.echo(f"\nconstraints of the first thread that are in the brief, {number} chains")
        for figure in chains:
            handoffs = "handoff " if figure.depth == 1 else "handoffs"
            click.echo(f"after {figure.depth} {handoffs}  {format_share(figure.survived)}")


def _align_row(row: Sequence[str], widths: Sequence[int]) -> str:
    pairs = enumerate(zip(row, widths, strict=True))
    return "  ".join(c.ljust(w) if n < 3 else c.rjust(w) for n, (c, w) in pairs).rstrip()


def _build_row(result: CaseResult) -> tuple[str, ...]:
    case, first = result.case, result.first
    files, commands = len(case.expected_files), len(case.expected_commands)
    counts = (
        (files - len(first.missing_files), files),
        (commands - len(first.missing_commands), commands),
        (first.held_count, len(first.context)),
    )
    leaks = sum(len(v.forbidden) for v in result.verdicts)
    invented = sum(len(v.invented) for v in result.verdicts)
    return (
        case.id, case.category, "yes" if result.has_passed else "no",
        *(f"{hits}/{total}" if total else "-" for hits, total in counts),
        str(invented or "-"), str(leaks or "-"),
    )  # fmt: skip


def _explain_failure(result: CaseResult) -> Iterator[str]:
    """Yield what is wrong with a case, one line each."""
    first = result.first
    missing = [f"{f.kind} ({' + '.join(f.needs)})" for f in first.context if not f.line]
    missing += [f"file {path}" for path in first.missing_files]
    missing += [f"command {command}" for command in first.missing_commands]
    if missing:
        yield f"missing: {'; '.join(missing)}"
    if result.case.chain:
        counts = ", ".join(map(str, result.survivor_counts))
        yield f"{result.sought_count} facts; kept after 1, 2, … handoffs: {counts}"
    for number, verdict in enumerate(result.verdicts, 1):
        place = f" (brief {number})" if result.case.chain else ""
        for leak in verdict.forbidden[:MOST_LINES]:
            yield f"forbidden{place}: {leak.kind}: {make_visible(leak.line)}"
        for one in verdict.invented[:MOST_LINES]:
            yield f"invented{place}: {one.kind} under {one.section}: {make_visible(one.text)}"
        if verdict.size > 6000:
            yield f"too long{place}: {verdict.size:,} characters"


def _build_document(results: Sequence[CaseResult], author: str) -> dict[str, object]:
    """Build everything as plain data; the same at every run of the same author offline."""
    parts, chains = case_runs.compute_by_category(results), case_runs.compute_chain_figures(results)
    return {
        "author": author,
        "budget": case_runs.BUDGET,
        "figures": _build_figures(case_runs.compute_figures(results)),
        "by_category": {name: _build_figures(part) for name, part in parts.items()},
        "chains": [{"depth": c.depth, **build_share(c.survived)} for c in chains],
        "cases": [_build_case(result) for result in results],
    }


def _build_figures(figures: CaseFigures) -> dict[str, object]:
    return {name: build_share(getattr(figures, name)) for name in _TITLES}


def _build_case(result: CaseResult) -> dict[str, object]:
    case = result.case
    about = ("id", "category", "about", "harness", "smoke", "goal", "pass_criteria")
    pairs = zip(case.goals, result.verdicts, strict=True)
    return {
        **{name: getattr(case, name) for name in about}, "passed": result.has_passed,
        "expected_files": case.expected_files, "expected_commands": case.expected_commands,
        "survivors": result.survivor_counts if case.chain else None,
        "sought": result.sought_count if case.chain else None,
        "briefs": [{"goal": goal, **asdict(verdict)} for goal, verdict in pairs],
    }  # fmt: skip
