"""What a request must be before anything else is looked at: meant for this server, and not from a page of another one.

A web page that a browser has open can send requests to a loopback address, and reach it by a name
of its own (DNS rebinding). It cannot hide its name in `Host` and `Origin`.
"""

import ipaddress
import socket
from collections.abc import Iterable

import msgspec
from litestar.enums import ScopeType
from litestar.types import ASGIApp, HTTPScope, Receive, Scope, Send

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
SHARED = LOOPBACK | {"tasuki.localhost"}
"""Names of this machine that every program on it can be opened by."""
ANY = frozenset({"0.0.0.0", "::", ""})  # noqa: S104 compared with, not listened on
_WITH_BODY = frozenset({"POST", "PUT", "PATCH", "DELETE"})
_FORM = b"application/x-www-form-urlencoded"
API = "/api/"
HOOKS = "/api/hooks/"
"""Hooks send what their harness gives them, with a header no page can send."""


class Gate:
    """Lets through what is addressed to one of `hosts`, of no foreign origin, with a body of its kind.

    That is JSON for the API, and a form for a page, which `sessions.py` asks for its origin too.
    """

    def __init__(self, app: ASGIApp, hosts: "Hosts") -> None:
        self.app = app
        self.hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == ScopeType.HTTP and (refusal := self._refusal(scope)):
            await _refuse(send, *refusal)
            return
        await self.app(scope, receive, send)

    def _refusal(self, scope: HTTPScope) -> tuple[int, str] | None:
        host = origin = content = length = b""
        for name, value in scope["headers"]:
            if name == b"host":
                host = value
            elif name == b"origin":
                origin = value
            elif name == b"content-type":
                content = value
            elif name in (b"content-length", b"transfer-encoding"):
                length = value
        if not self.hosts.has(host.decode("latin-1")):
            return 421, "This server does not go by the name in `Host`. Use 127.0.0.1 or localhost."
        if origin and origin.lower() != b"http://" + host.lower():
            return 403, "Pages of another origin may not ask this server."
        if scope["method"] not in _WITH_BODY or scope["path"].startswith(HOOKS):
            return None
        kind = content.partition(b";")[0].strip().lower()
        if kind == _FORM and not scope["path"].startswith(API):
            return None
        if length not in (b"", b"0") and kind != b"application/json":
            return 415, "The body must be JSON, with `Content-Type: application/json`."
        return None


class Hosts:
    """The names by which a server that listens on `host` is asked.

    `dashboard` is the one under which its pages are opened. The names that programs on other ports
    share with it (`SHARED`) have none: a browser would show their cookies to those programs.
    """

    def __init__(self, host: str, dashboard: str = "") -> None:
        self.names = {*SHARED, host.lower().strip("[]")}
        self.dashboard = dashboard if dashboard and host.lower() in ANY | LOOPBACK else host
        if dashboard:
            self.names.add(dashboard)
        self.everywhere = host in ANY
        if self.everywhere:
            self.names.add(socket.gethostname().lower())
        self._known: set[str] = set()

    def has(self, said: str) -> bool:
        """Whether a `Host` header, with a port or without, is one of them.

        A server that listens on every address is asked by any of them: an address is no name that
        could be bound to another.
        """
        if said in self._known:
            return True
        name = _name(said)
        good = name in self.names or (self.everywhere and _is_address(name))
        if good and len(self._known) < 32:
            self._known.add(said)
        return good

    def has_pages(self, said: str) -> bool:
        """Whether pages are opened under the name in a `Host` header."""
        name = _name(said)
        shared = name in SHARED or _is_loopback_address(name)
        return self.has(said) and (not shared or name == self.dashboard)


def is_loopback(host: str) -> bool:
    """Whether only programs on this machine can reach what listens on this address."""
    if host.lower() == "localhost":
        return True
    return _is_address(host) and ipaddress.ip_address(host).is_loopback


def _name(said: str) -> str:
    said = said.strip().lower()
    if said.startswith("["):
        return said[1:].partition("]")[0]
    return said.partition(":")[0]


def split_port(said: str) -> str:
    """The port of a `Host` header with its colon, `:8787`; empty where it has none."""
    port = said.rpartition("]")[2].rpartition(":")[2]
    return f":{port}" if port.isascii() and port.isdigit() else ""


def _is_loopback_address(name: str) -> bool:
    return _is_address(name) and ipaddress.ip_address(name).is_loopback


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


async def _refuse(send: Send, status: int, sentence: str) -> None:
    body = msgspec.json.encode({"error": sentence})
    headers: Iterable[tuple[bytes, bytes]] = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})
