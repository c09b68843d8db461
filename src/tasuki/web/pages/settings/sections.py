"""The sections of the settings that have no module of their own."""

import socket
from typing import Any

from litestar import get, post

from tasuki import __version__, notify
from tasuki.fleet.agents import personas
from tasuki.fleet.orders.bodies import SettingsChange
from tasuki.fleet.service import Fleet
from tasuki.fleet.store import queries
from tasuki.web.api import forms
from tasuki.web.api.operator import collect_changes
from tasuki.web.handlers import (
    AnyRequest,
    FormFields,
    FormValues,
    PathWord,
    TheFleet,
    show_page,
    take_form,
)
from tasuki.web.pages import login
from tasuki.web.pages.settings.frame import SettingsNotice, render_section, say_in_section
from tasuki.web.security.sessions import (
    BrowserSessions,
    find_current_session,
    find_proxy_user,
    is_signed_in,
)
from tasuki.web.views import display, templates, theme
from tasuki.web.views.templates import PageResponse
from tasuki.web.views.theme import ThemeChoice

SAVED = SettingsNotice("Saved; it applies from now on.")
ALERT_MEANINGS = {
    "done": "a handoff is done",
    "failed": "a handoff failed, an agent is lost",
    "limited": "an agent is at a usage limit",
    "needs_you": "an agent waits for you, an automation stopped",
    "stuck": "nothing of a busy agent moves",
    "threshold": "a context is past its threshold",
    "unacknowledged": "a successor did not acknowledge",
}


# -- thresholds, automatic handoffs ----------------------------------------------------


@show_page("/settings")
def show_general(request: AnyRequest, fleet: TheFleet) -> PageResponse:
    """Show the threshold of every persona without its own."""
    own = [p for p in queries.list_personas(fleet.database) if p.threshold is not None]
    return render_section(request, "general", threshold=fleet.threshold, personas=own)


@take_form("/settings/threshold", refused=show_general)
def change_threshold(request: AnyRequest, fleet: TheFleet, form: FormFields) -> PageResponse:
    """Change the threshold of every persona that does not have its own."""
    _apply_changes(fleet, {"context_threshold": form.get("context_threshold", "")})
    return say_in_section(request, "general", SAVED)


def _apply_changes(fleet: Fleet, changes: dict[str, Any]) -> None:
    """Apply the fields of a form to the user's own settings. Raises TasukiError."""
    fleet.configure(**collect_changes(forms.fill_body(SettingsChange, changes)))


@show_page("/settings/automation")
def show_automation(request: AnyRequest, fleet: TheFleet) -> PageResponse:
    """Show which personas are handed off automatically."""
    return render_section(request, "automation", personas=queries.list_personas(fleet.database))


@take_form("/settings/automation/{slug:str}", refused=show_automation)
def switch_automation(
    request: AnyRequest, fleet: TheFleet, slug: PathWord, form: FormFields
) -> PageResponse:
    """Switch the automatic handoffs of a persona on or off; on also resumes stopped ones."""
    is_on = form.get("automatic") == "on"
    personas.edit_persona(fleet.database, fleet.root, slug, automatic=is_on)
    fleet.changes.notify()
    word = "are on" if is_on else "are off"
    notice = SettingsNotice(f"Automatic handoffs of {slug} {word}.", place=slug)
    return say_in_section(request, "automation", notice)


# -- notifications ---------------------------------------------------------------------


@show_page("/settings/notifications")
def show_notifications(request: AnyRequest, fleet: TheFleet) -> PageResponse:
    """Show where alerts go and which, without the addresses."""
    notifier = fleet.notifier
    return render_section(
        request, "notifications", places=notify.list_kinds(notifier.get_addresses()), is_set=bool(notifier.addresses),
        about=notifier.kinds.split(), problem=notifier.problem,
        kinds=[(key, display.ALERT_SHAPES[key], meaning) for key, meaning in ALERT_MEANINGS.items()],
    )  # fmt: skip


@take_form("/settings/notifications", refused=show_notifications)
def change_notifications(request: AnyRequest, fleet: TheFleet, fields: FormValues) -> PageResponse:
    """Change where alerts go and which; an omitted address stays."""
    addresses = " ".join("".join(fields.get("notify", [""])[-1:]).split())
    changes: dict[str, Any] = {"notify_about": " ".join(fields.get("about", []))}
    if addresses or fields.get("forget"):
        changes["notify"] = addresses or None
    _apply_changes(fleet, changes)
    return say_in_section(request, "notifications", SAVED)


@take_form("/settings/test")
def send_test(request: AnyRequest, fleet: TheFleet) -> PageResponse:
    """Send a test notification."""
    problems = fleet.notifier.test()
    message = " ".join(problems) or "Sent. Check that it arrived."
    notice = SettingsNotice(message, is_success=not problems, place="test")
    return say_in_section(request, "notifications", notice)


# -- this browser, and the others that are signed in -----------------------------------


@get("/settings/browser", sync_to_thread=False)
def show_browser(request: AnyRequest) -> PageResponse:
    """Show what this browser chose."""
    return render_section(request, "browser", themes=theme.THEMES)


@post("/settings/theme", sync_to_thread=False)
def choose_theme(request: AnyRequest, form: FormFields) -> PageResponse:
    """Let this browser keep a theme."""
    choice = forms.fill_body(ThemeChoice, {"theme": form.get("theme", "")})
    answer = templates.redirect(request, "/settings/browser")
    theme.keep_theme(request, answer, choice.theme)
    return answer


@show_page("/settings/browsers")
def show_browsers(request: AnyRequest) -> PageResponse:
    """Show the browsers that are signed in."""
    sessions: BrowserSessions = request.app.state.sessions
    return render_section(
        request, "browsers", sessions=sessions.list_sessions(), session=find_current_session(request)
    )  # fmt: skip


@take_form("/settings/sessions/end", refused=show_browsers)
def end_session(request: AnyRequest, form: FormFields) -> PageResponse:
    """Sign another browser out, or every one."""
    sessions: BrowserSessions = request.app.state.sessions
    if form.get("id") == "all":
        sessions.end_all()
        message = login.describe_signed_out(request, "Every browser is signed out.")
        return login.render_sign_in(request, message, status=200)
    sessions.end_session(forms.parse_number(form.get("id", "")))
    if not is_signed_in(request):
        return login.render_sign_in(request, "You are signed out.", status=200)
    return say_in_section(request, "browsers", SettingsNotice("That browser is signed out."))


# -- this server -----------------------------------------------------------------------


@show_page("/settings/server")
def show_server(request: AnyRequest, fleet: TheFleet) -> PageResponse:
    """Show what this server is and works on."""
    facts = [
        ("Version", __version__), ("Address", request.headers.get("host", "")), ("Host", socket.gethostname()),
        ("Data", str(fleet.data.parent)), ("Personas", str(fleet.root / "data" / "personas")),
        ("Database", "SQLite" if fleet.database.is_sqlite else "PostgreSQL"),
        ("Agents run in tmux", fleet.loaded.settings.fleet_tmux), ("Health", " ".join(fleet.list_faults()) or "ok"),
    ]  # fmt: skip
    return render_section(
        request, "server", facts=facts, session=find_current_session(request),
        proxy_user=find_proxy_user(request),
    )  # fmt: skip
