"""`/api/personas` and `/api/lineage`."""

from typing import Any

import msgspec
from litestar import Router, delete, get, patch, post
from litestar.di import NamedDependency
from litestar.params import FromPath, FromQuery, JSONBody
from msgspec import UNSET

from tasuki.fleet import personas, reading
from tasuki.fleet.lessons import decide_lessons, list_lessons
from tasuki.fleet.rows import Lesson, Persona
from tasuki.fleet.service import Fleet
from tasuki.web import views
from tasuki.web.auth import operator_only
from tasuki.web.bodies import LessonOrder, NewPersona, PersonaChange


@get("/personas", sync_to_thread=True)
def list_personas(
    fleet: NamedDependency[Fleet], retired: FromQuery[bool | None] = False
) -> dict[str, list[Persona]]:
    """Every persona by its slug; `retired=true` for those that are."""
    return {"personas": reading.personas(fleet.database, retired=retired)}


@get("/personas/{slug:str}", sync_to_thread=True)
def show_persona(fleet: NamedDependency[Fleet], slug: FromPath[str]) -> dict[str, Any]:
    """A persona, its skill, and the agents that work as it."""
    found = reading.persona(fleet.database, slug)
    working = reading.agents(fleet.database, ended=False, persona=slug)
    return {
        **msgspec.to_builtins(found),
        "skill": personas.skill_text(fleet.root, slug),
        "agents": list(map(views.agent, working)),
    }


@post("/personas", status_code=200, sync_to_thread=True)
def add_persona(fleet: NamedDependency[Fleet], data: JSONBody[NewPersona]) -> Persona:
    """Make a persona and its folder."""
    made = personas.add(
        fleet.database, fleet.root, role=data.role, name=data.name, skill=data.skill,
        harness=data.harness, model=data.model, threshold=data.threshold, automatic=data.automatic,
    )  # fmt: skip
    fleet.changes.happened()
    return made


@patch("/personas/{slug:str}", sync_to_thread=True)
def edit_persona(
    fleet: NamedDependency[Fleet], slug: FromPath[str], data: JSONBody[PersonaChange]
) -> Persona:
    """Change what is given of a persona."""
    given = {
        name: value
        for name in data.__struct_fields__
        if (value := getattr(data, name)) is not UNSET
    }
    changed = personas.edit(fleet.database, fleet.root, slug, **given)
    fleet.changes.happened()
    return changed


@delete("/personas/{slug:str}", status_code=200, sync_to_thread=True)
def retire_persona(fleet: NamedDependency[Fleet], slug: FromPath[str]) -> Persona:
    """Start no more agents of a persona; its folder and its history stay."""
    retired = personas.retire(fleet.database, slug)
    fleet.changes.happened()
    return retired


@get("/personas/{slug:str}/lessons", sync_to_thread=True)
def list_persona_lessons(
    fleet: NamedDependency[Fleet], slug: FromPath[str]
) -> dict[str, list[Lesson]]:
    """What agents of a persona proposed that later ones should know, the oldest first."""
    return {"lessons": list_lessons(fleet.database, slug)}


@post("/personas/{slug:str}/lessons", status_code=200, sync_to_thread=True)
def decide_persona_lessons(
    fleet: NamedDependency[Fleet], slug: FromPath[str], data: JSONBody[LessonOrder]
) -> dict[str, list[Lesson]]:
    """Accept proposed lessons, which adds them to `experience.md`, or drop them."""
    decided = decide_lessons(fleet.database, fleet.root, slug, data.order, data.ids)
    fleet.changes.happened()
    return {"lessons": decided}


@get("/lineage/{slug:str}", sync_to_thread=True)
def lineage(fleet: NamedDependency[Fleet], slug: FromPath[str]) -> dict[str, Any]:
    """The chains of a persona's agents, with the handoffs between them; the oldest first."""
    return {"chains": list(map(views.chain, reading.lineage(fleet.database, slug)))}


router = Router(
    "/api",
    route_handlers=[
        list_personas, show_persona, add_persona, edit_persona, retire_persona, lineage,
        list_persona_lessons, decide_persona_lessons,
    ],
    guards=[operator_only],
    tags=["personas"],
)  # fmt: skip
