"""The settings page: thresholds, automation, notifications, hooks; and facts of the server."""

import socket
from typing import Any

from litestar import get, post
from litestar.di import NamedDependency
from litestar.params import FromPath
from msgspec import Struct

from tasuki import __version__, notify
from tasuki.config import settings
from tasuki.errors import TasukiError
from tasuki.fleet.agents import personas
from tasuki.fleet.service import Fleet
from tasuki.fleet.store import queries
from tasuki.harness import registry as harnesses
from tasuki.harness.install.hook_script import get_script_path, write_hook_script
from tasuki.harness.install.installer import Installer, InstallPlan
from tasuki.web.api import bodies
from tasuki.web.api.bodies import SettingsChange
from tasuki.web.api.operator import collect_changes
from tasuki.web.pages import login
from tasuki.web.security.sessions import (
    BrowserSessions,
    find_current_session,
    find_proxy_user,
    is_signed_in,
)
from tasuki.web.views import display, templates
from tasuki.web.views.templates import AnyRequest, PageResponse
from tasuki.web.views.theme import THEMES

FormFields = NamedDependency[dict[str, str]]
ALERT_MEANINGS = {
    "done": "a handoff is done",
    "failed": "a handoff failed, an agent is lost",
    "limited": "an agent is at a usage limit",
    "needs_you": "an agent waits for you, an automation stopped",
    "stuck": "nothing of a busy agent moves",
    "threshold": "a context is past its threshold",
    "unacknowledged": "a successor did not acknowledge",
}


class HooksState(Struct, frozen=True):
    """Whether the fleet's hooks are in a harness: in place, missing or not known, with any
    problem.
    """

    name: str
    title: str
    state: str
    problem: str = ""


class SettingsNotice(Struct, frozen=True):
    """What the settings say in one of their sections after a change."""

    section: str = ""
    message: str = ""
    is_success: bool = True


@get("/settings", sync_to_thread=True, include_in_schema=False)
def show_settings(request: AnyRequest, fleet: NamedDependency[Fleet]) -> PageResponse:
    """Show the current settings, and the forms that change them."""
    found = request.app.state.notices.find(request.query_params.get("said", ""), SettingsNotice)
    notice = found or SettingsNotice()
    return _render_settings(
        request, fleet, section=notice.section, message=notice.message, is_success=notice.is_success
    )


def _render_settings(
    request: AnyRequest,
    fleet: Fleet,
    *,
    section: str = "",
    message: str = "",
    is_success: bool = True,
    status: int = 200,
    **values: Any,
) -> PageResponse:
    notifier = fleet.notifier
    return templates.render_page(
        request, "settings.html", status, at=section, said=message, fine=is_success, values=values,
        threshold=fleet.threshold, personas=queries.list_personas(fleet.database),
        places=notify.list_kinds(notifier.get_addresses()), is_set=bool(notifier.addresses), about=notifier.kinds.split(),
        kinds=[(key, display.ALERT_SHAPES[key], meaning) for key, meaning in ALERT_MEANINGS.items()],
        problem=notifier.problem, hooks=[_check_hooks(fleet, *found) for found in bodies.list_startable_harnesses()], file=_describe_file(),
        facts=_build_facts(request, fleet), sessions=request.app.state.sessions.list_sessions(),
        session=find_current_session(request), proxy_user=find_proxy_user(request),
        themes=THEMES,
    )  # fmt: skip


def _say_on_settings(
    request: AnyRequest, section: str, message: str, *, is_success: bool = True
) -> PageResponse:
    """Redirect to the settings, which say what came of a change."""
    key = request.app.state.notices.add(SettingsNotice(section, message, is_success))
    return templates.redirect(request, f"/settings?said={key}#{section}")


def _describe_file() -> str:
    path = settings.find_user_file()
    return settings.format_path(path) if path else "the file that TASUKI_CONFIG names"


def _build_facts(request: AnyRequest, fleet: Fleet) -> list[tuple[str, str]]:
    return [
        ("Version", __version__), ("Address", request.headers.get("host", "")), ("Host", socket.gethostname()),
        ("Data", str(fleet.data.parent)), ("Personas", str(fleet.root / "data" / "personas")),
        ("Database", "SQLite" if fleet.database.is_sqlite else "PostgreSQL"),
        ("Agents run in tmux", fleet.loaded.settings.fleet_tmux), ("Health", fleet.check_health()["status"]),
    ]  # fmt: skip


# -- thresholds, automation, notifications ---------------------------------------------


@post("/settings/threshold", sync_to_thread=True, include_in_schema=False)
def change_threshold(
    request: AnyRequest, fleet: NamedDependency[Fleet], form: FormFields
) -> PageResponse:
    """Change the threshold of every persona that does not have its own."""
    return _apply_changes(
        request, fleet, "thresholds", {"context_threshold": form.get("context_threshold", "")}
    )


@post("/settings/notifications", sync_to_thread=True, include_in_schema=False)
def change_notifications(
    request: AnyRequest,
    fleet: NamedDependency[Fleet],
    fields: NamedDependency[dict[str, list[str]]],
) -> PageResponse:
    """Change where alerts go and which; an omitted address stays."""
    addresses = " ".join("".join(fields.get("notify", [""])[-1:]).split())
    changes: dict[str, Any] = {"notify_about": " ".join(fields.get("about", []))}
    if addresses or fields.get("forget"):
        changes["notify"] = addresses or None
    return _apply_changes(request, fleet, "notifications", changes)


