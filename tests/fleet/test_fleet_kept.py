"""Handoffs of agents are listed, searched and pruned with the others, whether the server runs or not."""

import json
import os
import time
from pathlib import Path

import pytest
from fleets import DOCUMENT, World

WORDS = "keepalive of the gateway"


def aged(world: World, days: float = 40.0) -> list[Path]:
    """The documents of the persona, made older than they are; the oldest first."""
    found = sorted((world.data / "data/personas/developer-con-1/handoffs").glob("*.md"))
    for number, path in enumerate(found):
        at = time.time() - days * 86_400 + number
        os.utime(path, (at, at))
    return found


def chain(world: World) -> tuple[list[int], list[str]]:
    """Three agents and the two handoffs between them, the second from the thread."""
    first = world.worked(world.started(), f"Fix the {WORDS}")
    one = world.ends(world.hand_off(first))
    second = world.idle(one["successor_id"])
    two = world.ends(world.hand_off(second, **{"from": "thread"}))
    return [first, second, two["successor_id"]], [one["id"], two["id"]]


def test_agents_are_in_the_lineage_the_search_and_the_prune(world: World) -> None:
    """One lineage, one search, one prune: with the server, and without it where the database is a file."""
    agents, ids = chain(world)
    with_server = world.tasuki("lineage")
    of_one = world.tasuki("lineage", ids[1][:8])
    documents = aged(world)
    found = json.loads(world.tasuki("handoffs", "find", *WORDS.split(), "--json"))
    dry = world.tasuki("handoffs", "prune", "--older-than", "30", "--dry-run")
    world.kill()
    without = world.tasuki("lineage", code=None)

    for drawn in (with_server, of_one, *([without] if not world.database_url else [])):
        lines = drawn.splitlines()
        assert [line.split()[1] for line in lines] == [id[:8] for id in ids]
        assert f"agent {agents[0]} → agent {agents[1]}" in lines[0]
    assert [d["handoff"] for d in found["documents"]] == [ids[0]]
    assert (documents[0].name in dry or ids[0][:8] in dry, ids[1][:8] in dry) == (True, False)


@pytest.mark.long
def test_what_a_working_agent_began_with_is_not_pruned(world: World) -> None:
    """The document of the running successor stays, and the record of its handoff; older ones go."""
    _, ids = chain(world)
    first, second = aged(world)
    pruned = world.tasuki("handoffs", "prune", "--older-than", "30", "--yes")
    everything = world.tasuki("handoffs", "prune", "--older-than", "0", "--yes")

    assert (first.exists(), second.exists()) == (False, True)
    assert ("Deleted 1" in pruned, "Nothing to delete" in everything) == (True, True)
    assert (world.data / "handoffs" / ids[1]).is_dir()
    assert world.ends(world.hand_off(world.handoff(ids[1])["successor_id"]))["state"] == "done"


@pytest.mark.long
def test_what_a_lost_agent_began_with_is_not_pruned(world: World) -> None:
    """The document of an agent that was lost stays until somebody carried its work on, failed handoffs or not."""
    kills = {"match": DOCUMENT, "do": [["kill"]]}
    first = world.worked(world.started(), f"Fix the {WORDS}, and never use port 80")
    second = world.idle(world.ends(world.hand_off(first))["successor_id"])
    world.rules(kills)
    failed = world.failed(world.hand_off(second))
    (document,) = aged(world)
    kept = world.tasuki("handoffs", "prune", "--older-than", "30", "--yes")
    world.rules()
    of = world.ends(world.hand_off(second, **{"from": "thread"}))
    pruned = world.tasuki("handoffs", "prune", "--older-than", "30", "--yes")

    assert failed == "agent_gone"
    assert "Nothing to delete" in kept
    assert "never use port 80" in Path(of["file_path"]).read_text()
    assert ("Deleted 1" in pruned, document.exists()) == (True, False)


@pytest.mark.long
def test_a_document_that_is_gone_is_told(world: World) -> None:
    """The document that an agent began with was removed by hand: the notes of the next handoff say so."""
    _, ids = chain(world)
    began_with = Path(world.handoff(ids[1])["file_path"])
    began_with.unlink()
    agent = world.handoff(ids[1])["successor_id"]
    of = world.ends(world.hand_off(agent))

    assert [note for note in of["notes"] if str(began_with) in note and "is gone" in note]


@pytest.mark.long
def test_without_knowing_what_is_needed_nothing_is_pruned(world: World) -> None:
    """Where the database is PostgreSQL's and its server is away, documents stay, and that is said."""
    chain(world)
    documents = aged(world)
    world.kill()
    said = world.tasuki("handoffs", "prune", "--older-than", "30", "--yes")

    assert documents[-1].exists()
    if world.database_url:
        assert ("Documents of personas stay" in said, documents[0].exists()) == (True, True)
    else:
        assert not documents[0].exists()
