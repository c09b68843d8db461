"""A handoff that is asked for inside an agent of the fleet goes through the fleet; nobody else is started."""

import sys
from pathlib import Path

import pytest
from fleets import TASUKI, World
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.types import Implementation
from selection import by_default
from waiting import retry_until

GOAL = "document the API of the upload client"


def typed(world: World, agent: int, text: str) -> None:
    """Type a line into the agent's pane, as its user does."""
    pane = world.agent(agent)["pane"]
    world.tmux("send-keys", "-t", pane, "-l", text)
    world.tmux("send-keys", "-t", pane, "Enter")


def handoffs(world: World) -> list[dict]:  # type: ignore[type-arg]
    """The fleet's handoffs."""
    return list(world.api("GET", "/api/handoffs")["handoffs"])


def test_the_command_in_an_agent_goes_through_the_fleet(world: World) -> None:
    """`/handoff GOAL` hands the agent off: its successor is of the fleet and has the goal."""
    world.tasuki("install", "claude", "--yes")
    agent = world.worked(world.started())
    retry_until(lambda: len(world.seen("hook", event="Stop")) == 2, 20)
    typed(world, agent, f"/handoff {GOAL}")
    (of,) = retry_until(lambda: handoffs(world), 30)
    done = world.ends(of["id"])
    successor = world.agent(done["successor_id"])
    (prompt,) = world.prompts("Begin your answer with")

    assert (done["agent_id"], done["goal"], successor["goal"]) == (agent, GOAL, GOAL)
    assert GOAL in prompt["text"]
    assert len(world.seen("started")) == 2
    assert not [p for p in world.prompts(GOAL) if p["text"].startswith("/handoff")]


@pytest.mark.long
def test_the_command_line_in_an_agent_goes_through_the_fleet(world: World) -> None:
    """`tasuki handoff GOAL` in an agent's shell says what happens, and starts nothing itself."""
    said = world.folder / "said"
    world.script(shell=[["run", f"{TASUKI} handoff '{GOAL}' > {said} 2>&1"], ["say", "ok"]])
    agent = world.worked(world.started(), "the shell")
    (of,) = retry_until(lambda: handoffs(world), 30)

    assert world.ends(of["id"])["goal"] == GOAL
    assert (of["id"][:8] in said.read_text(), f"agent {agent}" in said.read_text()) == (True, True)
    assert not (world.data / "handoffs").exists()


def test_without_its_server_an_agent_is_not_doubled(world: World) -> None:
    """While the server is away the command says so; a flag starts a successor outside of the fleet."""
    agent = world.worked(world.started())
    pane = world.agent(agent)["pane"]
    world.kill()
    outside = world.folder / "outside"
    script = world.folder / "ask.sh"
    script.write_text(
        f"{TASUKI} handoff '{GOAL}' > {outside}.1 2>&1; echo $? >> {outside}.1\n"
        f"{TASUKI} handoff --no-fleet '{GOAL}' > {outside}.2 2>&1; touch {outside}\n"
    )
    world.script(shell=[["run", f"sh {script}"], ["say", "ok"]])
    world.tmux("send-keys", "-t", pane, "-l", "the shell")
    world.tmux("send-keys", "-t", pane, "Enter")
    retry_until(outside.exists, 40)
    first, second = Path(f"{outside}.1").read_text(), Path(f"{outside}.2").read_text()

    assert ("server does not answer" in first, "--no-fleet" in first, first[-2:]) == (
        True,
        True,
        "1\n",
    )
    assert ("# Handoff Context" in second, GOAL in second) == (True, True)


def test_a_session_inside_an_agent_is_not_the_agent(world: World) -> None:
    """A caller with the agent's token and another session hands nothing of it off."""
    agent = world.worked(world.started())
    session, process = world.agent(agent)["session"], world.agent(agent)["process"]

    def own(**body: object) -> object:
        found = world.api("POST", "/api/agents/own", body)["agent"]
        return found and found["id"]

    assert own(sessions=[session]) == agent
    assert own(processes=[process]) == agent
    assert own(sessions=["another"], processes=[process]) is None
    assert own(token="nobody's", sessions=[], processes=[1]) is None


async def test_the_tool_in_an_agent_goes_through_the_fleet(world: World) -> None:
    """The MCP tool hands the agent off that calls it; the model's goal is a proposal, not the user's wish."""
    agent = world.worked(world.started())
    env = {**world.env, "CLAUDE_CODE_SESSION_ID": world.agent(agent)["session"]}
    server = StdioServerParameters(
        command=sys.executable, args=["-m", "tasuki", "mcp"], env=env, cwd=str(world.work)
    )
    known = Implementation(name="claude-code", version="1")
    async with Client(stdio_client(server), client_info=known) as client:
        result = await client.call_tool("handoff", {"goal": GOAL})
    (of,) = handoffs(world)
    done = world.ends(of["id"])

    assert (of["id"][:8] in result.content[0].text, done["agent_id"]) == (True, agent)  # type: ignore[union-attr]
    assert (done["goal"], GOAL in done["reason"]) == ("", True)
    assert not (world.data / "handoffs").exists()


@pytest.mark.parametrize(
    "flag", by_default(["--to=codex", "--tmux", "--author=model"], "--to=codex")
)
def test_flags_that_the_fleet_does_not_take_are_told(world: World, flag: str) -> None:
    """What the fleet cannot do as it was asked is refused, not left out in silence."""
    said = world.folder / "said"
    world.script(shell=[["run", f"{TASUKI} handoff {flag} '{GOAL}' > {said} 2>&1"], ["say", "ok"]])
    world.worked(world.started(), "the shell")
    text = retry_until(lambda: said.exists() and said.read_text())

    assert ("takes no" in text, flag.partition("=")[0] in text, handoffs(world)) == (True, True, [])
