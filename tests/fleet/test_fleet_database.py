"""The database of the fleet: which commits wait for the disk, and what is taken out of its log."""

import os
import re
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from databases import Postgres
from tree import ROOT

from tasuki.fleet.hooks import spool
from tasuki.fleet.hooks.correlator import HookPost, ReceivedEvent, load_batch_rows
from tasuki.fleet.hosts import FleetHost, identify_host
from tasuki.fleet.server_locks import build_claim
from tasuki.fleet.store import connections, log, tables
from tasuki.fleet.store.database import (
    FleetDatabase,
    build_sqlite_url,
    create_engine,
    is_temporary,
)
from tasuki.harness.protocol import AgentEvent

pytestmark = pytest.mark.both_databases

FULL, NORMAL = 2, 1


def test_a_commit_waits_for_the_disk_unless_it_need_not(tmp_path: Path) -> None:
    """SQLite's `synchronous` of one connection follows what each transaction wants."""
    database = FleetDatabase(build_sqlite_url(tmp_path / "fleet.db"))
    seen = []
    for synced in (True, False, False, True):
        with database.write(synced=synced) as connection:
            seen.append(connection.exec_driver_sql("PRAGMA synchronous").scalar_one())
        with database.read():
            pass
    database.close()

    assert seen == [FULL, NORMAL, NORMAL, FULL]


def test_there_is_one_writer_at_a_time(database: FleetDatabase) -> None:
    """On PostgreSQL too: ids of the log follow the order of commits, and no two wait for each other."""
    written: list[str] = []

    def second() -> None:
        with database.write() as connection:
            log.note(connection, "agent", "second")
            written.append("second")

    with database.write() as connection:
        other = threading.Thread(target=second)
        other.start()
        other.join(0.3)
        log.note(connection, "agent", "first")
        written.append("first")
    other.join(20)

    assert written == ["first", "second"]


@pytest.fixture
def fleet(postgres: Postgres) -> Iterator[FleetDatabase]:
    """The tables in PostgreSQL."""
    database = FleetDatabase(postgres.make(), "h")
    yield database
    database.close()
    postgres.drop(database.url)


def build_line(event_id: str) -> dict[str, Any]:
    """A line of the log."""
    return {
        "event_id": event_id, "at": 1.0, "received_at": 1.0, "kind": "prompt", "agent_id": None,
        "handoff_id": None, "text": "", "data": {},
    }  # fmt: skip


def write_lines(database: FleetDatabase, *lines: list[str], first: str = "") -> None:
    """Write lines in one transaction, those of each list by one statement; `first` before them."""
    with database.write_after_reading(count_lines) as (connection, _):
        if first:
            query = sa.insert(tables.events).values(build_line(first)).returning(tables.events.c.id)
            connection.execute(query).scalar_one()
        with database.commit_together(connection):
            for some in lines:
                log.write_lines(connection, list(map(build_line, some)))


def count_lines(connection: sa.Connection) -> int:
    """How many lines the log has."""
    return int(
        connection.execute(sa.select(sa.func.count()).select_from(tables.events)).scalar_one()
    )


def read_count(database: FleetDatabase) -> int:
    """The same, by another connection."""
    with database.read() as connection:
        return count_lines(connection)


@pytest.mark.parametrize("first", ["", "first"])
@pytest.mark.parametrize(
    "lines",
    [
        [["b"], ["known"]], [["known"], ["b"], ["c"]], [["b"], ["c", "known", "d"], ["e"]],
        [["b", "c"], ["d", "e", "known"]],
    ],
    ids=lambda lines: "-".join("+".join(some) for some in lines),
)  # fmt: skip
def test_what_is_committed_together_is_written_whole_or_not_at_all(
    fleet: FleetDatabase, lines: list[list[str]], first: str
) -> None:
    """A statement that fails takes the others with it, says which rule it broke, and harms nothing later."""
    write_lines(fleet, ["known"])
    with pytest.raises(sa.exc.IntegrityError, match="unique constraint") as refused:
        write_lines(fleet, *lines, first=first)
    after_failure = read_count(fleet)
    write_lines(fleet, ["f"], ["g", "h"], first="i")
    write_lines(fleet)
    with fleet.engine.connect() as connection:
        raw = connection.connection.driver_connection
        assert raw
        left = (raw.autocommit, raw.info.transaction_status, raw.info.pipeline_status)

    assert not is_temporary(refused.value)
    assert (1, 5) == (after_failure, read_count(fleet))
    assert (False, 0, 0) == left


def test_a_connection_that_breaks_before_a_commit_is_told_as_temporary(
    fleet: FleetDatabase, postgres: Postgres
) -> None:
    """Nothing is written, and the next transaction gets another connection."""

    def find_process(connection: sa.Connection) -> int:
        return int(connection.execute(sa.select(sa.func.pg_backend_pid())).scalar_one())

    def break_and_write() -> None:
        with fleet.write_after_reading(find_process) as (connection, process):
            postgres.tell(f"SELECT pg_terminate_backend({process}, 5000)")
            with fleet.commit_together(connection):
                log.write_lines(connection, [build_line("a")])

    with pytest.raises(sa.exc.OperationalError) as broken:
        break_and_write()
    before = read_count(fleet)
    write_lines(fleet, ["b"])

    assert is_temporary(broken.value)
    assert (0, 1) == (before, read_count(fleet))


