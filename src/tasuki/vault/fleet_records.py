"""Handoffs of a fleet's agents, read from its database without its server.

Only the SQLite file is read here, with the standard library alone; where the fleet has
another database, its server is asked (`cli/fleet/handoffs.py`).
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from msgspec import Struct

from tasuki.draft.redact.redactor import Redactor
from tasuki.errors import StoreFailed

UNFINISHED = ("running", "failed", "uncertain")
HUNG_UP = "other"
"""Why a session of Claude Code ends when its terminal is gone."""
SECONDS = 5.0
"""How long to wait for a database that is being written to."""


class FleetRecord(Struct, frozen=True):
    """A handoff from one agent to another. Times are seconds since 1970, UTC."""

    id: str
    persona: str
    agent_id: int
    session: str
    """The thread of the agent that was handed off."""
    created_at: float
    state: str
    reason: str = ""
    goal: str = ""
    document: str = ""
    """Whole path of its document; empty for none."""
    successor_id: int | None = None
    successor_session: str = ""
    is_needed: bool = False
    """Whether its document, and the vault's copy of it, may still be needed."""

    @property
    def created(self) -> str:
        """When it began: UTC, ISO 8601 to the second."""
        return datetime.fromtimestamp(self.created_at, UTC).isoformat(timespec="seconds")

    @property
    def summary(self) -> str:
        """Its purpose, in a few words."""
        return Redactor().redact_line(self.goal or self.reason, 60)


def read_fleet_file(path: Path) -> list[FleetRecord]:
    """Read the handoffs in the fleet's SQLite file, the oldest first.

    The list is empty where there is no file, or no table yet. Raises StoreFailed where it
    cannot be read.
    """
    if not path.is_file() or not path.stat().st_size:
        return []
    import sqlite3  # It takes 3 ms, which most calls do not need.

    try:
        connection = sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True, timeout=SECONDS)
        try:
            connection.row_factory = sqlite3.Row
            names = {row[0] for row in connection.execute("SELECT name FROM sqlite_master")}
            if not {"handoffs", "agents"} <= names:
                return []
            agents = [dict(row) for row in connection.execute("SELECT * FROM agents")]
            handoffs = [dict(row) for row in connection.execute("SELECT * FROM handoffs")]
        finally:
            connection.close()
    except sqlite3.Error as error:
        raise StoreFailed(f"The fleet's database {path} cannot be read: {error}.") from error
    return build_fleet_records(handoffs, agents)


def build_fleet_records(
    handoffs: Iterable[Mapping[str, Any]], agents: Iterable[Mapping[str, Any]]
) -> list[FleetRecord]:
    """Build records from rows of the fleet, the oldest first. Agents without a row are unknown."""
    handoffs = list(handoffs)
    by_id = {agent["id"]: agent for agent in agents}
    leaving = [row for row in handoffs if not row.get("fork")]
    succeeded = {row["agent_id"] for row in leaving if row["state"] == "done"}
    unfinished = {row["agent_id"] for row in leaving if row["state"] in UNFINISHED}
    no_agent: Mapping[str, Any] = {"session": "", "ended_at": 0.0, "state": "", "end_reason": ""}
    records = []
    for row in handoffs:
        successor = by_id.get(row["successor_id"], no_agent)
        # Without an order: `fleet.lost_agents` checks more.
        was_lost = successor["state"] == "lost" or successor["end_reason"] == HUNG_UP
        # The successor's work was not carried on: it was lost, or its own handoff is not over.
        waits = row["successor_id"] not in succeeded and (
            row["successor_id"] in unfinished or was_lost
        )
        records.append(
            FleetRecord(
                id=row["id"],
                persona=row["persona"],
                agent_id=row["agent_id"],
                session=by_id.get(row["agent_id"], no_agent)["session"],
                created_at=row["created_at"],
                state=row["state"],
                reason=row["reason"],
                goal=row.get("goal") or "",
                document=row["file_path"],
                successor_id=row["successor_id"],
                successor_session=successor["session"],
                is_needed=row["state"] in UNFINISHED or successor["ended_at"] is None or waits,
            )
        )
    return sorted(records, key=lambda record: (record.created_at, record.id))
