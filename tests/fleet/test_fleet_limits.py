"""Agents at a usage limit: how it is noticed, told and ended, and where their work goes on."""

import json
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from fleets import Refused, World
from waiting import retry_until

SECRET = "sk-ant-api03-" + "a1B2" * 20


def sentence(hours: int = 2) -> str:
    """What Claude Code writes whose limit resets in some hours, at a whole minute."""
    then = datetime.now().astimezone() + timedelta(hours=hours)
    return f"You've hit your 5-hour limit · resets {then:%I:%M%p}".lower().replace(
        "you've", "You've"
    )


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[World]:
    """A fleet of scripted agents."""
    world = World(tmp_path / "fleet")
    world.serve()
    world.install()
    yield world
    world.close()


def limited(world: World, id: int, text: str = "Fix the limits") -> Any:
    """An agent once its turn ended at a usage limit."""
    world.api("POST", f"/api/agents/{id}/send", {"text": text})
    return retry_until(lambda: (a := world.agent(id))["state"] == "limited" and a)


def alerts(world: World, kind: str = "limited") -> list[Any]:
    """The alerts of a kind."""
    return [one for one in world.api("GET", "/api/alerts")["alerts"] if one["kind"] == kind]


def test_e13_an_agent_at_a_limit_until_its_next_answer(fleet: World) -> None:
    """E13: its state and the time of the reset are shown, one alert is raised, and an answer ends it."""
    told = sentence()
    fleet.script(limits=[["limit", told]])
    agent = fleet.worked(fleet.started())
    found = limited(fleet, agent)
    again = limited(fleet, agent, "More limits")
    listed, shown = fleet.tasuki("agent", "list"), fleet.tasuki("agent", "show", str(agent))

    assert found["limit_text"] == told
    assert 60 * 100 < found["limited_until"] - time.time() <= 60 * 120
    assert again["limited_until"] == pytest.approx(found["limited_until"], abs=120)
    (alert,) = alerts(fleet)
    until = f"{datetime.fromtimestamp(found['limited_until']):%H:%M}"
    assert (alert["title"], alert["agent_id"]) == ("developer-con-1 is at a usage limit", agent)
    assert f"It resets at {until}." in alert["text"]
    assert f"limited until {until}" in listed
    assert f"(resets at {until})" in shown
    fleet.worked(agent, "Fix the client")
    ended = fleet.agent(agent)
    assert (ended["state"], ended["limit_text"], ended["limited_until"]) == ("idle", "", None)
    limited(fleet, agent, "Other limits")
    assert len(alerts(fleet)) == 2


def test_e13_a_limit_that_no_hook_tells_is_in_the_thread(fleet: World) -> None:
    """Where the end of a turn is only seen on the screen, its thread says that it is a limit, and until when."""
    fleet.script(limits=[["limit", "You've hit your weekly limit", 86400]])
    agent = fleet.worked(fleet.started())
    settings = fleet.home / ".claude" / "settings.json"
    known = json.loads(settings.read_text())
    del known["hooks"]["StopFailure"]
    settings.write_text(json.dumps(known))
    found = limited(fleet, agent)

    assert found["limited_until"] == pytest.approx(time.time() + 86400, abs=60)
    assert len(alerts(fleet)) == 1


def fails(world: World, agent: int, text: str = "It is busy") -> dict[str, Any]:
    """The agent once the turn of this text has failed."""
    world.api("POST", f"/api/agents/{agent}/send", {"text": text})
    return retry_until(lambda: (a := world.agent(agent))["state"] == "failed" and a)


