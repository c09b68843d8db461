"""`/handoff` typed in the real pi, after `tasuki install pi`."""

import json
import subprocess
from pathlib import Path

import pytest
from conftest import ANSWER, World
from fakes.model_server import ModelRule, ModelStep
from inside import WISH, conversation, installed, opened, tasuki, typed
from selection import by_default
from waiting import retry_until

pytestmark = pytest.mark.e2e

GOAL = "add the missing test for the parser"
CLOSING = "The above is a handoff document from a previous session."


def talking(world: World) -> str:
    """pi after one turn, with tasuki installed; its pane."""
    assert "Hand off inside pi: /handoff GOAL" in installed(world, "pi")
    pane = opened(world, ["pi"])
    world.shows(pane, "%/128k")
    return conversation(world, pane)


def reviewing(world: World, pane: str) -> None:
    """Hand off, until the draft stands in pi's editor."""
    typed(world, pane, f"/handoff {GOAL}")
    world.shows(pane, "look it over. Nothing is sent yet.")
    world.until_quiet(pane)


def test_a_handoff_is_reviewed_in_pis_editor_and_the_goal_waits_in_the_successor(
    with_pi: World,
) -> None:
    """Nothing is sent before Enter; then the context holds the brief, the prompt is the goal alone."""
    world = with_pi
    pane = talking(world)
    reviewing(world, pane)

    world.terminal.keys(pane, "Enter")
    world.shows(pane, "New session started with handoff context")
    screen = world.shows(pane, GOAL)
    assert "[handoff]" in screen
    assert len(world.model.find_requests(WISH)) == len(world.model.log)

    world.terminal.keys(pane, "Enter")
    (request,) = retry_until(lambda: world.model.find_requests(GOAL), 20)
    assert request.prompt == GOAL
    assert request.count_text(WISH) == 1
    assert request.count_text(CLOSING) == 1
    world.shows(pane, ANSWER)
    (handoff,) = world.vault.list_handoffs()
    (path,) = [
        p
        for p in world.home.glob(".pi/agent/sessions/*/*.jsonl")
        if "handoff-context" in p.read_text()
    ]
    header = json.loads(path.read_text().splitlines()[0])
    assert header["parentSession"] == handoff.predecessor.path
    started = next(e for e in world.vault.load_events(handoff.id) if e.kind == "started")
    assert started.detail["where"] == "inside"


@pytest.mark.long
def test_what_is_edited_in_the_review_is_what_the_successor_gets(with_pi: World) -> None:
    """The edit makes a revision; a goal changed there stands in the input."""
    world = with_pi
    pane = talking(world)
    reviewing(world, pane)

    world.terminal.paste(pane, ", and name it test_blank")
    world.shows(pane, "name it test_blank")
    world.terminal.keys(pane, "Enter")

    world.shows(pane, "New session started with handoff context")
    world.shows(pane, f"{GOAL}, and name it test_blank")
    revised = [h for h in world.vault.list_handoffs() if h.revises]
    assert [h.goal.text for h in revised] == [f"{GOAL}, and name it test_blank"]


@pytest.mark.long
def test_escape_in_the_review_starts_nothing(with_pi: World) -> None:
    """The old session goes on, and the draft is kept."""
    world = with_pi
    pane = talking(world)
    reviewing(world, pane)

    world.terminal.keys(pane, "Escape")

    world.shows(pane, "Handoff cancelled. The draft is kept: tasuki start")
    typed(world, pane, "and then what?")
    world.shows(pane, "A second answer.")
    (request,) = world.model.find_requests("and then what")
    assert request.count_text(WISH) == 1
    assert [world.vault.load_state(h.id) for h in world.vault.list_handoffs()] == ["draft"]


@pytest.mark.parametrize("goal", by_default(["", "continue"], "continue"))
def test_a_vague_goal_gets_the_guidance_and_stands_in_the_input_again(
    with_pi: World, goal: str
) -> None:
    """Nothing is drafted, nothing reaches the model."""
    world = with_pi
    pane = talking(world)
    typed(world, pane, f"/handoff {goal}".strip())

    world.shows(pane, "Be specific: what should the next thread accomplish?")
    assert f"/handoff {goal}".strip() in world.until_quiet(pane)
    assert world.vault.list_handoffs() == []
    assert len(world.model.log) == 1


@pytest.mark.long
def test_before_the_first_message_there_is_nothing_to_hand_off(with_pi: World) -> None:
    """A fresh session has no file yet."""
    world = with_pi
    installed(world, "pi")
    pane = opened(world, ["pi"])
    world.shows(pane, "%/128k")

    typed(world, pane, f"/handoff {GOAL}")

    world.shows(pane, "Nothing to hand off (no messages yet)")


@pytest.mark.long
def test_the_skill_that_was_used_last_is_inherited(with_pi: World) -> None:
    """What pi's extension noted stands first in the successor's input."""
    world = with_pi
    skill = "---\nname: tidy\ndescription: Keeps things tidy.\n---\nKeep it tidy.\n"
    world.write(".pi/agent/skills/tidy/SKILL.md", skill)
    installed(world, "pi")
    pane = opened(world, ["pi"])
    world.shows(pane, "%/128k")
    typed(world, pane, "/skill:tidy the parser please")
    world.shows(pane, ANSWER)
    world.until_quiet(pane)
    reviewing(world, pane)

    world.terminal.keys(pane, "Enter")

    world.shows(pane, f"/skill:tidy {GOAL}")
    (handoff,) = world.vault.list_handoffs()
    assert "handoff:last-skill" in Path(handoff.predecessor.path).read_text()


@pytest.mark.long
def test_a_full_context_is_told_once(with_pi: World) -> None:
    """From the threshold on a sentence suggests the command; the next turn is silent."""
    world = with_pi
    filled = ModelStep("So much.", read=110_000)
    world.model.rules = (ModelRule("fill it", (filled,)), *world.model.rules)
    pane = talking(world)
    typed(world, pane, "fill it")
    world.shows(pane, "Hand off while the agent still has all of it: /handoff GOAL")
    typed(world, pane, "fill it again")
    retry_until(lambda: len(world.model.find_requests("again")) == 1, 20)
    screen = world.until_quiet(pane)

    assert screen.count("Hand off while the agent still has all of it") <= 1


def test_uninstalled_nothing_of_it_is_left(with_pi: World) -> None:
    """The extension and the skill are gone, and so is the command."""
    world = with_pi
    before = sorted(world.home.rglob("*"))
    installed(world, "pi")
    assert sorted(world.home.rglob("*")) != before

    tasuki(world, "uninstall", "pi", "--yes")

    assert sorted(p for p in world.home.rglob("*") if p.is_file()) == [
        p for p in before if p.is_file()
    ]


@pytest.mark.long
def test_without_a_screen_the_brief_is_printed_and_no_session_opened(with_pi: World) -> None:
    """`pi -p` has no editor: what would be reviewed goes to standard output."""
    world = with_pi
    installed(world, "pi")
    subprocess.run(
        ["pi", "-p", WISH], cwd=world.project, check=True, capture_output=True, timeout=60
    )
    sessions = sorted(world.home.glob(".pi/agent/sessions/*/*.jsonl"))

    command = ["pi", "--session", str(sessions[0]), "-p", f"/handoff {GOAL}"]
    done = subprocess.run(
        command, cwd=world.project, check=True, capture_output=True, text=True, timeout=60
    )

    assert done.stdout.startswith("# Handoff Context")
    assert done.stdout.rstrip().endswith(GOAL)
    assert sorted(world.home.glob(".pi/agent/sessions/*/*.jsonl")) == sessions
    assert len(world.model.log) == 1
