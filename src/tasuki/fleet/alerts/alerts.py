"""Alerts for the operator: each event is written down once, then sent.

An alert becomes a row before anything is sent, in the same transaction as the event itself,
so a crash loses none. It is marked before it is sent, so a crash sends none twice.

Automatic handoff at the threshold is off by default, happens only when idle, and has a loop
guard, which raises an alert.
"""

import time
from collections.abc import Collection, Mapping
from typing import Any

import msgspec
import sqlalchemy as sa

from tasuki.draft.redact.redactor import Redactor
from tasuki.fleet.store import log, tables
from tasuki.fleet.store.database import FleetDatabase
from tasuki.fleet.store.models import OperatorAlert
from tasuki.text_safety import shorten_to_line

MOST_TEXT_CHARACTERS = 600
TOO_LATE_SECONDS = 3600.0
"""An alert that waited for this long is only listed: it is too old to wake anyone."""

REFILL_SHARE = 0.75
"""Share of the threshold; a successor that uses more after its first turn stops the automation."""
MOST_HANDOFFS, WITHIN_SECONDS = 2, 600.0
"""Automatic handoffs of a persona within so many seconds; the next one stops the automation."""

_TABLE = tables.alerts
_AGENT_TITLES = {
    "needs_you": "waits for you",
    "threshold": "is past its threshold",
    "failed": "is lost",
}


def raise_alert(
    connection: sa.Connection,
    kind: str,
    key: str,
    title: str,
    text: str,
    *,
    host: str,
    agent_id: int | None = None,
    handoff_id: str | None = None,
) -> None:
    """Write an alert in the caller's transaction, once for each `key`; secrets are replaced."""
    if connection.execute(_FIND_BY_KEY, {"wanted": key}).first() is not None:
        return
    redactor = Redactor()
    texts = {"title": shorten_to_line(redactor.redact(title), 200), "text": shorten_to_line(redactor.redact(text), MOST_TEXT_CHARACTERS)}  # fmt: skip
    values: dict[str, Any] = {
        "key": key, "at": time.time(), "kind": kind, "host": host, "agent_id": agent_id,
        "handoff_id": handoff_id, "state": "due", "problem": "", **texts,
    }  # fmt: skip
    id = int(connection.execute(_INSERT, values).scalar_one())
    log.note(
        connection, "alert", f"{texts['title']}: {texts['text']}", agent_id=agent_id,
        handoff_id=handoff_id, data={"alert": id, "kind": kind},
    )  # fmt: skip


def raise_agent_alert(
    connection: sa.Connection, kind: str, agent: Mapping[str, Any], happened_at: float, text: str
) -> None:
    """Raise an alert for an agent that waits, passed its threshold, or is lost.

    Only agents with a persona raise alerts. `agent` gives its `id`, `host` and `persona`; `at`
    is when it happened, and distinguishes two occasions.
    """
    if agent["persona"]:
        raise_alert(
            connection, kind, f"{kind}/{agent['id']}/{happened_at}", f"{agent['persona']} {_AGENT_TITLES[kind]}",
            text, host=agent["host"], agent_id=agent["id"],
        )  # fmt: skip


# -- the list --------------------------------------------------------------------------


def list_newest_alerts(
    database: FleetDatabase, limit: int, before: int | None = None
) -> list[OperatorAlert]:
    """List alerts, newest first; only those with an id smaller than `before` where it is given."""
    query = sa.select(_TABLE).order_by(_TABLE.c.id.desc()).limit(limit)
    if before is not None:
        query = query.where(_TABLE.c.id < before)
    return _read_alerts(database, query)


def load_alerts(database: FleetDatabase, ids: Collection[int]) -> list[OperatorAlert]:
    """Load alerts by their ids, oldest first."""
    if not ids:
        return []
    return _read_alerts(
        database, sa.select(_TABLE).where(_TABLE.c.id.in_(sorted(ids))).order_by(_TABLE.c.id)
    )


