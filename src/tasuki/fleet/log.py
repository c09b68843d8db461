"""The fleet's log: one ordered list of everything that happened, which live events are read from."""

import time
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from tasuki.fleet import tables
from tasuki.fleet.database import LOG_LOCK

_INSERT = sa.insert(tables.events)
_LOCK = sa.select(sa.func.pg_advisory_xact_lock(LOG_LOCK))
KEPT_SECONDS = 30 * 86400.0
EXCERPT = 300
"""Characters of a prompt or an answer that the log keeps."""


def in_order(connection: sa.Connection) -> None:
    """From here to the commit nobody else writes the log: ids follow the order of commits.

    SQLite has one writer anyway.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(_LOCK)


def note(
    connection: sa.Connection,
    kind: str,
    text: str,
    *,
    agent_id: int | None = None,
    handoff_id: str | None = None,
    data: dict[str, Any] | None = None,
) -> None:
    """Write one line of tasuki's own into the log, in the caller's transaction."""
    now = time.time()
    write(
        connection,
        [{
            "event_id": None, "at": now, "received_at": now, "kind": kind, "agent_id": agent_id,
            "handoff_id": handoff_id, "text": text, "data": data or {},
        }],
    )  # fmt: skip


def write(connection: sa.Connection, rows: Sequence[dict[str, Any]]) -> None:
    """Write lines of the log; each has every column but the id."""
    if rows:
        in_order(connection)
        connection.execute(_INSERT, list(rows))


def prune(connection: sa.Connection) -> int:
    """Take lines out of the log that are older than `KEPT_SECONDS`; how many. Handoffs stay."""
    events = tables.events
    old = events.c.received_at < time.time() - KEPT_SECONDS
    return connection.execute(sa.delete(events).where(old)).rowcount
