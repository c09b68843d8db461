"""The pages of personas: what they are, what they learned, who worked as them; and changes."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from litestar import Response
from litestar.params import FromQuery
from markupsafe import Markup, escape
from msgspec import UNSET, Struct
from msgspec.structs import replace

from tasuki.draft.redact.redactor import Redactor
from tasuki.errors import NotPossible, TasukiError
from tasuki.fleet.agents import persona_files, personas
from tasuki.fleet.agents.persona_files import decide_lessons, list_lessons, reopen_lessons
from tasuki.fleet.exchange.shared_files import share_persona
from tasuki.fleet.orders.bodies import LessonOrder, NewPersona, PersonaChange
from tasuki.fleet.service import Fleet
from tasuki.fleet.store import queries
from tasuki.fleet.store.models import FleetAgent, FleetHandoff, Persona, PersonaLesson
from tasuki.harness import registry as harnesses
from tasuki.text_safety import clean_text
from tasuki.web.api import error_answers, forms
from tasuki.web.handlers import AnyRequest, FormFields, PathWord, TheFleet, show_page, take_form
from tasuki.web.pages.agent.queue import build_queue
from tasuki.web.pages.fleet import cards
from tasuki.web.views import display, templates
from tasuki.web.views.display import StateBadge
from tasuki.web.views.templates import PageResponse, format_reason, get_harness_title
from tasuki.web.views.undo import UndoOffer

MOST_HISTORY = 50
"""Most agents and handoffs that are listed of a persona; its chain shows all."""
MOST_LISTED = 100
"""Most documents that are listed at first."""


class PersonaLine(Struct, frozen=True):
    """A persona in the list."""

    persona: Persona
    harness: str
    working: FleetAgent | None
    state: StateBadge | None
    last: FleetHandoff | None
    last_state: StateBadge | None


# -- the list --------------------------------------------------------------------------


@show_page("/personas")
def show_personas(
    request: AnyRequest, fleet: TheFleet, retired: FromQuery[bool] = False
) -> PageResponse:
    """Show every persona, and the form that adds one."""
    return _render_list(request, fleet, {"harness": harnesses.DEFAULT}, retired=retired)


def _render_list(
    request: AnyRequest,
    fleet: Fleet,
    values: dict[str, str],
    *,
    retired: bool = False,
    refused: str = "",
    status: int = 200,
) -> PageResponse:
    all_personas = queries.list_personas(fleet.database, retired=None)
    counts = [
        sum((one.retired_at is not None) == is_old for one in all_personas)
        for is_old in (False, True)
    ]
    listed = [one for one in all_personas if (one.retired_at is not None) == retired]
    return templates.render_page(
        request, "personas.html", status, lines=_build_lines(fleet, listed), retired=retired, counts=counts,
        values=values, typed=_escape_for_form(values.get("skill", "")), refused=refused, harnesses=forms.list_startable_harnesses(), threshold=fleet.threshold,
    )  # fmt: skip


def _build_lines(fleet: Fleet, listed: list[Persona]) -> list[PersonaLine]:
    working = {a.persona: a for a in reversed(queries.list_agents(fleet.database, ended=False))}
    last: dict[str, FleetHandoff] = {}
    for handoff in queries.list_handoffs(fleet.database):
        last.setdefault(handoff.persona, handoff)
    shapes = _find_shapes(fleet, working.values())
    return [_build_line(one, working.get(one.slug), last.get(one.slug), shapes) for one in listed]


def _find_shapes(fleet: Fleet, agents: Iterable[FleetAgent]) -> dict[int, StateBadge]:
    """Find the states of agents, by their ids, as their cards have them."""
    return {card.id: card.shown for card in cards.build_cards(fleet, [one.id for one in agents])}


def _build_line(
    persona: Persona,
    working: FleetAgent | None,
    last: FleetHandoff | None,
    shapes: Mapping[int, StateBadge],
) -> PersonaLine:
    return PersonaLine(
        persona, get_harness_title(persona.harness), working, shapes[working.id] if working else None,
        last, display.get_handoff_shape(last) if last else None,
    )  # fmt: skip


@take_form("/personas")
def add_persona(request: AnyRequest, fleet: TheFleet, form: FormFields) -> PageResponse:
    """Add a persona and show its page. A refusal is shown with the form."""
    try:
        body = forms.fill_body(NewPersona, {
            **{name: form.get(name, "").strip() for name in ("role", "name", "model", "harness")},
            "skill": form.get("skill", ""), "automatic": bool(form.get("automatic")),
            "threshold": form.get("threshold", "").strip() or None,
            "on_limit": form.get("on_limit", "").strip(),
        })  # fmt: skip
        added = personas.add_persona(fleet.database, fleet.root, body)
        share_persona(fleet.database, fleet.root, added.slug)
    except TasukiError as error:
        return _render_list(
            request, fleet, form, refused=str(error), status=error_answers.get_status(error)
        )
    fleet.changes.notify()
    return templates.redirect(request, f"/personas/{added.slug}")


# -- one -------------------------------------------------------------------------------


@show_page("/personas/{slug:str}")
def show_persona(request: AnyRequest, fleet: TheFleet, slug: PathWord) -> PageResponse:
    """Show a persona: its settings, skill, experience, documents and history."""
    return _render_persona(request, fleet, slug)


def _render_persona(
    request: AnyRequest,
    fleet: Fleet,
    slug: str,
    *,
    values: dict[str, str] | None = None,
    typed: str | None = None,
    refused: str = "",
    section: str = "",
    status: int = 200,
) -> PageResponse:
    """Render a persona; `values` and `typed` are from a refused form, `section` names the form."""
    persona = queries.load_persona(fleet.database, slug)
    _share(fleet, slug)
    skill, missing = _read_skill(fleet, slug)
    agents = queries.list_agents(fleet.database, persona=slug, limit=MOST_HISTORY)
    ends = queries.list_handoffs(fleet.database, persona=slug, limit=MOST_HISTORY)
    listed, unlisted = _list_documents(fleet, slug)
    working = next((a for a in agents if a.ended_at is None), None)
    shapes = _find_shapes(fleet, agents)
    return templates.render_page(
        request, "persona.html", status, of=persona, harness=get_harness_title(persona.harness), harnesses=forms.list_startable_harnesses(),
        threshold=fleet.threshold, values=values or _build_values(persona), refused=refused, at=section,
        skill=Redactor().redact(skill), missing=missing, before=_hash_text(skill),
        typed=_escape_for_form(skill if typed is None else typed), is_typing=typed is not None,
        experience=_read_experience(fleet, slug), lessons=list_lessons(fleet.database, slug, proposed=True),
        agents=[(display.redact_row(a), shapes[a.id], get_harness_title(a.harness)) for a in agents],
        handoffs=[(display.redact_row(h), display.get_handoff_shape(h)) for h in ends], reason=format_reason,
        documents=listed[:MOST_LISTED], more=max(len(listed) - MOST_LISTED, 0), unlisted=unlisted,
        of_document={h.file_path: h.id for h in ends if h.file_path},
        working=working, live=f"personas agent:{working.id}" if working else "personas", **build_queue(request, fleet, slug, working),
    )  # fmt: skip


def _share(fleet: Fleet, slug: str) -> None:
    """Fetch what other hosts changed; where that fails, the files of this host are shown."""
    with suppress(TasukiError):
        share_persona(fleet.database, fleet.root, slug)


def _read_skill(fleet: Fleet, slug: str) -> tuple[str, str]:
    """Read its skill; also return why there is none to show."""
    try:
        return personas.read_skill(fleet.root, slug), ""
    except TasukiError as error:
        return "", str(error)


def _read_experience(fleet: Fleet, slug: str) -> str:
    try:
        folder = personas.get_persona_folder(fleet.root, slug)
        return display.read_document(str(folder / personas.EXPERIENCE)) or ""
    except TasukiError as error:
        return str(error)


def _list_documents(fleet: Fleet, slug: str) -> tuple[list[persona_files.DocumentFile], str]:
    try:
        return persona_files.list_documents(fleet.root, slug), ""
    except TasukiError as error:
        return [], str(error)


def _build_values(persona: Persona) -> dict[str, str]:
    threshold = "" if persona.threshold is None else f"{persona.threshold:g}"
    automatic = "on" if persona.automatic else ""
    return {
        "harness": persona.harness,
        "model": persona.model,
        "threshold": threshold,
        "automatic": automatic,
        "on_limit": persona.on_limit,
    }


def _escape_for_form(text: str) -> Markup:
    """Escape a text for a form with every character, so that nothing is lost when it is sent back."""
    return Markup("\n") + escape(text)  # a form drops the first line end


def _hash_text(text: str) -> str:
    """Hash a skill, to recognize it as the one that was shown."""
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]


# -- changing one ----------------------------------------------------------------------


@take_form("/personas/{slug:str}")
def edit_persona(
    request: AnyRequest, fleet: TheFleet, slug: PathWord, form: FormFields
) -> PageResponse:
    """Change its settings. Stopped automatic handoffs resume only where the form says so."""
    old = queries.load_persona(fleet.database, slug)
    try:
        body = forms.fill_body(PersonaChange, {
            "harness": form.get("harness", "").strip(), "model": form.get("model", "").strip(),
            "threshold": form.get("threshold", "").strip() or None,
            "automatic": bool(form.get("automatic")), "on_limit": form.get("on_limit", "").strip(),
        })  # fmt: skip
        is_new = body.automatic != old.automatic or bool(form.get("again"))
        change = replace(
            body, harness=body.harness or UNSET, automatic=body.automatic if is_new else UNSET,
            on_limit=body.on_limit if body.on_limit != old.on_limit else UNSET,
        )  # fmt: skip
        personas.edit_persona(fleet.database, fleet.root, slug, change)
    except TasukiError as error:
        return _render_persona(request, fleet, slug, values=form, refused=str(error), section="settings", status=error_answers.get_status(error))  # fmt: skip
    fleet.changes.notify()
    return templates.redirect(request, f"/personas/{slug}")


@take_form("/personas/{slug:str}/skill")
def edit_skill(
    request: AnyRequest, fleet: TheFleet, slug: PathWord, form: FormFields
) -> PageResponse:
    """Change its skill, unless it was changed since it was shown."""
    queries.load_persona(fleet.database, slug)
    typed = form.get("skill", "")
    try:
        body = forms.fill_body(PersonaChange, {"skill": typed})
        share_persona(fleet.database, fleet.root, slug)
        now, _ = _read_skill(fleet, slug)
        if form.get("before") != _hash_text(now) and clean_text(typed).strip() != now:
            raise NotPossible(
                "The skill was changed since this page showed it. Your text is below, the current one "
                "next to it. Save again to replace it with yours."
            )
        personas.edit_persona(fleet.database, fleet.root, slug, body)
        share_persona(fleet.database, fleet.root, slug)
    except TasukiError as error:
        return _render_persona(request, fleet, slug, typed=typed, refused=str(error), section="skill", status=error_answers.get_status(error))  # fmt: skip
    fleet.changes.notify()
    return templates.redirect(request, f"/personas/{slug}#skill")


@take_form("/personas/{slug:str}/lessons")
def decide_lesson(
    request: AnyRequest, fleet: TheFleet, slug: PathWord, form: FormFields
) -> PageResponse:
    """Accept or drop one lesson that an agent proposed, or all of them."""
    id = form.get("id", "").strip()
    try:
        body = forms.fill_body(
            LessonOrder, {"order": form.get("order", ""), "ids": [id] if id else []}
        )
        share_persona(fleet.database, fleet.root, slug)
        decided = decide_lessons(fleet.database, fleet.root, slug, body.order, body.ids)
        share_persona(fleet.database, fleet.root, slug)
    except TasukiError as error:
        return _render_persona(request, fleet, slug, refused=str(error), section="lessons", status=error_answers.get_status(error))  # fmt: skip
    fleet.changes.notify()
    offer = _offer_dropped(slug, decided) if body.order == "drop" and decided else None
    return templates.redirect(request, f"/personas/{slug}#lessons", offer)


def _offer_dropped(slug: str, dropped: Sequence[PersonaLesson]) -> UndoOffer:
    word = "A lesson was" if len(dropped) == 1 else f"{len(dropped)} lessons were"
    return UndoOffer(
        f"{word} dropped.",
        lambda fleet: reopen_lessons(fleet.database, slug, dropped),
        "What was dropped waits for your decision again.",
    )


@show_page("/personas/{slug:str}/retire")
def show_retire_form(request: AnyRequest, fleet: TheFleet, slug: PathWord) -> PageResponse:
    """Ask whether to retire a persona."""
    persona = queries.load_persona(fleet.database, slug)
    return templates.render_page(request, "retire_form.html", of=persona, refused="")


@take_form("/personas/{slug:str}/retire")
def retire_persona(request: AnyRequest, fleet: TheFleet, slug: PathWord) -> PageResponse:
    """Retire it: no more agents of it start."""
    persona = queries.load_persona(fleet.database, slug)
    try:
        personas.retire_persona(fleet.database, slug)
    except TasukiError as error:
        return templates.render_page(
            request,
            "retire_form.html",
            error_answers.get_status(error),
            of=persona,
            refused=str(error),
        )
    fleet.changes.notify()
    return templates.redirect(request, f"/personas/{slug}")


# -- documents -------------------------------------------------------------------------


@show_page("/personas/{slug:str}/documents/{name:str}")
def show_document(
    request: AnyRequest, fleet: TheFleet, slug: PathWord, name: PathWord
) -> PageResponse:
    """Show one of its documents, rendered."""
    queries.load_persona(fleet.database, slug)
    document_file = persona_files.find_document(fleet.root, slug, name)
    ends = queries.list_handoffs(fleet.database, persona=slug)
    return templates.render_page(
        request, "persona_document.html", slug=slug, found=document_file, text=display.read_document(document_file.path),
        handoff=next((handoff.id for handoff in ends if handoff.file_path == document_file.path), ""),
    )  # fmt: skip


@show_page("/personas/{slug:str}/documents/{name:str}/raw")
def show_raw_document(
    fleet: TheFleet, slug: PathWord, name: PathWord, download: FromQuery[bool] = False
) -> Response[bytes]:
    """Show one of its documents unchanged, but without secrets."""
    queries.load_persona(fleet.database, slug)
    document_file = persona_files.find_document(fleet.root, slug, name)
    text = display.read_document(document_file.path) or ""
    return templates.build_text_response(
        text, _clean_file_name(document_file.name), download=download
    )


def _clean_file_name(name: str) -> str:
    """Clean a name for a header."""
    return "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "_" for c in name)


HANDLERS: tuple[Any, ...] = (
    show_personas, add_persona, show_persona, edit_persona, edit_skill, decide_lesson, show_retire_form, retire_persona, show_document, show_raw_document,
)  # fmt: skip