def test_a_turn_that_failed_is_told_in_the_programs_words(fleet: World) -> None:
    """The state, one alert and the list say so; it is no limit, and the next turn that succeeds ends it."""
    fleet.script(busy=[["fail", "API Error: 529 Overloaded"]])
    agent = fleet.worked(fleet.started(persona=fleet.persona()))
    found = fails(fleet, agent)
    shown = fleet.tasuki("agent", "show", str(agent))
    fails(fleet, agent, "It is still busy")
    (alert,) = alerts(fleet, "failed")
    fleet.worked(agent, "Fix the client")

    assert found["failure"] == {
        "kind": "other",
        "text": "API Error: 529 Overloaded",
        "resets_at": None,
    }
    assert found["limit_text"] == ""
    assert "API Error: 529 Overloaded" in shown
    assert (alert["kind"], alert["title"]) == (
        "failed",
        "developer-con-1 could not finish its turn",
    )
    assert alert["text"] == "API Error: 529 Overloaded."
    assert (fleet.agent(agent)["state"], fleet.agent(agent)["failure"]) == ("idle", None)


def test_a_failure_of_another_kind_is_told_though_the_last_turn_failed_too(fleet: World) -> None:
    """Behind an error of the provider the usage limit is news, and the error behind the limit."""
    fleet.script(busy=[["fail", "API Error: 529 Overloaded"]], limits=[["limit", sentence()]])
    agent = fleet.worked(fleet.started(persona=fleet.persona()))
    fails(fleet, agent)
    limited(fleet, agent)
    fails(fleet, agent, "It is still busy")

    assert (len(alerts(fleet)), len(alerts(fleet, "failed"))) == (1, 2)


def test_an_agent_whose_last_turn_failed_is_asked_if_it_may_answer(fleet: World) -> None:
    """An error of the provider may be over: the agent writes its document itself."""
    fleet.script(busy=[["fail", "API Error: 529 Overloaded"]])
    agent = fleet.worked(fleet.started())
    fails(fleet, agent)
    handoff = fleet.ends(fleet.hand_off(agent))

    assert (handoff["from_thread"], handoff["author"]) == (False, "agent")


@pytest.mark.parametrize(
    "error", ["Prompt is too long", "API Error: 401 Invalid API key · Please run /login"]
)
def test_an_agent_that_cannot_answer_is_handed_off_from_its_thread(
    fleet: World, error: str
) -> None:
    """Its context is full, or its login is over: it is not asked, and the step says why."""
    fleet.script(busy=[["fail", error]])
    agent = fleet.worked(fleet.started())
    fails(fleet, agent)
    said = fleet.tasuki("agent", "handoff", str(agent), "--reason", "context", "--watch")
    (handoff,) = fleet.api("GET", "/api/handoffs")["handoffs"]

    assert (handoff["from_thread"], handoff["state"]) == (True, "done")
    assert error in said


def test_a_turn_that_fails_while_it_writes_is_replaced_by_the_thread(fleet: World) -> None:
    """The instruction was taken and the provider failed: the document comes from the thread."""
    agent = fleet.worked(fleet.started())
    fleet.script(document=[["fail", "API Error: Connection error."]])
    handoff = fleet.ends(fleet.hand_off(agent))

    assert (handoff["state"], handoff["author"]) == ("done", "thread (offline)")


def test_a_full_context_begins_the_automatic_handoff(fleet: World) -> None:
    """Where nothing told how full it is, the error does; once its turn failed the work is handed off."""
    slug = fleet.persona()
    fleet.tasuki("persona", "edit", slug, "--automatic")
    fleet.script(busy=[["fail", "Prompt is too long"]])
    agent = fleet.worked(fleet.started(persona=slug))
    fleet.api("POST", f"/api/agents/{agent}/send", {"text": "It is busy"})
    (handoff,) = retry_until(lambda: fleet.api("GET", "/api/handoffs")["handoffs"])

    assert fleet.ends(handoff["id"])["automatic"]


