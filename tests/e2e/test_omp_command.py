"""`/tasuki` typed in the real oh-my-pi, after `tasuki install omp`."""

import pytest
from conftest import ANSWER, World
from inside import WISH, conversation, installed, opened, typed
from waiting import retry_until

pytestmark = pytest.mark.e2e

GOAL = "add the missing test for the parser"
CLOSING = "The above is a handoff document from a previous session."


def talking(world: World) -> str:
    """oh-my-pi after one turn, with tasuki installed; its pane."""
    assert "Hand off inside oh-my-pi: /tasuki GOAL" in installed(world, "omp")
    pane = opened(world, ["omp", "--no-title"])
    world.shows(pane, "π >")
    return conversation(world, pane)


def test_a_handoff_is_reviewed_and_the_goal_waits_in_the_successor(with_omp: World) -> None:
    """Its own /handoff compacts in place; here the context of a new session holds the brief once."""
    world = with_omp
    pane = talking(world)
    typed(world, pane, f"/tasuki {GOAL}")

    world.shows(pane, "look it over. Nothing is sent yet.")
    world.until_quiet(pane)
    world.terminal.keys(pane, "C-q")  # Enter begins a new line
    world.shows(pane, "New session started with handoff context")
    world.shows(pane, GOAL)
    assert len(world.model.find_requests(WISH)) == len(world.model.log)

    world.terminal.keys(pane, "Enter")
    (request,) = retry_until(lambda: world.model.find_requests(GOAL), 20)
    assert request.count_text(WISH) == 1
    assert request.count_text(CLOSING) == 1
    world.shows(pane, ANSWER)
    (handoff,) = world.vault.list_handoffs()
    assert handoff.goal.text == GOAL
