"""`tasuki eval cases`: made-up threads with planted facts, handed off and judged."""

import difflib
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tasuki.cli.output import print_json
from tasuki_evals.cli import options
from tasuki_evals.cli.options import EvalStatus, build_share, make_visible

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tasuki_evals.cases.case_runs import BriefVerdict, CaseFigures, CaseResult, ChainFigure
    from tasuki_evals.cases.scenario import ScenarioCase
    from tasuki_evals.statistics import Proportion

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
    "passed": "cases passed",
    "facts": "facts kept",
    "context": "all context kept",
    "files": "all files named",
    "commands": "all commands named",
    "nothing_forbidden": "nothing forbidden",
    "nothing_invented": "nothing invented",
    "in_size": "at most 6,000 characters",
}


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
    "--keep",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="FOLDER",
    help="Keep threads and briefs there, a folder for each case.",
)
@click.option(
    "--fail-under",
    type=click.FloatRange(0, 1),
    metavar="SHARE",
    help="Exit with 1 if a smaller share of cases passes, or anything is invented.",
)
def cases(
    paths: tuple[Path, ...],
    author: str,
    smoke: bool,
    only: tuple[str, ...],
    chains: bool,
    as_json: bool,
    keep: Path | None,
    fail_under: float | None,
) -> int:
    """Hand off made-up threads and judge the briefs.

    PATH is a file or folder with your own cases; without it, the project's cases are run. Each
    thread is written in the format of its harness, and the handoff is made from that file with
    1,500 tokens. A case passes when all expected files, commands and facts are in the brief,
    nothing forbidden is, and nothing in it is invented. Nothing is stored in the vault.
    """
    from tasuki_evals.cases import case_runs, scenario

    selected = _select_cases(scenario.load_cases(paths), smoke=smoke, only=only, chains=chains)
    loaded = options.load_settings(author, case_runs.BUDGET)
    numbers = count(1)
    with EvalStatus() as status:
        results = case_runs.run_cases(
            selected,
            loaded,
            keep_folder=keep,
            on_start=lambda case: status.show(
                f"Case {next(numbers)} of {len(selected)}: {case.id}"
            ),
        )
    if as_json:
        print_json(_build_document(results, author))
    else:
        _print(results)
    reasons = [why for r in results for v in r.verdicts for why in v.fell]
    options.print_other_authors(reasons, sum(len(r.verdicts) for r in results))
    if fail_under is None:
        return 0
    return int(
        any(verdict.invented for r in results for verdict in r.verdicts)
        or sum(r.has_passed for r in results) < fail_under * len(results)
    )


def _select_cases(
    all_cases: "Sequence[ScenarioCase]", *, smoke: bool, only: tuple[str, ...], chains: bool
) -> "list[ScenarioCase]":
    from tasuki.errors import UsageError

    ids = [case.id for case in all_cases]
    for id in only:
        if id not in ids:
            near = difflib.get_close_matches(id, ids, n=1)
            hint = f" Did you mean {near[0]}?" if near else f" There are: {', '.join(ids)}."
            raise UsageError(f"No case {id!r}.{hint}")
    selected = [
        case
        for case in all_cases
        if (not only or case.id in only)
        and (case.smoke or not smoke)
        and (chains or not case.chain)
    ]
    if not selected:
        raise UsageError(
            f"None of the {len(all_cases)} cases is left to run; omit --smoke, --only or --no-chains."
        )
    return selected


# -- the table -----------------------------------------------------------------------------


def _print(results: "Sequence[CaseResult]") -> None:
    from tasuki_evals.cases import case_runs

    titles = ("case", "category", "pass", "files", "commands", "context", "invented", "forbidden")
    rows = [_build_row(result) for result in results]
    widths = [max(len(row[i]) for row in (titles, *rows)) for i in range(len(titles))]
    click.echo(_align_row(titles, widths))
    for row, result in zip(rows, results, strict=True):
        click.echo(_align_row(row, widths))
        for line in _explain_failure(result):
            click.echo(f"    {_cut_line(line)}")
    click.echo()
    _print_figures(case_runs.compute_figures(results), case_runs.compute_by_category(results))
    _print_chains(results, case_runs.compute_chain_figures(results))


def _align_row(row: "Sequence[str]", widths: "Sequence[int]") -> str:
    cells = [
        c.ljust(w) if n < 3 else c.rjust(w)
        for n, (c, w) in enumerate(zip(row, widths, strict=True))
    ]
    return "  ".join(cells).rstrip()


def _build_row(result: "CaseResult") -> tuple[str, ...]:
    case, first = result.case, result.first
    leaks = sum(len(v.leaks) for v in result.verdicts)
    invented = sum(len(v.invented) for v in result.verdicts)
    return (
        case.id,
        case.category,
        "yes" if result.has_passed else "no",
        _format_part(len(case.expected_files) - len(first.missing_files), len(case.expected_files)),
        _format_part(len(case.expected_commands) - len(first.missing_commands), len(case.expected_commands)),
        _format_part(first.held_count, len(first.context)),
        str(invented or "-"),
        str(leaks or "-"),
    )  # fmt: skip


