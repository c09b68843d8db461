"""The real Claude Code takes a handoff over: the brief unsent in its input, the goal last."""

import sys
from pathlib import Path

import msgspec
import pytest
from conftest import ANSWER, World
from fakes.model_server import ModelRequest
from handoffs import made
from tree import PROGRAMS
from waiting import retry_until

from tasuki.errors import LaunchFailed, ThreadUnreadable
from tasuki.harness.claude.head import build_folder_name
from tasuki.harness.protocol import LaunchPlan, LaunchRequest
from tasuki.harness.registry import get_harness
from tasuki.launch import find_running_programs, start
from tasuki.launch.tmux import server
from tasuki.model import Thread

pytestmark = pytest.mark.e2e

GOAL = "Fix the login timeout in src/auth.py;\nthen run the tests again ✓"
MARKER = "HANDOFF-MARKER-8"
BRIEF = f"# Handoff Context\n\n- {MARKER}: the timeout is 30 s [#3]\n\n## Goal\n\n{GOAL}"
STARTER = str(PROGRAMS / "start_here.py")


def plan(world: World, send: bool = False, brief: str = BRIEF) -> LaunchPlan:
    """The plan of the Claude adapter for a handoff."""
    handoff = made(goal=GOAL, to="claude")
    request = LaunchRequest(handoff, brief, "", str(world.project), send=send)
    return get_harness("claude").plan(request)


def asked(world: World) -> ModelRequest:
    """The one request that holds the brief."""
    requests = retry_until(lambda: world.model.find_requests(MARKER), 20)
    assert len(requests) == 1
    return requests[0]


def thread_files(world: World) -> list[Path]:
    """Thread files of the project."""
    return [file.path for file in get_harness("claude").list_files(world.project)]


def test_prefilled_in_tmux(with_claude: World) -> None:
    """The brief stands unsent; after Enter the model gets it once, the goal last."""
    planned = plan(with_claude)
    launched = start(planned, "tmux", socket=with_claude.terminal.socket)

    with_claude.shows(launched.pane, "then run the tests again ✓")
    with_claude.until_quiet(launched.pane)
    assert with_claude.model.find_requests(MARKER) == []
    assert thread_files(with_claude) == []

    with_claude.terminal.keys(launched.pane, "Enter")
    request = asked(with_claude)
    assert request.count_text(MARKER) == 1
    assert request.prompt.endswith(GOAL)
    with_claude.shows(launched.pane, ANSWER)

    (path,) = retry_until(lambda: thread_files(with_claude), 20)
    assert build_folder_name(with_claude.project) == path.parent.name
    thread = retry_until(lambda: _answered(path), 20)
    assert thread is not None
    assert thread.entries[0].text == BRIEF
    assert (thread.id, path.stem) == (planned.thread_id, planned.thread_id)
    told = find_running_programs(thread)
    assert len(told) == 1
    assert "Claude Code (process" in told[0]


def _answered(path: Path) -> Thread | None:
    """The thread once it holds the answer; its file begins with lines of no conversation."""
    try:
        thread = get_harness("claude").read(path)
    except ThreadUnreadable:
        return None
    return thread if any(entry.text == ANSWER for entry in thread.entries) else None


def test_prefilled_in_this_terminal(with_claude: World, tmp_path: Path) -> None:
    """In a plain terminal the brief stands unsent too; afterwards the terminal is kept."""
    order, out = tmp_path / "plan.json", tmp_path / "out.txt"
    order.write_bytes(msgspec.json.encode(plan(with_claude)))
    pane = with_claude.terminal.open([sys.executable, STARTER, str(order), str(out)], tmp_path)

    with_claude.shows(pane, "then run the tests again ✓")
    with_claude.terminal.keys(pane, "Enter")
    assert asked(with_claude).prompt.endswith(GOAL)
    with_claude.shows(pane, ANSWER)
    with_claude.terminal.paste(pane, "/exit")
    with_claude.until_quiet(pane)
    with_claude.terminal.keys(pane, "Enter")

    told, kept = retry_until(lambda: out.read_text() if out.exists() else "").splitlines()
    assert '"code":0' in told
    assert kept == "terminal kept"


def test_sent_at_once(with_claude: World) -> None:
    """With `send` the brief goes to the model without a key."""
    start(plan(with_claude, send=True), "tmux", socket=with_claude.terminal.socket)

    assert asked(with_claude).prompt.endswith(GOAL)


def long_plan(world: World) -> LaunchPlan:
    """The plan for a brief of 150 kB, which is no argument but a paste."""
    lines = "".join(f"- item {n} of the past ✓\n" for n in range(6_000))
    wanted = plan(world, brief=BRIEF.replace("\n## Goal", f"{lines}\n## Goal"))
    assert MARKER in wanted.paste
    return wanted


@pytest.mark.long
def test_a_brief_too_long_for_an_argument(with_claude: World) -> None:
    """A long brief is pasted instead, unsent, and arrives whole."""
    launched = start(long_plan(with_claude), "tmux", socket=with_claude.terminal.socket)

    assert launched.filled
    with_claude.until_quiet(launched.pane)
    assert with_claude.model.find_requests(MARKER) == []
    with_claude.terminal.keys(launched.pane, "Enter")
    request = asked(with_claude)
    assert request.count_text("- item 5999 of the past ✓") == 1
    assert request.count_text(MARKER) == 1


@pytest.mark.long
def test_a_long_brief_in_this_terminal(with_claude: World, tmp_path: Path) -> None:
    """The relay pastes a long brief into a plain terminal, unsent."""
    order, out = tmp_path / "plan.json", tmp_path / "out.txt"
    order.write_bytes(msgspec.json.encode(long_plan(with_claude)))
    pane = with_claude.terminal.open([sys.executable, STARTER, str(order), str(out)], tmp_path)

    with_claude.shows(pane, "[Pasted text #1")
    with_claude.until_quiet(pane)
    assert with_claude.model.find_requests(MARKER) == []
    with_claude.terminal.keys(pane, "Enter")
    assert asked(with_claude).count_text("- item 5999 of the past ✓") == 1


def test_a_dialog_is_not_taken_for_the_input(
    with_claude: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the trust question stands in the way nothing is pasted into it, and the user is told."""
    monkeypatch.setattr(server, "READY_SECONDS", 4.0)
    with_claude.write(".claude.json", {"hasCompletedOnboarding": True, "theme": "dark"})

    with pytest.raises(LaunchFailed, match="nothing was pasted") as caught:
        start(long_plan(with_claude), "tmux", socket=with_claude.terminal.socket)

    assert "Yes, I trust this folder" in str(caught.value)
    assert with_claude.model.find_requests(MARKER) == []
