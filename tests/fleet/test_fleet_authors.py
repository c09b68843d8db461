"""Who writes the document of a handoff from the thread, and what becomes of settings that are wrong."""

from pathlib import Path

import pytest
from fleets import World
from selection import by_default


def ended(world: World) -> int:
    """An agent that worked and is gone."""
    agent = world.worked(world.started(), "Never touch vendor, and make the retries configurable")
    world.api("POST", f"/api/agents/{agent}/stop")
    return agent


def test_without_a_model_it_is_written_offline(world: World) -> None:
    """An author that cannot be asked is no failure: the document is written offline, and that is told."""
    world.config(notify="", author="model")
    of = world.ends(world.hand_off(ended(world), **{"from": "thread"}))

    assert of["author"] == "thread (offline)"
    assert any("The author model could not be asked" in note for note in of["notes"])
    assert "Never touch vendor" in Path(of["file_path"]).read_text()


@pytest.mark.parametrize(
    ("settings", "code"),
    by_default(
        [
            ({"author": "model", "strict": True}, "author_failed"),
            ({"budget": 1}, "settings_invalid"),
        ],
        ({"budget": 1}, "settings_invalid"),
    ),
)
def test_a_retry_works_with_settings_that_were_mended(
    world: World, settings: dict[str, object], code: str
) -> None:
    """Wrong settings fail by name, without a word of Python; they are read anew by a retry."""
    world.config(notify="", **settings)
    id = world.hand_off(ended(world), **{"from": "thread"})
    failed = world.failed(id)
    sentence = world.handoff(id)["failure"]["sentence"]
    world.config(notify="")
    world.api("POST", f"/api/handoffs/{id}/retry")

    assert (failed, world.ends(id)["author"]) == (code, "thread (offline)")
    assert not any(word in sentence for word in ("Error", "ModelUnavailable", "ConfigInvalid"))


@pytest.mark.long
def test_a_persona_whose_skill_cannot_be_read_fails_by_name(world: World) -> None:
    """A skill that vanishes under way is named with its file; no class of Python is."""
    agent = world.worked(world.started())
    skill = world.data / "data/personas/developer-con-1/skill.md"
    skill.rename(skill.with_name("away.md"))
    id = world.hand_off(agent)
    code = world.failed(id)
    sentence = world.handoff(id)["failure"]["sentence"]
    skill.with_name("away.md").rename(skill)
    world.api("POST", f"/api/handoffs/{id}/retry")

    assert code in ("successor_not_started", "persona_unusable")
    assert ("skill.md" in sentence, "PersonaNotFound" in sentence) == (True, False)
    assert world.ends(id)["state"] == "done"
