"""The lines of *State of the work* on real threads, judged against labels made by reading."""

from pathlib import Path

import pytest
import state_judging
from fixture_threads import CORPUS
from state_judging import Cut, Judgement, count_verdicts, load_cuts

from tasuki.model import Item

LEAST_RIGHT, LEAST_RIGHT_OF_A_KIND, MANY = 0.985, 0.9, 10
"""Shares of right lines: of all, and of each kind with that many judged lines."""
LEAST_TOLD, LEAST_JUDGED = 0.8, 280
"""The share of labelled facts that are told, and the number of judged lines."""


@pytest.fixture(scope="module")
def judgement() -> Judgement:
    """The verdicts on all cuts whose threads the corpus holds; skips where it holds none."""
    cuts = [c for c in load_cuts() if CORPUS and state_judging.find_file(Path(CORPUS), c).is_file()]
    if not cuts:
        pytest.skip("no corpus")
    assert len(cuts) == len(load_cuts()), "the corpus holds only a part of the labelled threads"
    return state_judging.judge_corpus(Path(CORPUS), cuts)


def explain_wrong_lines(judgement: Judgement) -> str:
    """Every wrong line with the reason, one a line."""
    wrong = [v for v in judgement.verdicts if v.result == "wrong"]
    return "\n".join(f"{v.cut}: {v.text} ({v.reason})" for v in wrong)


def test_state_lines_are_right(judgement: Judgement) -> None:
    """At least 98.5 % of all judged lines, and 90 % of each kind of which there are many."""
    counts = count_verdicts(judgement.verdicts)
    right = sum(r for _, r, _ in counts.values())
    judged = right + sum(w for _, _, w in counts.values())
    weak = [
        kind
        for kind, (_, r, w) in counts.items()
        if r + w >= MANY and r < LEAST_RIGHT_OF_A_KIND * (r + w)
    ]

    assert right >= LEAST_RIGHT * judged, explain_wrong_lines(judgement)
    assert weak == [], explain_wrong_lines(judgement)


def test_enough_is_told(judgement: Judgement) -> None:
    """Branches, live commits of the branch in use and last test results; nothing passes by silence."""
    judged = sum(v.result != "unjudged" for v in judgement.verdicts)
    shares = {name: recall.share for name, recall in judgement.recall.items()}

    assert judged >= LEAST_JUDGED
    assert all(share >= LEAST_TOLD for share in shares.values()), shares


CUT = Cut(
    file="claude-code/repo/1234.jsonl.gz",
    lines=100,
    branch="main",
    tree_clean=False,
    todo_in_progress=1,
    todo_open=2,
    refused=(40,),
    uncommitted=("src/app/main.py", "README.md", "../other/x.py"),
    commits=(
        state_judging.CommitLabel("1111111", "main", pushed=True, gone=False),
        state_judging.CommitLabel("2222222", "main", pushed=False, gone=False),
        state_judging.CommitLabel("3333333", "main", pushed=True, gone=True),
        state_judging.CommitLabel("4444444", "topic", pushed=None, gone=False),
    ),
    checks=(state_judging.CheckLabel("test", 50, "failed", edited_since=True),),
    running=(state_judging.RunningLabel(60, "npm run dev"),),
    pull_requests=(state_judging.PullLabel(7, "open", created_here=True),),
)

LINES = [
    ("Committed on `main`", "`2222222` two (no push seen); `1111111` one (pushed)", "right"),
    ("Committed on `main`", "`1111111` a; b — pushed", "right"),
    ("Committed on `main`", "`1111111` one — no push seen", "wrong"),
    ("Committed on `main`", "`3333333` gone — pushed", "wrong"),
    ("Committed on `main`", "`1111111` one; 1 earlier — pushed", "wrong"),
    ("Committed on `main`", "`1111111` one — pushed; git called the tree clean", "wrong"),
    ("Committed on `topic`", "`1111111` one — pushed", "wrong"),
    ("Committed on `topic`, earlier", "`4444444` four", "right"),
    ("Committed on `topic`, earlier", "`4444444` four — no push seen", "right"),
    ("Branch", "`main`", "right"),
    ("Branch", "`main`; nothing was committed in this thread", "wrong"),
    ("Branch", "`other`", "wrong"),
    ("Not committed yet", "`main.py`, `README.md`", "right"),
    ("Not committed yet", "`main.py` and 1 more", "right"),
    ("Not committed yet", "`main.py`", "wrong"),
    ("Not committed yet", "`main.py`, and what `make fmt` changed", "right"),
    ("Not committed yet", "`main.py`, `other.py`", "wrong"),
    ("Pull requests, as last seen", "#7 open, made in this thread", "right"),
    ("Pull requests, as last seen", "#7 merged, made in this thread", "wrong"),
    ("Pull requests, as last seen", "#8 open", "wrong"),
    ("Tests", "`pytest` FAILED: `1 failed`; edited since: `main.py`", "right"),
    ("Tests", "`pytest` passed: `1 passed`; edited since: `main.py`", "wrong"),
    ("Tests", "`pytest` FAILED: `1 failed`; nothing edited since", "wrong"),
    ("Build", "`make` passed; nothing edited since", "wrong"),
    ("Todo list, in progress", "one", "right"),
    ("Todo list, open", "one; two; three", "wrong"),
    ("Todo list, done", "one", "unjudged"),
    ("Refused by the user", "Bash `rm x`", "right"),
    ("", "Background command `npm run dev` was started; no end", "right"),
    ("", "Background command `npm run other` was started; no end", "wrong"),
]


@pytest.mark.parametrize(("label", "text", "result"), LINES)
def test_the_judge_tells_right_from_wrong(label: str, text: str, result: str) -> None:
    """A gate is evidence only once it was shown to fail."""
    line = 40 if label.startswith("Refused") else 41
    (verdict,) = state_judging.judge_items(
        CUT, [Item(text=text, refs=(1,), label=label)], lambda _: line
    )

    assert (verdict.result, verdict.text) == (result, f"{label}: {text}")


def test_a_line_on_two_checks_is_judged_once_for_each() -> None:
    """One of them may be right and the other wrong."""
    item = Item(text="`make` FAILED; edited since: `a`", refs=(1,), label="Tests and Build")

    verdicts = state_judging.judge_items(CUT, [item], lambda _: 0)

    assert [(v.kind, v.result) for v in verdicts] == [("Tests", "right"), ("Build", "wrong")]
