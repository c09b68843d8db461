"""The fleet keeps the threads of agents that it hands off, and works from the copies."""

from pathlib import Path

from fleets import World

from tasuki.threads.kept.copies import read_record

GOAL = "write the migration of the upload table"


def kept(world: World) -> list[str]:
    """The threads of which there are copies."""
    return [read_record(file).path for file in (world.data / "threads").glob("*.zst")]


def test_a_handoff_keeps_its_thread_where_that_is_set(world: World) -> None:
    """As it was when the agent had ended; without the setting there is no copy."""
    agent = world.worked(world.started())
    of = world.ends(world.hand_off(agent))
    assert not (world.data / "threads").exists()

    world.config(notify="", keep_threads="handed-off")
    second = of["successor_id"]
    world.ends(world.hand_off(second))
    thread = Path(world.agent(second)["thread"])
    assert kept(world) == [str(thread)]
    (file,) = (world.data / "threads").glob("*.zst")
    assert read_record(file).bytes == thread.stat().st_size


def test_a_copy_that_fails_is_a_note_of_the_handoff(world: World) -> None:
    """The handoff itself is done."""
    world.config(notify="", keep_threads="all")
    (world.data / "threads").write_text("a file where the folder should be")
    agent = world.worked(world.started())
    of = world.ends(world.hand_off(agent))

    (note,) = [note for note in of["notes"] if "copy" in note]
    assert note.startswith("No copy of the thread was kept: ")


def test_an_agent_whose_thread_was_deleted_is_handed_off_and_forked(world: World) -> None:
    """Both from the copy; without one the thread is missing."""
    world.config(notify="", keep_threads="handed-off")
    agent = world.worked(world.started())
    thread = Path(world.agent(agent)["thread"])
    world.tasuki("handoff", "--no-fleet", "--from", str(thread), GOAL, "--print")
    assert kept(world) == [str(thread)]
    world.api("POST", f"/api/agents/{agent}/stop")
    world.tasuki("handoff", "--no-fleet", "--from", str(thread), GOAL, "--print")
    thread.unlink()

    forked = world.ends(world.api("POST", f"/api/agents/{agent}/fork", {"goal": GOAL})["id"])
    of = world.ends(world.hand_off(agent, **{"from": "thread"}))
    for document in (forked["file_path"], of["file_path"]):
        assert "Fix the upload client" in Path(document).read_text()
