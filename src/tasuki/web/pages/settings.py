"""The settings: a frame with navigation, and a page for each section."""

import socket
from collections.abc import Iterator, Sequence
from typing import Any

from litestar import get, post
from litestar.params import FromQuery
from msgspec import Struct

from tasuki import __version__, notify
from tasuki.config.settings import find_user_file, format_path
from tasuki.doctor import (
    DiagnosedProblem,
    DoctorReport,
    HarnessReport,
    build_install_line,
    inspect_harnesses,
)
from tasuki.errors import StoreFailed, TasukiError
from tasuki.fleet.agents import personas
from tasuki.fleet.exchange.host_list import find_login
from tasuki.fleet.orders.bodies import PersonaChange, SettingsChange
from tasuki.fleet.service import Fleet
from tasuki.fleet.store import queries
from tasuki.harness import registry as harnesses
from tasuki.install.hook_script import get_script_path, write_hook_script
from tasuki.install.installer import Installer, InstallPlan
from tasuki.web.api import forms
from tasuki.web.handlers import (
    AnyRequest,
    FormFields,
    FormValues,
    PathWord,
    TheFleet,
    find_refusal,
    show_page,
    take_form,
)
from tasuki.web.pages import login
from tasuki.web.security.sessions import (
    BrowserSessions,
    find_current_session,
    find_proxy_user,
    is_signed_in,
)
from tasuki.web.views import display, templates, theme
from tasuki.web.views.templates import PageResponse
from tasuki.web.views.theme import ThemeChoice


class SettingsSection(Struct, frozen=True):
    """A section of the settings, with a page of its own."""

    key: str
    word: str
    href: str
    anchors: str = ""
    """Names of its parts, which `/settings#NAME` once showed; `settings.js` leads them here."""


SECTIONS = (
    SettingsSection("general", "General", "/settings"),
    SettingsSection("automation", "Automatic handoff", "/settings/automation", "automation"),
    SettingsSection("hooks", "Programs that report", "/settings/hooks", "hooks"),
    SettingsSection("notifications", "Notifications", "/settings/notifications", "notifications"),
    SettingsSection("browser", "This browser", "/settings/browser", "browser"),
    SettingsSection("browsers", "Signed-in browsers", "/settings/browsers", "sessions"),
    SettingsSection("doctor", "Doctor", "/doctor"),
    SettingsSection("server", "This server", "/settings/server", "server"),
)  # fmt: skip
"""In the order of the navigation. The template of a section is `settings_KEY.html`."""
ADDRESSES = {section.key: section.href for section in SECTIONS}


class SettingsNotice(Struct, frozen=True):
    """What a section says after a change, next to its form."""

    message: str = ""
    is_success: bool = True
    place: str = ""
    """Which of its forms; empty where it has one."""


def render_section(request: AnyRequest, key: str, **context: Any) -> PageResponse:
    """Render a section, with why its form was refused, or what the last change left to say."""
    refusal = find_refusal(request)
    found = request.app.state.notices.find(request.query_params.get("said", ""), SettingsNotice)
    notice = found or SettingsNotice()
    if refusal.sentence:
        notice = SettingsNotice(refusal.sentence, is_success=False)
    path = find_user_file()
    file = format_path(path) if path else "the file that TASUKI_CONFIG names"
    return templates.render_page(
        request, f"settings_{key}.html", sections=SECTIONS, here=key, file=file, said=notice.message,
        fine=notice.is_success, place=notice.place, values=refusal.values, **context,
    )  # fmt: skip


def say_in_section(request: AnyRequest, key: str, notice: SettingsNotice) -> PageResponse:
    """Redirect to a section, which says what came of a change."""
    said = request.app.state.notices.add(notice)
    return templates.redirect(request, f"{ADDRESSES[key]}?said={said}")


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
    fleet.configure(**forms.collect_changes(forms.fill_body(SettingsChange, changes)))


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
    personas.edit_persona(fleet.database, fleet.root, slug, PersonaChange(automatic=is_on))
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


