"""The tables of the fleet: created as `tables.py` says, or brought up to date.

SQLite's file is copied before its tables are changed; the newest copies are kept.
"""

import logging
import os
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.schema import CreateColumn

from tasuki.errors import StoreFailed
from tasuki.fleet.store import tables
from tasuki.fleet.store.database import FleetDatabase
from tasuki.fleet.store.row_rules import keep_own_rows

COPY_MARK = ".before-"
MOST_COPIES = 3
"""Copies of SQLite's file that are kept: the newest."""
BASELINE = "0014"
"""The oldest revision that is brought up to date."""
log = logging.getLogger("tasuki.fleet")
VERSION_TABLE = "fleet_schema"
"""Holds the revision of the tables."""
_VERSION = sa.Table(
    VERSION_TABLE,
    sa.MetaData(),
    sa.Column("version_num", sa.String(32)),
    sa.PrimaryKeyConstraint("version_num", name=f"{VERSION_TABLE}_pkc"),
)


def _add_columns(connection: sa.Connection, *columns: sa.Column[Any]) -> None:
    quote = connection.dialect.identifier_preparer.format_table
    for column in columns:
        definition = CreateColumn(column).compile(connection)
        statement = f"ALTER TABLE {quote(column.table)} ADD COLUMN {definition}"
        connection.exec_driver_sql(statement)


def _upgrade_to_0015(connection: sa.Connection) -> None:
    _add_columns(connection, tables.agents.c.failure)


def _upgrade_to_0016(connection: sa.Connection) -> None:
    _add_columns(connection, tables.hosts.c.public_key, tables.queued_goals.c.host)
    keep_own_rows(connection)


UPGRADES: dict[str, Callable[[sa.Connection], None]] = {
    "0015": _upgrade_to_0015,
    "0016": _upgrade_to_0016,
}
"""For each revision what makes its tables from those of the one before. `tables.py` is the newest."""
NEWEST = max(UPGRADES)


def upgrade_tables(database: FleetDatabase) -> None:
    """Create the tables, or bring older ones up to date, in one transaction.

    A copy of SQLite's file is kept. Two that upgrade at once wait for each other. Raises
    StoreFailed where a newer tasuki created the tables, or one from before the baseline; nothing
    is changed then.
    """
    with database.read() as connection:
        before = read_revision(connection)
    if before == NEWEST:
        return
    _check_revision(database, before)
    if before:
        _keep_copy(database, before)
    with database.write(alone=True) as connection:
        before = read_revision(connection)
        _check_revision(database, before)
        if not before:
            _create_tables(connection)
            return
        for revision in sorted(UPGRADES):
            if revision > before:
                UPGRADES[revision](connection)
        connection.execute(sa.update(_VERSION).values(version_num=NEWEST))


def _create_tables(connection: sa.Connection) -> None:
    """Create the tables; PostgreSQL does not log answers between hosts, which are old after seconds."""
    _VERSION.create(connection, checkfirst=True)
    tables.metadata.create_all(connection)
    for name in ("host_requests", "host_answers") if connection.dialect.name != "sqlite" else ():
        connection.exec_driver_sql(f"ALTER TABLE {name} SET UNLOGGED")
    keep_own_rows(connection)
    connection.execute(sa.insert(_VERSION).values(version_num=NEWEST))


def settle_log(database: FleetDatabase) -> None:
    """Make lines of the log readable that a restored copy of a PostgreSQL database has.

    A new server of PostgreSQL counts transactions from the beginning; lines with greater numbers
    would be left out as unfinished until it has counted that far.
    """
    if database.is_sqlite:
        return
    events = tables.events
    newest = sa.text("(pg_snapshot_xmax(pg_current_snapshot())::text)::bigint")
    with database.write(alone=True) as connection:
        restored = sa.select(events.c.id).where(events.c.xid >= newest).limit(1)
        if connection.execute(restored).first() is not None:
            connection.execute(sa.update(events).values(xid=0))


def _keep_copy(database: FleetDatabase, before: str) -> None:
    """Copy the tables before they are changed; for PostgreSQL log how to. No copy, no change."""
    if database.is_sqlite:
        path = copy_database_file(database.engine, before)
        log.info(
            "The tables are upgraded from %s to %s. A copy of the old ones: %s",
            before,
            NEWEST,
            path,
        )
    else:
        log.info(
            "The tables are upgraded from %s to %s. tasuki does not copy PostgreSQL databases: use pg_dump.",
            before, NEWEST,
        )  # fmt: skip


def read_revision(connection: sa.Connection) -> str:
    """Read the revision of the tables; empty where there are none."""
    if not sa.inspect(connection).has_table(VERSION_TABLE):
        return ""
    return connection.execute(sa.select(_VERSION.c.version_num)).scalars().first() or ""


def _check_revision(database: FleetDatabase, revision: str) -> None:
    if revision in ("", BASELINE, *UPGRADES):
        return
    where = f"The fleet's tables in {database.engine.url.render_as_string(hide_password=True)} were created by"
    if revision < BASELINE:
        raise StoreFailed(
            f"{where} a development version of tasuki (revision {revision}), which this one does not upgrade. "
            "Start with an empty one: move its file away, or name another database: tasuki serve --database-url"
        )
    raise StoreFailed(
        f"{where} a newer tasuki (revision {revision}). "
        "Upgrade this one, or name another database: tasuki serve --database-url"
    )


def copy_database_file(database: sa.Engine, name: str) -> Path:
    """Copy a database of SQLite to `FILE.before-NAME-DATE`, for its owner alone; return the path.

    The copy is whole or absent. It takes a second for each 100 MB. Raises OperationalError;
    OSError where there is no room.
    """
    source = Path(os.path.realpath(database.url.database or ""))
    date = time.strftime("%Y%m%d-%H%M%S")
    target = source.with_name(f"{source.name}{COPY_MARK}{name}-{date}")
    new = source.with_name(f".{target.name}-{secrets.token_hex(4)}")
    number = os.open(new, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
    try:
        with database.connect() as connection:
            raw = connection.connection.driver_connection
            assert raw
            raw.rollback()  # it takes no transaction
            raw.execute("VACUUM INTO ?", (str(new),))
        os.fsync(number)
        os.replace(new, target)
    except BaseException:
        new.unlink(missing_ok=True)
        raise
    finally:
        os.close(number)
    _prune_copies(source, target)
    return target


def _prune_copies(source: Path, newest: Path) -> None:
    """Remove all but the newest copies; `newest` stays, whatever its time."""
    copies = [path for path in source.parent.glob(f"{source.name}{COPY_MARK}*") if path != newest]
    for path in sorted(copies, key=lambda path: path.stat().st_mtime)[: -(MOST_COPIES - 1)]:
        path.unlink(missing_ok=True)
