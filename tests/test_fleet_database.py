"""The database of the fleet: which commits wait for the disk, and what is taken out of its log."""

import time
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from tasuki.fleet import log, tables
from tasuki.fleet.changes import Changes
from tasuki.fleet.database import Database, sqlite_url
from tasuki.fleet.intake import Intake
from tasuki.fleet.watch import Watch

FULL, NORMAL = 2, 1


def test_a_commit_waits_for_the_disk_unless_it_need_not(tmp_path: Path) -> None:
    """SQLite's `synchronous` of one connection follows what each transaction wants."""
    database = Database(sqlite_url(tmp_path / "fleet.db"))
    seen = []
    for synced in (True, False, False, True):
        with database.write(synced=synced) as connection:
            seen.append(connection.exec_driver_sql("PRAGMA synchronous").scalar_one())
        with database.read():
            pass
    database.close()

    assert seen == [FULL, NORMAL, NORMAL, FULL]


def test_old_lines_of_the_log_are_pruned_piece_by_piece(database: Database) -> None:
    """More of them than go in one transaction; the new one stays."""
    row: dict[str, Any] = {"kind": "idle", "at": 1.0, "text": "", "data": {}}
    old = [{**row, "received_at": 1.0}] * (2 * log.PRUNED + 1)
    with database.write() as connection:
        connection.execute(sa.insert(tables.events), [*old, {**row, "received_at": time.time()}])
    intake = Intake(database, Changes(), "h", skill=str, threshold=80.0, after=lambda *_: None)
    watch = Watch(
        database, None, None, intake, Path("/nowhere"), lambda: None, lambda *_: None, lambda _: None, 80.0
    )  # type: ignore[arg-type]  # fmt: skip
    watch.prune()

    with database.read() as connection:
        left = connection.execute(sa.select(sa.func.count()).select_from(tables.events))

        assert left.scalar_one() == 1
