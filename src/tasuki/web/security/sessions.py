"""The browsers that are signed in, and the keys of the links that sign them in."""

import asyncio
import hashlib
import hmac
import logging
import secrets
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any, Literal

import sqlalchemy as sa
from litestar.connection import ASGIConnection
from litestar.exceptions import NotAuthorizedException, PermissionDeniedException
from litestar.handlers.base import BaseRouteHandler
from msgspec import Struct
from sqlalchemy.exc import DBAPIError

from tasuki.errors import NotPossible
from tasuki.fleet.store import tables
from tasuki.fleet.store.database import FleetDatabase
from tasuki.text_safety import shorten_to_line
from tasuki.web.security.access import ServerTokens
from tasuki.web.security.proxy import USER_KEY, ProxyUser

IDLE_SECONDS = 7 * 86400.0
"""How long a browser stays signed in without a visit."""
KEY_SECONDS = 60.0
"""How long a link can be used."""
MOST_KEYS = 64
"""Links that are remembered; the oldest is forgotten for a newer one."""

KeyState = Literal["unused", "used", "over"]


class SignInKey(Struct, frozen=True):
    """A key for whoever may sign in. `id` names it without revealing it."""

    id: str
    key: str


class _RememberedKey(Struct):
    key_hash: bytes
    ends_at: float
    used: bool = False


