"""Connections to PostgreSQL, which end within seconds where the network drops their packets.

Nobody is told of a dropped packet: without these limits a statement waits for its answer for a
quarter of an hour, and a connection that only listens waits for ever.
"""

import logging
import time
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy.exc import OperationalError

if TYPE_CHECKING:
    import psycopg

POOL_SIZE, ENGINE_POOL_SIZE, POOL_OVERFLOW = 4, 2, 1
"""Connections to PostgreSQL: of the fleet's own pool, of DBOS's, and how many more each may have.

With the one that holds the server's lock and the one that listens a server has 10 at most.
"""
POOL_SECONDS = 5.0
"""How long a free connection of a pool is waited for."""
IDLE_SECONDS = 3.0
"""A connection that was idle for this long is asked whether it lives, before it is used."""
PARAMETERS: dict[str, Any] = {
    "connect_timeout": 5, "keepalives": 1, "keepalives_idle": 5, "keepalives_interval": 2,
    "keepalives_count": 3, "tcp_user_timeout": 10_000,
}  # fmt: skip
"""Parameters of libpq, unless the URL has them: this side gives a silent connection up after 11 s.

`tcp_user_timeout` (ms) counts where something was sent that was not acknowledged; the keepalives
where everything was, and an answer or a notification is awaited. Sockets of Unix need neither.
"""
_SESSION = (
    "SET tcp_keepalives_idle = 5; SET tcp_keepalives_interval = 2; SET tcp_keepalives_count = 3; "
    "SET tcp_user_timeout = 10000; SET idle_in_transaction_session_timeout = 60000"
)
"""With these PostgreSQL gives the locks of a vanished or frozen host back: others wait for them."""


logging.getLogger(__name__).setLevel(logging.WARNING)  # a pool logs each of its connections


class _BoundedPool(sa.QueuePool):
    """A pool in which waiting too long for a connection is an error of the database, as others are."""

    def connect(self) -> Any:
        try:
            return super().connect()
        except sa.exc.TimeoutError as error:
            from psycopg.errors import ConnectionTimeout

            raise ConnectionTimeout("every connection waits for the database") from error


def create_postgres_engine(url: str | sa.URL, **options: Any) -> sa.Engine:
    """Create an engine of PostgreSQL: a pool, unless `options` name another `poolclass`."""
    arguments = _build_arguments(url, options.pop("connect_args", {}))
    if "poolclass" not in options:
        options = {
            "poolclass": _BoundedPool, "pool_size": POOL_SIZE, "max_overflow": POOL_OVERFLOW,
            "pool_timeout": POOL_SECONDS, "pool_use_lifo": True, **options,
        }  # fmt: skip
    engine = sa.create_engine(url, connect_args=arguments, **options)
    sa.event.listen(engine, "handle_error", _mark_away)
    sa.event.listen(engine, "connect", lambda raw, _record: _execute_alone(raw, _SESSION))
    sa.event.listen(
        engine, "checkin", lambda _raw, record: record.info.update(returned_at=time.monotonic())
    )
    sa.event.listen(engine, "checkout", _check_idle)
    return engine


def connect_alone(url: str, **parameters: Any) -> "psycopg.Connection":
    """Open a connection outside of every pool; each statement is a transaction. Raises psycopg.Error."""
    import psycopg  # SQLite needs none

    address = sa.make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
    arguments = _build_arguments(url, parameters)
    connection = psycopg.connect(address, autocommit=True, **arguments)
    connection.execute(_SESSION)
    return connection


def _build_arguments(url: str | sa.URL, parameters: dict[str, Any]) -> dict[str, Any]:
    known = sa.make_url(url).query
    return {k: value for k, value in {**PARAMETERS, **parameters}.items() if k not in known}


def _execute_alone(connection: Any, statement: str) -> None:
    """Execute a statement outside of a transaction, in one round trip."""
    was_alone = connection.autocommit
    connection.autocommit = True
    connection.execute(statement)
    connection.autocommit = was_alone


def _check_idle(connection: Any, record: Any, _proxy: Any) -> None:
    """Ask a connection that was idle whether it lives; if not, the pool replaces all it has.

    Asking before each use would cost a round trip each time.
    """
    returned_at = record.info.get("returned_at")
    if returned_at is None or time.monotonic() - returned_at < IDLE_SECONDS:
        return
    try:
        _execute_alone(connection, "SELECT 1")
    except Exception as error:
        raise sa.exc.InvalidatePoolError from error


def _mark_away(context: sa.engine.ExceptionContext) -> None:
    """Mark every error of PostgreSQL's connection as temporary.

    DBOS 3.4 recognizes those by words in the driver's message and gives up on other words, such
    as "connection is bad: …", which psycopg 3.3 says of a lost socket. It trusts the mark.
    """
    error = context.sqlalchemy_exception
    if isinstance(error, OperationalError) and getattr(error.orig, "sqlstate", "") is None:
        context.is_disconnect = True
