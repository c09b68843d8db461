"""What becomes of recorded answers of an able author, where the corpora are there."""

import os
from pathlib import Path

import pytest
from author_answers import BUDGETS, Fate, cut_thread, judge_answer, load_answers

CORPORA = Path(os.environ.get("TASUKI_CORPORA") or os.devnull)
"""The folder with the threads that the recorded answers name."""
KNOWN = frozenset(
    (
        "`storybook/tsconfig.json` 的 `moduleResolution` 已经改成了 `Bundler`。",
        "Both fixes were written by an Opus 5 agent in the background.",
        "One engine test was skipped in the Release run.",
        "O `.gitignore` ignora também `tests/benchmark_fase2a/results`.",
        "The user wants `clear` to keep the default profile when `--profile` is given.",
        "`daemon status` fails when the socket is missing, as `clear` does.",
    )
)
"""Planted errors that no rule finds yet: the words of each stand near the entries that it cites."""
LEAST_IN_BRIEF = {1_000: 0.6, 2_000: 0.9, 4_000: 0.9}

pytestmark = pytest.mark.skipif(
    not CORPORA.is_dir(), reason="needs TASUKI_CORPORA, the folder with the threads"
)


@pytest.fixture(scope="module")
def fates(tmp_path_factory: pytest.TempPathFactory) -> dict[int, list[Fate]]:
    """What becomes of every item, by budget."""
    folder = tmp_path_factory.mktemp("answers")
    cut = [(one, *cut_thread(one, CORPORA, folder)) for one in load_answers()]
    return {b: [fate for one in cut for fate in judge_answer(*one, b)] for b in BUDGETS}


@pytest.mark.parametrize("budget", BUDGETS)
def test_true_items_stay(fates: dict[int, list[Fate]], budget: int) -> None:
    """At most one in a hundred is dropped, and most of them are in the brief."""
    true = [fate for fate in fates[budget] if not fate.is_false]
    in_brief = [fate for fate in true if fate.fate in ("printed", "marked")]
    dropped = [f for f in true if f.lost_note or f.fate not in ("printed", "marked", "room")]

    assert len(dropped) <= 0.01 * len(true), dropped
    assert len(in_brief) >= LEAST_IN_BRIEF[budget] * len(true)


@pytest.mark.parametrize("budget", BUDGETS)
def test_planted_errors_are_dropped_or_marked(fates: dict[int, list[Fate]], budget: int) -> None:
    """None is printed as if the thread bore it, but for those that are known."""
    passed = {fate.text for fate in fates[budget] if fate.is_false and fate.fate == "printed"}

    assert passed <= KNOWN


def test_every_planted_error_is_an_item(fates: dict[int, list[Fate]]) -> None:
    """The answers hold what they say is false in them."""
    planted = sum(len(one.false) for one in load_answers())

    assert sum(fate.is_false for fate in fates[BUDGETS[0]]) == planted == 33
