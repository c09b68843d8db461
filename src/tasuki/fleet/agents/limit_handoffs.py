"""What becomes of agents at a usage limit by itself: handed off, or told to go on when it resets."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from tasuki.errors import TasukiError
from tasuki.fleet.alerts import raise_alert
from tasuki.fleet.automation import USAGE_LIMIT, AutomationGuard
from tasuki.fleet.orders.bodies import NewHandoff
from tasuki.fleet.store import log, tables
from tasuki.fleet.store.log import ChangeFeed
from tasuki.fleet.store.models import FleetHandoff

RESET_SECONDS = 20.0
"""How long after a reset an agent is told to go on: clocks differ."""
DAY_SECONDS = 86400.0


@dataclass(eq=False)
class LimitHandoffs:
    """Begins the handoffs that `on_limit` of a persona asks for; one that cannot begin is an alarm."""

    guard: AutomationGuard
    changes: ChangeFeed
    hand_off: Callable[[int, NewHandoff], FleetHandoff]

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
                try:
                    self.hand_off(agent_id, NewHandoff(USAGE_LIMIT, source="thread", to=harness))
                except TasukiError as error:
                    why = f"Agent {agent_id} is not handed off to {harness}: {error}"
                    code = {"code": "on_limit_refused"}
                    with self.guard.database.write() as connection:
                        log.note(connection, "alarm", why, agent_id=agent_id, data=code)
            if why:
                self.changes.notify([agent_id])


@dataclass(eq=False)
class LimitResumer:
    """Tells agents of this host whose limit has reset to go on, each `most` times a day; 0 for never.

    `resume` takes an agent's id and the key of the text, by which nothing is typed twice.
    """

    guard: AutomationGuard
    most: int
    resume: Callable[[int, str], dict[str, Any]]

    def resume_all(self) -> None:
        """Resume those that are due; one that takes no text is an alert, and is left alone."""
        if not self.most:
            return
        agents = tables.agents.c
        query = sa.select(agents.id, agents.limited_until).where(
            agents.state == "limited", agents.ended_at.is_(None), agents.host == self.guard.host,
            agents.limited_until < time.time() - RESET_SECONDS,
            agents.ordered_at.is_not(None) | agents.adopted,
        )  # fmt: skip
        with self.guard.database.read() as connection:
            due = [
                row for row in connection.execute(query).all() if self._may_resume(connection, *row)
            ]
        for agent_id, until in due:
            self._resume_agent(agent_id, until)

    def _may_resume(self, connection: sa.Connection, agent_id: int, until: float) -> bool:
        """Whether an agent was not told so for this reset, and not too often today."""
        events = tables.events.c
        query = sa.select(events.data, events.at).where(
            events.agent_id == agent_id, events.kind == "resumed"
        )
        told = connection.execute(query).all()
        today = [row for row in told if row.at > time.time() - DAY_SECONDS]
        return until not in [row.data["reset"] for row in told] and len(today) < self.most

    def _resume_agent(self, agent_id: int, until: float) -> None:
        try:
            outcome = self.resume(agent_id, f"reset-{until}")
        except TasukiError as error:
            outcome = {"state": "refused", "why": str(error)}
        text = (
            f"Its usage limit has reset, so agent {agent_id} was told to go on: {outcome['state']}."
        )
        if outcome["state"] == "refused":
            text = f"Its usage limit has reset, and agent {agent_id} was not told to go on: {outcome['why']}"
        with self.guard.database.write() as connection:
            log.note(connection, "resumed", text, agent_id=agent_id, data={"reset": until})
            if outcome["state"] == "refused":
                raise_alert(
                    connection, "needs_you", f"reset/{agent_id}/{until}",
                    f"Agent {agent_id} does not go on by itself", text,
                    host=self.guard.host, agent_id=agent_id,
                )  # fmt: skip
