"""What holds of the controls of all harnesses: their hooks, the payloads, how an agent is started."""

import json
from pathlib import Path
from typing import Any

import pytest
from controls import NAMES, control, payloads, told

from tasuki.harness import registry as harnesses
from tasuki.harness.integration import JsonEntry, OwnFile
from tasuki.harness.plans import FLEET_MARK
from tasuki.harness.protocol import AgentEvent, AgentRequest, HookReply, Screenshot

SILENT = ("copilot",)
"""Programs that do not tell the last words of a turn."""
HOSTILE: list[Any] = [
    {},
    {"event": "idle"},
    {"event": "idle", "session": 7, "tokens": -1},
    {"hook_event_name": "Stop"},
    {"hook_event_name": ["Stop"], "session_id": {}},
    {"hook_event_name": "Stop", "session_id": "s", "background_tasks": 7, "agent_id": []},
    {"hook_event_name": "PermissionRequest", "session_id": "s", "tool_input": "x"},
    {"session_id": "s", "context_window": {"used_percentage": 1e308 * 10}},
]


@pytest.mark.parametrize("name", NAMES)
def test_the_hooks_call_the_script(name: str) -> None:
    """Each addition is marked as the fleet's, and names the script and the harness."""
    for addition in control(name).list_additions("/a b/hook.sh"):
        assert isinstance(addition, JsonEntry | OwnFile)
        text = addition.content if isinstance(addition, OwnFile) else json.dumps(addition.value)
        assert addition.mark == FLEET_MARK
        assert FLEET_MARK in text
        assert "/a b/hook.sh" in text
        assert name in text


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("payload", HOSTILE)
def test_a_payload_may_be_anything(name: str, payload: Any) -> None:
    """What is no payload tells nothing, or something harmless, and never fails."""
    event = control(name).parse_event(payload)

    assert event is None or event.session == "s"


@pytest.mark.parametrize("name", NAMES)
def test_what_real_payloads_tell(name: str) -> None:
    """Every event has its session and its thread; prompts have their words, ends the last ones, and a turn one id."""
    events = told(name)

    assert {"started", "prompt", "idle", "ended"} <= {event.kind for event in events}
    assert all(e.session and e.session[:8] in e.path for e in events)
    assert all(e.text for e in events if e.kind == "prompt")
    assert any(e.text for e in events if e.kind == "idle") or name in SILENT
    prompted = {e.turn for e in events if e.kind == "prompt"}
    assert {e.turn for e in events if e.kind == "idle"} & prompted


@pytest.mark.parametrize("name", NAMES)
def test_an_agent_is_started(name: str) -> None:
    """The program comes first, the operator's own arguments are there, the prompt is the last word."""
    request = AgentRequest("/w", "s-1", "-do it", "m-1", "", ("/docs",), ("--own",))
    plan = control(name).plan_start(request)
    without = control(name).plan_start(AgentRequest("/w", "s-1"))

    assert (plan.argv[0], plan.cwd) == (harnesses.get_harness(name).program, "/w")
    assert {"m-1", "--own"} <= set(plan.argv)
    assert plan.argv[-1].endswith("-do it")
    assert plan.argv[-2] == "--" or not plan.argv[-1].startswith("-do")
    assert "--" not in without.argv
    assert plan.ready


@pytest.mark.parametrize("name", NAMES)
def test_only_a_start_is_answered_with_the_skill(name: str) -> None:
    """The skill reaches the program where its start can be answered, and nowhere else."""
    made = control(name)
    reply = HookReply(context='You are "Con".')
    said = made.format_reply(AgentEvent("started", "s"), reply)

    assert bool(said) == made.skill_at_start
    assert not said or "Con" in said
    assert made.format_reply(AgentEvent("idle", "s"), reply) == ""
    assert made.format_reply(AgentEvent("started", "s"), HookReply()) == ""


@pytest.mark.parametrize("name", NAMES)
def test_an_empty_look_says_nothing(name: str, tmp_path: Path, monkeypatch: Any) -> None:
    """Without a screen, and without a signal of the program's own, nothing is known."""
    monkeypatch.setenv("HOME", str(tmp_path))

    assert control(name).read_screen(Screenshot("", session="none")).state == "unknown"
    assert control(name).read_screen(Screenshot("$ ls\nsh: not found\n$ ")).state == "unknown"


def test_every_payload_belongs_to_a_program() -> None:
    """The payloads that these tests read are there."""
    assert all(
        payloads(name) for name in ("claude", "codex", "pi", "omp", "gemini", "copilot", "opencode")
    )
