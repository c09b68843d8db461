"""The page of one agent: what it does, its screen, and the operator's orders for it."""

import hashlib
import secrets
from collections.abc import Sequence
from typing import Any

from litestar.params import FromQuery
from msgspec.structs import replace

from tasuki.errors import NotPossible, TasukiError
from tasuki.fleet.agents.agent_ends import find_lost_agents
from tasuki.fleet.agents.lifecycle import read_folder
from tasuki.fleet.delivery.messages import KEYS
from tasuki.fleet.orders import agents
from tasuki.fleet.orders.bodies import Adoption, AgentMessage, NewAgent, QuestionAnswer
from tasuki.fleet.orders.handoffs import recover_lost_agents
from tasuki.fleet.service import Fleet
from tasuki.fleet.store import queries
from tasuki.fleet.store.models import FleetAgent, FleetEvent
from tasuki.web.api import forms
from tasuki.web.handlers import (
    AnyRequest,
    FormFields,
    FormValues,
    PathId,
    TheFleet,
    find_refusal,
    show_page,
    take_form,
    take_last,
)
from tasuki.web.pages.agent.actions import list_actions
from tasuki.web.pages.agent.goal_templates import list_shown
from tasuki.web.pages.agent.queue import build_queue
from tasuki.web.pages.agent.terminal import SentMessage, find_result, redirect_with_result
from tasuki.web.pages.fleet import cards
from tasuki.web.pages.hosts import find_stranded_agents
from tasuki.web.views import display, templates
from tasuki.web.views.hosts import find_absence, list_fleet_hosts
from tasuki.web.views.templates import PageResponse

LOG_LINES = 40
"""Lines of an agent's log on its page."""
KEY_WORDS = {
    "Up": "↑", "Down": "↓", "Left": "←", "Right": "→", "BTab": "Shift-Tab", "BSpace": "Backspace", "C-c": "Ctrl-C",
}  # fmt: skip
"""How keys are named for people, where tmux has another name."""


@show_page("/agents/{id:int}")
def show_agent(request: AnyRequest, fleet: TheFleet, id: PathId) -> PageResponse:
    """Show an agent: its card, its screen, its handoffs and its log."""
    agent = queries.load_agent(fleet.database, id)
    card = cards.build_cards(fleet, [id])[0]
    handoffs = queries.list_handoffs(fleet.database, agent_id=id)
    events = queries.list_last_events(fleet.database, id, LOG_LINES)
    personas = queries.list_personas(fleet.database) if not agent.persona else []
    context = {
        "result": find_result(request), "page": secrets.token_hex(8),
        "agent": display.redact_row(agent), "card": card, "live": f"agent:{id} hosts personas",
        "handoffs": [(display.redact_row(handoff), display.get_handoff_shape(handoff), display.get_step_name(handoff)) for handoff in handoffs],
        "events": events, "event_words": display.EVENT_WORDS, "ended": display.describe_end(agent.end_reason),
        **(_read_screen(fleet, agent) if agent.pane and agent.ended_at is None else {"screen": None, "problem": ""}),
        "keys": [(key, KEY_WORDS.get(key, key)) for key in KEYS], "personas": personas,
        **(build_queue(request, fleet, agent.persona, agent) if agent.persona and agent.ended_at is None else {"queue": None}),
        "unsent": _has_unsent_brief(agent, events),
        "is_own": cards.is_managed(agent), "actions": list_actions(card, "page"),
    }  # fmt: skip
    return templates.render_page(request, "agent.html", **context)


def _has_unsent_brief(agent: FleetAgent, events: Sequence[FleetEvent]) -> bool:
    """Whether the brief with which an agent began is still in its input, as far as is known."""
    if not agent.brief or agent.ended_at is not None or agent.turn_at is not None:
        return False
    return not agent.last_words and all(event.kind != "prompt" for event in events)


def _read_screen(fleet: Fleet, agent: FleetAgent) -> dict[str, Any]:
    if agent.host != fleet.host and (absence := find_absence(fleet.database, agent.host)):
        return {
            "screen": "",
            "problem": f"{absence} Keys and prompts are refused until it is back.",
        }
    try:
        return {"screen": agents.read_screen(fleet, agent.id), "problem": ""}
    except TasukiError as error:
        return {"screen": "", "problem": str(error)}


@take_form("/agents/{id:int}/send")
def send_text(request: AnyRequest, fleet: TheFleet, id: PathId, form: FormFields) -> PageResponse:
    """Type a text to it; its page says whether its turn began. A refused one stays typed in.

    The same text of the same page is typed once.
    """
    text, page = form.get("text", ""), form.get("page", "")
    key = f"{page} {hashlib.sha256(text.encode()).hexdigest()}" if page else ""
    try:
        body = forms.fill_body(AgentMessage, {"text": text})
        result = agents.send_text(fleet, id, body, key)
    except TasukiError as error:
        return redirect_with_result(
            request, id, SentMessage(refused=str(error), text=text), "#send"
        )
    said = display.describe_delivery(result["state"], result["why"])
    is_refused = result["state"] == "refused"
    message = SentMessage("", said, text) if is_refused else SentMessage(said)
    return redirect_with_result(request, id, message, "#send")


