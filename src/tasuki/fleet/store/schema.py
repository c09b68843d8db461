"""The tables of the fleet: created as `tables.py` says, and left alone where another tasuki made them.

Also which rows of other hosts a host may not write, as PostgreSQL keeps it. All hosts write into the
same tables. A host's role has the host's id in its name, so PostgreSQL knows whose row is written by
whom. Where a row decides what happens on a host, others may not change that: its key, its agents with
their permissions, the handoffs that it carries out. A goal that waits for an agent names the host that
wrote it. Whoever owns the tables is not held up.
"""

import sqlalchemy as sa

from tasuki.errors import StoreFailed
from tasuki.fleet.store import tables
from tasuki.fleet.store.database import FleetDatabase

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


_RULES = {
    "hosts": ("id", "role", "public_key"),
    "agents": (
        "host", "harness", "cwd", "session", "thread", "persona", "pane", "window", "pid", "process",
        "process_began", "model", "permission", "arguments", "goal", "token_hash", "adopted",
    ),
    "handoffs": (
        "host", "queue", "agent_id", "persona", "reason", "context", "goal", "harness", "fork", "worktree",
        "branch", "target_host", "move", "step", "attempt", "from_thread", "file_path",
    ),
    "queued_goals": (),
}  # fmt: skip
"""Of each table the columns that only the row's own host writes."""

_BODY = """
CREATE OR REPLACE FUNCTION tasuki_check_row() RETURNS trigger LANGUAGE plpgsql AS $tasuki$
DECLARE
  own text := 'h' || substring(session_user FROM '^tasuki_host_([0-9a-f]{12})$');
  new_row jsonb := to_jsonb(NEW);
  old_row jsonb := CASE TG_OP WHEN 'UPDATE' THEN to_jsonb(OLD) END;
  host text := new_row ->> TG_ARGV[0];
  name text;
BEGIN
  IF TG_TABLE_NAME = 'queued_goals' THEN  -- whoever has the agent asks its policy
    IF (new_row -> 'text', new_row -> 'persona') IS DISTINCT FROM (old_row -> 'text', old_row -> 'persona') THEN
      NEW.host := coalesce(own, '');
    ELSIF old_row IS NOT NULL THEN
      NEW.host := old_row ->> 'host';
    END IF;
    RETURN NEW;
  ELSIF own IS NULL OR host = own THEN
    RETURN NEW;
  ELSIF old_row ->> 'target_host' <> '' AND own IN (old_row ->> 'host', old_row ->> 'target_host')
      AND old_row -> 'target_host' = new_row -> 'target_host' THEN  -- a move, which is signed
    RETURN NEW;
  END IF;
  FOREACH name IN ARRAY TG_ARGV LOOP
    IF new_row -> name IS DISTINCT FROM old_row -> name THEN
      RAISE EXCEPTION 'Only % writes % of this row in %.', host, name, TG_TABLE_NAME USING ERRCODE = '42501';
    END IF;
  END LOOP;
  RETURN NEW;
END
$tasuki$
"""


def keep_own_rows(connection: sa.Connection) -> None:
    """Make the rules, or bring them up to date; SQLite has one host and needs none."""
    if connection.dialect.name == "sqlite":
        return
    connection.exec_driver_sql(_BODY.replace("%", "%%"))
    for table, columns in _RULES.items():
        words = ", ".join(f"'{word}'" for word in ("id" if table == "hosts" else "host", *columns))
        connection.exec_driver_sql(
            f"CREATE OR REPLACE TRIGGER tasuki_own_rows BEFORE INSERT OR UPDATE ON {table} "
            f"FOR EACH ROW EXECUTE FUNCTION tasuki_check_row({words})"
        )
