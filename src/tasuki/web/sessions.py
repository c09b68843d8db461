"""The browsers that are signed in to the dashboard: each has a cookie, and a row in the database.

The row holds a hash of the cookie's value, made with the operator's token: a copy of the database
signs nobody in, and with the token every session ends. The server knows its sessions in memory;
it is the only one that writes those of its host.
"""

import asyncio
import hashlib
import hmac
import logging
import secrets
import threading
import time
from collections.abc import Iterable
from typing import Any

import msgspec
import sqlalchemy as sa
from litestar.connection import ASGIConnection
from litestar.exceptions import NotAuthorizedException, PermissionDeniedException
from litestar.handlers.base import BaseRouteHandler
from msgspec import Struct
from sqlalchemy.exc import DBAPIError

from tasuki.errors import NotPossible
from tasuki.fleet import tables
from tasuki.fleet.database import Database
from tasuki.plain import one_line
from tasuki.web.auth import Tokens
from tasuki.web.gate import Hosts, split_port
from tasuki.web.sign_in_keys import SignInKeys

SESSION_SECONDS = 30 * 86400.0
"""How long a browser stays signed in at the most."""
IDLE_SECONDS = 7 * 86400.0
"""How long a session lasts that is not used."""
NOTED_SECONDS = 60.0
"""How old the noted time of the last use may be."""
MOST_SESSIONS = 100
"""Browsers that are signed in at once; the one that was unused for longest goes first."""
USER_AGENT_WIDTH = 200
_READS = frozenset({"GET", "HEAD", "OPTIONS"})

logger = logging.getLogger("tasuki.web")


class BrowserSession(Struct):
    """A browser that is signed in. Times are seconds since 1970, UTC."""

    id: int
    user_agent: str
    made_at: float
    used_at: float
    ends_at: float

    def has_ended(self, now: float) -> bool:
        """Whether it is over: it is too old, or was unused for too long."""
        return now >= self.ends_at or now >= self.used_at + IDLE_SECONDS


class Sessions:
    """Makes, knows and ends the sessions of one server. `keys` are those of its links."""

    def __init__(self, database: Database, tokens: Tokens, host: str) -> None:
        self.keys = SignInKeys()
        self.cookie_name = f"tasuki-{tokens.instance}"
        """Another one for each fleet: browsers keep no cookies apart by port."""
        self._database = database
        self._host = host
        self._secret = hmac.new(tokens.operator.encode(), b"session", hashlib.sha256).digest()
        self._lock = threading.Lock()
        self._known: dict[str, BrowserSession] = {}
        self._tasks: set[asyncio.Future[None]] = set()

    def load(self) -> None:
        """Read the sessions that an earlier start of this server made, and forget those that ended."""
        table, now = tables.browser_sessions, time.time()
        over = (table.c.ends_at <= now) | (table.c.used_at <= now - IDLE_SECONDS)
        names = BrowserSession.__struct_fields__
        query = sa.select(table.c.key_hash, *(table.c[name] for name in names))
        with self._database.write() as connection:
            connection.execute(sa.delete(table).where(table.c.host == self._host, over))
            rows = connection.execute(query.where(table.c.host == self._host)).all()
        with self._lock:
            self._known = {row[0]: BrowserSession(*row[1:]) for row in rows}

    def sign_in(self, user_agent: str) -> str:
        """Sign a browser in; the value of its cookie. Waits for the database."""
        value, now = secrets.token_urlsafe(32), time.time()
        values: dict[str, Any] = {
            "user_agent": one_line(user_agent, USER_AGENT_WIDTH), "made_at": now, "used_at": now,
            "ends_at": now + SESSION_SECONDS,
        }  # fmt: skip
        key_hash = self._hash_value(value)
        row = {"key_hash": key_hash, "host": self._host, **values}
        with self._database.write() as connection:
            made = connection.execute(sa.insert(tables.browser_sessions), row)
            assert made.inserted_primary_key
            session = BrowserSession(made.inserted_primary_key[0], **values)
        with self._lock:
            self._known[key_hash] = session
        kept = self.list_sessions()[:MOST_SESSIONS]
        self._end_all_but({one.id for one in kept})
        return value

    def find(self, value: str) -> BrowserSession | None:
        """The session of a cookie's value; None where there is none, or it has ended."""
        found = self._known.get(self._hash_value(value)) if value else None
        return None if found is None or found.has_ended(time.time()) else found

    def note_use(self, session: BrowserSession) -> None:
        """Note that a session is used now; in the database a little later, once a minute."""
        now = time.time()
        if now - session.used_at < NOTED_SECONDS:
            return
        session.used_at = now
        task = asyncio.get_running_loop().run_in_executor(None, self._write_use, session.id, now)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def list_sessions(self) -> list[BrowserSession]:
        """The sessions that have not ended, the one that was used last first."""
        now = time.time()
        with self._lock:
            found = [one for one in self._known.values() if not one.has_ended(now)]
        return sorted(found, key=lambda one: (one.used_at, one.id), reverse=True)

    def end(self, id: int) -> None:
        """End a session. Raises NotPossible where there is none. Waits for the database."""
        if id not in {one.id for one in self.list_sessions()}:
            raise NotPossible(
                f"No browser is signed in as {id}. List them: tasuki dashboard --sessions"
            )
        self._end_all_but({one.id for one in self.list_sessions()} - {id})

    def end_all(self) -> int:
        """End every session; how many there were. Waits for the database."""
        count = len(self.list_sessions())
        self._end_all_but(set())
        return count

    def _end_all_but(self, kept: set[int]) -> None:
        with self._lock:
            ended = {key: one.id for key, one in self._known.items() if one.id not in kept}
        if not ended:
            return
        table = tables.browser_sessions
        with self._database.write() as connection:
            connection.execute(sa.delete(table).where(table.c.id.in_(sorted(ended.values()))))
        with self._lock:
            for key in ended:
                self._known.pop(key, None)

    def _write_use(self, id: int, at: float) -> None:
        table = tables.browser_sessions
        try:
            with self._database.write(synced=False) as connection:
                connection.execute(sa.update(table).where(table.c.id == id).values(used_at=at))
        except DBAPIError:
            logger.warning("The last use of a browser's session could not be written down.")

    def _hash_value(self, value: str) -> str:
        return hmac.new(self._secret, value.encode("utf-8", "replace"), hashlib.sha256).hexdigest()


