"""`/handoff` typed in the real Gemini CLI, opencode and Copilot CLI, after `tasuki install`: in tmux the
draft is reviewed in a window, and the successor begins beside it."""

from typing import NamedTuple

import pytest
from conftest import World
from fakes.model_server import ModelRule, ModelStep
from inside import LETTERS, WISH, conversation, installed, opened, review, started, typed
from selection import by_default
from waiting import retry_until

pytestmark = pytest.mark.e2e

GOAL = "add the missing test for the parser"


class Way(NamedTuple):
    """How one program shows what it does. `told` and `guidance` fit the place where a hook's answer is shown."""

    title: str
    ready: tuple[str, ...]
    answered: str
    pasted: str
    told: str = "Review the handoff in the new tmux window"
    guidance: str = "Be specific: what should the next thread accomplish?"


WAYS = {
    "gemini": Way(
        "Gemini CLI",
        ("Type your message", "1 MCP server"),  # while it starts its servers, Enter is not taken
        "The scripted answer.",
        "[Pasted Text:",
    ),
    "opencode": Way(
        "opencode",
        ("Ask anything",),
        "▣ Build · Scripted ·",  # the title of the session is the answer too
        "[Pasted ~",
        told="The draft of the handoff",
        guidance="specific:",  # in a narrow box
    ),
    "copilot": Way("Copilot CLI", ("/ commands",), "The scripted answer.", "[Paste #"),
}


class Talk(NamedTuple):
    """A program in a pane, after one turn, with tasuki installed."""

    way: Way
    world: World
    pane: str


def talking(world: World, name: str) -> Talk:
    """Install tasuki into a program, start it, and have one turn."""
    way = WAYS[name]
    assert f"Hand off inside {way.title}: /handoff GOAL" in installed(world, name)
    pane = opened(world, [name])
    for sign in way.ready:
        world.shows(pane, sign, 120)
    world.until_quiet(pane)
    conversation(world, pane)
    world.shows(pane, way.answered)
    return Talk(way, world, pane)


@pytest.fixture(params=by_default(WAYS, "opencode"))
def talk(request: pytest.FixtureRequest) -> Talk:
    """Each of the programs in turn."""
    return talking(request.getfixturevalue(f"with_{request.param}"), request.param)


def test_a_handoff_is_reviewed_in_a_window_and_its_successor_begins_beside_it(talk: Talk) -> None:
    """The command never reaches the model; the successor's first prompt holds brief and goal, once it is sent."""
    world = talk.world
    draft = review(world, talk.pane, f"/handoff {GOAL}")
    assert WISH[:30] in " ".join(world.terminal.capture_screen(draft).text.split())
    world.shows(talk.pane, talk.way.told)
    assert not any("handoff" in request.prompt for request in world.model.log)

    successor = started(world, draft)
    for sign in (*talk.way.ready[1:], talk.way.pasted):
        world.shows(successor, sign, 120)
    world.until_quiet(successor)
    assert world.sent(GOAL) == world.model.find_requests(GOAL) == []
    world.terminal.keys(successor, "Enter")
    request = retry_until(lambda: world.sent(GOAL), 30)[0]
    assert f"## Next Goal (verbatim)\n{GOAL}" in request.prompt
    assert WISH in request.prompt
    (handoff,) = world.vault.list_handoffs()
    assert (handoff.goal.text, handoff.goal.said_by) == (GOAL, "user")


@pytest.mark.long
def test_a_vague_goal_gets_the_guidance(talk: Talk) -> None:
    """Nothing is drafted, nothing reaches the model."""
    asked = len(talk.world.model.log)
    typed(talk.world, talk.pane, "/handoff continue")

    talk.world.shows(talk.pane, talk.way.guidance)
    assert len(talk.world.model.log) == asked
    assert talk.world.vault.list_handoffs() == []


@pytest.mark.long
def test_a_goal_of_several_lines_is_kept_to_the_letter(talk: Talk) -> None:
    """Line ends, blanks, quotes and signs that the program itself or a shell would expand."""
    review(talk.world, talk.pane, f"/handoff {LETTERS}")

    (handoff,) = talk.world.vault.list_handoffs()
    assert handoff.goal.text == LETTERS


def filled(world: World, tokens: int) -> None:
    """Have the model say that it read so many tokens, where it is asked to fill the context."""
    world.set(TASUKI_SUGGEST_AT="40")
    world.model.rules = (
        ModelRule("fill it", (ModelStep("So much.", read=tokens),)),
        *world.model.rules,
    )


@pytest.mark.long
def test_in_gemini_a_full_context_is_told_once(with_gemini: World) -> None:
    """Below the answer, as what a hook says; the next turn is silent."""
    world = with_gemini
    filled(world, 450_000)  # from a half on Gemini compacts by itself
    pane = talking(world, "gemini").pane
    typed(world, pane, "fill it")
    world.shows(pane, "Hand off while the agent still has all of it: /handoff GOAL")
    world.until_quiet(pane)
    typed(world, pane, "fill it again")
    retry_until(lambda: len(world.model.find_requests("again")) == 1, 20)
    world.shows(pane, "fill it again")
    screen = world.until_quiet(pane)

    assert screen.count("Hand off while the agent still has all of it") <= 1


def test_in_opencode_a_full_context_is_told_in_the_corner(with_opencode: World) -> None:
    """The message comes at the end of the turn; the figure is a part of 200,000."""
    world = with_opencode
    filled(world, 90_000)  # from 120,000 on opencode compacts by itself
    pane = talking(world, "opencode").pane
    typed(world, pane, "fill it")

    world.shows(pane, "The context is 45 % full.")
