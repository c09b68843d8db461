"""`tasuki eval judge`: a model as judge of briefs, and how far people agree with it."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path

import click
from msgspec.structs import asdict, replace

from tasuki.cli.output import make_visible, print_json
from tasuki.config import settings
from tasuki.errors import UsageError
from tasuki_evals.cli import options
from tasuki_evals.judge import judge as judging
from tasuki_evals.judge import labels
from tasuki_evals.judge.judge import JudgeCost, JudgedProbe, JudgeReport, JudgeRun
from tasuki_evals.judge.judge_briefs import BriefSource
from tasuki_evals.judge.judge_model import BriefJudge, choose_endpoint
from tasuki_evals.judge.labels import MeasuredAgreement, SavedBrief
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
@options.author_option
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
    paths: tuple[Path, ...], model: str | None, labels_file: Path | None, author: str,
    limit: int | None, only: tuple[str, ...], as_json: bool, keep: Path | None,
) -> int:  # fmt: skip
    """Let a model judge briefs by what they can answer.

    PATH is a file or folder of cases, a thread or folder of threads (cut as in the continuation
    benchmark), or a folder that --keep wrote (its answers are judged again). Default: the
    project's cases. Each brief is asked for facts, artifacts, decisions and the
    next step; the model answers from the brief alone, and judges its answer by the thread. Its
    figures mean something only once people have labelled some of the answers and it agrees with 90
    % of them. Briefs and excerpts of the threads go to the model, secrets replaced.
    """
    given_labels = labels.read_labels(labels_file) if labels_file else []
    kept_briefs = _read_kept(paths, only)
    keeper = labels.JudgeRunWriter(keep) if keep else None
    loaded = settings.load_with_sources(Path.cwd(), {"model": model})
    endpoint = choose_endpoint(loaded)
    for note in endpoint.notes:
        click.echo(f"tasuki: {make_visible(note)}", err=True)
    with (
        closing(BriefJudge(endpoint, loaded.settings.author_seconds)) as judge_model,
        options.show_status() as show,
    ):
        run = JudgeRun(judge_model, tell=show, done=keeper or (lambda brief, judged: None))
        if kept_briefs is not None:
            report = run.judge_saved((k.brief, k.items) for k in kept_briefs[:limit])
        else:  # Briefs that are made now.
            writing = settings.load_with_sources(Path.cwd(), {"author": author})
            source = BriefSource(paths, writing, only)
            report = run.judge_subjects(islice(source, limit))
            report = replace(report, left_out=(*source.left_out, *report.left_out))
    result = labels.measure_agreement(given_labels, report.judged)
    if as_json:
        print_json(_build_document(report, result))
    else:
        for line in _format_report(report, result):
            click.echo(line)
    _print_notes(report)
    has_verdict = any(one.verdict.verdict for one in report.judged)
    return int(bool(report.stopped) or not has_verdict)


def _read_kept(paths: tuple[Path, ...], only: tuple[str, ...]) -> list[SavedBrief] | None:
    """Read what was kept in the one folder that is named; None where briefs must be made."""
    folder = next((path for path in paths if labels.is_saved_run(path)), None)
    if folder is None:
        return None
    if len(paths) > 1:
        raise UsageError(f"{folder} holds saved answers. Name no other path with it.")
    all_kept = labels.read_saved_run(folder)
    selected = [kept for kept in all_kept if not only or kept.brief.case in only]
    if not selected:
        names = ", ".join(kept.brief.case for kept in all_kept) or "nothing"
        wanted = only[0] if only else "any case"
        raise UsageError(f"{folder} holds no brief of {wanted!r}. There is: {names}.")
    return selected


def _print_notes(report: JudgeReport) -> None:
    """Print on standard error what was left out, what went wrong, and what it cost."""
    for omitted in report.left_out:
        click.echo(f"Left out: {_cut_text(f'{omitted.name}: {omitted.reason}')}", err=True)
    reasons = [why for brief in report.briefs for why in brief.by.fell]
    options.print_other_authors(reasons, len(report.briefs))
    if report.stopped:
        click.echo(f"tasuki: Stopped before the end. {make_visible(report.stopped)}", err=True)
    authors = _sum_author_costs(report)
    if authors.requests:
        click.echo(f"The authors of the briefs: {authors}.", err=True)
    click.echo(f"The judge {report.judge}: {report.cost}.", err=True)


def _sum_author_costs(report: JudgeReport) -> JudgeCost:
    """Sum what the authors of the briefs used."""
    authors = [brief.by for brief in report.briefs]
    return judging.sum_costs(authors, sum(one.requests for one in authors))


def _cut_text(text: str) -> str:
    return options.cut_line(make_visible(text), WIDTH_COLUMNS)


def _format_report(report: JudgeReport, result: MeasuredAgreement) -> Iterator[str]:
    figures = judging.compute_figures(report.judged)
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
        answers, verdicts = figures.invented_in_answers, figures.invented_in_verdicts
        yield f"{'references dropped':<22}  {answers} in answers, {verdicts} in verdicts"
    yield from _format_failed(report.judged)


def _format_agreement(result: MeasuredAgreement) -> Iterator[str]:
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
    for one in agreement.disagreements[:MOST_ANSWERS]:
        yield ""
        yield make_visible(f"{one.case} {one.probe}")
        yield f"    {_cut_text(f'judge: {one.judge}: {one.judge_critique}')}"
        yield f"    {_cut_text(f'{one.by}: {one.label}: {one.label_critique}')}"
    ignored = {name.replace("_", " "): n for name, n in asdict(result.ignored).items() if n}
    if ignored:
        yield ""
        summary = ", ".join(f"{n} {what}" for what, n in ignored.items())
        yield f"{sum(ignored.values())} labels were not compared: {summary}."
    yield ""
    yield "Its figures:" if agreement.is_trusted else "Its figures, which cannot be trusted:"


def _format_failed(judged: Sequence[JudgedProbe]) -> Iterator[str]:
    """Format the answers that failed, and those without a verdict, with the reason."""
    failed = [one for one in judged if one.verdict.verdict != "pass"]
    if failed:
        yield ""
    for one in failed[:MOST_ANSWERS]:
        verdict, probe = one.verdict, one.item.probe
        head = f"{one.item.case} {probe.id}: {verdict.verdict or 'none'}"
        yield _cut_text(f"{head}: {probe.question}")
        yield f"      {_cut_text(verdict.critique or verdict.problem)}"
    if len(failed) > MOST_ANSWERS:
        yield f"… and {len(failed) - MOST_ANSWERS} more; --json has them all."


def _format_share(proportion: Proportion) -> str:
    return options.format_share(proportion, 6, "     -")


def _build_document(report: JudgeReport, result: MeasuredAgreement) -> dict[str, object]:
    """Build everything as plain data; the same at every run except for the model's words."""
    figures, found = judging.compute_figures(report.judged), result.agreement
    agreement = found and {
        **options.build_share(found.share), "kappa": found.kappa, "confusion": found.confusion,
        "disagreements": found.disagreements,
    }  # fmt: skip
    invented = {"answers": figures.invented_in_answers, "verdicts": figures.invented_in_verdicts}
    briefs = [
        {
            "case": brief.case, "goal": brief.goal, "sha256": brief.sha256,
            "author": brief.by.author, "model": brief.by.model, "fell": brief.by.fell,
            "probes": [
                {**asdict(one.item.probe), "answer": one.item.answer, "verdict": one.verdict}
                for one in report.judged
                if one.item.case == brief.case
            ],
        }
        for brief in report.briefs
    ]  # fmt: skip
    return {
        "judge": report.judge, "agreement": agreement, "agreement_reason": result.reason,
        "trusted": found.is_trusted if found else None, "ignored_labels": result.ignored,
        "passed": {kind: options.build_share(passed) for kind, passed in figures.passed.items()},
        "unjudged": figures.unjudged, "uncited": figures.uncited, "invented_refs": invented,
        "briefs": briefs, "left_out": report.left_out, "stopped": report.stopped,
        "cost": report.cost, "authors_cost": _sum_author_costs(report),
    }  # fmt: skip
