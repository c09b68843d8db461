"""What each part of the offline author is worth: every figure with that part taken out alone.

    python bench/ablation.py CORPUS --questions SET…           print the table
    python bench/ablation.py CORPUS --questions SET… --write   into workshop/evaluation.md

CORPUS is a file or folder of threads; figures alone are written. Questions are paired with what
everything answers: `+1 −3` are won and lost. A part that moves none of the figures has no place
in the program.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "workshop"), str(ROOT / "bench")]

from evaluation import PAGE, put_block  # noqa: E402

# Before the program of the same name in bench/.
sys.path.insert(0, str(ROOT / "tests" / "support"))
from planted import judging  # noqa: E402

from tasuki.config.settings import LoadedSettings, Settings  # noqa: E402
from tasuki.draft import assemble, pipeline  # noqa: E402
from tasuki.draft.authors import choices, offline  # noqa: E402
from tasuki.draft.rank import block_worth, excerpts, history, relevance  # noqa: E402
from tasuki.draft.text import language_cues  # noqa: E402
from tasuki.errors import TasukiError  # noqa: E402
from tasuki.harness import registry as harnesses  # noqa: E402
from tasuki.model import Goal  # noqa: E402
from tasuki_evals import question_runs, question_sets  # noqa: E402
from tasuki_evals.continuation import cuts, metric  # noqa: E402
from tasuki_evals.continuation.cuts import list_sources, unpack_source  # noqa: E402
from tasuki_evals.statistics import compute_thread_means  # noqa: E402

Change = tuple[Any, str, Any]


def _without(section: str) -> Change:
    return offline.DraftComposer, f"_{section}", lambda self, room: []


def _shares(table: str, **shares: float) -> Change:
    return offline, table, {**getattr(offline, table), **shares}


PARTS: dict[str, tuple[Change, ...]] = {
    "everything": (),
    "without the state": (_without("state"),),
    "without the user's words": (_without("asked"),),
    "without what the goal speaks of": (_without("about"),),
    "without the rules of guides": (_without("rules"),),
    "without the last steps": (_without("steps"),),
    "without the files": (_without("files"),),
    "without the commands": (_without("commands"),),
    "without what was read or printed last": (_without("printed"),),
    "without the metadata": ((assemble, "build_metadata_lines", lambda thread, revision: []),),
    "files without names": ((offline, "NAMES_SHARE", 0.0),),
    "without the wording of a block (sentence weights)": ((block_worth, "weigh_cue", lambda text: 1.0), (offline, "weigh_cue", lambda text: 1.0)),
    "plans and reports keep their worth": ((block_worth, "REPORT_MIN_WORTH", 1.0),),
    "sub-agents' reports kept beside what followed from them": ((block_worth, "USED_REPORT_WORTH", 0.8),),
    "findings whose code was edited since": ((block_worth, "EDITED_SHARE", 9.0),),
    "settings that were changed since": ((block_worth.BlockWorth, "_is_overtaken", lambda self, block: False),),
    "remarks in the middle of a turn that tell nothing": ((block_worth, "is_passing", lambda text: False),),
    "what a message announces": ((language_cues, "is_announcement", lambda text: False), (block_worth, "only_announces", lambda text: False)),
    "offers that were answered": ((language_cues, "is_offer", lambda text: False),),
    "without what the goal shares": ((relevance.Relevance, "measure_overlap", lambda self, text: 0.0),),
    "without `told once`": ((excerpts, "REPEAT_FACTOR", 1.0),),
    "names worth as much as words": ((excerpts, "NAME_WEIGHT", 1.0),),
    "user: without the last messages first": ((history, "LATE_BONUS", 0.0),),
    "user: without the first message first": ((history, "FIRST_BONUS", 0.0),),
    "user: without standing rules and decisions first": ((history, "RULE_BONUS", 0.0), (history, "DECISION_BONUS", 0.0)),
    "user: with small talk": ((history, "says_nothing", lambda text: False),),
    "user: without answered questions last": ((history, "ANSWERED_PENALTY", 0.0),),
    "files: by edits and reads alone": (
        (relevance.FileRanks, "compute_terms", lambda self, file: {"touched": len(file.edits) + len(file.reads)}),
    ),
    "files: without what is only spoken of": ((choices, "MAX_MENTIONED", 0),),
}  # fmt: skip
COLUMNS = ("edit", "file", "cmd", "id", "p5")


class Figures(NamedTuple):
    """What one variant reaches."""

    answered: tuple[tuple[bool, ...], ...]
    """For each set, whether each question was answered directly."""
    continued: tuple[float, ...]
    """The columns of the continuation benchmark at cuts."""
    planted: int


def main() -> None:
    """Measures every variant and prints or writes the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpus", nargs="+", type=Path)
    parser.add_argument("--questions", nargs="+", type=Path, default=[])
    parser.add_argument("--budget", type=int, default=2_000, metavar="TOKENS")
    parser.add_argument(
        "--only", default="", metavar="WORDS", help="variants in whose name these words are"
    )
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    names = [name for name in PARTS if name == "everything" or given.only in name]
    measure = partial(
        measure_variant, sets=given.questions, corpus=given.corpus, budget=given.budget
    )
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        found = dict(zip(names, pool.map(measure, names), strict=True))
    table = "\n".join(format_rows(found, [path.stem for path in given.questions]))
    if given.write:
        PAGE.write_text(put_block(PAGE.read_text(), "ablation", table))
    else:
        print(table)


