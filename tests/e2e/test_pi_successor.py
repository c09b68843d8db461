"""The real pi takes a handoff over: the past in its context once, the goal unsent in its input."""

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

GOAL = "Fix the login timeout in src/auth.py;\nthen run the tests again ✓"
MARKER = "HANDOFF-MARKER-7"
CONTEXT = f"# Handoff Context\n\n- {MARKER}: the timeout is 30 s [#3]\n- Überall ✓"
STARTER = str(PROGRAMS / "start_here.py")


def plan(world: World, send: bool = False, goal: str = GOAL) -> LaunchPlan:
    """The plan of the pi adapter for a handoff."""
    handoff = made(goal=goal, to="pi")
    brief = f"{CONTEXT}\n\n## Goal\n\n{goal}"
    request = LaunchRequest(handoff, brief, CONTEXT, str(world.project), send=send)
    return get_harness("pi").plan(request)


def check_context(world: World, goal: str = GOAL) -> None:
    """The one request holds the context once, as the user's, and the goal last."""
    (request,) = retry_until(lambda: world.model.find_requests("login timeout"), 20)
    users = [turn.text for turn in request.turns if turn.role == "user"]

    assert request.count_text(MARKER) == 1
    assert goal == request.prompt
    assert goal == users[-1]
    assert request.turns[-1].role == "user"
    assert CONTEXT in users[0]


def test_in_tmux(with_pi: World) -> None:
    """In tmux the goal stands unsent; after Enter the model gets context and goal, in order."""
    wanted = plan(with_pi)

    launched = start(wanted, "tmux", name="tasuki 1234", socket=with_pi.terminal.socket)

    assert launched.filled
    screen = with_pi.shows(launched.pane, "then run the tests again ✓")
    assert "Fix the login timeout in src/auth.py;" in screen
    with_pi.until_quiet(launched.pane)
    assert with_pi.model.log == []

    with_pi.terminal.keys(launched.pane, "Enter")
    check_context(with_pi)
    with_pi.shows(launched.pane, ANSWER)


def test_the_thread_is_a_thread(with_pi: World) -> None:
    """The successor's thread holds the handoff, the goal and the answer, and goes on in order."""
    wanted = plan(with_pi)
    launched = start(wanted, "tmux", socket=with_pi.terminal.socket)
    with_pi.terminal.keys(launched.pane, "Enter")
    with_pi.shows(launched.pane, ANSWER)
    with_pi.terminal.paste(launched.pane, "and then what?")
    with_pi.shows(launched.pane, "and then what?")
    with_pi.terminal.keys(launched.pane, "Enter")
    (second,) = retry_until(lambda: with_pi.model.find_requests("and then"), 20)
    with_pi.shows(launched.pane, "A second answer.")

    thread = get_harness("pi").read(Path(wanted.thread_path))

    assert second.count_text(MARKER) == 1
    assert wanted.thread_id == thread.id
    texts = [entry.text for entry in thread.entries]
    assert MARKER in texts[0]
    assert thread.entries[0].origin == "handoff"
    assert texts[1:] == [GOAL, ANSWER, "and then what?", "A second answer."]


def test_sent_at_once(with_pi: World) -> None:
    """With `send` the goal goes to the model without a key."""
    start(plan(with_pi, send=True), "tmux", socket=with_pi.terminal.socket)

    check_context(with_pi)


def test_in_this_terminal(with_pi: World, tmp_path: Path) -> None:
    """In a plain terminal the relay fills the goal in, and the terminal is kept afterwards."""
    wanted = plan(with_pi)
    order, out = tmp_path / "plan.json", tmp_path / "out.txt"
    order.write_bytes(msgspec.json.encode(wanted))
    pane = with_pi.terminal.open([sys.executable, STARTER, str(order), str(out)], tmp_path)

    with_pi.shows(pane, "then run the tests again ✓")
    with_pi.until_quiet(pane)
    assert with_pi.model.log == []
    with_pi.terminal.keys(pane, "Enter")
    check_context(with_pi)
    with_pi.shows(pane, ANSWER)
    with_pi.terminal.run(("resize-window", "-t", pane, "-x", "60", "-y", "20"))
    with_pi.until_quiet(pane)
    with_pi.terminal.keys(pane, "C-d")

    told, kept = retry_until(lambda: out.read_text() if out.exists() else "").splitlines()
    assert '"filled":true' in told
    assert '"code":0' in told
    assert kept == "terminal kept"


def test_a_goal_like_a_command(with_pi: World) -> None:
    """A goal that begins like a flag or holds escape sequences stands in the input as it is."""
    goal = "--help me fix the login timeout\x1b[201~\r now"
    launched = start(plan(with_pi, goal=goal), "tmux", socket=with_pi.terminal.socket)

    with_pi.shows(launched.pane, "--help me fix the login timeout")
    with_pi.until_quiet(launched.pane)
    assert with_pi.model.log == []
