"""The tables of the fleet, brought up to date by the migrations in `migrations/`.

SQLite's file is copied before its tables are changed; the newest copies are kept.

Alembic is imported only where a migration is needed, which is rare at a start: it takes 11
MB.
"""

import logging
import os
import secrets
import time
from pathlib import Path
from typing import TYPE_CHECKING

import sqlalchemy as sa

from tasuki.errors import StoreFailed
from tasuki.fleet.store import tables
from tasuki.fleet.store.database import FleetDatabase

if TYPE_CHECKING:
    from alembic.config import Config

COPY_MARK = ".before-"
MOST_COPIES = 3
"""Copies of SQLite's file that are kept: the newest."""
MIGRATIONS = Path(__file__).with_name("migrations")
NEWEST = "0015"
"""The revision that the code works with: that of the last migration."""
log = logging.getLogger("tasuki.fleet")
VERSION_TABLE = "fleet_schema"
"""Holds the revision of the tables; not Alembic's own name, which another program may use."""


def upgrade_tables(database: FleetDatabase) -> None:
    """Create the tables, or bring older ones up to date, in one transaction.

    A copy of SQLite's file is kept. Two that upgrade at once wait for each other. Raises
    StoreFailed where the tables were created by a newer tasuki; nothing is changed then.
    """
    with database.read() as connection:
        before = read_revision(connection)
        if before == NEWEST:
            return
    from alembic import command

    config = build_configuration()
    if before:
        with database.read() as connection:
            _refuse_newer(connection, config)
        _keep_copy(database, before)
    with database.write(alone=True) as connection:
        _refuse_newer(connection, config)
        config.attributes["connection"] = connection
        command.upgrade(config, "head")


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


def build_configuration() -> "Config":
    """Build Alembic's configuration; the migrations run on `attributes["connection"]`."""
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config


def read_revision(connection: sa.Connection) -> str:
    """Read the revision of the tables; empty where there are none."""
    if not sa.inspect(connection).has_table(VERSION_TABLE):
        return ""
    version = sa.table(VERSION_TABLE, sa.column("version_num", sa.Text))
    return connection.execute(sa.select(version.c.version_num)).scalars().first() or ""


def _refuse_newer(connection: sa.Connection, config: "Config") -> None:
    from alembic.script import ScriptDirectory

    known_revisions = {
        script.revision for script in ScriptDirectory.from_config(config).walk_revisions()
    }
    if (current := read_revision(connection)) and current not in known_revisions:
        address = connection.engine.url.render_as_string(hide_password=True)
        raise StoreFailed(
            f"The fleet's tables in {address} were created by a newer tasuki (revision {current}). "
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
