"""Settings of the fleet: thresholds, automation, notifications, hooks; and what the server is."""

import socket
from typing import Any

from litestar import get, post
from litestar.di import NamedDependency
from litestar.params import FromPath
from msgspec import Struct

from tasuki import __version__, config, notify
from tasuki import harness as harnesses
from tasuki.errors import NotPossible, TasukiError
from tasuki.fleet import personas, reading
from tasuki.fleet.service import Fleet
from tasuki.harness.control import Control
from tasuki.harness.hook_script import path_in, write_hook_script
from tasuki.harness.install import Installer, Plan
from tasuki.harness.protocol import Harness
from tasuki.web import answers
from tasuki.web.api_operator import given
from tasuki.web.bodies import SettingsChange
from tasuki.web.pages import forms, frame, login, shapes
from tasuki.web.pages.frame import Asked, Page
from tasuki.web.sessions import Sessions, current_session

Form = NamedDependency[dict[str, str]]
ABOUT = {
    "done": "a handoff is done",
    "failed": "a handoff failed, an agent is lost",
    "needs_you": "an agent waits for you, an automation stopped",
    "threshold": "a context is past its threshold",
    "unacknowledged": "a successor did not acknowledge",
}


class Hooks(Struct, frozen=True):
    """Whether the fleet's hooks are in a harness: in place, missing or changed, with what would be done."""

    name: str
    title: str
    state: str
    problem: str = ""


@get("/settings", sync_to_thread=True, include_in_schema=False)
def settings_page(request: Asked, fleet: NamedDependency[Fleet]) -> Page:
    """What holds now, and the forms that change it."""
    return _page(request, fleet)


def _page(
    request: Asked,
    fleet: Fleet,
    *,
    at: str = "",
    said: str = "",
    fine: bool = True,
    status: int = 200,
    **values: Any,
) -> Page:
    notifier = fleet.notifier
    return frame.page(
        request, "settings.html", status, at=at, said=said, fine=fine, values=values,
        threshold=fleet.threshold, personas=reading.personas(fleet.database),
        places=notify.kinds(notifier.places()), is_set=bool(notifier.where), about=notifier.about.split(),
        kinds=[(key, shapes.OF_ALERT[key], meaning) for key, meaning in ABOUT.items()],
        problem=notifier.problem, hooks=[_hooks(fleet, h) for h, _ in _able()], file=_file(),
        facts=_facts(request, fleet), sessions=request.app.state.sessions.list_sessions(),
        session=current_session(request),
    )  # fmt: skip


def _file() -> str:
    path = config.user_file()
    return config.tilde(path) if path else "the file that TASUKI_CONFIG names"


def _facts(request: Asked, fleet: Fleet) -> list[tuple[str, str]]:
    return [
        ("Version", __version__), ("Address", request.headers.get("host", "")), ("Host", socket.gethostname()),
        ("Data", str(fleet.data.parent)), ("Personas", str(fleet.root / "data" / "personas")),
        ("Database", "SQLite" if fleet.database.is_sqlite else "PostgreSQL"),
        ("Agents run in tmux", fleet.loaded.settings.fleet_tmux), ("Health", fleet.health()["status"]),
    ]  # fmt: skip


# -- thresholds, automation, notifications ---------------------------------------------


@post("/settings/threshold", sync_to_thread=True, include_in_schema=False)
def threshold(request: Asked, fleet: NamedDependency[Fleet], form: Form) -> Page:
    """The threshold of every persona that has none of its own."""
    return _changed(
        request, fleet, "thresholds", {"context_threshold": form.get("context_threshold", "")}
    )


@post("/settings/notifications", sync_to_thread=True, include_in_schema=False)
def notifications(
    request: Asked, fleet: NamedDependency[Fleet], fields: NamedDependency[dict[str, list[str]]]
) -> Page:
    """Where alerts go and which; an address that is left out stays as it is."""
    where = " ".join("".join(fields.get("notify", [""])[-1:]).split())
    changes: dict[str, Any] = {"notify_about": " ".join(fields.get("about", []))}
    if where or fields.get("forget"):
        changes["notify"] = where or None
    return _changed(request, fleet, "notifications", changes)


def _changed(request: Asked, fleet: Fleet, at: str, changes: dict[str, Any]) -> Page:
    try:
        fleet.configure(**given(forms.filled(SettingsChange, changes)))
    except TasukiError as error:
        return _page(
            request, fleet, at=at, said=str(error), fine=False, status=answers.status_of(error), **changes
        )  # fmt: skip
    return _page(request, fleet, at=at, said="Saved; it holds from now on.")


