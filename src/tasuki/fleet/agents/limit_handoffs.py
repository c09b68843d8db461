"""Hands agents at a usage limit off to the harness that their personas name."""

from collections.abc import Callable, Iterable

import sqlalchemy as sa

from tasuki.errors import TasukiError
from tasuki.fleet.automation import USAGE_LIMIT, AutomationGuard
from tasuki.fleet.handoff.commands import HandoffRequest
from tasuki.fleet.store import log, tables
from tasuki.fleet.store.log import ChangeFeed
from tasuki.fleet.store.models import FleetHandoff


class LimitHandoffs:
    """Begins the handoffs that `on_limit` of a persona asks for; one that cannot begin is an alarm."""

    def __init__(
        self,
        guard: AutomationGuard,
        changes: ChangeFeed,
        hand_off: Callable[[int, HandoffRequest], FleetHandoff],
    ) -> None:
        self.guard = guard
        self.changes = changes
        self.hand_off = hand_off

    def begin_all(self) -> None:
        """Begin those of every limited agent of this host: a server may have ended before it did."""
        agents = tables.agents.c
        query = sa.select(agents.id).where(
            agents.state == "limited", agents.ended_at.is_(None), agents.host == self.guard.host
        )
        with self.guard.database.read() as connection:
            ids = connection.execute(query).scalars().all()
        self.begin(ids)

    def begin(self, agent_ids: Iterable[int]) -> None:
        """Begin those of some agents, where they are wanted and not under way."""
        for agent_id in agent_ids:
            harness, why = self.guard.decide_limit_handoff(agent_id)
            if harness:
                why = self._try_handoff(agent_id, harness)
            if why:
                self.changes.notify([agent_id])

    def _try_handoff(self, agent_id: int, harness: str) -> str:
        """Begin one; return why that cannot be done."""
        request = HandoffRequest(USAGE_LIMIT, from_thread=True, automatic=True, harness=harness)
        try:
            self.hand_off(agent_id, request)
        except TasukiError as error:
            text = f"Agent {agent_id} is not handed off to {harness}: {error}"
            with self.guard.database.write() as connection:
                log.note(
                    connection, "alarm", text, agent_id=agent_id, data={"code": "on_limit_refused"}
                )
            return text
        return ""
