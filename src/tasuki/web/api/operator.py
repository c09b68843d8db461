"""`/api/alerts`, `/api/settings`, `/api/login`, `/api/sessions`, `/api/events` and `/api/log`.

What the operator is alerted to, links that sign a browser in, the signed-in browsers, and the
fleet's log: live, and in pages.
"""

from typing import Annotated, Any

import msgspec
from litestar import Request, get, patch, post
from litestar.datastructures import State
from litestar.params import JSONBody, QueryParameter
from litestar.response import Stream

from tasuki import notify
from tasuki.fleet import alerts
from tasuki.fleet.orders.bodies import SeenAlerts, SettingsChange
from tasuki.fleet.service import Fleet
from tasuki.fleet.store import queries
from tasuki.fleet.store.models import FleetEvent
from tasuki.web.api.fleet import AgentIdQuery, LimitQuery
from tasuki.web.api.forms import collect_changes
from tasuki.web.handlers import PathId, PathWord, TheFleet
from tasuki.web.live import STREAM_HEADERS, LogStreams, parse_last_id
from tasuki.web.security.sessions import KEY_SECONDS, build_sign_in_link
from tasuki.web.views.display import keep_answer

AfterQuery = Annotated[int, QueryParameter(ge=0)]


# -- alerts and settings ---------------------------------------------------------------


@get("/alerts", sync_to_thread=True)
def list_alerts(fleet: TheFleet, limit: LimitQuery = 200) -> dict[str, Any]:
    """List alerts, newest first, and how many of them were not seen."""
    listed = alerts.list_newest_alerts(fleet.database, limit)
    return {"alerts": msgspec.to_builtins(listed), "unseen": alerts.count_unseen(fleet.database)}


@post("/alerts/seen", status_code=200, sync_to_thread=True)
def see_alerts(fleet: TheFleet, data: JSONBody[SeenAlerts]) -> dict[str, Any]:
    """Mark the alerts up to one as seen by the operator."""
    alerts.mark_seen(fleet.database, data.up_to)
    return {"unseen": alerts.count_unseen(fleet.database)}


@get("/settings", sync_to_thread=True)
def show_settings(fleet: TheFleet) -> dict[str, Any]:
    """Show the settings of the fleet that can be changed here; of addresses only their kinds."""
    return describe_settings(fleet)


@patch("/settings", sync_to_thread=True)
def change_settings(fleet: TheFleet, data: JSONBody[SettingsChange]) -> dict[str, Any]:
    """Change settings in the user's own file; they apply at once."""
    fleet.configure(**collect_changes(data))
    return describe_settings(fleet)


@post("/settings/test-notification", status_code=200, sync_to_thread=True)
def try_notifications(fleet: TheFleet) -> dict[str, list[str]]:
    """Send a test notification; return what went wrong, as sentences."""
    return {"problems": fleet.notifier.test()}


def describe_settings(fleet: Fleet) -> dict[str, Any]:
    """Describe the settings for display: an address may hold a key."""
    return {
        "context_threshold": fleet.threshold,
        "notify": notify.list_kinds(fleet.notifier.addresses),
        "notify_about": fleet.notifier.kinds.split(),
        "problem": fleet.notifier.problem,
    }


# -- browsers --------------------------------------------------------------------------


@post("/login", status_code=200, sync_to_thread=False, after_request=keep_answer)
def make_link(request: Request[Any, Any, Any], state: State) -> dict[str, Any]:
    """Make a link that signs one browser in, once, within `seconds`.

    `id` is what `/api/login/ID` takes. `local_link` is the same key, for a browser on this machine.
    """
    key, host = state.sessions.keys.make_key(), request.headers.get("host", "")
    if state.hosts.is_public(host) and (server := request.scope["server"]):
        host = f":{server[1]}"
    return {
        "id": key.id,
        "link": build_sign_in_link(state.hosts.build_page_origin(host), key.key),
        "local_link": build_sign_in_link(state.hosts.build_local_origin(host), key.key),
        "seconds": int(KEY_SECONDS),
    }


@get("/login/{id:str}", sync_to_thread=False)
def show_link(state: State, id: PathWord) -> dict[str, str]:
    """Show the state of a link: `unused`, `used` or `over`."""
    return {"state": state.sessions.keys.get_key_state(id)}


@get("/sessions", sync_to_thread=False)
def list_sessions(state: State) -> dict[str, Any]:
    """List the browsers that are signed in, the one that was used last first."""
    return {"sessions": msgspec.to_builtins(state.sessions.list_sessions())}


@post("/sessions/{id:int}/end", status_code=200, sync_to_thread=True)
def end_session(state: State, id: PathId) -> dict[str, Any]:
    """Sign a browser out."""
    state.sessions.end_session(id)
    return {"ended": 1}


@post("/sessions/end", status_code=200, sync_to_thread=True)
def end_all_sessions(state: State) -> dict[str, Any]:
    """Sign every browser out; return how many."""
    return {"ended": state.sessions.end_all()}


# -- the log ---------------------------------------------------------------------------


@get("/events", media_type="text/event-stream")
async def stream_events(
    request: Request[Any, Any, Any],
    state: State,
    after: Annotated[int | None, QueryParameter(ge=0)] = None,
) -> Stream:
    """Stream the fleet's log as it grows, as server-sent events; each `data` is a line of the log.

    Continues after the id in `Last-Event-ID` or `after`; without either only new lines are
    sent.
    """
    last_id = parse_last_id(request.headers.get("last-event-id", ""))
    live: LogStreams = state.live
    pieces = live.stream_pieces(after if last_id is None else last_id)
    return Stream(pieces, media_type="text/event-stream", headers=STREAM_HEADERS)


@get("/log", sync_to_thread=True)
def log(
    fleet: TheFleet,
    after: AfterQuery = 0,
    limit: Annotated[int, QueryParameter(ge=1, le=1000)] = 200,
    agent: AgentIdQuery = None,
) -> dict[str, list[FleetEvent]]:
    """List lines of the fleet's log after the id `after`, oldest first; of one agent, if named."""
    return {"events": queries.list_events_after(fleet.database, after, limit, agent)}