@show_page("/agents/{id:int}/answer")
def show_question(request: AnyRequest, id: PathId) -> PageResponse:
    """Show the question on the agent's page: a reload of a refused answer asks for this address."""
    return templates.redirect(request, f"/agents/{id}")


@take_form("/agents/{id:int}/answer")
def answer_agent(
    request: AnyRequest, fleet: TheFleet, id: PathId,
    fields: FormValues,
) -> PageResponse:  # fmt: skip
    """Answer its question; go back to where that was asked for."""
    form = take_last(fields)
    try:
        given = {name: form.get(name, "") for name in ("mark", "choice", "text")}
        answer = forms.fill_body(QuestionAnswer, {**given, "choices": fields.get("box", [])})
        result = agents.answer_agent(fleet, id, answer)
        if result["state"] != "proven":
            raise NotPossible(result["why"])
    except TasukiError as error:
        if request.headers.get("hx-request"):
            raise
        refusal = SentMessage(unanswered=str(error), text=form.get("text", ""))
        return redirect_with_result(request, id, refusal)
    return templates.redirect(request, templates.find_way_back(request, f"/agents/{id}"))


# -- recover -----------------------------------------------------------------------------


@show_page("/agents/recover")
def show_recovery_form(request: AnyRequest, fleet: TheFleet) -> PageResponse:
    """Ask whether to recover lost agents, and show them; or what becomes of those that were."""
    begun = request.app.state.notices.find(request.query_params.get("said", ""), tuple)
    lost = find_lost_agents(fleet.database, fleet.panes, fleet.host) if begun is None else []
    recoveries = [(one, None) for one in lost] if begun is None else begun
    hosts = list_fleet_hosts(fleet.database)
    return templates.render_page(
        request, "recover_form.html", done=begun is not None,
        found=[(replace(one, agent=display.redact_row(one.agent)), handoff) for one, handoff in recoveries],
        own=next((host for host in hosts if host.id == fleet.host), None),
        elsewhere=[(host, find_stranded_agents(fleet.database, host.id)) for host in hosts if host.row.state == "given up"],
    )  # fmt: skip


@take_form("/agents/recover")
def recover_agents(request: AnyRequest, fleet: TheFleet) -> PageResponse:
    """Recover lost agents; a page then shows what becomes of each."""
    recoveries = tuple(recover_lost_agents(fleet, "it was lost"))
    key = request.app.state.notices.add(recoveries)
    return templates.redirect(request, f"/agents/recover?said={key}")


# -- stop, start, adopt ----------------------------------------------------------------


@show_page("/agents/{id:int}/stop")
def show_stop_form(request: AnyRequest, fleet: TheFleet, id: PathId) -> PageResponse:
    """Ask whether to end an agent."""
    agent = display.redact_row(queries.load_agent(fleet.database, id))
    return templates.render_page(request, "stop_form.html", agent=agent)


@take_form("/agents/{id:int}/stop", refused=show_stop_form)
def stop_agent(request: AnyRequest, fleet: TheFleet, id: PathId) -> PageResponse:
    """End it by its own exit command."""
    agents.stop_agent(fleet, id)
    return templates.redirect(request, f"/agents/{id}")


@show_page("/agents/new")
def show_new_agent(
    request: AnyRequest, fleet: TheFleet, persona: FromQuery[str] = ""
) -> PageResponse:
    """Show the forms that start an agent, and adopt one."""
    refusal = find_refusal(request)
    recent = queries.list_agents(fleet.database, limit=200)
    hosts = list_fleet_hosts(fleet.database)
    labels = {host.id: host.label for host in hosts}
    return templates.render_page(
        request, "new_agent.html", values=refusal.values or {"persona": persona}, adopting=refusal.form == "adopt",
        personas=queries.list_personas(fleet.database), hosts=hosts, labels=labels, own_host=fleet.host,
        folders=sorted({(agent.cwd, labels.get(agent.host, "")) for agent in recent if agent.cwd})[:50],
        harnesses=forms.list_startable_harnesses(), goal_templates=list_shown(fleet),
        anonymous=[a for a in map(display.redact_row, recent) if a.ended_at is None and not a.persona and a.pane],
    )  # fmt: skip


@take_form("/agents/new", refused=show_new_agent)
def start_agent(request: AnyRequest, fleet: TheFleet, form: FormFields) -> PageResponse:
    """Start an agent in a tmux window."""
    names = ("cwd", "host", "persona", "harness", "model", "permission", "goal")
    body = forms.fill_body(NewAgent, {name: form.get(name, "").strip() for name in names})
    agent = agents.start_agent(fleet, replace(body, cwd=read_folder(body.cwd)))
    return templates.redirect(request, f"/agents/{agent.id}")


@take_form("/agents/adopt", refused=show_new_agent, form="adopt")
def adopt_agent(request: AnyRequest, fleet: TheFleet, form: FormFields) -> PageResponse:
    """Adopt an agent that is already running in a pane."""
    names = ("pane", "harness", "persona", "session", "host")
    body = forms.fill_body(Adoption, {name: form.get(name, "").strip() for name in names})
    return templates.redirect(request, f"/agents/{agents.adopt_agent(fleet, body).id}")
