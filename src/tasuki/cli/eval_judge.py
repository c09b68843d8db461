"""`tasuki eval judge`: a model as judge of briefs, and how far people agree with it."""

from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tasuki.cli.evaluating import Status, visible
from tasuki.cli.printing import print_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tasuki.evals.judge import Brief, Cost, Judged, Report, Run
    from tasuki.evals.judge_kept import Kept
    from tasuki.evals.labels import Agreement, Measured
    from tasuki.evals.proportion import Proportion

SHOWN = 30
"""Answers that failed, and disagreements, that are printed."""
WIDTH = 160
"""Characters of a line below the table."""
EPILOG = """
\b
Examples:
  tasuki eval judge --limit 5 --model anthropic/claude-3-haiku
  tasuki eval judge ~/.claude/projects/my-project --limit 10 --keep judged/
  tasuki eval judge judged/ --labels judged/labels.jsonl
"""


@click.command(epilog=EPILOG)
@click.argument("paths", nargs=-1, metavar="[PATH]...", type=click.Path(path_type=Path))
@click.option(
    "--model", metavar="PROVIDER/MODEL", help="The judge. Default: the model of your settings."
)
@click.option(
    "--labels", "labels_file", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
    help="What people said of the same answers: measures how far the judge agrees with them.",
)  # fmt: skip
@click.option(
    "--author",
    type=click.Choice(["offline", "model"]),
    default="offline",
    show_default=True,
    help="Who writes the briefs; the model is the one of your settings.",
)
@click.option(
    "--limit", type=click.IntRange(min=1), metavar="N", help="At most N briefs, the first ones."
)
@click.option(
    "--only", multiple=True, metavar="ID",
    help="Only this case, or this cut, THREAD#ENTRY; may be given again.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
@click.option(
    "--keep", type=click.Path(path_type=Path, file_okay=False), metavar="FOLDER",
    help="Leave briefs, questions, answers and verdicts there, and labels to be filled in.",
)  # fmt: skip
def judge(
    paths: tuple[Path, ...],
    model: str | None,
    labels_file: Path | None,
    author: str,
    limit: int | None,
    only: tuple[str, ...],
    as_json: bool,
    keep: Path | None,
) -> int:
    """Let a model judge briefs by what they can answer.

    PATH is a file or folder of cases, a thread or folder of threads, which are cut as the
    continuation benchmark cuts them, or a folder that --keep wrote, whose answers are judged again;
    without it, the project's cases. Each brief is asked for facts, artifacts, decisions and the
    next step; the model answers from the brief alone, and judges its answer by the thread. Its
    figures count for something once people have labelled some of the answers and it agrees with
    90 % of them. Briefs and excerpts of the threads go to the model, secrets replaced.
    """
    from tasuki import config
    from tasuki.evals import judge_kept, labels
    from tasuki.evals.judge import Run
    from tasuki.evals.judge_model import Judge, endpoint

    given = labels.read(labels_file) if labels_file else []
    kept = _kept(paths, only)
    keeper = judge_kept.Keeper(keep) if keep else None
    loaded = config.loaded(Path.cwd(), {"model": model})
    found = endpoint(loaded)
    for note in found.notes:
        click.echo(f"tasuki: {visible(note)}", err=True)
    with closing(Judge(found, loaded.settings.author_seconds)) as asked, Status() as status:
        run = Run(asked, tell=status.tell, done=keeper or (lambda brief, judged: None))
        if kept is not None:
            report = run.again((k.brief, k.items) for k in kept[:limit])
        else:
            report = _new(run, paths, author, limit, only)
    result = labels.measured(given, report.judged)
    if as_json:
        print_json(_document(report, result))
    else:
        for line in _lines(report, result):
            click.echo(line)
    _say(report)
    judged = any(one.verdict.verdict for one in report.judged)
    return int(bool(report.stopped) or not judged)


def _kept(paths: tuple[Path, ...], only: tuple[str, ...]) -> "list[Kept] | None":
    """What was kept in the one folder that is named; None where briefs are to be made."""
    from tasuki.errors import UsageError
    from tasuki.evals import judge_kept

    folder = next((path for path in paths if judge_kept.is_kept(path)), None)
    if folder is None:
        return None
    if len(paths) > 1:
        raise UsageError(f"{folder} holds answers that were kept. Name no other path beside it.")
    found = judge_kept.read(folder)
    wanted = [kept for kept in found if not only or kept.brief.case in only]
    if not wanted:
        names = ", ".join(kept.brief.case for kept in found) or "nothing"
        raise UsageError(f"{folder} holds no brief of {only[0] if only else 'any case'!r}. There is: {names}.")  # fmt: skip
    return wanted


def _new(
    run: "Run", paths: tuple[Path, ...], author: str, limit: int | None, only: tuple[str, ...]
) -> "Report":
    """The report on briefs that are made now."""
    import msgspec

    from tasuki import config
    from tasuki.evals.judge_briefs import Source

    source = Source(paths, config.loaded(Path.cwd(), {"author": author}), only)
    report = run.over(islice(source, limit))
    left_out = (*source.left_out, *report.left_out)
    return msgspec.structs.replace(report, left_out=left_out)


def _say(report: "Report") -> None:
    """On standard error: what was left out, what went wrong, what it cost."""
    for left in report.left_out:
        click.echo(f"Left out: {_cut(f'{left.name}: {left.reason}')}", err=True)
    fell = [why for brief in report.briefs for why in brief.by.fell]
    if fell:
        click.echo(
            f"{len(fell)} of {len(report.briefs)} briefs were not written by the author that was "
            f"asked. The first reason: {visible(fell[0])}",
            err=True,
        )
    if report.stopped:
        click.echo(f"tasuki: Stopped before the end. {visible(report.stopped)}", err=True)
    authors = _authors(report)
    if authors.requests:
        click.echo(f"The authors of the briefs: {authors}.", err=True)
    click.echo(f"The judge {report.judge}: {report.cost}.", err=True)


def _authors(report: "Report") -> "Cost":
    """What the authors of the briefs took."""
    from tasuki.evals.judge import Cost

    by = [brief.by for brief in report.briefs]
    prices = [one.price for one in by if one.price is not None]
    return Cost(
        sum(one.requests for one in by),
        sum(one.input_tokens for one in by),
        sum(one.output_tokens for one in by),
        sum(prices) if prices else None,
    )


def _cut(text: str) -> str:
    text = visible(text)
    return text if len(text) <= WIDTH else f"{text[: WIDTH - 1].rstrip()}…"


# -- for people ----------------------------------------------------------------------------


def _lines(report: "Report", result: "Measured") -> "Iterator[str]":
    from tasuki.evals import judge

    figures = judge.figures(report.judged)
    by = ", ".join(sorted({brief.by.author for brief in report.briefs})) or "nobody"
    yield f"Judge: {report.judge}. Briefs: {len(report.briefs)}, by {by}."
    yield ""
    yield from _agreement(result)
    yield ""
    yield f"{'answers from the brief':<22}  passed"
    for kind, passed in figures.passed.items():
        yield f"{kind:<22}  {_share(passed)}"
    if figures.unjudged:
        yield f"{'not judged':<22}  {figures.unjudged}"
    if figures.uncited:
        yield f"{'without a reference':<22}  {figures.uncited}"
    if figures.invented_in_answers or figures.invented_in_verdicts:
        told = (
            f"{figures.invented_in_answers} in answers, {figures.invented_in_verdicts} in verdicts"
        )
        yield f"{'references dropped':<22}  {told}"
    yield from _failed(report.judged)


def _agreement(result: "Measured") -> "Iterator[str]":
    """What the figures below are worth."""
    of = result.agreement
    if of is None:
        yield f"Agreement with people: not measured: {result.reason}."
        yield "The figures say what a model thinks, and no more:"
        return
    told = f"it agrees with {' '.join(_share(of.share).split())} of the labels"
    if of.trusted:
        yield f"The judge can be used: {told}."
        if of.share.low < 0.9:
            yield "The interval reaches below 90 %: more labels would tell."
    else:
        yield f"THE JUDGE IS NOT TO BE TRUSTED: {told}, and 90 % are needed."
    kappa = "not defined" if of.kappa is None else f"{of.kappa:.2f}"
    yield f"Cohen's kappa: {kappa}."
    yield ""
    counts = of.confusion
    yield f"{'':<12}{'people: pass':>14}{'people: fail':>14}"
    yield f"{'judge: pass':<12}{counts.pass_pass:>14}{counts.pass_fail:>14}"
    yield f"{'judge: fail':<12}{counts.fail_pass:>14}{counts.fail_fail:>14}"
    for apart in of.disagreements[:SHOWN]:
        yield ""
        yield visible(f"{apart.case} {apart.probe}")
        yield f"    {_cut(f'judge: {apart.judge}: {apart.judge_critique}')}"
        yield f"    {_cut(f'{apart.by}: {apart.label}: {apart.label_critique}')}"
    if any(ignored := _ignored(result).values()):
        yield ""
        told = ", ".join(f"{n} {what}" for what, n in _ignored(result).items() if n)
        yield f"{sum(ignored)} labels were not compared: {told}."
    yield ""
    yield "Its figures:" if of.trusted else "Its figures, not to be trusted:"


def _ignored(result: "Measured") -> dict[str, int]:
    import msgspec

    found: dict[str, int] = msgspec.to_builtins(result.ignored)
    return {name.replace("_", " "): count for name, count in found.items()}


def _failed(judged: "Sequence[Judged]") -> "Iterator[str]":
    """The answers that failed, and those without a verdict, with the reason."""
    failed = [one for one in judged if one.verdict.verdict != "pass"]
    if failed:
        yield ""
    for one in failed[:SHOWN]:
        verdict, probe = one.verdict, one.item.probe
        yield _cut(f"{one.item.case} {probe.id}: {verdict.verdict or 'none'}: {probe.question}")
        yield f"      {_cut(verdict.critique or verdict.problem)}"
    if len(failed) > SHOWN:
        yield f"… and {len(failed) - SHOWN} more; --json has them all."


def _share(of: "Proportion") -> str:
    """`12/13  92 % (67–99 %)`: of how many, the share, and its 95 % interval."""
    if of.share is None:
        return "     -"
    counted = f"{of.hits}/{of.of}"
    return f"{counted:>6}  {of.share:>4.0%} ({of.low:.0%}–{of.high:.0%})"


# -- the document --------------------------------------------------------------------------


def _document(report: "Report", result: "Measured") -> dict[str, object]:
    """Everything as plain data; the same at every run but for the model's words."""
    import msgspec

    from tasuki.evals import judge

    figures = judge.figures(report.judged)
    of = result.agreement
    return {
        "judge": report.judge,
        "agreement": _agreed(of) if of else None,
        "agreement_reason": result.reason,
        "trusted": of.trusted if of else None,
        "ignored_labels": msgspec.to_builtins(result.ignored),
        "passed": {kind: _with_share(found) for kind, found in figures.passed.items()},
        "unjudged": figures.unjudged,
        "uncited": figures.uncited,
        "invented_refs": {
            "answers": figures.invented_in_answers,
            "verdicts": figures.invented_in_verdicts,
        },
        "briefs": [_brief(brief, report.judged) for brief in report.briefs],
        "left_out": msgspec.to_builtins(report.left_out),
        "stopped": report.stopped,
        "cost": msgspec.to_builtins(report.cost),
        "authors_cost": msgspec.to_builtins(_authors(report)),
    }


def _agreed(of: "Agreement") -> dict[str, object]:
    import msgspec

    return {
        **_with_share(of.share),
        "kappa": of.kappa,
        "confusion": msgspec.to_builtins(of.confusion),
        "disagreements": msgspec.to_builtins(of.disagreements),
    }


def _with_share(of: "Proportion") -> dict[str, object]:
    share = None if of.share is None else round(of.share, 4)
    return {"hits": of.hits, "of": of.of, "share": share, "low": of.low, "high": of.high}


def _brief(brief: "Brief", judged: "Sequence[Judged]") -> dict[str, object]:
    import msgspec

    own = [one for one in judged if one.item.case == brief.case]
    return {
        "case": brief.case,
        "goal": brief.goal,
        "sha256": brief.sha256,
        "author": brief.by.author,
        "model": brief.by.model,
        "fell": brief.by.fell,
        "probes": [
            {
                **msgspec.to_builtins(one.item.probe),
                "answer": msgspec.to_builtins(one.item.answer),
                "verdict": msgspec.to_builtins(one.verdict),
            }
            for one in own
        ],
    }
