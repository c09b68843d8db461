"""The goals that wait for a persona, on its page and on that of its agent."""

from typing import Any

from tasuki.draft.redact.redactor import redact
from tasuki.errors import TasukiError, UsageError
from tasuki.fleet.agents import goal_queue
from tasuki.fleet.agents.queue_runner import explain_wait
from tasuki.fleet.orders.bodies import GoalChange, NewGoal
from tasuki.fleet.service import Fleet
from tasuki.fleet.store import queries
from tasuki.fleet.store.models import FleetAgent, QueuedGoal
from tasuki.text_safety import shorten_to_line
from tasuki.web.api import forms
from tasuki.web.handlers import AnyRequest, FormFields, PathId, PathWord, TheFleet, take_form
from tasuki.web.views import templates
from tasuki.web.views.templates import PageResponse
from tasuki.web.views.undo import UndoOffer


def build_queue(
    request: AnyRequest, fleet: Fleet, slug: str, agent: FleetAgent | None
) -> dict[str, Any]:
    """Build what the panel of a queue shows; `agent` is the one that works as the persona."""
    persona = queries.load_persona(fleet.database, slug)
    wait = explain_wait(fleet.database, agent, persona) if agent else "No agent works as it."
    found = request.app.state.notices.find(request.query_params.get("said", ""), str)
    queue = goal_queue.load_queue(fleet.database, slug)
    return {
        "queue": goal_queue.redact_queue(queue),
        "queue_texts": {goal.id: goal.text for goal in queue.goals},
        "queue_wait": wait,
        "queue_notice": found or "",
    }


@take_form("/personas/{slug:str}/queue")
def change_queue(
    request: AnyRequest, fleet: TheFleet, slug: PathWord, form: FormFields
) -> PageResponse:
    """Add a goal, pause the queue or resume it, as `do` says."""
    order = form.get("do", "add")
    try:
        if order == "add":
            body = forms.fill_body(NewGoal, {"text": form.get("text", "")})
            goal_queue.add_goal(fleet.database, slug, body.text)
        else:
            goal_queue.pause_queue(fleet.database, slug, paused=order == "pause")
    except TasukiError as error:
        return _redirect(request, slug, str(error))
    fleet.changes.notify()
    return _redirect(request, slug)


@take_form("/personas/{slug:str}/queue/{id:int}")
def change_goal(
    request: AnyRequest, fleet: TheFleet, slug: PathWord, id: PathId, form: FormFields
) -> PageResponse:
    """Change, move, settle or remove a goal, as `do` says."""
    try:
        offer = _change_goal(fleet, slug, id, form)
    except TasukiError as error:
        return _redirect(request, slug, str(error))
    fleet.changes.notify()
    return _redirect(request, slug, offer=offer)


def _change_goal(fleet: Fleet, slug: str, goal_id: int, form: dict[str, str]) -> UndoOffer | None:
    """Carry the order out; return how it is undone, where that concerns no agent."""
    order = form.get("do", "")
    if order == "remove":
        if not (removed := goal_queue.remove_goal(fleet.database, slug, goal_id)):
            return None
        return UndoOffer(
            f"Goal removed: {shorten_to_line(redact(removed.goal.text)[0], 60)}",
            lambda fleet: goal_queue.restore_goal(fleet.database, removed),
            "The goal is back at its place.",
        )
    if order == "edit":
        body = forms.fill_body(NewGoal, {"text": form.get("text", "")})
        return _offer_edited(*goal_queue.edit_goal(fleet.database, slug, goal_id, body.text))
    change = forms.fill_body(GoalChange, {"order": order})
    if not isinstance(change.order, str):
        raise UsageError("Say what to do with the goal.")
    goal_queue.order_goal(fleet.database, slug, goal_id, change.order)
    return None


def _offer_edited(goal: QueuedGoal, before: QueuedGoal) -> UndoOffer | None:
    if goal.text == before.text:
        return None
    return UndoOffer(
        f"Goal {goal.id} was changed.",
        lambda fleet: goal_queue.restore_text(
            fleet.database, goal.persona, goal.id, before.text, goal.text
        ),
        f"Goal {goal.id} reads as before.",
    )


def _redirect(
    request: AnyRequest, slug: str, refused: str = "", offer: UndoOffer | None = None
) -> PageResponse:
    """Go back to the page on which the form was sent, which says what was refused."""
    path = templates.find_way_back(request, f"/personas/{slug}").partition("?")[0]
    key = request.app.state.notices.add(refused) if refused else ""
    return templates.redirect(request, f"{path}{f'?said={key}' if key else ''}#queue", offer)
