"""`tasuki eval cases`: made-up threads with planted facts, handed off and judged."""

import difflib
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tasuki.cli import evaluating
from tasuki.cli.evaluating import Status, visible
from tasuki.cli.printing import print_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tasuki.evals.case_runs import ChainFigure, Figures, Result, Verdict
    from tasuki.evals.proportion import Proportion
    from tasuki.evals.scenario import Case

SHOWN = 3
"""Lines of one kind that are printed below a case."""
WIDTH = 120
"""Characters of a line below a case."""
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
@evaluating.author_option
@click.option("--smoke", is_flag=True, help="Only the few cases that are marked as smoke.")
@click.option("--only", multiple=True, metavar="ID", help="Only this case; may be given again.")
@click.option(
    "--chains/--no-chains", default=True, show_default=True, help="With the chains of handoffs."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
@click.option(
    "--keep",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="FOLDER",
    help="Leave threads and briefs there, a folder for each case.",
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

    PATH is a file or folder with cases of your own; without it, the project's cases are run. Each
    thread is written in the format of its harness, and the handoff is made from that file with
    1,500 tokens. A case passes when all expected files, commands and facts stand in the brief,
    nothing forbidden does, and nothing in it is invented. Nothing is kept in the vault.
    """
    from tasuki.evals import case_runs, scenario

    chosen = _chosen(scenario.load(paths), smoke=smoke, only=only, chains=chains)
    loaded = evaluating.loaded(author, case_runs.BUDGET)
    begun = count(1)
    with Status() as status:
        results = case_runs.run(
            chosen,
            loaded,
            keep=keep,
            tell=lambda case: status.tell(f"Case {next(begun)} of {len(chosen)}: {case.id}"),
        )
    if as_json:
        print_json(_document(results, author))
    else:
        _print(results)
    fell = [why for r in results for v in r.verdicts for why in v.fell]
    evaluating.say_who_wrote(fell, sum(len(r.verdicts) for r in results))
    return _code(results, fail_under)


def _chosen(
    found: "Sequence[Case]", *, smoke: bool, only: tuple[str, ...], chains: bool
) -> "list[Case]":
    from tasuki.errors import UsageError

    ids = [case.id for case in found]
    for id in only:
        if id not in ids:
            near = difflib.get_close_matches(id, ids, n=1)
            hint = f" Did you mean {near[0]}?" if near else f" There are: {', '.join(ids)}."
            raise UsageError(f"No case {id!r}.{hint}")
    chosen = [
        case
        for case in found
        if (not only or case.id in only)
        and (case.smoke or not smoke)
        and (chains or not case.chain)
    ]
    if not chosen:
        raise UsageError(
            f"None of the {len(found)} cases is left to run; leave out --smoke, --only or --no-chains."
        )
    return chosen


def _code(results: "Sequence[Result]", fail_under: float | None) -> int:
    if fail_under is None:
        return 0
    invented = any(verdict.invented for r in results for verdict in r.verdicts)
    return int(invented or sum(r.passed for r in results) < fail_under * len(results))


# -- the table -----------------------------------------------------------------------------


def _print(results: "Sequence[Result]") -> None:
    from tasuki.evals import case_runs

    titles = ("case", "category", "pass", "files", "commands", "context", "invented", "forbidden")
    rows = [_row(result) for result in results]
    widths = [max(len(row[i]) for row in (titles, *rows)) for i in range(len(titles))]
    click.echo(_aligned(titles, widths))
    for row, result in zip(rows, results, strict=True):
        click.echo(_aligned(row, widths))
        for line in _why(result):
            click.echo(f"    {_cut(line)}")
    click.echo()
    _print_figures(case_runs.figures(results), case_runs.by_category(results))
    _print_chains(results, case_runs.chain_figures(results))


def _aligned(row: "Sequence[str]", widths: "Sequence[int]") -> str:
    cells = [c.ljust(w) if n < 3 else c.rjust(w) for n, (c, w) in enumerate(zip(row, widths, strict=True))]  # fmt: skip
    return "  ".join(cells).rstrip()


def _row(result: "Result") -> tuple[str, ...]:
    case, first = result.case, result.first
    leaks = sum(len(v.leaks) for v in result.verdicts)
    invented = sum(len(v.invented) for v in result.verdicts)
    return (
        case.id,
        case.category,
        "yes" if result.passed else "no",
        _part(len(case.expected_files) - len(first.missing_files), len(case.expected_files)),
        _part(len(case.expected_commands) - len(first.missing_commands), len(case.expected_commands)),
        _part(first.kept, len(first.context)),
        str(invented or "-"),
        str(leaks or "-"),
    )  # fmt: skip


def _part(hits: int, of: int) -> str:
    return f"{hits}/{of}" if of else "-"


def _why(result: "Result") -> "Iterator[str]":
    """What is wrong with a case, a line each."""
    missing = list(_missing(result.first))
    if missing:
        yield f"missing: {'; '.join(missing)}"
    if result.case.chain:
        told = ", ".join(f"{n}" for n in result.survivors)
        yield f"{result.sought} facts; kept after 1, 2, … handoffs: {told}"
    for number, verdict in enumerate(result.verdicts, 1):
        where = f" (brief {number})" if result.case.chain else ""
        for leak in verdict.leaks[:SHOWN]:
            yield f"forbidden{where}: {leak.kind}: {visible(leak.line)}"
        for one in verdict.invented[:SHOWN]:
            yield f"invented{where}: {one.kind} under {one.section}: {visible(one.text)}"
        if verdict.size > 6000:
            yield f"too long{where}: {verdict.size:,} characters"


def _missing(verdict: "Verdict") -> "Iterator[str]":
    for fact in verdict.context:
        if not fact.line:
            yield f"{fact.kind} ({' + '.join(fact.needs)})"
    yield from (f"file {path}" for path in verdict.missing_files)
    yield from (f"command {command}" for command in verdict.missing_commands)


def _cut(line: str) -> str:
    return line if len(line) <= WIDTH else f"{line[: WIDTH - 1].rstrip()}…"


def _print_figures(whole: "Figures", parts: "dict[str, Figures]") -> None:
    width = max(map(len, _TITLES.values()))
    for name, title in _TITLES.items():
        click.echo(f"{title.ljust(width)}  {_share(getattr(whole, name))}")
    if len(parts) > 1:
        click.echo()
        names = max(map(len, parts))
        for name, part in parts.items():
            click.echo(f"{name.ljust(names)}  passed {_share(part.passed)}   facts {_share(part.facts)}")  # fmt: skip


def _share(of: "Proportion") -> str:
    """`12/13  92 % (67–99 %)`: of how many, the share, and its 95 % interval."""
    if of.share is None:
        return "-"
    counted = f"{of.hits}/{of.of}"
    return f"{counted:>8}  {of.share:>4.0%} ({of.low:.0%}–{of.high:.0%})"


def _print_chains(results: "Sequence[Result]", chains: "Sequence[ChainFigure]") -> None:
    if not chains:
        return
    count = sum(bool(r.case.chain) for r in results)
    click.echo(f"\nconstraints of the first thread that stand in the brief, {count} chains")
    for figure in chains:
        handoffs = "handoff " if figure.depth == 1 else "handoffs"
        click.echo(f"after {figure.depth} {handoffs}  {_share(figure.survived)}")


# -- the document --------------------------------------------------------------------------


def _document(results: "Sequence[Result]", author: str) -> dict[str, object]:
    """Everything as plain data; the same at every run of the same author offline."""
    import msgspec

    from tasuki.evals import case_runs

    return {
        "author": author,
        "budget": case_runs.BUDGET,
        "figures": _figures(case_runs.figures(results)),
        "by_category": {n: _figures(f) for n, f in case_runs.by_category(results).items()},
        "chains": [
            {"depth": c.depth, **_with_share(c.survived)} for c in case_runs.chain_figures(results)
        ],
        "cases": [msgspec.to_builtins(_case(result)) for result in results],
    }


def _figures(of: "Figures") -> dict[str, object]:
    return {name: _with_share(getattr(of, name)) for name in _TITLES}


def _with_share(of: "Proportion") -> dict[str, object]:
    share = None if of.share is None else round(of.share, 4)
    return {"hits": of.hits, "of": of.of, "share": share, "low": of.low, "high": of.high}


def _case(result: "Result") -> dict[str, object]:
    case = result.case
    return {
        "id": case.id,
        "category": case.category,
        "about": case.about,
        "harness": case.harness,
        "smoke": case.smoke,
        "goal": case.goal,
        "pass_criteria": case.pass_criteria,
        "passed": result.passed,
        "expected_files": case.expected_files,
        "expected_commands": case.expected_commands,
        "survivors": result.survivors if case.chain else None,
        "sought": result.sought if case.chain else None,
        "briefs": [_brief(goal, v) for goal, v in zip(case.goals, result.verdicts, strict=True)],
    }


def _brief(goal: str, verdict: "Verdict") -> dict[str, object]:
    return {
        "goal": goal,
        "entries": verdict.entries,
        "size": verdict.size,
        "author": verdict.author,
        "model": verdict.model,
        "fell": verdict.fell,
        "missing_files": verdict.missing_files,
        "missing_commands": verdict.missing_commands,
        "context": verdict.context,
        "forbidden": verdict.leaks,
        "invented": verdict.invented,
    }
