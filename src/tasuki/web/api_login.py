"""`/api/login`: the key of the link that signs a browser in to the dashboard."""

from litestar import Router, post
from litestar.datastructures import State

from tasuki.web.auth import operator_only


@post("/login", status_code=200, sync_to_thread=False)
def login_key(state: State) -> dict[str, str]:
    """The key for `/login?key=`, which holds until the server ends."""
    return {"key": state.sessions.key}


router = Router("/api", route_handlers=[login_key], guards=[operator_only], tags=["login"])
