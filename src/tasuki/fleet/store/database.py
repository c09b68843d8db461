"""The database of the fleet: SQLite without any set-up, or PostgreSQL by its URL."""

import logging
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError, OperationalError

from tasuki.errors import StoreFailed
from tasuki.fleet.store.connections import create_postgres_engine

PATIENCE = 2.0
"""Seconds for which an absent database is retried; steps and events start over and wait longer."""
BUSY_SECONDS = 30.0
WAL_PAGES = 40_000
"""Pages of SQLite's log after which a commit moves them itself (100 ms); see `checkpoint_log`."""
TIDY_PAGES = 8_000
"""Pages of SQLite's log after which `checkpoint_log` restarts it."""
LEAST_ROOM = 64 << 10
"""A disk with fewer free bytes counts as full."""
INCREMENTAL = 2
CONVERTED_BYTES = 128 << 20
"""Larger SQLite files are not made shrinkable at the start: 100 MB take a second."""
WRITE_LOCK = 7_265_827
"""PostgreSQL's advisory lock for writes that must be alone in the whole fleet."""

_AWAY = ("locked", "busy", "unable to open", "disk", "readonly", "read-only")
"""What SQLite says when its file cannot be used for now."""
_AWAY_CODES = ("08", "53", "57P", "40", "55P03")
"""SQLSTATEs of PostgreSQL that pass: no connection, no room, shutdown, a deadlock, a lock."""

_LOCK_FLEET = sa.select(sa.func.pg_advisory_xact_lock(WRITE_LOCK))

log = logging.getLogger("tasuki.fleet")
T = TypeVar("T")


def build_sqlite_url(path: Path) -> str:
    """Build the URL of a SQLite file."""
    return f"sqlite:///{path}"


def normalize_url(url: str) -> str:
    """Normalize a URL that a person wrote to the driver that tasuki brings. Raises StoreFailed."""
    for short in ("postgres://", "postgresql://"):
        if url.startswith(short):
            url = f"postgresql+psycopg://{url.removeprefix(short)}"
    if url.startswith(("postgresql+psycopg://", "sqlite:///")):
        try:
            parsed = sa.make_url(url)
            parsed.port  # noqa: B018 it may be no number
        except (sa.exc.ArgumentError, ValueError) as error:
            raise StoreFailed(
                "The URL of the database cannot be parsed: write a special character in the password as "
                "%40 for @, and the port as a number. Fix --database-url, or TASUKI_DATABASE_URL."
            ) from error
        if url.startswith("sqlite") and parsed.database in (None, "", ":memory:"):
            raise StoreFailed(
                "A fleet outlives its server, so it needs a file: sqlite:////WHOLE/PATH"
            )
        if url.startswith("sqlite") and parsed.query:
            raise StoreFailed(
                f"A file of SQLite takes no options: leave ?{url.partition('?')[2]} out."
            )
        return url
    raise StoreFailed(
        f"{url.partition(':')[0]!r} is not a kind of database that tasuki supports. "
        "Use postgresql://USER@HOST/NAME, or sqlite:////WHOLE/PATH, or leave --database-url out."
    )


def create_engine(url: str, *, synced: bool = True, **options: Any) -> sa.Engine:
    """Create an engine that keeps what was committed: WAL, full syncs, a long busy timeout.

    `synced` False: SQLite's commits do not wait for the disk, see `FleetDatabase.write`.
    """
    url = normalize_url(url)
    if not url.startswith("sqlite"):
        return create_postgres_engine(url, **options)
    sql_engine = sa.create_engine(
        url, connect_args={"timeout": BUSY_SECONDS}, pool_use_lifo=True, **options
    )
    sa.event.listen(sql_engine, "connect", partial(_on_connect, synced=synced))
    return sql_engine