def test_an_agent_goes_on_by_itself_at_the_reset(fleet: World) -> None:
    """Only where the setting says so, as often a day as it says, and once for each reset."""
    fleet.kill()
    fleet.config(notify="", resume_at_reset=1)
    fleet.serve()
    fleet.script(limits=[["limit", sentence()]])
    agent = fleet.worked(fleet.started())
    limited(fleet, agent)
    fleet.sql(f"update agents set limited_until = {time.time() - 60} where id = {agent}")
    fleet.idle(agent)
    first = [line["text"] for line in fleet.log() if line["kind"] in ("prompt", "resumed")]
    limited(fleet, agent, "Other limits")
    fleet.sql(f"update agents set limited_until = {time.time() - 60} where id = {agent}")
    time.sleep(4)

    assert "Go on." in first
    assert fleet.agent(agent)["state"] == "limited"
    assert len([line for line in fleet.log() if line["kind"] == "resumed"]) == 1


def test_e13_what_the_harness_says_is_cleaned(fleet: World) -> None:
    """Keys and escape sequences of the sentence reach neither the operator's list nor the alert."""
    fleet.script(limits=[["limit", f"You've hit your limit \x1b[31m {SECRET}"]])
    agent = fleet.worked(fleet.started())
    found = limited(fleet, agent)
    told = f"{found} {alerts(fleet)} {fleet.tasuki('agent', 'show', str(agent))}"

    assert SECRET not in told
    assert "\x1b" not in told
    assert found["limit_text"].startswith("You've hit your limit")


def test_e13_the_agent_goes_on_when_its_limit_has_reset(fleet: World) -> None:
    """It is told once, by the way of all texts, and not before that time unless that is forced."""
    fleet.script(limits=[["limit", sentence()]])
    agent = fleet.worked(fleet.started())
    refused = fleet.tasuki("agent", "resume", str(agent), code=1)
    limited(fleet, agent)
    early = fleet.tasuki("agent", "resume", str(agent), code=1)
    fleet.sql(f"update agents set limited_until = {time.time() - 1} where id = {agent}")
    said = fleet.tasuki("agent", "resume", str(agent))
    fleet.idle(agent)
    prompts = [line["text"] for line in fleet.log() if line["kind"] == "prompt"]
    limited(fleet, agent, "Other limits")
    forced = fleet.tasuki("agent", "resume", str(agent), "--force")

    assert "is idle, not at a usage limit" in refused
    assert "--force" in early
    assert f"Agent {agent} goes on." in said
    assert prompts[-1] == "Go on."
    assert "goes on" in forced


def test_e13_an_unknown_reset_is_not_guessed(fleet: World) -> None:
    """Without a time the agent is limited until somebody tries."""
    fleet.script(limits=[["limit", "You've hit your limit"]])
    agent = fleet.worked(fleet.started())
    found = limited(fleet, agent)
    said = fleet.tasuki("agent", "resume", str(agent), code=1)

    assert found["limited_until"] is None
    assert "is not known" in said
    assert " limited " in fleet.tasuki("agent", "list")


def test_e13_a_limited_agent_is_handed_off_from_its_thread(fleet: World) -> None:
    """It cannot write: the document comes from its thread, whatever was asked for."""
    fleet.script(limits=[["limit", sentence()]])
    agent = fleet.worked(fleet.started())
    limited(fleet, agent)
    handoff = fleet.ends(fleet.hand_off(agent))

    assert (handoff["from_thread"], handoff["author"]) == (True, "thread (offline)")
    assert "Fix the limits" in Path(handoff["file_path"]).read_text()


@pytest.mark.parametrize(
    ("harness", "why"),
    [
        ("nothing", "Unknown harness 'nothing'"), ("aider", "cannot run agents of aider"),
        ("copilot", "is not on the PATH of the server"), ("codex", "not in Codex"),
    ],
)  # fmt: skip
def test_e13_a_harness_that_cannot_take_over(fleet: World, harness: str, why: str) -> None:
    """An unknown one, one that runs in no fleet, a missing program and missing hooks are refused by name."""
    if harness == "codex":
        program = fleet.folder / "bin" / "codex"
        program.write_text("#!/bin/sh\nexit 0\n")
        program.chmod(0o755)
    agent = fleet.worked(fleet.started())
    with pytest.raises(Refused) as refused:
        fleet.hand_off(agent, to=harness)

    assert (refused.value.status, why in refused.value.body["error"]) == (400, True), refused.value
    assert fleet.agent(agent)["state"] == "idle"
    assert fleet.api("GET", "/api/handoffs")["handoffs"] == []


