"""What a chain of agents hands on: words of the user and the task reach every successor, with real panes."""

import json
from pathlib import Path
from typing import Any

import pytest
from fleets import DOCUMENT, LIMITS, World
from selection import by_default
from waiting import retry_until

from tasuki.fleet.handoff import documents
from tasuki.vault import Vault

READS = {
    "match": r"(?is)handoff document: (?P<path>\S+).*begin your answer with this line, by itself: (?P<line>handoff \w+)",
    "do": [["run", "cat {path}"], ["say", "{line}\nI have read it and go on."]],
}
"""A successor that reads the document it is told of, with a tool."""
THINGS = {
    "match": DOCUMENT,
    "do": [["write", "{path}", "- things\n"], ["say", "written"]],
}
"""An agent whose document says nothing."""


def carried_on(world: World, agent: int, **body: Any) -> tuple[int, str]:
    """Hand an agent off to the end; its successor, and the document."""
    of = world.ends(world.hand_off(agent, **body))
    return world.idle(of["successor_id"]), Path(of["file_path"]).read_text()


def crashed(world: World, agent: int) -> None:
    """The agent's program is killed in a turn."""
    world.api("POST", f"/api/agents/{agent}/send", {"text": "crash now"})
    retry_until(lambda: world.agent(agent)["ended_at"], 30)


def test_what_is_said_and_done_between_two_attempts_is_added(world: World) -> None:
    """After a failed attempt, the user's words and the files of the time until the retry get into the document."""
    net = world.work / "net.py"
    refuses = {"match": DOCUMENT, "do": [["say", "not now"]], "times": 1}
    works = {"match": "port 22", "do": [["write", str(net), "PORT = 2222\n"], ["say", "ok"]]}
    world.rules(refuses, works, THINGS)
    agent = world.worked(world.started())
    id = world.hand_off(agent)
    world.failed(id)
    world.worked(agent, "Never use port 22 for the tunnel")
    world.api("POST", f"/api/handoffs/{id}/retry")
    of = world.ends(id)
    added = Path(of["file_path"]).read_text().partition(documents.ADDED)[2]

    assert ("Never use port 22" in added, "net.py" in added) == (True, True)
    assert "100 of 100" not in " ".join(of["notes"])


@pytest.mark.parametrize(
    "document",
    by_default([["write", "{path}", "- things\n"], ["document", "{path}"]], ["document", "{path}"]),
)
def test_what_is_said_after_the_document_is_added(world: World, document: list[str]) -> None:
    """What the user types while the agent still ends the turn of its document gets into the document, too."""
    net = world.work / "net.py"
    works = {"match": "port 22", "do": [["write", str(net), "PORT = 2222\n"], ["say", "ok"]]}
    writes = {"match": DOCUMENT, "do": [document, ["say", "written"], ["sleep", 3]]}
    world.rules(works, writes, READS)
    agent = world.worked(world.started())
    pane = world.agent(agent)["pane"]
    id = world.hand_off(agent)
    retry_until(lambda: [x for x in world.seen("wrote") if "handoffs" in x["path"]], 20)
    world.tmux("send-keys", "-t", pane, "-l", "Never use port 22 for the tunnel")
    world.tmux("send-keys", "-t", pane, "Enter")
    of = world.ends(id)
    added = Path(of["file_path"]).read_text().partition(documents.ADDED)[2]

    assert ("Never use port 22" in added, "net.py" in added) == (True, True)
    assert "Facts added that came after the document: 2." in of["notes"]


@pytest.mark.parametrize("at", by_default(["check:after", "record:after"], "record:after"))
def test_what_is_said_while_no_server_runs_is_added(world: World, at: str) -> None:
    """The server is killed after the document was checked, and the user goes on: their words are handed on."""
    world.rules({"match": "port 22", "do": [["say", "ok"]]}, THINGS, READS)
    agent = world.worked(world.started())
    pane = world.agent(agent)["pane"]
    world.kill()
    world.serve(limits=json.dumps(LIMITS), at=at)
    id = world.hand_off(agent)
    world.kill_at_point()
    world.tmux("send-keys", "-t", pane, "-l", "Never use port 22 for the tunnel")
    world.tmux("send-keys", "-t", pane, "Enter")
    retry_until(lambda: world.prompts("port 22"), 20)
    world.serve(limits=json.dumps(LIMITS))
    of = world.ends(id)

    assert Path(of["file_path"]).read_text().count("Never use port 22") == 1


def test_what_the_user_asked_for_is_added(world: World) -> None:
    """Plain requests, which rule nothing out, reach the successor although the document does not tell them."""
    world.rules(THINGS, READS)
    agent = world.worked(world.started(), "Please build the gateway with HTTP/2 support")
    world.worked(agent, "Add metrics in Prometheus format to the gateway")
    text = carried_on(world, agent)[1]

    assert 'asked for: "Please build the gateway with HTTP/2 support"' in text
    assert 'asked for: "Add metrics in Prometheus format to the gateway"' in text


