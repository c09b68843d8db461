"""The real oh-my-pi takes a handoff over: the past in its context once, the goal unsent in its input."""

import pytest
from conftest import World
from handoffs import made
from waiting import retry_until

from tasuki.harness.protocol import LaunchRequest
from tasuki.harness.registry import get_harness
from tasuki.launch import start

pytestmark = pytest.mark.e2e

GOAL = "Fix the login timeout and then run the tests again"
MARKER = "HANDOFF-MARKER-8"
CONTEXT = f"# Handoff Context\n\n- {MARKER}: the timeout is 30 s [#3]"


def test_in_tmux(with_omp: World) -> None:
    """The session file opens, the goal stands unsent; after Enter the model has the past once."""
    brief = f"{CONTEXT}\n\n## Goal\n\n{GOAL}"
    request = LaunchRequest(
        made(goal=GOAL, to="omp"), brief, CONTEXT, str(with_omp.project), arguments=("--no-title",)
    )
    launched = start(get_harness("omp").plan(request), "tmux", socket=with_omp.terminal.socket)

    assert launched.filled
    with_omp.shows(launched.pane, GOAL)
    with_omp.until_quiet(launched.pane)
    assert with_omp.model.find_requests(MARKER) == []
    with_omp.terminal.keys(launched.pane, "Enter")
    (asked,) = retry_until(lambda: with_omp.model.find_requests("login timeout"), 30)
    assert asked.count_text(MARKER) == 1
    assert GOAL in asked.prompt
