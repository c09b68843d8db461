"""`/api/login` and `/api/sessions`: links that sign a browser in, and the browsers that are."""

from typing import Any

from litestar import Request, Router, get, post
from litestar.datastructures import State
from litestar.params import FromPath

from tasuki.web.auth import operator_only
from tasuki.web.sessions import describe_sessions, sign_in_link
from tasuki.web.sign_in_keys import KEY_SECONDS


@post("/login", status_code=200, sync_to_thread=False)
def make_link(request: Request[Any, Any, Any], state: State) -> dict[str, Any]:
    """A link that signs one browser in, once, within `seconds`. `id` is what `/api/login/ID` takes."""
    made = state.sessions.keys.make_key()
    link = sign_in_link(state.hosts, request.headers.get("host", ""), made.key)
    return {"id": made.id, "link": link, "seconds": int(KEY_SECONDS)}


@get("/login/{id:str}", sync_to_thread=False)
def show_link(state: State, id: FromPath[str]) -> dict[str, str]:
    """What became of a link: `unused`, `used` or `over`."""
    return {"state": state.sessions.keys.state_of(id)}


@get("/sessions", sync_to_thread=False)
def list_sessions(state: State) -> dict[str, Any]:
    """The browsers that are signed in, the one that was used last first."""
    return {"sessions": describe_sessions(state.sessions)}


@post("/sessions/{id:int}/end", status_code=200, sync_to_thread=True)
def end_session(state: State, id: FromPath[int]) -> dict[str, Any]:
    """Sign a browser out."""
    state.sessions.end(id)
    return {"ended": 1}


@post("/sessions/end", status_code=200, sync_to_thread=True)
def end_all_sessions(state: State) -> dict[str, Any]:
    """Sign every browser out; how many that were."""
    return {"ended": state.sessions.end_all()}


router = Router(
    "/api",
    route_handlers=[make_link, show_link, list_sessions, end_session, end_all_sessions],
    guards=[operator_only],
    tags=["login"],
)
