"""The fleet's tables are made at once, and others are refused, on both kinds of database."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

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


def write_revision(connection: sa.Connection, revision: str) -> None:
    """Write another revision than that of the tables."""
    version = sa.table(schema.VERSION_TABLE, sa.column("version_num"))
    connection.execute(sa.update(version).values(version_num=revision))


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

    schema.create_tables(database)

    with database.read() as connection:
        assert ["kept"] == list(connection.execute(sa.select(tables.events.c.text)).scalars())


def test_two_upgrades_at_once_wait_for_each_other(empty: FleetDatabase) -> None:
    """Four servers that start at one moment on an empty database all succeed."""
    program = (
        "import sys; from tasuki.fleet.store import schema\n"
        "from tasuki.fleet.store.database import FleetDatabase\n"
        "print('ready', flush=True); sys.stdin.read(1); schema.create_tables(FleetDatabase(sys.argv[1]))"
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
        ("0015", r"development version of tasuki \(revision 0015\).* Start with an empty one"),
    ],
)
def test_other_tables_are_refused(database: FleetDatabase, revision: str, words: str) -> None:
    """Tables of a newer tasuki, or of one from before the baseline, are not touched."""
    with database.write() as connection:
        write_revision(connection, revision)

    with pytest.raises(StoreFailed, match=words):
        schema.create_tables(database)
