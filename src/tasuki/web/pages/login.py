"""Sign a browser in and out, and show what went wrong as a page."""

from typing import Any

from litestar import Response, post
from litestar.datastructures import State
from litestar.exceptions import HTTPException, ValidationException
from litestar.params import FromQuery

from tasuki.errors import TasukiError
from tasuki.web.api import error_answers
from tasuki.web.handlers import AnyRequest, show_page
from tasuki.web.security.access import API_PREFIX
from tasuki.web.security.sessions import (
    BrowserSessions,
    build_cookie,
    comes_from_elsewhere,
    find_current_session,
    find_named_user,
    find_proxy_user,
    is_signed_in,
    require_session,
)
from tasuki.web.security.wanted_page import forget_wanted_page, keep_wanted_page, take_wanted_page
from tasuki.web.views import templates
from tasuki.web.views.templates import PageResponse

USED_MESSAGE = "This link was used, or is older than a minute: each signs one browser in."
OTHER_NAME_MESSAGE = (
    "Pages are opened under the host name of the link alone: cookies of 127.0.0.1 and localhost "
    "would go to every other program that this browser opens there."
)
STRANGER_MESSAGE = (
    "The proxy signed you in as {name}, who may not use this dashboard: the setting proxy_users does "
    "not have that name."
)
PROXY_MESSAGE = "You are signed in as {name} by the proxy. Sign out there."


@show_page("/login")
def sign_browser_in(request: AnyRequest, state: State, key: FromQuery[str] = "") -> PageResponse:
    """Sign a browser in; it goes on to the page that it wanted, else to the fleet.

    The page continues automatically: a redirect would be part of the navigation that brought the
    link, for which a browser that came from elsewhere sends no strict cookie.
    """
    sessions: BrowserSessions = state.sessions
    if not state.hosts.has_pages(request.headers.get("host", "")):
        return render_sign_in(request)
    if not key and find_proxy_user(request):
        return templates.render_page(request, "signed_in.html", bare=True, to="/")
    if not key or not sessions.keys.use_key(key):
        return render_sign_in(request, USED_MESSAGE if key else "")
    answer = templates.render_page(
        request, "signed_in.html", bare=True, to=take_wanted_page(request)
    )
    forget_wanted_page(request, answer)
    value = sessions.sign_in(request.headers.get("user-agent", ""))
    answer.headers["Set-Cookie"] = build_cookie(request, value)
    return answer


@post("/logout", sync_to_thread=True, guards=[require_session])
def sign_browser_out(request: AnyRequest, state: State) -> PageResponse:
    """End this browser's session."""
    if session := find_current_session(request):
        state.sessions.end_session(session.id)
    message = describe_signed_out(request, "You are signed out.")
    answer = render_sign_in(request, message, status=200)
    answer.headers["Set-Cookie"] = build_cookie(request, "", 0)
    return answer


def describe_signed_out(request: AnyRequest, message: str) -> str:
    """Describe the end of a session; the proxy's user stays signed in without one."""
    user = find_proxy_user(request)
    return PROXY_MESSAGE.format(name=user.name) if user else message


def render_sign_in(request: AnyRequest, message: str = "", status: int = 401) -> PageResponse:
    """Render the page that says how to sign in, or the next one of a user whom the proxy names."""
    user, path = find_named_user(request), templates.get_own_path(request)
    has_pages: bool = request.app.state.hosts.has_pages(request.headers.get("host", ""))
    is_login = request.url.path == "/login"
    if status == 401 and _comes_by_link(request):
        if user and user.is_allowed:
            return templates.render_page(request, "signed_in.html", bare=True, to=path)
        is_document = request.headers.get("sec-fetch-dest") == "document"
        if has_pages and user is None and not is_login and is_document:
            return templates.render_page(
                request, "signed_in.html", 401, bare=True, to=path, arriving=True
            )
    if status == 401 and user and not user.is_allowed:
        message = message or STRANGER_MESSAGE.format(name=user.name)
    reload_path = path if status == 401 and not is_login else ""
    if not has_pages:
        message, reload_path = OTHER_NAME_MESSAGE, ""
    answer = templates.render_page(
        request, "sign_in.html", status, bare=True, said=message, again=reload_path
    )
    if reload_path:
        keep_wanted_page(request, answer, reload_path)
    return answer


def _comes_by_link(request: AnyRequest) -> bool:
    """Whether a browser came by a link of another site, so that it sent no strict cookie.

    The page continues as one of its own: then the cookie, or the proxy, says whether it is signed
    in, and the other site learns nothing from how long that takes.
    """
    is_visit = request.method == "GET" and request.headers.get("sec-fetch-mode") == "navigate"
    return is_visit and comes_from_elsewhere(request)


TITLES = {
    400: "Not possible",
    403: "Refused",
    404: "Nothing here",
    409: "Not now",
    503: "Not available",
}


def render_error(request: AnyRequest, error: Exception) -> PageResponse:
    """Render any error of a page, with the status and the sentence that the API gives it."""
    if isinstance(error, HTTPException) and error.status_code == 405 and request.method == "GET":
        return templates.redirect(request, find_page_of(templates.get_own_path(request)))
    if isinstance(error, HTTPException) and error.status_code == 401:
        if request.headers.get("hx-request"):
            reload = {**templates.PAGE_HEADERS, "HX-Refresh": "true"}
            return Response(b"", status_code=401, headers=reload)
        return render_sign_in(request)
    kind = next(kind for kind in type(error).__mro__ if kind in PAGE_EXCEPTION_HANDLERS)
    answer = error_answers.EXCEPTION_HANDLERS[kind](request, error)
    content: dict[str, Any] = answer.content
    status = answer.status_code or 500
    path, title = templates.get_own_path(request), TITLES.get(status, "That failed")
    if request.headers.get("hx-request"):
        return templates.build_html_response(
            request, templates.render_macro("macros.html", "refused", content["error"]), status
        )
    reload_path = path if status != 404 and request.method == "GET" else ""
    return templates.render_page(
        request, "error.html", status, title=title, sentence=content["error"], bare=not is_signed_in(request), again=reload_path,
    )  # fmt: skip


_PAGES_OF_FORMS = {
    "/agents/adopt": "/agents/new", "/alerts/seen": "/alerts", "/logout": "/",
    "/settings/sessions/end": "/settings/browsers", "/settings/test": "/settings/notifications",
}  # fmt: skip


def find_page_of(path: str) -> str:
    """Find the page of an address that only takes a form, for a browser that loads it again."""
    parent = path.rpartition("/")[0]
    if path.startswith("/hosts/"):
        parent = "/hosts"
    return _PAGES_OF_FORMS.get(path) or parent or "/"


def handle_anywhere(
    request: AnyRequest, error: HTTPException
) -> PageResponse | error_answers.JsonResponse:
    """Handle what Litestar refuses before a route is known: a page for a browser, else data."""
    wants_page = "text/html" in request.headers.get("accept", "")
    if wants_page and not request.url.path.startswith(API_PREFIX):
        return render_error(request, error)
    return error_answers.handle_http_error(request, error)


PAGE_EXCEPTION_HANDLERS: dict[Any, Any] = dict.fromkeys(
    (TasukiError, ValidationException, HTTPException, Exception), render_error
)
"""The handlers for the router of the pages, by exception class."""
