"""Why the server cannot start, as one sentence with what mends it. Nothing is deleted or replaced."""

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.engine import make_url
from sqlalchemy.exc import SQLAlchemyError

from tasuki.errors import ServerFailed
from tasuki.plain import one_line
from tasuki.vault.store import FULL, why

NAME = "--database-url, or TASUKI_DATABASE_URL"
_STATES = {
    "28": "It refuses the user or the password. Mend the URL: {name}.",
    "3D000": "It has no such database. Make it (createdb NAME), or mend the URL: {name}.",
    "53300": "It has no connection left. Raise its max_connections, or end other programs.",
    "53": "It has no room left (its disk, or its memory). Make some, then start again.",
    "57P03": "It is starting up or shutting down. Start again in a moment.",
    "42501": "The user may not do that there. Give it the right to create tables and schemas.",
    "25006": "It takes no writes: it is a replica, or set to read only. Name the primary: {name}.",
}
"""What mends an error of PostgreSQL, by how its SQLSTATE begins; the first that fits."""
_AWAY = "It does not answer. Start it, or mend the URL: {name}."
_UNREADABLE = "Mend the URL: {name}."
_WORDS = (
    ("not a database", "damaged"), ("malformed", "damaged"), ("disk image", "damaged"),
    ("full", "full"), ("disk i/o", "full"), ("readonly", "closed"), ("read-only", "closed"),
    ("unable to open", "closed"), ("locked", "held"), ("busy", "held"),
)  # fmt: skip
_REMEDIES = {
    "full": "Its disk is full, or fails. Make room, then start again: nothing was lost.",
    "closed": "It, or its folder, cannot be opened for writing. Give yourself the right to, then start again.",
    "held": "Another program holds it. End that, then start again.",
}
_DAMAGED = {
    "fleet": "It is damaged. Put a copy of it back ({path}.before-* are tasuki's own, from before its tables were changed); "
    "or move it away, {path}-wal and {path}-shm with it, and the fleet begins without agents and personas. "
    "`sqlite3 FILE .recover` may still read it.",
    "workflows": "It is damaged. Move it away, {path}-wal and {path}-shm with it, and start again: no agent and no document "
    "is in it, and handoffs under way go on with the step that they were at.",
}  # fmt: skip
LOCK_SECONDS = 10.0
CHECKED_BYTES = 256 << 20
"""Files of SQLite that are larger are not looked through at the start: it takes a second for each GB or so."""


@contextmanager
def explained(url: str, kind: str = "fleet") -> Iterator[None]:
    """Raise ServerFailed in place of what a database or the disk raises in the body.

    `kind` is "fleet" or "workflows": what the database of `url` is for.
    """
    try:
        yield
    except (SQLAlchemyError, sqlite3.Error) as error:
        raise ServerFailed(describe(error, url, kind)) from error
    except OSError as error:
        raise ServerFailed(describe_os(error)) from error


def check_file(database: sa.Engine) -> None:
    """Look through a file of SQLite; raises DatabaseError where it is damaged, else only when it is read there."""
    path = Path(database.url.database or "")
    if database.dialect.name != "sqlite" or not path.is_file():
        return
    if path.stat().st_size > CHECKED_BYTES:
        return
    with database.connect() as connection:
        found = connection.exec_driver_sql("PRAGMA quick_check(1)").scalar_one()
    if found != "ok":
        raise sqlite3.DatabaseError(f"malformed: {one_line(str(found), 200)}")


def check_lock(database: sa.Engine) -> None:
    """Raise OperationalError where another program holds a file of SQLite for longer than `LOCK_SECONDS`."""
    if database.dialect.name != "sqlite":
        return
    path = database.url.database or ""
    with closing(sqlite3.connect(path, timeout=LOCK_SECONDS, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("ROLLBACK")


def describe(error: BaseException, url: str, kind: str = "fleet") -> str:
    """What is wrong with a database, and what mends it."""
    origin = getattr(error, "orig", None) or error
    if url.startswith("sqlite"):
        path = Path(make_url(url).database or "")
        said = str(origin).lower()
        cause = next((cause for words, cause in _WORDS if words in said), "")
        remedy = (
            _DAMAGED[kind].format(path=path) if cause == "damaged" else _REMEDIES.get(cause, "")
        )
        return (
            f"The database {path} cannot be used: {one_line(str(origin), 200)}. {remedy}".rstrip()
        )
    where = re.sub(r"\?.*", "", make_url(url).render_as_string(hide_password=True))
    state = getattr(origin, "sqlstate", None) or ""
    remedy = next((text for begin, text in _STATES.items() if state.startswith(begin)), "")
    said = _reason(str(origin))
    if not state and "password" in said:
        remedy = _STATES["28"]
    elif not state and "does not exist" in said:
        remedy = _STATES["3D000" if "database" in said else "28"]
    elif not state and "invalid" in said:
        remedy = _UNREADABLE
    elif not state:
        remedy = _AWAY
    return f"The database {where} cannot be used: {said}. {remedy.format(name=NAME)}".rstrip()


def describe_os(error: OSError) -> str:
    """What is wrong with a file or folder of the server, and what mends it."""
    where = f" {error.filename}" if error.filename else ""
    remedy = (
        "Make room" if error.errno in FULL else "Mend that, or name another folder (TASUKI_DATA)"
    )
    return (
        f"The server cannot use its data folder{where}: {why(error)}. {remedy}, then start again."
    )


def _reason(text: str) -> str:
    """The one line of libpq's report that says why: it repeats itself for each address."""
    lines = [line.strip(" \t") for line in text.splitlines() if line.strip()]
    first = next(iter(lines), "no reason was given").removeprefix("connection failed: ")
    first = re.sub(r"^connection to server (at|on) .*? failed: (FATAL:\s*)?", "", first)
    return one_line(first.rstrip("."), 300)
