"""A host joins: a token's URL becomes a URL of the host's own, kept for its server alone."""

import os
import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import sqlalchemy as sa
from msgspec import Struct
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from tasuki.errors import NotPossible, Refused, StoreFailed
from tasuki.files import create_private_folder, explain_error, replace_file
from tasuki.fleet.hosts import identify_host
from tasuki.fleet.membership import URL_FILE, urls
from tasuki.fleet.membership.roles import REFUSED, build_role_name
from tasuki.fleet.membership.tokens import TOKEN_PREFIX, compute_verifier
from tasuki.fleet.store.connections import create_postgres_engine
from tasuki.fleet.store.start_errors import extract_reason

CERTIFICATES_FILE = "database-ca.pem"
LEAVE_OPTION = "--leave-agents"
_NEW_TOKEN = "Make a new one on a host of the fleet: tasuki host add"  # noqa: S105 a sentence
_NO_TOKEN = (
    "That is no URL of a token. tasuki host add, on a host of the fleet, prints the command."  # noqa: S105 a sentence
)
_CAUSES = (
    ("does not match host name", "The certificate is for another name. Use the name that is in it: tasuki host add --database-host NAME"),
    ("root certificate file", "Give the certificate of the authority that signed the server's: tasuki host join … --ca FILE"),
    ("certificate verify failed", "Its certificate is not signed by an authority that is trusted here. Give that authority's certificate: --ca FILE"),
    ("does not support ssl", "Turn TLS on there (ssl = on): tasuki docs machines"),
    ("no pg_hba.conf entry", "Let the roles of the fleet in, by lines in its pg_hba.conf: tasuki docs machines"),
    ("password authentication failed", f"The token is mistyped, was used, or is older than 15 minutes. {_NEW_TOKEN}"),
    ("not permitted to log in", f"The token was used already. {_NEW_TOKEN}"),
    ("too many connections for role", "The token is being used by somebody else."),
    ("translate host name", "Is that its name in this network? Give another: tasuki host add --database-host HOST"),
)  # fmt: skip
"""Words of libpq and PostgreSQL, and what to do."""
_AWAY = "Does this machine reach it (address, port, firewall)?"


class JoinedHost(Struct, frozen=True):
    """What became of a join."""

    id: str
    role: str
    file: Path
    """Where the host's own URL is kept."""
    place: str
    """Where the database is, without user and password."""


def join_fleet(
    text: str, data: Path, label: str = "", *, certificates: bytes = b"", allow_unverified: bool = False,
    leave_agents: bool = False,
) -> JoinedHost:  # fmt: skip
    """Join the fleet of a token's URL with a data folder; `certificates` are PEM.

    Killed at any moment, it can be done again with a new token. Raises Refused, NotPossible where
    the token is refused, StoreFailed.
    """
    folder, text = data / "fleet", text.strip()
    if not text.startswith("postgres") or not text.isprintable() or len(text) > urls.MOST_BYTES:
        raise NotPossible(_NO_TOKEN)
    url = urls.parse_url(text)
    if not (url.username or "").startswith(TOKEN_PREFIX) or not url.password:
        raise NotPossible(_NO_TOKEN)
    urls.check_verified(url, allow_unverified=allow_unverified)
    if not leave_agents:
        _check_own_agents(data)
        _check_other_fleet(folder, url)
    try:
        create_private_folder(folder)
        url = _add_certificates(url, folder, certificates)
    except OSError as error:
        raise StoreFailed(f"{error.filename or folder} cannot be written: {explain_error(error)}.") from error  # fmt: skip
    host = identify_host(folder)
    password = secrets.token_urlsafe(32)
    own = url.set(username=build_role_name(host.id), password=password)
    with _connect(url) as connection:
        verifier = compute_verifier(connection, own.username or "", password)
        _call_function(connection, host.id, label, verifier)
    file = urls.write_url(folder, urls.render_url(own))
    with _connect(own, is_token=False) as connection:
        connection.execute(sa.text("SELECT count(*) FROM hosts")).scalar_one()
    return JoinedHost(host.id, own.username or "", file, urls.describe_place(own))


