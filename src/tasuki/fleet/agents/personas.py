"""Personas: a row of settings and a folder with a skill, experience and handoff documents.

    <root>/data/personas/{role}-{name}-{n}/
        skill.md         what it is, and how it works; given to each of its agents
        experience.md    what its agents learned; given with the skill
        handoffs/        the documents that its agents wrote

A folder is for its owner alone, and appears whole or not at all. No link that leads out of
the root is followed.
"""

import os
import shutil
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from msgspec import UNSET
from msgspec.structs import asdict

from tasuki.errors import AlreadyUnderWay, NotPossible, PersonaNotFound, StoreFailed, TasukiError
from tasuki.files import create_private_folder, explain_error, replace_file, sync_folder
from tasuki.fleet.orders.bodies import NewPersona, PersonaChange
from tasuki.fleet.store import log, queries, tables
from tasuki.fleet.store.database import FleetDatabase, update_row
from tasuki.fleet.store.models import FleetHandoff, Persona
from tasuki.harness.registry import require_control
from tasuki.patterns import compile_pattern
from tasuki.text_safety import clean_text, shorten_to_line

MOST_LETTERS = 32
"""Most letters of a role, and of a name."""
MOST_SKILL = 64 << 10
"""Most bytes of a skill: some harnesses take it in the start command, which holds 128 KiB."""
MOST_EXPERIENCE = 32 << 10
"""Most bytes of experience that are given with the skill; the newest."""
UNFINISHED = ("running", "failed", "uncertain")
"""States of a handoff that may still continue."""
SKILL, EXPERIENCE, HANDOFFS = "skill.md", "experience.md", "handoffs"
_WORD = compile_pattern(r"[a-z0-9]+(-[a-z0-9]+)*")
_SLUG = compile_pattern(r"[a-z0-9]+(-[a-z0-9]+){2,}")
_OMITTED_NOTE = "(The older part of {path} is left out here: {count} bytes.)\n\n"


def add_persona(database: FleetDatabase, root: Path, new: NewPersona) -> Persona:
    """Add a persona: its row, and its folder below `root`. Its number is the first free one.

    Raises NotPossible for a role, name or skill that cannot be used, UsageError for an unknown
    harness, StoreFailed where the folder cannot be written.
    """
    role, name = normalize_word("role", new.role), normalize_word("name", new.name)
    _check_settings(new.harness, new.threshold, new.on_limit)
    content = _encode_skill(new.skill)
    with database.write(alone=True) as connection:
        number = _find_free_number(connection, root, role, name)
        slug = f"{role}-{name}-{number}"
        persona_folder = create_folder(root, slug, content)
        try:
            values: dict[str, Any] = {
                "slug": slug, "role": role, "name": name, "number": number, "folder": str(persona_folder),
                "created_at": time.time(), "harness": new.harness, "model": clean_text(new.model),
                "threshold": new.threshold, "automatic": new.automatic, "on_limit": new.on_limit,
            }  # fmt: skip
            connection.execute(sa.insert(tables.personas).values(**values))
            log.note(connection, "persona", f"Persona {slug} was added.", data={"slug": slug})
            return queries.load_persona(connection, slug)
        except BaseException:
            shutil.rmtree(persona_folder, ignore_errors=True)
            raise


def remove_unused_persona(database: FleetDatabase, root: Path, slug: str) -> None:
    """Remove a persona that was added for an agent which did not start; one with agents stays."""
    agents, is_own = tables.agents.c, tables.personas.c.slug == slug
    with database.write(alone=True) as connection:
        if connection.execute(sa.select(agents.id).where(agents.persona == slug)).first() is None:
            shutil.rmtree(get_persona_folder(root, slug), ignore_errors=True)
            connection.execute(sa.delete(tables.personas).where(is_own))


def find_next_slug(database: FleetDatabase, root: Path, slug: str) -> str:
    """Find the slug that the next persona with the role and name of another one would get."""
    with database.read() as connection:
        own = queries.load_persona(connection, slug)
        number = _find_free_number(connection, root, own.role, own.name)
    return f"{own.role}-{own.name}-{number}"


def edit_persona(database: FleetDatabase, root: Path, slug: str, change: PersonaChange) -> Persona:
    """Change the given settings of a persona; a threshold of None means that of the settings.

    Automatic handoffs that the loop guard stopped resume where `automatic` or `on_limit` is given. Raises
    PersonaNotFound, NotPossible, UsageError, StoreFailed.
    """
    values = {name: x for name, x in asdict(change).items() if x is not UNSET}
    changed = ", ".join(sorted(values)) or "nothing"
    content = _encode_skill(values.pop("skill")) if "skill" in values else None
    if "model" in values:
        values["model"] = clean_text(values["model"])
    with database.write(alone=True) as connection:
        old = queries.load_persona(connection, slug)
        on_limit = values.get("on_limit", old.on_limit)
        _check_settings(values.get("harness") or old.harness, values.get("threshold"), on_limit)
        if content is not None:
            _write_file(get_persona_folder(root, slug), SKILL, content)
        if values.keys() & {"automatic", "on_limit"}:
            values["automation_stopped"] = ""
        if values:
            update_row(connection, tables.personas, slug, **values)
        text = f"Persona {slug} was changed: {changed}."
        log.note(connection, "persona", text, data={"slug": slug})
        return queries.load_persona(connection, slug)


