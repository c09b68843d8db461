"""The operator's orders for a handoff: begin, retry, cancel, finish, skip.

409 `Handoff already in progress` while one is under way or recorded. A handoff that failed
before its record may be begun again by the same call, or retried; one that failed after it
is retried.
"""

import time
from typing import Any

import sqlalchemy as sa
from msgspec import Struct

from tasuki.errors import AlreadyUnderWay, NotPossible
from tasuki.fleet.agents.personas import UNFINISHED, check_available, find_later_agent
from tasuki.fleet.handoff import workflow
from tasuki.fleet.handoff.engine import HandoffStart
from tasuki.fleet.store import log, queries, tables
from tasuki.fleet.store.database import FleetDatabase
from tasuki.fleet.store.models import FleetAgent, FleetHandoff
from tasuki.text_safety import clean_text

MOST_CHARACTERS = 4000
"""Most characters of a reason, and of what the operator adds."""


class HandoffRequest(Struct, frozen=True):
    """A requested handoff: why, what the successor should know and do, and from what source."""

    reason: str
    context: str = ""
    goal: str = ""
    force: bool = False
    from_thread: bool = False
    automatic: bool = False
    harness: str = ""
    """That of the successor; empty for that of the agent."""

    def build_columns(self) -> dict[str, Any]:
        """Return the table columns of the request; PostgreSQL keeps no NUL."""
        return {
            "reason": clean_text(self.reason), "context": clean_text(self.context), "goal": clean_text(self.goal),
            "force": self.force, "from_thread": self.from_thread, "harness": self.harness,
        }  # fmt: skip


def begin_handoff(
    database: FleetDatabase,
    agent_id: int,
    request: HandoffRequest,
    *,
    host: str,
    queue: str,
    new_id: str,
) -> FleetHandoff:
    """Record a handoff as under way. Raises AgentNotFound, NotPossible, AlreadyUnderWay."""
    columns = request.build_columns()
    with database.write(alone=True) as connection:
        agent = queries.load_agent(connection, agent_id)
        if old := _find_open(connection, agent_id):
            return _restart_handoff(connection, old, agent, {**columns, "queue": queue})
        _check_agent(agent, from_thread=request.from_thread)
        _check_took_over(connection, agent)
        if agent.persona and agent.ended_at is not None:
            check_available(connection, agent.persona, is_successor=True)
        first = workflow.list_steps(from_thread=request.from_thread)[0]
        values: dict[str, Any] = {
            **columns, "id": new_id, "agent_id": agent_id, "persona": agent.persona,
            "automatic": request.automatic, "state": "running", "step": first, "attempt": 1,
            "created_at": time.time(), "host": host, "queue": queue,
        }  # fmt: skip
        connection.execute(sa.insert(tables.handoffs).values(**values))
        text = f"Handoff {new_id[:8]} of agent {agent_id} ({agent.persona}) begins: {columns['reason']}"
        note_state(connection, text, agent_id, new_id, "initiated")
        return queries.load_handoff(connection, new_id)


def _check_agent(agent: FleetAgent, *, from_thread: bool) -> None:
    if agent.ended_at is not None and not from_thread:
        raise NotPossible("Agent is not active")
    if not agent.persona:
        raise NotPossible("Agent has no persona")
    if not agent.pane and not from_thread:
        raise NotPossible("Agent has no tmux pane")


def _find_open(connection: sa.Connection, agent_id: int) -> FleetHandoff | None:
    handoffs = queries.list_handoffs(connection, agent_id=agent_id, fork=False)
    return next((handoff for handoff in handoffs if handoff.state != "cancelled"), None)


