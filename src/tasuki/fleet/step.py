"""What the steps of a handoff share: waiting, typing, and writing down.

Every step looks at what is there already, then acts; each takes a handoff and raises StepFailed.
"""

import time
from collections.abc import Callable
from typing import TypeVar

import sqlalchemy as sa

from tasuki.config import Loaded
from tasuki.errors import PaneGone
from tasuki.fleet import documents, intents, reading, tables
from tasuki.fleet.bridge import Bridge
from tasuki.fleet.ending import Ending
from tasuki.fleet.failures import Closing, StepFailed, Stopped
from tasuki.fleet.intents import Intent
from tasuki.fleet.lifecycle import Lifecycle
from tasuki.fleet.limits import Limits
from tasuki.fleet.rows import Agent, FleetHandoff

T = TypeVar("T")
READY_POLL = 1.0
"""Seconds after which is looked again, where nothing tells of a change."""


class Step:
    """What every step needs."""

    def __init__(
        self,
        lifecycle: Lifecycle,
        bridge: Bridge,
        ending: Ending,
        limits: Limits,
        load_settings: Callable[[], Loaded],
        *,
        unheard: Callable[[], bool] = lambda: False,
    ) -> None:
        self.database = lifecycle.database
        self.changes = bridge.changes
        self.lifecycle = lifecycle
        self.bridge = bridge
        self.ending = ending
        self.limits = limits
        self.load_settings = load_settings
        """Gives the settings as they are now: a retry works with what was mended."""
        self.unheard = unheard
        """Whether events of hooks wait to be taken in: what is known of agents is old then."""

    def _until(
        self, of: FleetHandoff, agents: list[int], found: Callable[[], T], seconds: float
    ) -> T | None:
        """What `found` gives once it is something; None after `seconds`.

        Raises Stopped once the handoff is cancelled, Closing once the server ends.
        """
        deadline = time.monotonic() + seconds
        with self.changes.of(agents) as news:
            while True:
                if not self._is_under_way(of):
                    raise Stopped("The handoff is not under way any more.")
                if self.changes.closing.is_set():
                    raise Closing
                if value := found():
                    return value
                if (left := deadline - time.monotonic()) <= 0:
                    return None
                news.wait(min(left, READY_POLL))
                news.clear()

    def _is_under_way(self, of: FleetHandoff) -> bool:
        """Whether this attempt is still wanted: nobody cancelled it, or began another one."""
        return reading.is_under_way(self.database, of.id, of.attempt)

    def _typed(self, of: FleetHandoff, agent: Agent, kind: str, text: str, seconds: float) -> str:
        """Type a text into a pane, once in an attempt."""
        id = f"{of.id}-{kind}-{of.attempt}"
        with self.database.write(synced=False) as connection:
            intent = intents.intend(
                connection, id, agent=agent, kind=kind, handoff_id=of.id,
                proof=_proof(of, kind),
            )  # fmt: skip
        if intent.state == "uncertain":
            raise StepFailed(f"{kind}_uncertain", "It is not known whether it arrived.")
        try:
            sent = self.bridge.deliver(
                agent, intent, text, seconds, wanted=lambda: self._is_under_way(of)
            )
        except PaneGone as error:
            raise self._lost(of, agent, str(error)) from error
        if sent.leftover:
            kept = f"What stood unsent in the input of agent {agent.id}: {sent.leftover}"
            self._set(of, notes=[*of.notes, kept])
        if sent.state == "refused":
            raise StepFailed(
                f"{kind}_refused", f"Nothing was typed to agent {agent.id}: {sent.why}."
            )
        if sent.state == "uncertain":
            raise StepFailed(
                f"{kind}_uncertain",
                f"It was typed into pane {agent.pane} of agent {agent.id}, and nothing shows that it "
                "was taken, nor that it was not.",
            )
        return ""

    def _lost(self, of: FleetHandoff, agent: Agent, why: str) -> StepFailed:
        code = "agent_gone" if agent.id == of.agent_id else "successor_died"
        self.lifecycle.gone(agent.id, "lost", why)
        return StepFailed(code, f"Agent {agent.id} is gone: {why}")

    def _agent(self, id: int) -> Agent:
        return reading.agent(self.database, id)

    def _intent(self, of: FleetHandoff, kind: str) -> Intent | None:
        with self.database.read() as connection:
            return intents.get(connection, f"{of.id}-{kind}-{of.attempt}")

    def _set(self, of: FleetHandoff, **values: object) -> None:
        with self.database.write(synced=False) as connection:
            connection.execute(
                sa.update(tables.handoffs).where(tables.handoffs.c.id == of.id).values(**values)
            )


def _proof(of: FleetHandoff, kind: str) -> str:
    """Words that only this text has: of the instruction, in this attempt."""
    if kind == "skill":
        return f"You are {of.persona}."
    return documents.reference(of) if kind == "instruction" else of.id
