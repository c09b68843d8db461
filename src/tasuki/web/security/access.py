"""Access control: every request is checked for its address and origin first, then for its token.

A web page that a browser has open can send requests to a loopback address, and reach it by
another name (DNS rebinding). It cannot hide its name in `Host` and `Origin`.

Tokens come from files that only their owner can read, as `Authorization: Bearer`. The operator's
token opens everything but the hooks. The hooks' token is where every hook of a harness can read it,
and opens only the hooks.
"""

import hashlib
import hmac
import ipaddress
import os
import secrets
import socket
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
from litestar.connection import ASGIConnection
from litestar.enums import ScopeType
from litestar.exceptions import NotAuthorizedException
from litestar.handlers.base import BaseRouteHandler
from litestar.types import ASGIApp, HTTPScope, Receive, Scope, Send
from msgspec import Struct

from tasuki.config.outside import SHARED_NAMES, PublicAddress
from tasuki.errors import StoreFailed
from tasuki.files import explain_error
from tasuki.web.security.proxy import USER_KEY, TrustedProxy

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
ANY_ADDRESS = frozenset({"0.0.0.0", "::", ""})  # noqa: S104 compared with, not listened on
_WITH_BODY = frozenset({"POST", "PUT", "PATCH", "DELETE"})
_FORM = b"application/x-www-form-urlencoded"
API_PREFIX = "/api/"
HOOKS_PREFIX = "/api/hooks/"
"""Hooks send the payload of their harness, with a header that no page can send."""


class RequestGate:
    """Passes requests to one of the server's hosts, of no foreign origin, with a body of the right type.

    That is JSON for the API, and a form for a page, whose origin `sessions.py` checks too. Under
    the public name it notes the user whom the trusted proxy names.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == ScopeType.HTTP:
            state = scope["litestar_app"].state
            hosts: ServerHosts = state.hosts
            proxy: TrustedProxy | None = state.proxy
            if refusal := _find_refusal(scope, hosts):
                await _refuse(send, *refusal)
                return
            if proxy:
                host = dict(scope["headers"]).get(b"host", b"")  # there is one at most
                if hosts.is_public(host.decode("latin-1")):
                    scope["state"][USER_KEY] = await proxy.find_user(scope)
        await self.app(scope, receive, send)


def _find_refusal(scope: HTTPScope, hosts: "ServerHosts") -> tuple[int, str] | None:
    host = origin = content = length = b""
    host_count = 0
    for name, value in scope["headers"]:
        if name == b"host":
            host, host_count = value, host_count + 1
        elif name == b"origin":
            origin = value
        elif name == b"content-type":
            content = value
        elif name in (b"content-length", b"transfer-encoding"):
            length = value
    if host_count > 1:
        return 400, "A request has one `Host`."
    host_name = host.decode("latin-1")
    if not hosts.has_name(host_name):
        return 421, hosts.explain_unknown()
    if origin and origin.decode("latin-1").lower() != hosts.build_origin(host_name):
        return 403, "Pages of another origin may not ask this server."
    if scope["method"] not in _WITH_BODY or scope["path"].startswith(HOOKS_PREFIX):
        return None
    kind = content.partition(b";")[0].strip().lower()
    if kind == _FORM and not scope["path"].startswith(API_PREFIX):
        return None
    if length not in (b"", b"0") and kind != b"application/json":
        return 415, "The body must be JSON, with `Content-Type: application/json`."
    return None


class ServerHosts:
    """The names of a server that listens on `host`.

    `dashboard` is the one under which its pages are opened. No pages are shown under names that
    programs on other ports share with it (`SHARED_NAMES`): a browser would send their cookies
    to those programs. `public` is where a proxy shows them with TLS.
    """

    def __init__(self, host: str, dashboard: str = "", public: PublicAddress | None = None) -> None:
        self.public = public
        self.names = {*SHARED_NAMES, host.lower().strip("[]")}
        self.dashboard = dashboard if dashboard and host.lower() in ANY_ADDRESS | LOOPBACK else host
        if dashboard:
            self.names.add(dashboard)
        self.is_everywhere = host in ANY_ADDRESS
        if self.is_everywhere:
            self.names.add(socket.gethostname().lower())
        self._known_headers: set[str] = set()

    def has_name(self, header: str) -> bool:
        """Whether a `Host` header, with a port or without, has one of the names.

        A server that listens on every address accepts any of them: an address is no name that
        could be bound to another.
        """
        if header in self._known_headers:
            return True
        name = _parse_name(header)
        is_known = (
            name in self.names
            or (self.is_everywhere and _is_address(name))
            or self.is_public(header)
        )
        if is_known and len(self._known_headers) < 32:
            self._known_headers.add(header)
        return is_known

    def is_public(self, header: str) -> bool:
        """Whether a `Host` header is that of the public address."""
        return self.public is not None and self.public.is_host(header)

    def build_origin(self, header: str) -> str:
        """Build the origin of the pages that are opened under a `Host` header, in lower case."""
        if self.public and self.public.is_host(header):
            return self.public.origin
        return f"http://{header.lower()}"

    def build_page_origin(self, address: str) -> str:
        """Build the origin under which links lead to pages; `address` has the server's port."""
        return self.public.origin if self.public else self.build_local_origin(address)

    def build_local_origin(self, address: str) -> str:
        """Build the origin of the pages for a browser on this machine."""
        return f"http://{self.dashboard}{split_port(address)}"

    def explain_unknown(self) -> str:
        """Explain what to do where a `Host` header has none of the names."""
        behind = "behind a proxy set public_url"
        if self.public:
            behind = "a proxy must pass on the `Host` of public_url, with its port"
        return (
            "This server is not known by the name in `Host`. Use 127.0.0.1 or localhost; "
            f"{behind}, and restart the server."
        )

    def has_pages(self, header: str) -> bool:
        """Whether pages are opened under the name in a `Host` header."""
        if self.is_public(header):
            return True
        name = _parse_name(header)
        is_shared = name in SHARED_NAMES or is_loopback(name)
        return self.has_name(header) and (not is_shared or name == self.dashboard)