class SignInKeys:
    """Creates keys and accepts each once. Only their hashes are kept, and only in memory."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._keys: dict[str, _RememberedKey] = {}

    def make_key(self) -> SignInKey:
        """Create a key that can be used once within `KEY_SECONDS`."""
        new_key = SignInKey(secrets.token_hex(8), secrets.token_urlsafe(24))
        with self._lock:
            while len(self._keys) >= MOST_KEYS:
                del self._keys[next(iter(self._keys))]
            ends_at = self._clock() + KEY_SECONDS
            self._keys[new_key.id] = _RememberedKey(_hash_key(new_key.key), ends_at)
        return new_key

    def use_key(self, key: str) -> bool:
        """Use a key; False where it is invalid, was used, or has expired."""
        key_hash = _hash_key(key)
        with self._lock:
            for one in self._keys.values():
                if secrets.compare_digest(one.key_hash, key_hash):
                    is_valid = not one.used and self._clock() < one.ends_at
                    one.used = one.used or is_valid
                    return is_valid
        return False

    def get_key_state(self, id: str) -> KeyState:
        """Return the state of the key that an id names."""
        with self._lock:
            one = self._keys.get(id)
            if one is None:
                return "over"
            if one.used:
                return "used"
            return "unused" if self._clock() < one.ends_at else "over"


def _hash_key(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "replace")).digest()


SESSION_SECONDS = 30 * 86400.0
"""How long a browser stays signed in at most."""
NOTED_SECONDS = 60.0
"""How old the recorded time of the last use may be."""
MOST_SESSIONS = 100
"""Browsers that are signed in at once; the one that was unused for longest goes first."""
USER_AGENT_WIDTH = 200
SECURE_PREFIX = "__Host-"
"""Browsers take a cookie of this name only with `Secure`, for the whole host, and from it alone."""
_READS = frozenset({"GET", "HEAD", "OPTIONS"})
_ELSEWHERE = frozenset({"cross-site", "same-site"})
AnyConnection = ASGIConnection[Any, Any, Any, Any]

logger = logging.getLogger("tasuki.web")


class BrowserSession(Struct):
    """A browser that is signed in. Times are seconds since 1970, UTC."""

    id: int
    user_agent: str
    made_at: float
    used_at: float
    ends_at: float

    def has_ended(self, now: float) -> bool:
        """Whether it has ended: it is too old, or was unused for too long."""
        return now >= self.ends_at or now >= self.used_at + IDLE_SECONDS


class BrowserSessions:
    """Creates, finds and ends the sessions of one server. `keys` are those of its links."""

    def __init__(self, database: FleetDatabase, tokens: ServerTokens, host: str) -> None:
        self.keys = SignInKeys()
        self.cookie_name = f"tasuki-{tokens.instance}"
        """Different for each fleet: browsers do not separate cookies by port."""
        self._database = database
        self._host = host
        self._secret = hmac.new(tokens.operator.encode(), b"session", hashlib.sha256).digest()
        self._lock = threading.Lock()
        self._by_hash: dict[str, BrowserSession] = {}
        self._tasks: set[asyncio.Future[None]] = set()

    def load(self) -> None:
        """Load the sessions of an earlier start of this server, and delete those that ended."""
        table, now = tables.browser_sessions, time.time()
        has_expired = (table.c.ends_at <= now) | (table.c.used_at <= now - IDLE_SECONDS)
        names = BrowserSession.__struct_fields__
        query = sa.select(table.c.key_hash, *(table.c[name] for name in names))
        with self._database.write() as connection:
            connection.execute(sa.delete(table).where(table.c.host == self._host, has_expired))
            rows = connection.execute(query.where(table.c.host == self._host)).all()
        with self._lock:
            self._by_hash = {row[0]: BrowserSession(*row[1:]) for row in rows}

    def sign_in(self, user_agent: str) -> str:
        """Sign a browser in; return the value of its cookie. Waits for the database."""
        value, now = secrets.token_urlsafe(32), time.time()
        values: dict[str, Any] = {
            "user_agent": shorten_to_line(user_agent, USER_AGENT_WIDTH), "made_at": now, "used_at": now,
            "ends_at": now + SESSION_SECONDS,
        }  # fmt: skip
        key_hash = self._hash_value(value)
        row = {"key_hash": key_hash, "host": self._host, **values}
        with self._database.write() as connection:
            result = connection.execute(sa.insert(tables.browser_sessions), row)
            assert result.inserted_primary_key
            session = BrowserSession(result.inserted_primary_key[0], **values)
        with self._lock:
            self._by_hash[key_hash] = session
        newest = self.list_sessions()[:MOST_SESSIONS]
        self._end_all_but({one.id for one in newest})
        return value

    def find_session(self, value: str) -> BrowserSession | None:
        """Find the session of a cookie's value; None where there is none, or it has ended."""
        session = self._by_hash.get(self._hash_value(value)) if value else None
        return None if session is None or session.has_ended(time.time()) else session

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
        """List the sessions that have not ended, last used first."""
        now = time.time()
        with self._lock:
            open_sessions = [one for one in self._by_hash.values() if not one.has_ended(now)]
        return sorted(open_sessions, key=lambda one: (one.used_at, one.id), reverse=True)

    def end_session(self, session_id: int) -> None:
        """End a session. Raises NotPossible where there is none. Waits for the database."""
        if session_id not in {one.id for one in self.list_sessions()}:
            raise NotPossible(
                f"No browser is signed in as {session_id}. List them: tasuki dashboard --sessions"
            )
        self._end_all_but({one.id for one in self.list_sessions()} - {session_id})

    def end_all(self) -> int:
        """End every session; return how many there were. Waits for the database."""
        count = len(self.list_sessions())
        self._end_all_but(set())
        return count

    def _end_all_but(self, kept_ids: set[int]) -> None:
        with self._lock:
            ended = {key: one.id for key, one in self._by_hash.items() if one.id not in kept_ids}
        if not ended:
            return
        table = tables.browser_sessions
        with self._database.write() as connection:
            connection.execute(sa.delete(table).where(table.c.id.in_(sorted(ended.values()))))
        with self._lock:
            for key in ended:
                self._by_hash.pop(key, None)

    def _write_use(self, session_id: int, used_at: float) -> None:
        table = tables.browser_sessions
        try:
            with self._database.write(synced=False) as connection:
                connection.execute(
                    sa.update(table).where(table.c.id == session_id).values(used_at=used_at)
                )
        except DBAPIError:
            logger.warning("The last use of a browser's session could not be recorded.")

    def _hash_value(self, value: str) -> str:
        return hmac.new(self._secret, value.encode("utf-8", "replace"), hashlib.sha256).hexdigest()


