"""The operator's orders for a handoff: begin, retry, cancel, finish, skip.

409 `Handoff already in progress` while one is under way or recorded. A handoff that failed
before its record may be begun again by the same call, or retried; one that failed after it
is retried.
"""

from typing import Any

import msgspec
import sqlalchemy as sa

from tasuki.errors import AlreadyUnderWay, NotPossible
from tasuki.fleet.agents.personas import UNFINISHED, check_available, find_later_agent
from tasuki.fleet.exchange.host_list import describe_gone
from tasuki.fleet.handoff import workflow
from tasuki.fleet.handoff.engine import build_queue_name
from tasuki.fleet.handoff.moves import MovePreview
from tasuki.fleet.handoff.workflow import HandoffShape
from tasuki.fleet.orders.bodies import NewHandoff
from tasuki.fleet.store import log, queries, tables
from tasuki.fleet.store.database import FleetDatabase, update_row
from tasuki.fleet.store.models import FleetAgent, FleetHandoff
from tasuki.text_safety import clean_text

MOST_CHARACTERS = 4000
"""Most characters of a reason, and of what the operator adds."""


def begin_handoff(
    database: FleetDatabase,
    agent_id: int,
    data: NewHandoff,
    *,
    host: str,
    queue: str,
    new_id: str,
    move: MovePreview | None = None,
    automatic: bool = False,
) -> FleetHandoff:
    """Record a handoff as under way; one with the id `new_id` was recorded by the same order.

    Raises AgentNotFound, NotPossible, AlreadyUnderWay.
    """
    plan = move.plan if move else None
    columns = {  # PostgreSQL keeps no NUL
        "reason": clean_text(data.reason), "context": clean_text(data.context), "goal": clean_text(data.goal),
        "force": data.force, "from_thread": data.from_thread, "harness": data.to,
        "target_host": move.host if move else "", "move": msgspec.to_builtins(plan),
    }  # fmt: skip
    first = HandoffShape(data.from_thread, move=plan.kind if plan else "").list_steps()[0]
    with database.write(alone=True) as connection:
        agent = queries.load_agent(connection, agent_id)
        if old := _find_open(connection, agent_id):
            if old.id == new_id:
                return old
            if old.state not in ("failed", "uncertain") or old.recorded_at is not None:
                raise AlreadyUnderWay(
                    "Handoff already in progress", handoff=old.id, retry=_format_retry(old)
                )
        _check_agent(agent, from_thread=data.from_thread)
        if old:  # it failed before its record: it begins again, with the new request
            return _mark_running(connection, old, first, **columns, queue=queue, host=host)
        _check_took_over(connection, agent)
        if agent.persona and agent.ended_at is not None:
            check_available(connection, agent.persona, is_successor=True)
        text = f"Handoff {new_id[:8]} of agent {agent_id} ({agent.persona}) begins: {columns['reason']}"
        return insert_handoff(
            connection, text, **columns, id=new_id, agent_id=agent_id, persona=agent.persona,
            automatic=automatic, step=first, created_at=database.read_clock(), host=host, queue=queue,
        )  # fmt: skip


def insert_handoff(connection: sa.Connection, text: str, **values: Any) -> FleetHandoff:
    """Insert a handoff, or a fork, that is under way from now on; `text` is for the log."""
    values |= {"state": "running", "attempt": 1}
    connection.execute(sa.insert(tables.handoffs).values(**values))
    handoff = queries.load_handoff(connection, values["id"])
    note_handoff(connection, handoff, text, state="initiated")
    return handoff


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
    """Raise AlreadyUnderWay for a successor without its prompt: it would hand nothing on."""
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
        code = handoff.failure.code if handoff.failure else ""
        if handoff.successor_id is not None and handoff.step in workflow.SUCCESSOR_STEPS:
            ended = queries.load_agent(connection, handoff.successor_id).ended_at is not None
            code = "successor_died" if ended else code
        first = workflow.choose_resume_step(handoff.step, code, workflow.find_shape(handoff))
        _check_hosts(connection, handoff, first)
        place = {"queue": queue} if queue else _find_place(connection, handoff, first)
        return _mark_running(connection, handoff, first, **place)


