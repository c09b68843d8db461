"""The form that hands an agent off; for another host it shows first what a move would do."""

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from tasuki.errors import TasukiError
from tasuki.fleet.agents.limits import can_answer
from tasuki.fleet.handoff.moves import MoveObstacle, MovePreview
from tasuki.fleet.membership.retirement import GAVE_UP
from tasuki.fleet.orders import handoffs
from tasuki.fleet.orders.bodies import NewHandoff
from tasuki.fleet.service import Fleet
from tasuki.fleet.store import queries
from tasuki.fleet.store.models import FleetAgent
from tasuki.web.api import forms
from tasuki.web.handlers import (
    AnyRequest,
    FormFields,
    PathId,
    TheFleet,
    find_refusal,
    show_page,
    take_form,
)
from tasuki.web.pages.fleet import cards
from tasuki.web.pages.fleet.cards import AgentCard
from tasuki.web.views import display, templates
from tasuki.web.views.hosts import ShownHost, list_fleet_hosts
from tasuki.web.views.templates import PageResponse

NAMES = ("reason", "context", "force", "from", "to", "host", "to_cwd", "worktree", "with_secrets")
"""Fields of the form. `host` is empty or the agent's own where it stays there."""


class ShownPreview(Struct, frozen=True):
    """A preview of a move for its form; `problem` is why there is none."""

    label: str
    folder: str = ""
    how: str = ""
    blockers: tuple[MoveObstacle, ...] = ()
    notes: tuple[str, ...] = ()
    problem: str = ""

    @property
    def is_possible(self) -> bool:
        """Whether the move can begin."""
        return not self.problem and not self.blockers


@show_page("/agents/{id:int}/handoff")
def show_handoff_form(request: AnyRequest, fleet: TheFleet, id: PathId) -> PageResponse:
    """Show the form that hands an agent off, filled in with what the query holds."""
    agent = queries.load_agent(fleet.database, id)
    typed = find_refusal(request).values
    return _render_form(request, fleet, agent, typed or _fill_in(request, fleet, agent))


def _fill_in(request: AnyRequest, fleet: Fleet, agent: FleetAgent) -> dict[str, str]:
    query = {name: request.query_params.get(name, "")[:4000] for name in NAMES}
    reason = query["reason"] or _choose_reason(agent, cards.build_cards(fleet, [agent.id])[0])
    from_thread = query["from"] == "thread" or not can_answer(agent)
    return {
        **query, "reason": "Ended" if from_thread and not reason else reason,
        "from": "thread" if from_thread else "",
    }  # fmt: skip


def _choose_reason(agent: FleetAgent, card: AgentCard) -> str:
    if agent.state in ("limited", "failed"):
        return "At a usage limit" if agent.state == "limited" else "Its last turn failed"
    if agent.end_reason == GAVE_UP:
        return "Its host was given up"
    return f"Context past {card.meter.mark:.0f} %" if card.meter.past else ""


def _render_form(
    request: AnyRequest, fleet: Fleet, agent: FleetAgent, values: Mapping[str, str]
) -> PageResponse:
    hosts = list_fleet_hosts(fleet.database)
    own = next((host for host in hosts if host.id == agent.host), None)
    is_stranded = bool(hosts) and (own is None or own.row.state == "given up")
    if is_stranded and not values.get("host"):
        values = {**values, "host": fleet.host}
    chosen = values.get("host", "")
    is_move = chosen not in ("", agent.host)
    target = next((host for host in hosts if host.id == chosen), None) if is_move else None
    return templates.render_page(
        request, "handoff_form.html", agent=display.redact_row(agent),
        card=cards.build_cards(fleet, [agent.id], hosts)[0], values=values,
        harnesses=forms.list_startable_harnesses(), hosts=hosts, own=own, is_stranded=is_stranded,
        target=target, preview=_preview_move(fleet, agent, values, target) if target else None,
        previewed=_join_choices(values), can_answer=can_answer(agent),
    )  # fmt: skip


def _join_choices(values: Mapping[str, str]) -> str:
    """Join the choices of a form that decide what a move does."""
    names = ("host", "to", "to_cwd", "worktree", "with_secrets")
    return "|".join(values.get(name, "").strip() for name in names)


def _preview_move(
    fleet: Fleet, agent: FleetAgent, values: Mapping[str, str], target: ShownHost
) -> ShownPreview:
    try:
        body = _fill_body({**values, "reason": "move"}, agent)
        return _show_preview(handoffs.preview_move(fleet, agent.id, body))
    except TasukiError as error:
        return ShownPreview(target.label, problem=str(error))


def _show_preview(preview: MovePreview) -> ShownPreview:
    plan = preview.plan
    is_worktree = bool(plan.place) and not plan.in_place
    how = f"A new worktree{f' on the branch {plan.place_branch}' if plan.place_branch else ''} of {plan.checkout}." if is_worktree else ""  # fmt: skip
    if plan.in_place:
        how = f"In the checkout itself{f', branch {plan.place_branch}' if plan.place_branch else ''}: it is clean."  # fmt: skip
    blockers = tuple(replace(one, text=display.say_for_page(one.text)) for one in preview.blockers)
    notes = [one.text for one in preview.obstacles if not one.blocks]
    left_out = [sentence for sentence in plan.left_out if sentence not in notes]
    return ShownPreview(preview.label, plan.folder, how, blockers, (*notes, *left_out))


def _fill_body(form: Mapping[str, str], agent: FleetAgent) -> NewHandoff:
    host = form.get("host", "").strip()
    is_move = host not in ("", agent.host)
    body = {
        "reason": form.get("reason", "").strip(), "context": form.get("context", "").strip(),
        "force": bool(form.get("force")), "from": "thread" if form.get("from") == "thread" else "agent",
        "to": form.get("to", "").strip(),
    }  # fmt: skip
    if is_move:
        body |= {
            "to_host": host, "with_secrets": bool(form.get("with_secrets")),
            **{name: form.get(name, "").strip() for name in ("to_cwd", "worktree")},
        }  # fmt: skip
    return forms.fill_body(NewHandoff, body)


@take_form("/agents/{id:int}/handoff", refused=show_handoff_form)
def hand_off(request: AnyRequest, fleet: TheFleet, id: PathId, form: FormFields) -> PageResponse:
    """Hand it off and show its handoff. A refusal is shown with the form.

    A move begins only from a form that showed what it does: `previewed` are the choices it was for.
    """
    agent = queries.load_agent(fleet.database, id)
    body = _fill_body(form, agent)
    if body.to_host and form.get("previewed") != _join_choices(form):
        return _render_form(request, fleet, agent, form)
    return templates.redirect(request, f"/handoffs/{handoffs.hand_off(fleet, id, body).id}")
