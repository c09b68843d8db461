"""Personas: a row and a folder each; hostile names, links and lengths."""

import os
import stat
import threading
from pathlib import Path

import pytest

from tasuki.errors import NotPossible, PersonaNotFound, StoreFailed, UsageError
from tasuki.fleet.agents import personas
from tasuki.fleet.orders.bodies import NewPersona, PersonaChange
from tasuki.fleet.store import queries
from tasuki.fleet.store.database import FleetDatabase
from tasuki.fleet.store.models import Persona


def made(
    database: FleetDatabase, root: Path, role: str = "developer", name: str = "con", **more: object
) -> Persona:
    """A new persona."""
    return personas.add_persona(database, root, NewPersona(role=role, name=name, **more))  # type: ignore[arg-type]


def mode(path: Path) -> int:
    """Who may do what with a file or folder."""
    return stat.S_IMODE(path.lstat().st_mode)


def test_a_persona_has_a_row_and_a_folder(database: FleetDatabase, tmp_path: Path) -> None:
    """Its folder holds skill.md, experience.md and handoffs/, for its owner alone."""
    got = made(
        database, tmp_path, skill="You write tests.", harness="codex", threshold=70, automatic=True
    )
    folder = tmp_path / "data" / "personas" / "developer-con-1"

    assert ("developer-con-1", 1, str(folder)) == (got.slug, got.number, got.folder)
    assert ("codex", 70.0, True, None) == (
        got.harness,
        got.threshold,
        got.automatic,
        got.retired_at,
    )
    assert got == queries.load_persona(database, "developer-con-1")
    assert "You write tests.\n" == (folder / "skill.md").read_text()
    assert ["experience.md", "handoffs", "skill.md"] == sorted(os.listdir(folder))
    assert [0o700, 0o600, 0o600, 0o700] == [
        mode(folder / name) for name in ("", "skill.md", "experience.md", "handoffs")
    ]


def test_numbers_count_up_for_a_role_and_name(database: FleetDatabase, tmp_path: Path) -> None:
    """The next free number; one whose folder lies there is not free, nor is a slug made of other words."""
    slugs = [made(database, tmp_path).slug, made(database, tmp_path, "Developer", " CON ").slug]
    (tmp_path / "data" / "personas" / "developer-con-3").mkdir()
    slugs += [made(database, tmp_path).slug, made(database, tmp_path, "developer", "ann").slug]

    assert ["developer-con-1", "developer-con-2", "developer-con-4", "developer-ann-1"] == slugs
    assert ["a-b-c-1", "a-b-c-2"] == [
        made(database, tmp_path, "a-b", "c").slug,
        made(database, tmp_path, "a", "b-c").slug,
    ]


def test_personas_added_at_once_get_different_numbers(
    database: FleetDatabase, tmp_path: Path
) -> None:
    """Eight threads that add the same role and name."""
    slugs: list[str] = []
    threads = [
        threading.Thread(target=lambda: slugs.append(made(database, tmp_path).slug))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)

    assert [f"developer-con-{n}" for n in range(1, 9)] == sorted(slugs)


@pytest.mark.parametrize(
    "word", ["", "..", "../x", "a/b", "a..b", "-a", "a-", "a--b", "ä", "a b", "a\0", "a\n", "ａ", "x" * 33, "a\x1b[2J"]
)  # fmt: skip
def test_hostile_words_are_refused(word: str, tmp_path: Path) -> None:
    """A role or name that is no plain word makes nothing, and is not echoed to a terminal."""
    database = FleetDatabase(f"sqlite:///{tmp_path / 'none.db'}")

    for role, name in ((word, "con"), ("developer", word)):
        with pytest.raises(NotPossible, match="cannot be a persona's") as refused:
            personas.add_persona(database, tmp_path, NewPersona(role=role, name=name))
        assert "\x1b" not in str(refused.value)
    assert [] == os.listdir(tmp_path)


@pytest.mark.parametrize(
    "slug", ["..", "../../etc", "developer-con-1/..", "a", "", "a-b-1\0", "x" * 200, "A-B-1"]
)
def test_hostile_slugs_are_no_paths(slug: str, tmp_path: Path) -> None:
    """A slug is looked at before it becomes a path."""
    with pytest.raises(PersonaNotFound, match="is not the slug of a persona"):
        personas.build_skill(tmp_path, slug)


def test_what_cannot_be_run_is_refused(database: FleetDatabase, tmp_path: Path) -> None:
    """Harnesses that nobody knows or that cannot be run, and thresholds, and skills too long."""
    with pytest.raises(UsageError, match="Unknown harness"):
        made(database, tmp_path, harness="nope")
    with pytest.raises(NotPossible, match="cannot run agents"):
        made(database, tmp_path, harness="aider")
    with pytest.raises(NotPossible, match="1 to 100"):
        made(database, tmp_path, threshold=0)
    with pytest.raises(NotPossible, match="65537 bytes is too long"):
        made(database, tmp_path, skill="x" * 65536)
    assert [] == queries.list_personas(database)


