"""`tasuki handoff --author agent` with the real programs: the brief, what stays untouched, the ladder."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from conftest import World
from fakes.model_server import ModelRequest, ModelRule, ModelStep, ScriptedCall
from selection import by_default
from test_agent_author import FACT, NAMES, SECONDS, WISH, kept, recorded

from tasuki.model import Thread

__all__ = ["recorded"]

pytestmark = pytest.mark.e2e

GOAL = "make the gateway keep idle connections open and cover it with a test"
LIE = "`GATEWAY_MAGIC` must be 7 before the gateway starts."
KEYS = ("relevantFiles", "relevantCommands", "relevantInformation", "decisions", "openQuestions",
        "failedApproaches", "constraints", "nextSteps", "corrections")  # fmt: skip


def written(request: ModelRequest) -> dict[str, Any]:
    """A structured answer, made from the question alone, with one invented value."""
    wish = re.search(r"(U\d+) \"+Never change the public", request.prompt)
    assert wish
    state = {"done": [], "inProgress": [], "notWanted": []}
    return {
        **{key: [] for key in KEYS},
        "relevantInformation": [{"text": FACT, "refs": []}, {"text": LIE, "refs": []}],
        "constraints": [{"text": wish[1], "refs": []}],
        "state": state,
    }


def document(request: ModelRequest) -> str:
    """The same as Markdown."""
    wish = re.search(r"(U\d+) \"+Never change the public", request.prompt)
    assert wish
    return (
        f"## Goal\n- x\n\n## Constraints & Preferences\n- {wish[1]}\n\n## Progress\n- (none)\n\n"
        f"## Key Decisions\n- (none)\n\n## Critical Context\n- {FACT}\n- {LIE}\n\n## Next Steps\n- (none)\n"
    )


def answering(world: World, name: str) -> None:
    """Let the model of a program answer the question for a handoff, in the shape that is asked for."""

    def reply(request: ModelRequest) -> ModelStep:
        if "Write a handoff document in Markdown" in request.prompt:
            return ModelStep(document(request))
        found = written(request)
        return (
            ModelStep(calls=(ScriptedCall("StructuredOutput", found),))
            if name == "claude"
            else ModelStep(json.dumps(found))
        )

    rule = ModelRule("about to be handed to a fresh thread", (ModelStep(reply=reply),))
    world.model.rules = (rule, *world.model.rules)


def handoff(world: World, thread: Thread, *more: str, settings: str = "") -> Any:
    """`tasuki handoff --json` as a process of its own; its document and what it told."""
    config = world.folder / "config.toml"
    config.write_text(settings)
    world.set(TASUKI_DATA=str(world.folder / "data"), TASUKI_CONFIG=str(config))
    done = subprocess.run(
        [sys.executable, "-m", "tasuki", "handoff", "--json", "--from", thread.path, *more, GOAL],
        cwd=world.project, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=3 * SECONDS, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("shape", by_default(["structured", "markdown"], "structured"))
@pytest.mark.parametrize("name", by_default(NAMES, "claude", "codex", "pi"))
def test_the_agent_writes_and_nothing_of_its_own_changes(
    name: str, shape: str, world: World, recorded: Callable[[str], Thread]
) -> None:
    """The brief holds what the agent knew and the user's words to the letter; the lie is dropped."""
    thread = recorded(name)
    answering(world, name)
    before = kept(world, name)
    made = handoff(
        world, thread, "--author", "agent", "--strict", settings=f'agent_format = "{shape}"'
    )

    assert kept(world, name) == before
    by = made["handoff"]["draft"]["authorship"]
    assert by["author"] == "agent"
    assert by["requests"] == 2, "the lie was asked about once"
    assert by["dropped"]["value"] >= 1
    quoted = re.escape(WISH)  # opencode records a prompt of the command line in quotes
    assert re.search(rf'^- "+{quoted}"+ \[#1(?:, #\d+)?\]$', made["brief"], re.MULTILINE)
    assert re.search(re.escape(f"- {FACT} [#") + r"\d+\]", made["brief"])
    assert "GATEWAY_MAGIC" not in made["brief"]
    assert made["brief"].endswith(GOAL)
    assert any(told.startswith("Written by the agent") for told in made["authorship"])


def test_the_ladder_leads_down_to_the_facts(
    world: World, recorded: Callable[[str], Thread]
) -> None:
    """The agent is refused, no model listens: the offline author writes, and both reasons are told."""
    thread = recorded("pi")
    refused = ModelRule("about to be handed", (ModelStep(status=400, error="no credit left"),))
    world.model.rules = (refused, *world.model.rules)
    nobody = 'model = "local/x"\n[providers.local]\nbase_url = "http://127.0.0.1:9/v1"\n'
    made = handoff(world, thread, "--author", "agent", settings=nobody)

    by = made["handoff"]["draft"]["authorship"]
    assert by["author"] == "offline"
    agent, model = by["fell"]
    assert agent.startswith("agent: ")
    assert "no credit left" in agent
    assert model.startswith("model: The model local/x at http://127.0.0.1:9/v1 could not be asked")
    assert made["brief"].endswith(GOAL)
    assert WISH in made["brief"]
