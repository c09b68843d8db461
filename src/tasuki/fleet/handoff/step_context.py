"""What the steps of a handoff share: the parts of the fleet, waiting, typing, and recording.

A step is a function that takes this context and a handoff, and returns a note. It first
checks what is there already, then acts; it raises StepFailed.
"""

import time
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import TypeVar

from tasuki.config.settings import LoadedSettings
from tasuki.errors import PaneGone
from tasuki.fleet import prompts
from tasuki.fleet.agents.agent_ends import AgentShutdown
from tasuki.fleet.agents.lifecycle import AgentLifecycle
from tasuki.fleet.delivery import outbox
from tasuki.fleet.delivery.prompt_delivery import PromptDelivery
from tasuki.fleet.exchange.gate import HostGate
from tasuki.fleet.handoff.workflow import StepLimits
from tasuki.fleet.store import queries, tables
from tasuki.fleet.store.database import update_row
from tasuki.fleet.store.failures import HandoffStopped, ServerClosing, StepFailed
from tasuki.fleet.store.models import FleetAgent, FleetHandoff, TypingIntent

T = TypeVar("T")
READY_POLL_SECONDS = 1.0
"""Seconds between two checks of a change that nothing reports."""
WRITTEN_SECONDS = 5.0
"""How long a harness may take to write down an answer after its turn has ended."""


@dataclass(eq=False, repr=False)
class StepContext:
    """What every step needs."""

    lifecycle: AgentLifecycle
    delivery: PromptDelivery
    shutdown: AgentShutdown
    limits: StepLimits
    gate: HostGate
    load_settings: Callable[[], LoadedSettings]
    """Loads the current settings: a retry works with what was fixed."""
    _: KW_ONLY
    has_waiting_events: Callable[[], bool] = lambda: False
    """Whether events of hooks wait to be taken in: what is known of agents is then outdated."""

    def __post_init__(self) -> None:
        self.database = self.lifecycle.database
        self.changes = self.delivery.changes

    def wait_for(
        self, handoff: FleetHandoff, agents: list[int], condition: Callable[[], T], seconds: float
    ) -> T | None:
        """Wait until `condition` returns a value; return it, or None after `seconds`.

        Raises HandoffStopped once the handoff is cancelled, ServerClosing once the server ends.
        """
        deadline = time.monotonic() + seconds
        with self.changes.subscribe(agents) as news:
            while True:
                if not self.is_under_way(handoff):
                    raise HandoffStopped("The handoff is no longer under way.")
                if self.changes.closing.is_set():
                    raise ServerClosing
                if value := condition():
                    return value
                if (left := deadline - time.monotonic()) <= 0:
                    return None
                news.wait(min(left, READY_POLL_SECONDS))
                news.clear()

    def is_under_way(self, handoff: FleetHandoff) -> bool:
        """Whether this attempt is still wanted: not cancelled, and no newer attempt."""
        return queries.is_under_way(self.database, handoff.id, handoff.attempt)

    def type_prompt(
        self, handoff: FleetHandoff, agent: FleetAgent, kind: str, text: str, seconds: float
    ) -> str:
        """Type a text into a pane, once in an attempt."""
        intent_id = f"{handoff.id}-{kind}-{handoff.attempt}"
        with self.database.write(synced=False) as connection:
            intent = outbox.record_intent(
                connection, intent_id, agent=agent, kind=kind, handoff_id=handoff.id,
                proof=_build_proof(handoff, kind),
            )  # fmt: skip
        if intent.state == "uncertain":
            raise StepFailed(f"{kind}_uncertain", "It is not known whether it arrived.")
        try:
            result = self.delivery.deliver_text(
                agent, intent, text, seconds, is_wanted=lambda: self.is_under_way(handoff)
            )
        except PaneGone as error:
            code = "agent_gone" if agent.id == handoff.agent_id else "successor_died"
            self.lifecycle.note_end(agent.id, "lost", str(error))
            raise StepFailed(code, f"Agent {agent.id} is gone: {error}") from error
        if result.leftover:
            note = f"Unsent text in the input of agent {agent.id}: {result.leftover}"
            self.update_handoff(handoff, notes=[*handoff.notes, note])
        if result.state == "refused":
            raise StepFailed(
                f"{kind}_refused", f"Nothing was typed to agent {agent.id}: {result.why}."
            )
        if result.state == "uncertain":
            raise StepFailed(
                f"{kind}_uncertain",
                f"It was typed into pane {agent.pane} of agent {agent.id}, and nothing shows that it "
                "was taken, nor that it was not.",
            )
        return ""

    def load_agent(self, agent_id: int) -> FleetAgent:
        return queries.load_agent(self.database, agent_id)

    def find_intent(self, handoff: FleetHandoff, kind: str) -> TypingIntent | None:
        return outbox.load_intent(self.database, f"{handoff.id}-{kind}-{handoff.attempt}")

    def update_handoff(self, handoff: FleetHandoff, **values: object) -> None:
        with self.database.write(synced=False) as connection:
            update_row(connection, tables.handoffs, handoff.id, **values)


def _build_proof(handoff: FleetHandoff, kind: str) -> str:
    """Return words that only this text has; for the instruction, only in this attempt."""
    if kind == "skill":
        return f"You are {handoff.persona}."
    return prompts.build_reference(handoff) if kind == "instruction" else handoff.id
