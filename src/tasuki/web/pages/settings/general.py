"""Thresholds, and which personas are handed off automatically."""

from typing import Any

from tasuki.errors import TasukiError
from tasuki.fleet.agents import personas
from tasuki.fleet.orders.bodies import PersonaChange, SettingsChange
from tasuki.fleet.service import Fleet
from tasuki.fleet.store import queries
from tasuki.web.api import error_answers, forms
from tasuki.web.api.operator import collect_changes
from tasuki.web.handlers import AnyRequest, FormFields, PathWord, TheFleet, show_page, take_form
from tasuki.web.pages.settings.frame import SettingsNotice, render_section, say_in_section
from tasuki.web.views.templates import PageResponse

SAVED = SettingsNotice("Saved; it applies from now on.")


@show_page("/settings")
def show_general(request: AnyRequest, fleet: TheFleet) -> PageResponse:
    """Show the threshold of every persona without its own."""
    return _render_general(request, fleet)


def _render_general(request: AnyRequest, fleet: Fleet, **more: Any) -> PageResponse:
    own = [p for p in queries.list_personas(fleet.database) if p.threshold is not None]
    return render_section(request, "general", threshold=fleet.threshold, personas=own, **more)


@take_form("/settings/threshold")
def change_threshold(request: AnyRequest, fleet: TheFleet, form: FormFields) -> PageResponse:
    """Change the threshold of every persona that does not have its own."""
    changes = {"context_threshold": form.get("context_threshold", "")}
    try:
        apply_changes(fleet, changes)
    except TasukiError as error:
        notice = SettingsNotice(str(error), is_success=False)
        return _render_general(request, fleet, notice=notice, values=changes, status=error_answers.get_status(error))  # fmt: skip
    return say_in_section(request, "general", SAVED)


def apply_changes(fleet: Fleet, changes: dict[str, Any]) -> None:
    """Apply the fields of a form to the user's own settings. Raises TasukiError."""
    fleet.configure(**collect_changes(forms.fill_body(SettingsChange, changes)))


@show_page("/settings/automation")
def show_automation(request: AnyRequest, fleet: TheFleet) -> PageResponse:
    """Show which personas are handed off automatically."""
    return _render_automation(request, fleet)


def _render_automation(request: AnyRequest, fleet: Fleet, **more: Any) -> PageResponse:
    listed = queries.list_personas(fleet.database)
    return render_section(request, "automation", personas=listed, **more)


@take_form("/settings/automation/{slug:str}")
def switch_automation(
    request: AnyRequest, fleet: TheFleet, slug: PathWord, form: FormFields
) -> PageResponse:
    """Switch the automatic handoffs of a persona on or off; on also resumes stopped ones."""
    is_on = form.get("automatic") == "on"
    try:
        personas.edit_persona(fleet.database, fleet.root, slug, PersonaChange(automatic=is_on))
    except TasukiError as error:
        notice = SettingsNotice(str(error), is_success=False)
        return _render_automation(
            request, fleet, notice=notice, status=error_answers.get_status(error)
        )
    fleet.changes.notify()
    word = "are on" if is_on else "are off"
    notice = SettingsNotice(f"Automatic handoffs of {slug} {word}.", place=slug)
    return say_in_section(request, "automation", notice)


HANDLERS = (show_general, change_threshold, show_automation, switch_automation)