def count_unseen(database: FleetDatabase) -> int:
    """Count the alerts that the operator has not seen."""
    return find_unseen_and_newest(database)[0]


def find_unseen_and_newest(database: FleetDatabase) -> tuple[int, int]:
    """Return how many alerts the operator has not seen, and the id of the newest one.

    0 for none.
    """
    with database.read() as connection:
        unseen = connection.execute(_COUNT_UNSEEN).scalar_one()
        newest = connection.execute(sa.select(sa.func.max(_TABLE.c.id))).scalar_one()
    return int(unseen), int(newest or 0)


def mark_seen(database: FleetDatabase, up_to: int) -> None:
    """Mark the alerts up to an id as seen by the operator."""
    query = sa.update(_TABLE).where(_TABLE.c.id <= up_to, _TABLE.c.seen_at.is_(None))
    with database.write() as connection:
        connection.execute(query.values(seen_at=time.time()))


# -- sending ---------------------------------------------------------------------------


def begin_sending(
    database: FleetDatabase, host: str, kinds: Collection[str]
) -> OperatorAlert | None:
    """Return the oldest alert of a host that is due, marked as being sent; None where none is due.

    Alerts whose kind is not in `kinds` are settled without being sent, and so are those that
    are too late.
    """
    with database.read() as connection:
        if connection.execute(_FIND_DUE, {"here": host}).first() is None:
            return None
    with database.write() as connection:
        for row in connection.execute(_FIND_DUE, {"here": host}).mappings().all():
            alert = _parse_alert(row)
            if alert.kind not in kinds:
                _set_state(connection, alert.id, "quiet")
            elif alert.at < time.time() - TOO_LATE_SECONDS:
                _set_state(connection, alert.id, "not_sent", "It is too old: the server was away.")
            else:
                _set_state(connection, alert.id, "sending")
                return alert
    return None


def record_outcome(database: FleetDatabase, id: int, state: str, problem: str = "") -> None:
    """Record the outcome of an alert that was sent."""
    with database.write() as connection:
        _set_state(connection, id, state, problem)


def recover_unfinished(database: FleetDatabase, host: str) -> None:
    """Mark alerts that a killed server was sending as uncertain; none of them is sent again."""
    query = sa.update(_TABLE).where(_TABLE.c.state == "sending", _TABLE.c.host == host)
    problem = "The server ended while it was sent."
    with database.write() as connection:
        connection.execute(query.values(state="uncertain", problem=problem))


def _set_state(connection: sa.Connection, id: int, state: str, problem: str = "") -> None:
    values = {"state": state, "problem": shorten_to_line(problem, MOST_TEXT_CHARACTERS)}
    connection.execute(sa.update(_TABLE).where(_TABLE.c.id == id).values(**values))


def _parse_alert(row: sa.RowMapping) -> OperatorAlert:
    return msgspec.convert({str(name): value for name, value in row.items()}, OperatorAlert)


def _read_alerts(database: FleetDatabase, query: "sa.Select[Any]") -> list[OperatorAlert]:
    with database.read() as connection:
        return [_parse_alert(row) for row in connection.execute(query).mappings()]


_FIND_BY_KEY = sa.select(_TABLE.c.id).where(_TABLE.c.key == sa.bindparam("wanted"))
_INSERT = sa.insert(_TABLE).returning(_TABLE.c.id)
_COUNT_UNSEEN = sa.select(sa.func.count()).select_from(_TABLE).where(_TABLE.c.seen_at.is_(None))
_FIND_DUE = (
    sa.select(_TABLE)
    .where(_TABLE.c.state == "due", _TABLE.c.host == sa.bindparam("here"))
    .order_by(_TABLE.c.id)
    .limit(50)
)


# -- automatic handoffs ----------------------------------------------------------------


