"""Personas: what they are, what they learned, who worked as them; and everything to change them."""

import hashlib
from typing import Any

from litestar import Response, get, post
from litestar.di import NamedDependency
from litestar.params import FromPath, FromQuery
from markupsafe import Markup, escape
from msgspec import Struct

from tasuki import harness as harnesses
from tasuki.draft.redact import Redactor
from tasuki.errors import NotPossible, TasukiError
from tasuki.fleet import persona_files, personas, reading
from tasuki.fleet.lessons import decide_lessons, list_lessons
from tasuki.fleet.rows import Agent, FleetHandoff, Persona
from tasuki.fleet.service import Fleet
from tasuki.plain import plain
from tasuki.web import answers, views
from tasuki.web.bodies import LessonOrder, NewPersona, PersonaChange
from tasuki.web.pages import forms, frame, handoffs, shapes
from tasuki.web.pages.frame import Asked, Page
from tasuki.web.pages.lineage_words import harness_title, reason
from tasuki.web.pages.shapes import Shown

Form = NamedDependency[dict[str, str]]
HISTORY = 50
"""Agents and handoffs that are told of a persona; its chain tells all."""
LISTED = 100
"""Documents that are told at first."""


class Line(Struct, frozen=True):
    """A persona in the list."""

    persona: Persona
    harness: str
    working: Agent | None
    state: Shown | None
    last: FleetHandoff | None
    last_state: Shown | None


# -- the list --------------------------------------------------------------------------


@get("/personas", sync_to_thread=True, include_in_schema=False)
def personas_page(
    request: Asked, fleet: NamedDependency[Fleet], retired: FromQuery[bool] = False
) -> Page:
    """Every persona, and the form that makes one."""
    return _list(request, fleet, {"harness": "claude"}, retired=retired)


def _list(
    request: Asked,
    fleet: Fleet,
    values: dict[str, str],
    *,
    retired: bool = False,
    refused: str = "",
    status: int = 200,
) -> Page:
    found = reading.personas(fleet.database, retired=None)
    counts = [
        sum((one.retired_at is not None) == is_old for one in found) for is_old in (False, True)
    ]
    wanted = [one for one in found if (one.retired_at is not None) == retired]
    return frame.page(
        request, "personas.html", status, lines=_lines(fleet, wanted), retired=retired, counts=counts,
        values=values, typed=_to_edit(values.get("skill", "")), refused=refused, harnesses=_startable(), threshold=fleet.threshold,
    )  # fmt: skip


def _lines(fleet: Fleet, found: list[Persona]) -> list[Line]:
    working = {a.persona: a for a in reversed(reading.agents(fleet.database, ended=False))}
    last: dict[str, FleetHandoff] = {}
    for of in reading.handoffs(fleet.database):
        last.setdefault(of.persona, of)
    return [_line(one, working.get(one.slug), last.get(one.slug)) for one in found]


def _line(persona: Persona, working: Agent | None, last: FleetHandoff | None) -> Line:
    return Line(
        persona, harness_title(persona.harness), working,
        shapes.OF_AGENT[working.state] if working else None,
        last, shapes.OF_HANDOFF[last.state] if last else None,
    )  # fmt: skip


@post("/personas", sync_to_thread=True, include_in_schema=False)
def add(request: Asked, fleet: NamedDependency[Fleet], form: Form) -> Page:
    """Make a persona; its page is shown then. A refusal stands beside the form."""
    try:
        body = forms.filled(NewPersona, {
            **{name: form.get(name, "").strip() for name in ("role", "name", "model", "harness")},
            "skill": form.get("skill", ""), "automatic": bool(form.get("automatic")),
            "threshold": form.get("threshold", "").strip() or None,
        })  # fmt: skip
        made = personas.add(
            fleet.database, fleet.root, role=body.role, name=body.name, skill=body.skill,
            harness=body.harness, model=body.model, threshold=body.threshold,
            automatic=body.automatic,
        )  # fmt: skip
    except TasukiError as error:
        return _list(request, fleet, form, refused=str(error), status=answers.status_of(error))
    fleet.changes.happened()
    return frame.moved(request, f"/personas/{made.slug}")


# -- one -------------------------------------------------------------------------------