def _check_took_over(connection: sa.Connection, agent: FleetAgent) -> None:
    """Raise AlreadyUnderWay for a successor that has not received its own prompt yet.

    It would write its document before it has read its predecessor's, and hand nothing on.
    """
    handoff = queries.find_incoming_handoff(connection, agent.id)
    if handoff is None or handoff.state not in UNFINISHED:
        return
    if handoff.state == "running":
        raise AlreadyUnderWay(
            f"Agent {agent.id} is the successor of handoff {handoff.id[:8]}, which is under way at {handoff.step}. "
            f"Wait until it is done, or end it: tasuki agent cancel {handoff.id[:8]}"
            + (f", tasuki agent skip {handoff.id[:8]}" if handoff.step == "acknowledge" else ""),
            handoff=handoff.id,
        )
    if handoff.step != "acknowledge":
        raise AlreadyUnderWay(
            f"Agent {agent.id} has not taken over: handoff {handoff.id[:8]} {handoff.state} at {handoff.step}. Continue it "
            f"(tasuki agent retry {handoff.id[:8]}), mark it as done (tasuki agent finish {handoff.id[:8]}), or give it "
            f"up (tasuki agent cancel {handoff.id[:8]}).",
            handoff=handoff.id, retry=_format_retry(handoff),
        )  # fmt: skip


def _restart_handoff(
    connection: sa.Connection, old: FleetHandoff, agent: FleetAgent, columns: dict[str, Any]
) -> FleetHandoff:
    """Begin a handoff that failed before its record again, with the new request."""
    if old.state not in ("failed", "uncertain") or old.recorded_at is not None:
        raise AlreadyUnderWay(
            "Handoff already in progress", handoff=old.id, retry=_format_retry(old)
        )
    from_thread_now = bool(columns["from_thread"])
    _check_agent(agent, from_thread=from_thread_now)
    return _mark_running(
        connection, old, workflow.list_steps(from_thread=from_thread_now)[0], **columns
    )


def _format_retry(handoff: FleetHandoff) -> str:
    failed = handoff.state in ("failed", "uncertain")
    return f"POST /api/handoffs/{handoff.id}/retry" if failed else ""


def retry_handoff(database: FleetDatabase, handoff_id: str, queue: str = "") -> FleetHandoff:
    """Continue a failed handoff from the right step, on its own queue or another one.

    Raises HandoffNotFound; NotPossible for one that has not failed, or after which another
    agent worked as the persona.
    """
    with database.write(alone=True) as connection:
        handoff = queries.load_handoff(connection, handoff_id)
        if handoff.state not in ("failed", "uncertain"):
            raise NotPossible(
                f"Handoff {handoff.id[:8]} is {handoff.state}: only a failed one can be retried."
            )
        if other := find_later_agent(connection, handoff):
            raise NotPossible(
                f"Agent {other} has worked as {handoff.persona} since, so handoff {handoff.id[:8]} is out of date. "
                f"Give it up (tasuki agent cancel {handoff.id[:8]}), or mark it as done (tasuki agent finish {handoff.id[:8]})."
            )
        if handoff.successor_id and (own := _find_open(connection, handoff.successor_id)):
            raise NotPossible(
                f"Agent {handoff.successor_id}, its successor, has its own handoff: {own.id[:8]} is {own.state}. "
                f"Continue that one, or give it up first: tasuki agent cancel {own.id[:8]}"
            )
        moved = {"queue": queue} if queue else {}
        return _mark_running(connection, handoff, _choose_resume_step(connection, handoff), **moved)


def _choose_resume_step(connection: sa.Connection, handoff: FleetHandoff) -> str:
    code = handoff.failure.code if handoff.failure else ""
    if handoff.successor_id is not None and handoff.step in workflow.SUCCESSOR_STEPS:
        ended = queries.load_agent(connection, handoff.successor_id).ended_at is not None
        code = "successor_died" if ended else code
    return workflow.choose_resume_step(
        handoff.step, code, from_thread=handoff.from_thread, fork=handoff.fork
    )


