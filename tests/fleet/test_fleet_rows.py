"""The engine's rows are JSON: a pickled one runs nothing, whoever wrote it."""

import base64
import pickle
import sqlite3
import time
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from databases import Postgres
from fleets import World, once, world_at
from joins import connected, printed_command, two_hosts
from waiting import retry_until

from tasuki.fleet.membership.urls import read_url
from tasuki.fleet.store.database import FleetDatabase, build_sqlite_url

REFUSED = "A pickled row in the database of the engine was refused"


class Touch:
    """Unpickled, it makes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return open, (str(self.path), "w")


def encode(value: Any) -> str:
    """Write a value as DBOS's default serializer does."""
    return base64.b64encode(pickle.dumps(value)).decode()


def build_row(host: str, made: Path) -> dict[str, Any]:
    """A workflow on a host's queue whose arguments make a file."""
    now = int(time.time() * 1000)
    return {
        "workflow_uuid": f"hostile-{now}", "status": "ENQUEUED", "name": "order", "created_at": now, "updated_at": now,
        "application_version": "fleet-1", "application_name": "tasuki", "queue_name": f"host-{host}", "priority": 0,
        "recovery_attempts": 0, "serialization": "py_pickle", "inputs": encode({"args": (Touch(made),), "kwargs": {}}),
    }  # fmt: skip


def check_refused(world: World, made: Path, state: str) -> None:
    """The refusal is said once, the row has failed, and the server goes on."""
    assert (False, "ERROR") == (made.exists(), state)
    retry_until(lambda: any(REFUSED in alarm["text"] for alarm in world.alarms()), 30)

    assert REFUSED in world.output.read_text()
    assert "ok" == world.api("GET", "/health")["status"]


def test_a_pickled_row_in_a_file_runs_nothing(tmp_path: Path, worlds: ExitStack) -> None:
    """It is not read; the log and an alarm say so, and the server goes on."""
    world = world_at(worlds, tmp_path)
    world.serve()
    (host,) = world.sql("SELECT id FROM hosts")
    made = tmp_path / "made"
    row = build_row(host["id"], made)
    with closing(sqlite3.connect(world.data / "fleet" / "workflows.db", isolation_level=None)) as file:  # fmt: skip
        marks = ", ".join("?" * len(row))
        file.execute(
            f"INSERT INTO workflow_status ({', '.join(row)}) VALUES ({marks})", [*row.values()]
        )
        query = "SELECT status FROM workflow_status WHERE workflow_uuid LIKE 'hostile%'"
        retry_until(lambda: file.execute(query).fetchone()[0] == "ERROR", 20)
        state = file.execute(query).fetchone()[0]

    check_refused(world, made, state)


def test_a_pickled_row_of_another_host_runs_nothing(
    tmp_path: Path, worlds: ExitStack, owner_url: str, guarded: Postgres
) -> None:
    """PostgreSQL does not take it; where that rule is gone, the server does not read it."""
    one, two = two_hosts(worlds, tmp_path, owner_url)
    two.tasuki(*printed_command(one, guarded))
    (host,) = one.sql("SELECT id FROM hosts WHERE label = 'first'")
    made = tmp_path / "made"
    row = build_row(host["id"], made)
    marks = ", ".join(["%s"] * len(row))
    statement = f"INSERT INTO tasuki_workflows.workflow_status ({', '.join(row)}) VALUES ({marks})".encode()  # fmt: skip
    find_state = (
        "SELECT status FROM tasuki_workflows.workflow_status WHERE workflow_uuid LIKE 'hostile%'"
    )
    with connected(read_url(two.data / "fleet")) as connection:
        with pytest.raises(psycopg.errors.CheckViolation, match="only_json"):
            connection.execute(statement, [*row.values()])
        one.sql("ALTER TABLE tasuki_workflows.workflow_status DROP CONSTRAINT only_json")
        connection.execute(statement, [*row.values()])
    retry_until(lambda: one.sql(find_state)[0]["status"] == "ERROR", 20)
    with_rule = one.sql(
        "SELECT conrelid::regclass::text AS name FROM pg_constraint WHERE conname = 'only_json'"
    )

    check_refused(one, made, one.sql(find_state)[0]["status"])
    assert {"notifications", "operation_outputs", "streams", "workflow_events", "workflow_events_history"} == {
        row["name"].rpartition(".")[2] for row in with_rule
    }  # fmt: skip


def test_what_a_development_version_pickled_is_dropped(
    tmp_path: Path, worlds: ExitStack, database_url: str
) -> None:
    """Its handoff fails, and goes on when it is retried; none is pickled any more."""
    world = world_at(worlds, tmp_path, database_url)
    world.serve()
    world.install()
    world.script(document=[["document", "{path}"], ["say", "written"]])
    agent = world.worked(world.started())
    world.kill()
    world.serve(at="check:before")
    of = world.hand_off(agent)
    world.kill_at_point()
    made = tmp_path / "made"
    engine = FleetDatabase(database_url if "postgres" in database_url else build_sqlite_url(world.data / "fleet" / "workflows.db"))  # fmt: skip
    prefix = "" if engine.is_sqlite else "tasuki_workflows."
    with engine.write() as connection:
        if prefix:
            connection.execute(
                sa.text(f"ALTER TABLE {prefix}workflow_status DROP CONSTRAINT only_json")
            )
        words = {
            "id": of,
            "inputs": encode({"args": (of, 1, "instruct", False, False), "kwargs": {}}),
        }
        connection.execute(
            sa.text(
                f"UPDATE {prefix}workflow_status SET serialization = 'py_pickle' WHERE name = 'handoff'"
            )
        )
        updated = connection.execute(
            sa.text(
                f"UPDATE {prefix}workflow_input SET inputs = :inputs WHERE workflow_uuid LIKE :id || '%'"
            ),
            words,
        )
        row = build_row("h0000000000a1", made)
        names = ", ".join(row)
        connection.execute(
            sa.text(
                f"INSERT INTO {prefix}workflow_status ({names}) VALUES ({', '.join(f':{name}' for name in row)})"
            ),
            row,
        )

    world.serve()

    failure = world.failed(of)
    world.api("POST", f"/api/handoffs/{of}/retry")
    once(world, world.ends(of))
    with engine.read() as connection:
        kinds = (
            connection.execute(
                sa.text(f"SELECT DISTINCT serialization FROM {prefix}workflow_status")
            )
            .scalars()
            .all()
        )
    engine.close()
    assert ("unexpected", 1) == (failure, updated.rowcount)
    assert not made.exists()
    assert ["portable_json"] == kinds
