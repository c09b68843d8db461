"""Signing a browser in by the link that `tasuki serve` prints, and out again."""

from litestar import get, post
from litestar.datastructures import State
from litestar.params import FromQuery

from tasuki.web.pages import frame
from tasuki.web.pages.frame import Asked, Page
from tasuki.web.sessions import Sessions, cookie, is_signed_in, signed_in

HINT = "Open the link that tasuki serve printed when it started, or ask for a new one: tasuki dashboard"


@get("/login", sync_to_thread=False, include_in_schema=False)
def login(request: Asked, state: State, key: FromQuery[str] = "") -> Page:
    """Sign a browser in.

    The page goes on by itself: a redirect would be part of the navigation that brought the link, for
    which a browser that came from elsewhere sends no strict cookie.
    """
    sessions: Sessions = state.sessions
    host = request.headers.get("host", "")
    if not sessions.opens(key):
        said = "This link is none of the server that runs now." if key else ""
        return sign_in(request, said)
    answer = frame.page(request, "signed_in.html", bare=True)
    answer.headers["Set-Cookie"] = cookie(host, sessions.made())
    return answer


@post("/logout", sync_to_thread=False, include_in_schema=False, guards=[signed_in])
def logout(request: Asked) -> Page:
    """Forget this browser's session."""
    answer = sign_in(request, "You are signed out.", status=200)
    answer.headers["Set-Cookie"] = cookie(request.headers.get("host", ""), "", 0)
    return answer


def sign_in(request: Asked, said: str = "", status: int = 401) -> Page:
    """The page that says how to sign in."""
    return frame.page(
        request,
        "sign_in.html",
        status,
        bare=True,
        said=said,
        hint=HINT,
        again=is_signed_in(request),
    )
