"""Figures over time: what agents did when, how long they waited for you, and what was spent."""

import time
from collections.abc import Sequence
from typing import Literal

from litestar.params import FromQuery
from markupsafe import Markup
from msgspec import Struct

from tasuki.fleet.figures import (
    AgentTimeline,
    DaySpending,
    SpanState,
    build_timelines,
    find_personas,
    list_samples,
    sum_spending,
)
from tasuki.fleet.service import Fleet
from tasuki.fleet.store import queries
from tasuki.fleet.store.models import FleetAgent
from tasuki.web.handlers import AnyRequest, PathId, TheFleet, show_page
from tasuki.web.views import display, templates
from tasuki.web.views.templates import PageResponse

Period = Literal["hour", "day", "week"]
SECONDS: dict[Period, float] = {"hour": 3600.0, "day": 86400.0, "week": 604800.0}
WORDS: dict[Period, str] = {"hour": "Last hour", "day": "Last day", "week": "Last week"}
STATES: tuple[tuple[SpanState, str], ...] = (
    ("busy", "Busy"), ("waiting", "Waiting for you"), ("idle", "Idle"), ("handoff", "Handing off"),
)  # fmt: skip
MOST_AGENTS = 200
BAR_WIDTH = 1000.0
SPENT_DAYS = 14
CHART_WIDTH, CHART_HEIGHT = 600.0, 96.0
MOST_POINTS = 300


class TimelineBar(Struct, frozen=True):
    """A stretch of a row: its place from 0 to `BAR_WIDTH`, and what a reader sees on hover."""

    state: SpanState
    x: float
    width: float
    title: Markup


class TimelineRow(Struct, frozen=True):
    """A persona's row of the timeline, or that of an agent without one, with its seconds in each state."""

    id: int
    name: str
    count: int
    """How many agents of a persona it has."""
    bars: tuple[TimelineBar, ...]
    totals: tuple[float, ...]


class ContextChart(Struct, frozen=True):
    """The context use of an agent over its life: a line, and where it was handed off."""

    line: str
    """The points of an SVG polyline."""
    cuts: tuple[float, ...]
    mark: float
    """The height of its threshold."""
    begin: float
    end: float
    highest: float
    last: float


@show_page("/figures")
def show_figures(
    request: AnyRequest, fleet: TheFleet, period: FromQuery[Period] = "day"
) -> PageResponse:
    """Show the timeline of the fleet, and tokens and cost per day and persona."""
    end = time.time()
    begin = end - SECONDS[period]
    with fleet.database.read() as connection:
        agents = queries.list_recent_agents(connection, since=begin, limit=MOST_AGENTS)
    groups: dict[object, list[AgentTimeline]] = {}  # a persona's agents followed one another
    for timeline in build_timelines(fleet.database, agents, begin, end):
        groups.setdefault(timeline.agent.persona or timeline.agent.id, []).append(timeline)
    rows = [_build_row(group, begin, end) for group in groups.values()]
    rows.sort(key=lambda row: (-row.totals[1], row.id))
    return templates.render_page(
        request, "figures.html", period=period, periods=WORDS, states=STATES, rows=rows,
        begin=begin, end=end, totals=[sum(row.totals[n] for row in rows) for n in range(len(STATES))],
        days=_list_spending(fleet, end), width=BAR_WIDTH, is_cut=len(agents) >= MOST_AGENTS,
        live="agents",
    )  # fmt: skip


def _build_row(group: Sequence[AgentTimeline], begin: float, end: float) -> TimelineRow:
    scale, words = BAR_WIDTH / (end - begin), dict(STATES)
    bars = tuple(
        TimelineBar(
            span.state,
            round((span.begin - begin) * scale, 1),
            round(max((span.end - span.begin) * scale, 0.5), 1),
            Markup("{} {}, from {}").format(
                words[span.state],
                templates.format_duration(span.end - span.begin),
                templates.format_moment(span.begin),
            ),
        )
        for timeline in group
        for span in timeline.spans
    )
    agent = max((timeline.agent for timeline in group), key=lambda one: one.id)
    totals = tuple(sum(one.measure(state) for one in group) for state, _ in STATES)
    return TimelineRow(agent.id, display.format_agent_name(agent), len(group), bars, totals)


def _list_spending(fleet: Fleet, now: float) -> list[DaySpending]:
    """List what was spent in the last days; samples from before say where counts began."""
    since = now - SPENT_DAYS * 86400.0
    samples = list_samples(fleet.database, since=since - 86400.0)
    samples = [sample for sample in samples if sample.cost is not None or sample.output_tokens]
    personas = find_personas(fleet.database, {sample.agent_id for sample in samples})
    return sum_spending(samples, personas, since)


# -- one agent -------------------------------------------------------------------------


@show_page("/agents/{id:int}/context")
def show_context(request: AnyRequest, fleet: TheFleet, id: PathId) -> PageResponse:
    """Show the context use of an agent over its life, as a piece of its page."""
    agent = queries.load_agent(fleet.database, id)
    samples = list_samples(fleet.database, agent_id=id)
    spent = next((s for s in reversed(samples) if s.cost is not None or s.output_tokens), None)
    chart = build_chart(fleet, agent, [(s.at, s.used) for s in samples if s.used is not None])
    return templates.render_page(
        request, "context_chart.html", chart=chart, spent=spent, id=id, width=CHART_WIDTH,
        height=CHART_HEIGHT, tokens=[s.tokens for s in samples if s.tokens is not None],
    )  # fmt: skip


def build_chart(
    fleet: Fleet, agent: FleetAgent, points: list[tuple[float, float]]
) -> ContextChart | None:
    """Build the chart of an agent's context use; None for less than two points."""
    if len(points) < 2:
        return None
    begin, end = agent.started_at, agent.ended_at or time.time()
    begin, end = min(begin, points[0][0]), max(end, points[-1][0], begin + 1.0)
    step = max(1, len(points) // MOST_POINTS)
    chosen = [*points[:-1:step], points[-1]]
    handoffs = queries.list_handoffs(fleet.database, agent_id=agent.id)
    cuts = [handoff.recorded_at for handoff in handoffs if handoff.recorded_at is not None]

    persona = queries.load_persona(fleet.database, agent.persona) if agent.persona else None
    own = persona.threshold if persona else None

    def place(at: float) -> float:
        return round((at - begin) / (end - begin) * CHART_WIDTH, 1)

    def lift(used: float) -> float:
        return round(CHART_HEIGHT * (1 - min(max(used, 0.0), 100.0) / 100), 1)

    return ContextChart(
        " ".join(f"{place(at)},{lift(used)}" for at, used in chosen),
        tuple(place(at) for at in cuts if begin <= at <= end),
        lift(fleet.threshold if own is None else own), begin, end, max(used for _, used in points), points[-1][1],
    )  # fmt: skip
