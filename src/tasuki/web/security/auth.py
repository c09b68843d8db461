"""Access control: tokens from files that only their owner can read, as `Authorization: Bearer`.

The operator's token opens everything but the hooks. The hooks' token is where every hook of
a harness can read it, and opens only the hooks.
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
from tasuki.paths import explain_error

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
        words = hmac.new(self.operator.encode(), b"instance", hashlib.sha256)
        return words.hexdigest()[:10]

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
            f"The token {path} cannot be used: {explain_error(error)}. Mend that, then start again."
        ) from error
    if mode & 0o077:
        raise StoreFailed(
            f"Others can read the token {path} (mode {mode:o}). Remove it; the next start makes a new one."
        )
    if len(token) < 20:
        raise StoreFailed(f"{path} holds no token. Remove it; the next start makes a new one.")
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