@pytest.mark.parametrize(
    "words",
    by_default(
        [
            "Now add a progress bar to the upload client",
            "Now remove the retries from the upload client",
            "Let's go with Redis, not Kafka",
            "Bitte auch die Doku ergänzen und Port 22 niemals nehmen",
        ],
        "Now remove the retries from the upload client",
    ),
)
def test_a_document_of_the_same_topic_does_not_tell_a_request(world: World, words: str) -> None:
    """Half of the words of a request, or none, stand in the document: the user's own are added."""
    text = (
        "## What I was working on\n\nThe upload client is mended: retries work, nothing is left.\n"
    )
    world.rules({"match": DOCUMENT, "do": [["write", "{path}", text], ["say", "written"]]}, READS)
    agent = world.worked(world.started(), "Fix the upload client")
    document = carried_on(world, world.worked(agent, words))[1]

    assert document.count(words) == 1


@pytest.mark.long
def test_no_prompt_of_tasuki_counts_as_the_users_words(world: World) -> None:
    """Neither the instruction of a cancelled handoff nor the prompt of a successor is handed on as a wish."""
    hold = world.folder / "go"
    waits = {"match": DOCUMENT, "do": [["wait_for", str(hold)], ["say", "ok"]]}
    world.rules(waits, READS, THINGS)
    agent = world.worked(world.started(), "Make the retries configurable, never touch vendor")
    id = world.hand_off(agent)
    retry_until(lambda: world.prompts("Write a handoff document"), 20)
    world.api("POST", f"/api/handoffs/{id}/cancel")
    hold.touch()
    world.rules(READS, THINGS)
    second, first_text = carried_on(world, world.idle(agent))
    third, second_text = carried_on(world, second)
    crashed_text = carried_on(world, third, **{"from": "thread"})[1]

    for text in (first_text, second_text, crashed_text):
        assert "never touch vendor" in text
        for typed in ("Write this one file", "Begin your answer", "Nothing is to be done yet"):
            assert typed not in text


@pytest.mark.long
def test_the_first_agents_ruling_survives_a_crash(world: World) -> None:
    """1 → 2 → crash → 3: what the user ruled in the first thread stands in the document from the second."""
    crash = {"match": "crash now", "do": [["kill"]]}
    world.rules(crash, READS, THINGS)
    agent = world.worked(world.started(), "Build the gateway, and never use port 80")
    second, first_text = carried_on(world, agent)
    crashed(world, second)
    of = world.ends(world.hand_off(second, **{"from": "thread"}))
    text = Path(of["file_path"]).read_text()

    assert ("never use port 80" in first_text, "never use port 80" in text) == (True, True)
    assert "focus only on the goal" not in text
    assert world.handoff(of["id"])["author"] == "thread (offline)"


@pytest.mark.long
def test_a_document_that_was_never_opened_is_handed_on(world: World) -> None:
    """A successor that crashed before it read its predecessor's document loses nothing of it."""
    acknowledges = {"match": "(?i)begin your answer with", "do": [["say", "no"]]}
    crash = {"match": "crash now", "do": [["kill"]]}
    world.rules(crash, acknowledges, THINGS)
    agent = world.worked(world.started(), "Build the gateway, and never use port 80")
    id = world.hand_off(agent)
    world.failed(id)
    second = world.handoff(id)["successor_id"]
    world.api("POST", f"/api/handoffs/{id}/skip")
    crashed(world, second)
    world.rules(READS, THINGS)
    text = carried_on(world, second, **{"from": "thread"})[1]

    assert "never use port 80" in text


@pytest.mark.long
def test_the_record_of_a_document_from_the_thread_follows_its_handoff(world: World) -> None:
    """What the vault keeps of it is started, delivered and acknowledged as its handoff is."""
    agent = world.worked(world.started(), "Build the gateway, and never use port 80")
    of = world.ends(world.hand_off(agent, **{"from": "thread"}))
    vault = Vault(world.data / "handoffs")
    (kept,) = vault.list_handoffs()
    kinds = [event.kind for event in vault.load_events(kept.id)]

    assert (kept.id, vault.load_state(kept.id)) == (of["id"], "acknowledged")
    assert kinds == ["drafted", "started", "delivered", "acknowledged"]


def test_what_it_was_asked_to_do_reaches_the_fourth(world: World) -> None:
    """1 → 2 → 3 → 4: each successor keeps the task of the first, and nobody is started with it as a prompt."""
    task = "make the retries of the upload client configurable"
    world.rules(READS, THINGS)
    agent = world.started(goal=task)
    retry_until(lambda: world.agent(agent)["last_words"], 20)
    world.idle(agent)
    for _ in range(3):
        agent = carried_on(world, agent)[0]

        assert world.agent(agent)["goal"] == task
    told = world.prompts("Begin your answer with")

    assert [task in prompt["text"] for prompt in told] == [True] * 3
    assert len([p for p in world.seen("prompt") if p["text"].strip() == task]) == 1
