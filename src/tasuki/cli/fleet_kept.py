"""What the fleet has of handoffs, for the commands about what was kept: with its server or without."""

import os
import time
from datetime import UTC, datetime
from pathlib import Path

from msgspec import Struct

from tasuki.errors import ServerAway, StoreFailed
from tasuki.vault import data_folder
from tasuki.vault.fleet_records import FleetRecord, fleet_records, read_fleet_file

MOST_BYTES = 1 << 20
DAY = 86_400.0
JUST_NOW = 3600.0
"""Seconds after which a document that belongs to no known handoff is not being written any more."""


class FleetHistory(Struct, frozen=True):
    """Handoffs of agents, the oldest first. `problem` says why some may be missing; else it is empty."""

    records: tuple[FleetRecord, ...] = ()
    problem: str = ""


class PersonaDocument(Struct, frozen=True):
    """A handoff document in a persona's folder. `record` is its handoff, where that is known."""

    persona: str
    path: Path
    changed_at: float
    record: FleetRecord | None = None

    @property
    def created(self) -> str:
        """When it was written: UTC, ISO 8601 to the second."""
        return datetime.fromtimestamp(self.changed_at, UTC).isoformat(timespec="seconds")

    def read(self) -> str:
        """Its text, at most 1 MiB of it; empty where it cannot be read, or a link stands there."""
        try:
            number = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            with os.fdopen(number, "rb") as file:
                return file.read(MOST_BYTES).decode("utf-8", "replace")
        except OSError:
            return ""


def read_fleet_history() -> FleetHistory:
    """The handoffs of the fleet's agents: from its server, else from its file of SQLite."""
    from tasuki.cli.fleet_client import Client

    folder = data_folder()
    if os.path.exists(folder / "fleet" / "address"):
        try:
            client = Client()
            handoffs = client.get_pages("handoffs")
            agents = client.get_pages("agents")
            return FleetHistory(tuple(fleet_records(handoffs, agents)))
        except ServerAway:
            pass  # its database may be a file
    try:
        records = tuple(read_fleet_file(folder / "fleet.db"))
    except StoreFailed as error:
        return FleetHistory(problem=str(error))
    if not records and _personas().is_dir() and not (folder / "fleet.db").is_file():
        return FleetHistory(
            problem="The fleet's handoffs are in a database that its server must be asked for. Start it: tasuki serve"
        )
    return FleetHistory(records)


def find_documents(history: FleetHistory) -> list[PersonaDocument]:
    """The handoff documents of all personas, the newest first. No link is followed."""
    by_path = {record.document: record for record in history.records if record.document}
    found = []
    for path in _personas().glob("*/handoffs/*.md"):
        if path.is_symlink() or path.parent.is_symlink() or not path.is_file():
            continue
        persona = path.parent.parent.name
        found.append(PersonaDocument(persona, path, path.stat().st_mtime, by_path.get(str(path))))
    return sorted(found, key=lambda document: (-document.changed_at, document.path))


def prunable_documents(
    documents: list[PersonaDocument], *, days: int, keep: int
) -> list[PersonaDocument]:
    """Those that may be deleted, of documents with the newest first; the oldest first.

    What belongs to a handoff that is not over, or to a successor that works, stays; and so does one
    that is written to just now.
    """
    before = time.time() - max(days * DAY, JUST_NOW)
    going = [
        document
        for document in documents[keep:]
        if document.changed_at <= before and not (document.record and document.record.is_needed)
    ]
    return going[::-1]


def _personas() -> Path:
    from tasuki import config

    root = config.fleet_root(config.load(Path.cwd()), data_folder())
    return root / "data" / "personas"
