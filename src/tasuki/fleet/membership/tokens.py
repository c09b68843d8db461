"""Tokens with which a host joins: roles of PostgreSQL that open one function, once, for 15 minutes."""

import logging
import secrets
from contextlib import suppress
from pathlib import Path

import sqlalchemy as sa
from msgspec import Struct
from psycopg import sql
from sqlalchemy.exc import DBAPIError

from tasuki.errors import NotPossible
from tasuki.fleet.hosts import MOST_LABEL_CHARACTERS
from tasuki.fleet.membership.roles import (
    execute,
    prepare_roles,
    read_rights,
    require_owner,
    run_statement,
)
from tasuki.fleet.membership.urls import VERIFIED, is_local, is_verified, render_url, set_place
from tasuki.fleet.store import tables
from tasuki.fleet.store.database import FleetDatabase
from tasuki.text_safety import clean_text, shorten_to_line

TOKEN_SECONDS = 15 * 60
TOKEN_PREFIX = "tasuki_join_"  # noqa: S105 the name of a role
KEPT_SECONDS = 30 * 86400
"""How long the record of a token stays after its end."""
SYSTEM_CERTIFICATES = "system"
MOST_CERTIFICATE_BYTES = 256 << 10
log = logging.getLogger("tasuki.fleet")
_NOW = sa.text("SELECT extract(epoch FROM clock_timestamp())::float8")


class JoinToken(Struct, frozen=True):
    """A token, as its maker tells it to the one who joins; `url` holds its password."""

    role: str
    label: str
    url: str
    ends_at: float
    """By the database's clock, in seconds since 1970."""
    seconds: float
    """How long it is valid."""
    certificates: str = ""
    """PEM of the authority that signed PostgreSQL's certificate; empty where the server names none."""


def create_token(
    database: FleetDatabase, label: str = "", place: str = "", *, allow_unverified: bool = False
) -> JoinToken:
    """Create a token; `place` is where the other host reaches PostgreSQL, `HOST` or `HOST:PORT`.

    Raises NotPossible on SQLite, where the server's role may not create roles, and without
    `place` where the server's own URL leads to its machine alone.
    """
    label = shorten_to_line(clean_text(label), MOST_LABEL_CHARACTERS).strip()
    if not database.is_sqlite:
        base = _build_base(database.engine.url, place, allow_unverified=allow_unverified)
    rights = prepare_roles(database)
    remove_old_tokens(database)
    role, password = f"{TOKEN_PREFIX}{secrets.token_hex(4)}", secrets.token_urlsafe(24)
    with database.write() as connection:
        now = float(connection.execute(_NOW).scalar_one())
        ends_at = now + TOKEN_SECONDS
        until = connection.execute(sa.text("SELECT to_timestamp(:at)::text"), {"at": ends_at}).scalar_one()  # fmt: skip
        statement = "CREATE ROLE {} LOGIN CONNECTION LIMIT 2 PASSWORD {} VALID UNTIL {} IN ROLE {}"
        run_statement(
            connection,
            sql.SQL(statement).format(
                sql.Identifier(role), sql.Literal(compute_verifier(connection, role, password)),
                sql.Literal(until), sql.Identifier(rights.join_group),
            ),
        )  # fmt: skip
        if rights.schema != "public":
            execute(connection, "ALTER ROLE {} IN DATABASE {} SET search_path = {}", role, rights.database, rights.schema)  # fmt: skip
        row = {"role": role, "label": label, "made_at": now, "ends_at": ends_at}
        connection.execute(sa.insert(tables.join_tokens).values(**row))
    url = render_url(base.set(username=role, password=password))
    certificates = _read_certificates(database.engine.url)
    return JoinToken(role, label, url, ends_at, float(TOKEN_SECONDS), certificates)


def compute_verifier(connection: sa.Connection, role: str, password: str) -> str:
    """Compute what PostgreSQL stores of a password: the password itself is not sent."""
    raw = connection.connection.driver_connection
    assert raw
    verifier: bytes = raw.pgconn.encrypt_password(
        password.encode(), role.encode(), b"scram-sha-256"
    )
    return verifier.decode()


def _build_base(url: sa.URL, place: str, *, allow_unverified: bool) -> sa.URL:
    """Build what a host's URL has in common with the server's: place, database, how it is verified."""
    if place:
        url = set_place(url, place)
    elif is_local(url):
        raise NotPossible(
            "This server reaches PostgreSQL on its own machine, where no other host can. Say where the other host reaches "
            "it: tasuki host add --database-host HOST[:PORT]"
        )
    query = {
        name: value
        for name, value in url.query.items()
        if name in ("host", "hostaddr", "port", "sslmode") or (name, value) == ("sslrootcert", SYSTEM_CERTIFICATES)
    }  # fmt: skip
    base = url.set(query=query)
    if not is_verified(base) and not allow_unverified:
        base = base.update_query_dict({"sslmode": VERIFIED})
    return base


def _read_certificates(url: sa.URL) -> str:
    """Read the certificates by which this server verifies PostgreSQL; empty for none, or the system's."""
    path = url.query.get("sslrootcert", "")
    if not isinstance(path, str) or path in ("", SYSTEM_CERTIFICATES):
        return ""
    with suppress(OSError):
        return Path(path).read_bytes()[:MOST_CERTIFICATE_BYTES].decode("ascii", "replace")
    return ""


def remove_old_tokens(database: FleetDatabase) -> int:
    """Drop the roles of old tokens; return how many. Raises NotPossible as `create_token` does."""
    tokens = tables.join_tokens
    roles = sa.table("pg_roles", sa.column("rolname", sa.Text), schema="pg_catalog")
    with database.write() as connection:
        require_owner(connection)
        now = float(connection.execute(_NOW).scalar_one())
        is_over = sa.or_(tokens.c.used_at.is_not(None), tokens.c.ends_at < now)
        query = sa.select(tokens.c.role).where(is_over, tokens.c.role == roles.c.rolname)
        # Only the owner writes to this table, so a name in it is that of a token.
        names = list(connection.execute(query).scalars())
        dropped = sum(_drop_role(connection, x) for x in names if x.startswith(TOKEN_PREFIX))
        connection.execute(sa.delete(tokens).where(tokens.c.ends_at < now - KEPT_SECONDS))
    return dropped


def _drop_role(connection: sa.Connection, name: str) -> bool:
    try:
        with connection.begin_nested():
            execute(connection, "DROP ROLE {}", name)
    except DBAPIError as error:  # another role made it (PostgreSQL 16 and newer)
        log.warning("The role %s of an old token cannot be dropped: %s", name, error.orig)
        return False
    return True


def tidy_tokens(database: FleetDatabase) -> None:
    """Do `remove_old_tokens` where this server's role may, and there is something to do."""
    if database.is_sqlite:
        return
    with database.read() as connection:
        rights = read_rights(connection)
        if rights is None or not rights.owns or not (rights.creates_roles or rights.is_super):
            return
        if not connection.execute(sa.select(tables.join_tokens.c.role).limit(1)).first():
            return
    with suppress(NotPossible):  # said where a token is made
        remove_old_tokens(database)
