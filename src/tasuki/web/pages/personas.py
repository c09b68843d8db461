"""The pages of personas: what they are, what they learned, who worked as them; and changes."""

import hashlib
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TypeVar

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
from tasuki.fleet.store.models import FleetAgent, FleetHandoff, Persona
from tasuki.harness import registry as harnesses
from tasuki.text_safety import clean_text
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
from tasuki.web.pages.agent.queue import build_queue
from tasuki.web.pages.fleet import cards
from tasuki.web.views import display, templates
from tasuki.web.views.display import StateBadge, get_harness_title
from tasuki.web.views.templates import PageResponse, format_reason
from tasuki.web.views.undo import UndoOffer

T = TypeVar("T")
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
    all_personas = queries.list_personas(fleet.database, retired=None)
    counts = [
        sum((one.retired_at is not None) == is_old for one in all_personas)
        for is_old in (False, True)
    ]
    listed = [one for one in all_personas if (one.retired_at is not None) == retired]
    values = find_refusal(request).values or {"harness": harnesses.DEFAULT}
    return templates.render_page(
        request, "personas.html", lines=_build_lines(fleet, listed), retired=retired, counts=counts,
        values=values, typed=_escape_for_form(values.get("skill", "")), harnesses=forms.list_startable_harnesses(), threshold=fleet.threshold,
    )  # fmt: skip


def _build_lines(fleet: Fleet, listed: list[Persona]) -> list[PersonaLine]:
    working = {a.persona: a for a in reversed(queries.list_agents(fleet.database, ended=False))}
    last: dict[str, FleetHandoff] = {}
    for handoff in queries.list_handoffs(fleet.database):
        last.setdefault(handoff.persona, handoff)
    shapes = _find_shapes(fleet, working.values())
    lines = []
    for persona in listed:
        agent, end = working.get(persona.slug), last.get(persona.slug)
        state = shapes[agent.id] if agent else None
        last_state = display.get_handoff_shape(end) if end else None
        title = get_harness_title(persona.harness)
        lines.append(PersonaLine(persona, title, agent, state, end, last_state))
    return lines


def _find_shapes(fleet: Fleet, agents: Iterable[FleetAgent]) -> dict[int, StateBadge]:
    """Find the states of agents, by their ids, as their cards have them."""
    return {card.id: card.shown for card in cards.build_cards(fleet, [one.id for one in agents])}


@take_form("/personas", refused=show_personas)
def add_persona(request: AnyRequest, fleet: TheFleet, form: FormFields) -> PageResponse:
    """Add a persona and show its page. A refusal is shown with the form."""
    body = forms.fill_body(NewPersona, {
        **{name: form.get(name, "").strip() for name in ("role", "name", "model", "harness")},
        "skill": form.get("skill", ""), "automatic": bool(form.get("automatic")),
        "threshold": form.get("threshold", "").strip() or None,
        "on_limit": form.get("on_limit", "").strip(),
    })  # fmt: skip
    added = personas.add_persona(fleet.database, fleet.root, body)
    share_persona(fleet.database, fleet.root, added.slug)
    fleet.changes.notify()
    return templates.redirect(request, f"/personas/{added.slug}")


# -- one -------------------------------------------------------------------------------


@show_page("/personas/{slug:str}")
def show_persona(request: AnyRequest, fleet: TheFleet, slug: PathWord) -> PageResponse:
    """Show a persona: its settings, skill, experience, documents and history."""
    persona, refusal = queries.load_persona(fleet.database, slug), find_refusal(request)
    with suppress(TasukiError):  # where that fails, the files of this host are shown
        share_persona(fleet.database, fleet.root, slug)
    skill, missing = _read_skill(fleet, slug)
    folder, unread = _try_read(lambda: personas.get_persona_folder(fleet.root, slug), None)
    experience = display.read_document(str(folder / personas.EXPERIENCE)) if folder else unread
    listed, unlisted = _try_read(
        lambda: persona_files.list_documents(fleet.root, slug), list[persona_files.DocumentFile]()
    )
    agents = queries.list_agents(fleet.database, persona=slug, limit=MOST_HISTORY)
    ends = queries.list_handoffs(fleet.database, persona=slug, limit=MOST_HISTORY)
    working = next((a for a in agents if a.ended_at is None), None)
    shapes = _find_shapes(fleet, agents)
    is_typing = refusal.form == "skill"
    return templates.render_page(
        request, "persona.html", of=persona, harness=get_harness_title(persona.harness), harnesses=forms.list_startable_harnesses(),
        threshold=fleet.threshold, values=refusal.values if refusal.form == "settings" else _build_values(persona), at=refusal.form,
        skill=Redactor().redact(skill), missing=missing, before=_hash_text(skill),
        typed=_escape_for_form(refusal.values.get("skill", "") if is_typing else skill), is_typing=is_typing,
        experience=experience or "", lessons=list_lessons(fleet.database, slug, proposed=True),
        agents=[(display.redact_row(a), shapes[a.id], get_harness_title(a.harness)) for a in agents],
        handoffs=[(display.redact_row(h), display.get_handoff_shape(h)) for h in ends], reason=format_reason,
        documents=listed[:MOST_LISTED], more=max(len(listed) - MOST_LISTED, 0), unlisted=unlisted,
        of_document={h.file_path: h.id for h in ends if h.file_path},
        working=working, live=f"personas agent:{working.id}" if working else "personas", **build_queue(request, fleet, slug, working),
    )  # fmt: skip


