"""The fleet's hooks in each harness: what is in place, and the form that adds them."""

from litestar.params import FromQuery
from msgspec import Struct

from tasuki.errors import StoreFailed, TasukiError
from tasuki.fleet.service import Fleet
from tasuki.harness import registry as harnesses
from tasuki.install.hook_script import get_script_path, write_hook_script
from tasuki.install.installer import Installer, InstallPlan
from tasuki.web.api import forms
from tasuki.web.handlers import (
    AnyRequest,
    FormFields,
    PathWord,
    TheFleet,
    find_refusal,
    show_page,
    take_form,
)
from tasuki.web.pages.settings.frame import SettingsNotice, render_section, say_in_section
from tasuki.web.views import templates
from tasuki.web.views.templates import PageResponse


class HooksState(Struct, frozen=True):
    """Whether the fleet's hooks are in a harness: in place, missing or not known, with any problem."""

    name: str
    title: str
    state: str
    problem: str = ""


@show_page("/settings/hooks")
def show_hooks(request: AnyRequest, fleet: TheFleet) -> PageResponse:
    """Show which harnesses have the fleet's hooks."""
    return render_section(request, "hooks", hooks=list_hooks(fleet))


def list_hooks(fleet: Fleet) -> list[HooksState]:
    """List the harnesses whose agents can be started, with the state of their hooks."""
    listed = []
    for name, title in forms.list_startable_harnesses():
        try:
            is_missing = _plan_hooks(fleet, name).has_work
        except TasukiError as error:
            listed.append(HooksState(name, title, "not known", str(error)))
            continue
        is_installed = get_script_path(fleet.data).exists() and not is_missing
        listed.append(HooksState(name, title, "in place" if is_installed else "missing"))
    return listed


def _plan_hooks(fleet: Fleet, name: str) -> InstallPlan:
    additions = harnesses.require_control(name).list_additions(str(get_script_path(fleet.data)))
    return Installer(fleet.data.parent).plan(f"{name}/fleet", additions)


@show_page("/settings/hooks/{name:str}")
def show_hooks_form(
    request: AnyRequest, fleet: TheFleet, name: PathWord, back: FromQuery[str] = ""
) -> PageResponse:
    """Show what would be added to a harness, file by file; `back=fleet` leads to the fleet's page."""
    plan = _plan_hooks(fleet, name)
    return templates.render_page(
        request, "hooks_form.html", name=name, title_of=harnesses.get_harness(name).title, plan=plan,
        back=find_refusal(request).values.get("back", back),
    )  # fmt: skip


@take_form("/settings/hooks/{name:str}", refused=show_hooks_form)
def add_hooks(
    request: AnyRequest, fleet: TheFleet, name: PathWord, form: FormFields
) -> PageResponse:
    """Add the fleet's hooks to a harness, as `tasuki install NAME --fleet` does."""
    control, plan = harnesses.require_control(name), _plan_hooks(fleet, name)
    try:
        write_hook_script(fleet.data)
        additions = control.list_additions(str(get_script_path(fleet.data)))
        Installer(fleet.data.parent).apply_plan(f"{name}/fleet", additions, plan, remove=False)
    except OSError as error:
        raise StoreFailed(str(error)) from error
    title, notes = harnesses.get_harness(name).title, " ".join(control.notes)
    fleet.note("settings", f"The fleet's hooks were added to {title}.")
    if form.get("back") == "fleet":
        return templates.redirect(request, "/")
    message = f"The hooks are installed in {title}. {notes}".strip()
    return say_in_section(request, "hooks", SettingsNotice(message, place=name))