def _apply_changes(
    request: AnyRequest, fleet: Fleet, section: str, changes: dict[str, Any]
) -> PageResponse:
    try:
        fleet.configure(**collect_changes(bodies.fill_body(SettingsChange, changes)))
    except TasukiError as error:
        return _render_settings(
            request, fleet, section=section, message=str(error), is_success=False, status=bodies.get_status(error), **changes
        )  # fmt: skip
    return _say_on_settings(request, section, "Saved; it applies from now on.")


@post("/settings/test", sync_to_thread=True, include_in_schema=False)
def send_test(request: AnyRequest, fleet: NamedDependency[Fleet]) -> PageResponse:
    """Send a test notification."""
    problems = fleet.notifier.test()
    message = " ".join(problems) or "Sent. Check that it arrived."
    return _say_on_settings(request, "notifications", message, is_success=not problems)


@post("/settings/automation/{slug:str}", sync_to_thread=True, include_in_schema=False)
def switch_automation(
    request: AnyRequest, fleet: NamedDependency[Fleet], slug: FromPath[str], form: FormFields
) -> PageResponse:
    """Switch the automatic handoffs of a persona on or off; on also resumes stopped ones."""
    is_on = form.get("automatic") == "on"
    try:
        personas.edit_persona(fleet.database, fleet.root, slug, automatic=is_on)
    except TasukiError as error:
        return _render_settings(request, fleet, section="automation", message=str(error), is_success=False, status=bodies.get_status(error))  # fmt: skip
    fleet.changes.notify()
    word = "are on" if is_on else "are off"
    return _say_on_settings(request, "automation", f"Automatic handoffs of {slug} {word}.")


# -- browsers that are signed in -------------------------------------------------------


@post("/settings/sessions/end", sync_to_thread=True, include_in_schema=False)
def end_session(
    request: AnyRequest, fleet: NamedDependency[Fleet], form: FormFields
) -> PageResponse:
    """Sign another browser out, or every one."""
    sessions: BrowserSessions = request.app.state.sessions
    if form.get("id") == "all":
        sessions.end_all()
        message = login.describe_signed_out(request, "Every browser is signed out.")
        return login.render_sign_in(request, message, status=200)
    try:
        sessions.end_session(bodies.parse_number(form.get("id", "")))
    except TasukiError as error:
        return _render_settings(request, fleet, section="sessions", message=str(error), is_success=False, status=bodies.get_status(error))  # fmt: skip
    if not is_signed_in(request):
        return login.render_sign_in(request, "You are signed out.", status=200)
    return _say_on_settings(request, "sessions", "That browser is signed out.")


# -- hooks -----------------------------------------------------------------------------


def _check_hooks(fleet: Fleet, name: str, title: str) -> HooksState:
    try:
        plan = _plan_hooks(fleet, name)
    except TasukiError as error:
        return HooksState(name, title, "not known", str(error))
    is_installed = get_script_path(fleet.data).exists() and not plan.has_changes
    return HooksState(name, title, "in place" if is_installed else "missing")


def _plan_hooks(fleet: Fleet, name: str) -> InstallPlan:
    additions = harnesses.require_control(name).list_additions(str(get_script_path(fleet.data)))
    return Installer(fleet.data.parent).plan(f"{name}/fleet", additions)


@get("/settings/hooks/{name:str}", sync_to_thread=True, include_in_schema=False)
def show_hooks_form(
    request: AnyRequest, fleet: NamedDependency[Fleet], name: FromPath[str]
) -> PageResponse:
    """Show what would be added to a harness, file by file."""
    plan = _plan_hooks(fleet, name)
    return templates.render_page(
        request,
        "hooks_form.html",
        name=name,
        title_of=harnesses.get_harness(name).title,
        plan=plan,
        refused="",
    )


@post("/settings/hooks/{name:str}", sync_to_thread=True, include_in_schema=False)
def add_hooks(
    request: AnyRequest, fleet: NamedDependency[Fleet], name: FromPath[str]
) -> PageResponse:
    """Add the fleet's hooks to a harness, as `tasuki install NAME --fleet` does."""
    control, plan = harnesses.require_control(name), _plan_hooks(fleet, name)
    try:
        write_hook_script(fleet.data)
        additions = control.list_additions(str(get_script_path(fleet.data)))
        Installer(fleet.data.parent).apply_plan(f"{name}/fleet", additions, plan, remove=False)
    except (TasukiError, OSError) as error:
        status = bodies.get_status(error) if isinstance(error, TasukiError) else 507
        return templates.render_page(
            request, "hooks_form.html", status, name=name, title_of=harnesses.get_harness(name).title, plan=plan, refused=str(error)
        )  # fmt: skip
    notes = " ".join(control.notes)
    message = f"The hooks are installed in {harnesses.get_harness(name).title}. {notes}".strip()
    return _say_on_settings(request, "hooks", message)


HANDLERS = (
    show_settings, change_threshold, change_notifications, send_test, switch_automation, end_session, show_hooks_form, add_hooks,
)  # fmt: skip
