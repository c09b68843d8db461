"""The fleet's tables are made at once, or brought up to date, on both kinds of database."""

import os
import resource
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from databases import Postgres

from tasuki.errors import StoreFailed
from tasuki.fleet.store import schema, tables
from tasuki.fleet.store.database import FleetDatabase

pytestmark = pytest.mark.both_databases


@pytest.fixture(params=["sqlite", "postgresql"])
def empty(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[FleetDatabase]:
    """A database of each kind without any table."""
    if request.param == "sqlite":
        made = FleetDatabase(f"sqlite:///{tmp_path / 'fleet.db'}")
        yield made
        made.close()
        return
    server = request.getfixturevalue("postgres")
    url = server.make(template="template1")
    made = FleetDatabase(url)
    yield made
    made.close()
    server.drop(url)


ADDED = (("agents", "failure"), ("hosts", "public_key"), ("queued_goals", "host"))
"""The columns that the baseline lacks."""


def write_baseline(database: FleetDatabase, revision: str = schema.BASELINE) -> None:
    """Make the tables of the baseline, and a line in the log."""
    schema.upgrade_tables(database)
    with database.write() as connection:
        for table, column in ADDED:
            connection.exec_driver_sql(f"ALTER TABLE {table} DROP COLUMN {column}")
        row = {"at": 1.0, "received_at": 1.0, "kind": "agent", "text": "kept"}
        connection.execute(sa.insert(tables.events).values(**row))
        write_revision(connection, revision)


def write_revision(connection: sa.Connection, revision: str) -> None:
    """Write another revision than that of the tables."""
    version = sa.table(schema.VERSION_TABLE, sa.column("version_num"))
    connection.execute(sa.update(version).values(version_num=revision))


def seen(database: FleetDatabase) -> dict[str, Any]:
    """What a database says of its tables: columns, keys, indexes."""
    inspector = sa.inspect(database.engine)
    return {
        name: (
            [{**column, "type": str(column["type"])} for column in inspector.get_columns(name)],
            inspector.get_pk_constraint(name),
            sorted(inspector.get_foreign_keys(name), key=str),
            sorted(inspector.get_unique_constraints(name), key=str),
            sorted(map(index, inspector.get_indexes(name))),
        )
        for name in tables.metadata.tables
    }


def index(found: Any) -> str:
    """An index in words, its condition among them."""
    options = {name: str(value) for name, value in found.get("dialect_options", {}).items()}
    return str({**found, "dialect_options": options})


def test_upgraded_tables_are_those_of_a_new_database(empty: FleetDatabase) -> None:
    """Columns, their order, defaults, keys and indexes are the same; rows stay."""
    schema.upgrade_tables(empty)
    new = seen(empty)
    write_baseline(empty)
    old = seen(empty)
    schema.upgrade_tables(empty)

    assert old != new == seen(empty)
    with empty.read() as connection:
        assert ["kept"] == list(connection.execute(sa.select(tables.events.c.text)).scalars())
        assert schema.NEWEST == schema.read_revision(connection)


def test_answers_between_hosts_are_not_in_the_log_of_postgresql(postgres: Postgres) -> None:
    """They are old after seconds."""
    database = FleetDatabase(postgres.make())
    query = sa.text("SELECT relname FROM pg_class WHERE relpersistence = 'u' AND relkind = 'r'")
    with database.read() as connection:
        found = set(connection.execute(query).scalars())
    database.close()

    assert {"host_answers", "host_requests"} == found


def test_an_upgrade_of_current_tables_changes_nothing(database: FleetDatabase) -> None:
    """The rows stay."""
    with database.write() as connection:
        row = {"at": 1.0, "received_at": 1.0, "kind": "agent", "text": "kept"}
        connection.execute(sa.insert(tables.events).values(**row))

    schema.upgrade_tables(database)

    with database.read() as connection:
        assert ["kept"] == list(connection.execute(sa.select(tables.events.c.text)).scalars())


def test_two_upgrades_at_once_wait_for_each_other(empty: FleetDatabase) -> None:
    """Four servers that start at one moment on an empty database all succeed."""
    program = (
        "import sys; from tasuki.fleet.store import schema\n"
        "from tasuki.fleet.store.database import FleetDatabase\n"
        "print('ready', flush=True); sys.stdin.read(1); schema.upgrade_tables(FleetDatabase(sys.argv[1]))"
    )
    command = (sys.executable, "-c", program, empty.url)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    running = [subprocess.Popen(command, **pipes, text=True, bufsize=1) for _ in range(4)]
    for one in running:
        assert one.stdout
        assert "ready\n" == one.stdout.readline()
    for one in running:
        assert one.stdin
        one.stdin.write("x")
        one.stdin.flush()

    assert [""] * 4 == [one.communicate(timeout=120)[1] for one in running]
    with empty.read() as connection:
        assert schema.NEWEST == schema.read_revision(connection)


@pytest.mark.parametrize(
    ("revision", "words"),
    [
        ("9999", r"newer tasuki \(revision 9999\)\. Upgrade this one"),
        ("0013", r"development version of tasuki \(revision 0013\).* Start with an empty one"),
    ],
)
def test_other_tables_are_refused(database: FleetDatabase, revision: str, words: str) -> None:
    """Tables of a newer tasuki, or of one from before the baseline, are not touched."""
    with database.write() as connection:
        write_revision(connection, revision)

    with pytest.raises(StoreFailed, match=words):
        schema.upgrade_tables(database)


# -- copies ----------------------------------------------------------------------------


def older(folder: Path) -> FleetDatabase:
    """A database of SQLite with the tables of the baseline."""
    database = FleetDatabase(f"sqlite:///{folder / 'fleet.db'}")
    write_baseline(database)
    return database


def test_a_copy_is_kept_before_the_tables_are_changed(tmp_path: Path) -> None:
    """It has the older revision and every row, is its owner's alone, and the last three stay."""
    for number in range(4):
        old = tmp_path / f"fleet.db.before-0000-2020010{number}"
        old.write_text("")
        os.utime(old, (number, number))
    database = older(tmp_path)
    schema.upgrade_tables(database)
    schema.upgrade_tables(database)
    database.close()
    names = sorted(path.name for path in tmp_path.glob("*.before-*"))
    (copy,) = tmp_path.glob("fleet.db.before-0014-*")
    with sqlite3.connect(copy) as kept:
        rows = kept.execute("SELECT version_num, text FROM fleet_schema, events").fetchall()
    kept.close()

    assert [(schema.BASELINE, "kept")] == rows
    assert 0o600 == copy.stat().st_mode & 0o777
    assert [copy.name, "fleet.db.before-0000-20200102", "fleet.db.before-0000-20200103"] == [
        names[-1], *names[:-1],
    ]  # fmt: skip


def test_nothing_is_changed_where_no_copy_can_be_kept(tmp_path: Path) -> None:
    """The disk takes no more: the tables stay as they are, and nothing half written lies about."""
    database = older(tmp_path)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, limits[1]))
    try:
        with pytest.raises((sa.exc.DBAPIError, sqlite3.Error, OSError)):
            schema.upgrade_tables(database)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    with database.read() as connection:
        assert schema.BASELINE == schema.read_revision(connection)
    database.close()

    assert [] == [path.name for path in tmp_path.iterdir() if "before" in path.name]
