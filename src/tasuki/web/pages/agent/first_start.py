"""The first start: programs are found, hooks are added, the first agent begins. For an empty fleet."""

import shutil
from functools import cache
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from tasuki.doctor import find_version
from tasuki.errors import TasukiError
from tasuki.fleet.agents import personas
from tasuki.fleet.agents.lifecycle import check_folder, check_hooks, read_folder
from tasuki.fleet.exchange.shared_files import share_persona
from tasuki.fleet.orders.agents import start_agent
from tasuki.fleet.orders.bodies import NewAgent, NewPersona
from tasuki.fleet.service import Fleet
from tasuki.fleet.store import queries
from tasuki.harness import registry as harnesses
from tasuki.web.api import forms
from tasuki.web.handlers import AnyRequest, FormFields, TheFleet, find_refusal, show_page, take_form
from tasuki.web.pages.settings import list_hooks
from tasuki.web.views import templates
from tasuki.web.views.templates import PageResponse


class FoundProgram(Struct, frozen=True):
    """A harness whose program is on this host, and whether it has the fleet's hooks."""

    name: str
    title: str
    version: str
    has_hooks: bool
    problem: str = ""


def build_first_start(fleet: Fleet) -> dict[str, Any]:
    """Build what the three steps show. The first call asks each program for its version."""
    found = [
        FoundProgram(one.name, one.title, _find_version(one.name), one.state == "in place", one.problem)
        for one in list_hooks(fleet)
        if shutil.which(harnesses.get_harness(one.name).program)
    ]  # fmt: skip
    has_tmux, has_curl = bool(shutil.which("tmux")), bool(shutil.which("curl"))
    ready = [one for one in found if one.has_hooks and has_tmux and has_curl]
    return {
        "programs": found, "tmux": has_tmux, "curl": has_curl, "ready": ready,
        "personas": queries.list_personas(fleet.database),
    }  # fmt: skip


@cache
def _find_version(name: str) -> str:
    return find_version(harnesses.get_harness(name))


@show_page("/agents/first")
def show_first_start(request: AnyRequest, fleet: TheFleet) -> PageResponse:
    """Show the three steps alone."""
    return templates.render_page(
        request, "first_start.html", steps=build_first_start(fleet),
        values=find_refusal(request).values, live="settings agents",
    )  # fmt: skip


@take_form("/agents/first", refused=show_first_start)
def start_first_agent(request: AnyRequest, fleet: TheFleet, form: FormFields) -> PageResponse:
    """Add a persona where a role and a name are given, start its agent, and show it."""
    names, added = ("cwd", "harness", "goal", "persona"), ""
    body = forms.fill_body(NewAgent, {name: form.get(name, "").strip() for name in names})
    wanted = replace(body, cwd=read_folder(body.cwd))
    check_folder(wanted.cwd)
    check_hooks(fleet.data, body.harness or harnesses.DEFAULT)
    try:
        if not wanted.persona:
            added = personas.add_persona(
                fleet.database, fleet.root, NewPersona(role=form.get("role", ""), name=form.get("name", ""),
                harness=form.get("harness", "") or harnesses.DEFAULT),
            ).slug  # fmt: skip
        agent = start_agent(fleet, replace(wanted, persona=added or wanted.persona))
        if added:
            share_persona(fleet.database, fleet.root, added)
    except TasukiError:
        if added:
            personas.remove_unused_persona(fleet.database, fleet.root, added)
        raise
    return templates.redirect(request, f"/agents/{agent.id}")
