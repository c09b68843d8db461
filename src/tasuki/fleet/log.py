"""The fleet's log: one ordered list of everything that happened, which live events are read from."""

import time
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from tasuki.draft.redact import Redactor
from tasuki.fleet import tables

_INSERT = sa.insert(tables.events)
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
