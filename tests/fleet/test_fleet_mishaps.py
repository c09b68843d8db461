"""What the operator can do about a handoff, and what happens to a fleet: every failure is told."""

import shutil
import signal
import threading
import time
from contextlib import suppress

import pytest
from fleets import World, once, refusal
from selection import by_default
from waiting import retry_until

# -- the operator ----------------------------------------------------------------------


def test_nfr1_every_failure_is_told(world: World) -> None:
    """NFR1, scenario `Error notification`: API, live events and log have the failure, step and remedy."""
    world.script(document=[["say", "no"]])
    id = world.hand_off(world.worked(world.started()))
    world.failed(id)
    of = world.handoff(id)
    (alarm,) = world.alarms()

    assert (of["failure"]["step"], bool(of["failure"]["remedy"])) == ("check", True)
    assert (alarm["handoff_id"], alarm["data"]["code"]) == (id, "document_missing")


def test_nfr1_a_notification_is_sent(world: World) -> None:
    """NFR1: a failure is shown on the desktop."""
    shown = world.folder / "shown"
    program = world.folder / "bin" / "notify-send"
    program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" >> {shown}\n')
    program.chmod(0o755)
    world.script(document=[["say", "no"]])
    world.failed(world.hand_off(world.worked(world.started())))

    assert "developer-con-1 failed" in retry_until(lambda: shown.exists() and shown.read_text())


def test_cancel_ends_it_where_it_is(world: World) -> None:
    """A cancelled handoff goes no further; the agent stays, and can be handed off again."""
    hold = world.folder / "go"
    world.script(document=[["wait_for", str(hold)], ["document", "{path}"], ["say", "written"]])
    agent = world.worked(world.started())
    id = world.hand_off(agent)
    retry_until(lambda: world.prompts("Write a handoff document"), 20)
    world.api("POST", f"/api/handoffs/{id}/cancel")
    hold.touch()
    world.idle(agent)
    again = world.hand_off(agent)

    assert world.handoff(id)["state"] == "cancelled"
    assert (again != id, world.ends(again)["state"]) == (True, "done")


@pytest.mark.long
def test_finish_calls_a_failed_one_done(world: World) -> None:
    """What the operator did by hand is done; not while the agent lives that was to be handed off."""
    world.script(document=[["say", "no"]])
    agent = world.worked(world.started())
    id = world.hand_off(agent)
    world.failed(id)
    status, why = refusal(world, f"/api/handoffs/{id}/finish", {})
    world.api("POST", f"/api/agents/{agent}/stop")
    world.api("POST", f"/api/handoffs/{id}/finish")

    assert (status, f"Agent {agent} has not ended" in why) == (400, True)
    assert world.handoff(id)["state"] == "done"


@pytest.mark.parametrize("order", by_default(["retry", "finish", "skip"], "retry"))
def test_orders_that_make_no_sense_are_refused(world: World, order: str) -> None:
    """A handoff that is done cannot be retried, finished or skipped."""
    id = world.hand_off(world.worked(world.started()))
    world.ends(id)

    assert refusal(world, f"/api/handoffs/{id}/{order}", {})[0] == 400


# -- what happens to a fleet -----------------------------------------------------------


def test_a_pane_that_is_closed_by_hand(world: World) -> None:
    """A pane that is closed in the middle of a turn fails by name, with an alarm for the agent."""
    world.script(document=[["sleep", 60]])
    agent = world.worked(world.started())
    id = world.hand_off(agent)
    retry_until(lambda: world.prompts("Write a handoff document"), 20)
    world.tmux("kill-pane", "-t", world.agent(agent)["pane"])

    assert world.failed(id) == "agent_gone"
    assert world.agent(agent)["ended_at"]


def test_tmux_that_is_killed(world: World) -> None:
    """A tmux server that dies takes its agents along: each is told, none stays for ever."""
    agent = world.worked(world.started())
    world.tmux("kill-server")
    retry_until(lambda: world.agent(agent)["ended_at"], 20)

    assert world.agent(agent)["state"] in ("lost", "ended")


def test_no_room_for_the_document(world: World) -> None:
    """An agent that finds no room on the disk has no document: that is the failure, and it stays."""
    world.script(
        document=[["run", "echo 'No space left on device' >&2"], ["say", "I could not write it"]]
    )
    agent = world.worked(world.started())
    id = world.hand_off(agent)

    assert (world.failed(id), world.agent(agent)["ended_at"]) == ("document_missing", None)


def test_a_server_that_was_away_takes_the_spool_in(world: World) -> None:
    """Events that hooks kept while no server answered are taken in, in their order, and once."""
    agent = world.worked(world.started())
    world.kill()
    pane = world.agent_rows()[0]["pane"]
    world.tmux("send-keys", "-t", pane, "-l", "while nobody listens")
    world.tmux("send-keys", "-t", pane, "Enter")
    retry_until(lambda: len(list((world.data / "fleet/spool").glob("*.json"))) >= 2, 20)
    world.serve()
    retry_until(lambda: not list((world.data / "fleet/spool").glob("*.json")), 20)
    prompts = [x for x in world.log() if x["kind"] == "prompt" and "nobody listens" in x["text"]]

    assert (world.agent(agent)["state"], len(prompts)) == ("idle", 1)


