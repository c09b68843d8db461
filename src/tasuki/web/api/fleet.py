"""`/api/agents`, `/api/handoffs`, `/api/personas` and `/api/lineage`."""

import operator
from inspect import Parameter, Signature
from typing import Annotated, Any

import msgspec
from litestar import delete, get, patch, post
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath, FromQuery, HeaderParameter, JSONBody, QueryParameter

from tasuki.fleet.agents import personas
from tasuki.fleet.agents.agent_ends import find_lost_agents
from tasuki.fleet.agents.persona_files import decide_lessons, list_lessons
from tasuki.fleet.changes.pull_requests import PullRequest
from tasuki.fleet.changes.records import Since, WorkChanges
from tasuki.fleet.exchange.host_list import find_host, read_labels
from tasuki.fleet.exchange.shared_files import share_persona
from tasuki.fleet.hooks.correlator import find_caller
from tasuki.fleet.orders import agents, handoffs
from tasuki.fleet.orders.bodies import (
    CallerClues,
    LessonOrder,
    MuteOrder,
    NewHandoff,
    NewPersona,
    PersonaChange,
    Recovery,
)
from tasuki.fleet.orders.handoffs import HandoffOrder
from tasuki.fleet.orders.order import HostOrder
from tasuki.fleet.service import Fleet
from tasuki.fleet.store import queries
from tasuki.fleet.store.models import FleetAgent, FleetHandoff, HandoffState, Persona, PersonaLesson
from tasuki.fleet.store.queries import GREATEST_ID
from tasuki.web.handlers import PathId, PathWord, TheFleet
from tasuki.web.views import display

AgentIdQuery = Annotated[int | None, QueryParameter(ge=1, le=GREATEST_ID)]
"""The id of an agent."""
LimitQuery = Annotated[int, QueryParameter(ge=1, le=1000)]
KeyHeader = Annotated[str, HeaderParameter(name="Idempotency-Key", max_length=200)]


# -- orders: a route is built from the function of each one that has an address ----------


def build_route(order: HostOrder[Any, ..., Any]) -> HTTPRouteHandler:
    """Build the route of an order: `id` is in its path, `data` its body, `key` a header."""

    def give_order(fleet: Fleet, **words: Any) -> dict[str, Any]:
        return show_result(order(fleet, **words))

    kinds: dict[str, Any] = {"fleet": TheFleet, "id": PathId, "key": KeyHeader}
    if "data" in order.types:
        kinds["data"] = operator.getitem(JSONBody, order.types["data"])
    taken = {name: kinds[name] for name in order.signature.parameters if name in kinds}
    # What it raises is in the answers.
    says = (order.function.__doc__ or "").partition("Raises ")[0].rstrip()
    give_order.__name__, give_order.__doc__ = order.name, says
    give_order.__annotations__ = {**taken, "return": dict[str, Any]}
    parameters = [
        Parameter(name, Parameter.KEYWORD_ONLY, annotation=kind, default="" if name == "key" else Parameter.empty)
        for name, kind in taken.items()
    ]  # fmt: skip
    vars(give_order)["__signature__"] = Signature(parameters)
    return post(order.at, status_code=200, sync_to_thread=True)(give_order)


def show_result(result: Any) -> dict[str, Any]:
    """Return the result of an order as the API shows it, without secrets."""
    if isinstance(result, FleetAgent):
        return display.redact_agent(result)
    if isinstance(result, FleetHandoff):
        return {"status": "initiated", **display.redact_handoff(result)}
    return dict(result)


# -- agents ----------------------------------------------------------------------------


@get("/agents", sync_to_thread=True)
def list_agents(
    fleet: TheFleet,
    ended: FromQuery[bool | None] = None,
    persona: FromQuery[str] = "",
    host: FromQuery[str] = "",
    limit: LimitQuery = 200,
    before: AgentIdQuery = None,
) -> dict[str, Any]:
    """List agents of every host, newest first; `ended=false` for those that run.

    `host`: only those of one. Where there are more, `next` is the `before` of the next page, else
    null. `hosts` are the names of the hosts by their ids.
    """
    host_id = find_host(fleet.database, host).id if host else ""
    listed = queries.list_agents(
        fleet.database, ended=ended, persona=persona, host=host_id, limit=limit + 1,
        before=before or 0,
    )  # fmt: skip
    next_id = listed[limit - 1].id if len(listed) > limit else None
    return {
        "agents": list(map(display.redact_agent, listed[:limit])),
        "next": next_id,
        "hosts": read_labels(fleet.database),
    }