def _check_own_agents(data: Path) -> None:
    """Raise Refused where the folder's own file has agents that have not ended."""
    path = data / "fleet.db"
    if not path.is_file():
        return
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as file:
            (alive,) = file.execute("SELECT count(*) FROM agents WHERE ended_at IS NULL").fetchone()
    except sqlite3.Error as error:
        if "no such table" in str(error):
            return
        raise StoreFailed(f"{path} cannot be read: {error}. To leave it as it is: {LEAVE_OPTION}") from error  # fmt: skip
    if alive:
        raise Refused(
            f"This host has a fleet of its own, with {alive} agent{'s' if alive > 1 else ''} that ha{'ve' if alive > 1 else 's'} "
            f"not ended ({path}). Stop them first: tasuki agent list. With {LEAVE_OPTION} they stay in their panes, and "
            f"nothing manages them any more; to go back to them, remove {data / 'fleet' / URL_FILE} and start the server."
        )


def _check_other_fleet(folder: Path, url: sa.URL) -> None:
    """Raise Refused where the host is in another fleet already."""
    if not (known := urls.read_url(folder)):
        return
    old, new = urls.describe_place(urls.parse_url(known)), urls.describe_place(url)
    if old != new:
        raise Refused(
            f"This host is in the fleet of {old} already. Its agents there would have no server: stop them first, and "
            f"retire the host there (tasuki host retire). To join {new} all the same: {LEAVE_OPTION}"
        )


def _add_certificates(url: sa.URL, folder: Path, certificates: bytes) -> sa.URL:
    """Keep the authority's certificates next to the URL, which then names their file."""
    if not certificates:
        return url
    if b"-----BEGIN CERTIFICATE-----" not in certificates:
        raise NotPossible("That file holds no certificate in PEM (-----BEGIN CERTIFICATE-----).")
    path = folder.absolute() / CERTIFICATES_FILE
    replace_file(path, certificates)
    return url.update_query_dict({"sslrootcert": os.fspath(path)})


def _call_function(connection: sa.Connection, host_id: str, label: str, verifier: str) -> None:
    call = sa.text("SELECT role_name FROM tasuki_join(:id, :label, :verifier)")
    parameters = {"id": host_id, "label": label, "verifier": verifier}
    try:
        with connection.begin():
            connection.execute(call, parameters).scalar_one()
    except DBAPIError as error:
        state = getattr(error.orig, "sqlstate", "") or ""
        message = extract_reason(str(error.orig))
        if state == REFUSED:
            raise NotPossible(f"The fleet refuses this host: {message.rstrip('.')}. {_NEW_TOKEN}") from error  # fmt: skip
        raise NotPossible(
            f"The host could not join: {message}. Nothing was changed; try again, with a new token if this one is refused: "
            "tasuki host add"
        ) from error


@contextmanager
def _connect(url: sa.URL, *, is_token: bool = True) -> Iterator[sa.Connection]:
    """Yield a connection; its failure is explained. Raises NotPossible, StoreFailed."""
    engine = create_postgres_engine(url, poolclass=sa.NullPool)
    try:
        with engine.connect() as connection:
            yield connection
    except SQLAlchemyError as error:
        reason = extract_reason(str(getattr(error, "orig", None) or error))
        lowered = str(error).lower()
        remedy = next((remedy for words, remedy in _CAUSES if words in lowered), _AWAY)
        if is_token:
            raise NotPossible(f"PostgreSQL at {urls.describe_place(url)} was not reached with the token: {reason}. {remedy}") from error  # fmt: skip
        raise StoreFailed(
            f"This host joined, but its own role {url.username} does not get in at {urls.describe_place(url)}: {reason}. {remedy}"
        ) from error
    finally:
        engine.dispose()
