"""Decides when the context of an agent is full enough to report, and when to veto a compaction."""

from typing import Any

import sqlalchemy as sa

from tasuki.fleet.store import tables
from tasuki.fleet.store.states import MARGIN_PERCENT, Row

FAILED_STATES = ("failed", "uncertain", "cancelled")


class PersonaThresholds:
    """The personas of one batch of events, each read on first use."""

    def __init__(self, connection: sa.Connection, threshold: float) -> None:
        self.connection = connection
        self.threshold = threshold
        self._loaded: dict[str, Any] = {}

    def get_persona(self, agent: Row) -> Any | None:
        """Return the persona of an agent, None for an anonymous one."""
        slug = agent["persona"]
        if not slug:
            return None
        if slug not in self._loaded:
            query = sa.select(tables.personas).where(tables.personas.c.slug == slug)
            self._loaded[slug] = self.connection.execute(query).one_or_none()
        return self._loaded[slug]

    def get_limit(self, agent: Row) -> float:
        """Return the percent of the context at which an agent is over its threshold."""
        persona = self.get_persona(agent)
        own = persona.threshold if persona is not None else None
        return self.threshold if own is None else float(own)

    def detect_crossing(self, agent: Row) -> str:
        """Return a sentence once the threshold is crossed, else empty; remember it in the row."""
        used = agent["context_used"]
        if used is None:
            return ""
        limit = self.get_limit(agent)
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
        handoffs = tables.handoffs
        query = sa.select(handoffs.c.state).where(handoffs.c.agent_id == agent["id"])
        if any(state in FAILED_STATES for state in self.connection.execute(query).scalars()):
            return ""
        agent["vetoed_at"] = happened_at
        return "tasuki hands this agent's work to a successor when its turn ends."
