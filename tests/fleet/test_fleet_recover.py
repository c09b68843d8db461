"""Lost agents, as after a restart of the machine, are carried on with one order."""

import json
import signal
from collections.abc import Iterable
from pathlib import Path

import pytest
from fleets import World, refusal
from waiting import retry_until, runs


def lost(world: World, numbers: Iterable[int]) -> list[int]:
    """Agents of as many personas that worked and then lost their tmux server; their ids."""
    ids = []
    for number in numbers:
        body = {"role": "developer", "name": f"con{number}", "skill": "Test."}
        slug = world.api("POST", "/api/personas", body)["slug"]
        ids.append(world.worked(world.started(persona=slug), f"Never touch vendor number {number}"))
    world.tmux("kill-server")
    await_end(world, ids)
    return ids


def await_end(world: World, ids: list[int]) -> None:
    """Wait until agents count as ended, and their programs have: of one that runs, recovery is refused."""
    for id in ids:
        retry_until(lambda id=id: world.agent(id)["ended_at"], 30)  # type: ignore[misc]
    pids = [row["process"] or row["pid"] for row in world.agent_rows() if row["id"] in ids]
    retry_until(lambda: not any(map(runs, filter(None, pids))), 30)


def test_every_lost_agent_is_carried_on_from_its_thread(world: World) -> None:
    """One command hands each of them off, says what became of it, and nothing is left to do then."""
    world.rules({"match": "crash now", "do": [["kill"]]})
    crashed = world.worked(world.started(), "Never touch vendor number 0")
    world.api("POST", f"/api/agents/{crashed}/send", {"text": "crash now"})
    retry_until(lambda: world.agent(crashed)["state"] == "lost", 30)
    stopped = world.worked(world.started(persona=world.persona()))
    world.api("POST", f"/api/agents/{stopped}/stop")
    ids = [crashed, *lost(world, range(1, 4))]
    listed = world.tasuki("agent", "recover", "--dry-run")
    told = json.loads(world.tasuki("agent", "recover", "--watch", "--json"))["agents"]

    assert [f"Agent {id} " in listed for id in [*ids, stopped]] == [True] * 4 + [False]
    assert [(one["agent"]["id"], one["handoff"]["state"]) for one in told] == [
        (id, "done") for id in ids
    ]
    for number, one in enumerate(told):
        assert f"vendor number {number}" in Path(one["handoff"]["file_path"]).read_text()
    assert "No lost agent" in world.tasuki("agent", "recover")


@pytest.mark.long
def test_a_few_are_carried_on_at_once(world: World) -> None:
    """The others wait for their turn, also over a restart of the server."""
    hold = world.folder / "go"
    ids = lost(world, range(5))
    acknowledges = r"(?is)begin your answer with this line, by itself: (?P<line>handoff \w+)"
    world.rules({"match": acknowledges, "do": [["wait_for", str(hold)], ["say", "{line}"]]})
    world.api("POST", "/api/agents/recover")
    retry_until(lambda: len(world.prompts("Begin your answer with")) == 3, 40)
    begun = [
        len(world.handoff(h["id"])["steps"]) for h in world.api("GET", "/api/handoffs")["handoffs"]
    ]
    world.kill(signal.SIGTERM)
    world.serve()
    hold.touch()
    states = [world.ends(h["id"])["state"] for h in world.api("GET", "/api/handoffs")["handoffs"]]

    assert (sorted(begun)[:2], len(begun)) == ([0, 0], len(ids))
    assert states == ["done"] * 5


def test_an_agent_whose_program_runs_is_not_doubled(world: World) -> None:
    """An agent that only counts as lost is refused, with where it runs; alone and among all."""
    agent = world.worked(world.started())
    world.sql(f"UPDATE agents SET state = 'lost', ended_at = 1.0 WHERE id = {agent}")
    (one,) = world.api("POST", "/api/agents/recover")["agents"]
    body = {"reason": "lost", "from": "thread"}
    status, sentence = refusal(world, f"/api/agents/{agent}/handoff", body)

    assert (one["handoff"], "still runs in pane" in one["refused"]) == (None, True)
    assert (status, "still runs in pane" in sentence) == (400, True)
    assert world.api("GET", "/api/handoffs")["handoffs"] == []


def test_an_agent_that_took_no_turn_is_not_carried_on(world: World) -> None:
    """It has no thread: `recover` says what to do instead, and begins nothing."""
    agent = world.started()
    world.tmux("kill-server")
    await_end(world, [agent])
    (one,) = world.api("POST", "/api/agents/recover")["agents"]

    assert (one["handoff"], "has no thread" in one["refused"]) == (None, True)
    assert "tasuki agent start --persona developer-con-1" in one["refused"]
    assert world.api("GET", "/api/handoffs")["handoffs"] == []


@pytest.mark.long
def test_a_lost_successor_is_carried_on_by_its_handoff(world: World) -> None:
    """A successor that was lost before it took over gets a fresh one with the same document."""
    world.rules({"match": "Begin your answer with", "do": [["sleep", 600]]})
    agent = world.worked(world.started())
    id = world.hand_off(agent)
    retry_until(lambda: world.prompts("Begin your answer with"), 30)
    world.tmux("kill-server")
    world.failed(id)
    world.script()
    (one,) = world.api("POST", "/api/agents/recover")["agents"]

    assert one["handoff"]["id"] == id
    assert world.ends(id)["state"] == "done"