class AutomationGuard:
    """Decides whether an agent is handed off automatically, and stops a persona's loop."""

    def __init__(self, database: FleetDatabase, threshold: float, host: str = "") -> None:
        self.database = database
        self.host = host
        self.threshold = threshold

    def decide_handoff(self, agent_id: int) -> tuple[bool, str]:
        """Return whether this agent should be handed off now, and why its automation stopped."""
        with self.database.read() as connection:
            row = connection.execute(_AUTOMATIC, {"agent": agent_id}).mappings().one_or_none()
            if row is None or row["automation_stopped"]:
                return False, ""
            limit = self.threshold if row["threshold"] is None else row["threshold"]
            why = self._detect_loop(connection, row, limit)
            under_way = self._has_handoff(connection, agent_id)
        if why:
            self._stop_automation(row["persona"], agent_id, why)
            return False, why
        ready = row["over_threshold"] and row["state"] == "idle" and not row["children"]
        return bool(ready and not under_way), ""

    def _detect_loop(self, connection: sa.Connection, row: sa.RowMapping, limit: float) -> str:
        """Return why the automation would loop, as a sentence; empty where it would not."""
        if not row["over_threshold"]:
            return self._detect_refill(connection, row, limit)
        handoffs = tables.handoffs
        query = sa.select(sa.func.count()).where(
            handoffs.c.persona == row["persona"],
            handoffs.c.automatic,
            handoffs.c.created_at > time.time() - WITHIN_SECONDS,
            handoffs.c.agent_id != row["id"],
        )
        count = connection.execute(query).scalar_one()
        if count >= MOST_HANDOFFS:
            return f"{count} automatic handoffs of {row['persona']} within {WITHIN_SECONDS / 60:.0f} minutes."
        return self._detect_refill(connection, row, limit)

    def _detect_refill(self, connection: sa.Connection, row: sa.RowMapping, limit: float) -> str:
        """Return why a successor that is full after one turn stops it; empty where none is."""
        handoffs, used = tables.handoffs, row["context_used"]
        if used is None or used < REFILL_SHARE * limit or row["state"] != "idle":
            return ""
        query = sa.select(handoffs.c.acknowledged_at, handoffs.c.automatic).where(
            handoffs.c.successor_id == row["id"]
        )
        incoming = connection.execute(query).one_or_none()
        if incoming is None or not incoming.automatic or _count_turns(connection, row["id"]) > 1:
            return ""
        return (
            f"Agent {row['id']} took over automatically, and its context is {used:.0f} % full behind "
            "its first turn."
        )

    def _has_handoff(self, connection: sa.Connection, agent_id: int) -> bool:
        handoffs = tables.handoffs
        query = sa.select(handoffs.c.id).where(
            handoffs.c.agent_id == agent_id, handoffs.c.state != "cancelled"
        )
        return connection.execute(query).first() is not None

    def _stop_automation(self, slug: str, agent_id: int, why: str) -> None:
        with self.database.write() as connection:
            personas = tables.personas
            is_running = (personas.c.slug == slug) & (personas.c.automation_stopped == "")
            query = sa.update(personas).where(is_running).values(automation_stopped=why)
            if not connection.execute(query).rowcount:
                return
            text = f"Automatic handoffs of {slug} stopped: {why}"
            log.note(
                connection, "alarm", text, agent_id=agent_id, data={"code": "automation_stopped"}
            )
            raise_alert(
                connection, "needs_you", f"automation_stopped/{slug}/{time.time()}",
                f"Automatic handoffs of {slug} stopped", why, host=self.host, agent_id=agent_id,
            )  # fmt: skip


_AUTOMATIC = (
    sa.select(tables.agents, tables.personas.c.threshold, tables.personas.c.automation_stopped)
    .join(tables.personas, tables.agents.c.persona == tables.personas.c.slug)
    .where(
        tables.agents.c.id == sa.bindparam("agent"),
        tables.personas.c.automatic,
        tables.agents.c.ended_at.is_(None),
    )
)
"""A working agent whose persona hands off automatically; queried at the end of every turn."""


def _count_turns(connection: sa.Connection, agent_id: int) -> int:
    events = tables.events
    query = sa.select(sa.func.count()).where(events.c.agent_id == agent_id, events.c.kind == "idle")
    return int(connection.execute(query).scalar_one())
