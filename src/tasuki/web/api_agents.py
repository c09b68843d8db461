"""`/api/agents`."""

from typing import Annotated, Any

from litestar import Router, get, post
from litestar.di import NamedDependency
from litestar.params import FromPath, FromQuery, HeaderParameter, JSONBody, QueryParameter

from tasuki.fleet import reading
from tasuki.fleet.callers import find_caller
from tasuki.fleet.lost_agents import find_lost_agents, recover_lost_agents
from tasuki.fleet.reading import GREATEST_ID
from tasuki.fleet.service import Fleet
from tasuki.web import views
from tasuki.web.auth import operator_only
from tasuki.web.bodies import Adoption, Caller, Key, Message, NewAgent, NewHandoff, Recovery

One = Annotated[int | None, QueryParameter(ge=1, le=GREATEST_ID)]
"""The id of an agent."""
Limit = Annotated[int, QueryParameter(ge=1, le=1000)]


@get("/agents", sync_to_thread=True)
def list_agents(
    fleet: NamedDependency[Fleet],
    ended: FromQuery[bool | None] = None,
    persona: FromQuery[str] = "",
    limit: Limit = 200,
    before: One = None,
) -> dict[str, Any]:
    """Agents, the newest first; `ended=false` for those that run.

    Where there are more, `next` is what `before` of the next page is, else null.
    """
    found = reading.agents(
        fleet.database, ended=ended, persona=persona, limit=limit + 1, before=before or 0
    )
    next_id = found[limit - 1].id if len(found) > limit else None
    return {"agents": list(map(views.agent, found[:limit])), "next": next_id}


@get("/agents/{id:int}", sync_to_thread=True)
def show_agent(fleet: NamedDependency[Fleet], id: FromPath[int]) -> dict[str, Any]:
    """An agent, its handoffs, the path of the socket of its tmux server, and why it cannot be attached to from here."""
    found = reading.agent(fleet.database, id)
    handoffs = reading.handoffs(fleet.database, agent_id=id)
    return {
        **views.agent(found),
        "handoffs": list(map(views.handoff, handoffs)),
        "tmux": fleet.panes.socket_path() if found.pane else "",
        "elsewhere": fleet.tell_elsewhere(id),
    }


@post("/agents", status_code=200, sync_to_thread=True)
def start_agent(fleet: NamedDependency[Fleet], data: JSONBody[NewAgent]) -> dict[str, Any]:
    """Start an agent in a tmux window; answers once its program runs."""
    agent = fleet.start_agent(
        harness=data.harness, persona=data.persona, cwd=data.cwd, model=data.model,
        permission=data.permission, goal=data.goal, arguments=data.arguments,
    )  # fmt: skip
    return views.agent(agent)


@post("/agents/adopt", status_code=200, sync_to_thread=True)
def adopt_agent(fleet: NamedDependency[Fleet], data: JSONBody[Adoption]) -> dict[str, Any]:
    """Take on an agent that runs in a pane already."""
    agent = fleet.adopt(
        pane=data.pane, harness=data.harness, persona=data.persona, session=data.session
    )
    return views.agent(agent)


@post("/agents/own", status_code=200, sync_to_thread=True)
def own_agent(fleet: NamedDependency[Fleet], data: JSONBody[Caller]) -> dict[str, Any]:
    """The running agent that a caller on this machine is a part of; null where it is in none."""
    found = find_caller(fleet.database, fleet.host, data.token, data.sessions, data.processes)
    return {"agent": views.agent(found) if found else None}


@post("/agents/{id:int}/send", status_code=200, sync_to_thread=True)
def send(
    fleet: NamedDependency[Fleet],
    id: FromPath[int],
    data: JSONBody[Message],
    key: Annotated[str, HeaderParameter(name="Idempotency-Key", max_length=200)] = "",
) -> dict[str, Any]:
    """Type a text to an agent as a prompt; whether its turn began: `proven`, `uncertain`, `refused`.

    Sent again with the same `Idempotency-Key`, it is not typed again; the answer is what is known then.
    """
    return fleet.send(id, data.text, key)


@get("/agents/{id:int}/screen", sync_to_thread=True)
def screen(fleet: NamedDependency[Fleet], id: FromPath[int]) -> dict[str, str]:
    """What the pane of an agent shows now, without secrets."""
    return {"screen": fleet.screen(id)}


@post("/agents/{id:int}/keys", status_code=200, sync_to_thread=True)
def keys(fleet: NamedDependency[Fleet], id: FromPath[int], data: JSONBody[Key]) -> dict[str, Any]:
    """Press one key in the pane of an agent, such as a dialog asks for: `Enter`, `Escape`, `y`, `1`."""
    fleet.press(id, data.key)
    return views.agent(reading.agent(fleet.database, id))


@post("/agents/{id:int}/stop", status_code=200, sync_to_thread=True)
def stop_agent(fleet: NamedDependency[Fleet], id: FromPath[int]) -> dict[str, Any]:
    """End an agent in its own words; answers once it has ended."""
    return views.agent(fleet.stop_agent(id))


@get("/agents/lost", sync_to_thread=True)
def list_lost_agents(fleet: NamedDependency[Fleet]) -> dict[str, Any]:
    """Agents that were lost and that nobody succeeded, the oldest first; why one cannot be carried on."""
    return {
        "agents": [
            views.lost_agent(lost)
            for lost in find_lost_agents(fleet.database, fleet.panes, fleet.host)
        ]
    }


@post("/agents/recover", status_code=200, sync_to_thread=True)
def recover(fleet: NamedDependency[Fleet], data: JSONBody[Recovery]) -> dict[str, Any]:
    """Carry every lost agent on from its thread, a few at once; answers at once with what begins."""
    return {"agents": [views.lost_agent(*one) for one in recover_lost_agents(fleet, data.reason)]}


@post("/agents/{id:int}/handoff", status_code=200, sync_to_thread=True)
def hand_off(
    fleet: NamedDependency[Fleet], id: FromPath[int], data: JSONBody[NewHandoff]
) -> dict[str, Any]:
    """Hand an agent off to a fresh one of its persona; answers at once, the handoff goes on.

    409 while one is under way or recorded. One that failed before its record may be asked for
    again here; one that failed behind it is carried on by `/api/handoffs/{id}/retry`.
    """
    made = fleet.hand_off(
        id, reason=data.reason, context=data.context, goal=data.goal, force=data.force,
        from_thread=data.source == "thread",
    )  # fmt: skip
    return {"status": "initiated", **views.handoff(made)}


router = Router(
    "/api",
    route_handlers=[
        list_agents, show_agent, start_agent, adopt_agent, own_agent, list_lost_agents,
        recover, send, screen, keys, stop_agent, hand_off,
    ],
    guards=[operator_only],
    tags=["agents"],
)  # fmt: skip
