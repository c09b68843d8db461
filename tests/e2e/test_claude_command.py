"""`/handoff` typed in the real Claude Code, after `tasuki install claude`."""

import subprocess

import pytest
from conftest import ANSWER, World
from fakes.model_server import ModelRule, ModelStep, ScriptedCall
from inside import WISH, conversation, installed, opened, review, started, tasuki, typed
from waiting import retry_until

pytestmark = pytest.mark.e2e

GOAL = "add the missing test for the parser"


def talking(world: World) -> str:
    """Claude Code after one turn, with tasuki installed; its pane."""
    assert "Hand off inside Claude Code: /handoff GOAL" in installed(world, "claude")
    pane = opened(world, ["claude"])
    world.shows(pane, "❯")
    return conversation(world, pane)


def test_a_handoff_is_reviewed_in_a_window_and_its_successor_begins_beside_it(
    with_claude: World,
) -> None:
    """The command never reaches the model; the successor's first prompt holds brief and goal, once it is sent."""
    world = with_claude
    pane = talking(world)
    draft = review(world, pane, f"/handoff {GOAL}")
    assert WISH[:30] in " ".join(world.terminal.capture_screen(draft).text.split())
    world.shows(pane, "Review the handoff in the new tmux window")

    successor = started(world, draft)
    world.shows(successor, GOAL)
    world.until_quiet(successor)
    assert world.model.find_requests(GOAL) == []
    world.terminal.keys(successor, "Enter")
    (request,) = retry_until(lambda: world.model.find_requests(GOAL), 20)
    assert request.prompt.endswith(f"## Next Goal (verbatim)\n{GOAL}")
    assert request.count_text(WISH) == 1
    world.shows(successor, ANSWER)
    assert not any(
        "/handoff" in turn.text for r in world.model.log for turn in r.turns if turn.role == "user"
    )
    (handoff,) = world.vault.list_handoffs()
    assert handoff.goal.text == GOAL
    assert handoff.goal.said_by == "user"
    retry_until(lambda: draft not in str(world.terminal.panes()), 10)
    # Claude Code writes late; a successor that takes itself for a part of the other keeps no thread.
    projects = world.home / ".claude" / "projects"
    retry_until(lambda: len(list(projects.glob("*/*.jsonl"))) == 2, 20)


@pytest.mark.long
def test_without_tmux_the_draft_is_kept(with_claude: World) -> None:
    """The session says which handoff to start; the skill that was used last goes first in its brief."""
    world = with_claude
    world.write(
        ".claude/skills/careful/SKILL.md",
        "---\nname: careful\ndescription: Care\n---\nBe careful.\n",
    )
    installed(world, "claude")
    pane = world.run(["claude"])  # a terminal that tells nobody that it is one of tmux
    world.shows(pane, "❯")
    typed(world, pane, "/careful")
    world.shows(pane, ANSWER)
    world.until_quiet(pane)
    conversation(world, pane)
    typed(world, pane, "/handoff fix")
    world.shows(pane, "Be specific: what should the next thread accomplish?")
    for words in (GOAL, "\\", "Enter", "and document it"):  # a backslash goes on in the next line
        if words == GOAL:
            world.terminal.paste(pane, f"/handoff {words}")
        elif words == "Enter":
            world.terminal.keys(pane, words)
        else:
            world.terminal.run(("send-keys", "-l", "-t", pane, words))
        world.until_quiet(pane)
    world.terminal.keys(pane, "Enter")

    (handoff,) = retry_until(world.vault.list_handoffs, 20)
    short = handoff.id[:8]
    told = (
        f"Handoff {short} is drafted. Review and start it in another terminal: tasuki start {short}"
    )
    world.shows(pane, told)
    assert handoff.goal.text == f"{GOAL}\nand document it"
    assert world.vault.load_brief(handoff.id).startswith("/careful\n")
    assert world.model.find_requests("document it") == []
    assert len(world.terminal.panes()) == 1


@pytest.mark.long
def test_a_pasted_command_of_several_lines_is_taken_out_too(with_claude: World) -> None:
    """Claude Code marks what was pasted; the goal is what was pasted, to the letter."""
    world = with_claude
    pane = talking(world)
    goal = f'{GOAL}\nand keep:\n  - `id`, $HOME and "quotes"'
    review(world, pane, f"/handoff {goal}")

    (handoff,) = world.vault.list_handoffs()
    assert handoff.goal.text == goal
    assert world.model.find_requests("and keep") == []


def test_a_handoff_is_suggested_when_the_context_fills_up(with_claude: World) -> None:
    """Once, at the end of the turn that passes the threshold, and in the status line all the time."""
    world = with_claude
    (world.folder / "own.toml").write_text("suggest_at = 2\n")
    pane = talking(world)
    assert "Hand off while" not in world.terminal.capture_screen(pane).text
    typed(world, pane, "Look at this log. " + "Nothing happened here at all. " * 4000)

    world.shows(pane, "Hand off while the agent still has all of it: /handoff GOAL")
    world.shows(pane, "% · /handoff GOAL")
    typed(world, pane, "and then?")
    world.shows(pane, "A second answer.")
    assert world.until_quiet(pane).count("Hand off while") == 1


def test_the_agent_hands_off_by_the_installed_tool(with_claude: World) -> None:
    """The tool is there without another step; the goal is marked as the model's, and nothing starts."""
    world = with_claude
    installed(world, "claude")
    call = ScriptedCall("mcp__tasuki__handoff", {"goal": GOAL})
    world.model.rules = (
        ModelRule("hand this off", (ModelStep("", (call,)), ModelStep("It is drafted."))),
    )
    done = subprocess.run(
        ["claude", "-p", f"{WISH} Now hand this off.", "--allowedTools", "mcp__tasuki__handoff"],
        cwd=world.project, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip

    assert "It is drafted." in done.stdout, (done.stdout, done.stderr)
    last = world.model.log[-1]
    assert last.count_text("Nothing was started. The user reviews"), last.turns
    (handoff,) = world.vault.list_handoffs()
    assert (handoff.goal.text, handoff.goal.said_by) == (GOAL, "model")
    assert world.vault.load_state(handoff.id) == "draft"


@pytest.mark.long
def test_after_uninstalling_nothing_is_left(with_claude: World) -> None:
    """Claude Code writes its own settings meanwhile; what is ours goes all the same."""
    world = with_claude
    pane = talking(world)
    typed(world, pane, "/exit")
    world.shows(pane, "[ended 0]")
    tasuki(world, "uninstall", "claude", "--yes")

    home = world.home
    texts = [
        path.read_text() for path in (home / ".claude.json", home / ".claude" / "settings.json")
    ]
    assert not [text for text in texts if "tasuki" in text]
    assert not (home / ".claude" / "commands").exists()
