"""The database of the fleet: which commits wait for the disk, and what is taken out of its log."""

import os
import threading
from pathlib import Path

from tasuki.fleet.hooks import spool
from tasuki.fleet.hosts import identify_host
from tasuki.fleet.store import log
from tasuki.fleet.store.database import FleetDatabase, build_sqlite_url

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
