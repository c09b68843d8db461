"""The page that a browser wanted before it signed in: a cookie keeps it until then.

A link in a notification leads to the page of an agent. Where the browser is not signed in, it comes
back there once it is.
"""

from typing import Any
from urllib.parse import quote, unquote

from litestar import Request, Response
from litestar.datastructures import Cookie

from tasuki.web.security.sessions import get_cookie_name, is_secure_name

KEPT_SECONDS = 600
MOST_CHARACTERS = 500
HOME = "/"
_SAFE = "/:@!$&'()*+,;=~-._"


def keep_wanted_page(request: Request[Any, Any, Any], answer: Response[Any], path: str) -> None:
    """Let a browser keep the path of the page that it wanted; others than visits keep nothing."""
    is_shown = "tasuki-page" in request.headers  # its session ended, and its script asks
    is_visit = is_shown or request.headers.get("sec-fetch-dest", "document") == "document"
    if request.method == "GET" and is_visit and len(path) <= MOST_CHARACTERS:
        answer.set_cookie(_build_cookie(request, quote(path, safe="/"), KEPT_SECONDS))


def take_wanted_page(request: Request[Any, Any, Any]) -> str:
    """Return the path that a browser kept, on this server alone; `/` where it kept none."""
    value = unquote(request.cookies.get(_get_name(request), ""))[:MOST_CHARACTERS]
    if not value.startswith("/") or value.startswith("/login"):
        return HOME
    return "/" + quote(unquote(value).lstrip("/\\\t\n\r "), safe=_SAFE)


def forget_wanted_page(request: Request[Any, Any, Any], answer: Response[Any]) -> None:
    """Let a browser forget the page that it wanted, where it keeps one."""
    if _get_name(request) in request.cookies:
        answer.set_cookie(_build_cookie(request, "", 0))


def _build_cookie(request: Request[Any, Any, Any], value: str, seconds: int) -> Cookie:
    name = _get_name(request)
    return Cookie(
        key=name, value=value, max_age=seconds, path="/", httponly=True, samesite="lax",
        secure=is_secure_name(name),
    )  # fmt: skip


def _get_name(request: Request[Any, Any, Any]) -> str:
    return f"{get_cookie_name(request)}-page"