def _mark_running(
    connection: sa.Connection, handoff: FleetHandoff, first: str, **values: Any
) -> FleetHandoff:
    handoffs = tables.handoffs
    connection.execute(
        sa.update(handoffs)
        .where(handoffs.c.id == handoff.id)
        .values(
            state="running",
            step=first,
            attempt=handoff.attempt + 1,
            failure=None,
            finished_at=None,
            **values,
        )
    )
    text = f"Handoff {handoff.id[:8]} continues with {first} (attempt {handoff.attempt + 1})."
    note_state(connection, text, handoff.agent_id, handoff.id, "retried")
    return queries.load_handoff(connection, handoff.id)


def cancel_handoff(database: FleetDatabase, handoff_id: str) -> FleetHandoff:
    """Cancel a handoff that is under way or failed; finished steps are not undone."""
    return _settle_handoff(database, handoff_id, "cancelled", ("running", "failed", "uncertain"))


def finish_handoff(database: FleetDatabase, handoff_id: str) -> FleetHandoff:
    """Mark a failed handoff as done: the operator did the rest, or saw that it arrived.

    Raises HandoffNotFound; NotPossible while its agent lives: then it is not handed off.
    """
    handoff = queries.load_handoff(database, handoff_id)
    agent = queries.load_agent(database, handoff.agent_id)
    unfinished = handoff.state in ("failed", "uncertain")
    if unfinished and agent.ended_at is None and not handoff.fork:
        raise NotPossible(
            f"Agent {agent.id} has not ended, so handoff {handoff.id[:8]} is not done. Retry it, give it up "
            f"(tasuki agent cancel {handoff.id[:8]}), or end the agent first (tasuki agent stop {agent.id})."
        )
    return _settle_handoff(database, handoff_id, "done", ("failed", "uncertain"))


def skip_acknowledgement(database: FleetDatabase, handoff_id: str) -> FleetHandoff:
    """Mark a handoff as done without its acknowledgement."""
    handoff = queries.load_handoff(database, handoff_id)
    if handoff.step != "acknowledge" or handoff.state not in ("running", "failed"):
        raise NotPossible(
            f"Handoff {handoff.id[:8]} is {handoff.state} at {handoff.step}: only the acknowledgement can be skipped."
        )
    return _settle_handoff(database, handoff_id, "done", ("running", "failed"))


def _settle_handoff(
    database: FleetDatabase, handoff_id: str, state: str, allowed_states: tuple[str, ...]
) -> FleetHandoff:
    with database.write(alone=True) as connection:
        handoff = queries.load_handoff(connection, handoff_id)
        if handoff.state not in allowed_states:
            raise NotPossible(f"Handoff {handoff.id[:8]} is {handoff.state} already.")
        handoffs, steps = tables.handoffs, tables.steps
        values = {"state": state, "finished_at": time.time()}
        connection.execute(sa.update(handoffs).where(handoffs.c.id == handoff.id).values(**values))
        open_step = (steps.c.handoff_id == handoff.id) & steps.c.ended_at.is_(None)
        ended = {"ended_at": time.time(), "outcome": "skipped"}
        connection.execute(sa.update(steps).where(open_step).values(**ended))
        text = f"Handoff {handoff.id[:8]} is {state}, by the operator, at {handoff.step}."
        note_state(connection, text, handoff.agent_id, handoff.id, state)
        return queries.load_handoff(connection, handoff.id)


def find_running(database: FleetDatabase, agent_id: int) -> FleetHandoff | None:
    """Find the handoff of an agent that is under way; a fork leaves the agent alone."""
    running = queries.list_handoffs(database, agent_id=agent_id, state="running", fork=False)
    return running[0] if running else None


def build_start(handoff: FleetHandoff) -> HandoffStart:
    """Build what the engine needs to start a handoff that is under way."""
    return (
        handoff.id, handoff.attempt, handoff.step, handoff.from_thread, handoff.queue, handoff.fork,
    )  # fmt: skip


def note_state(
    connection: sa.Connection, text: str, agent_id: int, handoff_id: str, state: str
) -> None:
    """Write into the log how a handoff stands, within a transaction."""
    log.note(
        connection, "handoff", text, agent_id=agent_id, handoff_id=handoff_id, data={"state": state}
    )