def test_a_clean_stop_and_a_new_start(world: World) -> None:
    """SIGTERM in the middle of a handoff: the next server carries it on."""
    hold = world.folder / "go"
    world.script(document=[["wait_for", str(hold)], ["document", "{path}"], ["say", "written"]])
    agent = world.worked(world.started())
    id = world.hand_off(agent)
    retry_until(lambda: world.prompts("Write a handoff document"), 20)
    began = time.monotonic()
    world.kill(signal.SIGTERM)
    took = time.monotonic() - began
    hold.touch()
    world.serve()
    of = world.ends(id)

    once(world, of)
    assert took < 10


def test_two_handoffs_at_once_do_not_disturb_each_other(world: World) -> None:
    """Two agents are handed off at the same time, each to its own successor."""
    other = world.api(
        "POST", "/api/personas", {"role": "tester", "name": "robin", "skill": "Test."}
    )
    agents = [world.started(), world.started(persona=other["slug"])]
    for agent in agents:
        world.worked(agent)
    found = [world.ends(id) for id in [world.hand_off(agent) for agent in agents]]

    assert [of["agent_id"] for of in found] == agents
    assert len({of["successor_id"] for of in found}) == 2
    assert len(world.prompts("Begin your answer with")) == 2


@pytest.mark.long
def test_a_persona_whose_folder_is_gone(world: World) -> None:
    """A persona's folder that was removed is made again for the document; the skill is told as missing."""
    agent = world.worked(world.started())
    shutil.rmtree(world.data / "data/personas/developer-con-1")
    id = world.hand_off(agent)
    retry_until(lambda: world.handoff(id)["state"] != "running", 60)

    assert world.handoff(id)["state"] in ("done", "failed")


def test_an_upgrade_keeps_handoffs_under_way(world: World) -> None:
    """A handoff that one version of tasuki began is carried on by a later one."""
    hold = world.folder / "go"
    world.script(document=[["wait_for", str(hold)], ["document", "{path}"], ["say", "written"]])
    id = world.hand_off(world.worked(world.started()))
    retry_until(lambda: world.prompts("Write a handoff document"), 20)
    world.kill(signal.SIGTERM)
    hold.touch()
    world.serve(later="yes")

    once(world, world.ends(id))


def test_an_agent_whose_hooks_are_not_there_is_not_started(world: World) -> None:
    """Without the fleet's hooks nothing would be heard of an agent: that is said before it is started."""
    world.tasuki("uninstall", "claude", "--fleet", "--yes")
    status, sentence = refusal(world, "/api/agents", {"cwd": str(world.work)})

    assert (status, "tasuki install claude --fleet" in sentence) == (400, True)


def test_an_agent_whose_hooks_are_off_in_its_folder_is_not_started(world: World) -> None:
    """The project's own settings decide there; the refusal names the file."""
    file = world.work / ".claude" / "settings.json"
    file.parent.mkdir()
    file.write_text('{"disableAllHooks": true}')
    status, said = refusal(world, "/api/agents", {"harness": "claude", "cwd": str(world.work)})

    assert status == 400
    assert f'Remove "disableAllHooks" from {file}.' in said
    assert world.api("GET", "/api/agents")["agents"] == []


def test_an_agent_that_was_being_started_when_the_server_ended(world: World) -> None:
    """A server that is killed between an agent's row and its window: the next one starts it, once."""
    world.kill()
    world.serve(at="lifecycle._write_private")
    starting = threading.Thread(target=_begin, args=(world,), daemon=True)
    starting.start()
    world.kill_at_point()
    world.serve()
    world.idle(1)

    assert len(world.seen("started")) == 1


def _begin(world: World) -> None:
    with suppress(OSError):
        world.api("POST", "/api/agents", {"harness": "claude", "cwd": str(world.work)})


def test_events_that_were_lost_are_told(world: World) -> None:
    """Where the spool was full, the operator is told how many events were lost."""
    (world.data / "fleet" / "spool-dropped").write_text("a\nb\nc\n")
    (alarm,) = retry_until(world.alarms, 20)

    assert ("3 events" in alarm["text"], alarm["data"]["code"]) == (True, "events_lost")


@pytest.mark.long
def test_what_was_cancelled_is_not_typed(world: World) -> None:
    """A handoff that is cancelled while its text waits to be typed types nothing."""
    world.script(wait=[["ask", "may I?"], ["say", "ok"]])
    agent = world.worked(world.started())
    world.api("POST", f"/api/agents/{agent}/send", {"text": "wait for me"})
    id = world.hand_off(agent)
    retry_until(lambda: any(step["note"] for step in world.handoff(id)["steps"]), 20)
    world.api("POST", f"/api/handoffs/{id}/cancel")
    world.tmux("send-keys", "-t", world.agent(agent)["pane"], "Enter")
    world.idle(agent)

    assert (world.prompts("Write a handoff document"), world.handoff(id)["state"]) == (
        [],
        "cancelled",
    )


def test_an_anonymous_agent_is_never_typed_to(world: World) -> None:
    """A session inside an agent shares its pane: what is meant for it must not reach its parent."""
    world.script(inside=[["nested", "hello"], ["say", "ok"]])
    agent = world.worked(world.started(), "start one inside")
    world.sql("UPDATE agents SET ended_at = NULL, state = 'idle' WHERE id > 1")
    (nested,) = [a["id"] for a in world.api("GET", "/api/agents")["agents"] if a["id"] != agent]
    answers = [refusal(world, f"/api/agents/{nested}/{order}", body)[0]
               for order, body in (("stop", {}), ("send", {"text": "hello"}))]  # fmt: skip

    assert (answers, world.agent(agent)["ended_at"]) == ([400, 400], None)
