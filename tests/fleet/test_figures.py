"""Figures over time: samples of context use, what was spent, and what agents did when."""

import json
import threading
import time
from typing import Any

import fleet_records
import fleet_rows
import pytest
import sqlalchemy as sa
from fleets import World

from tasuki.fleet.figures import (
    AgentTimeline,
    ContextSample,
    ContextSampler,
    StateLine,
    StateSpan,
    build_spans,
    build_timelines,
    list_samples,
    sum_spending,
)
from tasuki.fleet.hooks.correlator import HookPost
from tasuki.fleet.hooks.intake import EventIntake
from tasuki.fleet.store import log, queries, tables
from tasuki.fleet.store.database import FleetDatabase
from tasuki.fleet.store.log import ChangeFeed
from tasuki.harness.registry import require_control

# -- samples ---------------------------------------------------------------------------


def write(database: FleetDatabase, sampler: ContextSampler, *samples: ContextSample) -> None:
    """Write samples in one transaction."""
    with database.write() as connection:
        sampler.write(connection, samples)


def test_one_sample_in_thirty_seconds_with_the_newest_value(database: FleetDatabase) -> None:
    """Values of thirty seconds are one row, which has the last of them; the same value is none."""
    agent, sampler = fleet_records.agent(database), ContextSampler()
    for at, used in ((100.0, 10.0), (110.0, 11.0), (125.0, 12.0), (131.0, 13.0), (200.0, 13.0)):
        write(database, sampler, ContextSample(agent, at, used=used))
    write(database, sampler, ContextSample(agent, 90.0, used=99.0))
    found = [(sample.at, sample.used) for sample in list_samples(database, agent_id=agent)]

    assert [(100.0, 12.0), (131.0, 13.0)] == found


def test_samples_of_one_batch(database: FleetDatabase) -> None:
    """Several agents and several values may come in one transaction."""
    one, two, sampler = (
        fleet_records.agent(database),
        fleet_records.agent(database),
        ContextSampler(),
    )
    write(
        database, sampler, ContextSample(one, 1.0, tokens=1), ContextSample(two, 1.0, tokens=5),
        ContextSample(one, 2.0, tokens=2, cost=0.5), ContextSample(one, 40.0, tokens=3),
    )  # fmt: skip
    found = [(s.agent_id, s.at, s.tokens, s.cost) for s in list_samples(database)]

    assert [(one, 1.0, 2, 0.5), (one, 40.0, 3, 0.5), (two, 1.0, 5, None)] == sorted(found)


def test_a_status_line_is_sampled(world: World) -> None:
    """The context use that a harness reports in its status line is kept over time."""
    world.install_status_line()
    world.script(fill=[["context", 42], ["say", "ok"]])
    agent = world.worked(world.started(), "Please fill it")
    rows = world.sql("select * from context_samples")

    assert agent == rows[-1]["agent_id"]
    assert 42.0 == rows[-1]["used"]


@pytest.mark.parametrize(
    ("cost", "expected"),
    [({"total_cost_usd": 1.25}, 1.25), ({"total_cost_usd": 0}, 0.0), ({"total_cost_usd": -1}, None),
     ({"total_cost_usd": True}, None), ({"total_cost_usd": "1"}, None), ({"total_cost_usd": 1e300}, None),
     ({"total_cost_usd": float("nan")}, None), ({}, None), ("1", None), (None, None)],
)  # fmt: skip
def test_what_a_session_has_cost(cost: Any, expected: float | None) -> None:
    """Claude Code's status line says what a session has spent; what is no number of dollars is not taken."""
    context = {
        "used_percentage": 5, "context_window_size": 200_000, "total_input_tokens": 900,
        "total_output_tokens": 70,
    }  # fmt: skip
    event = require_control("claude").parse_event(
        {"session_id": "s", "context_window": context, "cost": cost}
    )

    assert event
    assert (900, 70, expected) == (event.spent_input, event.spent_output, event.spent_cost)


# -- spending --------------------------------------------------------------------------


def test_spending_per_day_and_persona() -> None:
    """Differences of running counts are summed; a count that falls is that of a new session."""
    noon = time.mktime((2026, 11, 25, 12, 0, 0, 0, 0, -1))
    samples = [
        ContextSample(1, noon - 86400, cost=1.0, output_tokens=10),
        ContextSample(1, noon, cost=1.5, output_tokens=30),
        ContextSample(2, noon + 1, cost=2.0),
        ContextSample(1, noon + 2, cost=0.25, output_tokens=5),
        ContextSample(3, noon + 3, used=50.0),
    ]
    days = sum_spending(samples, {1: "developer-con-1", 2: ""}, since=noon - 10)

    assert [
        ("2026-11-25", "developer-con-1", None, 25.0, 0.75),
        ("2026-11-25", "", None, None, 2.0),
    ] == [(day.day, day.persona, day.input_tokens, day.output_tokens, day.cost) for day in days]


# -- spans -----------------------------------------------------------------------------

