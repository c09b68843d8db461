"""What no hook tells: a question that was answered, Escape. The program's own signal does, where it has one."""

import time
from collections.abc import Iterable, Mapping
from typing import Any

import sqlalchemy as sa
from msgspec.structs import replace

from tasuki.errors import LaunchFailed
from tasuki.fleet import alerts, log, tables
from tasuki.fleet.bridge import control_of
from tasuki.fleet.changes import Changes
from tasuki.fleet.database import Database
from tasuki.fleet.rows import Agent, AgentState
from tasuki.harness.control import Look
from tasuki.launch.panes import Panes

STATES: Mapping[str, AgentState] = {"ready": "idle", "busy": "busy", "waiting": "waiting"}
COMPACTS = 120.0
"""Seconds after which an agent that compacts is looked at like one at work: Escape is told by no hook."""
REST = 5.0
"""Seconds between two looks at the screen of an agent that is at work, and before the first one."""
SAID: Mapping[AgentState, str] = {
    "idle": "Its turn was broken off, or its end was not told.",
    "busy": "It is at work again.",
    "waiting": "It waits for the user.",
}


class Signals:
    """Compares the states of agents with what their programs show of themselves.

    Screens are looked at of those that wait for the user, and now and then of those that have been at
    work for long and have no signal. A difference counts once it was seen in two looks: a hook may be
    on its way. What was typed to an agent is not touched by it: that waits for its own end.
    """

    def __init__(self, database: Database, panes: Panes, changes: Changes) -> None:
        self.database = database
        self.panes = panes
        self.changes = changes
        self._seen: dict[int, tuple[float, AgentState]] = {}
        self._looked: dict[int, float] = {}

    def look(self, agents: Iterable[Agent]) -> None:
        """Look at all of these agents once."""
        before, self._seen = self._seen, {}
        for agent in agents:
            if not agent.session or not (agent.state in SAID or _compacts_for_long(agent)):
                continue
            seen, shown = before.get(agent.id), self._sight(agent, Look(""))
            works = agent.state in ("busy", "compacting")
            if agent.pane and (agent.state == "waiting" or (works and not shown)):
                if self._rests(agent):
                    self._seen.update({agent.id: seen} if seen else {})
                    continue
                shown = self._on_screen(agent)
            if shown and shown != agent.state and not (works and shown == "busy"):
                self._seen[agent.id] = (agent.state_at, shown)
                if self._seen[agent.id] == seen:
                    self._changed(agent, shown)

    def _rests(self, agent: Agent) -> bool:
        """Whether the screen of an agent is not looked at this time."""
        now = time.monotonic()
        if agent.state != "waiting":
            fresh = time.time() - agent.state_at < REST
            if fresh or now - self._looked.get(agent.id, 0.0) < REST:
                return True
        self._looked[agent.id] = now
        return False

    def _changed(self, agent: Agent, now: AgentState) -> None:
        agents = tables.agents.c
        same = (agents.id == agent.id) & (agents.state == agent.state)
        same &= agents.state_at == agent.state_at
        query = sa.update(tables.agents).where(same)
        with self.database.write() as connection:
            values: dict[str, Any] = {"state": now, "state_at": time.time(), "waiting_for": ""}
            if now == "idle":
                values["turn_at"] = None
            if connection.execute(query.values(**values)).rowcount:
                log.note(connection, now, SAID[now], agent_id=agent.id, data={"seen": True})
                if now == "waiting":
                    row = dict(connection.execute(_WHOSE, {"agent": agent.id}).mappings().one())
                    alerts.of_agent(connection, "needs_you", row, values["state_at"], SAID[now])
        self.changes.happened([agent.id])

    def _on_screen(self, agent: Agent) -> AgentState | None:
        try:
            return self._sight(agent, self.panes.look(agent.pane))
        except LaunchFailed:
            return None

    def _sight(self, agent: Agent, look: Look) -> AgentState | None:
        told = replace(look, pid=agent.process or agent.pid or 0, session=agent.session)
        return STATES.get(control_of(agent).sight(told).state)


_WHOSE = sa.select(*(tables.agents.c[name] for name in ("id", "host", "persona"))).where(
    tables.agents.c.id == sa.bindparam("agent")
)


def _compacts_for_long(agent: Agent) -> bool:
    return agent.state == "compacting" and time.time() - agent.state_at > COMPACTS
