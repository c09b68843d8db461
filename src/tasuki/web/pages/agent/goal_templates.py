"""Templates of goals: listed where an agent is started, filled in, saved, removed."""

from collections.abc import Mapping
from typing import Any

from litestar import get
from litestar.params import FromQuery
from msgspec import structs

from tasuki.draft.redact.redactor import Redactor
from tasuki.fleet.agents import goal_templates
from tasuki.fleet.agents.goal_templates import is_ready, list_fields
from tasuki.fleet.orders.agents import start_agent
from tasuki.fleet.orders.bodies import NewTemplate, TemplateStart
from tasuki.fleet.service import Fleet
from tasuki.fleet.store import queries
from tasuki.fleet.store.models import GoalTemplate
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
from tasuki.web.views import display, templates
from tasuki.web.views.templates import PageResponse
from tasuki.web.views.undo import UndoOffer

FIELD = "field-"
"""Begins the name of a form's field that fills in one of a template's."""
NAMES = NewTemplate.__struct_fields__


def list_shown(fleet: Fleet) -> list[tuple[GoalTemplate, bool]]:
    """List the templates, and whether each can be started as it is."""
    return [(display.redact_template(x), is_ready(x)) for x in goal_templates.list_templates(fleet.database)]  # fmt: skip


@get("/templates", sync_to_thread=False)
def show_templates(request: AnyRequest) -> PageResponse:
    """Show where agents are started: the templates are listed there."""
    return templates.redirect(request, "/agents/new#templates")


@show_page("/templates/{id:int}")
def show_template(request: AnyRequest, fleet: TheFleet, id: PathId) -> PageResponse:
    """Show the fields of a template, to be filled in."""
    template = goal_templates.load_template(fleet.database, id)
    typed, asks_folder = find_refusal(request).values, "{" not in template.folder
    return templates.render_page(
        request, "template_start.html", of=display.redact_template(template),
        fields=[(name, f"{FIELD}{name}", typed.get(f"{FIELD}{name}", "")) for name in list_fields(template)],
        cwd=typed.get("cwd", template.folder if asks_folder else ""), asks_folder=asks_folder,
    )  # fmt: skip


@take_form("/templates/{id:int}/start", refused=show_template)
def start_template(
    request: AnyRequest, fleet: TheFleet, id: PathId, form: FormFields
) -> PageResponse:
    """Start an agent from a template, and show its page."""
    template = goal_templates.load_template(fleet.database, id)
    fields = {name.removeprefix(FIELD): text for name, text in form.items() if name.startswith(FIELD)}  # fmt: skip
    body = forms.fill_body(TemplateStart, {"fields": fields, "cwd": form.get("cwd", "").strip()})
    agent = start_agent(fleet, goal_templates.build_request(fleet.database, template, body))
    goal_templates.note_use(fleet.database, id)
    return templates.redirect(request, f"/agents/{agent.id}")


# -- made, changed, removed --------------------------------------------------------------


@show_page("/templates/new")
def show_new_template(
    request: AnyRequest, fleet: TheFleet, agent: FromQuery[str] = ""
) -> PageResponse:
    """Show the form of a new template, filled in from an agent where one is named."""
    return _render_form(request, fleet, 0, _copy_agent(fleet, agent) if agent else {})


def _copy_agent(fleet: Fleet, number: str) -> dict[str, str]:
    agent = display.redact_row(queries.load_agent(fleet.database, forms.parse_number(number)))
    return {
        "goal": agent.goal, "persona": agent.persona or "", "folder": agent.cwd, "model": agent.model,
        "harness": "" if agent.persona else agent.harness, "permission": agent.permission,
    }  # fmt: skip


@show_page("/templates/{id:int}/edit")
def show_template_form(request: AnyRequest, fleet: TheFleet, id: PathId) -> PageResponse:
    """Show the form of a template."""
    if find_refusal(request).sentence:  # what was typed is shown, also where it is gone meanwhile
        return _render_form(request, fleet, id, {})
    template = goal_templates.load_template(fleet.database, id)
    return _render_form(request, fleet, id, structs.asdict(template))


def _render_form(
    request: AnyRequest, fleet: Fleet, id: int, values: Mapping[str, Any]
) -> PageResponse:
    refusal = find_refusal(request)
    personas = queries.list_personas(fleet.database)
    return templates.render_page(
        request, "template_form.html", id=id, values=_read_values(refusal.values) if refusal.sentence else values, personas=personas,
        roles=sorted({one.role for one in personas}), harnesses=forms.list_startable_harnesses(),
    )  # fmt: skip


@take_form("/templates", refused=show_new_template)
def add_template(request: AnyRequest, fleet: TheFleet, form: FormFields) -> PageResponse:
    """Add a template, from its own form or from that of an agent to start."""
    goal_templates.add_template(fleet.database, forms.fill_body(NewTemplate, _read_values(form)))
    fleet.changes.notify()
    return templates.redirect(request, "/agents/new#templates")


@take_form("/templates/{id:int}", refused=show_template_form)
def change_template(
    request: AnyRequest, fleet: TheFleet, id: PathId, form: FormFields
) -> PageResponse:
    """Save a changed template, or remove it, as `do` says."""
    offer = None
    if form.get("do") == "remove":
        removed = goal_templates.remove_template(fleet.database, id)
        name = display.redact_template(removed).name
        offer = UndoOffer(
            f"Template {name} was removed.",
            lambda fleet: goal_templates.restore_template(fleet.database, removed),
            f"Template {name} is back.",
        )
    else:
        body = forms.fill_body(NewTemplate, _read_values(form))
        goal_templates.edit_template(fleet.database, id, body)
    fleet.changes.notify()
    return templates.redirect(request, "/agents/new#templates", offer)


def _read_values(form: Mapping[str, str]) -> dict[str, Any]:
    values = {name: form.get(name, "").strip() for name in NAMES}
    values["folder"] = values["folder"] or form.get("cwd", "").strip()
    if not values["name"]:
        values["name"] = Redactor().redact_line(values["goal"], 40)
    kind, _, word = form.get("works_as", "").partition(":")
    return values | ({kind: word} if kind in ("persona", "role") else {})
