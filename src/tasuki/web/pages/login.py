"""Sign a browser in and out, and show what went wrong as a page."""

from typing import Any

from litestar import get, post
from litestar.datastructures import State
from litestar.exceptions import HTTPException, ValidationException
from litestar.params import FromQuery

from tasuki.errors import TasukiError
from tasuki.web.api import bodies
from tasuki.web.security.access import API_PREFIX
from tasuki.web.security.sessions import (
    BrowserSessions,
    build_cookie,
    find_current_session,
    require_session,
)
from tasuki.web.views import templates
from tasuki.web.views.templates import AnyRequest, PageResponse

SIGN_IN_HINT = "Run tasuki dashboard --open on the machine of the server, or open the link that tasuki dashboard prints."
USED_MESSAGE = "This link was used, or is older than a minute: each signs one browser in."
OTHER_NAME_MESSAGE = (
    "Pages are opened under the host name of the link alone: cookies of 127.0.0.1 and localhost "
    "would go to every other program that this browser opens there."
)


@get("/login", sync_to_thread=True, include_in_schema=False)
def sign_browser_in(request: AnyRequest, state: State, key: FromQuery[str] = "") -> PageResponse:
    """Sign a browser in.

    The page continues automatically: a redirect would be part of the navigation that brought the
    link, for which a browser that came from elsewhere sends no strict cookie.
    """
    sessions: BrowserSessions = state.sessions
    if not state.hosts.has_pages(request.headers.get("host", "")):
        return render_sign_in(request)
    if not key or not sessions.keys.use_key(key):
        return render_sign_in(request, USED_MESSAGE if key else "")
    answer = templates.render_page(request, "signed_in.html", bare=True)
    value = sessions.sign_in(request.headers.get("user-agent", ""))
    answer.headers["Set-Cookie"] = build_cookie(sessions, value)
    return answer


@post("/logout", sync_to_thread=True, include_in_schema=False, guards=[require_session])
def sign_browser_out(request: AnyRequest, state: State) -> PageResponse:
    """End this browser's session."""
    if session := find_current_session(request):
        state.sessions.end_session(session.id)
    answer = render_sign_in(request, "You are signed out.", status=200)
    answer.headers["Set-Cookie"] = build_cookie(state.sessions, "", 0)
    return answer


def render_sign_in(request: AnyRequest, message: str = "", status: int = 401) -> PageResponse:
    """Render the page that says how to sign in."""
    reload_path = (
        templates.get_own_path(request) if status == 401 and request.url.path != "/login" else ""
    )
    if not request.app.state.hosts.has_pages(request.headers.get("host", "")):
        message, reload_path = OTHER_NAME_MESSAGE, ""
    return templates.render_page(
        request,
        "sign_in.html",
        status,
        bare=True,
        said=message,
        hint=SIGN_IN_HINT,
        again=reload_path,
    )


TITLES = {
    400: "Not possible",
    403: "Refused",
    404: "Nothing here",
    409: "Not now",
    503: "Not available",
}


def render_error(request: AnyRequest, error: Exception) -> PageResponse:
    """Render any error of a page, with the status and the sentence that the API gives it."""
    if isinstance(error, HTTPException) and error.status_code == 401:
        if request.headers.get("hx-request"):
            return templates.request_reload()
        return render_sign_in(request)
    answer = _choose_answer(request, error)
    content: dict[str, Any] = answer.content
    status = answer.status_code or 500
    title = TITLES.get(status, "That failed")
    if request.headers.get("hx-request"):
        return templates.build_html_response(
            request, templates.render_macro("macros.html", "refused", content["error"]), status
        )
    is_signed_in = find_current_session(request) is not None
    reload_path = (
        templates.get_own_path(request) if status != 404 and request.method == "GET" else ""
    )
    return templates.render_page(
        request, "error.html", status, title=title, sentence=content["error"], bare=not is_signed_in, again=reload_path,
    )  # fmt: skip


def handle_anywhere(
    request: AnyRequest, error: HTTPException
) -> PageResponse | bodies.JsonResponse:
    """Handle what Litestar refuses before a route is known: a page for a browser, else data."""
    wants_page = "text/html" in request.headers.get("accept", "")
    if wants_page and not request.url.path.startswith(API_PREFIX):
        return render_error(request, error)
    return bodies.handle_http_error(request, error)


def _choose_answer(request: AnyRequest, error: Exception) -> bodies.JsonResponse:
    if isinstance(error, TasukiError):
        return bodies.handle_tasuki_error(request, error)
    if isinstance(error, ValidationException):
        return bodies.handle_invalid(request, error)
    if isinstance(error, HTTPException):
        return bodies.handle_http_error(request, error)
    return bodies.handle_unexpected(request, error)


PAGE_EXCEPTION_HANDLERS: dict[Any, Any] = dict.fromkeys(
    (TasukiError, ValidationException, HTTPException, Exception), render_error
)
"""The handlers for the router of the pages, by exception class."""
