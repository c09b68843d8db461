"""The whole command in a real terminal: vague goal, review, start, and what the model gets."""

import os
import sys
from pathlib import Path

import pytest
from conftest import ANSWER, World
from waiting import retry_until

from tasuki.harness.claude.head import build_folder_name
from tasuki_testing import ThreadBuilder

pytestmark = pytest.mark.e2e

GOAL = "fix the login timeout in src/auth.py and cover it with a test"
WISH = "Never change the public signature of `login()`, the mobile team imports it."
FACT = "The gateway drops idle connections after 61 s, because its keepalive is off."


def predecessor(world: World) -> Path:
    """A thread of Claude Code in the world's project, the newest there."""
    folder = world.home / ".claude" / "projects" / build_folder_name(world.project)
    folder.mkdir(parents=True)
    return (
        ThreadBuilder("claude", cwd=str(world.project))
        .user(WISH)
        .assistant(FACT)
        .edit("src/auth.py", "timeout = 3", "timeout = 30")
        .shell("pytest -q", "E   TimeoutError: login took 31 s\n1 failed in 0.1s", 1)
        .write(folder)
    )


def run(world: World, *arguments: str) -> str:
    """Run the command in a pane."""
    world.set(TASUKI_DATA=str(world.folder / "data"), TASUKI_CONFIG=os.devnull)
    return world.run([sys.executable, "-m", "tasuki", "handoff", *arguments])


def started(world: World) -> dict[str, str]:
    """Events of the newest handoff by kind."""
    vault = world.vault
    newest = vault.list_handoffs()[0]
    return {e.kind: e.detail.get("harness", "") for e in vault.load_events(newest.id)}


def test_from_claude_to_pi_through_the_review(with_pi: World) -> None:
    """A vague goal is asked for again; after the review pi has the past in its context and the goal unsent."""
    source = predecessor(with_pi)
    before = source.read_bytes()
    pane = run(with_pi, "--to", "pi", "continue")

    with_pi.shows(pane, "Be specific: what should the next thread accomplish?")
    with_pi.terminal.paste(pane, GOAL)
    with_pi.terminal.keys(pane, "Enter")
    screen = with_pi.shows(pane, "^S start")
    assert "What the user asked for and ruled" in screen
    with_pi.terminal.keys(pane, "C-s")
    with_pi.shows(pane, "/128k")
    retry_until(lambda: GOAL in " ".join(with_pi.until_quiet(pane).split()[-60:]), 20)
    assert with_pi.model.log == []
    with_pi.terminal.keys(pane, "Enter")

    (request,) = retry_until(lambda: with_pi.model.find_requests("login timeout"), 20)
    assert request.prompt == GOAL
    assert request.count_text(WISH) == 1
    assert request.count_text(FACT) == 1
    with_pi.shows(pane, ANSWER)
    assert source.read_bytes() == before
    assert started(with_pi)["started"] == "pi"
    with_pi.terminal.paste(pane, "/quit")
    with_pi.until_quiet(pane)
    with_pi.terminal.keys(pane, "Enter")
    with_pi.shows(pane, "Back to the predecessor: claude --resume")
    with_pi.shows(pane, "[ended 0]")


def test_cancelling_the_review_starts_nothing(with_pi: World) -> None:
    """Escape leaves the draft kept, says so, and no program runs."""
    predecessor(with_pi)
    pane = run(with_pi, "--to", "pi", GOAL)
    with_pi.shows(pane, "^S start")
    with_pi.terminal.keys(pane, "Escape")

    screen = with_pi.shows(pane, "Nothing was started.")
    assert "The draft is kept: tasuki show" in screen
    with_pi.shows(pane, "[ended 130]")
    assert with_pi.model.log == []
    assert "started" not in started(with_pi)


def test_from_claude_to_claude_sent_at_once(with_claude: World) -> None:
    """`--yes --send` starts Claude Code with the whole brief as its first prompt, the goal last."""
    predecessor(with_claude)
    pane = run(with_claude, "--yes", "--send", GOAL)

    (request,) = retry_until(lambda: with_claude.model.find_requests("login timeout"), 30)
    assert request.prompt.endswith(f"## Next Goal (verbatim)\n{GOAL}")
    assert request.count_text(WISH) == 1
    with_claude.shows(pane, ANSWER)
    assert started(with_claude)["started"] == "claude"
