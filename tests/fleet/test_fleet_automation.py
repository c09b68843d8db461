"""Automatic handoff: when it happens by itself, and when it stops doing so."""

import time
from typing import Any

import pytest
import sqlalchemy as sa

from tasuki.fleet.agents.limits import LimitResumer
from tasuki.fleet.automation import AutomationGuard
from tasuki.fleet.store import queries, tables
from tasuki.fleet.store.database import FleetDatabase

SLUG = "developer-con-1"


class Fleet:
    """A persona whose automation is on, and its agents."""

    def __init__(self, database: FleetDatabase) -> None:
        self.database = database
        self.guard = AutomationGuard(database, 80.0)
        self.insert("personas", slug=SLUG, role="developer", name="con", number=1, folder="/",
                    created_at=1.0, automatic=True)  # fmt: skip

    def insert(self, table: str, **values: Any) -> None:
        """A row."""
        with self.database.write() as connection:
            connection.execute(sa.insert(tables.metadata.tables[table]).values(**values))

    def agent(self, **values: Any) -> int:
        """An idle agent over its threshold; its id."""
        row = {"harness": "claude", "state": "idle", "state_at": 1.0, "cwd": "/", "host": "h",
               "started_at": 1.0, "persona": SLUG, "context_used": 85.0, "over_threshold": True}  # fmt: skip
        query = sa.insert(tables.agents).values(**{**row, **values}).returning(tables.agents.c.id)
        with self.database.write() as connection:
            return int(connection.execute(query).scalar_one())

    def handoff(self, agent_id: int, successor_id: int | None = None, **values: Any) -> None:
        """An automatic handoff that is done."""
        row = {"id": f"{agent_id:032x}", "agent_id": agent_id, "persona": SLUG, "reason": "r",
               "state": "done", "step": "done", "created_at": time.time(), "host": "h", "queue": "q",
               "automatic": True, "successor_id": successor_id}  # fmt: skip
        self.insert("handoffs", **{**row, **values})

    def stopped(self) -> str:
        """Why the automation of the persona stopped."""
        return queries.load_persona(self.database, SLUG).automation_stopped


@pytest.fixture
def fleet(database: FleetDatabase) -> Fleet:
    """A fleet with one persona."""
    return Fleet(database)


def test_d10_at_the_threshold_and_idle_it_hands_off(fleet: Fleet) -> None:
    """D10: an idle agent over the threshold is handed off by itself."""
    assert fleet.guard.decide_handoff(fleet.agent()) == (True, "")


@pytest.mark.parametrize(
    "values",
    [
        {"state": "busy"}, {"state": "compacting"}, {"state": "waiting"}, {"children": ["npm test"]},
        {"over_threshold": False, "context_used": 70.0}, {"persona": None}, {"ended_at": 2.0},
    ],
)  # fmt: skip
def test_d10_else_it_does_not(fleet: Fleet, values: dict[str, Any]) -> None:
    """Not while anything of it runs, nor during a compaction, nor below the threshold."""
    assert fleet.guard.decide_handoff(fleet.agent(**values)) == (False, "")


@pytest.mark.parametrize("state", ["running", "failed", "done"])
def test_d10_one_handoff_is_enough(fleet: Fleet, state: str) -> None:
    """An agent whose handoff is under way, failed or done is not handed off by itself again."""
    id = fleet.agent()
    fleet.handoff(id, state=state)

    assert fleet.guard.decide_handoff(id) == (False, "")


def test_d10_off_by_default(fleet: Fleet) -> None:
    """Only a persona that says so is handed off by itself."""
    with fleet.database.write() as connection:
        connection.execute(sa.update(tables.personas).values(automatic=False))

    assert fleet.guard.decide_handoff(fleet.agent()) == (False, "")


def test_d10_a_third_within_ten_minutes_stops_it(fleet: Fleet) -> None:
    """The third automatic handoff of a persona within ten minutes stops the automation, with an alarm."""
    one, two = fleet.agent(ended_at=1.0), fleet.agent(ended_at=1.0)
    fleet.handoff(one, two)
    fleet.handoff(two)
    wanted, why = fleet.guard.decide_handoff(fleet.agent(context_used=81.0))
    alarms = [
        e for e in queries.list_events_after(fleet.database, 0, limit=10) if e.kind == "alarm"
    ]

    assert (wanted, "2 automatic handoffs" in why, fleet.stopped() == why) == (False, True, True)
    assert len(alarms) == 1


def test_d10_successors_whose_context_is_full_at_once_stop_it(fleet: Fleet) -> None:
    """Where nothing tells how full it is, the errors do: they are no endless chain of handoffs."""
    one, two = fleet.agent(ended_at=1.0), fleet.agent(ended_at=1.0)
    fleet.handoff(one, two)
    fleet.handoff(two)
    failure = {"kind": "context", "text": "Prompt is too long", "resets_at": None}
    full = fleet.agent(state="failed", failure=failure, over_threshold=False, context_used=None)
    wanted, why = fleet.guard.decide_handoff(full)

    assert (wanted, "2 automatic handoffs" in why, fleet.stopped() == why) == (False, True, True)