def test_e13_on_limit_that_cannot_be_done_is_told(fleet: World) -> None:
    """The harness of the persona is missing: an alarm says so, the agent stays as it is."""
    slug = fleet.persona()
    fleet.tasuki("persona", "edit", slug, "--on-limit", "copilot")
    fleet.script(limits=[["limit", sentence()]])
    agent = fleet.worked(fleet.started(persona=slug))
    limited(fleet, agent)
    (alarm,) = retry_until(fleet.alarms)

    assert alarm["data"]["code"] == "on_limit_refused"
    assert "is not on the PATH of the server" in alarm["text"]
    assert "go on in copilot" in fleet.tasuki("persona", "show", slug)
    assert fleet.agent(agent)["state"] == "limited"


def test_e13_on_limit_must_name_another_harness(fleet: World) -> None:
    """Its own harness, and one that runs in no fleet, are refused; an empty one is none."""
    slug = fleet.persona()
    same = fleet.tasuki("persona", "edit", slug, "--on-limit", "claude", code=1)
    none = fleet.tasuki("persona", "edit", slug, "--on-limit", "aider", code=1)
    fleet.tasuki("persona", "edit", slug, "--on-limit", "codex")
    fleet.tasuki("persona", "edit", slug, "--on-limit", "")

    assert "no agent can go on in claude" in same
    assert "cannot run agents of aider" in none
    assert fleet.api("GET", f"/api/personas/{slug}")["on_limit"] == ""


def test_e13_a_limit_while_it_writes_the_document(fleet: World) -> None:
    """The handoff fails by name, the agent lives, and the same order begins it again from the thread."""
    agent = fleet.worked(fleet.started())
    fleet.script(document=[["limit", sentence()]])
    first = fleet.ends(fleet.hand_off(agent), "failed")
    second = fleet.ends(fleet.hand_off(agent))

    assert first["failure"]["code"] == "agent_limited"
    assert "--to HARNESS" in first["failure"]["remedy"]
    assert (second["id"], second["from_thread"]) == (first["id"], True)


def test_e13_a_server_that_ended_before_it_began_the_handoff(fleet: World) -> None:
    """The next server looks at every limited agent once; nothing else would begin the handoff."""
    slug = fleet.persona()
    fleet.script(limits=[["limit", sentence()]])
    agent = fleet.worked(fleet.started(persona=slug))
    limited(fleet, agent)
    fleet.kill()
    fleet.sql(f"update personas set on_limit = 'copilot' where slug = '{slug}'")
    fleet.serve()
    (alarm,) = retry_until(fleet.alarms)

    assert (alarm["data"]["code"], alarm["agent_id"]) == ("on_limit_refused", agent)


def test_e13_a_limit_that_is_told_late_is_resolved_from_its_own_time(fleet: World) -> None:
    """While no server runs the event waits in the spool; `3pm` is that of the event, not of the reading."""
    fleet.script(limits=[["sleep", 2], ["limit", sentence()]])
    agent = fleet.worked(fleet.started())
    fleet.api("POST", f"/api/agents/{agent}/send", {"text": "Fix the limits"})
    fleet.kill()
    retry_until(lambda: any((fleet.data / "fleet" / "spool").glob("*.json")))
    fleet.serve()
    found = retry_until(lambda: (a := fleet.agent(agent))["state"] == "limited" and a)

    assert 0 < found["limited_until"] - time.time() <= 7200
    assert len(alerts(fleet)) == 1
