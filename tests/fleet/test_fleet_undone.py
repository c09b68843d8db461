"""What is put back is exactly what was there, and what somebody changed since stays."""

from pathlib import Path

import fleet_records
import pytest
import sqlalchemy as sa

from tasuki.errors import NotPossible
from tasuki.fleet import alerts
from tasuki.fleet.agents import goal_queue, goal_templates
from tasuki.fleet.agents.persona_files import decide_lessons, list_lessons, reopen_lessons
from tasuki.fleet.orders.bodies import NewTemplate
from tasuki.fleet.store import queries, tables
from tasuki.fleet.store.database import FleetDatabase

SLUG = fleet_records.SLUG


def rows(database: FleetDatabase, table: sa.Table) -> list[tuple[object, ...]]:
    """All rows of a table, in an order of their own."""
    with database.read() as connection:
        return sorted(tuple(row) for row in connection.execute(sa.select(table)))


def texts(database: FleetDatabase) -> list[str]:
    """The goals that wait, in order."""
    return [goal.text for goal in goal_queue.load_queue(database, SLUG).goals]


def test_a_template(database: FleetDatabase) -> None:
    """Under its id, with its times; not where its name is taken by now."""
    values = NewTemplate("Fix", "Fix {issue}", role="developer", folder="/src", permission="plan")
    template = goal_templates.add_template(database, values)
    goal_templates.note_use(database, template.id)
    before = rows(database, tables.goal_templates)
    removed = goal_templates.remove_template(database, template.id)
    goal_templates.restore_template(database, removed)
    assert rows(database, tables.goal_templates) == before
    goal_templates.remove_template(database, template.id)
    goal_templates.add_template(database, values)
    with pytest.raises(NotPossible, match="is called Fix already"):
        goal_templates.restore_template(database, removed)


def test_an_id_that_was_given_again(database: FleetDatabase) -> None:
    """SQLite gives the greatest id again: what comes back has another one, and its place."""
    fleet_records.persona(database)
    first = goal_templates.add_template(database, NewTemplate("Fix", "Fix it"))
    removed_template = goal_templates.remove_template(database, first.id)
    goal_templates.add_template(database, NewTemplate("Other", "Do it"))
    goal_templates.restore_template(database, removed_template)
    last = [goal_queue.add_goal(database, SLUG, text) for text in "ab"][-1]
    removed = goal_queue.remove_goal(database, SLUG, last.id)
    goal_queue.add_goal(database, SLUG, "c")
    assert removed
    goal_queue.restore_goal(database, removed)

    assert {one.name for one in goal_templates.list_templates(database)} == {"Fix", "Other"}
    assert texts(database) == ["a", "b", "c"]


def test_a_goal(database: FleetDatabase) -> None:
    """Behind those that were before it and still wait; a persona that retired meanwhile gets none back."""
    fleet_records.persona(database)
    goals = [goal_queue.add_goal(database, SLUG, text) for text in "abcd"]
    before = rows(database, tables.queued_goals)
    removed = goal_queue.remove_goal(database, SLUG, goals[1].id)
    assert removed
    goal_queue.restore_goal(database, removed)
    assert rows(database, tables.queued_goals) == before
    for change, expected in (("a", "bcd"), ("c", "abd"), ("", "abcd")):
        goal_queue.remove_goal(database, SLUG, goals[1].id)
        other = [goal for goal in goals if goal.text == change]
        gone = goal_queue.remove_goal(database, SLUG, other[0].id) if other else None
        goal_queue.restore_goal(database, removed)
        assert texts(database) == list(expected)
        if gone:
            goal_queue.restore_goal(database, gone)
    assert texts(database) == list("abcd")
    now, was = goal_queue.edit_goal(database, SLUG, goals[0].id, "other")
    goal_queue.restore_text(database, SLUG, now.id, was.text, now.text)
    assert texts(database) == list("abcd")
    with pytest.raises(NotPossible, match="changed again since"):
        goal_queue.restore_text(database, SLUG, now.id, was.text, now.text)
    goal_queue.remove_goal(database, SLUG, goals[1].id)
    retired = tables.personas.c.slug == SLUG
    with database.write() as connection:
        connection.execute(sa.update(tables.personas).where(retired).values(retired_at=1.0))
    with pytest.raises(NotPossible, match="retired"):
        goal_queue.restore_goal(database, removed)


def test_an_uncertain_goal_is_not_restored(database: FleetDatabase) -> None:
    """Its removal lets the queue go on, which types to an agent."""
    fleet_records.persona(database)
    goal = goal_queue.add_goal(database, SLUG, "a")
    with database.write() as connection:
        connection.execute(sa.update(tables.queued_goals).values(state="uncertain"))

    assert goal_queue.remove_goal(database, SLUG, goal.id) is None


def test_a_mute(database: FleetDatabase) -> None:
    """To the second as it was; not where it was muted again since."""
    agent = queries.load_agent(database, fleet_records.agent(database))
    first = alerts.mute_agent(database, agent, "2h")
    second = alerts.mute_agent(database, agent, "off")
    alerts.restore_mute(database, second)
    assert queries.load_agent(database, agent.id).muted_until == first.after
    with pytest.raises(NotPossible, match="again since"):
        alerts.restore_mute(database, second)
    alerts.restore_mute(database, first)

    assert queries.load_agent(database, agent.id).muted_until is None


def test_seen_alerts(database: FleetDatabase) -> None:
    """Those of that order alone."""
    with database.write() as connection:
        for number in range(4):
            alerts.raise_alert(connection, "done", f"k{number}", "t", "x", host="h")
    alerts.mark_seen(database, 1)
    moment, count = alerts.mark_seen(database, 3)
    alerts.mark_seen(database, 4)
    alerts.mark_unseen(database, moment)
    unseen = [alert.id for alert in alerts.list_newest_alerts(database, 9) if alert.seen_at is None]

    assert (count, unseen) == (2, [3, 2])


def test_dropped_lessons(database: FleetDatabase, tmp_path: Path) -> None:
    """All of them or none."""
    fleet_records.persona(database)
    agent = fleet_records.agent(database)
    fleet_records.handoff(database, "ab" * 16, agent)
    with database.write() as connection:
        for text in ("one", "two"):
            row = {"persona": SLUG, "handoff_id": "ab" * 16, "agent_id": agent, "text": text, "state": "proposed", "proposed_at": 1.0}  # fmt: skip
            connection.execute(sa.insert(tables.lessons).values(**row))
    dropped = decide_lessons(database, tmp_path, SLUG, "drop")
    reopen_lessons(database, SLUG, dropped)
    assert [x.state for x in list_lessons(database, SLUG)] == ["proposed", "proposed"]
    decide_lessons(database, tmp_path, SLUG, "drop", [dropped[1].id])
    with pytest.raises(NotPossible, match="decided otherwise since"):
        reopen_lessons(database, SLUG, dropped)

    assert [x.state for x in list_lessons(database, SLUG)] == ["proposed", "dropped"]
