"""What is known about one batch of events before it is taken in: on PostgreSQL by one query.

A round trip to a database far away costs more than everything else that an event needs.
"""

from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import sqlalchemy as sa
from msgspec import Struct

from tasuki.fleet.delivery.outbox import IS_OPEN
from tasuki.fleet.hooks.correlator import ReceivedEvent, hash_token
from tasuki.fleet.store import tables
from tasuki.fleet.store.states import Row


class BatchRows(Struct):
    """The rows that a batch of events may need."""

    seen: set[str]
    """Ids of its events that were taken in before."""
    agents: list[Row]
    """Agents that the events may belong to, the oldest first."""
    intents: list[dict[str, Any]] | None = None
    """Texts typed to these agents that have no end yet, newest first; None where nobody looked."""
    personas: dict[str, Any] | None = None
    """The personas of these agents by their slugs; None where nobody looked."""


def load_batch_rows(
    connection: sa.Connection, events: Sequence[ReceivedEvent], host: str
) -> BatchRows:
    """Load the rows of a batch.

    On SQLite a query costs less than its rows, so that typed texts and personas are read when they
    are needed.
    """
    wanted = {
        "ids": [event.post.event_id for event in events if event.post.event_id],
        "hashes": list({hash_token(event.post.token) for event in events} - {""}),
        "sessions": list({event.event.session for event in events} - {""}),
        "panes": list({event.post.pane for event in events} - {""}),
        "host": host,
    }
    if connection.dialect.name == "sqlite":
        seen = set(connection.execute(_FIND_SEEN, {"ids": wanted.pop("ids")}).scalars())
        return BatchRows(
            seen, [dict(row) for row in connection.execute(_FIND_AGENTS, wanted).mappings()]
        )
    rows: dict[str, list[Any]] = {kind: [] for kind in _FOUND}
    for kind, row in connection.execute(_FIND_ALL, wanted):
        rows[kind].append(row)
    return BatchRows(
        {row["event_id"] for row in rows["seen"]},
        sorted(rows["agent"], key=lambda row: row["id"]),
        sorted(rows["intent"], key=lambda row: row["created_at"], reverse=True),
        {row["slug"]: SimpleNamespace(**row) for row in rows["persona"]},
    )


def _match_any(column: sa.Column[Any], name: str) -> Any:
    return column.in_(sa.bindparam(name, expanding=True))


_AGENTS = tables.agents.c
_FIND_SEEN = sa.select(tables.events.c.event_id).where(_match_any(tables.events.c.event_id, "ids"))
_FIND_AGENTS = (
    sa.select(tables.agents)
    .where(
        _match_any(_AGENTS.token_hash, "hashes")
        | _match_any(_AGENTS.session, "sessions")
        | (_match_any(_AGENTS.pane, "panes") & (_AGENTS.session == "")),
        _AGENTS.host == sa.bindparam("host"),
    )
    .order_by(_AGENTS.id)
)
"""Agents that events may belong to. The statement is built once: that is slower than running it."""
_KNOWN = _FIND_AGENTS.order_by(None).cte("known")
_FOUND: dict[str, sa.CTE | sa.Subquery] = {
    "agent": _KNOWN,
    "seen": _FIND_SEEN.subquery("seen"),
    "intent": sa.select(tables.intents)
    .where(IS_OPEN, tables.intents.c.agent_id.in_(sa.select(_KNOWN.c.id)))
    .subquery("intent"),
    "persona": sa.select(tables.personas)
    .where(tables.personas.c.slug.in_(sa.select(_KNOWN.c.persona)))
    .subquery("persona"),
}


def _build_rows() -> Iterator[sa.Select[str, Any]]:
    for kind, found in _FOUND.items():
        yield sa.select(
            sa.literal_column(f"'{kind}'"), sa.func.row_to_json(found.table_valued())
        ).select_from(found)


_FIND_ALL = sa.union_all(*_build_rows())
"""PostgreSQL: every row as its kind and its columns. JSON keeps each of their values exactly."""