def retire_persona(database: FleetDatabase, slug: str) -> Persona:
    """Retire a persona: no more agents of it start; its folder and its history stay.

    Raises PersonaNotFound; NotPossible while an agent works as it; AlreadyUnderWay while its
    handoff asks for a successor.
    """
    with database.write(alone=True) as connection:
        old = queries.load_persona(connection, slug)
        if (id := queries.find_worker(connection, slug)) is not None:
            raise NotPossible(f"Agent {id} works as {slug}. Stop it first: tasuki agent stop {id}")
        check_no_open_handoff(connection, slug)
        if old.retired_at is None:
            update_row(connection, tables.personas, slug, retired_at=time.time())
            log.note(connection, "persona", f"Persona {slug} was retired.", data={"slug": slug})
        return queries.load_persona(connection, slug)


def check_available(
    connection: sa.Connection,
    slug: str,
    *,
    except_agent: int | None = None,
    is_successor: bool = False,
) -> None:
    """Raise AlreadyUnderWay where an agent works as a persona, or its handoff is unfinished.

    `except_agent`: an agent that does not count. `is_successor`: the agent to be started is the
    successor of that handoff. Call it in the transaction that inserts the agent, so that of two
    callers at once one is second.
    """
    queries.load_persona(connection, slug)
    if (id := queries.find_worker(connection, slug, except_agent)) is not None:
        raise AlreadyUnderWay(
            f"Agent {id} works as {slug} already. Hand it off or stop it first: tasuki agent stop {id}"
        )
    if not is_successor:
        check_no_open_handoff(connection, slug)


def list_free(database: FleetDatabase, role: str = "") -> list[Persona]:
    """List the personas, or those of a role, as which nobody works."""
    personas = [one for one in queries.list_personas(database) if role in ("", one.role)]
    free = []
    with database.read() as connection:
        for persona in personas:
            with suppress(TasukiError):
                check_available(connection, persona.slug)
                free.append(persona)
    return free


def check_no_open_handoff(connection: sa.Connection, slug: str) -> None:
    """Raise AlreadyUnderWay where the newest work of a persona waits for its successor.

    Its agent has ended, or was forked, and the handoff is unfinished. A handoff whose successor has its
    prompt, or after which other agents worked as the persona, is history, however it ended.
    """
    handoffs, agents = tables.handoffs.c, tables.agents.c
    is_open = handoffs.state.in_(UNFINISHED) & (agents.ended_at.is_not(None) | handoffs.fork)
    query = sa.select(handoffs.id).join(tables.agents, agents.id == handoffs.agent_id)
    for id in connection.execute(query.where(handoffs.persona == slug, is_open)).scalars().all():
        handoff = queries.load_handoff(connection, id)
        has_prompt = handoff.failure and handoff.failure.code == "not_acknowledged"
        if not has_prompt and find_later_agent(connection, handoff) is None:
            raise AlreadyUnderWay(
                f"Handoff {id[:8]} of {slug} is {handoff.state} at {handoff.step}; its successor has not taken "
                f"over. Continue it (tasuki agent retry {id[:8]}) or give it up (tasuki agent cancel "
                f"{id[:8]})."
            )


def find_later_agent(connection: sa.Connection, handoff: FleetHandoff) -> int | None:
    """Find the newest agent, besides its successor, that worked as a handoff's persona since."""
    agents = tables.agents.c
    newest = sa.select(sa.func.max(agents.id)).where(
        agents.persona == handoff.persona,
        agents.id > max(handoff.agent_id, handoff.successor_id or 0),
        agents.started_at > handoff.created_at,
    )
    id = connection.execute(newest).scalar_one()
    return None if id is None else int(id)


def get_persona_folder(root: Path, slug: str) -> Path:
    """Return a persona's folder, through no link that leads out. Raises PersonaNotFound."""
    if not _SLUG.fullmatch(slug) or len(slug) > 2 * MOST_LETTERS + 12:
        raise PersonaNotFound(
            f"{shorten_to_line(slug, 80)!r} is not the slug of a persona. List them: tasuki persona list"
        )
    return _check_inside(root, root / "data" / "personas" / slug)


def build_skill(root: Path, slug: str) -> str:
    """Build what an agent of a persona receives: its skill, and its experience if it has any.

    Without control characters; of longer experience the newest part. Raises PersonaNotFound
    where the folder or the skill is missing, StoreFailed where they cannot be read.
    """
    persona_folder = get_persona_folder(root, slug)
    text = read_skill(root, slug)
    learned = _read_file(root, persona_folder / EXPERIENCE, missing=b"")
    if not learned.strip():
        return text
    older = len(learned) - MOST_EXPERIENCE
    if older > 0:
        note = _OMITTED_NOTE.format(path=persona_folder / EXPERIENCE, count=older).encode()
        learned = note + learned[older:].partition(b"\n")[2]
    experience = clean_text(learned.decode("utf-8", "replace")).strip()
    return f"{text}\n\n# Experience\n\n{experience}".strip()