def build_sign_in_link(origin: str, key: str) -> str:
    """Build the link with which a browser signs in to the pages of an origin."""
    return f"{origin}/login?key={key}"


def build_cookie(connection: AnyConnection, value: str, seconds: float = SESSION_SECONDS) -> str:
    """Build a `Set-Cookie` header: no script reads it, no other site or host gets it.

    Under the public name no unencrypted request gets it, and no other host can set one like it.
    """
    name = get_cookie_name(connection)
    secure = "; Secure" if is_secure_name(name) else ""
    return f"{name}={value}; Path=/; Max-Age={seconds:.0f}; HttpOnly; SameSite=Strict{secure}"


def get_cookie_name(connection: AnyConnection) -> str:
    """Return the name of the session's cookie, which differs under the public name."""
    state = connection.app.state
    prefix = SECURE_PREFIX if state.hosts.is_public(connection.headers.get("host", "")) else ""
    return f"{prefix}{state.sessions.cookie_name}"


def is_secure_name(name: str) -> bool:
    """Whether browsers take a cookie of this name only with `Secure`."""
    return name.startswith(SECURE_PREFIX)


def find_current_session(connection: AnyConnection) -> BrowserSession | None:
    """Find the session of a request; None on a host name that programs of other ports share."""
    state = connection.app.state
    sessions: BrowserSessions = state.sessions
    if not state.hosts.has_pages(connection.headers.get("host", "")):
        return None
    cookie = _read_cookie(connection.scope["headers"], get_cookie_name(connection))
    return sessions.find_session(cookie)


def find_named_user(connection: AnyConnection) -> ProxyUser | None:
    """Find the user whom the trusted proxy names for a request, allowed or not."""
    user: ProxyUser | None = connection.scope["state"].get(USER_KEY)
    return user


def find_proxy_user(connection: AnyConnection) -> ProxyUser | None:
    """Find the allowed user whom the trusted proxy names, where no other site is behind the request.

    A proxy signs in every request of its browser, those too that a page of another site begins.
    As for a strict cookie, they count as signed out.
    """
    user = find_named_user(connection)
    if user is None or not user.is_allowed or comes_from_elsewhere(connection):
        return None
    return user


def comes_from_elsewhere(connection: AnyConnection) -> bool:
    """Whether a browser says that another site began the request."""
    return connection.headers.get("sec-fetch-site", "") in _ELSEWHERE


def is_signed_in(connection: AnyConnection) -> bool:
    """Whether a request is of a browser that is signed in, by a session or by the proxy."""
    return bool(find_proxy_user(connection) or find_current_session(connection))


async def require_session(connection: AnyConnection, _: BaseRouteHandler) -> None:
    """Require a session or the proxy's user, as a guard; for a change also the page's origin.

    Every browser sends the origin of a form, and `access.py` rejects any other origin. Raises
    NotAuthorizedException, PermissionDeniedException.
    """
    user, session = find_proxy_user(connection), find_current_session(connection)
    if not user and not session:
        raise NotAuthorizedException("This browser is not signed in.")
    method = getattr(connection, "method", "GET")
    if method not in _READS and "origin" not in connection.headers:
        raise PermissionDeniedException("The browser does not say which page this comes from.")
    if session:
        connection.app.state.sessions.note_use(session)
    if user and method not in _READS:
        logger.info("%s %s by %s.", method, connection.url.path, user.name)


def _read_cookie(headers: Iterable[tuple[bytes, bytes]], name: str) -> str:
    prefix = f"{name}=".encode()
    for key, value in headers:
        if key == b"cookie":
            for part in value.split(b";"):
                if part.strip().startswith(prefix):
                    return part.strip()[len(prefix) :].decode("latin-1")
    return ""