@get("/agents/{id:int}", sync_to_thread=True)
def show_agent(fleet: TheFleet, id: PathId) -> dict[str, Any]:
    """Show an agent, its handoffs, and how to attach to it.

    That is the path of the socket of its tmux server, or why it cannot be attached to from
    here.
    """
    agent = queries.load_agent(fleet.database, id)
    listed = queries.list_handoffs(fleet.database, agent_id=id)
    return {
        **display.redact_agent(agent),
        "handoffs": list(map(display.redact_handoff, listed)),
        "tmux": fleet.panes.find_socket_path() if agent.pane else "",
        "elsewhere": agents.describe_other_host(fleet, agent),
        "host_label": read_labels(fleet.database, [agent.host]).get(agent.host, ""),
    }


@get("/agents/{id:int}/changes", sync_to_thread=True)
def show_changes(
    fleet: TheFleet,
    id: PathId,
    since: FromQuery[Since] = "start",
    diff: Annotated[str, QueryParameter(max_length=40)] = "",
) -> WorkChanges:
    """Show what an agent changed since it began, or since its last handoff document.

    `diff` is `all` for the differences of every file, or the `key` of a file for its own alone
    and whole. Where nothing can be read, `problem` is a sentence.
    """
    return agents.read_changes(fleet, id, since, diff)


@get("/agents/{id:int}/pull-request", sync_to_thread=True)
def show_pull_request(fleet: TheFleet, id: PathId) -> PullRequest:
    """Show the pull request of an agent's branch and its checks, as `gh` on its host says.

    `number` is 0 where there is none; `note` says why. Asked at most once a minute.
    """
    return agents.find_pull_request(fleet, id)


@post("/agents/own", status_code=200, sync_to_thread=True)
def find_own_agent(fleet: TheFleet, data: JSONBody[CallerClues]) -> dict[str, Any]:
    """Find the running agent that a caller on this machine is a part of; null for none."""
    agent = find_caller(fleet.database, fleet.host, data.token, data.sessions, data.processes)
    return {"agent": display.redact_agent(agent) if agent else None}


@get("/agents/{id:int}/screen", sync_to_thread=True)
def show_screen(fleet: TheFleet, id: PathId) -> dict[str, str]:
    """Show what the pane of an agent shows now, without secrets."""
    return {"screen": agents.read_screen(fleet, id)}


@post("/agents/{id:int}/mute", status_code=200, sync_to_thread=True)
def mute_agent(fleet: TheFleet, id: PathId, data: JSONBody[MuteOrder]) -> dict[str, Any]:
    """Mute an agent: its alerts are listed, and notify nobody. `muted` says until when, in words."""
    agents.mute_agent(fleet, id, data.span)
    return display.redact_agent(queries.load_agent(fleet.database, id))


@get("/agents/lost", sync_to_thread=True)
def list_lost_agents(fleet: TheFleet) -> dict[str, Any]:
    """List lost agents without a successor, oldest first; why one cannot be recovered."""
    return {
        "agents": [
            display.redact_lost_agent(lost)
            for lost in find_lost_agents(fleet.database, fleet.panes, fleet.host)
        ]
    }


@post("/agents/recover", status_code=200, sync_to_thread=True)
def recover_agents(fleet: TheFleet, data: JSONBody[Recovery]) -> dict[str, Any]:
    """Recover every lost agent from its thread, a few at once; answers at once with what begins."""
    recovered = handoffs.recover_lost_agents(fleet, data.reason)
    return {"agents": [display.redact_lost_agent(*one) for one in recovered]}


@post("/agents/{id:int}/handoff", status_code=200, sync_to_thread=True)
def hand_off(fleet: TheFleet, id: PathId, data: JSONBody[NewHandoff]) -> dict[str, Any]:
    """Hand an agent off to a fresh one of its persona; answers at once, while the handoff continues.

    409 while one is under way or recorded. One that failed before its record may be requested
    again here; one that failed after it is continued by `/api/handoffs/{id}/retry`. With `to_host`
    the successor works on another host; with `dry_run` the answer says what that would do.
    """
    if data.dry_run:
        preview = handoffs.preview_move(fleet, id, data)
        return {"status": "previewed", **msgspec.to_builtins(preview)}
    return show_result(handoffs.hand_off(fleet, id, data))


