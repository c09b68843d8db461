"""Figures of what agents did: samples of context use, tokens and cost per day, and spans of states.

Samples are few, and the newest value is always kept. Spans come from the lines that the log keeps:

prompt ── busy ── waiting ── busy ── idle      a line begins a span, the next one ends it
"""

import threading
import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any, Literal

import sqlalchemy as sa
from msgspec import Struct
from msgspec.structs import asdict, replace

from tasuki.fleet.store import tables
from tasuki.fleet.store.database import FleetDatabase
from tasuki.fleet.store.models import FleetAgent
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
    query = sa.select(*columns).where(_TABLE.c.at >= since)
    if agent_id is not None:
        query = query.where(_TABLE.c.agent_id == agent_id)
    rows = database.fetch(query.order_by(_TABLE.c.id.desc()).limit(50_000))
    found = [ContextSample(*row) for row in rows]
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


SpanState = Literal["busy", "waiting", "idle", "handoff"]
"""waiting: for the operator, also because nothing moves. idle: also at a usage limit."""
MOST_LINES = 50_000
"""Lines of the log that are read: the newest."""
_BEGUN: dict[str, SpanState] = {
    "started": "idle", "prompt": "busy", "busy": "busy", "idle": "idle", "limited": "idle", "failed": "idle",
    "waiting": "waiting", "stuck": "waiting", "compacting": "busy", "compacted": "busy",
}  # fmt: skip
"""The state that a line of the log begins; those of agents have the same names."""
_BEFORE: dict[str, SpanState] = {
    "prompt": "idle", "busy": "waiting", "idle": "busy", "limited": "busy", "failed": "busy", "waiting": "busy",
    "stuck": "busy", "compacting": "busy", "compacted": "busy", "ended": "idle",
}  # fmt: skip
"""The state before a line, where no earlier one is known."""
_get_handoff = attrgetter("handoff_id")
FAILED = ("failed", "uncertain")
"""The states of a handoff that waits for the operator."""


class StateSpan(Struct, frozen=True):
    """A stretch of time in one state; seconds since 1970."""

    state: SpanState
    begin: float
    end: float


class StateLine(Struct, frozen=True):
    """A line of the log that begins a state."""

    kind: str
    at: float


class AgentTimeline(Struct, frozen=True):
    """An agent and its spans, oldest first, without overlap."""

    agent: FleetAgent
    spans: tuple[StateSpan, ...]

    def measure(self, state: SpanState) -> float:
        """Return the seconds in a state."""
        return sum(span.end - span.begin for span in self.spans if span.state == state)


def build_timelines(
    database: FleetDatabase, agents: Sequence[FleetAgent], begin: float, end: float
) -> list[AgentTimeline]:
    """Build the timelines of agents between two times; those that did not live then are left out."""
    ids = [agent.id for agent in agents]
    lines, handoffs = _load_lines(database, ids, begin), _load_handoffs(database, ids, begin)
    timelines = []
    for agent in agents:
        life = max(begin, agent.started_at), min(end, agent.ended_at or end)
        if life[0] >= life[1]:
            continue
        spans = build_spans(agent, lines.get(agent.id, []), *life)
        for handed in handoffs.get(agent.id, []):
            spans = _insert_span(spans, handed)
        timelines.append(AgentTimeline(agent, tuple(spans)))
    return timelines


def build_spans(
    agent: FleetAgent, lines: Iterable[StateLine], begin: float, end: float
) -> list[StateSpan]:
    """Build the spans of an agent between two times from the lines of that time, oldest first."""
    known = [line for line in lines if line.kind in _BEGUN or line.kind == "ended"]
    inside = [line for line in known if begin <= line.at < end]
    if inside:
        state = _BEFORE.get(inside[0].kind)
    else:
        state = _BEGUN.get(agent.state, "idle") if agent.state_at <= begin else None
    spans: list[StateSpan] = []
    since = begin
    for line in inside:
        spans = _append(spans, state, since, line.at)
        state, since = _BEGUN.get(line.kind), line.at
    return _append(spans, state, since, end)


def _append(
    spans: list[StateSpan], state: SpanState | None, begin: float, end: float
) -> list[StateSpan]:
    """Append a span, joined with the last one if that is of the same state."""
    if state is None or end <= begin:
        return spans
    if spans and spans[-1].state == state and spans[-1].end == begin:
        return [*spans[:-1], StateSpan(state, spans[-1].begin, end)]
    return [*spans, StateSpan(state, begin, end)]


def _insert_span(spans: Sequence[StateSpan], handed: StateSpan) -> list[StateSpan]:
    """Insert a span of a handoff among others, which end before it and go on after it."""
    laid: list[StateSpan] = []
    for span in spans:
        begin, end = max(span.begin, handed.begin), min(span.end, handed.end)
        if begin >= end:
            laid.append(span)
            continue
        parts = (
            (span.state, span.begin, begin), (handed.state, begin, end), (span.state, end, span.end),
        )  # fmt: skip
        for state, since, until in parts:
            laid = _append(laid, state, since, until)
    return laid


def _load_lines(
    database: FleetDatabase, ids: Sequence[int], begin: float
) -> dict[int, list[StateLine]]:
    events = tables.events.c
    is_state = events.kind.in_([*_BEGUN, "ended"])
    query = sa.select(events.agent_id, events.kind, events.at).where(is_state, events.at >= begin)
    query = query.where(events.agent_id.in_(ids)).order_by(events.id.desc()).limit(MOST_LINES)
    lines: dict[int, list[StateLine]] = defaultdict(list)
    for agent_id, kind, at in database.fetch(query):
        lines[agent_id].append(StateLine(kind, at))
    return {id: sorted(found, key=lambda line: line.at) for id, found in lines.items()}


def _load_handoffs(
    database: FleetDatabase, ids: Sequence[int], begin: float
) -> dict[int, list[StateSpan]]:
    """Load when agents were handed off, and when a handoff that had failed waited for the operator."""
    table, steps = tables.handoffs, tables.steps
    of_agents = table.c.agent_id.in_(sa.bindparam("ids", expanding=True))
    is_late = table.c.finished_at.is_(None) | (table.c.finished_at >= begin)
    names = ("id", "agent_id", "state", "created_at", "finished_at")
    query = sa.select(*(table.c[name] for name in names)).where(
        of_agents, ~table.c.fork, is_late | table.c.state.in_(FAILED)
    )
    spans: dict[int, list[StateSpan]] = defaultdict(list)
    with database.read() as connection:
        handoffs = connection.execute(query.order_by(table.c.created_at), {"ids": list(ids)}).all()
        of_handoffs = steps.c.handoff_id.in_([one.id for one in handoffs])
        runs = connection.execute(sa.select(steps).where(of_handoffs)).all()
    runs_of = {id: list(own) for id, own in groupby(sorted(runs, key=_get_handoff), _get_handoff)}
    following: dict[str, float] = {}
    next_at: dict[int, float] = {}
    for one in reversed(handoffs):
        following[one.id] = next_at.get(one.agent_id, float("inf"))
        next_at[one.agent_id] = one.created_at
    for one in handoffs:
        ends = following[one.id] if one.state in FAILED else one.finished_at
        until = one.finished_at or float("inf")
        spans[one.agent_id].append(StateSpan("handoff", one.created_at, until))
        own_runs = runs_of.get(one.id, [])
        for run in own_runs:
            if run.outcome == "failed" and run.ended_at is not None:
                again = [other.started_at for other in own_runs if other.attempt > run.attempt]
                until = min(again, default=ends or float("inf"))
                spans[one.agent_id].append(StateSpan("waiting", run.ended_at, until))
    return spans