@get("/personas/{slug:str}", sync_to_thread=True, include_in_schema=False)
def persona_page(request: Asked, fleet: NamedDependency[Fleet], slug: FromPath[str]) -> Page:
    """A persona: its settings, skill, experience, documents and history."""
    return _one(request, fleet, slug)


def _one(
    request: Asked,
    fleet: Fleet,
    slug: str,
    *,
    values: dict[str, str] | None = None,
    typed: str | None = None,
    refused: str = "",
    at: str = "",
    status: int = 200,
) -> Page:
    """`values` and `typed` are what a form had that was refused, `at` the form."""
    of = reading.persona(fleet.database, slug)
    skill, missing = _skill(fleet, slug)
    agents = reading.agents(fleet.database, persona=slug, limit=HISTORY)
    ends = reading.handoffs(fleet.database, persona=slug, limit=HISTORY)
    found, unlisted = _documents(fleet, slug)
    return frame.page(
        request, "persona.html", status, of=of, harness=harness_title(of.harness), harnesses=_startable(),
        threshold=fleet.threshold, values=values or _values(of), refused=refused, at=at,
        skill=Redactor().redact(skill), missing=missing, before=_print(skill),
        typed=_to_edit(skill if typed is None else typed), is_typing=typed is not None,
        experience=_experience(fleet, slug), lessons=list_lessons(fleet.database, slug, proposed=True),
        agents=[(views.redacted(a), shapes.OF_AGENT[a.state], harness_title(a.harness)) for a in agents],
        handoffs=[(views.redacted(h), shapes.OF_HANDOFF[h.state]) for h in ends], reason=reason,
        documents=found[:LISTED], more=max(len(found) - LISTED, 0), unlisted=unlisted,
        of_document={h.file_path: h.id for h in ends if h.file_path},
        working=next((a for a in agents if a.ended_at is None), None),
    )  # fmt: skip


def _skill(fleet: Fleet, slug: str) -> tuple[str, str]:
    """Its skill; and why there is none to show."""
    try:
        return personas.skill_text(fleet.root, slug), ""
    except TasukiError as error:
        return "", str(error)


def _experience(fleet: Fleet, slug: str) -> str:
    try:
        return views.document(str(persona_files.experience_path(fleet.root, slug))) or ""
    except TasukiError as error:
        return str(error)


def _documents(fleet: Fleet, slug: str) -> tuple[list[persona_files.Document], str]:
    try:
        return persona_files.documents(fleet.root, slug), ""
    except TasukiError as error:
        return [], str(error)


def _values(of: Persona) -> dict[str, str]:
    threshold = "" if of.threshold is None else f"{of.threshold:g}"
    automatic = "on" if of.automatic else ""
    return {
        "harness": of.harness,
        "model": of.model,
        "threshold": threshold,
        "automatic": automatic,
    }


def _to_edit(text: str) -> Markup:
    """A text for a form, with every letter that it has: what is sent back is kept."""
    return Markup("\n") + escape(text)  # a form leaves out the first line end


def _print(text: str) -> str:
    """By which a skill is known as the one that was shown."""
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]


# -- changing one ----------------------------------------------------------------------


@post("/personas/{slug:str}", sync_to_thread=True, include_in_schema=False)
def edit(request: Asked, fleet: NamedDependency[Fleet], slug: FromPath[str], form: Form) -> Page:
    """Change its settings. Automatic handoffs that were stopped begin again only where that is said."""
    old = reading.persona(fleet.database, slug)
    try:
        body = forms.filled(PersonaChange, {
            "harness": form.get("harness", "").strip(), "model": form.get("model", "").strip(),
            "threshold": form.get("threshold", "").strip() or None,
            "automatic": bool(form.get("automatic")),
        })  # fmt: skip
        is_new = body.automatic != old.automatic or bool(form.get("again"))
        personas.edit(
            fleet.database, fleet.root, slug, harness=body.harness or None, model=body.model or "",
            threshold=body.threshold, automatic=bool(body.automatic) if is_new else None,
        )  # fmt: skip
    except TasukiError as error:
        return _one(request, fleet, slug, values=form, refused=str(error), at="settings", status=answers.status_of(error))  # fmt: skip
    fleet.changes.happened()
    return frame.moved(request, f"/personas/{slug}")


