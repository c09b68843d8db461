"""Tokens and cost per day and persona, from samples of what sessions have spent since they began."""

import time
from collections.abc import Collection, Iterable, Mapping

import sqlalchemy as sa
from msgspec import Struct

from tasuki.fleet.figures.samples import ContextSample
from tasuki.fleet.store import tables
from tasuki.fleet.store.database import FleetDatabase

_COUNTED = ("input_tokens", "output_tokens", "cost")


class DaySpending(Struct):
    """What was spent on one day, `2026-11-26` in the server's own time; None where nobody reports it."""

    day: str
    persona: str
    """Empty for agents without one."""
    input_tokens: float | None = None
    output_tokens: float | None = None
    cost: float | None = None


def find_personas(database: FleetDatabase, ids: Collection[int]) -> dict[int, str]:
    """Find the personas of agents by their ids; empty for an agent without one."""
    agents = tables.agents.c
    query = sa.select(agents.id, agents.persona).where(agents.id.in_(sorted(ids)))
    with database.read() as connection:
        return {id: persona or "" for id, persona in connection.execute(query)}


def sum_spending(
    samples: Iterable[ContextSample], personas: Mapping[int, str], since: float = 0.0
) -> list[DaySpending]:
    """Sum what was spent per day and persona since a time, the newest day first.

    `samples` are in the order of time. A count that falls is that of a new session of the agent. The
    first sample of an agent counts whole, unless it is from before `since`.
    """
    last: dict[tuple[int, str], float] = {}
    sums: dict[tuple[str, str], DaySpending] = {}
    for sample in samples:
        persona = personas.get(sample.agent_id, "")
        day = time.strftime("%Y-%m-%d", time.localtime(sample.at))
        for name in _COUNTED:
            value = getattr(sample, name)
            if value is None:
                continue
            before = last.get((sample.agent_id, name), 0.0)
            last[sample.agent_id, name] = value
            if sample.at >= since:
                spending = sums.setdefault((day, persona), DaySpending(day, persona))
                spent = value - before if value >= before else value
                setattr(spending, name, (getattr(spending, name) or 0.0) + spent)
    return sorted(sums.values(), key=lambda one: (one.day, one.persona), reverse=True)