def _find_place(connection: sa.Connection, handoff: FleetHandoff, step: str) -> dict[str, str]:
    """Find the host and the queue of a step of a move; empty for other handoffs."""
    if handoff.move is None:
        return {}
    source = queries.load_agent(connection, handoff.agent_id).host
    host = workflow.find_step_host(handoff, step, source)
    if step == "shut_down" and describe_gone(connection, host):
        host = handoff.target_host
    return {"host": host, "queue": build_queue_name(host)}


def _check_hosts(connection: sa.Connection, handoff: FleetHandoff, first: str) -> None:
    """Raise NotPossible if a host that it needs is gone; a move can do without the agent's."""
    source = queries.load_agent(connection, handoff.agent_id).host
    needed = [handoff.target_host or source]
    if handoff.move and first in workflow.SOURCE_STEPS - {"shut_down"}:
        needed.append(source)
    for host in needed if handoff.move is None or handoff.move.kind == "move" else ():
        if gone := describe_gone(connection, host):
            raise NotPossible(
                f"{gone} Give the handoff up (tasuki agent cancel {handoff.id[:8]}), then hand agent {handoff.agent_id} off "
                "anew."
            )


def pass_on(
    connection: sa.Connection, handoff: FleetHandoff, step: str, host: str
) -> FleetHandoff | None:
    """Record that another host goes on with a step; return the handoff.

    None if it has ended, or has come to that step before: a leg that is carried out again after a
    crash takes nothing back.
    """
    handoffs, order = tables.handoffs, workflow.find_shape(handoff).list_steps()
    is_current = (handoffs.c.id == handoff.id) & (handoffs.c.state == "running")
    is_current &= handoffs.c.attempt == handoff.attempt
    is_current &= handoffs.c.step.in_(order[: order.index(step)])
    values = {"host": host, "queue": build_queue_name(host), "step": step}
    if not connection.execute(sa.update(handoffs).where(is_current).values(**values)).rowcount:
        return None
    return queries.load_handoff(connection, handoff.id)


def _mark_running(
    connection: sa.Connection, handoff: FleetHandoff, first: str, **values: Any
) -> FleetHandoff:
    attempt = handoff.attempt + 1
    values |= {"state": "running", "step": first, "attempt": attempt}
    update_row(connection, tables.handoffs, handoff.id, failure=None, finished_at=None, **values)
    text = f"Handoff {handoff.id[:8]} continues with {first} (attempt {attempt})."
    note_handoff(connection, handoff, text, state="retried")
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
        values = {"state": state, "finished_at": database.read_clock()}
        is_open = (handoffs.c.id == handoff.id) & handoffs.c.state.in_(allowed_states)
        if not connection.execute(sa.update(handoffs).where(is_open).values(**values)).rowcount:
            raise NotPossible(f"Handoff {handoff.id[:8]} has ended meanwhile.")
        open_step = (steps.c.handoff_id == handoff.id) & steps.c.ended_at.is_(None)
        ended = {"ended_at": database.read_clock(), "outcome": "skipped"}
        connection.execute(sa.update(steps).where(open_step).values(**ended))
        text = f"Handoff {handoff.id[:8]} is {state}, by the operator, at {handoff.step}."
        note_handoff(connection, handoff, text, state=state)
        return queries.load_handoff(connection, handoff.id)


def find_running(database: FleetDatabase, agent_id: int) -> FleetHandoff | None:
    """Find the handoff of an agent that is under way; a fork leaves the agent alone."""
    running = queries.list_handoffs(database, agent_id=agent_id, state="running", fork=False)
    return running[0] if running else None


def note_handoff(
    connection: sa.Connection,
    handoff: FleetHandoff,
    text: str,
    *,
    kind: str = "handoff",
    **data: str,
) -> None:
    """Write a line about a handoff into the log, within a transaction."""
    log.note(connection, kind, text, agent_id=handoff.agent_id, handoff_id=handoff.id, data=data)
