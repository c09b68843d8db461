"""Notices what no hook reports, an answered question or Escape, by the program's own signal."""

import time
from collections.abc import Iterable, Mapping
from typing import Any

import sqlalchemy as sa
from msgspec.structs import replace

from tasuki.errors import LaunchFailed
from tasuki.fleet.alerts import alerts
from tasuki.fleet.delivery.prompt_delivery import get_control
from tasuki.fleet.store import log, tables
from tasuki.fleet.store.database import FleetDatabase
from tasuki.fleet.store.log import ChangeFeed
from tasuki.fleet.store.models import AgentState, FleetAgent
from tasuki.harness.protocol import Screenshot
from tasuki.launch.tmux.panes import TmuxPanes

AGENT_STATES: Mapping[str, AgentState] = {"ready": "idle", "busy": "busy", "waiting": "waiting"}
COMPACTING_SECONDS = 120.0
"""Seconds after which a compacting agent is checked like a busy one: no hook reports Escape."""
REST_SECONDS = 5.0
"""Seconds between two checks of a busy agent's screen, and before the first one."""
STATE_SENTENCES: Mapping[AgentState, str] = {
    "idle": "Its turn was broken off, or its end was not told.",
    "busy": "It is at work again.",
    "waiting": "It waits for the user.",
}


class AgentSignals:
    """Compares the states of agents with what their programs show.

    Screens are read of agents that wait for the user, and now and then of those that have been
    busy for long and have no signal. A difference counts once it was seen in two checks: a hook
    may be on its way. Texts typed to an agent are not affected: each waits for its own end.
    """

    def __init__(self, database: FleetDatabase, panes: TmuxPanes, changes: ChangeFeed) -> None:
        self.database = database
        self.panes = panes
        self.changes = changes
        self._seen: dict[int, tuple[float, AgentState]] = {}
        self._looked_at: dict[int, float] = {}

    def check_agents(self, agents: Iterable[FleetAgent]) -> None:
        """Check all of these agents once."""
        before, self._seen = self._seen, {}
        for agent in agents:
            if not agent.session or not (
                agent.state in STATE_SENTENCES or _is_compacting_long(agent)
            ):
                continue
            seen, shown = before.get(agent.id), self._read_state(agent, Screenshot(""))
            is_working = agent.state in ("busy", "compacting")
            if agent.pane and (agent.state == "waiting" or (is_working and not shown)):
                if self._should_rest(agent):
                    self._seen.update({agent.id: seen} if seen else {})
                    continue
                shown = self._read_screen(agent)
            if shown and shown != agent.state and not (is_working and shown == "busy"):
                self._seen[agent.id] = (agent.state_at, shown)
                if self._seen[agent.id] == seen:
                    self._change_state(agent, shown)

    def _should_rest(self, agent: FleetAgent) -> bool:
        """Whether the screen of an agent is skipped this time."""
        now = time.monotonic()
        if agent.state != "waiting":
            fresh = time.time() - agent.state_at < REST_SECONDS
            if fresh or now - self._looked_at.get(agent.id, 0.0) < REST_SECONDS:
                return True
        self._looked_at[agent.id] = now
        return False

    def _change_state(self, agent: FleetAgent, state: AgentState) -> None:
        agents = tables.agents.c
        same = (agents.id == agent.id) & (agents.state == agent.state)
        same &= agents.state_at == agent.state_at
        query = sa.update(tables.agents).where(same)
        with self.database.write() as connection:
            values: dict[str, Any] = {"state": state, "state_at": time.time(), "waiting_for": ""}
            if state == "idle":
                values["turn_at"] = None
            if connection.execute(query.values(**values)).rowcount:
                log.note(
                    connection,
                    state,
                    STATE_SENTENCES[state],
                    agent_id=agent.id,
                    data={"seen": True},
                )
                if state == "waiting":
                    row = dict(
                        connection.execute(_FIND_OWNER, {"agent": agent.id}).mappings().one()
                    )
                    alerts.raise_agent_alert(
                        connection, "needs_you", row, values["state_at"], STATE_SENTENCES[state]
                    )
        self.changes.notify([agent.id])

    def _read_screen(self, agent: FleetAgent) -> AgentState | None:
        try:
            return self._read_state(agent, self.panes.capture_screen(agent.pane))
        except LaunchFailed:
            return None

    def _read_state(self, agent: FleetAgent, screenshot: Screenshot) -> AgentState | None:
        own_screenshot = replace(
            screenshot, pid=agent.process or agent.pid or 0, session=agent.session
        )
        return AGENT_STATES.get(get_control(agent).read_screen(own_screenshot).state)


_FIND_OWNER = sa.select(*(tables.agents.c[name] for name in ("id", "host", "persona"))).where(
    tables.agents.c.id == sa.bindparam("agent")
)


def _is_compacting_long(agent: FleetAgent) -> bool:
    return agent.state == "compacting" and time.time() - agent.state_at > COMPACTING_SECONDS
