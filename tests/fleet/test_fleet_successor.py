"""The handoff of an agent from its record to the acknowledgement, by its requirements, with real panes."""

from pathlib import Path

import pytest
from fleets import SKILL, World
from waiting import retry_until

# -- FR11, FR12: the record ------------------------------------------------------------


def test_fr11_the_record(world: World) -> None:
    """FR11, FR12: agent, reason, path, and a prompt that names predecessor, file and task."""
    agent = world.worked(world.started())
    of = world.ends(world.hand_off(agent, reason="context full", context="mind the 429 path"))

    assert (of["agent_id"], of["reason"]) == (agent, "context full")
    for words in (f"agent {agent}", of["file_path"], "mind the 429 path", of["id"][:8]):
        assert words in of["injection_prompt"]


# -- FR13: the end ---------------------------------------------------------------------


@pytest.mark.long
def test_fr13_it_is_asked_to_end(world: World) -> None:
    """FR13, scenario `Graceful shutdown`: `/exit`, no signal, and `ended_at` is set."""
    agent = world.worked(world.started())
    world.ends(world.hand_off(agent))

    assert world.agent(agent)["ended_at"]
    assert [x["reason"] for x in world.seen("exit")] == ["prompt_input_exit"]


def test_fr13_a_signal_only_where_it_does_not_answer(world: World) -> None:
    """A program that does not take its exit is ended by a signal, and that is told."""
    world.rules({"match": "^/exit", "ignore_enter": 99, "do": []})
    agent = world.worked(world.started())
    of = world.ends(world.hand_off(agent))
    (step,) = [s for s in of["steps"] if s["step"] == "shut_down"]

    assert "SIGTERM ended it" in step["note"]


# -- FR14 to FR19: the successor -------------------------------------------------------


@pytest.mark.long
def test_fr14_same_harness_folder_and_model(world: World) -> None:
    """FR14, FR15: the successor is what its predecessor was."""
    agent = world.worked(world.started(model="opus-of-the-test"))
    of = world.ends(world.hand_off(agent))
    old, new = world.agent(agent), world.agent(of["successor_id"])
    names = ("harness", "cwd", "model", "persona", "permission")

    assert [new[name] for name in names] == [old[name] for name in names]


def test_fr16_a_successor_that_cannot_be_created(world: World) -> None:
    """FR16: a hard error, the record stays, and `retry` carries on once the cause is mended."""
    hold = world.folder / "go"
    world.script(document=[["document", "{path}"], ["wait_for", str(hold)], ["say", "written"]])
    agent = world.worked(world.started())
    id = world.hand_off(agent)
    retry_until(lambda: world.seen("wrote"), 20)
    program = world.folder / "bin" / "claude"
    program.rename(program.with_name("away"))
    hold.touch()
    code, of = world.failed(id), world.handoff(id)
    program.with_name("away").rename(program)
    world.api("POST", f"/api/handoffs/{id}/retry")
    done = world.ends(id)

    assert (code, bool(of["recorded_at"])) == ("successor_not_started", True)
    assert len(world.prompts("Write a handoff document")) == 1
    assert len(world.prompts("Begin your answer with")) == 1
    assert done["file_path"] == of["file_path"]


@pytest.mark.long
def test_a_successor_that_dies_at_once(world: World) -> None:
    """A successor whose program ends at once fails by name; a retry starts another one."""
    agent = world.worked(world.started())
    program = world.folder / "bin" / "claude"
    good = program.read_text()
    program.write_text("#!/bin/sh\necho no licence >&2\nexit 3\n")
    id = world.hand_off(agent)
    code = world.failed(id)
    program.write_text(good)
    world.api("POST", f"/api/handoffs/{id}/retry")
    of = world.ends(id)

    assert code in ("successor_died", "successor_silent")
    assert len(world.prompts("Begin your answer with")) == 1
    assert world.idle(of["successor_id"])


def test_a_successor_that_dies_before_it_acknowledges(world: World) -> None:
    """A successor that dies in its first turn fails by name; a retry starts another one."""
    world.rules({"match": "Begin your answer with", "do": [["kill"]], "times": 1})
    agent = world.worked(world.started())
    id = world.hand_off(agent)
    code = world.failed(id)
    world.script()
    world.api("POST", f"/api/handoffs/{id}/retry")
    of = world.ends(id)

    assert code == "successor_died"
    assert world.idle(of["successor_id"])


