"""Who may ask: tokens from files that only their owner can read, sent as `Authorization: Bearer`.

The operator's token opens everything but the hooks; the hooks' token lies where every hook of a
harness can read it, and opens only them.
"""

import hashlib
import hmac
import os
import secrets
import stat
from pathlib import Path
from typing import Any

from litestar.connection import ASGIConnection
from litestar.exceptions import NotAuthorizedException
from litestar.handlers.base import BaseRouteHandler
from msgspec import Struct

from tasuki.errors import StoreFailed
from tasuki.vault.store import why

TOKEN, HOOK_TOKEN = "token", "hook-token"  # names of files
_BEARER = b"bearer "


class Tokens(Struct, frozen=True):
    """The secrets of one server."""

    operator: str
    hook: str
    proof: str = ""
    """By which hooks know an answer as this server's: its header `X-Tasuki`; another one at each start."""

    @property
    def instance(self) -> str:
        """Ten digits that name this fleet and cannot be guessed; others with another token."""
        words = hmac.new(self.operator.encode(), b"instance", hashlib.sha256)
        return words.hexdigest()[:10]

    @property
    def dashboard_host(self) -> str:
        """The host name under which browsers open the dashboard, and no other program's pages.

        Browsers send a cookie to every port of its host. So the name is one that only those know
        who were given a link: browsers resolve every name under `localhost` to this machine.
        """
        return f"tasuki-{self.instance}.localhost"


def tokens(folder: Path) -> Tokens:
    """The tokens in a folder, made where they are missing, and a new proof. Raises StoreFailed."""
    return Tokens(_token(folder / TOKEN), _token(folder / HOOK_TOKEN), secrets.token_urlsafe(24))


def _token(path: Path) -> str:
    try:
        if not os.path.lexists(path):
            _make(path)
        number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
        with os.fdopen(number, "rb") as file:
            mode = stat.S_IMODE(os.fstat(number).st_mode)
            token = file.read(1024).decode("ascii", "replace").strip()
    except OSError as error:
        raise StoreFailed(
            f"The token {path} cannot be used: {why(error)}. Mend that, then start again."
        ) from error
    if mode & 0o077:
        raise StoreFailed(
            f"Others can read the token {path} (mode {mode:o}). Remove it; the next start makes a new one."
        )
    if len(token) < 20:
        raise StoreFailed(f"{path} holds no token. Remove it; the next start makes a new one.")
    return token


def _make(path: Path) -> None:
    """Make a token, whole or not at all; one that is there meanwhile stays."""
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


async def operator_only(
    connection: ASGIConnection[Any, Any, Any, Any], _: BaseRouteHandler
) -> None:
    """A guard: the request carries the operator's token. Raises NotAuthorizedException.

    Guards are coroutines although they wait for nothing: Litestar runs others in a thread.
    """
    _check(connection, connection.app.state.tokens.operator, TOKEN)


async def hooks_only(connection: ASGIConnection[Any, Any, Any, Any], _: BaseRouteHandler) -> None:
    """A guard: the request carries the hooks' token. Raises NotAuthorizedException."""
    _check(connection, connection.app.state.tokens.hook, HOOK_TOKEN)


def _check(connection: ASGIConnection[Any, Any, Any, Any], wanted: str, name: str) -> None:
    given = next(
        (value for key, value in connection.scope["headers"] if key == b"authorization"), b""
    )
    if is_bearer(given, wanted):
        return
    raise NotAuthorizedException(
        f"This needs the token from the file `fleet/{name}` in tasuki's data folder, as "
        "`Authorization: Bearer TOKEN`.",
        headers={"WWW-Authenticate": "Bearer"},
    )


def is_bearer(given: bytes, wanted: str) -> bool:
    """Whether the value of an `Authorization` header is this token."""
    scheme, token = given[: len(_BEARER)], given[len(_BEARER) :]
    return scheme.lower() == _BEARER and hmac.compare_digest(token, wanted.encode())
