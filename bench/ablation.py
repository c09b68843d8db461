"""What each part of the offline author is worth: every figure with that part taken out alone.

    python bench/ablation.py CORPUS --questions SET…           print the table
    python bench/ablation.py CORPUS --questions SET… --write   into docs/evaluation.md

CORPUS is a file or folder of threads; figures alone are written. A part that moves none of the
figures has no place in the program.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "bench")]

from evaluation import PAGE, put_block  # noqa: E402

# Before the program of the same name in bench/.
sys.path.insert(0, str(ROOT / "tests" / "support"))
from planted import judging  # noqa: E402

from tasuki.config.settings import LoadedSettings, Settings  # noqa: E402
from tasuki.draft import pipeline  # noqa: E402
from tasuki.draft.authors import choices, offline  # noqa: E402
from tasuki.draft.rank import block_worth, excerpts, history, relevance  # noqa: E402
from tasuki.draft.text import language_cues  # noqa: E402
from tasuki.harness import registry as harnesses  # noqa: E402
from tasuki.model import Goal  # noqa: E402
from tasuki_evals import question_runs, question_sets  # noqa: E402
from tasuki_evals.continuation import cuts, metric  # noqa: E402
from tasuki_evals.continuation.cuts import list_sources, unpack_source  # noqa: E402
from tasuki_evals.statistics import compute_thread_means  # noqa: E402

BUDGET = 2_000
Change = tuple[Any, str, Any]
PARTS: dict[str, tuple[Change, ...]] = {
    "everything": (),
    "without the wording of a block (sentence weights)": ((block_worth, "cue_of", lambda text: 1.0), (offline, "cue_of", lambda text: 1.0)),
    "plans and reports keep their worth": ((block_worth, "REPORT_LEAST", 1.0),),
    "code and tables of earlier turns as worth as text": ((block_worth, "IN_CODE", 1.0),),
    "sub-agents' reports kept beside what followed from them": ((block_worth, "DRAWN_ON", 0.8),),
    "findings whose code was edited since keep their worth": ((block_worth, "WORKED_OFF", 1.0), (block_worth, "OVERTAKEN", 1.0)),
    "with offers that were answered": ((offline, "without_offers", lambda blocks: blocks),),
    "with what a message announces": ((language_cues, "without_announcement", lambda text: text), (block_worth, "ANNOUNCED", 1.0)),
    "without what the goal shares": ((block_worth.BlockWorth, "_compare_with_goal", lambda self, block: 0.0),),
    "without the topic of the last messages": ((block_worth, "NEAR", 0.0),),
    "without `told once`": ((excerpts, "TOLD_AGAIN", 1.0),),
    "names worth as much as words": ((excerpts, "NAME_WEIGHT", 1.0),),
    "user: without the last messages first": ((history, "LATE", 0.0),),
    "user: with every yes": ((history, "is_approval", lambda text: False),),
    "user: without answered questions last": ((history, "ANSWERED", 0.0),),
    "files: by edits and reads alone": (
        (relevance.FileRanks, "terms", lambda self, file: {"touched": len(file.edits) + len(file.reads)}),
    ),
    "files: without what is only spoken of": ((choices, "SPOKEN_OF", 0),),
    "without the room kept for conclusions": ((offline, "KEPT", {}),),
}  # fmt: skip


def main() -> None:
    """Measures every variant and prints or writes the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpus", nargs="+", type=Path)
    parser.add_argument("--questions", nargs="+", type=Path, required=True)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    heads = [
        *(f"{path.stem}, direct" for path in given.questions),
        "edit",
        "file",
        "cmd",
        "id",
        "p5",
        "planted",
    ]
    lines = [f"| variant | {' | '.join(heads)} |", f"|---|{'---|' * len(heads)}"]
    for name, changes in PARTS.items():
        with changed(changes):
            cells = [*asked(given.questions, given.corpus), *continued(given.corpus), kept()]
        lines.append(f"| {name} | {' | '.join(cells)} |")
        print(lines[-1], file=sys.stderr)
    table = "\n".join(lines)
    if given.write:
        PAGE.write_text(put_block(PAGE.read_text(), "ablation", table))
    else:
        print(table)


@contextmanager
def changed(changes: Sequence[Change]) -> Iterator[None]:
    """Parts of the author replaced for a while."""
    with ExitStack() as stack:
        for owner, name, value in changes:
            stack.enter_context(patch.object(owner, name, value))
        yield


def asked(sets: Sequence[Path], corpus: Sequence[Path]) -> Iterator[str]:
    """Questions answered directly, of all, for each set."""
    for path in sets:
        found = question_sets.load_questions(path)
        summaries = all(case.summary_line is not None for case in found.threads)
        options = question_runs.QuestionOptions(budget=None if summaries else BUDGET)
        report = question_runs.ask_questions(found, path.name, corpus, options, workers=1)
        verdicts = [v for case in report.cases for v in case.methods["tasuki"].verdicts]
        yield f"{verdicts.count('direct')} of {len(verdicts)}"


def continued(corpus: Sequence[Path]) -> list[str]:
    """The continuation benchmark's columns at cuts."""
    loaded = LoadedSettings(Settings(budget=BUDGET))
    values: dict[str, dict[str, list[float]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for source in list_sources(corpus):
            path = unpack_source(source, Path(folder))
            harness = harnesses.detect_harness(path)
            for cut in cuts.find_cuts(harness.read(path)):
                if cut.kind == "cut":
                    score(harness, source.display_name, cut, loaded, Path(folder), values)
    means = {column: compute_thread_means(per) for column, per in values.items()}
    columns = ("edit", "file", "cmd", "id", "p5")
    return [f"{sum(means[c]) / len(means[c]):.3f}" for c in columns]


def score(
    harness: Any, name: str, cut: cuts.ThreadCut, loaded: LoadedSettings, folder: Path,
    values: dict[str, dict[str, list[float]]],
) -> None:  # fmt: skip
    """Add the figures of one cut."""
    part = folder / "part"
    part.mkdir(exist_ok=True)
    try:
        copy = cuts.write_predecessor_copy(harness, cut, part)
    except ValueError:
        return
    made = pipeline.make_handoff(
        harness, copy, Goal(cut.goal, forced=True), loaded,
        handoff_id="0" * 32, to=harness.name, replay=True,
    )  # fmt: skip
    opened = metric.collect_used(cut.future, cut.predecessor.cwd).opened
    for column, value in metric.score_handoff(
        cuts.find_cut_targets(cut), made.context, opened
    ).values.items():
        if value is not None:
            values.setdefault(column, {}).setdefault(name, []).append(value)


def kept() -> str:
    """Planted facts kept in 6,000 characters, of fifty."""
    loaded, count = LoadedSettings(Settings(budget=judging.BUDGET)), 0
    with tempfile.TemporaryDirectory() as folder:
        for script in judging.scripts():
            path = script.thread.write(Path(folder) / script.thread.file_name())
            harness = harnesses.detect_harness(path)
            made = pipeline.make_handoff(
                harness, path, Goal(script.goal, forced=True), loaded,
                handoff_id="0" * 32, to=harness.name, replay=True,
            )  # fmt: skip
            count += len(judging.verdict(script, made.context).kept)
    return f"{count} of 50"


if __name__ == "__main__":
    main()
