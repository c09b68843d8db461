"""Facts of this server, and the browsers that are signed in to it."""

import socket
from typing import Any

from tasuki import __version__
from tasuki.errors import TasukiError
from tasuki.fleet.service import Fleet
from tasuki.web.api import error_answers, forms
from tasuki.web.handlers import AnyRequest, FormFields, TheFleet, show_page, take_form
from tasuki.web.pages import login
from tasuki.web.pages.settings.frame import SettingsNotice, render_section, say_in_section
from tasuki.web.security.sessions import (
    BrowserSessions,
    find_current_session,
    find_proxy_user,
    is_signed_in,
)
from tasuki.web.views.templates import PageResponse


@show_page("/settings/server")
def show_server(request: AnyRequest, fleet: TheFleet) -> PageResponse:
    """Show what this server is and works on."""
    return render_section(
        request, "server", facts=_build_facts(request, fleet),
        session=find_current_session(request), proxy_user=find_proxy_user(request),
    )  # fmt: skip


def _build_facts(request: AnyRequest, fleet: Fleet) -> list[tuple[str, str]]:
    return [
        ("Version", __version__), ("Address", request.headers.get("host", "")), ("Host", socket.gethostname()),
        ("Data", str(fleet.data.parent)), ("Personas", str(fleet.root / "data" / "personas")),
        ("Database", "SQLite" if fleet.database.is_sqlite else "PostgreSQL"),
        ("Agents run in tmux", fleet.loaded.settings.fleet_tmux), ("Health", " ".join(fleet.list_faults()) or "ok"),
    ]  # fmt: skip


@show_page("/settings/browsers")
def show_browsers(request: AnyRequest) -> PageResponse:
    """Show the browsers that are signed in."""
    return _render_browsers(request)


def _render_browsers(request: AnyRequest, **more: Any) -> PageResponse:
    sessions: BrowserSessions = request.app.state.sessions
    return render_section(
        request, "browsers", sessions=sessions.list_sessions(), session=find_current_session(request), **more
    )  # fmt: skip


@take_form("/settings/sessions/end")
def end_session(request: AnyRequest, form: FormFields) -> PageResponse:
    """Sign another browser out, or every one."""
    sessions: BrowserSessions = request.app.state.sessions
    if form.get("id") == "all":
        sessions.end_all()
        message = login.describe_signed_out(request, "Every browser is signed out.")
        return login.render_sign_in(request, message, status=200)
    try:
        sessions.end_session(forms.parse_number(form.get("id", "")))
    except TasukiError as error:
        notice = SettingsNotice(str(error), is_success=False)
        return _render_browsers(request, notice=notice, status=error_answers.get_status(error))
    if not is_signed_in(request):
        return login.render_sign_in(request, "You are signed out.", status=200)
    return say_in_section(request, "browsers", SettingsNotice("That browser is signed out."))


HANDLERS = (show_server, show_browsers, end_session)
