"""A handoff of an agent begins, is retried, cancelled, finished: what the operator orders.

409 `Handoff already in progress` while one is under way or recorded. One that failed before its
record may be begun anew by the same call, or retried; one that failed behind it is retried.
"""

import time
from typing import Any

import sqlalchemy as sa
from msgspec import Struct

from tasuki.errors import AlreadyUnderWay, NotPossible
from tasuki.fleet import log, reading, tables, workflow
from tasuki.fleet.database import Database
from tasuki.fleet.engine import Begun
from tasuki.fleet.rows import Agent, FleetHandoff
from tasuki.fleet.vacancies import UNFINISHED, check_vacant, worked_since
from tasuki.plain import plain

MOST_CHARACTERS = 4000
"""Of a reason, and of what the operator adds."""


class HandoffRequest(Struct, frozen=True):
    """What is asked for: why, what the successor should know and do, and from what."""

    reason: str
    context: str = ""
    goal: str = ""
    force: bool = False
    from_thread: bool = False
    automatic: bool = False

    def values(self) -> dict[str, Any]:
        """The columns that say so; PostgreSQL keeps no NUL."""
        return {
            "reason": plain(self.reason), "context": plain(self.context), "goal": plain(self.goal),
            "force": self.force, "from_thread": self.from_thread,
        }  # fmt: skip


def begin(
    database: Database,
    agent_id: int,
    request: HandoffRequest,
    *,
    host: str,
    queue: str,
    new_id: str,
) -> FleetHandoff:
    """Write a handoff down as under way. Raises AgentNotFound, NotPossible, AlreadyUnderWay."""
    wanted = request.values()
    with database.write() as connection:
        agent = reading.agent_in(connection, agent_id)
        if old := _standing(connection, agent_id):
            return _again(connection, old, agent, {**wanted, "queue": queue})
        _check(agent, from_thread=request.from_thread)
        _check_took_over(connection, agent)
        if agent.persona and agent.ended_at is not None:
            check_vacant(connection, agent.persona, succeeds=True)
        first = workflow.steps(from_thread=request.from_thread)[0]
        values: dict[str, Any] = {
            **wanted, "id": new_id, "agent_id": agent_id, "persona": agent.persona,
            "automatic": request.automatic, "state": "running", "step": first, "attempt": 1,
            "created_at": time.time(), "host": host, "queue": queue,
        }  # fmt: skip
        connection.execute(sa.insert(tables.handoffs).values(**values))
        text = (
            f"Handoff {new_id[:8]} of agent {agent_id} ({agent.persona}) begins: {wanted['reason']}"
        )
        _note(connection, text, agent_id, new_id, "initiated")
        return reading.handoff_in(connection, new_id)


def _check(agent: Agent, *, from_thread: bool) -> None:
    if agent.ended_at is not None and not from_thread:
        raise NotPossible("Agent is not active")
    if not agent.persona:
        raise NotPossible("Agent has no persona")
    if not agent.pane and not from_thread:
        raise NotPossible("Agent has no tmux pane")


def _standing(connection: sa.Connection, agent_id: int) -> FleetHandoff | None:
    found = reading.handoffs_in(connection, agent_id=agent_id)
    return next((of for of in found if of.state != "cancelled"), None)


def _check_took_over(connection: sa.Connection, agent: Agent) -> None:
    """Raises AlreadyUnderWay for a successor whose own handoff has not come to its prompt.

    It would write its document before it has read its predecessor's, and hand nothing on.
    """
    of = reading.handoff_to_in(connection, agent.id)
    if of is None or of.state not in UNFINISHED:
        return
    if of.state == "running":
        raise AlreadyUnderWay(
            f"Agent {agent.id} is the successor of handoff {of.id[:8]}, which is under way at {of.step}. "
            f"Wait until it is done, or end it: tasuki agent cancel {of.id[:8]}"
            + (f", tasuki agent skip {of.id[:8]}" if of.step == "acknowledge" else ""),
            handoff=of.id,
        )
    if of.step != "acknowledge":
        raise AlreadyUnderWay(
            f"Agent {agent.id} has not taken over: handoff {of.id[:8]} {of.state} at {of.step}. Carry it on "
            f"(tasuki agent retry {of.id[:8]}), call it done (tasuki agent finish {of.id[:8]}), or give it "
            f"up (tasuki agent cancel {of.id[:8]}).",
            handoff=of.id, retry=_retry_of(of),
        )  # fmt: skip


def _again(
    connection: sa.Connection, old: FleetHandoff, agent: Agent, wanted: dict[str, Any]
) -> FleetHandoff:
    """A handoff that failed before its record begins anew, as it is wanted now."""
    if old.state not in ("failed", "uncertain") or old.recorded_at is not None:
        raise AlreadyUnderWay("Handoff already in progress", handoff=old.id, retry=_retry_of(old))
    from_thread = bool(wanted["from_thread"])
    _check(agent, from_thread=from_thread)
    return _running(connection, old, workflow.steps(from_thread=from_thread)[0], **wanted)


def _retry_of(of: FleetHandoff) -> str:
    failed = of.state in ("failed", "uncertain")
    return f"POST /api/handoffs/{of.id}/retry" if failed else ""


