"""`tasuki eval judge`: a model as judge of briefs, and how far people agree with it."""

from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tasuki.cli.output import print_json
from tasuki_evals.cli.options import EvalStatus, author_option, build_share, make_visible

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tasuki_evals.judge.judge import JudgeCost, JudgedBrief, JudgedProbe, JudgeReport, JudgeRun
    from tasuki_evals.judge.labels import JudgeAgreement, MeasuredAgreement, SavedBrief
    from tasuki_evals.statistics import Proportion

MOST_ANSWERS = 30
"""Most failed answers, and most disagreements, that are printed."""
WIDTH_COLUMNS = 160
"""Most characters of a line below the table."""
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
    help="Labels by people for the same answers: measures how far the judge agrees with them.",
)  # fmt: skip
@author_option
@click.option(
    "--limit", type=click.IntRange(min=1), metavar="N", help="At most the first N briefs."
)
@click.option(
    "--only", multiple=True, metavar="ID",
    help="Only this case, or this cut, THREAD#ENTRY; repeatable.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
@click.option(
    "--keep", type=click.Path(path_type=Path, file_okay=False), metavar="FOLDER",
    help="Keep briefs, questions, answers and verdicts there, with labels to fill in.",
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

    PATH is a file or folder of cases, a thread or folder of threads (cut as in the continuation
    benchmark), or a folder that --keep wrote (its answers are judged again). Default: the
    project's cases. Each brief is asked for facts, artifacts, decisions and the
    next step; the model answers from the brief alone, and judges its answer by the thread. Its
    figures mean something only once people have labelled some of the answers and it agrees with 90
    % of them. Briefs and excerpts of the threads go to the model, secrets replaced.
    """
    from tasuki.config import settings
    from tasuki_evals.judge import labels
    from tasuki_evals.judge.judge import JudgeRun
    from tasuki_evals.judge.judge_model import BriefJudge, choose_endpoint

    given_labels = labels.read_labels(labels_file) if labels_file else []
    kept_briefs = _read_kept(paths, only)
    keeper = labels.JudgeRunWriter(keep) if keep else None
    loaded = settings.load_with_sources(Path.cwd(), {"model": model})
    judge_endpoint = choose_endpoint(loaded)
    for note in judge_endpoint.notes:
        click.echo(f"tasuki: {make_visible(note)}", err=True)
    with (
        closing(BriefJudge(judge_endpoint, loaded.settings.author_seconds)) as judge_model,
        EvalStatus() as status,
    ):
        run = JudgeRun(judge_model, tell=status.show, done=keeper or (lambda brief, judged: None))
        if kept_briefs is not None:
            report = run.judge_saved((k.brief, k.items) for k in kept_briefs[:limit])
        else:
            report = _judge_new(run, paths, author, limit, only)
    result = labels.measure_agreement(given_labels, report.judged)
    if as_json:
        print_json(_build_document(report, result))
    else:
        for line in _format_report(report, result):
            click.echo(line)
    _print_notes(report)
    has_verdict = any(one.verdict.verdict for one in report.judged)
    return int(bool(report.stopped) or not has_verdict)


def _read_kept(paths: tuple[Path, ...], only: tuple[str, ...]) -> "list[SavedBrief] | None":
    """Read what was kept in the one folder that is named; None where briefs must be made."""
    from tasuki.errors import UsageError
    from tasuki_evals.judge import labels

    folder = next((path for path in paths if labels.is_saved_run(path)), None)
    if folder is None:
        return None
    if len(paths) > 1:
        raise UsageError(f"{folder} holds saved answers. Name no other path with it.")
    all_kept = labels.read_saved_run(folder)
    selected = [kept for kept in all_kept if not only or kept.brief.case in only]
    if not selected:
        names = ", ".join(kept.brief.case for kept in all_kept) or "nothing"
        raise UsageError(
            f"{folder} holds no brief of {only[0] if only else 'any case'!r}. There is: {names}."
        )
    return selected


def _judge_new(
    run: "JudgeRun", paths: tuple[Path, ...], author: str, limit: int | None, only: tuple[str, ...]
) -> "JudgeReport":
    """Judge briefs that are made now, and return the report."""
    import msgspec

    from tasuki.config import settings
    from tasuki_evals.judge.judge_briefs import BriefSource

    source = BriefSource(paths, settings.load_with_sources(Path.cwd(), {"author": author}), only)
    report = run.judge_subjects(islice(source, limit))
    left_out = (*source.left_out, *report.left_out)
    return msgspec.structs.replace(report, left_out=left_out)


def _print_notes(report: "JudgeReport") -> None:
    """Print on standard error what was left out, what went wrong, and what it cost."""
    for omitted in report.left_out:
        click.echo(f"Left out: {_cut_text(f'{omitted.name}: {omitted.reason}')}", err=True)
    reasons = [why for brief in report.briefs for why in brief.by.fell]
    if reasons:
        click.echo(
            f"{len(reasons)} of {len(report.briefs)} briefs were not written by the requested "
            f"author. The first reason: {make_visible(reasons[0])}",
            err=True,
        )
    if report.stopped:
        click.echo(f"tasuki: Stopped before the end. {make_visible(report.stopped)}", err=True)
    authors = _sum_author_costs(report)
    if authors.requests:
        click.echo(f"The authors of the briefs: {authors}.", err=True)
    click.echo(f"The judge {report.judge}: {report.cost}.", err=True)


def _sum_author_costs(report: "JudgeReport") -> "JudgeCost":
    """Sum what the authors of the briefs used."""
    from tasuki_evals.judge.judge import JudgeCost

    authors = [brief.by for brief in report.briefs]
    prices = [one.price for one in authors if one.price is not None]
    return JudgeCost(
        sum(one.requests for one in authors),
        sum(one.input_tokens for one in authors),
        sum(one.output_tokens for one in authors),
        sum(prices) if prices else None,
    )


def _cut_text(text: str) -> str:
    text = make_visible(text)
    return text if len(text) <= WIDTH_COLUMNS else f"{text[: WIDTH_COLUMNS - 1].rstrip()}…"


# -- for people ----------------------------------------------------------------------------


def _format_report(report: "JudgeReport", result: "MeasuredAgreement") -> "Iterator[str]":
    from tasuki_evals.judge import judge

    figures = judge.compute_figures(report.judged)
    authors = ", ".join(sorted({brief.by.author for brief in report.briefs})) or "no author"
    yield f"Judge: {report.judge}. Briefs: {len(report.briefs)}, by {authors}."
    yield ""
    yield from _format_agreement(result)
    yield ""
    yield f"{'answers from the brief':<22}  passed"
    for kind, passed in figures.passed.items():
        yield f"{kind:<22}  {_format_share(passed)}"
    if figures.unjudged:
        yield f"{'not judged':<22}  {figures.unjudged}"
    if figures.uncited:
        yield f"{'without a reference':<22}  {figures.uncited}"
    if figures.invented_in_answers or figures.invented_in_verdicts:
        counts = (
            f"{figures.invented_in_answers} in answers, {figures.invented_in_verdicts} in verdicts"
        )
        yield f"{'references dropped':<22}  {counts}"
    yield from _format_failed(report.judged)


def _format_agreement(result: "MeasuredAgreement") -> "Iterator[str]":
    """Format what the figures below are worth."""
    agreement = result.agreement
    if agreement is None:
        yield f"Agreement with people: not measured: {result.reason}."
        yield "The figures say what a model thinks, and no more:"
        return
    summary = f"it agrees with {' '.join(_format_share(agreement.share).split())} of the labels"
    if agreement.is_trusted:
        yield f"The judge can be used: {summary}."
        if agreement.share.low < 0.9:
            yield "The interval reaches below 90 %: more labels are needed."
    else:
        yield f"DO NOT TRUST THE JUDGE: {summary}, and 90 % are needed."
    kappa = "not defined" if agreement.kappa is None else f"{agreement.kappa:.2f}"
    yield f"Cohen's kappa: {kappa}."
    yield ""
    counts = agreement.confusion
    yield f"{'':<12}{'people: pass':>14}{'people: fail':>14}"
    yield f"{'judge: pass':<12}{counts.pass_pass:>14}{counts.pass_fail:>14}"
    yield f"{'judge: fail':<12}{counts.fail_pass:>14}{counts.fail_fail:>14}"
    for disagreement in agreement.disagreements[:MOST_ANSWERS]:
        yield ""
        yield make_visible(f"{disagreement.case} {disagreement.probe}")
        yield f"    {_cut_text(f'judge: {disagreement.judge}: {disagreement.judge_critique}')}"
        yield f"    {_cut_text(f'{disagreement.by}: {disagreement.label}: {disagreement.label_critique}')}"
    if any(ignored := _count_ignored(result).values()):
        yield ""
        summary = ", ".join(f"{n} {what}" for what, n in _count_ignored(result).items() if n)
        yield f"{sum(ignored)} labels were not compared: {summary}."
    yield ""
    yield "Its figures:" if agreement.is_trusted else "Its figures, which cannot be trusted:"


def _count_ignored(result: "MeasuredAgreement") -> dict[str, int]:
    import msgspec

    counts: dict[str, int] = msgspec.to_builtins(result.ignored)
    return {name.replace("_", " "): count for name, count in counts.items()}


def _format_failed(judged: "Sequence[JudgedProbe]") -> "Iterator[str]":
    """Format the answers that failed, and those without a verdict, with the reason."""
    failed = [one for one in judged if one.verdict.verdict != "pass"]
    if failed:
        yield ""
    for one in failed[:MOST_ANSWERS]:
        verdict, probe = one.verdict, one.item.probe
        yield _cut_text(
            f"{one.item.case} {probe.id}: {verdict.verdict or 'none'}: {probe.question}"
        )
        yield f"      {_cut_text(verdict.critique or verdict.problem)}"
    if len(failed) > MOST_ANSWERS:
        yield f"… and {len(failed) - MOST_ANSWERS} more; --json has them all."


def _format_share(proportion: "Proportion") -> str:
    """Format a share as `12/13  92 % (67–99 %)`: the counts, the share, its 95 % interval."""
    if proportion.share is None:
        return "     -"
    counted = f"{proportion.hits}/{proportion.of}"
    return f"{counted:>6}  {proportion.share:>4.0%} ({proportion.low:.0%}–{proportion.high:.0%})"


# -- the document --------------------------------------------------------------------------


def _build_document(report: "JudgeReport", result: "MeasuredAgreement") -> dict[str, object]:
    """Build everything as plain data; the same at every run except for the model's words."""
    import msgspec

    from tasuki_evals.judge import judge

    figures = judge.compute_figures(report.judged)
    agreement = result.agreement
    return {
        "judge": report.judge,
        "agreement": _build_agreement(agreement) if agreement else None,
        "agreement_reason": result.reason,
        "trusted": agreement.is_trusted if agreement else None,
        "ignored_labels": msgspec.to_builtins(result.ignored),
        "passed": {kind: build_share(found) for kind, found in figures.passed.items()},
        "unjudged": figures.unjudged,
        "uncited": figures.uncited,
        "invented_refs": {
            "answers": figures.invented_in_answers,
            "verdicts": figures.invented_in_verdicts,
        },
        "briefs": [_build_brief(brief, report.judged) for brief in report.briefs],
        "left_out": msgspec.to_builtins(report.left_out),
        "stopped": report.stopped,
        "cost": msgspec.to_builtins(report.cost),
        "authors_cost": msgspec.to_builtins(_sum_author_costs(report)),
    }


def _build_agreement(agreement: "JudgeAgreement") -> dict[str, object]:
    import msgspec

    return {
        **build_share(agreement.share),
        "kappa": agreement.kappa,
        "confusion": msgspec.to_builtins(agreement.confusion),
        "disagreements": msgspec.to_builtins(agreement.disagreements),
    }


def _build_brief(brief: "JudgedBrief", judged: "Sequence[JudgedProbe]") -> dict[str, object]:
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
