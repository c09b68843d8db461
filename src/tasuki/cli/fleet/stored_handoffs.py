"""The fleet's handoffs, for the commands about kept handoffs: with its server or without."""

import os
import time
from datetime import UTC, datetime
from pathlib import Path

from msgspec import Struct

from tasuki.errors import ServerAway, StoreFailed
from tasuki.vault import get_data_folder
from tasuki.vault.fleet_records import FleetRecord, build_fleet_records, read_fleet_file

MOST_BYTES = 1 << 20
DAY_SECONDS = 86_400.0
RECENT_SECONDS = 3600.0
"""Seconds after which a document without a known handoff is no longer being written."""


class FleetHistory(Struct, frozen=True):
    """Handoffs of agents, oldest first.

    `problem` says why some may be missing; else it is empty.
    """

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

    def read_text(self) -> str:
        """Read its text, at most 1 MiB; empty where it cannot be read, or is a link."""
        try:
            number = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            with os.fdopen(number, "rb") as file:
                return file.read(MOST_BYTES).decode("utf-8", "replace")
        except OSError:
            return ""


def read_fleet_history() -> FleetHistory:
    """Read the handoffs of the fleet's agents: from its server, else from its SQLite file."""
    from tasuki.cli.fleet.client import FleetClient

    folder = get_data_folder()
    if os.path.exists(folder / "fleet" / "address"):
        try:
            client = FleetClient()
            handoffs = client.get_pages("handoffs")
            agents = client.get_pages("agents")
            return FleetHistory(tuple(build_fleet_records(handoffs, agents)))
        except ServerAway:
            pass  # its database may be a file
    try:
        records = tuple(read_fleet_file(folder / "fleet.db"))
    except StoreFailed as error:
        return FleetHistory(problem=str(error))
    if not records and _get_personas_folder().is_dir() and not (folder / "fleet.db").is_file():
        return FleetHistory(
            problem="The fleet's handoffs are in a database that its server must be asked for. Start it: tasuki serve"
        )
    return FleetHistory(records)


def find_documents(history: FleetHistory) -> list[PersonaDocument]:
    """Find the handoff documents of all personas, newest first. No link is followed."""
    by_path = {record.document: record for record in history.records if record.document}
    documents = []
    for path in _get_personas_folder().glob("*/handoffs/*.md"):
        if path.is_symlink() or path.parent.is_symlink() or not path.is_file():
            continue
        persona = path.parent.parent.name
        documents.append(
            PersonaDocument(persona, path, path.stat().st_mtime, by_path.get(str(path)))
        )
    return sorted(documents, key=lambda document: (-document.changed_at, document.path))


def select_prunable_documents(
    documents: list[PersonaDocument], *, days: int, keep: int
) -> list[PersonaDocument]:
    """Select the documents that may be deleted, oldest first; the newest come in first.

    A document stays if its handoff is not over, or its successor works, or it was written just
    now.
    """
    before = time.time() - max(days * DAY_SECONDS, RECENT_SECONDS)
    prunable = [
        document
        for document in documents[keep:]
        if document.changed_at <= before and not (document.record and document.record.is_needed)
    ]
    return prunable[::-1]


def _get_personas_folder() -> Path:
    from tasuki.config import settings

    root = settings.find_fleet_root(settings.load_settings(Path.cwd()), get_data_folder())
    return root / "data" / "personas"
