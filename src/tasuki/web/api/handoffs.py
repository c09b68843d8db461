"""`/api/handoffs`."""

from typing import Annotated, Any, Literal

from litestar import Router, get, post
from litestar.di import NamedDependency
from litestar.params import FromPath, FromQuery, QueryParameter

from tasuki.fleet.service import Fleet
from tasuki.fleet.store import queries
from tasuki.fleet.store.models import HandoffState
from tasuki.web.api.agents import AgentIdQuery, LimitQuery
from tasuki.web.security.auth import require_operator
from tasuki.web.views import redacted

HandoffOrder = Literal["retry", "cancel", "finish", "skip"]


@get("/handoffs", sync_to_thread=True)
def list_handoffs(
    fleet: NamedDependency[Fleet],
    agent: AgentIdQuery = None,
    persona: FromQuery[str] = "",
    in_state: Annotated[HandoffState | None, QueryParameter(name="state")] = None,
    limit: LimitQuery = 200,
    before: FromQuery[str] = "",
) -> dict[str, Any]:
    """List handoffs of agents, newest first.

    Where there are more, `next` is the `before` of the next page, else null. `counts` are all
    that are kept, by state.
    """
    handoffs = queries.list_handoffs(
        fleet.database, agent_id=agent, persona=persona, state=in_state or "", limit=limit + 1,
        before=before,
    )  # fmt: skip
    more = len(handoffs) > limit
    return {
        "handoffs": list(map(redacted.redact_handoff, handoffs[:limit])),
        "next": handoffs[limit - 1].id if more else None,
        "counts": queries.count_handoffs(fleet.database),
    }


@get("/handoffs/{id:str}", sync_to_thread=True)
def show_handoff(fleet: NamedDependency[Fleet], id: FromPath[str]) -> dict[str, Any]:
    """Show a handoff by the beginning of its id: its steps, and its document if there is one."""
    handoff = queries.load_handoff(fleet.database, id)
    return {
        **redacted.redact_handoff(handoff),
        "steps": queries.list_steps(fleet.database, handoff.id),
        "document": redacted.read_document(handoff.file_path),
    }


@post("/handoffs/{id:str}/{order:str}", status_code=200, sync_to_thread=True)
def order_handoff(
    fleet: NamedDependency[Fleet], id: FromPath[str], order: FromPath[HandoffOrder]
) -> dict[str, Any]:
    """Carry out an operator's order for a handoff.

    `retry` continues a failed one; `cancel` ends it where it is; `finish` marks a failed one as
    done; `skip` does without the acknowledgement.
    """
    whole = queries.load_handoff(fleet.database, id).id
    return redacted.redact_handoff(getattr(fleet, order)(whole))


router = Router(
    "/api",
    route_handlers=[list_handoffs, show_handoff, order_handoff],
    guards=[require_operator],
    tags=["handoffs"],
)
