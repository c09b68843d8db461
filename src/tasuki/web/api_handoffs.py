"""`/api/handoffs`."""

from typing import Annotated, Any, Literal

from litestar import Router, get, post
from litestar.di import NamedDependency
from litestar.params import FromPath, FromQuery, QueryParameter

from tasuki.fleet import reading
from tasuki.fleet.rows import HandoffState
from tasuki.fleet.service import Fleet
from tasuki.web import views
from tasuki.web.api_agents import Limit, One
from tasuki.web.auth import operator_only

Order = Literal["retry", "cancel", "finish", "skip"]


@get("/handoffs", sync_to_thread=True)
def list_handoffs(
    fleet: NamedDependency[Fleet],
    agent: One = None,
    persona: FromQuery[str] = "",
    in_state: Annotated[HandoffState | None, QueryParameter(name="state")] = None,
    limit: Limit = 200,
    before: FromQuery[str] = "",
) -> dict[str, Any]:
    """Handoffs of agents, the newest first.

    Where there are more, `next` is what `before` of the next page is, else null. `counts` are all
    that are kept, by state.
    """
    found = reading.handoffs(
        fleet.database, agent_id=agent, persona=persona, state=in_state or "", limit=limit + 1,
        before=before,
    )  # fmt: skip
    more = len(found) > limit
    return {
        "handoffs": list(map(views.handoff, found[:limit])),
        "next": found[limit - 1].id if more else None,
        "counts": reading.count_handoffs(fleet.database),
    }


@get("/handoffs/{id:str}", sync_to_thread=True)
def show_handoff(fleet: NamedDependency[Fleet], id: FromPath[str]) -> dict[str, Any]:
    """A handoff by the beginning of its id: its steps, and its document if there is one."""
    found = reading.handoff(fleet.database, id)
    return {
        **views.handoff(found),
        "steps": reading.steps(fleet.database, found.id),
        "document": views.document(found.file_path),
    }


@post("/handoffs/{id:str}/{order:str}", status_code=200, sync_to_thread=True)
def order(
    fleet: NamedDependency[Fleet], id: FromPath[str], order: FromPath[Order]
) -> dict[str, Any]:
    """What the operator can do with a handoff.

    `retry` carries a failed one on; `cancel` ends it where it is; `finish` calls a failed one
    done; `skip` does without the acknowledgement.
    """
    whole = reading.handoff(fleet.database, id).id
    return views.handoff(getattr(fleet, order)(whole))


router = Router(
    "/api",
    route_handlers=[list_handoffs, show_handoff, order],
    guards=[operator_only],
    tags=["handoffs"],
)
