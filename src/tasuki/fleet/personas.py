"""Personas: a row of settings and a folder with a skill, experience and handoff documents.

    <root>/data/personas/{role}-{name}-{n}/
        skill.md         what it is, and how it works; given to each of its agents
        experience.md    what its agents learned; given with the skill
        handoffs/        the documents that its agents wrote

A folder is for its owner alone, and appears whole or not at all. No link that leads out of the
root is followed.
"""

import os
import re
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from msgspec import UNSET, UnsetType

from tasuki import harness as harnesses
from tasuki.errors import NotPossible, PersonaNotFound, StoreFailed
from tasuki.fleet import log, reading, tables
from tasuki.fleet.database import Database
from tasuki.fleet.rows import Persona
from tasuki.fleet.vacancies import check_settled
from tasuki.plain import one_line, plain
from tasuki.vault.store import private_folder, sync_folder, why

MOST_LETTERS = 32
"""Of a role, and of a name."""
MOST_SKILL = 64 << 10
"""Bytes of a skill: it goes into the start command of some harnesses, which takes 128 KiB."""
MOST_EXPERIENCE = 32 << 10
"""Bytes of experience that are given with the skill; the newest."""
SKILL, EXPERIENCE, HANDOFFS = "skill.md", "experience.md", "handoffs"
_WORD = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_SLUG = re.compile(r"[a-z0-9]+(-[a-z0-9]+){2,}")
_LEFT_OUT = "(The older part of {path} is left out here: {count} bytes.)\n\n"


def add(
    database: Database,
    root: Path,
    *,
    role: str,
    name: str,
    skill: str = "",
    harness: str = "claude",
    model: str = "",
    threshold: float | None = None,
    automatic: bool = False,
) -> Persona:
    """Make a persona: its row, and its folder below `root`. `threshold` is in percent.

    The number is the first that is free. Raises NotPossible for a role, name or skill that cannot
    be used, UsageError for an unknown harness, StoreFailed where the folder cannot be written.
    """
    role, name = _word("role", role), _word("name", name)
    _check(harness, threshold)
    content = _skill_bytes(skill)
    with database.write() as connection:
        number = _free(connection, root, role, name)
        slug = f"{role}-{name}-{number}"
        where = _made(root, slug, content)
        try:
            values: dict[str, Any] = {
                "slug": slug, "role": role, "name": name, "number": number, "folder": str(where),
                "created_at": time.time(), "harness": harness, "model": plain(model),
                "threshold": threshold, "automatic": automatic,
            }  # fmt: skip
            connection.execute(sa.insert(tables.personas).values(**values))
            log.note(connection, "persona", f"Persona {slug} was added.", data={"slug": slug})
            return reading.persona_in(connection, slug)
        except BaseException:
            shutil.rmtree(where, ignore_errors=True)
            raise


def edit(
    database: Database,
    root: Path,
    slug: str,
    *,
    skill: str | None = None,
    harness: str | None = None,
    model: str | None = None,
    threshold: float | UnsetType | None = UNSET,
    automatic: bool | None = None,
) -> Persona:
    """Change what is given; the rest stays. A threshold of None is that of the settings.

    Automatic handoffs that the loop guard stopped begin again where `automatic` is given. Raises
    PersonaNotFound, NotPossible, UsageError, StoreFailed.
    """
    content = None if skill is None else _skill_bytes(skill)
    with database.write() as connection:
        old = reading.persona_in(connection, slug)
        values: dict[str, Any] = {}
        if harness is not None:
            values["harness"] = harness
        if model is not None:
            values["model"] = plain(model)
        if threshold is not UNSET:
            values["threshold"] = threshold
        if automatic is not None:
            values |= {"automatic": automatic, "automation_stopped": ""}
        _check(harness or old.harness, values.get("threshold"))
        if content is not None:
            _write(folder(root, slug), SKILL, content)
        if values:
            mine = tables.personas.c.slug == slug
            connection.execute(sa.update(tables.personas).where(mine).values(**values))
        changed = sorted(
            {*values, *(["skill"] if content is not None else [])} - {"automation_stopped"}
        )
        text = f"Persona {slug} was changed: {', '.join(changed) or 'nothing'}."
        log.note(connection, "persona", text, data={"slug": slug})
        return reading.persona_in(connection, slug)


def retire(database: Database, slug: str) -> Persona:
    """Start no more agents of a persona; its folder and its history stay.

    Raises PersonaNotFound, NotPossible while an agent works as it, AlreadyUnderWay while its
    handoff asks for a successor.
    """
    with database.write() as connection:
        old = reading.persona_in(connection, slug)
        agents = tables.agents
        working = sa.select(agents.c.id).where(
            agents.c.persona == slug, agents.c.ended_at.is_(None)
        )
        if (id := connection.execute(working).scalars().first()) is not None:
            raise NotPossible(f"Agent {id} works as {slug}. Stop it first: tasuki agent stop {id}")
        check_settled(connection, slug)
        if old.retired_at is None:
            mine = tables.personas.c.slug == slug
            values = {"retired_at": time.time()}
            connection.execute(sa.update(tables.personas).where(mine).values(**values))
            log.note(connection, "persona", f"Persona {slug} was retired.", data={"slug": slug})
        return reading.persona_in(connection, slug)


# -- the folder ------------------------------------------------------------------------


def folder(root: Path, slug: str) -> Path:
    """The folder of a persona, with no link that leads out of the root. Raises PersonaNotFound."""
    if not _SLUG.fullmatch(slug) or len(slug) > 2 * MOST_LETTERS + 12:
        raise PersonaNotFound(
            f"{one_line(slug, 80)!r} is no slug of a persona. List them: tasuki persona list"
        )
    return _inside(root, _personas(root) / slug)


