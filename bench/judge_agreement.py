"""Has a model judge the labelled answers of `bench/judged` again, and counts how often it agrees with the labels.

    .venv/bin/python bench/judge_agreement.py                          the small model of the tests
    .venv/bin/python bench/judge_agreement.py --model PROVIDER/MODEL   one that your own settings can ask
    .venv/bin/python bench/judge_agreement.py --write                  the table into workshop/evaluation.md
    .venv/bin/python bench/judge_agreement.py --minutes 20             stop then; the rest has no verdict

Three judges that think nothing stand beside it: one that always passes, one that always fails, and one
that passes an answer which has half of the words of the truth's first line. A model that is not far
above these is no judge.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import takewhile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [
    str(ROOT / "src"),
    str(ROOT / "workshop"),
    str(ROOT / "tests"),
    str(ROOT / "tests" / "support"),
]

import small_model  # noqa: E402
from msgspec.structs import replace  # noqa: E402

from tasuki.config import settings  # noqa: E402
from tasuki.config.settings import LoadedSettings, Provider, Settings  # noqa: E402
from tasuki.errors import TasukiError  # noqa: E402
from tasuki_evals.judge import labels  # noqa: E402
from tasuki_evals.judge.judge import AnsweredProbe, JudgedProbe, JudgeRun  # noqa: E402
from tasuki_evals.judge.judge_model import BriefJudge, JudgeVerdict, choose_endpoint  # noqa: E402
from tasuki_evals.judge.labels import (  # noqa: E402
    JudgeLabel,
    MeasuredAgreement,
    SavedBrief,
)

FOLDER = ROOT / "bench" / "judged"
PAGE = ROOT / "workshop" / "evaluation.md"
BEGIN, END = "<!-- agreement -->\n", "<!-- /agreement -->\n"
SECONDS = 180
"""Time limit of one verdict of the small model."""
WINDOW = 2_048
"""Told of the small model, so that a verdict that does not end is cut at 512 tokens."""
SHARED = 0.5
"""Of the truth's words, for the judge that counts words. Chosen before it was tried on the labels."""


def main() -> None:
    """Judge, and print or write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", metavar="PROVIDER/MODEL", help="default: the small model")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="default: bench/judged")
    parser.add_argument(
        "--limit", type=_count, metavar="N", help="at most N answers, the first ones"
    )
    parser.add_argument("--minutes", type=float, default=90, metavar="N", help="default: 90")
    parser.add_argument("--write", action="store_true", help="put the table into the docs")
    given = parser.parse_args()
    try:
        kept = first_answers(labels.read_saved_run(given.folder), given.limit)
        known = labels.read_labels(given.folder / labels.LABELS)
        with chosen_settings(given.model) as loaded:
            name, judged = judge_again(loaded, kept, given.minutes * 60)
    except (TasukiError, RuntimeError) as error:
        raise SystemExit(f"judge_agreement: {error}") from error
    items = [item for one in kept for item in one.items]
    text = render_table(name, judged, items, known)
    print(text)
    print_disagreements(labels.measure_agreement(known, judged))
    if given.write:
        write_block(text)


def _count(text: str) -> int:
    """A number of answers, as an argument."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is no number of answers; write 1 or more")
    return number


def first_answers(kept: Sequence[SavedBrief], limit: int | None) -> list[SavedBrief]:
    """The first briefs, with no more than `limit` answers of them all; all without a limit."""
    if limit is None:
        return list(kept)
    found: list[SavedBrief] = []
    for one in kept:
        if limit <= 0:
            break
        found.append(replace(one, items=one.items[:limit]))
        limit -= len(one.items)
    return found


# -- judging -------------------------------------------------------------------------------


@contextmanager
def chosen_settings(model: str | None) -> Iterator[LoadedSettings]:
    """The settings that name the judge; without a model the small one is served meanwhile."""
    if model:
        yield settings.load_with_sources(ROOT, {"model": model})
        return
    if reason := small_model.missing():
        raise RuntimeError(f"No small model: {reason}. Name another one: --model PROVIDER/MODEL.")
    with small_model.serving() as url:
        provider = Provider(base_url=url, window=WINDOW)
        name = f"small/{small_model.NAME}"
        yield LoadedSettings(
            Settings(model=name, author_seconds=SECONDS, providers={"small": provider})
        )