def _on_connect(connection: Any, _record: Any, *, synced: bool) -> None:
    cursor = connection.cursor()
    if cursor.execute("PRAGMA page_count").fetchone()[0] == 0:
        # So that free pages can be given back. On a file that has pages it would write each time.
        cursor.execute(f"PRAGMA auto_vacuum={INCREMENTAL}")
    for pragma in (
        "journal_mode=WAL",
        f"synchronous={'FULL' if synced else 'NORMAL'}",
        "foreign_keys=ON",
        f"busy_timeout={int(BUSY_SECONDS * 1000)}",
        f"wal_autocheckpoint={WAL_PAGES}",
    ):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def find_file(database: sa.Engine) -> Path | None:
    """Find the file of a SQLite database; None where there is none, and for PostgreSQL."""
    path = Path(database.url.database or "")
    return path if database.dialect.name == "sqlite" and path.is_file() else None


def make_shrinkable(database: sa.Engine) -> bool:
    """Let an older tasuki's SQLite file give free pages back; return whether it now can.

    This copies the file in place, so a large file is left as it is.
    """
    if (path := find_file(database)) is None:
        return True
    with database.connect() as connection:
        raw = connection.connection.driver_connection
        assert raw
        raw.rollback()
        if raw.execute("PRAGMA auto_vacuum").fetchone()[0] == INCREMENTAL:
            return True
        if path.stat().st_size > CONVERTED_BYTES:
            log.info("%s does not shrink automatically. Run once, while no server runs: sqlite3 %s 'PRAGMA auto_vacuum = 2; VACUUM'", path, path)  # fmt: skip
            return False
        raw.execute(f"PRAGMA auto_vacuum={INCREMENTAL}")
        raw.execute("VACUUM")
    return True


@lru_cache(256)
def build_update(table: sa.Table, names: tuple[str, ...]) -> sa.Update:
    """Build the update of some columns of a row: its id is bound as `b_id`, a column as `b_NAME`."""
    values: dict[str, Any] = {name: sa.bindparam(f"b_{name}") for name in names}
    return sa.update(table).where(table.c.id == sa.bindparam("b_id")).values(values)


def update_row(connection: sa.Connection, table: sa.Table, id: int | str, /, **values: Any) -> None:
    """Change columns of the row that a table's key, of one column, names."""
    (key,) = table.primary_key
    connection.execute(sa.update(table).where(key == id).values(**values))


def store_row(
    connection: sa.Connection, table: sa.Table, key: dict[str, Any], values: dict[str, Any]
) -> None:
    """Change the row with these values in its key, or insert it."""
    same = sa.and_(*(table.c[name] == value for name, value in key.items()))
    if not connection.execute(sa.update(table).where(same).values(**values)).rowcount:
        connection.execute(sa.insert(table).values(**key, **values))


def give_back_pages(connection: sa.Connection, pages: int) -> bool:
    """Give some free pages of SQLite's file back to the disk; return whether as many are left."""
    (kind,) = connection.exec_driver_sql("PRAGMA auto_vacuum").one()
    (free,) = connection.exec_driver_sql("PRAGMA freelist_count").one()
    if kind != INCREMENTAL or free < pages:
        return False
    raw = connection.connection.driver_connection
    assert raw
    # Python's sqlite3 runs one step of a statement without columns: one page.
    for _ in range(pages):
        raw.execute("PRAGMA incremental_vacuum(1)")
    return True


def has_room(path: Path) -> bool:
    """Whether the disk of a file has room; True where that is unknown."""
    try:
        room = os.statvfs(os.path.realpath(path))
    except OSError:
        return True
    free = room.f_bavail if os.geteuid() else room.f_bfree
    return free * room.f_frsize >= LEAST_ROOM