def read_experience(root: Path, slug: str) -> str:
    """Read `experience.md`; empty where there is none. Raises as `build_skill`."""
    content = _read_file(root, get_persona_folder(root, slug) / EXPERIENCE, missing=b"")
    return content.decode("utf-8", "replace")


def write_experience(root: Path, slug: str, text: str) -> None:
    """Replace `experience.md`, whole or not at all. Raises as `build_skill`."""
    _write_file(get_persona_folder(root, slug), EXPERIENCE, text.encode("utf-8", "replace"))


def read_skill(root: Path, slug: str) -> str:
    """Read `skill.md`, without control characters. Raises as `build_skill`."""
    content = _read_file(root, get_persona_folder(root, slug) / SKILL)
    if len(content) > MOST_SKILL:
        raise StoreFailed(
            f"{get_persona_folder(root, slug) / SKILL} has {len(content)} bytes; at most {MOST_SKILL} can be given."
        )
    return clean_text(content.decode("utf-8", "replace")).strip()


def _check_inside(root: Path, path: Path) -> Path:
    """Return the path itself, if its target is below the root. Raises StoreFailed."""
    real, base = os.path.realpath(path), os.path.realpath(root)
    if os.path.commonpath((real, base)) != base:
        raise StoreFailed(f"{path} leads out of {root}, to {real}. Put the files themselves there.")
    return path


def _find_free_number(connection: sa.Connection, root: Path, role: str, name: str) -> int:
    """Find the first number that neither a row nor a folder has."""
    slugs, folder = tables.personas.c.slug, root / "data" / "personas"
    query = sa.select(slugs).where(slugs.startswith(f"{role}-{name}-"))
    taken = set(connection.execute(query).scalars())
    number = 1
    while (slug := f"{role}-{name}-{number}") in taken or os.path.lexists(folder / slug):
        number += 1
    return number


def create_folder(root: Path, slug: str, content: bytes) -> Path:
    """Create the folder of a persona; it is renamed into its place once it is whole."""
    target = get_persona_folder(root, slug)
    try:
        create_private_folder(target.parent)
        new = Path(tempfile.mkdtemp(prefix=".new-", dir=target.parent))
        try:
            _write_file(new, SKILL, content)
            _write_file(new, EXPERIENCE, b"")
            (new / HANDOFFS).mkdir(mode=0o700)
            new.rename(target)
            sync_folder(target.parent)
        except BaseException:
            shutil.rmtree(new, ignore_errors=True)
            raise
    except OSError as error:
        raise StoreFailed(
            f"The folder {target} could not be created: {explain_error(error)}."
        ) from error
    return target


def _write_file(persona_folder: Path, name: str, content: bytes) -> None:
    """Write a file of a persona, whole or not at all; a link of that name is replaced."""
    try:
        replace_file(persona_folder / name, content)
    except OSError as error:
        raise StoreFailed(
            f"{persona_folder / name} could not be written: {explain_error(error)}."
        ) from error


def _read_file(root: Path, path: Path, missing: bytes | None = None) -> bytes:
    """Read a file of a persona. Raises PersonaNotFound, StoreFailed."""
    try:
        if not os.path.isfile(_check_inside(root, path)) and os.path.exists(path):
            raise StoreFailed(f"{path} is not a file. Put a file there.")
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        if missing is not None and path.parent.is_dir():
            return missing
        missing_path = path.parent if not path.parent.is_dir() else path
        raise PersonaNotFound(
            f"{missing_path} is missing. Put it back, or, unless another host of this fleet has it, retire the persona: tasuki persona retire "
            f"{path.parent.name}"
        ) from None
    except OSError as error:
        raise StoreFailed(f"{path} cannot be read: {error.strerror}.") from error


def normalize_word(kind: str, text: str) -> str:
    """Normalize a role or a name for the slug. Raises NotPossible."""
    word = text.strip(" ").lower()
    if len(word) > MOST_LETTERS or not _WORD.fullmatch(word):
        raise NotPossible(
            f"{shorten_to_line(text, 60)!r} cannot be a persona's {kind}: at most {MOST_LETTERS} of the letters "
            "a-z, digits, and single hyphens between them."
        )
    return word


def _check_settings(harness: str, threshold: float | None, on_limit: str = "") -> None:
    require_control(harness)
    if on_limit:
        require_control(on_limit)
    if on_limit == harness:
        raise NotPossible(
            f"At a usage limit of {harness} no agent can go on in {harness}. Name another harness: --on-limit"
        )
    if threshold is not None and not 1 <= threshold <= 100:
        raise NotPossible(f"A threshold of {threshold:g} % is not possible: 1 to 100.")


def _encode_skill(text: str) -> bytes:
    content = clean_text(text).strip()
    encoded = (content + "\n").encode() if content else b""
    if len(encoded) > MOST_SKILL:
        raise NotPossible(f"A skill of {len(encoded)} bytes is too long: at most {MOST_SKILL}.")
    return encoded