def sign_in_link(hosts: Hosts, asked_host: str, key: str) -> str:
    """The link with which a browser signs in, on the port by which the server was asked."""
    return f"http://{hosts.dashboard}{split_port(asked_host)}/login?key={key}"


def make_cookie(sessions: Sessions, value: str, seconds: float = SESSION_SECONDS) -> str:
    """A `Set-Cookie` header: no script reads it, no other site sends it, no other host gets it."""
    return (
        f"{sessions.cookie_name}={value}; Path=/; Max-Age={seconds:.0f}; HttpOnly; SameSite=Strict"
    )


def current_session(connection: ASGIConnection[Any, Any, Any, Any]) -> BrowserSession | None:
    """The session that a request carries; None on a host name that programs of other ports share."""
    state = connection.app.state
    sessions: Sessions = state.sessions
    if not state.hosts.has_pages(connection.headers.get("host", "")):
        return None
    return sessions.find(_read_cookie(connection.scope["headers"], sessions.cookie_name))


async def signed_in(connection: ASGIConnection[Any, Any, Any, Any], _: BaseRouteHandler) -> None:
    """A guard of pages: a session, and for a change the word of the browser that it is our page's.

    Every browser says with a form where it comes from, and `gate.py` lets no other origin through.
    Raises NotAuthorizedException, PermissionDeniedException.
    """
    session = current_session(connection)
    if session is None:
        raise NotAuthorizedException("This browser is not signed in.")
    if getattr(connection, "method", "GET") not in _READS and "origin" not in connection.headers:
        raise PermissionDeniedException("The browser does not say which page this comes from.")
    connection.app.state.sessions.note_use(session)


def describe_sessions(sessions: Sessions) -> list[dict[str, Any]]:
    """The sessions as the API and the settings tell them."""
    return [msgspec.to_builtins(one) for one in sessions.list_sessions()]


def _read_cookie(headers: Iterable[tuple[bytes, bytes]], name: str) -> str:
    wanted = f"{name}=".encode()
    for key, value in headers:
        if key == b"cookie":
            for part in value.split(b";"):
                if part.strip().startswith(wanted):
                    return part.strip()[len(wanted) :].decode("latin-1")
    return ""
