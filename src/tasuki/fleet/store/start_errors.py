"""Explains why the server cannot start, in one sentence with the remedy; nothing is deleted."""

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.engine import make_url
from sqlalchemy.exc import SQLAlchemyError

from tasuki.errors import ServerFailed
from tasuki.files import FULL, explain_error
from tasuki.fleet.store.database import find_file
from tasuki.text_safety import shorten_to_line

HOST_ROLE_PREFIX = "tasuki_host_"
"""Begins the name of the role with which a host that joined works."""
URL_SOURCES = "--database-url, or TASUKI_DATABASE_URL"
_STATE_REMEDIES = {
    "28": "It refuses the user or the password. Fix the URL: {name}.",
    "3D000": "It has no such database. Create it (createdb NAME), or fix the URL: {name}.",
    "53300": "It has no connection left. Raise its max_connections, or end other programs.",
    "53": "It has no room left (disk or memory). Make some, then start again.",
    "57P03": "It is starting up or shutting down. Start again in a moment.",
    "42501": "The user may not do that there. Give it permission to create tables and schemas.",
    "25006": "It takes no writes: it is a replica, or set to read only. Name the primary: {name}.",
}
"""Remedies of PostgreSQL's errors, by how the SQLSTATE begins; the first match counts."""
_GONE_ROLE_REMEDY = (
    "This host was retired, or joined again with another copy of its data folder. To use it, join again: tasuki host add, "
    "on a host of the fleet, prints how."
)
_AWAY_REMEDY = "It does not answer. Start it, or fix the URL: {name}."
_UNREADABLE_REMEDY = "Fix the URL: {name}."
_CAUSES = (
    ("not a database", "damaged"), ("malformed", "damaged"), ("disk image", "damaged"),
    ("full", "full"), ("disk i/o", "full"), ("readonly", "closed"), ("read-only", "closed"),
    ("unable to open", "closed"), ("locked", "held"), ("busy", "held"),
)  # fmt: skip
_REMEDIES = {
    "full": "Its disk is full, or fails. Make room, then start again: nothing was lost.",
    "closed": "It, or its folder, cannot be opened for writing. Give yourself permission, then start again.",
    "held": "Another program holds it. End that, then start again.",
}
_DAMAGED_REMEDIES = {
    "fleet": "It is damaged. Put a copy of it back, or move it away, {path}-wal and {path}-shm with it, and the fleet begins without "
    "agents and personas. "
    "`sqlite3 FILE .recover` may still read it.",
    "workflows": "It is damaged. Move it away, {path}-wal and {path}-shm with it, and start again: no agent and no document "
    "is in it, and handoffs under way continue at the step that they were at.",
}
LOCK_SECONDS = 10.0
CHECKED_BYTES = 256 << 20
"""Larger SQLite files are not checked at the start: it takes a second for each GB or so."""


@contextmanager
def explain_errors(url: str, kind: str = "fleet") -> Iterator[None]:
    """Raise ServerFailed in place of what a database or the disk raises in the body.

    `kind` is "fleet" or "workflows": what the database of `url` is for.
    """
    try:
        yield
    except (SQLAlchemyError, sqlite3.Error) as error:
        raise ServerFailed(describe_database_error(error, url, kind)) from error
    except OSError as error:
        raise ServerFailed(describe_os_error(error)) from error


def check_file(database: sa.Engine) -> None:
    """Check a SQLite file, unless it is large; raise DatabaseError where it is damaged."""
    path = find_file(database)
    if path is None or path.stat().st_size > CHECKED_BYTES:
        return
    with database.connect() as connection:
        outcome = connection.exec_driver_sql("PRAGMA quick_check(1)").scalar_one()
    if outcome != "ok":
        raise sqlite3.DatabaseError(f"malformed: {shorten_to_line(str(outcome), 200)}")


def check_lock(database: sa.Engine) -> None:
    """Raise OperationalError where another program locks a SQLite file for `LOCK_SECONDS`."""
    if database.dialect.name != "sqlite":
        return
    path = database.url.database or ""
    with closing(sqlite3.connect(path, timeout=LOCK_SECONDS, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("ROLLBACK")


def describe_database_error(error: BaseException, url: str, kind: str = "fleet") -> str:
    """Describe what is wrong with a database, and the remedy."""
    origin = getattr(error, "orig", None) or error
    if url.startswith("sqlite"):
        path = Path(make_url(url).database or "")
        message = str(origin).lower()
        cause = next((cause for words, cause in _CAUSES if words in message), "")
        damaged = {"damaged": _DAMAGED_REMEDIES[kind].format(path=path)}
        remedy = {**_REMEDIES, **damaged}.get(cause, "")
        return f"The database {path} cannot be used: {shorten_to_line(str(origin), 200)}. {remedy}".rstrip()
    address = re.sub(r"\?.*", "", make_url(url).render_as_string(hide_password=True))
    state = getattr(origin, "sqlstate", None) or ""
    remedy = next((text for begin, text in _STATE_REMEDIES.items() if state.startswith(begin)), "")
    message = extract_reason(str(origin))
    if is_role_gone(error, url):
        remedy = _GONE_ROLE_REMEDY
    elif not state and "password" in message:
        remedy = _STATE_REMEDIES["28"]
    elif not state and "does not exist" in message:
        remedy = _STATE_REMEDIES["3D000" if "database" in message else "28"]
    elif not state and "invalid" in message:
        remedy = _UNREADABLE_REMEDY
    elif not state:
        remedy = _AWAY_REMEDY
    return f"The database {address} cannot be used: {message}. {remedy.format(name=URL_SOURCES)}".rstrip()


def is_role_gone(error: BaseException, url: str) -> bool:
    """Whether PostgreSQL refuses the role of a host that joined, and not just this connection."""
    if not (make_url(url).username or "").startswith(HOST_ROLE_PREFIX):
        return False
    message = extract_reason(str(getattr(error, "orig", None) or error))
    words = (
        "password authentication failed",
        "not permitted to log in",
        f'role "{HOST_ROLE_PREFIX}',
    )
    return any(word in message for word in words)


def describe_os_error(error: OSError) -> str:
    """Describe what is wrong with a file or folder of the server, and the remedy."""
    place = f" {error.filename}" if error.filename else ""
    is_full = error.errno in FULL
    remedy = "Make room" if is_full else "Fix that, or name another folder (TASUKI_DATA)"
    return f"The server cannot use its data folder{place}: {explain_error(error)}. {remedy}, then start again."


def extract_reason(text: str) -> str:
    """Extract the reason from libpq's report, which repeats itself for each address."""
    lines = [line.strip(" \t") for line in text.splitlines() if line.strip()]
    first = next(iter(lines), "no reason was given").removeprefix("connection failed: ")
    first = re.sub(r"^connection to server (at|on) .*? failed: (FATAL:\s*)?", "", first)
    return shorten_to_line(first.rstrip("."), 300)
