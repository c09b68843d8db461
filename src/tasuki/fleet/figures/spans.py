"""What agents did when: spans of states, from the lines that the fleet's log keeps.

prompt ── busy ── waiting ── busy ── idle      a line begins a span, the next one ends it
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Literal

import sqlalchemy as sa
from msgspec import Struct

from tasuki.fleet.store import tables
from tasuki.fleet.store.database import FleetDatabase
from tasuki.fleet.store.models import FleetAgent

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
    query = (
        sa.select(events.agent_id, events.kind, events.at)
        .where(
            events.agent_id.in_(sa.bindparam("ids", expanding=True)),
            events.at >= begin, events.kind.in_([*_BEGUN, "ended"]),
        )
        .order_by(events.id.desc())
        .limit(MOST_LINES)
    )  # fmt: skip
    lines: dict[int, list[StateLine]] = defaultdict(list)
    for agent_id, kind, at in database.fetch(query, {"ids": list(ids)}):
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
        spans[one.agent_id].append(
            StateSpan("handoff", one.created_at, one.finished_at or float("inf"))
        )
        own_runs = runs_of.get(one.id, [])
        for run in own_runs:
            if run.outcome == "failed" and run.ended_at is not None:
                again = [other.started_at for other in own_runs if other.attempt > run.attempt]
                until = min(again, default=ends or float("inf"))
                spans[one.agent_id].append(StateSpan("waiting", run.ended_at, until))
    return spans
