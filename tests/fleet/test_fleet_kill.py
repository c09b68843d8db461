"""The server is killed with -9 at every point of a handoff: nothing is lost and nothing is done twice.

The counts are those of the harness's own journal. `fleet_server.py` stops at a named point and is
killed there from outside; the next server carries on, to the next point.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from fleets import World, once

from tasuki.fleet.handoff.workflow import ALL_STEPS

BEFORE = [f"{step}:before" for step in ALL_STEPS]
AFTER = [f"{step}:after" for step in (*ALL_STEPS, "done")]
MIDDLE = [
    "await_idle:middle", "documents.reserve_path", "InputTyping.empty_input", "TmuxPanes.paste", "TmuxPanes.enter",
    "await_turn:middle", "documents._rewrite_document", "AgentLifecycle.insert_agent", "lifecycle._write_private",
    "AgentLifecycle._write_order", "TmuxPanes.open", "register:middle", "skill:middle", "prompt:middle",
    "deliver:middle", "acknowledge:middle",
]  # fmt: skip
SOME = [
  "instruct:before", "documents.reserve_path", "TmuxPanes.paste", "TmuxPanes.enter", "check:after", "shut_down:before",
  "AgentLifecycle.insert_agent", "TmuxPanes.open", "register:after", "prompt:middle", "deliver:before", "done:after",
]  # fmt: skip
"""One point of each kind."""
PAIRED = ["TmuxPanes.paste", "TmuxPanes.enter"]
"""What happens three times in a handoff: for the instruction, the exit and the prompt."""


@pytest.fixture
def world(tmp_path: Path, database_url: str) -> Iterator[World]:
    """A fleet on SQLite, and on PostgreSQL."""
    made = World(tmp_path, database_url)
    yield made
    made.close()


DRAFT = "half a thought"
"""What the user has typed to the agent and not sent."""


def survived(world: World, points: list[str]) -> None:
    """Hand an agent off while the server is killed at each of these points, one after the other."""
    world.serve()
    world.install()
    world.script(
        document=[["write", "{path}", "## What I was working on\n\nThe client."], ["say", "ok"]]
    )
    agent = world.worked(
        world.started(), "Never touch the vendor folder, and fix the upload client"
    )
    world.tmux("send-keys", "-t", world.agent(agent)["pane"], "-l", DRAFT)
    world.kill()
    world.serve(at=points[0])
    id = world.api("POST", f"/api/agents/{agent}/handoff", {"reason": "context_limit"})["id"]
    for following in [*points[1:], ""]:
        world.kill_at_point()
        world.serve(at=following)
    of = world.ends(id)

    once(world, of)
    assert not any(DRAFT in prompt["text"] for prompt in world.prompts(""))
    assert any(DRAFT in line["text"] for line in world.log())
    assert of["attempt"] == 1
    assert world.agent(agent)["ended_at"]
    assert world.agent(of["successor_id"])["previous_agent_id"] == agent


def test_d13_killed_at_some_points(world: World) -> None:
    """D13: a server that is killed twelve times, before, in and behind steps, does each of them once."""
    survived(world, SOME)


@pytest.mark.long
def test_d13_killed_before_every_step(world: World) -> None:
    """D13: a server that is killed before each step does each of them once."""
    survived(world, BEFORE)


@pytest.mark.long
def test_d13_killed_behind_every_step(world: World) -> None:
    """D13: a server that is killed when a step is done and not yet recorded does it once."""
    survived(world, AFTER)


@pytest.mark.long
def test_d13_killed_in_the_middle_of_every_step(world: World) -> None:
    """D13: killed behind a paste, an Enter, a reservation, an opened window: nothing happens twice."""
    survived(world, MIDDLE)


@pytest.mark.long
def test_d13_killed_at_every_paste_and_enter(world: World) -> None:
    """D13: the instruction, the exit and the prompt are each pasted and submitted once."""
    survived(world, [*PAIRED, *PAIRED, *PAIRED])