def test_fr17_the_skill_comes_before_the_prompt(world: World) -> None:
    """FR17, FR18, scenario `Sequenced delivery`: the prompt comes when the skill is there."""
    agent = world.worked(world.started())
    world.ends(world.hand_off(agent))
    (prompt,) = world.prompts("Begin your answer with")

    assert any(SKILL in context for context in prompt["context"])


def test_fr18_a_skill_that_the_hook_could_not_give_is_typed(world: World) -> None:
    """Where the server did not hear the session's start in time, the skill is a prompt of its own."""
    agent = world.worked(world.started())
    world.slow_start()
    of = world.ends(world.hand_off(agent))
    texts = [
        x["text"] for x in world.seen("prompt", session=world.agent(of["successor_id"])["session"])
    ]

    assert [SKILL in texts[0], "Begin your answer with" in texts[1]] == [True, True]
    assert len(texts) == 2


def test_d14_without_an_acknowledgement_there_is_an_alarm(world: World) -> None:
    """D14: a successor that does not say the line is an alarm; `skip` goes without it."""
    world.script(prompt=[["say", "Sure, I will."]])
    id = world.hand_off(world.worked(world.started()))
    code = world.failed(id)
    world.api("POST", f"/api/handoffs/{id}/skip")

    assert (code, world.handoff(id)["state"]) == ("not_acknowledged", "done")
    assert len(world.prompts("Begin your answer with")) == 1


@pytest.mark.long
def test_never_two_at_work(world: World) -> None:
    """The old agent has ended before the new one gets its prompt."""
    agent = world.worked(world.started())
    world.ends(world.hand_off(agent))
    (ended,) = world.seen("exit")
    (prompt,) = world.prompts("Begin your answer with")

    assert ended["at"] < prompt["at"]


# -- D16: from the thread --------------------------------------------------------------


def test_d16_a_dead_agent_is_handed_off_from_its_thread(world: World) -> None:
    """D16: an agent that is gone is handed off from what it left."""
    agent = world.worked(world.started(), "Never touch vendor, and make the retries configurable")
    world.api("POST", f"/api/agents/{agent}/stop")
    of = world.ends(world.hand_off(agent, **{"from": "thread"}))
    text = Path(of["file_path"]).read_text()

    assert (of["author"], "retries configurable" in text) == ("thread (offline)", True)
    assert world.prompts("Write a handoff document") == []
    assert len(world.prompts("Begin your answer with")) == 1


def test_d16_without_a_thread_it_fails_by_name(world: World) -> None:
    """An agent that never had a turn has no thread to be handed off from."""
    agent = world.started()
    world.api("POST", f"/api/agents/{agent}/stop")
    id = world.hand_off(agent, **{"from": "thread"})

    assert world.failed(id) == "thread_missing"


# -- D10: by itself --------------------------------------------------------------------


def test_d10_at_the_threshold_it_hands_off_by_itself(world: World) -> None:
    """D10: a persona that says so is handed off at its threshold, when its turn has ended."""
    slug = world.persona()
    world.api("PATCH", f"/api/personas/{slug}", {"automatic": True, "threshold": 50})
    world.install_status_line()
    agent = world.started(persona=slug)
    world.script(big=[["context", 60], ["say", "that was big"]])
    world.worked(agent, "something big")
    (of,) = retry_until(lambda: world.api("GET", "/api/handoffs")["handoffs"], 20)

    assert (world.ends(of["id"])["automatic"], of["agent_id"]) == (True, agent)


def test_d10_off_by_default(world: World) -> None:
    """Without being asked for, nothing is handed off by itself; the threshold raises an event."""
    world.install_status_line()
    agent = world.started()
    world.script(big=[["context", 90], ["say", "that was big"]])
    world.worked(agent, "something big")
    kinds = retry_until(lambda: "threshold" in (k := [x["kind"] for x in world.log()]) and k, 20)

    assert (world.api("GET", "/api/handoffs")["handoffs"], kinds.count("threshold")) == ([], 1)