@get("/handoffs", sync_to_thread=True)
def list_handoffs(
    fleet: TheFleet,
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
    listed = queries.list_handoffs(
        fleet.database, agent_id=agent, persona=persona, state=in_state or "", limit=limit + 1,
        before=before,
    )  # fmt: skip
    more = len(listed) > limit
    return {
        "handoffs": list(map(display.redact_handoff, listed[:limit])),
        "next": listed[limit - 1].id if more else None,
        "counts": queries.count_handoffs(fleet.database),
    }


@get("/handoffs/{id:str}", sync_to_thread=True)
def show_handoff(fleet: TheFleet, id: PathWord) -> dict[str, Any]:
    """Show a handoff by the beginning of its id: its steps, and its document if there is one."""
    handoff = queries.load_handoff(fleet.database, id)
    return {
        **display.redact_handoff(handoff),
        "steps": queries.list_steps(fleet.database, handoff.id),
        "document": display.read_shared_document(fleet.database, handoff),
    }


@post("/handoffs/{id:str}/{order:str}", status_code=200, sync_to_thread=True)
def order_handoff(fleet: TheFleet, id: PathWord, order: FromPath[HandoffOrder]) -> dict[str, Any]:
    """Carry out an operator's order for a handoff.

    `retry` continues a failed one; `cancel` ends it where it is; `finish` marks a failed one as
    done; `skip` does without the acknowledgement.
    """
    return display.redact_handoff(handoffs.order_handoff(fleet, id, order))


@get("/personas", sync_to_thread=True)
def list_personas(
    fleet: TheFleet, retired: FromQuery[bool | None] = False
) -> dict[str, list[Persona]]:
    """List every persona by its slug; `retired=true` for those that are retired."""
    return {"personas": queries.list_personas(fleet.database, retired=retired)}


@get("/personas/{slug:str}", sync_to_thread=True)
def show_persona(fleet: TheFleet, slug: PathWord) -> dict[str, Any]:
    """Show a persona, its skill, and the agents that work as it."""
    persona = queries.load_persona(fleet.database, slug)
    share_persona(fleet.database, fleet.root, slug)
    working = queries.list_agents(fleet.database, ended=False, persona=slug)
    return {
        **msgspec.to_builtins(persona),
        "skill": personas.read_skill(fleet.root, slug),
        "agents": list(map(display.redact_agent, working)),
    }


@post("/personas", status_code=200, sync_to_thread=True)
def add_persona(fleet: TheFleet, data: JSONBody[NewPersona]) -> Persona:
    """Add a persona and its folder."""
    persona = personas.add_persona(fleet.database, fleet.root, data)
    share_persona(fleet.database, fleet.root, persona.slug)
    fleet.changes.notify()
    return persona


@patch("/personas/{slug:str}", sync_to_thread=True)
def edit_persona(fleet: TheFleet, slug: PathWord, data: JSONBody[PersonaChange]) -> Persona:
    """Change the given settings of a persona."""
    share_persona(fleet.database, fleet.root, slug)
    changed = personas.edit_persona(fleet.database, fleet.root, slug, data)
    share_persona(fleet.database, fleet.root, slug)
    fleet.changes.notify()
    return changed


@delete("/personas/{slug:str}", status_code=200, sync_to_thread=True)
def retire_persona(fleet: TheFleet, slug: PathWord) -> Persona:
    """Start no more agents of a persona; its folder and its history stay."""
    retired = personas.retire_persona(fleet.database, slug)
    fleet.changes.notify()
    return retired


@get("/personas/{slug:str}/lessons", sync_to_thread=True)
def list_persona_lessons(fleet: TheFleet, slug: PathWord) -> dict[str, list[PersonaLesson]]:
    """List what agents of a persona proposed that later ones should know, oldest first."""
    return {"lessons": list_lessons(fleet.database, slug)}


@post("/personas/{slug:str}/lessons", status_code=200, sync_to_thread=True)
def decide_persona_lessons(
    fleet: TheFleet, slug: PathWord, data: JSONBody[LessonOrder]
) -> dict[str, list[PersonaLesson]]:
    """Accept proposed lessons, which adds them to `experience.md`, or drop them."""
    share_persona(fleet.database, fleet.root, slug)
    decided = decide_lessons(fleet.database, fleet.root, slug, data.order, data.ids)
    share_persona(fleet.database, fleet.root, slug)
    fleet.changes.notify()
    return {"lessons": decided}


@get("/lineage/{slug:str}", sync_to_thread=True)
def show_lineage(fleet: TheFleet, slug: PathWord) -> dict[str, Any]:
    """Show the chains of a persona's agents, with the handoffs between them; oldest first."""
    return {"chains": list(map(display.redact_chain, queries.build_lineage(fleet.database, slug)))}
