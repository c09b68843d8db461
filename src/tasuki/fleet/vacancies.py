"""Whether a persona is free for an agent: never two of them at work on one persona's task."""

import sqlalchemy as sa

from tasuki.errors import AlreadyUnderWay
from tasuki.fleet import reading, tables
from tasuki.fleet.rows import FleetHandoff

UNFINISHED = ("running", "failed", "uncertain")
"""States of a handoff that may still be carried on."""


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
    unfinished = (
        sa.select(handoffs.id)
        .join(tables.agents, agents.id == handoffs.agent_id)
        .where(
            handoffs.persona == slug, handoffs.state.in_(UNFINISHED), agents.ended_at.is_not(None)
        )
    )
    for id in connection.execute(unfinished).scalars().all():
        of = reading.handoff_in(connection, id)
        told = of.failure and of.failure.code == "not_acknowledged"
        if not told and worked_since(connection, of) is None:
            raise AlreadyUnderWay(
                f"Handoff {id[:8]} of {slug} is {of.state} at {of.step}; its successor has not taken "
                f"over. Carry it on (tasuki agent retry {id[:8]}) or give it up (tasuki agent cancel "
                f"{id[:8]})."
            )


def worked_since(connection: sa.Connection, of: FleetHandoff) -> int | None:
    """The newest agent that worked as a handoff's persona since it began, and is not its successor."""
    agents = tables.agents.c
    newest = sa.select(sa.func.max(agents.id)).where(
        agents.persona == of.persona,
        agents.id > max(of.agent_id, of.successor_id or 0),
        agents.started_at > of.created_at,
    )
    id = connection.execute(newest).scalar_one()
    return None if id is None else int(id)
