"""What is too old is taken away, in small pieces, and nothing that is needed."""

import os
import sqlite3
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from fleet_records import SLUG, agent, handoff, persona
from fleets import World
from waiting import retry_until

from tasuki.fleet.handoff.engine import HandoffEngine
from tasuki.fleet.store import tables
from tasuki.fleet.store.database import FleetDatabase, build_sqlite_url, make_shrinkable
from tasuki.fleet.store.models import FleetHandoff
from tasuki.fleet.store.pruner import MOST_PIECE, FleetPruner

DAY = 86400.0
OLD = time.time() - 40 * DAY


def build_handoff(id: str, step: str, queue: str) -> FleetHandoff:
    """Build a handoff that is under way at a step."""
    return FleetHandoff(id, 1, "dev-ada-1", "done", "running", step, 0.0, "h", queue)


@pytest.fixture
def pruner(database: FleetDatabase, tmp_path: Path) -> FleetPruner:
    """A pruner that keeps 30 days, of a fleet in a folder; no handoff is carried out."""
    engine = HandoffEngine(build_sqlite_url(tmp_path / "workflows.db"), "h", lambda *_: True)
    engine.delete_ended = lambda before: 0  # type: ignore[method-assign]
    (tmp_path / "fleet").mkdir(exist_ok=True)
    return FleetPruner(database, engine, tmp_path / "fleet", tmp_path, lambda: 30)


def rows(database: FleetDatabase, table: sa.Table) -> list[Any]:
    """The rows of a table."""
    with database.read() as connection:
        return list(connection.execute(sa.select(table)).mappings())


def insert(database: FleetDatabase, table: sa.Table, *given: dict[str, Any]) -> None:
    """Write rows."""
    with database.write() as connection:
        connection.execute(sa.insert(table), list(given))


EVENT = {"kind": "idle", "at": 1.0, "text": "", "data": {}}


def test_old_lines_of_the_log_go_piece_by_piece(
    database: FleetDatabase, pruner: FleetPruner
) -> None:
    """More of them than go in one transaction; the new one stays."""
    insert(database, tables.events, *[{**EVENT, "received_at": OLD}] * (2 * MOST_PIECE + 1))
    insert(database, tables.events, {**EVENT, "received_at": time.time()})

    assert 2 * MOST_PIECE + 1 == pruner.prune()
    assert 1 == len(rows(database, tables.events))


def test_old_samples_go(database: FleetDatabase, pruner: FleetPruner) -> None:
    """Old samples of context use are deleted, also of agents that run; an ended agent goes after its own."""
    alive, gone = agent(database), agent(database, state="ended", ended_at=OLD)
    new = {"agent_id": alive, "at": time.time(), "used": 1.0}
    old = [{"agent_id": id, "at": OLD, "used": 1.0} for id in (alive, gone)]
    insert(database, tables.context_samples, *old, new)

    assert 3 == pruner.prune()
    assert [alive] == [row["agent_id"] for row in rows(database, tables.context_samples)]
    assert [alive] == [row["id"] for row in rows(database, tables.agents)]


def test_goals_that_were_typed_long_ago_go(database: FleetDatabase, pruner: FleetPruner) -> None:
    """And then their agent; one that is uncertain keeps it, and one that waits stays."""
    persona(database)
    first, second = (agent(database, state="ended", ended_at=OLD, persona=SLUG) for _ in range(2))
    goal = {"persona": SLUG, "place": 1, "text": "x", "created_at": OLD}
    insert(
        database,
        tables.queued_goals,
        {**goal, "state": "typed", "agent_id": first, "typed_at": OLD},
    )
    insert(
        database,
        tables.queued_goals,
        {**goal, "state": "uncertain", "agent_id": second, "typed_at": OLD},
    )
    insert(database, tables.queued_goals, {**goal, "state": "waiting"})
    pruner.prune()

    assert [row["state"] for row in rows(database, tables.queued_goals)] == ["uncertain", "waiting"]
    assert [row["id"] for row in rows(database, tables.agents)] == [second]


def test_nothing_is_taken_away_where_it_is_kept_for_ever(
    database: FleetDatabase, pruner: FleetPruner
) -> None:
    """`keep_days` 0."""
    insert(database, tables.events, {**EVENT, "received_at": 1.0})
    pruner.read_days = lambda: 0

    assert (0, 1) == (pruner.prune(), len(rows(database, tables.events)))


def test_agents_go_that_nothing_names(database: FleetDatabase, pruner: FleetPruner) -> None:
    """Not those that live, ended lately, were handed off or have a successor; handoffs stay."""
    persona(database)
    gone = agent(database, state="ended", ended_at=OLD)
    alive, late = agent(database), agent(database, state="ended", ended_at=time.time())
    handed, took = (agent(database, state="ended", ended_at=OLD, persona=SLUG) for _ in range(2))
    before = agent(database, state="ended", ended_at=OLD)
    after = agent(database, previous_agent_id=before)
    handoff(database, "a" * 32, handed, state="done", finished_at=OLD, successor_id=took)
    for id in (gone, handed):
        insert(database, tables.events, {**EVENT, "received_at": OLD, "agent_id": id})
        insert(database, tables.alerts, {"key": f"k{id}", "at": OLD, "kind": "failed", "host": "h",
                                         "title": "t", "text": "t", "agent_id": id})  # fmt: skip
    intent = {"kind": "message", "pane": "%1", "proof": "p", "created_at": OLD, "state": "proven"}
    insert(database, tables.intents, {**intent, "id": "i", "agent_id": gone})
    pruner.prune()

    assert {alive, late, handed, took, before, after} == {x["id"] for x in rows(database, tables.agents)}  # fmt: skip
    assert 1 == len(rows(database, tables.handoffs))
    assert [] == rows(database, tables.events) + rows(database, tables.alerts) + rows(database, tables.intents)  # fmt: skip