# -- the fleet's hooks in each harness -------------------------------------------------


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


# -- what `tasuki doctor` finds --------------------------------------------------------


class DoctorRow(Struct, frozen=True):
    """One thing that was examined. `tone`: done, attn, rest."""

    what: str
    said: str
    tone: str = "done"
    mend: str = ""
    """The line that mends it, or a sentence; empty where nothing is to be done."""
    href: str = ""
    """A form that mends it, over the page."""


class DoctorGroup(Struct, frozen=True):
    """What was found about one thing, such as a harness."""

    title: str
    rows: tuple[DoctorRow, ...]

    @property
    def is_well(self) -> bool:
        """Whether nothing of it is to be mended."""
        return all(row.tone != "attn" for row in self.rows)


@show_page("/doctor")
def show_doctor(request: AnyRequest, fleet: TheFleet) -> PageResponse:
    """Show what works with each harness on this host, what does not, and how to mend it."""
    report = inspect_harnesses()
    hooks = {one.name: one.state for one in list_hooks(fleet)}
    shown = [one for one in report.harnesses if one.is_present]
    groups = [
        _build_fleet_group(fleet, report),
        *(DoctorGroup(one.title, tuple(_list_rows(one, hooks))) for one in shown),
    ]
    absent = [(one.title, build_install_line(one)) for one in report.harnesses if one not in shown]
    return render_section(request, "doctor", groups=groups, absent=absent)


def _build_fleet_group(fleet: Fleet, report: DoctorReport) -> DoctorGroup:
    curl = report.fleet.curl if report.fleet else ""
    health = " ".join(fleet.list_faults()) or "ok"
    rows = [
        DoctorRow("Server", f"tasuki {report.tasuki}, {health}", "done" if health == "ok" else "attn"),
        DoctorRow("tmux", report.tmux or "not found", "done" if report.tmux else "attn", "" if report.tmux else "Install tmux, for example: apt install tmux; or brew install tmux"),
    ]  # fmt: skip
    if report.fleet:
        rows.append(DoctorRow("curl", curl or "not found", "done" if curl else "attn"))
        script = report.fleet.script
        rows.append(DoctorRow("Script of the hooks", script, "done" if script == "current" else "rest"))  # fmt: skip
    return DoctorGroup("This host", (*rows, *_list_problems(report.problems)))


def _list_rows(harness: HarnessReport, hooks: dict[str, str]) -> Iterator[DoctorRow]:
    if harness.program:
        tested = f"; tested with {harness.tested}" if harness.tested else ""
        yield DoctorRow("Program", f"{harness.version or '?'} at {harness.program}{tested}")
    else:
        yield DoctorRow("Program", "not found", "rest", build_install_line(harness))
    login = find_login(harness.name)
    if login != "unknown" and harness.program:
        found = login == "yes"
        yield DoctorRow("Login", "found" if found else "no trace of one", "done" if found else "rest", "" if found else f"Start {harness.name} once and log in.")  # fmt: skip
    if state := hooks.get(harness.name):
        is_there = state == "in place"
        tone = "done" if is_there else "attn" if harness.program else "rest"
        yield DoctorRow("Hooks of the fleet", state, tone, "" if is_there else f"tasuki install {harness.name} --fleet", "" if is_there else f"/settings/hooks/{harness.name}")  # fmt: skip
    yield DoctorRow("Threads", f"{harness.threads.count:,}", "done" if harness.threads.readable else "attn")  # fmt: skip
    yield from _list_problems(harness.problems)
    yield from (DoctorRow("Note", note, "rest") for note in harness.notes)


def _list_problems(problems: Sequence[DiagnosedProblem]) -> Iterator[DoctorRow]:
    for problem in problems:
        yield DoctorRow("Problem", problem.what, "attn", problem.mend)
