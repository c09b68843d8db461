"""The handoff of a fleet with the real programs, begun by one call of the API."""

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from conftest import ANSWER, World
from fakes.model_server import ModelRule, ModelStep
from real_fleet import INJECTED, INSTRUCTED, SECONDS, SKILL, RealFleet, commanded, tooled
from selection import by_default
from waiting import retry_until

from tasuki.harness import registry as harnesses

pytestmark = pytest.mark.e2e


class Kind(NamedTuple):
    """What differs between the programs."""

    writes: Callable[[str, str], ModelStep]
    end_reason: str
    busy: str = "esc to interrupt"
    """What its screen shows while it works."""
    arguments: tuple[str, ...] = ()
    escaped: str = "turn_interrupted"
    """What a handoff fails with whose document was broken off by one key; empty where one does not."""
    env: Mapping[str, str] = {}


KINDS = {
    "claude": Kind(tooled("Write"), "prompt_input_exit"),
    "codex": Kind(
        commanded("exec_command", "cmd"), "other", arguments=("--dangerously-bypass-hook-trust",)
    ),
    "pi": Kind(commanded("bash", "command"), "quit", "Working"),
    "gemini": Kind(
        tooled("write_file"),
        "exit",
        "esc to cancel",
        ("--approval-mode=auto_edit",),
        "document_missing",  # it tells this end of a turn like any other
    ),
    "copilot": Kind(
        commanded("bash", "command", description="Write it"),
        "user_exit",
        arguments=("--allow-all-tools",),
        escaped="",
    ),
    "opencode": Kind(
        commanded("bash", "command", description="Write it"),
        "exit",
        "esc interrupt",
        escaped="",
        env={"OPENCODE_PERMISSION": '{"bash": "allow"}'},
    ),
    "omp": Kind(commanded("bash", "command"), "quit", "Working", ("--no-title",)),
}


@pytest.fixture(params=by_default(sorted(KINDS), "claude"))
def fleet(request: pytest.FixtureRequest) -> Iterator[RealFleet]:
    """A fleet of each of the programs."""
    world = request.getfixturevalue(f"with_{request.param}")
    kind = KINDS[request.param]
    world.set(**kind.env)
    made = RealFleet(world, request.param, kind.arguments)
    made.serve()
    made.install()
    made.writes(kind.writes)
    yield made
    made.close()


@pytest.fixture
def claude(with_claude: World) -> Iterator[RealFleet]:
    """A fleet of Claude Code."""
    fleet = RealFleet(with_claude, "claude")
    fleet.serve()
    fleet.install()
    fleet.writes(tooled("Write"))
    yield fleet
    fleet.close()


def test_an_agent_hands_off_to_its_successor(fleet: RealFleet) -> None:
    """One call: the document is written by the agent, its successor has its skill first, then the prompt."""
    stops = user_hook(fleet, "Stop") if fleet.harness == "claude" else None
    agent = fleet.worked(fleet.started())
    of = fleet.ends(fleet.hand_off(agent), seconds=2 * SECONDS)
    old, new = fleet.agent(agent), fleet.agent(of["successor_id"])
    (asked,), (told,) = fleet.asked(INSTRUCTED), fleet.asked(INJECTED)

    assert of["acknowledged_at"]
    assert of["author"] == "agent"
    assert "## Next steps" in Path(of["file_path"]).read_text()
    assert old["end_reason"] == KINDS[fleet.harness].end_reason
    assert old["ended_at"] <= new["started_at"]
    assert told.number > asked.number
    assert told.count_text(SKILL) == 1
    assert new["skill_at"] < began(of, "prompt")
    thread = harnesses.get_harness(fleet.harness).read(Path(new["thread"]))
    assert sum(of["id"] in e.text for e in thread.entries if e.kind == "user") == 1
    assert len(fleet.api("GET", "/api/agents")["agents"]) == 2
    fleet.idle(new["id"])
    if stops:
        assert sorted(stops()) == sorted([*2 * [old["session"]], new["session"]])


@pytest.mark.long
@pytest.mark.parametrize("seconds", by_default([0.0, 0.2, 0.5, 1.0, 2.0, 4.0], 0.2))
def test_a_handoff_ordered_before_the_goal_was_taken(claude: RealFleet, seconds: float) -> None:
    """The goal's turn comes first, and is not taken for that of the instruction."""
    persona = claude.persona()
    given = {"harness": "claude", "cwd": str(claude.work), "persona": persona}
    made = claude.api("POST", "/api/agents", {**given, "goal": "Fix the upload client"})
    time.sleep(seconds)
    handoff = claude.ends(claude.hand_off(made["id"]))
    prompts = [r.prompt for r in claude.world.sent("") if r.step == 0]

    assert handoff["author"] == "agent"
    assert "Fix the upload client" in prompts[0]
    assert [INSTRUCTED in prompt for prompt in prompts[:2]] == [False, True]


