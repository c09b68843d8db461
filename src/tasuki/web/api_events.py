"""`/api/events`, live, and `/api/log`, in pages."""

from typing import Annotated, Any

from litestar import Request, Router, get
from litestar.di import NamedDependency
from litestar.params import QueryParameter
from litestar.response import Stream

from tasuki.fleet import reading
from tasuki.fleet.rows import FleetEvent
from tasuki.fleet.service import Fleet
from tasuki.web.api_agents import One
from tasuki.web.auth import operator_only
from tasuki.web.live import Live

After = Annotated[int, QueryParameter(ge=0)]
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


@get("/events", media_type="text/event-stream")
async def events(
    request: Request[Any, Any, Any],
    live: NamedDependency[Live],
    after: Annotated[int | None, QueryParameter(ge=0)] = None,
) -> Stream:
    """The fleet's log as it grows, as server-sent events; each `data` is a line of the log.

    Goes on behind the id in `Last-Event-ID` or `after`; without either only what is new is sent.
    """
    last = request.headers.get("last-event-id", "")
    if last.isascii() and last.isdigit() and len(last) < 20:
        after = int(last)
    return Stream(live.pieces(after), media_type="text/event-stream", headers=HEADERS)


@get("/log", sync_to_thread=True)
def log(
    fleet: NamedDependency[Fleet],
    after: After = 0,
    limit: Annotated[int, QueryParameter(ge=1, le=1000)] = 200,
    agent: One = None,
) -> dict[str, list[FleetEvent]]:
    """Lines of the fleet's log behind the id `after`, the oldest first; of one agent, if named."""
    return {"events": reading.events_after(fleet.database, after, limit, agent)}


router = Router("/api", route_handlers=[events, log], guards=[operator_only], tags=["events"])