def _try_read(read: Callable[[], T], missing: T) -> tuple[T, str]:
    """Read something; where that fails, return what is missing, and why."""
    try:
        return read(), ""
    except TasukiError as error:
        return missing, str(error)


def _read_skill(fleet: Fleet, slug: str) -> tuple[str, str]:
    return _try_read(lambda: personas.read_skill(fleet.root, slug), "")


def _build_values(persona: Persona) -> dict[str, str]:
    return {
        "harness": persona.harness, "model": persona.model, "on_limit": persona.on_limit,
        "threshold": "" if persona.threshold is None else f"{persona.threshold:g}",
        "automatic": "on" if persona.automatic else "",
    }  # fmt: skip


def _escape_for_form(text: str) -> Markup:
    """Escape a text for a form with every character, so that nothing is lost when it is sent back."""
    return Markup("\n") + escape(text)  # a form drops the first line end


def _hash_text(text: str) -> str:
    """Hash a skill, to recognize it as the one that was shown."""
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]


# -- changing one ----------------------------------------------------------------------


@take_form("/personas/{slug:str}", refused=show_persona, form="settings")
def edit_persona(
    request: AnyRequest, fleet: TheFleet, slug: PathWord, form: FormFields
) -> PageResponse:
    """Change its settings. Stopped automatic handoffs resume only where the form says so."""
    old = queries.load_persona(fleet.database, slug)
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
    fleet.changes.notify()
    return templates.redirect(request, f"/personas/{slug}")


@take_form("/personas/{slug:str}/skill", refused=show_persona, form="skill")
def edit_skill(
    request: AnyRequest, fleet: TheFleet, slug: PathWord, form: FormFields
) -> PageResponse:
    """Change its skill, unless it was changed since it was shown."""
    queries.load_persona(fleet.database, slug)
    typed = form.get("skill", "")
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
    fleet.changes.notify()
    return templates.redirect(request, f"/personas/{slug}#skill")


@take_form("/personas/{slug:str}/lessons", refused=show_persona, form="lessons")
def decide_lesson(
    request: AnyRequest, fleet: TheFleet, slug: PathWord, form: FormFields
) -> PageResponse:
    """Accept or drop one lesson that an agent proposed, or all of them."""
    id = form.get("id", "").strip()
    body = forms.fill_body(LessonOrder, {"order": form.get("order", ""), "ids": [id] if id else []})
    share_persona(fleet.database, fleet.root, slug)
    decided = decide_lessons(fleet.database, fleet.root, slug, body.order, body.ids)
    share_persona(fleet.database, fleet.root, slug)
    fleet.changes.notify()
    offer = None
    if body.order == "drop" and decided:
        offer = UndoOffer(
            f"{'A lesson was' if len(decided) == 1 else f'{len(decided)} lessons were'} dropped.",
            lambda fleet: reopen_lessons(fleet.database, slug, decided),
            "What was dropped waits for your decision again.",
        )
    return templates.redirect(request, f"/personas/{slug}#lessons", offer)


@show_page("/personas/{slug:str}/retire")
def show_retire_form(request: AnyRequest, fleet: TheFleet, slug: PathWord) -> PageResponse:
    """Ask whether to retire a persona."""
    persona = queries.load_persona(fleet.database, slug)
    return templates.render_page(request, "retire_form.html", of=persona)


@take_form("/personas/{slug:str}/retire", refused=show_retire_form)
def retire_persona(request: AnyRequest, fleet: TheFleet, slug: PathWord) -> PageResponse:
    """Retire it: no more agents of it start."""
    queries.load_persona(fleet.database, slug)
    personas.retire_persona(fleet.database, slug)
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
        text, re.sub(r"[^A-Za-z0-9._-]", "_", document_file.name), download=download
    )