def format_rows(found: Mapping[str, Figures], sets: Sequence[str]) -> Iterator[str]:
    """Yield the table: questions paired with those that everything answers, `+1 −3`."""
    whole = found["everything"]
    heads = [*sets, *COLUMNS, "planted"]
    yield f"| variant | {' | '.join(heads)} |"
    yield f"|---|{'---|' * len(heads)}"
    for name, one in found.items():
        cells = []
        for mine, base in zip(one.answered, whole.answered, strict=True):
            won = sum(a and not b for a, b in zip(mine, base, strict=True))
            lost = sum(b and not a for a, b in zip(mine, base, strict=True))
            cells.append(
                f"{sum(mine)} of {len(mine)}" + (f" (+{won} −{lost})" if won or lost else "")
            )
        cells += [f"{value:.3f}" for value in one.continued]
        yield f"| {name} | {' | '.join(cells)} | {one.planted} of 50 |"


def measure_variant(
    name: str, sets: Sequence[Path], corpus: Sequence[Path], budget: int
) -> Figures:
    """Measure all figures with one part of the author replaced."""
    with changed(PARTS[name]):
        answered = tuple(tuple(list_answered(path, corpus, budget)) for path in sets)
        return Figures(answered, tuple(continued(corpus, budget)), kept())


@contextmanager
def changed(changes: Sequence[Change]) -> Iterator[None]:
    """Parts of the author replaced for a while. Raises AttributeError for one that is not there."""
    with ExitStack() as stack:
        for owner, name, value in changes:
            stack.enter_context(patch.object(owner, name, value))
        yield


def list_answered(path: Path, corpus: Sequence[Path], budget: int) -> Iterator[bool]:
    """Yield whether each question of a set is answered directly; at compactions at the summary's length."""
    found = question_sets.load_questions(path)
    summaries = all(case.summary_line is not None for case in found.threads)
    options = question_runs.QuestionOptions(budget=None if summaries else budget)
    report = question_runs.ask_questions(found, path.name, corpus, options, workers=1)
    for case in report.cases:
        yield from (verdict == "direct" for verdict in case.methods["tasuki"].verdicts)


def continued(corpus: Sequence[Path], budget: int) -> list[float]:
    """The continuation benchmark's columns at cuts."""
    loaded = LoadedSettings(Settings(budget=budget))
    values: dict[str, dict[str, list[float]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for source in list_sources(corpus):
            path = unpack_source(source, Path(folder))
            try:
                harness = harnesses.detect_harness(path)
                thread = harness.read(path)
            except TasukiError:
                continue  # A list of the corpus, no thread.
            for cut in cuts.find_cuts(thread):
                if cut.kind == "cut":
                    score(harness, source.display_name, cut, loaded, Path(folder), values)
    means = {column: compute_thread_means(per) for column, per in values.items()}
    return [sum(means[c]) / len(means[c]) if c in means else 0.0 for c in COLUMNS]


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


def kept() -> int:
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
    return count


if __name__ == "__main__":
    main()
