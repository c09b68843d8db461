"""Automatic handoff at the threshold: off by default, only when idle, and with a loop guard."""

import time

import sqlalchemy as sa

from tasuki.fleet import alerts, log, tables
from tasuki.fleet.database import Database

FLOOR = 0.75
"""Share of the threshold above which a successor's use behind its first turn stops the automation."""
MOST, WITHIN = 2, 600.0
"""Automatic handoffs of a persona within so many seconds; the next one stops the automation."""


class Guard:
    """Decides whether an agent is handed off by itself; stops the automation of a persona in a loop."""

    def __init__(self, database: Database, threshold: float, host: str = "") -> None:
        self.database = database
        self.host = host
        self.threshold = threshold

    def wants(self, agent_id: int) -> tuple[bool, str]:
        """Whether this agent is to be handed off now; and why its automation stopped, if it did."""
        with self.database.read() as connection:
            row = connection.execute(_AUTOMATIC, {"agent": agent_id}).mappings().one_or_none()
            if row is None or row["automation_stopped"]:
                return False, ""
            limit = self.threshold if row["threshold"] is None else row["threshold"]
            why = self._loop(connection, row, limit)
            under_way = self._has_handoff(connection, agent_id)
        if why:
            self._stop(row["persona"], agent_id, why)
            return False, why
        ready = row["over_threshold"] and row["state"] == "idle" and not row["children"]
        return bool(ready and not under_way), ""

    def _loop(self, connection: sa.Connection, row: sa.RowMapping, limit: float) -> str:
        """Why going on would go in circles, as a sentence; empty where it does not."""
        if not row["over_threshold"]:
            return self._full_at_once(connection, row, limit)
        handoffs = tables.handoffs
        query = sa.select(sa.func.count()).where(
            handoffs.c.persona == row["persona"],
            handoffs.c.automatic,
            handoffs.c.created_at > time.time() - WITHIN,
            handoffs.c.agent_id != row["id"],
        )
        count = connection.execute(query).scalar_one()
        if count >= MOST:
            return (
                f"{count} automatic handoffs of {row['persona']} within {WITHIN / 60:.0f} minutes."
            )
        return self._full_at_once(connection, row, limit)

    def _full_at_once(self, connection: sa.Connection, row: sa.RowMapping, limit: float) -> str:
        handoffs, used = tables.handoffs, row["context_used"]
        if used is None or used < FLOOR * limit or row["state"] != "idle":
            return ""
        query = sa.select(handoffs.c.acknowledged_at, handoffs.c.automatic).where(
            handoffs.c.successor_id == row["id"]
        )
        came = connection.execute(query).one_or_none()
        if came is None or not came.automatic or _turns(connection, row["id"]) > 1:
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

    def _stop(self, slug: str, agent_id: int, why: str) -> None:
        with self.database.write() as connection:
            personas = tables.personas
            runs = (personas.c.slug == slug) & (personas.c.automation_stopped == "")
            query = sa.update(personas).where(runs).values(automation_stopped=why)
            if not connection.execute(query).rowcount:
                return
            text = f"Automatic handoffs of {slug} stopped: {why}"
            log.note(
                connection, "alarm", text, agent_id=agent_id, data={"code": "automation_stopped"}
            )
            alerts.raise_(
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
"""An agent that works and whose persona hands off by itself; asked at the end of every turn."""


def _turns(connection: sa.Connection, agent_id: int) -> int:
    events = tables.events
    query = sa.select(sa.func.count()).where(events.c.agent_id == agent_id, events.c.kind == "idle")
    return int(connection.execute(query).scalar_one())
