"""Real programs compact five times in a row, and after each the model has every rule of the user once."""

import os

import npm_programs
import pytest
from agents import PROGRAMS
from compaction import COMPACTIONS, RULES, Talk, held
from conftest import World
from inside import tasuki
from selection import by_default

pytestmark = pytest.mark.e2e

NAMES = [
    n for n in PROGRAMS if npm_programs.in_every_run(n) or os.environ.get("TASUKI_E2E") == "all"
]


def keep(world: World, name: str) -> None:
    """Install what takes part in the program's compactions."""
    tasuki(world, "install", name, "--keep", "--yes")


@pytest.mark.parametrize("name", by_default(NAMES, "claude", "pi"))
def test_rules_hold_over_five_compactions_asked_for(name: str, world: World) -> None:
    """The request after each `/compact` is that of the next prompt, and holds each rule once."""
    talk = Talk(world, name)
    keep(world, name)
    talk.said()
    pane = talk.opened()
    for compaction in range(1, COMPACTIONS + 1):
        talk.compacted(pane, compaction)
        request = talk.asked(pane, compaction)
        assert request.count_text(f"Round {compaction}:") == 1
        assert [request.count_text(rule) for rule in RULES] == [1] * 5, compaction


@pytest.mark.parametrize("name", by_default(NAMES, "claude", "codex", "pi"))
def test_rules_hold_over_five_compactions_in_the_middle_of_a_turn(name: str, world: World) -> None:
    """The agent goes on by itself with each rule once; in Copilot CLI from its second request on."""
    talk = Talk(world, name)
    keep(world, name)
    talk.said()
    talk.worked()
    for compaction in range(1, COMPACTIONS + 1):
        request = talk.after(compaction)[talk.way.late]
        assert [request.count_text(rule) for rule in RULES] == [1] * 5, compaction


@pytest.mark.parametrize("asked_for", [False, True])
@pytest.mark.parametrize("name", by_default(NAMES, "pi"))
def test_without_help_the_rules_that_a_summary_leaves_out_are_gone(
    name: str, asked_for: bool, world: World
) -> None:
    """The model is left with the rules that the harness's summary holds, each once."""
    talk = Talk(world, name, 1)
    talk.said()
    if asked_for:
        pane = talk.opened()
        talk.compacted(pane, 1)
        request = talk.asked(pane, 1)
    else:
        talk.worked()
        request = talk.after(1)[0]
    assert [request.count_text(rule) for rule in RULES] == [rule in held(1) for rule in RULES]
