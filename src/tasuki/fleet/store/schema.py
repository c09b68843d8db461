"""The tables of the fleet: created as `tables.py` says, and left alone where another tasuki made them."""

import sqlalchemy as sa

from tasuki.errors import StoreFailed
from tasuki.fleet.store import tables
from tasuki.fleet.store.database import FleetDatabase
from tasuki.fleet.store.row_rules import keep_own_rows

NEWEST = "0016"
"""The revision of the tables as they are now."""
VERSION_TABLE = "fleet_schema"
"""Holds the revision of the tables."""
_VERSION = sa.Table(
    VERSION_TABLE,
    sa.MetaData(),
    sa.Column("version_num", sa.String(32)),
    sa.PrimaryKeyConstraint("version_num", name=f"{VERSION_TABLE}_pkc"),
)


def create_tables(database: FleetDatabase) -> None:
    """Create the tables, in one transaction. Two that do so at once wait for each other.

    Raises StoreFailed where another revision of tasuki created them; nothing is changed then.
    """
    with database.read() as connection:
        before = read_revision(connection)
    if before == NEWEST:
        return
    _check_revision(database, before)
    with database.write(alone=True) as connection:
        before = read_revision(connection)
        _check_revision(database, before)
        if not before:
            _create_tables(connection)


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


def read_revision(connection: sa.Connection) -> str:
    """Read the revision of the tables; empty where there are none."""
    if not sa.inspect(connection).has_table(VERSION_TABLE):
        return ""
    return connection.execute(sa.select(_VERSION.c.version_num)).scalars().first() or ""


def _check_revision(database: FleetDatabase, revision: str) -> None:
    if revision in ("", NEWEST):
        return
    where = f"The fleet's tables in {database.engine.url.render_as_string(hide_password=True)} were created by"
    if revision < NEWEST:
        raise StoreFailed(
            f"{where} a development version of tasuki (revision {revision}), which this one does not upgrade. "
            "Start with an empty one: move its file away, or name another database: tasuki serve --database-url"
        )
    raise StoreFailed(
        f"{where} a newer tasuki (revision {revision}). "
        "Upgrade this one, or name another database: tasuki serve --database-url"
    )
