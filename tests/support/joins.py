"""Joining a fleet on a PostgreSQL of the test's own."""

import shlex
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psycopg
import sqlalchemy as sa
from databases import Postgres
from fleets import World, world_at

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


def two_hosts(worlds: ExitStack, folder: Path, owner_url: str) -> tuple[World, World]:
    """A host whose server runs, and one that has yet to join."""
    one = world_at(worlds, folder / "one", owner_url, "first")
    two = world_at(worlds, folder / "two", name="second")
    one.serve()
    return one, two


def printed_command(world: World, server: Postgres, *options: str) -> list[str]:
    """The command that `tasuki host add` prints, without the name of the program."""
    said = world.tasuki("host", "add", "--database-host", f"127.0.0.1:{server.port}", *options)
    (line,) = [line for line in said.splitlines() if line.startswith("tasuki host join")]
    return shlex.split(line)[1:]
