"""Joining a fleet on a PostgreSQL of the test's own."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import sqlalchemy as sa

from tasuki.fleet.membership.join import JoinedHost, join_fleet
from tasuki.fleet.membership.tokens import JoinToken, create_token
from tasuki.fleet.store.database import FleetDatabase


def token_for(owner: FleetDatabase, label: str = "") -> JoinToken:
    """A token for a host on this machine."""
    return create_token(owner, label, f"127.0.0.1:{owner.engine.url.port}")


def join_at(folder: Path, owner: FleetDatabase, label: str = "") -> JoinedHost:
    """Join with a data folder."""
    folder.mkdir(mode=0o700, exist_ok=True)
    return join_fleet(token_for(owner, label).url, folder)


@contextmanager
def connected(url: str) -> Iterator[psycopg.Connection]:
    """A connection by a URL of PostgreSQL."""
    with psycopg.connect(url, autocommit=True) as connection:
        yield connection


def rows(owner: FleetDatabase, statement: str) -> list[tuple[object, ...]]:
    """The rows of a query."""
    with owner.read() as connection:
        return [tuple(row) for row in connection.execute(sa.text(statement))]


def read_number(owner: FleetDatabase) -> object:
    return rows(owner, "SELECT oid FROM pg_database WHERE datname = current_database()")[0][0]