def is_loopback(host: str) -> bool:
    """Whether only programs on this machine can reach a server on this address."""
    if host.lower() == "localhost":
        return True
    return _is_address(host) and ipaddress.ip_address(host).is_loopback


def _parse_name(header: str) -> str:
    header = header.strip().lower()
    if header.startswith("["):
        return header[1:].partition("]")[0]
    return header.partition(":")[0]


def split_port(header: str) -> str:
    """Return the port of a `Host` header with its colon, `:8787`; empty where it has none."""
    port = header.rpartition("]")[2].rpartition(":")[2]
    return f":{port}" if port.isascii() and port.isdigit() else ""


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


TOKEN_FILE, HOOK_TOKEN_FILE = "token", "hook-token"  # names of files
_BEARER = b"bearer "


class ServerTokens(Struct, frozen=True):
    """The secrets of one server."""

    operator: str
    hook: str
    proof: str = ""
    """The header `X-Tasuki`: by it hooks recognize this server's answer; new at each start."""

    @property
    def instance(self) -> str:
        """Ten digits that name this fleet and cannot be guessed; they change with the token."""
        return hmac.new(self.operator.encode(), b"instance", hashlib.sha256).hexdigest()[:10]

    @property
    def dashboard_host(self) -> str:
        """The host name under which browsers open the dashboard, and no other program's pages.

        Browsers send a cookie to every port of its host. So the name is known only to those who
        were given a link: browsers resolve every name under `localhost` to this machine.
        """
        return f"tasuki-{self.instance}.localhost"


def load_tokens(folder: Path) -> ServerTokens:
    """Load the tokens of a folder, create missing ones, and add a new proof. Raises StoreFailed."""
    return ServerTokens(
        _load_token(folder / TOKEN_FILE),
        _load_token(folder / HOOK_TOKEN_FILE),
        secrets.token_urlsafe(24),
    )


def _load_token(path: Path) -> str:
    try:
        if not os.path.lexists(path):
            _create_token(path)
        number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
        with os.fdopen(number, "rb") as file:
            mode = stat.S_IMODE(os.fstat(number).st_mode)
            token = file.read(1024).decode("ascii", "replace").strip()
    except OSError as error:
        raise StoreFailed(
            f"The token {path} cannot be used: {explain_error(error)}. Fix that, then start again."
        ) from error
    if mode & 0o077:
        raise StoreFailed(
            f"Others can read the token {path} (mode {mode:o}). Remove it; the next start creates a new one."
        )
    if len(token) < 20:
        raise StoreFailed(f"{path} holds no token. Remove it; the next start creates a new one.")
    return token


def _create_token(path: Path) -> None:
    """Create a token, whole or not at all; one that appears meanwhile stays."""
    new = path.with_name(f".{path.name}-{secrets.token_hex(4)}")
    number = os.open(new, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    try:
        with os.fdopen(number, "w") as file:
            file.write(secrets.token_urlsafe(32) + "\n")
        os.link(new, path)
    except FileExistsError:
        pass
    finally:
        new.unlink()


async def require_operator(
    connection: ASGIConnection[Any, Any, Any, Any], _: BaseRouteHandler
) -> None:
    """Require the operator's token, as a guard. Raises NotAuthorizedException.

    Guards are coroutines although they wait for nothing: Litestar runs others in a thread.
    """
    _check_token(connection, connection.app.state.tokens.operator, TOKEN_FILE)


async def require_hook_token(
    connection: ASGIConnection[Any, Any, Any, Any], _: BaseRouteHandler
) -> None:
    """Require the hooks' token, as a guard. Raises NotAuthorizedException."""
    _check_token(connection, connection.app.state.tokens.hook, HOOK_TOKEN_FILE)


def _check_token(connection: ASGIConnection[Any, Any, Any, Any], expected: str, name: str) -> None:
    header = next(
        (value for key, value in connection.scope["headers"] if key == b"authorization"), b""
    )
    if is_bearer(header, expected):
        return
    raise NotAuthorizedException(
        f"This needs the token from the file `fleet/{name}` in tasuki's data folder, as "
        "`Authorization: Bearer TOKEN`.",
        headers={"WWW-Authenticate": "Bearer"},
    )


def is_bearer(header: bytes, expected: str) -> bool:
    """Whether the value of an `Authorization` header is this token."""
    scheme, token = header[: len(_BEARER)], header[len(_BEARER) :]
    return scheme.lower() == _BEARER and hmac.compare_digest(token, expected.encode())
