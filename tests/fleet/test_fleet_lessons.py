"""Lessons for good: proposed in a handoff's document, reviewed by the operator, given to every later agent."""

from pathlib import Path

import pytest
from fleets import DOCUMENT, World, refusal

from tasuki.fleet.agents import personas
from tasuki.fleet.agents.persona_files import find_lessons

SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
LESSONS = f"""## What I was working on

- things

## Lessons for good

- Run the linter before the tests,
  it is quicker.
- The deploy key {SECRET} is the customer's.
- Run the linter before the tests, it is quicker

## Next steps

- no lesson
"""


def proposing(world: World, text: str = LESSONS) -> int:
    """Hand an agent off whose document proposes lessons; its successor."""
    world.rules({"match": DOCUMENT, "do": [["write", "{path}", text], ["say", "written"]]})
    of = world.ends(world.hand_off(world.worked(world.started())))
    return world.idle(of["successor_id"])


@pytest.mark.long
def test_the_instruction_asks_for_lessons(world: World) -> None:
    """The outgoing agent is asked for them under a heading of their own, and may have none."""
    world.ends(world.hand_off(world.worked(world.started())))
    (prompt,) = world.prompts("Write a handoff document")

    assert ("## Lessons for good" in prompt["text"], '"none"' in prompt["text"]) == (True, True)


def test_what_is_accepted_reaches_every_later_agent(world: World) -> None:
    """Only what the operator accepted gets into the experience: dated, without secrets, once."""
    slug = "developer-con-1"
    successor = proposing(world)
    listed = world.tasuki("persona", "lessons", slug)
    experience = world.data / "data/personas" / slug / "experience.md"
    before = experience.read_text()
    accepted = world.tasuki("persona", "lessons", slug, "1", "--accept")
    world.tasuki("persona", "lessons", slug, "--drop")
    world.ends(world.hand_off(successor))
    contexts = [c for prompt in world.prompts("Begin your answer with") for c in prompt["context"]]

    assert ("Run the linter before the tests, it is quicker." in listed, SECRET in listed) == (
        True,
        False,
    )
    assert (before, "accepted" in accepted) == ("", True)
    assert experience.read_text().count("Run the linter") == 1
    assert "deploy key" not in experience.read_text()
    assert "Run the linter" in contexts[-1]
    assert "No lessons are proposed" in world.tasuki("persona", "lessons", slug)


@pytest.mark.long
def test_a_full_experience_says_so(world: World) -> None:
    """Where there is no room, nothing is added or decided, and the file is named."""
    proposing(world)
    experience = world.data / "data/personas/developer-con-1/experience.md"
    experience.write_text("x" * (personas.MOST_EXPERIENCE - 10))
    path = "/api/personas/developer-con-1/lessons"
    status, sentence = refusal(world, path, {"order": "accept"})
    experience.write_text("- old\n")
    decided = world.api("POST", path, {"order": "accept"})["lessons"]

    assert (status, str(experience) in sentence, "is full" in sentence) == (400, True, True)
    assert ({x["state"] for x in decided}, len(decided)) == ({"accepted"}, 2)
    assert experience.read_text().startswith("- old\n- 20")
    assert refusal(world, path, {"order": "drop", "ids": [1]})[0] == 400


@pytest.mark.parametrize(
    ("document", "lessons"),
    [
        ("## Lessons for good\n\nnone\n", []),
        ("## Lessons for good\n\n- None.\n- n/a\n", []),
        ("## Lessons\n1. first\n2) second\n# Next\n- x", ["first", "second"]),
        ("- not here\n", []),
        ("## Lessons for good\n" + "- x\n- y\n" * 30, ["x", "y"]),
    ],
)
def test_lessons_are_the_items_under_their_heading(document: str, lessons: list[str]) -> None:
    """What stands elsewhere, and a word for nothing, is no lesson."""
    assert find_lessons(document) == lessons


@pytest.mark.long
def test_a_document_from_the_thread_proposes_nothing(tmp_path: Path, world: World) -> None:
    """Only an agent itself proposes lessons."""
    agent = world.worked(world.started())
    world.ends(world.hand_off(agent, **{"from": "thread"}))

    assert world.api("GET", "/api/personas/developer-con-1/lessons")["lessons"] == []
