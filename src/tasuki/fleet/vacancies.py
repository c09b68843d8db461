"""Whether a persona is free for an agent: never two of them at work on one persona's task."""

import sqlalchemy as sa

from tasuki.errors import AlreadyUnderWay
from tasuki.fleet import reading, tables

_UNFINISHED = ("running", "failed", "uncertain")


def check_vacant(
    connection: sa.Connection, slug: str, *, but: int | None = None, succeeds: bool = False
) -> None:
    """Raises AlreadyUnderWay where an agent works as a persona, or its handoff is unfinished.

    `but`: an agent that does not count. `succeeds`: the one that is to be started is the successor
    which that handoff asks for. The persona's row is locked: of two that ask at once one is second.
    """
    reading.persona_in(connection, slug, lock=True)
    agents = tables.agents.c
    working = sa.select(agents.id).where(
        agents.persona == slug, agents.ended_at.is_(None), agents.id != (but or 0)
    )
    if (id := connection.execute(working).scalars().first()) is not None:
        raise AlreadyUnderWay(
            f"Agent {id} works as {slug} already. Hand it off or stop it first: tasuki agent stop {id}"
        )
    if not succeeds:
        check_settled(connection, slug)


def check_settled(connection: sa.Connection, slug: str) -> None:
    """Raises AlreadyUnderWay where a handoff of a persona has ended its agent and has no successor yet."""
    handoffs, agents = tables.handoffs.c, tables.agents.c
    query = (
        sa.select(handoffs.id, handoffs.state, handoffs.step)
        .join(tables.agents, agents.id == handoffs.agent_id)
        .where(
            handoffs.persona == slug, handoffs.state.in_(_UNFINISHED), agents.ended_at.is_not(None)
        )
    )
    if row := connection.execute(query).first():
        raise AlreadyUnderWay(
            f"Handoff {row.id[:8]} of {slug} is {row.state} at {row.step}, and its successor is to come. "
            f"Carry it on (tasuki agent retry {row.id[:8]}) or give it up (tasuki agent cancel {row.id[:8]})."
        )
