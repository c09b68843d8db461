"""Files that every host of the fleet needs, kept in the database: documents, personas, parcels.

On SQLite there is one host, whose own files are enough: nothing is written there.
"""

import hashlib
import json
import os
import time
from pathlib import Path

import sqlalchemy as sa

from tasuki.errors import PersonaNotFound, StoreFailed
from tasuki.files import explain_error, replace_file
from tasuki.fleet.agents import personas
from tasuki.fleet.store import log, queries, tables
from tasuki.fleet.store.database import FleetDatabase, store_row

PIECE_BYTES = 1 << 20
"""Bytes of one piece of a parcel. Each is a transaction: while one lasts, the log of all hosts waits."""
SYNCED_FILE = ".shared.json"
"""In a persona's folder: digests of its files when they were last as the database has them."""
PERSONA_FILES = (personas.SKILL, personas.EXPERIENCE)


def store_document(database: FleetDatabase, handoff_id: str, content: str) -> None:
    """Store the document of a handoff, or replace it."""
    if database.is_sqlite:
        return
    values = {"content": content.replace("\0", "\ufffd"), "changed_at": time.time()}
    with database.write(synced=False) as connection:
        store_row(connection, tables.documents, {"handoff_id": handoff_id}, values)


def load_document(database: FleetDatabase, handoff_id: str) -> str | None:
    """Load the document of a handoff; None where there is none in the database."""
    documents = tables.documents.c
    query = sa.select(documents.content).where(documents.handoff_id == handoff_id)
    return database.fetch(query).scalar_one_or_none()


def store_parcel(database: FleetDatabase, handoff_id: str, name: str, content: bytes) -> None:
    """Store bytes that travel with a handoff; an older parcel of the name is replaced.

    Not at once: it is read when the step that stored it is done. The host writes its events meanwhile,
    however slow its connection is.
    """
    parcels = tables.parcels
    own = (parcels.c.handoff_id == handoff_id) & (parcels.c.name == name)
    with database.open_transaction() as connection:
        connection.execute(sa.delete(parcels).where(own))
    for number, start in enumerate(range(0, len(content), PIECE_BYTES)):
        piece = content[start : start + PIECE_BYTES]
        values = {"handoff_id": handoff_id, "name": name, "number": number, "content": piece}
        with database.open_transaction() as connection:
            connection.execute(sa.insert(parcels).values(values))


def load_parcel(database: FleetDatabase, handoff_id: str, name: str) -> bytes:
    """Load the bytes of a parcel; empty where there is none."""
    parcels = tables.parcels.c
    query = sa.select(parcels.content).order_by(parcels.number)
    query = query.where(parcels.handoff_id == handoff_id, parcels.name == name)
    return b"".join(database.fetch(query).scalars())


def delete_parcels(database: FleetDatabase, handoff_id: str) -> None:
    """Delete what travelled with a handoff."""
    parcels = tables.parcels
    database.change(sa.delete(parcels).where(parcels.c.handoff_id == handoff_id), synced=False)


def share_persona(database: FleetDatabase, root: Path, slug: str) -> None:
    """Bring a persona's files on this host in line with the database, in both directions.

    What was changed here goes to the database; what another host changed is written here. Where
    both changed a file, or one was here before, the database wins, and the file of this host is kept
    beside it, with an alarm in the log. Raises PersonaNotFound, StoreFailed.
    """
    if database.is_sqlite:
        return
    folder = personas.get_persona_folder(root, slug)
    shared = _load_shared(database, slug)
    if all(shared.get(name) == _read_own(folder / name) for name in PERSONA_FILES):
        _write_synced(folder, shared)
        return
    with database.write(alone=True) as connection:
        shared = _load_shared(connection, slug)
        if not folder.is_dir():
            if not shared:
                raise PersonaNotFound(
                    f"{folder} is missing, and the database has no copy of it. Put it back, or retire the persona: "
                    f"tasuki persona retire {slug}"
                )
            personas.create_folder(root, slug, shared.get(personas.SKILL, "").encode())
        synced = _read_synced(folder)
        for name in PERSONA_FILES:
            _share_file(connection, database.host, folder, slug, name, shared, synced)
    _write_synced(folder, _load_shared(database, slug))


def _share_file(
    connection: sa.Connection,
    host: str,
    folder: Path,
    slug: str,
    name: str,
    shared: dict[str, str],
    synced: dict[str, str],
) -> None:
    theirs, own = shared.get(name), _read_own(folder / name)
    if own == theirs or (own is None and theirs is None):
        return
    is_changed_here = own is not None and _digest(own) != synced.get(name)
    if theirs is None or (is_changed_here and _digest(theirs) == synced.get(name)):
        values = {"content": own or "", "changed_at": time.time(), "host": host}
        store_row(connection, tables.persona_files, {"slug": slug, "name": name}, values)
        return
    if own and is_changed_here:
        kept = folder / f"{name}.before-{time.strftime('%Y%m%dT%H%M%S')}"
        _write_own(kept, own)
        what = "was changed on two hosts at once" if name in synced else "was here before"
        text = f"{name} of {slug} {what}. That of the fleet counts; that of this host is in {kept}."
        log.note(connection, "alarm", text, data={"code": "persona_changed_twice", "slug": slug})
    _write_own(folder / name, theirs)


def _load_shared(source: queries.QuerySource, slug: str) -> dict[str, str]:
    files = tables.persona_files.c
    query = sa.select(files.name, files.content).where(files.slug == slug)
    return {row.name: row.content for row in queries.fetch(source, query)}


def _read_own(path: Path) -> str | None:
    """Read a file of this host; None where there is none. Raises StoreFailed."""
    try:
        number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        with os.fdopen(number, "rb") as file:
            return file.read().decode("utf-8", "replace").replace("\0", "\ufffd")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise StoreFailed(f"{path} cannot be read: {explain_error(error)}.") from error


def _write_own(path: Path, content: str) -> None:
    try:
        replace_file(path, content.encode("utf-8", "replace"))
    except OSError as error:
        raise StoreFailed(f"{path} cannot be written: {explain_error(error)}.") from error


def _digest(content: str) -> str:
    return hashlib.sha256(content.encode("utf-8", "replace")).hexdigest()


def _read_synced(folder: Path) -> dict[str, str]:
    try:
        known = json.loads((folder / SYNCED_FILE).read_bytes())
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}


def _write_synced(folder: Path, shared: dict[str, str]) -> None:
    digests = {name: _digest(content) for name, content in sorted(shared.items())}
    if digests and digests != _read_synced(folder):
        _write_own(folder / SYNCED_FILE, json.dumps(digests))
