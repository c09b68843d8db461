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
    which that handoff asks for. Asked in the transaction that writes the agent down, so that of two
    that ask at once one is second.
    """
    reading.persona_in(connection, slug)
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
    """Raises AlreadyUnderWay where the newest work of a persona waits for its successor.

    Its agent has ended, and the handoff is unfinished. One whose successor has its prompt, or behind
    which others worked as the persona, is history, however it ended.
    """
    handoffs, agents = tables.handoffs.c, tables.agents.c
    query = (
        sa.select(tables.handoffs)
        .join(tables.agents, agents.id == handoffs.agent_id)
        .where(
            handoffs.persona == slug, handoffs.state.in_(_UNFINISHED), agents.ended_at.is_not(None)
        )
    )
    for row in connection.execute(query).all():
        told = row.failure and row.failure["code"] == "not_acknowledged"
        if not told and later(connection, slug, row.agent_id, row.successor_id) is None:
            raise AlreadyUnderWay(
                f"Handoff {row.id[:8]} of {slug} is {row.state} at {row.step}; its successor has not taken "
                f"over. Carry it on (tasuki agent retry {row.id[:8]}) or give it up (tasuki agent cancel "
                f"{row.id[:8]})."
            )


def later(
    connection: sa.Connection, slug: str, agent_id: int, successor_id: int | None
) -> int | None:
    """The newest agent that worked as a persona behind an agent and its successor."""
    agents = tables.agents.c
    newest = sa.select(sa.func.max(agents.id)).where(agents.persona == slug)
    id = connection.execute(newest).scalar_one()
    return id if id is not None and id > max(agent_id, successor_id or 0) else None
