"""When the context of an agent is full enough to say so, and when a compaction is vetoed for that."""

from typing import Any

import sqlalchemy as sa

from tasuki.fleet import tables
from tasuki.fleet.states import MARGIN, Row

NOT_WORKED_ON = ("failed", "uncertain", "cancelled")


class Personas:
    """The personas of one batch of events, read when they are first asked for."""

    def __init__(self, connection: sa.Connection, threshold: float) -> None:
        self.connection = connection
        self.threshold = threshold
        self._read: dict[str, Any] = {}

    def of(self, agent: Row) -> Any | None:
        """The persona of an agent, None for an anonymous one."""
        slug = agent["persona"]
        if not slug:
            return None
        if slug not in self._read:
            query = sa.select(tables.personas).where(tables.personas.c.slug == slug)
            self._read[slug] = self.connection.execute(query).one_or_none()
        return self._read[slug]

    def limit(self, agent: Row) -> float:
        """Percent of the context at which an agent is over its threshold."""
        persona = self.of(agent)
        own = persona.threshold if persona is not None else None
        return self.threshold if own is None else float(own)

    def passed(self, agent: Row) -> str:
        """A sentence once the threshold is passed, empty else; remembers it in the row."""
        used = agent["context_used"]
        if used is None:
            return ""
        limit = self.limit(agent)
        if agent["over_threshold"]:
            agent["over_threshold"] = used > limit - MARGIN
            return ""
        if used < limit:
            return ""
        agent["over_threshold"] = True
        return f"Its context is {used:.0f} % full (threshold {limit:.0f} %)."

    def veto(self, agent: Row, at: float) -> str:
        """Why an automatic compaction must wait, empty where it may go on.

        Only with automatic handoffs, at or over the threshold, once for an agent, and not when its
        handoff failed.
        """
        persona = self.of(agent)
        if persona is None or not persona.automatic or persona.automation_stopped:
            return ""
        if agent["vetoed_at"] is not None or not agent["over_threshold"]:
            return ""
        handoffs = tables.handoffs
        query = sa.select(handoffs.c.state).where(handoffs.c.agent_id == agent["id"])
        if any(state in NOT_WORKED_ON for state in self.connection.execute(query).scalars()):
            return ""
        agent["vetoed_at"] = at
        return "tasuki hands this agent's work to a successor when its turn ends."