def retry(database: Database, id: str, queue: str = "") -> FleetHandoff:
    """Carry a failed handoff on from where that makes sense, on its own queue or another one.

    Raises HandoffNotFound; NotPossible for one that has not failed, or behind which others worked on.
    """
    with database.write() as connection:
        of = reading.handoff_in(connection, id)
        if of.state not in ("failed", "uncertain"):
            raise NotPossible(
                f"Handoff {of.id[:8]} is {of.state}: only a failed one can be retried."
            )
        if other := worked_since(connection, of):
            raise NotPossible(
                f"Agent {other} has worked as {of.persona} since: what handoff {of.id[:8]} hands on is old. "
                f"Give it up (tasuki agent cancel {of.id[:8]}), or call it done (tasuki agent finish {of.id[:8]})."
            )
        if of.successor_id and (own := _standing(connection, of.successor_id)):
            raise NotPossible(
                f"Agent {of.successor_id}, its successor, is handed off itself: handoff {own.id[:8]} is {own.state}. "
                f"Carry that one on, or give it up first: tasuki agent cancel {own.id[:8]}"
            )
        moved = {"queue": queue} if queue else {}
        return _running(connection, of, _resumed_at(connection, of), **moved)


def _resumed_at(connection: sa.Connection, of: FleetHandoff) -> str:
    code = of.failure.code if of.failure else ""
    if of.successor_id is not None and of.step in workflow.SUCCESSOR:
        ended = reading.agent_in(connection, of.successor_id).ended_at is not None
        code = "successor_died" if ended else code
    return workflow.resumed_at(of.step, code, from_thread=of.from_thread)


def _running(
    connection: sa.Connection, of: FleetHandoff, first: str, **values: Any
) -> FleetHandoff:
    handoffs = tables.handoffs
    connection.execute(
        sa.update(handoffs)
        .where(handoffs.c.id == of.id)
        .values(
            state="running",
            step=first,
            attempt=of.attempt + 1,
            failure=None,
            finished_at=None,
            **values,
        )
    )
    text = f"Handoff {of.id[:8]} goes on with {first} (attempt {of.attempt + 1})."
    _note(connection, text, of.agent_id, of.id, "retried")
    return reading.handoff_in(connection, of.id)


def cancel(database: Database, id: str) -> FleetHandoff:
    """End a handoff that is under way or failed; what was done stays done."""
    return _settle(database, id, "cancelled", ("running", "failed", "uncertain"))


def finish(database: Database, id: str) -> FleetHandoff:
    """Call a failed handoff done: the operator did the rest, or saw that it arrived.

    Raises HandoffNotFound, NotPossible while its agent lives: then it is not handed off.
    """
    of = reading.handoff(database, id)
    agent = reading.agent(database, of.agent_id)
    if of.state in ("failed", "uncertain") and agent.ended_at is None:
        raise NotPossible(
            f"Agent {agent.id} has not ended, so handoff {of.id[:8]} is not done. Retry it, give it up "
            f"(tasuki agent cancel {of.id[:8]}), or end the agent first (tasuki agent stop {agent.id})."
        )
    return _settle(database, id, "done", ("failed", "uncertain"))


def skip(database: Database, id: str) -> FleetHandoff:
    """Call a handoff done without its acknowledgement."""
    of = reading.handoff(database, id)
    if of.step != "acknowledge" or of.state not in ("running", "failed"):
        raise NotPossible(
            f"Handoff {of.id[:8]} is {of.state} at {of.step}: only the acknowledgement can be skipped."
        )
    return _settle(database, id, "done", ("running", "failed"))


def _settle(database: Database, id: str, state: str, among: tuple[str, ...]) -> FleetHandoff:
    with database.write() as connection:
        of = reading.handoff_in(connection, id)
        if of.state not in among:
            raise NotPossible(f"Handoff {of.id[:8]} is {of.state} already.")
        handoffs, steps = tables.handoffs, tables.steps
        values = {"state": state, "finished_at": time.time()}
        connection.execute(sa.update(handoffs).where(handoffs.c.id == of.id).values(**values))
        open_step = (steps.c.handoff_id == of.id) & steps.c.ended_at.is_(None)
        ended = {"ended_at": time.time(), "outcome": "skipped"}
        connection.execute(sa.update(steps).where(open_step).values(**ended))
        text = f"Handoff {of.id[:8]} is {state}, by the operator, at {of.step}."
        _note(connection, text, of.agent_id, of.id, state)
        return reading.handoff_in(connection, of.id)


def under_way(database: Database, agent_id: int) -> FleetHandoff | None:
    """The handoff of an agent that is under way."""
    running = reading.handoffs(database, agent_id=agent_id, state="running")
    return running[0] if running else None


def begun(of: FleetHandoff) -> Begun:
    """What the engine is told of a handoff that is under way."""
    return of.id, of.attempt, of.step, of.from_thread, of.queue


def _note(connection: sa.Connection, text: str, agent_id: int, id: str, state: str) -> None:
    log.note(connection, "handoff", text, agent_id=agent_id, handoff_id=id, data={"state": state})
