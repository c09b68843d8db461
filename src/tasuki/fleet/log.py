"""The fleet's log: one ordered list of everything that happened, which live events are read from."""

import time
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from tasuki.draft.redact import Redactor
from tasuki.fleet import tables

_INSERT = sa.insert(tables.events)
KEPT_SECONDS = 30 * 86400.0
PRUNED = 1000
"""Lines that are taken out of the log in one transaction."""
EXCERPT = 300
"""Characters of a prompt or an answer that the log keeps."""


def note(
    connection: sa.Connection,
    kind: str,
    text: str,
    *,
    agent_id: int | None = None,
    handoff_id: str | None = None,
    data: dict[str, Any] | None = None,
) -> None:
    """Write one line of tasuki's own into the log, in the caller's transaction.

    Secrets in it are replaced: every reader of the log is told it. Takes some 25 µs for a sentence.
    """
    redactor, now = Redactor(), time.time()
    told: dict[str, Any] = redactor.redact_data({"text": text, "data": data or {}})
    write(
        connection,
        [{
            "event_id": None, "at": now, "received_at": now, "kind": kind, "agent_id": agent_id,
            "handoff_id": handoff_id, **told,
        }],
    )  # fmt: skip


def write(connection: sa.Connection, rows: Sequence[dict[str, Any]]) -> None:
    """Write lines of the log; each has every column but the id."""
    if rows:
        connection.execute(_INSERT, list(rows))


def prune(connection: sa.Connection) -> int:
    """Take lines older than `KEPT_SECONDS` out of the log, `PRUNED` at the most; how many.

    Handoffs stay. Only the oldest lines are looked at: nobody is held up for long.
    """
    events = tables.events.c
    oldest = sa.select(events.id, events.received_at).order_by(events.id).limit(PRUNED).subquery()
    old = sa.select(oldest.c.id).where(oldest.c.received_at < time.time() - KEPT_SECONDS)
    return connection.execute(sa.delete(tables.events).where(events.id.in_(old))).rowcount