@post("/settings/test", sync_to_thread=True, include_in_schema=False)
def test(request: Asked, fleet: NamedDependency[Fleet]) -> Page:
    """Send a notification to try it."""
    problems = fleet.notifier.test()
    said = " ".join(problems) or "Sent: look where it should arrive."
    return _page(request, fleet, at="notifications", said=said, fine=not problems)


@post("/settings/automation/{slug:str}", sync_to_thread=True, include_in_schema=False)
def automation(
    request: Asked, fleet: NamedDependency[Fleet], slug: FromPath[str], form: Form
) -> Page:
    """Switch the automatic handoffs of a persona on or off; on again ends what its guard stopped."""
    wanted = form.get("automatic") == "on"
    try:
        personas.edit(fleet.database, fleet.root, slug, automatic=wanted)
    except TasukiError as error:
        return _page(request, fleet, at="automation", said=str(error), fine=False, status=answers.status_of(error))  # fmt: skip
    fleet.changes.happened()
    word = "are on" if wanted else "are off"
    return _page(request, fleet, at="automation", said=f"Automatic handoffs of {slug} {word}.")


# -- browsers that are signed in -------------------------------------------------------


@post("/settings/sessions/end", sync_to_thread=True, include_in_schema=False)
def end_session(request: Asked, fleet: NamedDependency[Fleet], form: Form) -> Page:
    """Sign another browser out, or every one."""
    sessions: Sessions = request.app.state.sessions
    if form.get("id") == "all":
        sessions.end_all()
        return login.sign_in(request, "Every browser is signed out.", status=200)
    try:
        sessions.end(forms.number(form.get("id", "")))
    except TasukiError as error:
        return _page(request, fleet, at="sessions", said=str(error), fine=False, status=answers.status_of(error))  # fmt: skip
    if current_session(request) is None:
        return login.sign_in(request, "You are signed out.", status=200)
    return _page(request, fleet, at="sessions", said="That browser is signed out.")


# -- hooks -----------------------------------------------------------------------------


def _able() -> list[tuple[Harness, Control]]:
    """The harnesses whose agents can be run, and how."""
    found = [(h, harnesses.control(h)) for h in map(harnesses.get, harnesses.names())]
    return [(harness, control) for harness, control in found if control is not None]


def _hooks(fleet: Fleet, harness: Harness) -> Hooks:
    try:
        plan = _plan(fleet, harness.name)
    except TasukiError as error:
        return Hooks(harness.name, harness.title, "not known", str(error))
    there = path_in(fleet.data).exists() and not plan.changes
    return Hooks(harness.name, harness.title, "in place" if there else "missing")


def _control(name: str) -> Control:
    """How agents of a harness are run. Raises NotPossible."""
    control = next((c for h, c in _able() if h.name == name), None)
    if control is None:
        raise NotPossible(f"Agents of {name} cannot be run by tasuki.")
    return control


def _plan(fleet: Fleet, name: str) -> Plan:
    additions = _control(name).additions(str(path_in(fleet.data)))
    return Installer(fleet.data.parent).plan(f"{name}/fleet", additions)


@get("/settings/hooks/{name:str}", sync_to_thread=True, include_in_schema=False)
def hooks_form(request: Asked, fleet: NamedDependency[Fleet], name: FromPath[str]) -> Page:
    """What would be added to a harness, file by file, before it is."""
    plan = _plan(fleet, name)
    return frame.page(
        request,
        "hooks_form.html",
        name=name,
        title_of=harnesses.get(name).title,
        plan=plan,
        refused="",
    )


@post("/settings/hooks/{name:str}", sync_to_thread=True, include_in_schema=False)
def add_hooks(request: Asked, fleet: NamedDependency[Fleet], name: FromPath[str]) -> Page:
    """Add the fleet's hooks to a harness, as `tasuki install NAME --fleet` does."""
    control, plan = _control(name), _plan(fleet, name)
    try:
        write_hook_script(fleet.data)
        additions = control.additions(str(path_in(fleet.data)))
        Installer(fleet.data.parent).carry_out(f"{name}/fleet", additions, plan, remove=False)
    except (TasukiError, OSError) as error:
        status = answers.status_of(error) if isinstance(error, TasukiError) else 507
        return frame.page(
            request, "hooks_form.html", status, name=name, title_of=harnesses.get(name).title, plan=plan, refused=str(error)
        )  # fmt: skip
    notes = " ".join(control.notes)
    return _page(
        request,
        fleet,
        at="hooks",
        said=f"The hooks are in {harnesses.get(name).title}. {notes}".strip(),
    )


HANDLERS = (
    settings_page, threshold, notifications, test, automation, end_session, hooks_form, add_hooks,
)  # fmt: skip