def _format_part(hits: int, total: int) -> str:
    return f"{hits}/{total}" if total else "-"


def _explain_failure(result: "CaseResult") -> "Iterator[str]":
    """Yield what is wrong with a case, one line each."""
    missing = list(_list_missing(result.first))
    if missing:
        yield f"missing: {'; '.join(missing)}"
    if result.case.chain:
        counts = ", ".join(f"{n}" for n in result.survivor_counts)
        yield f"{result.sought_count} facts; kept after 1, 2, … handoffs: {counts}"
    for number, verdict in enumerate(result.verdicts, 1):
        place = f" (brief {number})" if result.case.chain else ""
        for leak in verdict.leaks[:MOST_LINES]:
            yield f"forbidden{place}: {leak.kind}: {make_visible(leak.line)}"
        for one in verdict.invented[:MOST_LINES]:
            yield f"invented{place}: {one.kind} under {one.section}: {make_visible(one.text)}"
        if verdict.size > 6000:
            yield f"too long{place}: {verdict.size:,} characters"


def _list_missing(verdict: "BriefVerdict") -> "Iterator[str]":
    for fact in verdict.context:
        if not fact.line:
            yield f"{fact.kind} ({' + '.join(fact.needs)})"
    yield from (f"file {path}" for path in verdict.missing_files)
    yield from (f"command {command}" for command in verdict.missing_commands)


def _cut_line(line: str) -> str:
    return line if len(line) <= WIDTH_COLUMNS else f"{line[: WIDTH_COLUMNS - 1].rstrip()}…"


def _print_figures(whole: "CaseFigures", parts: "dict[str, CaseFigures]") -> None:
    width = max(map(len, _TITLES.values()))
    for name, title in _TITLES.items():
        click.echo(f"{title.ljust(width)}  {_format_share(getattr(whole, name))}")
    if len(parts) > 1:
        click.echo()
        names = max(map(len, parts))
        for name, part in parts.items():
            click.echo(
                f"{name.ljust(names)}  passed {_format_share(part.passed)}   facts {_format_share(part.facts)}"
            )


def _format_share(proportion: "Proportion") -> str:
    """Format a share as `12/13  92 % (67–99 %)`: the counts, the share, its 95 % interval."""
    if proportion.share is None:
        return "-"
    counted = f"{proportion.hits}/{proportion.of}"
    return f"{counted:>8}  {proportion.share:>4.0%} ({proportion.low:.0%}–{proportion.high:.0%})"


def _print_chains(results: "Sequence[CaseResult]", chains: "Sequence[ChainFigure]") -> None:
    if not chains:
        return
    count = sum(bool(r.case.chain) for r in results)
    click.echo(f"\nconstraints of the first thread that are in the brief, {count} chains")
    for figure in chains:
        handoffs = "handoff " if figure.depth == 1 else "handoffs"
        click.echo(f"after {figure.depth} {handoffs}  {_format_share(figure.survived)}")


# -- the document --------------------------------------------------------------------------


def _build_document(results: "Sequence[CaseResult]", author: str) -> dict[str, object]:
    """Build everything as plain data; the same at every run of the same author offline."""
    import msgspec

    from tasuki_evals.cases import case_runs

    return {
        "author": author,
        "budget": case_runs.BUDGET,
        "figures": _build_figures(case_runs.compute_figures(results)),
        "by_category": {
            n: _build_figures(f) for n, f in case_runs.compute_by_category(results).items()
        },
        "chains": [
            {"depth": c.depth, **build_share(c.survived)}
            for c in case_runs.compute_chain_figures(results)
        ],
        "cases": [msgspec.to_builtins(_build_case(result)) for result in results],
    }


def _build_figures(figures: "CaseFigures") -> dict[str, object]:
    return {name: build_share(getattr(figures, name)) for name in _TITLES}


def _build_case(result: "CaseResult") -> dict[str, object]:
    case = result.case
    return {
        "id": case.id,
        "category": case.category,
        "about": case.about,
        "harness": case.harness,
        "smoke": case.smoke,
        "goal": case.goal,
        "pass_criteria": case.pass_criteria,
        "passed": result.has_passed,
        "expected_files": case.expected_files,
        "expected_commands": case.expected_commands,
        "survivors": result.survivor_counts if case.chain else None,
        "sought": result.sought_count if case.chain else None,
        "briefs": [
            {
                "goal": goal,
                "entries": v.entries,
                "size": v.size,
                "author": v.author,
                "model": v.model,
                "fell": v.fell,
                "missing_files": v.missing_files,
                "missing_commands": v.missing_commands,
                "context": v.context,
                "forbidden": v.leaks,
                "invented": v.invented,
            }
            for goal, v in zip(case.goals, result.verdicts, strict=True)
        ],
    }
