"""The theme that a browser chose: a cookie, so that no page is drawn in another one first."""

from typing import Any, Literal

from litestar import Response
from litestar.datastructures import Cookie

from tasuki.fleet.orders.bodies import RequestBody
from tasuki.web.handlers import AnyRequest
from tasuki.web.security.sessions import get_cookie_name, is_secure_name

THEMES = {"system": "As the system", "light": "Light", "dark": "Dark"}
KEPT_SECONDS = 365 * 86400
Theme = Literal["system", "light", "dark"]


class ThemeChoice(RequestBody, frozen=True):
    """The theme of the pages in one browser."""

    theme: Theme


def read_theme(request: AnyRequest) -> str:
    """Return `light` or `dark` as the browser chose; empty where the system decides."""
    value = request.cookies.get(_get_name(request), "")
    return value if value in ("light", "dark") else ""


def keep_theme(request: AnyRequest, answer: Response[Any], chosen: Theme) -> None:
    """Let a browser keep its choice."""
    name = _get_name(request)
    answer.set_cookie(Cookie(
        key=name, value=chosen, max_age=KEPT_SECONDS if chosen != "system" else 0, path="/", httponly=True,
        samesite="lax", secure=is_secure_name(name),
    ))  # fmt: skip


def _get_name(request: AnyRequest) -> str:
    return f"{get_cookie_name(request)}-theme"
