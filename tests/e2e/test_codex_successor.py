"""The real Codex takes a handoff over: the brief pasted unsent into its input, the goal last."""

import sys
from pathlib import Path

import msgspec
import pytest
from conftest import ANSWER, World
from handoffs import made
from tree import PROGRAMS
from waiting import retry_until

from tasuki.harness.protocol import LaunchPlan, LaunchRequest
from tasuki.harness.registry import get_harness
from tasuki.launch import start

pytestmark = pytest.mark.e2e

GOAL = "Fix the login timeout in src/auth.py"
MARKER = "HANDOFF-MARKER-9"
BRIEF = f"# Handoff Context\n\n- {MARKER}: the timeout is 30 s [#3] ✓\n\n## Goal\n\n{GOAL}"
STARTER = str(PROGRAMS / "start_here.py")


def plan(world: World) -> LaunchPlan:
    """The plan of the Codex adapter; the program alone, without its background server."""
    handoff = made(goal=GOAL, to="codex")
    arguments = ("--no-daemon",)
    request = LaunchRequest(handoff, BRIEF, "", str(world.project), arguments=arguments)
    return get_harness("codex").plan(request)


def check_brief(world: World) -> None:
    """The model got the brief once, to the letter."""
    (request,) = retry_until(lambda: world.sent(MARKER), 20)

    assert request.prompt == BRIEF
    assert request.count_text(MARKER) == 1


def test_in_tmux(with_codex: World) -> None:
    """In tmux the brief stands unsent; after Enter the model gets it."""
    launched = start(plan(with_codex), "tmux", socket=with_codex.terminal.socket)

    assert launched.filled
    with_codex.shows(launched.pane, GOAL)
    with_codex.until_quiet(launched.pane)
    assert with_codex.model.find_requests(MARKER) == []
    with_codex.terminal.keys(launched.pane, "Enter")
    check_brief(with_codex)
    with_codex.shows(launched.pane, ANSWER)


def test_in_this_terminal(with_codex: World, tmp_path: Path) -> None:
    """In a plain terminal the relay fills the brief in, though the screen is painted by cells."""
    order, out = tmp_path / "plan.json", tmp_path / "out.txt"
    order.write_bytes(msgspec.json.encode(plan(with_codex)))
    pane = with_codex.terminal.open([sys.executable, STARTER, str(order), str(out)], tmp_path)

    with_codex.shows(pane, GOAL)
    with_codex.until_quiet(pane)
    assert with_codex.model.find_requests(MARKER) == []
    with_codex.terminal.keys(pane, "Enter")
    check_brief(with_codex)
    with_codex.shows(pane, ANSWER)
    with_codex.terminal.keys(pane, "C-d")

    told, kept = retry_until(lambda: out.read_text() if out.exists() else "").splitlines()
    assert '"filled":true' in told
    assert kept == "terminal kept"