LINES = [StateLine("prompt", 10.0), StateLine("waiting", 20.0), StateLine("busy", 25.0),
         StateLine("context", 26.0), StateLine("idle", 40.0)]  # fmt: skip


def test_spans_between_lines() -> None:
    """Each line begins a state; what was before the first one follows from what it ended."""
    agent = fleet_rows.agent(state="idle", state_at=40.0, started_at=0.0)
    spans = build_spans(agent, LINES, 0.0, 50.0)

    assert [
        StateSpan("idle", 0.0, 10.0), StateSpan("busy", 10.0, 20.0), StateSpan("waiting", 20.0, 25.0),
        StateSpan("busy", 25.0, 40.0), StateSpan("idle", 40.0, 50.0),
    ] == spans  # fmt: skip


@pytest.mark.parametrize(
    ("state", "state_at", "expected"),
    [("waiting", 50.0, [StateSpan("waiting", 100.0, 200.0)]), ("stuck", 1.0, [StateSpan("waiting", 100.0, 200.0)]),
     ("busy", 150.0, []), ("starting", 1.0, [StateSpan("idle", 100.0, 200.0)])],
)  # fmt: skip
def test_without_lines(state: str, state_at: float, expected: list[StateSpan]) -> None:
    """An agent without a line in that time was in its present state, if that is older."""
    agent = fleet_rows.agent(state=state, state_at=state_at)

    assert expected == build_spans(agent, LINES, 100.0, 200.0)


def test_timelines_of_the_fleet(database: FleetDatabase) -> None:
    """Lines, handoffs and the ends of agents make timelines; who did not live then is left out."""
    fleet_records.persona(database)
    now = time.time()
    agent = fleet_records.agent(
        database, persona=fleet_records.SLUG, started_at=now - 1000, ended_at=now - 100,
        state="ended",
    )  # fmt: skip
    gone = fleet_records.agent(database, started_at=1.0, ended_at=2.0, state="ended")
    with database.write() as connection:
        for kind, ago in (("prompt", 900), ("waiting", 800), ("prompt", 600), ("idle", 500)):
            log.note(connection, kind, "", agent_id=agent)
            newest = sa.select(sa.func.max(tables.events.c.id)).scalar_subquery()
            connection.execute(
                sa.update(tables.events).where(tables.events.c.id == newest).values(at=now - ago)
            )
    fleet_records.handoff(
        database, "a" * 32, agent, created_at=now - 300, finished_at=now - 50, state="done"
    )
    agents = [
        fleet_rows.agent(id=agent, started_at=now - 1000, ended_at=now - 100, state="ended"),
        fleet_rows.agent(id=gone, started_at=1.0, ended_at=2.0, state="ended"),
    ]
    (timeline,) = build_timelines(database, agents, now - 3600, now)

    assert isinstance(timeline, AgentTimeline)
    assert ["idle", "busy", "waiting", "busy", "idle", "handoff"] == [
        span.state for span in timeline.spans
    ]
    measured = {s: round(timeline.measure(s)) for s in ("busy", "waiting", "idle", "handoff")}
    assert {"busy": 200, "waiting": 200, "idle": 300, "handoff": 200} == measured


def test_a_hook_that_reports_tokens_is_sampled(database: FleetDatabase) -> None:
    """A status line with the size of the context writes a sample in the transaction of its event."""
    answered = threading.Event()
    intake = EventIntake(
        database, ChangeFeed(), "h", read_skill=str, threshold=80.0, on_commit=lambda *_: None
    )
    intake.start()
    try:
        payload = {"session_id": "s", "context_window": {"used_percentage": 7}}
        post = HookPost("claude", json.dumps(payload).encode(), event_id="e")
        intake.put(post, lambda _answer: answered.set())
        assert answered.wait(20)
    finally:
        intake.close(10)

    assert [7.0] == [sample.used for sample in list_samples(database)]


def test_a_failed_handoff_waits_for_the_operator(database: FleetDatabase) -> None:
    """From its failure until it is retried, and since the last one: that time is no handing off."""
    fleet_records.persona(database)
    agent = fleet_records.agent(database, started_at=0.0, state="idle", state_at=0.0)
    fleet_records.handoff(database, "h", agent, state="failed", created_at=10.0, finished_at=50.0)
    with database.write() as connection:
        for attempt, begun, ended in ((1, 10.0, 20.0), (2, 40.0, 50.0)):
            values = {"handoff_id": "h", "attempt": attempt, "step": "check", "started_at": begun, "ended_at": ended, "outcome": "failed"}  # fmt: skip
            connection.execute(sa.insert(tables.steps).values(**values))
    (timeline,) = build_timelines(database, [queries.load_agent(database, agent)], 0.0, 100.0)

    assert [(one.state, one.begin, one.end) for one in timeline.spans] == [
        ("idle", 0.0, 10.0), ("handoff", 10.0, 20.0), ("waiting", 20.0, 40.0), ("handoff", 40.0, 50.0), ("waiting", 50.0, 100.0),
    ]  # fmt: skip
