"""`/api/personas` and `/api/lineage`."""

from typing import Any

import msgspec
from litestar import Router, delete, get, patch, post
from litestar.di import NamedDependency
from litestar.params import FromPath, FromQuery, JSONBody
from msgspec import UNSET

from tasuki.fleet.agents import personas
from tasuki.fleet.agents.persona_files import decide_lessons, list_lessons
from tasuki.fleet.service import Fleet
from tasuki.fleet.store import queries
from tasuki.fleet.store.models import Persona, PersonaLesson
from tasuki.web.api.bodies import LessonOrder, NewPersona, PersonaChange
from tasuki.web.security.access import require_operator
from tasuki.web.views import redacted


@get("/personas", sync_to_thread=True)
def list_personas(
    fleet: NamedDependency[Fleet], retired: FromQuery[bool | None] = False
) -> dict[str, list[Persona]]:
    """List every persona by its slug; `retired=true` for those that are retired."""
    return {"personas": queries.list_personas(fleet.database, retired=retired)}


@get("/personas/{slug:str}", sync_to_thread=True)
def show_persona(fleet: NamedDependency[Fleet], slug: FromPath[str]) -> dict[str, Any]:
    """Show a persona, its skill, and the agents that work as it."""
    persona = queries.load_persona(fleet.database, slug)
    working = queries.list_agents(fleet.database, ended=False, persona=slug)
    return {
        **msgspec.to_builtins(persona),
        "skill": personas.read_skill(fleet.root, slug),
        "agents": list(map(redacted.redact_agent, working)),
    }


@post("/personas", status_code=200, sync_to_thread=True)
def add_persona(fleet: NamedDependency[Fleet], data: JSONBody[NewPersona]) -> Persona:
    """Add a persona and its folder."""
    persona = personas.add_persona(
        fleet.database, fleet.root, role=data.role, name=data.name, skill=data.skill,
        harness=data.harness, model=data.model, threshold=data.threshold, automatic=data.automatic,
    )  # fmt: skip
    fleet.changes.notify()
    return persona


@patch("/personas/{slug:str}", sync_to_thread=True)
def edit_persona(
    fleet: NamedDependency[Fleet], slug: FromPath[str], data: JSONBody[PersonaChange]
) -> Persona:
    """Change the given settings of a persona."""
    changes = {
        name: value
        for name in data.__struct_fields__
        if (value := getattr(data, name)) is not UNSET
    }
    changed = personas.edit_persona(fleet.database, fleet.root, slug, **changes)
    fleet.changes.notify()
    return changed


@delete("/personas/{slug:str}", status_code=200, sync_to_thread=True)
def retire_persona(fleet: NamedDependency[Fleet], slug: FromPath[str]) -> Persona:
    """Start no more agents of a persona; its folder and its history stay."""
    retired = personas.retire_persona(fleet.database, slug)
    fleet.changes.notify()
    return retired


@get("/personas/{slug:str}/lessons", sync_to_thread=True)
def list_persona_lessons(
    fleet: NamedDependency[Fleet], slug: FromPath[str]
) -> dict[str, list[PersonaLesson]]:
    """List what agents of a persona proposed that later ones should know, oldest first."""
    return {"lessons": list_lessons(fleet.database, slug)}


@post("/personas/{slug:str}/lessons", status_code=200, sync_to_thread=True)
def decide_persona_lessons(
    fleet: NamedDependency[Fleet], slug: FromPath[str], data: JSONBody[LessonOrder]
) -> dict[str, list[PersonaLesson]]:
    """Accept proposed lessons, which adds them to `experience.md`, or drop them."""
    decided = decide_lessons(fleet.database, fleet.root, slug, data.order, data.ids)
    fleet.changes.notify()
    return {"lessons": decided}


@get("/lineage/{slug:str}", sync_to_thread=True)
def show_lineage(fleet: NamedDependency[Fleet], slug: FromPath[str]) -> dict[str, Any]:
    """Show the chains of a persona's agents, with the handoffs between them; oldest first."""
    return {"chains": list(map(redacted.redact_chain, queries.build_lineage(fleet.database, slug)))}


router = Router(
    "/api",
    route_handlers=[
        list_personas, show_persona, add_persona, edit_persona, retire_persona, show_lineage,
        list_persona_lessons, decide_persona_lessons,
    ],
    guards=[require_operator],
    tags=["personas"],
)  # fmt: skip
