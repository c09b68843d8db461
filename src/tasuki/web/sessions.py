"""Who looks at the dashboard: a link with a key signs a browser in, a cookie keeps it signed in.

A session is words that only this server can have written: when it ends, and a proof of that made
with the operator's token. So it outlives a restart, and ends for all browsers with the token.
"""

import hashlib
import hmac
import secrets
import time
from collections.abc import Iterable
from typing import Any

from litestar.connection import ASGIConnection
from litestar.exceptions import NotAuthorizedException, PermissionDeniedException
from litestar.handlers.base import BaseRouteHandler

SECONDS = 30 * 86400
"""How long a browser stays signed in."""
_READS = frozenset({"GET", "HEAD", "OPTIONS"})
_NONCE = 16


class Sessions:
    """Makes and knows sessions. `key` is that of the link, another one at each start."""

    def __init__(self, operator_token: str) -> None:
        self.key = secrets.token_urlsafe(24)
        self._secret = hmac.new(operator_token.encode(), b"session", hashlib.sha256).digest()

    def opens(self, key: str) -> bool:
        """Whether a key is that of the link."""
        return hmac.compare_digest(key.encode(), self.key.encode())

    def made(self) -> str:
        """A new session, as the value of its cookie."""
        words = f"{int(time.time()) + SECONDS}.{secrets.token_urlsafe(_NONCE)}"
        return f"{words}.{self._proof(words)}"

    def is_valid(self, value: str) -> bool:
        """Whether this is a session that has not ended."""
        words, _, proof = value.rpartition(".")
        if not hmac.compare_digest(proof.encode(), self._proof(words).encode()):
            return False
        return int(words.partition(".")[0]) > time.time()

    def _proof(self, words: str) -> str:
        return hmac.new(self._secret, words.encode(), hashlib.sha256).hexdigest()


def link(address: str, sessions: Sessions) -> str:
    """The link that signs a browser in."""
    return f"http://{address}/login?key={sessions.key}"


def cookie_name(host: str) -> str:
    """Name of the cookie: browsers keep no cookies apart by port, and servers have different ones."""
    port = host.rpartition("]")[2].rpartition(":")[2]
    return f"tasuki-{port}" if port.isdigit() else "tasuki"


def cookie(host: str, value: str, seconds: int = SECONDS) -> str:
    """A `Set-Cookie` header: no script reads it, no other site sends it."""
    return f"{cookie_name(host)}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict"


def is_signed_in(connection: ASGIConnection[Any, Any, Any, Any]) -> bool:
    """Whether a request carries a session."""
    value = _cookie(connection.scope["headers"], cookie_name(connection.headers.get("host", "")))
    sessions: Sessions = connection.app.state.sessions
    return bool(value) and sessions.is_valid(value)


async def signed_in(connection: ASGIConnection[Any, Any, Any, Any], _: BaseRouteHandler) -> None:
    """A guard of pages: a session, and for a change the word of the browser that it is our page's.

    Every browser says with a form where it comes from, and `gate.py` lets no other origin through.
    Raises NotAuthorizedException, PermissionDeniedException.
    """
    if not is_signed_in(connection):
        raise NotAuthorizedException("This browser is not signed in.")
    if getattr(connection, "method", "GET") not in _READS and "origin" not in connection.headers:
        raise PermissionDeniedException("The browser does not say which page this comes from.")


def _cookie(headers: Iterable[tuple[bytes, bytes]], name: str) -> str:
    wanted = f"{name}=".encode()
    for key, value in headers:
        if key == b"cookie":
            for part in value.split(b";"):
                if part.strip().startswith(wanted):
                    return part.strip()[len(wanted) :].decode("latin-1")
    return ""
