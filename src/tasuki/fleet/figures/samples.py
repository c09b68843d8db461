"""Samples of context use and of what was spent, and what that comes to per day and persona.

Samples are few, and the newest value is always kept.
"""

import threading
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from msgspec import Struct
from msgspec.structs import asdict, replace

from tasuki.fleet.store import tables
from tasuki.fleet.store.database import FleetDatabase
from tasuki.fleet.store.states import Row
from tasuki.harness.protocol import AgentEvent

REST_SECONDS = 30.0
"""Time for which an agent has one sample; a later value in it takes the place of an earlier one."""
MOST_KNOWN = 5000


class ContextSample(Struct, frozen=True):
    """What was known of an agent's context and spending at a time; None for what is not reported."""

    agent_id: int
    at: float
    tokens: int | None = None
    used: float | None = None
    """Percent of its window."""
    input_tokens: int | None = None
    """Since its session began, as the next two."""
    output_tokens: int | None = None
    cost: float | None = None
    """US dollars."""


def build_sample(agent: Row, event: AgentEvent, happened_at: float) -> ContextSample | None:
    """Build the sample of an event that reports a context use; None for another one."""
    if event.used is None and event.tokens is None:
        return None
    return ContextSample(
        agent["id"], happened_at, event.tokens, event.used, event.spent_input, event.spent_output,
        event.spent_cost,
    )  # fmt: skip


class ContextSampler:
    """Writes samples in the caller's transaction; callable from several threads."""

    def __init__(self) -> None:
        self._last: dict[int, ContextSample] = {}
        self._lock = threading.Lock()

    def write(self, connection: sa.Connection, samples: Sequence[ContextSample]) -> None:
        """Write what is new of some samples: a row, or the row of the last 30 seconds again."""
        new: list[dict[str, Any]] = []
        later: list[dict[str, Any]] = []
        with self._lock:
            for sample in samples:
                last = self._last.get(sample.agent_id)
                if last:
                    sample = _fill(sample, last)
                    if sample.at < last.at or replace(sample, at=last.at) == last:
                        continue
                if last and sample.at - last.at < REST_SECONDS:
                    sample = replace(sample, at=last.at)
                    later.append({f"b_{name}": value for name, value in asdict(sample).items()})
                else:
                    new.append(asdict(sample))
                self._last[sample.agent_id] = sample
            if len(self._last) > MOST_KNOWN:
                self._last.clear()
        if new:
            connection.execute(_INSERT, new)
        if later:
            connection.execute(_UPDATE, later)


def _fill(sample: ContextSample, last: ContextSample) -> ContextSample:
    """Keep what was spent as it was known, where a sample does not say it."""
    spent = {
        name: getattr(last, name)
        for name in ("input_tokens", "output_tokens", "cost")
        if getattr(sample, name) is None
    }
    return replace(sample, **spent)


_TABLE = tables.context_samples
_VALUES = ("tokens", "used", "input_tokens", "output_tokens", "cost")
_INSERT = sa.insert(_TABLE).inline()
_UPDATE = (
    sa.update(_TABLE)
    .where(_TABLE.c.agent_id == sa.bindparam("b_agent_id"), _TABLE.c.at == sa.bindparam("b_at"))
    .values({name: sa.bindparam(f"b_{name}") for name in _VALUES})
)


def list_samples(
    database: FleetDatabase, *, agent_id: int | None = None, since: float = 0.0
) -> list[ContextSample]:
    """List samples since a time, oldest first, of one agent or of all; at most the newest 50,000."""
    columns = [_TABLE.c[name] for name in ContextSample.__struct_fields__]
    query = (
        sa.select(*columns).where(_TABLE.c.at >= since).order_by(_TABLE.c.id.desc()).limit(50_000)
    )
    if agent_id is not None:
        query = query.where(_TABLE.c.agent_id == agent_id)
    found = [ContextSample(*row) for row in database.fetch(query)]
    return sorted(found, key=lambda sample: sample.at)


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
    return {id: persona or "" for id, persona in database.fetch(query)}


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
