"""A successor that has not taken over yet, and one that died: what is refused, and what a retry does."""

import json
from pathlib import Path

import pytest
from fleets import LIMITS, World, refusal
from pane_programs import submit
from selection import by_default
from waiting import retry_until

from tasuki.launch.tmux.panes import TmuxPanes
from tasuki.launch.tmux.server import Tmux

ACKNOWLEDGES = r"(?is)begin your answer with this line, by itself: (?P<line>handoff \w+)"


def held(world: World, *, then: str = "{line}\nI go on.") -> tuple[int, str, Path]:
    """A successor whose first turn waits: its id, its handoff, and the file that lets it go on."""
    hold = world.folder / "go"
    world.rules({"match": ACKNOWLEDGES, "do": [["wait_for", str(hold)], ["say", then]]})
    id = world.hand_off(world.worked(world.started()))
    retry_until(lambda: world.prompts("Begin your answer with"), 30)
    return int(world.handoff(id)["successor_id"]), id, hold


@pytest.mark.parametrize(
    "body", by_default([{}, {"force": True}, {"from": "thread"}], {"force": True})
)
def test_a_successor_is_not_handed_off_before_it_acknowledged(world: World, body: dict) -> None:  # type: ignore[type-arg]
    """409 with the handoff that is under way, until the successor has acknowledged; then it is handed off."""
    successor, id, hold = held(world)
    status, sentence = refusal(
        world, f"/api/agents/{successor}/handoff", {"reason": "context_limit", **body}
    )
    said = world.tasuki("agent", "handoff", str(successor), "--reason", "now", "--force", code=1)
    hold.touch()
    world.ends(id)

    assert (status, id[:8] in sentence, "under way" in sentence) == (409, True, True)
    assert id[:8] in said
    assert world.ends(world.hand_off(world.idle(successor)))["state"] == "done"


@pytest.mark.long
def test_a_successor_that_never_acknowledges_is_not_stuck(world: World) -> None:
    """Once its acknowledgement has failed, a successor can be handed off like any agent."""
    successor, id, hold = held(world, then="Sure.")
    hold.touch()

    assert world.failed(id) == "not_acknowledged"
    world.script()
    assert world.ends(world.hand_off(world.idle(successor)))["agent_id"] == successor


@pytest.mark.long
def test_a_successor_that_is_handed_off_itself_ends_the_retry_of_its_handoff(world: World) -> None:
    """It died before it acknowledged and is handed off from its thread: its own handoff is not retried beside."""
    hold = world.folder / "go"
    looks = {
        "match": "Begin your answer with",
        "do": [["say", "I looked."], ["wait_for", str(hold)], ["kill"]],
    }
    world.rules(looks)
    id = world.hand_off(world.worked(world.started()))
    retry_until(lambda: world.handoff(id)["step"] == "acknowledge", 30)
    hold.touch()
    code = world.failed(id)
    world.rules()
    own = world.hand_off(world.handoff(id)["successor_id"], **{"from": "thread"})
    status, sentence = refusal(world, f"/api/handoffs/{id}/retry", {})

    assert (code, status, own[:8] in sentence) == ("successor_died", 400, True)
    assert world.ends(own)["state"] == "done"


@pytest.mark.long
def test_a_successor_without_its_prompt_is_not_handed_off(world: World) -> None:
    """Where its prompt could not be typed, its handoff is to be carried on or given up first."""
    world.rules({"match": "Begin your answer with", "ignore_enter": 99, "do": []})
    id = world.hand_off(world.worked(world.started()))
    code = world.failed(id, "uncertain")
    successor = world.handoff(id)["successor_id"]
    status, sentence = refusal(world, f"/api/agents/{successor}/handoff")

    assert (code, status, "retry" in sentence) == ("prompt_uncertain", 409, True)


def test_nothing_is_sent_to_a_successor_before_its_task(world: World) -> None:
    """A message of the operator does not get between a successor's skill and its prompt."""
    hold = world.folder / "go"
    world.kill()
    world.serve(limits=json.dumps(LIMITS), at="prompt:before")
    id = world.hand_off(world.worked(world.started()))
    retry_until(world.reached.exists, 30)
    successor = world.handoff(id)["successor_id"]
    status, sentence = refusal(world, f"/api/agents/{successor}/send", {"text": "hello"})
    hold.touch()

    assert (status, id[:8] in sentence) == (400, True)


def test_a_prompt_that_was_pasted_over_is_never_pasted_again(world: World) -> None:
    """A server that is killed behind the paste, and a text that took its place: uncertain, one paste."""
    agent = world.worked(world.started())
    world.kill()
    world.serve(limits=json.dumps(LIMITS), at="prompt:before")
    id = world.hand_off(agent)
    world.kill_at_point()
    world.serve(limits=json.dumps(LIMITS), at="TmuxPanes.paste")
    world.kill_at_point()
    pane = world.agent_rows()[-1]["pane"]
    panes = TmuxPanes(Tmux(str(next(world.sockets.glob("tmux-*/default")))), world.folder / "locks")
    panes.press_keys(pane, *["C-u", "BSpace"] * 20)
    submit(panes, pane, "something else", "other-1", 0.05)
    world.serve(limits=json.dumps(LIMITS))
    of = world.ends(id, "uncertain")
    pasted = [x for x in world.seen("paste") if "Begin your answer with" in x["text"]]

    assert (of["failure"]["code"], len(pasted)) == ("prompt_uncertain", 1)


@pytest.mark.long
def test_a_retry_at_once_starts_another_successor(world: World) -> None:
    """A successor that died is known to be gone as soon as its handoff has failed; the retry takes a new one."""
    world.rules({"match": "Begin your answer with", "do": [["kill"]], "times": 1})
    agent = world.worked(world.started())
    id = world.hand_off(agent)
    code = world.failed(id)
    dead = world.handoff(id)["successor_id"]
    state = world.agent(dead)["state"]
    world.script()
    world.api("POST", f"/api/handoffs/{id}/retry")
    of = world.ends(id)
    told = [a["kind"] for a in world.api("GET", "/api/alerts")["alerts"]]

    assert (code, state) == ("successor_died", "lost")
    assert of["successor_id"] != dead
    assert sorted(told) == ["done", "failed"]
