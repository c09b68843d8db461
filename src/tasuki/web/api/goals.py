"""`/api/personas/{slug}/queue` and `/api/templates`: goals that wait for an agent, or are used again."""

from typing import Any

from litestar import delete, get, patch, post
from litestar.params import JSONBody
from msgspec import UNSET, to_builtins

from tasuki.errors import UsageError
from tasuki.fleet.agents import goal_queue, goal_templates
from tasuki.fleet.agents.goal_queue import GoalQueue, redact_queue
from tasuki.fleet.orders.agents import start_agent
from tasuki.fleet.orders.bodies import (
    GoalChange,
    NewGoal,
    NewTemplate,
    QueueChange,
    TemplateChange,
    TemplateStart,
)
from tasuki.fleet.service import Fleet
from tasuki.fleet.store.models import GoalTemplate
from tasuki.web.api.forms import collect_changes
from tasuki.web.handlers import PathId, PathWord, TheFleet
from tasuki.web.views import display


@get("/personas/{slug:str}/queue", sync_to_thread=True)
def show_queue(fleet: TheFleet, slug: PathWord) -> GoalQueue:
    """Show the goals that wait for a persona, in order, and the last that were typed."""
    return redact_queue(goal_queue.load_queue(fleet.database, slug))


@post("/personas/{slug:str}/queue", status_code=200, sync_to_thread=True)
def add_goal(fleet: TheFleet, slug: PathWord, data: JSONBody[NewGoal]) -> GoalQueue:
    """Add a goal at the end; it is typed once its agent is idle and those before it were typed."""
    goal_queue.add_goal(fleet.database, slug, data.text)
    return _answer(fleet, slug)


@patch("/personas/{slug:str}/queue", sync_to_thread=True)
def pause_queue(fleet: TheFleet, slug: PathWord, data: JSONBody[QueueChange]) -> GoalQueue:
    """Pause a queue or resume it."""
    goal_queue.pause_queue(fleet.database, slug, paused=data.paused)
    return _answer(fleet, slug)


@patch("/personas/{slug:str}/queue/{id:int}", sync_to_thread=True)
def change_goal(
    fleet: TheFleet, slug: PathWord, id: PathId, data: JSONBody[GoalChange]
) -> GoalQueue:
    """Change a goal: its text while it waits, or its place; or say whether an uncertain one arrived."""
    if (data.text is UNSET) == (data.order is UNSET):
        raise UsageError("Give either `text` or `order`.")
    if data.text is not UNSET:
        goal_queue.edit_goal(fleet.database, slug, id, data.text)
    if data.order is not UNSET:
        goal_queue.order_goal(fleet.database, slug, id, data.order)
    return _answer(fleet, slug)


@delete("/personas/{slug:str}/queue/{id:int}", status_code=200, sync_to_thread=True)
def remove_goal(fleet: TheFleet, slug: PathWord, id: PathId) -> GoalQueue:
    """Remove a goal that waits or is uncertain."""
    goal_queue.remove_goal(fleet.database, slug, id)
    return _answer(fleet, slug)


def _answer(fleet: Fleet, slug: str) -> GoalQueue:
    fleet.changes.notify()
    return redact_queue(goal_queue.load_queue(fleet.database, slug))


# -- templates -------------------------------------------------------------------------


@get("/templates", sync_to_thread=True)
def list_templates(fleet: TheFleet) -> dict[str, Any]:
    """List the templates, the one used last first; `fields` are what has to be filled in."""
    return {"templates": [_describe(x) for x in goal_templates.list_templates(fleet.database)]}


@post("/templates", status_code=200, sync_to_thread=True)
def add_template(fleet: TheFleet, data: JSONBody[NewTemplate]) -> dict[str, Any]:
    """Add a template. Words in braces in its goal and folder become fields."""
    return _notify(fleet, goal_templates.add_template(fleet.database, data))


@get("/templates/{id:int}", sync_to_thread=True)
def show_template(fleet: TheFleet, id: PathId) -> dict[str, Any]:
    """Show a template."""
    return _describe(goal_templates.load_template(fleet.database, id))


@patch("/templates/{id:int}", sync_to_thread=True)
def edit_template(fleet: TheFleet, id: PathId, data: JSONBody[TemplateChange]) -> dict[str, Any]:
    """Change a template; omitted fields stay."""
    old = goal_templates.load_template(fleet.database, id)
    values = {name: getattr(old, name) for name in data.__struct_fields__} | collect_changes(data)
    return _notify(fleet, goal_templates.edit_template(fleet.database, id, NewTemplate(**values)))


@delete("/templates/{id:int}", status_code=200, sync_to_thread=True)
def remove_template(fleet: TheFleet, id: PathId) -> dict[str, Any]:
    """Remove a template; agents that it started stay."""
    goal_templates.remove_template(fleet.database, id)
    fleet.changes.notify()
    return {"removed": id}


@post("/templates/{id:int}/start", status_code=200, sync_to_thread=True)
def start_template(fleet: TheFleet, id: PathId, data: JSONBody[TemplateStart]) -> dict[str, Any]:
    """Start an agent from a template, with its fields filled in."""
    template = goal_templates.load_template(fleet.database, id)
    request = goal_templates.build_request(fleet.database, template, data)
    agent = start_agent(fleet, request)
    goal_templates.note_use(fleet.database, id)
    return display.redact_agent(agent)


def _describe(template: GoalTemplate) -> dict[str, Any]:
    return {
        **to_builtins(display.redact_template(template)),
        "fields": goal_templates.list_fields(template),
    }


def _notify(fleet: Fleet, template: GoalTemplate) -> dict[str, Any]:
    fleet.changes.notify()
    return _describe(template)
