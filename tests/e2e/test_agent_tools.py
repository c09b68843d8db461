"""Real agents call tasuki's tools in the middle of their own thread, by the Model Context Protocol."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from agents import PROGRAMS
from conftest import World
from fakes.model_server import ModelRule, ModelStep, ScriptedCall
from inside import installed
from selection import by_default

pytestmark = pytest.mark.e2e

GOAL = "Fix the login timeout in src/auth.py and cover it with a test of its own"
WISH = "Never change the public signature of `login()`, then hand this conversation off."
DONE = "The user can start it now."


def server(world: World) -> dict[str, object]:
    """How an agent starts the tools: command, arguments, environment."""
    env = {
        "HOME": str(world.home),
        "TASUKI_DATA": str(world.folder / "data"),
        "TASUKI_CONFIG": os.devnull,
    }
    return {"command": sys.executable, "args": ["-m", "tasuki", "mcp"], "env": env}


def scripted(world: World, *calls: ScriptedCall) -> None:
    """Let the model make these calls one after the other, then say that it is done."""
    steps = [ModelStep("", (call,)) for call in calls]
    world.model.rules = (ModelRule("hand this conversation off", (*steps, ModelStep(DONE))),)


def asked(world: World, command: Sequence[str]) -> str:
    """What a program prints that is asked once."""
    done = subprocess.run(
        command, cwd=world.project, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=120, check=False,
    )  # fmt: skip
    assert DONE in done.stdout, (done.stdout, done.stderr)
    return done.stdout


def check(world: World, harness: str) -> None:
    """The model got the brief of its own thread, the goal marked as its own; the draft is kept."""
    vault = world.vault
    (handoff,) = vault.list_handoffs()
    assert handoff.predecessor.harness == harness
    assert handoff.goal.said_by == "model"
    assert vault.load_state(handoff.id) == "draft"
    assert WISH.split(",")[0] in vault.load_brief(handoff.id)
    results = [
        turn.text for request in world.model.log for turn in request.turns if turn.role == "tool"
    ]
    assert any(f"tasuki start {handoff.id[:8]}" in text and GOAL in text for text in results), (
        results
    )
    assert any(WISH in text and "#1 user" in text for text in results), results
    assert "(verbatim, proposed by the previous agent)\n" in vault.load_brief(handoff.id)
    path = Path(handoff.predecessor.path)
    assert path.exists() or path.parent.is_file()  # a row of a database


def calls(prefix: str) -> tuple[ScriptedCall, ScriptedCall]:
    """A look at the first entry of the agent's own thread, then a handoff of it.

    In this order: Gemini CLI records an answer only once its calls have ended.
    """
    return (
        ScriptedCall(f"{prefix}read_thread", {"thread": "@1#1"}),
        ScriptedCall(f"{prefix}handoff", {"goal": GOAL}),
    )


def test_claude_code(world: World) -> None:
    """Claude Code hands its own thread off and reads it."""
    PROGRAMS["claude"].prepare(world)
    world.write("mcp.json", {"mcpServers": {"tasuki": {"type": "stdio", **server(world)}}})
    scripted(world, *calls("mcp__tasuki__"))
    allowed = "mcp__tasuki__handoff,mcp__tasuki__read_thread"
    asked(world, ["claude", "-p", WISH, "--mcp-config", str(world.home / "mcp.json"),
                  "--strict-mcp-config", "--allowedTools", allowed])  # fmt: skip
    check(world, "claude")


def test_pi(world: World) -> None:
    """pi hands its own thread off and reads it."""
    PROGRAMS["pi"].prepare(world)
    world.write(
        ".pi/agent/mcp.json", {"mcpServers": {"tasuki": {**server(world), "exposure": "direct"}}}
    )
    scripted(world, *calls("mcp__tasuki__"))
    asked(world, ["pi", "-p", WISH])
    check(world, "pi")


@pytest.mark.long
def test_gemini(world: World) -> None:
    """Gemini CLI hands its own thread off and reads it."""
    import json

    PROGRAMS["gemini"].prepare(world)
    settings = json.loads((world.home / ".gemini" / "settings.json").read_text())
    world.write(
        ".gemini/settings.json",
        {**settings, "mcpServers": {"tasuki": {**server(world), "trust": True}}},
    )
    scripted(world, *calls("mcp_tasuki_"))
    asked(world, ["gemini", "-p", WISH])
    check(world, "gemini")


INSTALLED = {
    "pi": ("mcp__tasuki__", ("pi", "-p", WISH)),
    "omp": ("mcp__tasuki_", ("omp", "--no-title", "-p", WISH)),
    "gemini": ("mcp_tasuki_", ("gemini", "--approval-mode", "yolo", "-p", WISH)),
    "opencode": ("tasuki_", ("opencode", "run", WISH)),
    "copilot": ("tasuki-", ("copilot", "--allow-tool", "tasuki", "-p", WISH)),
}
"""How each program names tasuki's tools, and is asked once with leave to call them."""


@pytest.mark.parametrize("name", by_default(INSTALLED, "codex", "opencode", "pi"))
def test_the_tools_that_are_installed(world: World, name: str) -> None:
    """The entry that `tasuki install` makes works as it is, also with tasuki's folders elsewhere."""
    PROGRAMS[name].prepare(world)
    installed(world, name)
    for variable in ("TASUKI_DATA", "TASUKI_CONFIG"):
        world.patch.delenv(variable)
    prefix, command = INSTALLED[name]
    scripted(world, *calls(prefix))
    asked(world, command)
    check(world, name)
