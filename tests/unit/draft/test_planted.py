"""A brief without a model keeps what was planted in made-up threads, and repeats nothing outdated."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from planted import judging
from planted.judging import Verdict
from planted.script import Fact, Script, holds


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> list[Verdict]:
    """The verdicts on the five threads."""
    return judged(tmp_path_factory.mktemp("plain"), with_held_out=False)


@pytest.fixture(scope="module")
def dense(tmp_path_factory: pytest.TempPathFactory) -> list[Verdict]:
    """The verdicts on the same threads with the held-out facts in between."""
    return judged(tmp_path_factory.mktemp("dense"), with_held_out=True)


def judged(folder: Path, with_held_out: bool) -> list[Verdict]:
    """tasuki's briefs, judged."""
    return [
        judging.verdict(s, judging.of_tasuki(s, folder)) for s in judging.scripts(with_held_out)
    ]


def told(facts: list[Fact]) -> str:
    """Facts by thread and kind, for the message of a failed test."""
    return "\n".join(f"{f.kind}, {f.role}: {f.text}" for f in facts)


def test_forty_of_fifty_planted_facts_are_kept(plain: list[Verdict]) -> None:
    """Constraints, decisions, numbers, failures, todos and questions survive in 6,000 characters."""
    kept, lost = [f for v in plain for f in v.kept], [f for v in plain for f in v.lost]

    assert len(kept) + len(lost) == 50
    assert len(kept) >= 40, f"{len(kept)} of 50 kept; lost:\n{told(lost)}"


def test_what_no_longer_holds_is_not_told_as_true(plain: list[Verdict]) -> None:
    """Revised numbers, wishes taken back, foreign instructions and fixed errors stay out."""
    leaked = [f"{v.name}, {d.kind}: {line}" for v in plain for d, line in v.leaked]

    assert len(leaked) <= 1, "\n".join(leaked)


def test_briefs_of_the_planted_threads_keep_to_the_bound(
    plain: list[Verdict], dense: list[Verdict]
) -> None:
    """A brief without its goal has at most 6,000 characters."""
    assert max(v.size for v in plain + dense) <= judging.CHARACTERS


def test_held_out_facts_are_kept_too(
    dense: list[Verdict], record_property: Callable[[str, object], None]
) -> None:
    """Facts that nothing was tuned to survive beside the others; only their kinds are reported."""
    kept = [f for v in dense for f in v.held_out_kept]
    lost = Counter(f.kind for v in dense for f in v.held_out_lost)
    record_property("held_out_kept", len(kept))

    assert len(kept) + lost.total() == 25
    assert len(kept) >= 16, f"{len(kept)} of 25 kept; lost: {dict(lost)}"


@pytest.mark.parametrize("script", judging.scripts(True), ids=lambda s: s.name)
def test_the_threads_are_what_the_figures_say(script: Script) -> None:
    """Ten facts and five held-out ones, each found in its own sentence and nowhere in the goal."""
    facts = script.facts

    assert [sum(f.held_out is held for f in facts) for held in (False, True)] == [10, 5]
    assert [f.text for f in facts if not holds(f.text, f.needs, f.unless)] == []
    assert [f.text for f in facts if holds(script.goal, f.needs)] == []
    assert 60 <= script.entries <= 250


@pytest.mark.parametrize("script", judging.scripts(True), ids=lambda s: s.name)
def test_the_judge_can_say_no(script: Script) -> None:
    """An empty brief keeps nothing, one of the planted sentences keeps all and leaks nothing."""
    told = "## Context\n" + "\n".join(f"- {f.text}" for f in script.facts)
    empty, full = judging.verdict(script, ""), judging.verdict(script, told)

    assert not empty.kept
    assert not empty.held_out_kept
    assert not full.lost
    assert not full.held_out_lost
    assert not full.leaked


@pytest.mark.parametrize("script", judging.scripts(), ids=lambda s: s.name)
def test_every_decoy_can_be_caught(script: Script) -> None:
    """Told as they once were, all decoys of a thread leak."""
    verdict = judging.verdict(script, "\n".join(script.written))

    assert [d.kind for d in script.decoys] == [d.kind for d, _ in verdict.leaked]