def test_the_rows_of_a_batch_are_those_of_their_tables(fleet: FleetDatabase) -> None:
    """PostgreSQL tells them as JSON: every value of every column comes back as it is."""
    with fleet.write() as connection:
        connection.execute(sa.insert(tables.personas).values(
            slug="dev-con-1", role="dev", name="con", number=1, folder="/ü\\\"'", created_at=1.1, threshold=66.6,
        ))  # fmt: skip
        for number in range(3):
            connection.execute(sa.insert(tables.agents).values(
                harness="claude", state="busy", state_at=1795664100.7006894 + number / 3, cwd="/\n\u2028 %s", host="h",
                started_at=1795664100.0, session="s" if number else "other", children=["a", {"b": [1, None]}],
                persona="dev-con-1", token_hash="" if number else "digest", context_used=99.999999999999 / 3,
            ))  # fmt: skip
            connection.execute(sa.insert(tables.intents).values(
                id=f"i{number}", agent_id=number + 1, kind="send", pane="%1", proof="{}", created_at=0.1 + number,
                state="proven", proven_at=1e-9, turn="t", end={"words": "ü"} if number else None,
            ))  # fmt: skip
        connection.execute(sa.insert(tables.events).values(build_line("seen")))
    events = [
        ReceivedEvent(HookPost("claude", b"", event_id=id), AgentEvent("idle", "s"), 1.0)
        for id in ("seen", "new")
    ]
    with fleet.read() as connection:
        rows = load_batch_rows(connection, events, "h")
        mine = tables.agents.c.session == "s"
        query = sa.select(tables.agents).where(mine).order_by(tables.agents.c.id)
        agents = [dict(row) for row in connection.execute(query).mappings()]
        query = sa.select(tables.intents).where(tables.intents.c.agent_id.in_([2, 3]))
        query = query.order_by(tables.intents.c.created_at.desc())
        intents = [dict(row) for row in connection.execute(query).mappings()]
        persona = dict(connection.execute(sa.select(tables.personas)).mappings().one())

    assert {"seen"} == rows.seen
    assert (2, agents) == (len(agents), rows.agents)
    assert (2, intents) == (len(intents), rows.intents)
    assert rows.personas is not None
    assert {"dev-con-1": persona} == {slug: vars(row) for slug, row in rows.personas.items()}


def test_a_newer_status_line_is_not_taken_for_the_one_before(tmp_path: Path) -> None:
    """The hook writes its file anew while the old one is taken in: the new one stays."""
    event = tmp_path / "status-s.json"
    event.write_text("harness: claude\n\n{}")
    own = spool.claim_file(event)
    event.write_text("harness: claude\n\n{}")
    own.unlink()

    assert (list(spool.list_waiting(tmp_path)), own.suffix) == ([event], ".json")


def test_what_is_left_in_the_spool_goes_after_a_week(tmp_path: Path) -> None:
    """What was set aside or half written, and nothing that is an event."""
    for name in ("1.json", "old.bad", ".half"):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (1, 1))
    (tmp_path / "new.bad").touch()
    spool.clean_folder(tmp_path)

    assert sorted(os.listdir(tmp_path)) == ["1.json", "new.bad"]


def test_a_folder_that_another_machine_sees_knows_each(tmp_path: Path) -> None:
    """Copied or shared: no machine takes the agents of another one for its own."""
    ids = tmp_path / "a-id", tmp_path / "b-id"
    for path in ids:
        path.write_text(f"{path.name}\n")
    a, b = (identify_host(tmp_path, [path]).id for path in ids)
    without = identify_host(tmp_path, [tmp_path / "missing"]).id

    assert len({a, b, without}) == 3
    assert [identify_host(tmp_path, [path]).id for path in (*ids, tmp_path)] == [a, b, without]


# -- connections to PostgreSQL ---------------------------------------------------------


def test_every_connection_gives_a_silent_network_up(fleet: FleetDatabase) -> None:
    """Those of the pools, of the lock and of the listener: on this side, and on PostgreSQL's for their locks."""
    url = f"{fleet.url}&tcp_user_timeout=3000"
    claim = build_claim(fleet.url, FleetHost("h0123456789ab", "h", ()))
    engines = [fleet.engine, create_engine(url, pool_size=1), vars(claim)["_engine"]]
    opened = [engine.raw_connection() for engine in engines]
    raws: list[Any] = [one.driver_connection for one in opened]
    raws.append(connections.connect_alone(fleet.url, application_name="listens"))
    limits = [
        {name: raw.info.get_parameters().get(name) for name in connections.PARAMETERS}
        for raw in raws
    ]
    there = [raw.execute("SHOW idle_in_transaction_session_timeout").fetchone()[0] for raw in raws]
    for one in (*opened, raws[-1]):
        one.close()
    for engine in engines[1:]:
        engine.dispose()

    usual = {name: str(value) for name, value in connections.PARAMETERS.items()}
    assert [usual, {**usual, "tcp_user_timeout": "3000"}, usual, usual] == limits
    assert ["1min"] * 4 == there


def test_connections_to_postgresql_are_opened_in_one_place() -> None:
    """Elsewhere they would lack the limits."""
    calls = re.compile(r"\bpsycopg\.connect\(|\bsa\.create_engine\(")
    found = {
        path.name: len(calls.findall(path.read_text()))
        for path in (ROOT / "src").rglob("*.py")
        if calls.search(path.read_text())
    }

    # the one of database.py is SQLite's
    assert {"connections.py": 2, "database.py": 1} == found


def test_waiting_too_long_for_a_connection_is_temporary(
    fleet: FleetDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While each connection of the pool waits for PostgreSQL, the next one who wants one is told so."""
    monkeypatch.setattr(connections, "POOL_SECONDS", 0.1)
    database = FleetDatabase(fleet.url)
    with ExitStack() as held:
        for _ in range(connections.POOL_SIZE + connections.POOL_OVERFLOW):
            held.enter_context(database.engine.connect())
        with pytest.raises(sa.exc.OperationalError) as full:
            database.engine.connect()
    database.close()

    assert is_temporary(full.value)
