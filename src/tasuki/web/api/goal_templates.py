"""`/api/templates`: goals that are used again, and the agents that are started from them."""

from typing import Any

from litestar import Router, delete, get, patch, post
from litestar.handlers import HTTPRouteHandler
from litestar.params import JSONBody
from msgspec import UNSET, to_builtins

from tasuki.fleet.agents import goal_templates
from tasuki.fleet.agents.goal_templates import list_fields
from tasuki.fleet.orders.agents import start_agent
from tasuki.fleet.orders.bodies import NewTemplate, TemplateChange, TemplateStart
from tasuki.fleet.service import Fleet
from tasuki.fleet.store.models import GoalTemplate
from tasuki.web.handlers import PathId, TheFleet
from tasuki.web.security.access import require_operator
from tasuki.web.views import display


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
    values = {
        name: getattr(old, name) if getattr(data, name) is UNSET else getattr(data, name)
        for name in data.__struct_fields__
    }
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
    return {**to_builtins(display.redact_template(template)), "fields": list_fields(template)}


def _notify(fleet: Fleet, template: GoalTemplate) -> dict[str, Any]:
    fleet.changes.notify()
    return _describe(template)


HANDLERS: list[HTTPRouteHandler] = [
    list_templates, add_template, show_template, edit_template, remove_template, start_template,
]  # fmt: skip
ROUTERS = [Router("/api", route_handlers=HANDLERS, guards=[require_operator], tags=["templates"])]