def judge_again(
    loaded: LoadedSettings, kept: Sequence[SavedBrief], seconds: float
) -> tuple[str, tuple[JudgedProbe, ...]]:
    """The judge's name and its verdicts on kept answers; after `seconds` no further one is asked for.

    Progress goes to standard error. Raises TasukiError, and RuntimeError if the model gives up.
    """
    begun = time.monotonic()
    total = sum(len(one.items) for one in kept)
    started = 0

    def tell(what: str) -> None:
        nonlocal started
        started += 1
        passed = time.monotonic() - begun
        print(f"{started}/{total}, {passed:.0f} s: {what}", file=sys.stderr, flush=True)

    with closing(BriefJudge(choose_endpoint(loaded), loaded.settings.author_seconds)) as judge:
        in_time = takewhile(lambda one: time.monotonic() - begun < seconds, kept)
        report = JudgeRun(judge, tell=tell).judge_saved((one.brief, one.items) for one in in_time)
    if report.stopped:
        raise RuntimeError(f"stopped after {len(report.judged)} verdicts. {report.stopped}")
    print(f"{report.judge}: {report.cost}.", file=sys.stderr)
    problems = Counter(one.verdict.problem for one in report.judged if one.verdict.problem)
    for problem, count in problems.most_common():
        print(f"No verdict, {count} times: {problem}", file=sys.stderr)
    return report.judge, report.judged


# -- judges that think nothing -------------------------------------------------------------


def shares_words(item: AnsweredProbe) -> bool:
    """Whether an answer has half of the words of the first line of its truth."""
    truth = _words(item.probe.truth.partition("\n")[0])
    answer = _words(item.answer.text if item.answer else "")
    return len(truth & answer) >= SHARED * len(truth)


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower()))


def trivial_judges(items: Sequence[AnsweredProbe]) -> dict[str, list[JudgedProbe]]:
    """The verdicts of judges that need no model, by what they do."""
    rules = {
        "passes everything": lambda item: True,
        "fails everything": lambda item: False,
        "passes what shares half of the truth's words": shares_words,
    }
    return {
        name: [JudgedProbe(item, JudgeVerdict("pass" if rule(item) else "fail")) for item in items]
        for name, rule in rules.items()
    }


# -- printing ------------------------------------------------------------------------------


def render_table(
    name: str,
    judged: Sequence[JudgedProbe],
    items: Sequence[AnsweredProbe],
    known: Sequence[JudgeLabel],
) -> str:
    """The agreement of a judge and of the trivial ones on some items, a row each."""
    asked = {(item.case, item.probe.id) for item in items}
    labelled = [label for label in known if (label.case, label.probe) in asked]
    wanted = sum(1 for label in labelled if label.label == "pass")
    rows = [
        "| judge | agrees | Cohen's kappa | passes, rightly | passes wrongly | fails wrongly | fails, rightly | no verdict |",
        "|---|---|---|---|---|---|---|---|",
        render_row(name, judged, len(items), known),
        *(render_row(what, of, len(items), known) for what, of in trivial_judges(items).items()),
    ]
    return "\n".join([*rows, "", f"{len(labelled)} labelled answers, {wanted} of them `pass`.", ""])


def render_row(
    name: str, judged: Sequence[JudgedProbe], of: int, known: Sequence[JudgeLabel]
) -> str:
    """One row: agreement with its interval, kappa, and the four counts; `of` items were to be judged."""
    without = of - sum(one.verdict.verdict is not None for one in judged)
    found = labels.measure_agreement(known, judged).agreement
    if found is None:
        return f"| {name} | – | – | – | – | – | – | {without} |"
    share, counts = found.share, found.confusion
    agrees = f"{share.hits}/{share.of}, {share.share:.0%} ({share.low:.0%}–{share.high:.0%})"
    kappa = "–" if found.kappa is None else f"{found.kappa:.2f}"
    cells = (counts.pass_pass, counts.pass_fail, counts.fail_pass, counts.fail_fail, without)
    return f"| {name} | {agrees} | {kappa} | {' | '.join(map(str, cells))} |"


def print_disagreements(found: MeasuredAgreement) -> None:
    """Each answer that judge and label see differently, with both critiques."""
    for apart in found.agreement.disagreements if found.agreement else ():
        print(f"{apart.case} {apart.probe}")
        print(f"    judge: {apart.judge}: {' '.join(apart.judge_critique.split())[:200]}")
        print(f"    label: {apart.label}: {apart.label_critique}")


def write_block(text: str) -> None:
    """Put the table between its marks in the page."""
    before, found, rest = PAGE.read_text("utf-8").partition(BEGIN)
    _, closed, after = rest.partition(END)
    if not (found and closed):
        raise SystemExit(f"{PAGE.name} has no block {BEGIN.strip()} … {END.strip()}")
    PAGE.write_text(f"{before}{BEGIN}{text}{END}{after}", "utf-8")


if __name__ == "__main__":
    main()
