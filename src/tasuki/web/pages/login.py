"""Signing a browser in by a link of `tasuki dashboard`, and out again."""

from litestar import get, post
from litestar.datastructures import State
from litestar.params import FromQuery

from tasuki.web.pages import frame
from tasuki.web.pages.frame import Asked, Page
from tasuki.web.sessions import Sessions, current_session, make_cookie, signed_in

HINT = "Run tasuki dashboard --open on the machine of the server, or open the link that tasuki dashboard prints."
OVER = "This link was used, or is older than a minute: each signs one browser in."
OTHER_NAME = (
    "Pages are opened under the host name of the link alone: cookies of 127.0.0.1 and localhost "
    "would go to every other program that this browser opens there."
)


@get("/login", sync_to_thread=True, include_in_schema=False)
def login(request: Asked, state: State, key: FromQuery[str] = "") -> Page:
    """Sign a browser in.

    The page goes on by itself: a redirect would be part of the navigation that brought the link, for
    which a browser that came from elsewhere sends no strict cookie.
    """
    sessions: Sessions = state.sessions
    if not state.hosts.has_pages(request.headers.get("host", "")):
        return sign_in(request)
    if not key or not sessions.keys.use_key(key):
        return sign_in(request, OVER if key else "")
    answer = frame.page(request, "signed_in.html", bare=True)
    value = sessions.sign_in(request.headers.get("user-agent", ""))
    answer.headers["Set-Cookie"] = make_cookie(sessions, value)
    return answer


@post("/logout", sync_to_thread=True, include_in_schema=False, guards=[signed_in])
def logout(request: Asked, state: State) -> Page:
    """End this browser's session."""
    if session := current_session(request):
        state.sessions.end(session.id)
    answer = sign_in(request, "You are signed out.", status=200)
    answer.headers["Set-Cookie"] = make_cookie(state.sessions, "", 0)
    return answer


def sign_in(request: Asked, said: str = "", status: int = 401) -> Page:
    """The page that says how to sign in."""
    again = frame.own_path(request) if status == 401 and request.url.path != "/login" else ""
    if not request.app.state.hosts.has_pages(request.headers.get("host", "")):
        said, again = OTHER_NAME, ""
    return frame.page(request, "sign_in.html", status, bare=True, said=said, hint=HINT, again=again)