@post("/personas/{slug:str}/skill", sync_to_thread=True, include_in_schema=False)
def edit_skill(
    request: Asked, fleet: NamedDependency[Fleet], slug: FromPath[str], form: Form
) -> Page:
    """Change its skill, unless somebody else did since it was shown."""
    reading.persona(fleet.database, slug)
    typed = form.get("skill", "")
    try:
        body = forms.filled(PersonaChange, {"skill": typed})
        now, _ = _skill(fleet, slug)
        if form.get("before") != _print(now) and plain(typed).strip() != now:
            raise NotPossible(
                "The skill was changed since this page showed it. What you typed is below; what stands "
                "there now is beside it. Save again to put yours in its place."
            )
        personas.edit(fleet.database, fleet.root, slug, skill=str(body.skill))
    except TasukiError as error:
        return _one(request, fleet, slug, typed=typed, refused=str(error), at="skill", status=answers.status_of(error))  # fmt: skip
    fleet.changes.happened()
    return frame.moved(request, f"/personas/{slug}#skill")


@post("/personas/{slug:str}/lessons", sync_to_thread=True, include_in_schema=False)
def decide(request: Asked, fleet: NamedDependency[Fleet], slug: FromPath[str], form: Form) -> Page:
    """Accept or drop one lesson that an agent proposed, or all of them."""
    id = form.get("id", "").strip()
    try:
        body = forms.filled(
            LessonOrder, {"order": form.get("order", ""), "ids": [id] if id else []}
        )
        decide_lessons(fleet.database, fleet.root, slug, body.order, body.ids)
    except TasukiError as error:
        return _one(request, fleet, slug, refused=str(error), at="lessons", status=answers.status_of(error))  # fmt: skip
    fleet.changes.happened()
    return frame.moved(request, f"/personas/{slug}#lessons")


@get("/personas/{slug:str}/retire", sync_to_thread=True, include_in_schema=False)
def retire_form(request: Asked, fleet: NamedDependency[Fleet], slug: FromPath[str]) -> Page:
    """Asks whether a persona is to be retired."""
    of = reading.persona(fleet.database, slug)
    return frame.page(request, "retire_form.html", of=of, refused="")


@post("/personas/{slug:str}/retire", sync_to_thread=True, include_in_schema=False)
def retire(request: Asked, fleet: NamedDependency[Fleet], slug: FromPath[str]) -> Page:
    """Start no more agents of it."""
    of = reading.persona(fleet.database, slug)
    try:
        personas.retire(fleet.database, slug)
    except TasukiError as error:
        return frame.page(
            request, "retire_form.html", answers.status_of(error), of=of, refused=str(error)
        )
    fleet.changes.happened()
    return frame.moved(request, f"/personas/{slug}")


# -- documents -------------------------------------------------------------------------


@get("/personas/{slug:str}/documents/{name:str}", sync_to_thread=True, include_in_schema=False)
def document(
    request: Asked, fleet: NamedDependency[Fleet], slug: FromPath[str], name: FromPath[str]
) -> Page:
    """One of its documents, rendered."""
    reading.persona(fleet.database, slug)
    found = persona_files.document(fleet.root, slug, name)
    ends = reading.handoffs(fleet.database, persona=slug)
    return frame.page(
        request, "persona_document.html", slug=slug, found=found, text=views.document(found.path),
        handoff=next((of.id for of in ends if of.file_path == found.path), ""),
    )  # fmt: skip


@get("/personas/{slug:str}/documents/{name:str}/raw", sync_to_thread=True, include_in_schema=False)
def raw(
    fleet: NamedDependency[Fleet],
    slug: FromPath[str],
    name: FromPath[str],
    download: FromQuery[bool] = False,
) -> Response[bytes]:
    """One of its documents as it is, without secrets."""
    reading.persona(fleet.database, slug)
    found = persona_files.document(fleet.root, slug, name)
    text = views.document(found.path) or ""
    return handoffs.as_text(text, _file_name(found.name), download=download)


def _file_name(name: str) -> str:
    """A name that a header can carry."""
    return "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "_" for c in name)


# -- what they share -------------------------------------------------------------------


def _startable() -> list[tuple[str, str]]:
    known = ((name, harnesses.get(name)) for name in harnesses.names())
    return [(name, it.title) for name, it in known if harnesses.control(it) is not None]


HANDLERS: tuple[Any, ...] = (
    personas_page, add, persona_page, edit, edit_skill, decide, retire_form, retire, document, raw,
)  # fmt: skip