def test_another_claude_in_the_same_home(claude: RealFleet) -> None:
    """One that the operator started himself appears without a persona; it gets no skill and works as ever."""
    agent = claude.worked(claude.started())
    pane = claude.tmux(
        "new-window", "-dP", "-F", "#{pane_id}", "-c", str(claude.work), "claude"
    ).strip()
    retry_until(lambda: len(claude.api("GET", "/api/agents")["agents"]) == 2, SECONDS)
    other = claude.idle(2)
    retry_until(lambda: "❯" in claude.screen(pane), SECONDS)
    claude.tmux("send-keys", "-t", pane, "-l", "what is next here?")
    claude.tmux("send-keys", "-t", pane, "Enter")
    (request,) = retry_until(lambda: claude.asked("what is next here?"), SECONDS)
    claude.shows(other, ANSWER)
    told = claude.agent(claude.idle(other))

    assert request.count_text(SKILL) == 0
    assert (told["persona"], told["pane"], bool(told["thread"])) == (None, pane, True)
    assert claude.agent(agent)["session"] != told["session"]


@pytest.mark.long
@pytest.mark.parametrize(
    "fleet", by_default(sorted(n for n in KINDS if KINDS[n].escaped), "claude"), indirect=True
)
def test_escape_in_the_middle_of_the_document(fleet: RealFleet) -> None:
    """The turn is broken off by the operator: a failure by name, and the agent goes on living."""
    fleet.world.model.rules = (ModelRule(INSTRUCTED, (held(threading.Event()),)),)
    agent = fleet.worked(fleet.started())
    id = fleet.hand_off(agent)
    retry_until(lambda: fleet.asked(INSTRUCTED), SECONDS)
    fleet.shows(agent, KINDS[fleet.harness].busy)
    fleet.press(agent, "Escape")
    failure = fleet.ends(id, "failed")["failure"]

    fleet.idle(agent)
    assert failure["code"] == KINDS[fleet.harness].escaped
    assert fleet.agent(agent)["ended_at"] is None


@pytest.mark.long
def test_escape_in_the_middle_of_an_ordinary_turn(claude: RealFleet) -> None:
    """No hook tells of it, and yet the agent is known to be idle: it can be handed off."""
    claude.world.model.rules = (
        ModelRule("something slow", (held(threading.Event()),)),
        *claude.world.model.rules,
    )
    agent = claude.worked(claude.started())
    claude.api("POST", f"/api/agents/{agent}/send", {"text": "something slow"})
    claude.shows(agent, "esc to interrupt")
    id = claude.hand_off(agent)
    claude.press(agent, "Escape")

    assert claude.ends(id, seconds=2 * SECONDS)["author"] == "agent"


@pytest.mark.long
def test_a_permission_dialog_is_seen(claude: RealFleet) -> None:
    """What it may not do unasked it asks for: the agent waits for the user, and is at work again behind that."""
    outside, go = claude.folder / "elsewhere.md", threading.Event()
    claude.world.model.rules = (
        ModelRule("write elsewhere", (tooled("Write")(str(outside), "x"), held(go))),
        *claude.world.model.rules,
    )
    agent = claude.worked(claude.started())
    claude.api("POST", f"/api/agents/{agent}/send", {"text": "write elsewhere"})
    waiting = claude.is_in(agent, "waiting")
    claude.shows(agent, "Do you want to create")
    exists = outside.exists()
    retry_until(lambda: claude.press(agent, "Enter") or outside.exists(), SECONDS)
    claude.is_in(agent, "busy")
    go.set()
    claude.idle(agent)

    assert (exists, outside.read_text()) == (False, "x")
    assert waiting["waiting_for"] == f"permission for Write: {outside}"


def held(go: threading.Event) -> ModelStep:
    """An answer that does not come before it may."""
    return ModelStep(reply=lambda _: "Slowly." if go.wait(SECONDS) else "Too late.")


def began(of: dict[str, Any], step: str) -> float:
    """When a step of a handoff began."""
    return next(float(s["started_at"]) for s in of["steps"] if s["step"] == step)


def user_hook(fleet: RealFleet, event: str) -> Callable[[], list[str]]:
    """A hook that the user has of his own; the sessions that it was called for."""
    settings, seen = fleet.home / ".claude" / "settings.json", fleet.folder / "seen.jsonl"
    known = json.loads(settings.read_text())
    hook = {"type": "command", "command": f"cat >> '{seen}'; echo >> '{seen}'"}
    known["hooks"][event].append({"hooks": [hook]})
    settings.write_text(json.dumps(known))
    return lambda: [json.loads(x)["session_id"] for x in seen.read_text().split("\n") if x]