def skill(root: Path, slug: str) -> str:
    """What an agent of a persona is told of itself: its skill, and its experience if it has any.

    Without control characters; of longer experience the newest part. Raises PersonaNotFound where
    the folder or the skill is missing, StoreFailed where they cannot be read.
    """
    where = folder(root, slug)
    text = skill_text(root, slug)
    learned = _read(root, where / EXPERIENCE, missing=b"")
    if not learned.strip():
        return text
    older = len(learned) - MOST_EXPERIENCE
    if older > 0:
        note = _LEFT_OUT.format(path=where / EXPERIENCE, count=older).encode()
        learned = note + learned[older:].partition(b"\n")[2]
    experience = plain(learned.decode("utf-8", "replace")).strip()
    return f"{text}\n\n# Experience\n\n{experience}".strip()


def experience_text(root: Path, slug: str) -> str:
    """What stands in `experience.md`; empty where there is none. Raises as `skill`."""
    return _read(root, folder(root, slug) / EXPERIENCE, missing=b"").decode("utf-8", "replace")


def write_experience(root: Path, slug: str, text: str) -> None:
    """Replace `experience.md`, whole or not at all. Raises as `skill`."""
    _write(folder(root, slug), EXPERIENCE, text.encode("utf-8", "replace"))


def skill_text(root: Path, slug: str) -> str:
    """What stands in `skill.md`, without control characters. Raises as `skill`."""
    content = _read(root, folder(root, slug) / SKILL)
    if len(content) > MOST_SKILL:
        raise StoreFailed(
            f"{folder(root, slug) / SKILL} has {len(content)} bytes; at most {MOST_SKILL} can be given."
        )
    return plain(content.decode("utf-8", "replace")).strip()


def _personas(root: Path) -> Path:
    return root / "data" / "personas"


def _inside(root: Path, path: Path) -> Path:
    """The path itself, if what it leads to is below the root. Raises StoreFailed."""
    real, base = os.path.realpath(path), os.path.realpath(root)
    if os.path.commonpath((real, base)) != base:
        raise StoreFailed(
            f"{path} leads out of {root}, to {real}. Put what it should hold there itself."
        )
    return path


def _free(connection: sa.Connection, root: Path, role: str, name: str) -> int:
    """The first number that neither a row nor a folder has."""
    slugs = tables.personas.c.slug
    query = sa.select(slugs).where(slugs.startswith(f"{role}-{name}-"))
    taken = set(connection.execute(query).scalars())
    number = 1
    while (slug := f"{role}-{name}-{number}") in taken or os.path.lexists(_personas(root) / slug):
        number += 1
    return number


def _made(root: Path, slug: str, content: bytes) -> Path:
    """The new folder of a persona, renamed into its place once it is whole."""
    where = folder(root, slug)
    try:
        private_folder(where.parent)
        new = Path(tempfile.mkdtemp(prefix=".new-", dir=where.parent))
        try:
            _write(new, SKILL, content)
            _write(new, EXPERIENCE, b"")
            (new / HANDOFFS).mkdir(mode=0o700)
            new.rename(where)
            sync_folder(where.parent)
        except BaseException:
            shutil.rmtree(new, ignore_errors=True)
            raise
    except OSError as error:
        raise StoreFailed(f"The folder {where} could not be made: {why(error)}.") from error
    return where


def _write(where: Path, name: str, content: bytes) -> None:
    """Write a file of a persona, whole or not at all; a link of that name is replaced."""
    try:
        number, new = tempfile.mkstemp(prefix=f".{name}-", dir=where)
        try:
            with os.fdopen(number, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(number)
            os.replace(new, where / name)
        except BaseException:
            Path(new).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise StoreFailed(f"{where / name} could not be written: {why(error)}.") from error


def _read(root: Path, path: Path, missing: bytes | None = None) -> bytes:
    """A file of a persona. Raises PersonaNotFound, StoreFailed."""
    try:
        if not os.path.isfile(_inside(root, path)) and os.path.exists(path):
            raise StoreFailed(f"{path} is no file. Put a file there.")
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        if missing is not None and path.parent.is_dir():
            return missing
        gone = path.parent if not path.parent.is_dir() else path
        raise PersonaNotFound(
            f"{gone} is missing. Put it back, or, unless another host of this fleet has it, retire the persona: tasuki persona retire "
            f"{path.parent.name}"
        ) from None
    except OSError as error:
        raise StoreFailed(f"{path} cannot be read: {error.strerror}.") from error


# -- what may be said ------------------------------------------------------------------


def _word(what: str, said: str) -> str:
    """A role or a name as it stands in the slug. Raises NotPossible."""
    word = said.strip(" ").lower()
    if len(word) > MOST_LETTERS or not _WORD.fullmatch(word):
        raise NotPossible(
            f"{one_line(said, 60)!r} cannot be a persona's {what}: at most {MOST_LETTERS} of the letters "
            "a-z, digits, and single hyphens between them."
        )
    return word


def _check(harness: str, threshold: float | None) -> None:
    if harnesses.control(harnesses.get(harness)) is None:
        raise NotPossible(f"Agents of {harness} cannot be run by tasuki.")
    if threshold is not None and not 1 <= threshold <= 100:
        raise NotPossible(f"A threshold of {threshold:g} % is not possible: 1 to 100.")


def _skill_bytes(text: str) -> bytes:
    content = plain(text).strip()
    encoded = (content + "\n").encode() if content else b""
    if len(encoded) > MOST_SKILL:
        raise NotPossible(f"A skill of {len(encoded)} bytes is too long: at most {MOST_SKILL}.")
    return encoded
