"""When the context of an agent is full: the report, the automatic handoff, the veto of a compaction.

Automatic handoff at the threshold is off by default, happens only when idle, and has a loop
guard, which raises an alert.
"""

import time
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import sqlalchemy as sa

from tasuki.fleet.alerts import raise_alarm
from tasuki.fleet.store import tables
from tasuki.fleet.store.database import FleetDatabase
from tasuki.fleet.store.states import MARGIN_PERCENT, Row

REFILL_SHARE = 0.75
"""Share of the threshold; a successor that uses more after its first turn stops the automation."""
MOST_HANDOFFS, WITHIN_SECONDS = 2, 600.0
"""Automatic handoffs of a persona within this many seconds; the next one stops the automation."""
USAGE_LIMIT = "usage_limit"
"""The reason of a handoff that a usage limit began."""
FAILED_STATES = ("failed", "uncertain", "cancelled")


class PersonaThresholds:
    """The personas of one batch of events; each that is not in `known` is read on first use."""

    def __init__(
        self,
        connection: sa.Connection,
        threshold: float,
        known: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        self.connection = connection
        self.threshold = threshold
        self._loaded: dict[str, Any] = dict(known)

    def get_persona(self, agent: Row) -> Any | None:
        """Return the persona of an agent, None for an anonymous one."""
        slug = agent["persona"]
        if not slug:
            return None
        if slug not in self._loaded:
            query = sa.select(tables.personas).where(tables.personas.c.slug == slug)
            self._loaded[slug] = self.connection.execute(query).one_or_none()
        return self._loaded[slug]

    def detect_crossing(self, agent: Row) -> str:
        """Return a sentence once the threshold is crossed, else empty; remember it in the row."""
        used = agent["context_used"]
        if used is None:
            return ""
        persona = self.get_persona(agent)
        own = persona.threshold if persona is not None else None
        limit = self.threshold if own is None else float(own)
        if agent["over_threshold"]:
            agent["over_threshold"] = used > limit - MARGIN_PERCENT
            return ""
        if used < limit:
            return ""
        agent["over_threshold"] = True
        return f"Its context is {used:.0f} % full (threshold {limit:.0f} %)."

    def decide_veto(self, agent: Row, happened_at: float) -> str:
        """Return why an automatic compaction must wait, empty where it may proceed.

        Only with automatic handoffs, at or over the threshold, once for an agent, and not when its
        handoff failed.
        """
        persona = self.get_persona(agent)
        if persona is None or not persona.automatic or persona.automation_stopped:
            return ""
        if agent["vetoed_at"] is not None or not agent["over_threshold"]:
            return ""
        handoffs = tables.handoffs.c
        query = sa.select(handoffs.state).where(handoffs.agent_id == agent["id"], ~handoffs.fork)
        if any(state in FAILED_STATES for state in self.connection.execute(query).scalars()):
            return ""
        agent["vetoed_at"] = happened_at
        return "tasuki hands this agent's work to a successor when its turn ends."


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
        if _is_full(row):
            ready = row["state"] == "failed"
        return bool(ready and not under_way), ""

    def decide_limit_handoff(self, agent_id: int) -> tuple[str, str]:
        """Return the harness to which an agent at a usage limit is handed off now, and why none is.

        Both are empty where its persona names none. An agent that came by such a handoff itself
        is not handed on: that stops the automation.
        """
        with self.database.read() as connection:
            row = connection.execute(_LIMITED, {"agent": agent_id}).mappings().one_or_none()
            if row is None or row["automation_stopped"] or self._has_handoff(connection, agent_id):
                return "", ""
            why = self._detect_limit_loop(connection, row)
        if why:
            self._stop_automation(row["persona"], agent_id, why)
            return "", why
        return row["on_limit"], ""

    def _detect_limit_loop(self, connection: sa.Connection, row: sa.RowMapping) -> str:
        handoffs = tables.handoffs.c
        query = sa.select(handoffs.id).where(
            handoffs.successor_id == row["id"], handoffs.automatic, handoffs.reason == USAGE_LIMIT
        )
        if connection.execute(query).first() is not None:
            return f"Agent {row['id']} took over at a usage limit, and is at one itself ({row['harness']})."
        if row["harness"] == row["on_limit"]:
            return f"Agent {row['id']} is at a usage limit of {row['harness']}, the harness of `on_limit`."
        return ""

    def _detect_loop(self, connection: sa.Connection, row: sa.RowMapping, limit: float) -> str:
        """Return why the automation would loop, as a sentence; empty where it would not."""
        if not (row["over_threshold"] or _is_full(row)):
            return self._detect_refill(connection, row, limit)
        handoffs = tables.handoffs.c
        is_recent = handoffs.automatic & (handoffs.created_at > time.time() - WITHIN_SECONDS)
        query = sa.select(sa.func.count()).where(
            is_recent, handoffs.persona == row["persona"], handoffs.agent_id != row["id"]
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
        if incoming is None or not incoming.automatic:
            return ""
        events = tables.events.c
        is_end = (events.agent_id == row["id"]) & (events.kind == "idle")
        turns = sa.select(sa.func.count()).where(is_end)
        if connection.execute(turns).scalar_one() > 1:
            return ""
        return (
            f"Agent {row['id']} took over automatically, and its context is {used:.0f} % full after "
            "its first turn."
        )

    def _has_handoff(self, connection: sa.Connection, agent_id: int) -> bool:
        handoffs = tables.handoffs
        query = sa.select(handoffs.c.id).where(
            handoffs.c.agent_id == agent_id, handoffs.c.state != "cancelled", ~handoffs.c.fork
        )
        return connection.execute(query).first() is not None

    def _stop_automation(self, slug: str, agent_id: int, why: str) -> None:
        with self.database.write() as connection:
            personas = tables.personas
            is_running = (personas.c.slug == slug) & (personas.c.automation_stopped == "")
            query = sa.update(personas).where(is_running).values(automation_stopped=why)
            if not connection.execute(query).rowcount:
                return
            raise_alarm(
                connection, "automation_stopped", f"{slug}/{time.time()}",
                f"Automatic handoffs of {slug} stopped", why, host=self.host, agent_id=agent_id,
            )  # fmt: skip


_LIVING = (
    sa.select(
        tables.agents, tables.personas.c.threshold, tables.personas.c.on_limit,
        tables.personas.c.automation_stopped,
    )
    .join(tables.personas, tables.agents.c.persona == tables.personas.c.slug)
    .where(tables.agents.c.id == sa.bindparam("agent"), tables.agents.c.ended_at.is_(None))
)  # fmt: skip
_AUTOMATIC = _LIVING.where(tables.personas.c.automatic)
"""A working agent whose persona hands off automatically; queried at the end of every turn."""
_LIMITED = _LIVING.where(tables.agents.c.state == "limited", tables.personas.c.on_limit != "")
"""An agent at a usage limit whose persona says where its work goes then."""


def _is_full(row: sa.RowMapping) -> bool:
    """Whether the last turn failed because the context is full."""
    return row["failure"] is not None and row["failure"]["kind"] == "context"
