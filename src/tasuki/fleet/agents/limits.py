"""Agents whose last turn failed: what the operator is told, and what becomes of their work.

At a usage limit it is handed off, or the agent is told to go on when that resets.
"""

import shutil
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from tasuki.errors import HarnessMissing, NotPossible, TasukiError
from tasuki.fleet.agents.lifecycle import check_hooks
from tasuki.fleet.alerts import raise_alert
from tasuki.fleet.automation import USAGE_LIMIT, AutomationGuard
from tasuki.fleet.orders.bodies import NewHandoff
from tasuki.fleet.store import log, tables
from tasuki.fleet.store.log import ChangeFeed
from tasuki.fleet.store.models import FleetAgent, FleetHandoff
from tasuki.harness import registry as harnesses
from tasuki.harness.reading.usage_limits import describe_reset
from tasuki.model import TurnFailure

GO_ON = "Go on."
"""What is typed to an agent whose limit has reset."""


def build_failure_alert(before: TurnFailure | None, failure: TurnFailure) -> tuple[str, str] | None:
    """Build the alert of an error, its kind as `raise_agent_alert` takes it, and its text.

    None where the turn `before` failed for the same kind of reason: that was told.
    """
    if before is not None and before.kind == failure.kind:
        return None
    until = describe_reset(failure.resets_at)
    text = f"{failure.text.rstrip('.')}.{f' It resets at {until}.' if until else ''}"
    return "limited" if failure.kind == "limit" else "turn_failed", text


def can_answer(agent: FleetAgent) -> bool:
    """Whether an agent could write now, as far as the error of its last turn tells."""
    is_over = agent.failure is not None and agent.failure.kind != "other"
    return not (agent.state == "limited" or (agent.state == "failed" and is_over))


def check_target(data: Path, name: str) -> None:
    """Check that agents of a harness can be started in this fleet.

    Raises UsageError for an unknown one, NotPossible without control or hooks, HarnessMissing
    where its program is not found.
    """
    harness = harnesses.get_harness(name)
    harnesses.require_control(name)
    if shutil.which(harness.program) is None:
        raise HarnessMissing(
            f"{harness.title} cannot take over: its program `{harness.program}` is not on the PATH of the server. "
            "Install it, or name another harness: --to"
        )
    check_hooks(data, name)


def check_resumable(agent: FleetAgent, *, force: bool) -> None:
    """Raise NotPossible for an agent that is at no limit, or whose limit has not reset."""
    if force or (agent.state == "failed" and can_answer(agent)):
        return
    if agent.state != "limited":
        state = "unable to go on" if agent.state == "failed" else agent.state
        advice = f"Send it a text: tasuki agent send {agent.id} TEXT"
        if agent.state == "failed":
            advice = f"Hand it off: tasuki agent handoff {agent.id}"
        raise NotPossible(f"Agent {agent.id} is {state}, not at a usage limit. {advice}")
    if agent.limited_until is None:
        raise NotPossible(
            f"When the limit of agent {agent.id} resets is not known. Try it anyway: --force"
        )
    if agent.limited_until > time.time():
        raise NotPossible(
            f"The limit of agent {agent.id} resets at {describe_reset(agent.limited_until)}. Wait for "
            f"that, or try it anyway: --force. Another harness can go on: tasuki agent handoff {agent.id} --to HARNESS"
        )


RESET_SECONDS = 20.0
"""How long after a reset an agent is told to go on: clocks differ."""
DAY_SECONDS = 86400.0


@dataclass(eq=False, repr=False)
class LimitHandoffs:
    """Begins the handoffs that `on_limit` of a persona asks for; one that cannot begin is an alarm."""

    guard: AutomationGuard
    changes: ChangeFeed
    hand_off: Callable[[int, NewHandoff], FleetHandoff]

    def begin_all(self) -> None:
        """Begin those of every limited agent of this host: a server may have ended before it did."""
        agents = tables.agents.c
        is_here = agents.ended_at.is_(None) & (agents.host == self.guard.host)
        query = sa.select(agents.id).where(agents.state == "limited", is_here)
        self.begin(self.guard.database.fetch(query).scalars().all())

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
                    log.note(self.guard.database, "alarm", why, agent_id=agent_id, data=code)
            if why:
                self.changes.notify([agent_id])


@dataclass(eq=False, repr=False)
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
            rows = connection.execute(query).all()
            due = [row for row in rows if self._may_resume(connection, *row)]
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