def test_d10_two_handoffs_long_ago_do_not_count(fleet: Fleet) -> None:
    """Only the last ten minutes count."""
    one, two = fleet.agent(ended_at=1.0), fleet.agent(ended_at=1.0)
    fleet.handoff(one, two, created_at=time.time() - 601)
    fleet.handoff(two, created_at=time.time() - 700)

    assert fleet.guard.decide_handoff(fleet.agent()) == (True, "")


def test_d10_a_successor_that_is_full_at_once_stops_it(fleet: Fleet) -> None:
    """A successor whose use is above the floor behind its first turn stops the automation."""
    old, new = fleet.agent(ended_at=1.0), fleet.agent(over_threshold=False, context_used=65.0)
    fleet.handoff(old, new)
    wanted, why = fleet.guard.decide_handoff(new)

    assert (wanted, "after its first turn" in why) == (False, True)


def test_d10_a_stopped_automation_stays_stopped(fleet: Fleet) -> None:
    """Until the operator starts it again nothing is handed off by itself, and nothing is told twice."""
    with fleet.database.write() as connection:
        connection.execute(sa.update(tables.personas).values(automation_stopped="a loop"))

    assert fleet.guard.decide_handoff(fleet.agent()) == (False, "")


def limited(fleet: Fleet, harness: str = "claude", on_limit: str = "codex") -> int:
    """An agent at a usage limit, whose persona says where its work goes then; its id."""
    personas = tables.personas
    with fleet.database.write() as connection:
        connection.execute(sa.update(personas).values(on_limit=on_limit, automatic=False))
    return fleet.agent(harness=harness, state="limited", over_threshold=False)


def test_e13_a_limited_agent_goes_where_its_persona_says(fleet: Fleet) -> None:
    """Whether handoffs at the threshold are automatic does not matter for that."""
    assert fleet.guard.decide_limit_handoff(limited(fleet)) == ("codex", "")


@pytest.mark.parametrize("state", ["idle", "busy", "ended"])
def test_e13_only_a_limited_agent_goes(fleet: Fleet, state: str) -> None:
    """Its limit may have ended meanwhile."""
    id = limited(fleet)
    with fleet.database.write() as connection:
        values = {"state": state, "ended_at": 2.0 if state == "ended" else None}
        connection.execute(sa.update(tables.agents).values(**values))

    assert fleet.guard.decide_limit_handoff(id) == ("", "")


def test_e13_nothing_happens_without_on_limit(fleet: Fleet) -> None:
    """Nobody said where the work should go, so it stays."""
    assert fleet.guard.decide_limit_handoff(limited(fleet, on_limit="")) == ("", "")
    assert fleet.stopped() == ""


def test_e13_one_handoff_at_a_limit_is_enough(fleet: Fleet) -> None:
    """A handoff that is under way, failed or done is not begun again."""
    id = limited(fleet)
    fleet.handoff(id, state="failed")

    assert fleet.guard.decide_limit_handoff(id) == ("", "")


def test_e13_no_ping_pong_between_two_limits(fleet: Fleet) -> None:
    """The one that took over at a limit is at one itself: the automation stops, with one alert."""
    first = fleet.agent(state="ended", ended_at=2.0)
    second = limited(fleet, harness="codex", on_limit="claude")
    fleet.handoff(first, second, reason="usage_limit")
    harness, why = fleet.guard.decide_limit_handoff(second)
    again = fleet.guard.decide_limit_handoff(second)

    assert (harness, again) == ("", ("", ""))
    assert "is at one itself (codex)" in why
    assert fleet.stopped() == why
    with fleet.database.read() as connection:
        assert (
            connection.execute(sa.select(sa.func.count()).select_from(tables.alerts)).scalar() == 1
        )


def test_e13_its_own_harness_is_no_way_out(fleet: Fleet) -> None:
    """An agent that was handed to the harness by hand cannot go there again."""
    harness, why = fleet.guard.decide_limit_handoff(limited(fleet, harness="codex"))

    assert harness == ""
    assert "the harness of `on_limit`" in why


def resumed(fleet: Fleet, days: int, **values: Any) -> list[int]:
    """The agents that were told to go on at a reset, over some days on which each text was refused."""
    asked: list[int] = []

    def refuse(agent_id: int, _key: str) -> dict[str, Any]:
        asked.append(agent_id)
        return {"state": "refused", "why": "it asks something"}

    fleet.guard.host = "h"
    fleet.agent(state="limited", limited_until=1.0, **{"pane": "%1", "ordered_at": 1.0, **values})
    resumer = LimitResumer(fleet.guard, 3, refuse)
    for _ in range(days):
        resumer.resume_all()
        with fleet.database.write() as connection:
            connection.execute(sa.update(tables.events).values(at=tables.events.c.at - 90000))
    return asked


def test_an_agent_that_took_no_text_at_its_reset_is_left_alone(fleet: Fleet) -> None:
    """Also on the days after: once for each reset."""
    assert len(resumed(fleet, 3)) == 1


def test_an_agent_that_tasuki_does_not_manage_is_not_told_to_go_on(fleet: Fleet) -> None:
    """Its pane is the user's own: nothing is typed, and no alert says that it was not."""
    assert resumed(fleet, 1, ordered_at=None, persona=None) == []