@pytest.mark.parametrize(
    ("state", "left"), [("done", 0), ("cancelled", 0), ("failed", 2), ("running", 2)]
)
def test_what_a_handoff_under_way_needs_stays(
    database: FleetDatabase, pruner: FleetPruner, state: str, left: int
) -> None:
    """Steps and typed prompts go with a handoff that is settled; one that can be retried keeps them."""
    persona(database)
    id = agent(database, state="ended", ended_at=OLD, persona=SLUG)
    handoff(database, "a" * 32, id, state=state, finished_at=OLD)
    insert(database, tables.steps, {"handoff_id": "a" * 32, "attempt": 1, "step": "create", "started_at": OLD})  # fmt: skip
    insert(database, tables.intents, {
        "id": "i", "agent_id": id, "handoff_id": "a" * 32, "kind": "prompt", "pane": "%1",
        "proof": "p", "created_at": OLD, "state": "proven",
    })  # fmt: skip
    pruner.prune()

    assert left == len(rows(database, tables.steps) + rows(database, tables.intents))


def test_small_files_go(database: FleetDatabase, pruner: FleetPruner, tmp_path: Path) -> None:
    """Not a lock of a living agent's pane, nor the reserved name of a handoff that may go on."""
    persona(database)
    id = agent(database, pane="%5", persona=SLUG)
    handoff(database, "a" * 32, id, state="failed")
    other = agent(database, state="ended", ended_at=OLD)
    handoff(database, "b" * 32, other, state="cancelled", finished_at=OLD)
    documents = tmp_path / "data" / "personas" / SLUG / "handoffs"
    files = {
        tmp_path / "suggested" / "old" / "window": "1", tmp_path / "suggested" / "new" / "window": "1",
        tmp_path / "fleet" / "locks" / "default%5.lock": "", tmp_path / "fleet" / "locks" / "default%6.lock": "",
        documents / ".one.md.reserved": "a" * 32, documents / ".two.md.reserved": "b" * 32,
        documents / "one.md": "kept",
    }  # fmt: skip
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        os.utime(path, (OLD, OLD))
    os.utime(tmp_path / "suggested" / "old", (OLD, OLD))
    pruner.prune()
    left = [
        path.name if path.name != "window" else path.parent.name for path in files if path.exists()
    ]

    assert ["new", "default%5.lock", ".one.md.reserved", "one.md"] == left


def test_a_file_of_sqlite_shrinks(tmp_path: Path) -> None:
    """Also one that an older tasuki made, once it is converted."""
    path = tmp_path / "fleet.db"
    with sqlite3.connect(path) as old:
        old.execute("PRAGMA journal_mode=WAL")
        old.execute("CREATE TABLE before (text)")
    old.close()
    database = FleetDatabase(build_sqlite_url(path))
    tables.metadata.create_all(database.engine)
    assert make_shrinkable(database.engine)
    text = "x" * 1000
    insert(database, tables.events, *[{**EVENT, "text": text, "received_at": OLD}] * 5000)
    database.checkpoint_log()
    before = path.stat().st_size
    engine = HandoffEngine(build_sqlite_url(tmp_path / "workflows.db"), "h", lambda *_: True)
    engine.delete_ended = lambda before: 0  # type: ignore[method-assign]
    FleetPruner(database, engine, tmp_path / "fleet", tmp_path, lambda: 30).prune()
    database.checkpoint_log()
    after = path.stat().st_size
    database.close()

    assert before > 5_000_000
    assert after < 1_000_000


def test_workflows_that_ended_go(tmp_path: Path) -> None:
    """The engine forgets what ended long ago; what runs, and what ended lately, stays."""
    go = threading.Event()
    engine = HandoffEngine(
        build_sqlite_url(tmp_path / "workflows.db"), "h", lambda id, *_: id != "slow" or go.wait(60)
    )
    engine.launch()
    try:
        for id in ("old", "new", "slow"):
            engine.begin_handoff(build_handoff(id, "acknowledge", engine.queue))
        assert engine._engine
        query = sa.text("SELECT workflow_uuid, status FROM workflow_status")

        def known() -> dict[str, str]:
            assert engine._engine
            with engine._engine.connect() as connection:
                return {row[0]: row[1] for row in connection.execute(query)}

        retry_until(lambda: list(known().values()).count("SUCCESS") == 2, 20)
        with engine._engine.begin() as connection:
            connection.execute(sa.text(
                "UPDATE workflow_status SET completed_at = 1 WHERE workflow_uuid = 'old-1'"
            ))  # fmt: skip
        deleted = [engine.delete_ended(OLD), engine.delete_ended(OLD)]
        left = sorted(known())
    finally:
        go.set()
        engine.close()

    assert ([1, 0], ["new-1", "slow-1"]) == (deleted, left)


@pytest.mark.long
def test_a_server_prunes_soon_after_its_start(tmp_path: Path) -> None:
    """By the setting `keep_days`, and says so; hooks are answered meanwhile."""
    world = World(tmp_path)
    try:
        world.config(notify="", keep_days=2)
        world.serve()
        for days in (1, 3):
            at = time.time() - days * DAY
            world.sql(f"INSERT INTO events (at, received_at, kind, text) VALUES ({at}, {at}, 'agent', '{days}')")  # fmt: skip
        world.kill(15)
        world.serve()
        retry_until(lambda: "rows older than 2 days" in world.output.read_text(), 40)
        left = [
            row["text"] for row in world.sql("SELECT text FROM events WHERE text IN ('1', '3')")
        ]
    finally:
        world.close()

    assert ["1"] == left