def is_writable(path: Path) -> bool:
    """Whether a SQLite file can be written to: not locked for longer than 2 s, its disk has room."""
    if not has_room(path):
        return False
    try:
        with closing(sqlite3.connect(path, timeout=2.0, isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("ROLLBACK")
    except (OSError, sqlite3.Error):
        return False
    return True


def is_temporary(error: BaseException) -> bool:
    """Whether a statement may succeed a little later: the database is away, full, or locked."""
    if not isinstance(error, DBAPIError):
        return False
    if isinstance(error.orig, sqlite3.Error):
        return any(words in str(error.orig) for words in _AWAY)
    code = getattr(error.orig, "sqlstate", None)
    away = isinstance(error, OperationalError) and (code is None or code.startswith(_AWAY_CODES))
    return away or bool(error.connection_invalidated)


class FleetDatabase:
    """Connections to the fleet's tables, from one host."""

    def __init__(self, url: str, host: str = "") -> None:
        self.url = normalize_url(url)
        self.host = host
        self.engine = create_engine(self.url)
        self.clock_offset = 0.0
        """Seconds by which this host's clock is ahead of PostgreSQL's, as last measured."""
        self._is_away: bool | None = None
        self.is_sqlite = self.url.startswith("sqlite")
        self._write_turn = threading.RLock()
        if self.is_sqlite:
            sa.event.listen(self.engine, "connect", _disable_automatic_begin)
            sa.event.listen(self.engine, "begin", _begin_transaction)

    def read_clock(self) -> float:
        """Return the present time by the database's clock, on which hosts agree."""
        return time.time() - self.clock_offset

    @contextmanager
    def read(self) -> Iterator[sa.Connection]:
        """Yield a connection that reads.

        On SQLite all that it reads is of one state of the tables. On PostgreSQL each statement sees
        the newest state, and is one round trip.
        """
        with self._hold_connection(writes=False) as connection:
            if not self.is_sqlite:
                yield connection.execution_options(isolation_level="AUTOCOMMIT")
                return
            with connection.begin():
                yield connection

    def fetch(
        self, query: sa.Executable, parameters: dict[str, Any] | None = None
    ) -> "sa.Result[*tuple[Any, ...]]":
        """Read all that one query finds."""
        with self.read() as connection:
            return connection.execute(query, parameters).freeze()()

    def change(self, statement: sa.UpdateBase, *, synced: bool = True) -> int:
        """Run one statement that writes, like `write`; return how many rows it changed."""
        with self.write(synced=synced) as connection:
            return connection.execute(statement).rowcount

    @contextmanager
    def write(self, *, synced: bool = True, alone: bool = False) -> Iterator[sa.Connection]:
        """Yield a transaction: committed at the end of the block, rolled back where it raises.

        A host has one at a time, and one server. With `alone` the whole fleet has, for what depends on
        rows of every host: whether a persona is free, which number the next one gets.

        SQLite itself would wait in naps of up to 100 ms; waiting for the lock avoids them. `synced`
        False: SQLite does not wait for the disk. Such a commit outlives the process. It is lost only
        with the machine itself and its agents, unless a later commit waited for the disk, as the end
        of every step does.
        """
        held = self._hold_connection(writes=True, synced=synced)
        with self._write_turn, held as connection, connection.begin():
            if alone and not self.is_sqlite:
                connection.execute(_LOCK_FLEET)
            yield connection

    @contextmanager
    def write_after_reading(
        self, read: Callable[[sa.Connection], T]
    ) -> Iterator[tuple[sa.Connection, T]]:
        """Yield a transaction like `write`, unsynced, and what `read` returns just before it.

        On PostgreSQL `read` runs outside of the transaction, so that BEGIN can travel with the first
        write. Within, it would see the same: each statement sees the newest state, and no other
        thread of this host writes in between.
        """
        held = self._hold_connection(writes=True, synced=False)
        with self._write_turn, held as connection:
            if self.is_sqlite:
                with connection.begin():
                    yield connection, read(connection)
                return
            # the pool resets the isolation level, and so what `commit_together` changes
            rows = read(connection.execution_options(isolation_level="AUTOCOMMIT"))
            connection.rollback()
            connection.execution_options(isolation_level="READ COMMITTED")
            with connection.begin():
                yield connection, rows

    @contextmanager
    def commit_together(self, connection: sa.Connection) -> Iterator[None]:
        """Send the statements of the block and COMMIT in one round trip, where PostgreSQL allows it.

        Takes a connection of `write_after_reading`. The block reads no results: they come with the
        commit, which raises what failed. Nothing can be written in this transaction afterwards.
        """
        if self.is_sqlite:
            yield
            return
        import psycopg  # SQLite needs none
        from psycopg.pq import TransactionStatus

        raw = connection.connection.driver_connection
        assert isinstance(raw, psycopg.Connection)
        has_begun = raw.info.transaction_status != TransactionStatus.IDLE
        if has_begun or not psycopg.Pipeline.is_supported():
            yield
            return
        raw.autocommit = True  # psycopg would wait for its own BEGIN
        try:
            with raw.pipeline():
                raw.execute("BEGIN")
                yield
                raw.execute("COMMIT")
            assert raw.info.transaction_status == TransactionStatus.IDLE
        except BaseException as error:
            with suppress(psycopg.Error):
                raw.rollback()  # the pool does so only where it began
            if not isinstance(error, psycopg.Error):
                raise
            if raw.closed:
                connection.invalidate(error)
            raise sa.exc.DBAPIError.instance(
                None, None, _find_cause(error), psycopg.Error, connection_invalidated=raw.closed
            ) from error

    @contextmanager
    def open_transaction(self) -> Iterator[sa.Connection]:
        """Yield a transaction that waits for no other writer.

        For rows that no other transaction of this host changes: questions and answers between hosts.
        """
        with self._hold_connection(writes=True) as connection, connection.begin():
            yield connection

    @contextmanager
    def _hold_connection(self, *, writes: bool, synced: bool = True) -> Iterator[sa.Connection]:
        connection = self._connect().execution_options(writes=writes, synced=synced)
        try:
            yield connection
        finally:
            connection.close()

    def _connect(self) -> sa.Connection:
        """Return a connection that answers; retry an absent database for `PATIENCE` seconds."""
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                connection = self.engine.connect()
            except DBAPIError as error:
                if not is_temporary(error):
                    raise
                self._report_state(away=True)
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.25)
            else:
                self._report_state(away=False)
                return connection

    def _report_state(self, *, away: bool) -> None:
        """Log once that the database is away, and once that it is back; others do at the start."""
        was_away = self._is_away
        if away and was_away is False:
            log.warning("The database does not answer. Events and handoffs wait for it.")
        elif was_away and not away:
            log.info("The database answers again.")
        self._is_away = None if away and was_away is None else away

    def has_room(self) -> bool:
        """Whether the disk of SQLite's file has room; True for PostgreSQL, where it is unknown."""
        return not self.is_sqlite or has_room(Path(self.engine.url.database or ""))

    def checkpoint_log(self) -> None:
        """Move SQLite's log into its file, so that no writer has to, and restart a long log.

        Moving holds up no one. Restarting holds up writers while pages that came meanwhile are
        moved.
        """
        if not self.is_sqlite:
            return
        with self._connect() as connection:
            raw = connection.connection.driver_connection
            assert raw
            _, pages, _ = raw.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
            if pages > TIDY_PAGES:
                self._restart_log(raw)

    def _restart_log(self, raw: Any) -> None:
        """Restart SQLite's log. Writers wait meanwhile, for the disk too: some 10 to 100 ms."""
        raw.execute("PRAGMA busy_timeout=50")  # for readers of the old log
        try:
            with self._write_turn:
                raw.execute("PRAGMA wal_checkpoint(RESTART)")
        finally:
            raw.execute(f"PRAGMA busy_timeout={int(BUSY_SECONDS * 1000)}")

    def is_answering(self) -> bool:
        """Whether the database answers now."""
        try:
            with self.engine.connect() as connection:
                connection.execute(sa.select(1))
        except DBAPIError:
            return False
        return True

    def close(self) -> None:
        """Give every connection back."""
        self.engine.dispose()


def _find_cause(error: BaseException) -> BaseException:
    """Find why a pipeline was aborted: its last statements only say that it was."""
    from psycopg.errors import PipelineAborted

    while isinstance(error, PipelineAborted) and error.__context__ is not None:
        error = error.__context__
    return error


def _disable_automatic_begin(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # Python's own BEGIN comes too late for a lock


def _begin_transaction(connection: sa.Connection) -> None:
    options = connection.get_execution_options()
    if not options.get("writes"):
        connection.exec_driver_sql("BEGIN")
        return
    synced = options["synced"]
    if connection.info.get("synced", True) != synced:
        connection.exec_driver_sql(f"PRAGMA synchronous={'FULL' if synced else 'NORMAL'}")
        connection.info["synced"] = synced
    connection.exec_driver_sql("BEGIN IMMEDIATE")
