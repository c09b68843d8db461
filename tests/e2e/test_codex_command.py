"""`$handoff` typed in the real Codex, after `tasuki install codex` and the user's own trust."""

import subprocess
from pathlib import Path

import npm_programs
import pytest
from conftest import ANSWER, World
from fakes.model_server import ModelRule, ModelStep, ScriptedCall
from inside import WISH, conversation, installed, opened, review, started, typed
from waiting import retry_until

pytestmark = pytest.mark.e2e

GOAL = "add the missing test for the parser\nand keep:\n  - the API, `id` and $HOME"


def without_daemon(world: World) -> None:
    """Start no background server, which would outlive the test; nor does what the hooks start."""
    script = Path(npm_programs.command("codex")[-1]).resolve()
    world.program("codex", [str(npm_programs.node()), str(script), "--no-daemon"])


def talking(world: World) -> str:
    """Codex after one turn, with tasuki installed and its hooks trusted; its pane."""
    without_daemon(world)
    said = installed(world, "codex")
    assert "Hand off inside Codex: $handoff GOAL" in said
    assert "/hooks" in said
    pane = opened(world, ["codex"])
    trusted(world, pane)
    return conversation(world, pane)


def trusted(world: World, pane: str) -> None:
    """Give the trust that Codex asks for, as a user does."""
    world.shows(pane, "2 hooks are new or changed.")
    world.until_quiet(pane)
    world.terminal.keys(pane, "Down", "Enter")
    world.shows(pane, "Ask Codex to do anything")


@pytest.mark.long
def test_a_handoff_is_reviewed_in_a_window_and_its_successor_begins_beside_it(
    with_codex: World,
) -> None:
    """The command never reaches the model; the successor's first prompt holds brief and goal, once it is sent."""
    world = with_codex
    pane = talking(world)
    draft = review(world, pane, f"$handoff {GOAL}")
    assert "Review the handoff in the new tmux window" in world.shows(pane, "Blocked by hook")

    successor = started(world, draft)
    world.shows(successor, "and keep:")
    world.until_quiet(successor)
    assert world.sent(GOAL) == world.model.find_requests("missing test") == []
    world.terminal.keys(successor, "Enter")
    request = retry_until(lambda: world.sent(GOAL), 20)[0]
    assert request.prompt.endswith(f"## Next Goal (verbatim)\n{GOAL}")
    assert request.count_text(WISH) == 1
    world.shows(successor, ANSWER)
    (handoff,) = world.vault.list_handoffs()
    assert (handoff.goal.text, handoff.goal.said_by) == (GOAL, "user")


@pytest.mark.long
def test_without_tmux_the_draft_is_kept_and_a_full_context_is_told(with_codex: World) -> None:
    """The session says which handoff to start; from the threshold on it says once how to hand off."""
    world = with_codex
    without_daemon(world)
    installed(world, "codex")
    (world.folder / "own.toml").write_text("suggest_at = 2\n")
    pane = world.run(["codex"])
    trusted(world, pane)
    typed(world, pane, "Look at this log. " + "Nothing happened here at all. " * 4000)
    world.shows(pane, "Hand off while the agent still has all of it: $handoff GOAL")
    typed(world, pane, "$handoff fix")
    world.shows(pane, "Be specific: what should the next thread accomplish?")
    typed(world, pane, f"$handoff {GOAL}")

    (handoff,) = retry_until(world.vault.list_handoffs, 20)
    world.shows(pane, f"Handoff {handoff.id[:8]} is drafted.")
    assert handoff.goal.text == GOAL
    assert world.model.find_requests("missing test") == []
    assert world.until_quiet(pane).count("Hand off while") == 1


def test_the_agent_hands_off_by_the_installed_tool(with_codex: World) -> None:
    """The tool is there without another step; the goal is marked as the model's, and nothing starts."""
    world = with_codex
    installed(world, "codex")
    call = ScriptedCall("handoff", {"goal": GOAL}, "mcp__tasuki")
    world.model.rules = (
        ModelRule("hand this off", (ModelStep("", (call,)), ModelStep("It is drafted."))),
    )
    done = subprocess.run(
        ["codex", "exec", "-c", 'mcp_servers.tasuki.default_tools_approval_mode="approve"',
         "-c", "mcp_servers.tasuki.required=true",  # waited for until it runs
         f"{WISH} Now hand this off."],
        cwd=world.project, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip

    assert "It is drafted." in done.stdout, (done.stdout, done.stderr)
    (handoff,) = world.vault.list_handoffs()
    assert (handoff.goal.text, handoff.goal.said_by) == (GOAL, "model")
    assert handoff.predecessor.harness == "codex"