def test_the_skill_is_what_an_agent_is_told(database: FleetDatabase, tmp_path: Path) -> None:
    """Skill and experience in one text, without control characters; without either, nothing."""
    slug = made(database, tmp_path, skill="You write\x1b[201~ tests.").slug
    experience = tmp_path / "data" / "personas" / slug / "experience.md"

    assert "You write tests." == personas.build_skill(tmp_path, slug)
    experience.write_bytes(b"pytest is used \xff here\x07\n")
    assert "You write tests.\n\n# Experience\n\npytest is used \ufffd here" == personas.build_skill(
        tmp_path, slug
    )
    assert "" == personas.build_skill(tmp_path, made(database, tmp_path, name="ann").slug)


def test_of_long_experience_the_newest_is_told(database: FleetDatabase, tmp_path: Path) -> None:
    """It is bounded, and says so."""
    slug = made(database, tmp_path, skill="s").slug
    experience = tmp_path / "data" / "personas" / slug / "experience.md"
    experience.write_text("".join(f"- lesson {n}\n" for n in range(10_000)))

    text = personas.build_skill(tmp_path, slug)

    assert len(text) < personas.MOST_EXPERIENCE + 500
    assert f"(The older part of {experience} is left out here:" in text
    assert text.endswith("- lesson 9999")


def test_missing_files_are_named(database: FleetDatabase, tmp_path: Path) -> None:
    """A folder or skill that somebody took away; one without experience has none."""
    slug = made(database, tmp_path, skill="s").slug
    folder = tmp_path / "data" / "personas" / slug
    (folder / "experience.md").unlink()
    assert "s" == personas.build_skill(tmp_path, slug)
    (folder / "skill.md").unlink()
    with pytest.raises(PersonaNotFound, match=r"developer-con-1/skill\.md is missing"):
        personas.build_skill(tmp_path, slug)
    (folder / "handoffs").rmdir()
    folder.rmdir()
    with pytest.raises(PersonaNotFound, match=r"developer-con-1 is missing\. Put it back"):
        personas.build_skill(tmp_path, slug)


def test_links_out_of_the_root_are_not_followed(database: FleetDatabase, tmp_path: Path) -> None:
    """A skill, a folder, or all personas elsewhere are neither read nor written."""
    root, elsewhere = tmp_path / "root", tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "skill.md").write_text("SECRET")
    slug = made(database, root, skill="s").slug
    folder = root / "data" / "personas" / slug
    (folder / "skill.md").unlink()
    (folder / "skill.md").symlink_to(elsewhere / "skill.md")
    with pytest.raises(StoreFailed, match="leads out of"):
        personas.build_skill(root, slug)
    personas.edit_persona(database, root, slug, PersonaChange(skill="mine"))
    assert ("mine", "SECRET") == (
        personas.build_skill(root, slug),
        (elsewhere / "skill.md").read_text(),
    )

    folder.rename(root / "away")
    folder.symlink_to(elsewhere)
    with pytest.raises(StoreFailed, match="leads out of"):
        personas.edit_persona(database, root, slug, PersonaChange(skill="theirs"))
    (root / "data" / "personas").rename(root / "data" / "old")
    (root / "data" / "personas").symlink_to(elsewhere)
    with pytest.raises(StoreFailed, match="leads out of"):
        made(database, root, name="ann")
    assert ["skill.md"] == os.listdir(elsewhere)


def test_a_link_within_the_root_is_followed(database: FleetDatabase, tmp_path: Path) -> None:
    """Two personas can share a skill."""
    first, second = made(database, tmp_path, skill="shared").slug, made(database, tmp_path).slug
    folder = tmp_path / "data" / "personas"
    (folder / second / "skill.md").unlink()
    (folder / second / "skill.md").symlink_to(f"../{first}/skill.md")

    assert "shared" == personas.build_skill(tmp_path, second)


def test_edit_changes_what_is_given(database: FleetDatabase, tmp_path: Path) -> None:
    """The rest stays, and a threshold can be given back to the settings."""
    slug = made(database, tmp_path, skill="s", threshold=70, model="m").slug

    got = personas.edit_persona(
        database, tmp_path, slug, PersonaChange(automatic=True, harness="pi")
    )
    assert ("pi", "m", 70.0, True) == (got.harness, got.model, got.threshold, got.automatic)
    assert (
        personas.edit_persona(database, tmp_path, slug, PersonaChange(threshold=None)).threshold
        is None
    )
    with pytest.raises(PersonaNotFound, match="No persona 'developer-con-9'"):
        personas.edit_persona(database, tmp_path, "developer-con-9", PersonaChange(model="x"))
    log = [event.text for event in queries.list_events_after(database, 0, 10)]
    assert "Persona developer-con-1 was changed: automatic, harness." == log[1]


def test_a_retired_persona_keeps_its_folder(database: FleetDatabase, tmp_path: Path) -> None:
    """It leaves the list; twice is once."""
    slug = made(database, tmp_path, skill="s").slug

    first = personas.retire_persona(database, slug)
    assert first == personas.retire_persona(database, slug)
    assert [] == queries.list_personas(database)
    assert (
        [first]
        == queries.list_personas(database, retired=None)
        == queries.list_personas(database, retired=True)
    )
    assert "s" == personas.build_skill(tmp_path, slug)


def test_a_folder_that_cannot_be_written_leaves_nothing(
    database: FleetDatabase, tmp_path: Path
) -> None:
    """No row without a folder."""
    (tmp_path / "data").write_text("a file")

    with pytest.raises(StoreFailed, match="could not be created"):
        made(database, tmp_path)
    assert [] == queries.list_personas(database)
