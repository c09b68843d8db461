"""Successors that were started from a brief, as agents of the fleet."""

from collections.abc import Iterator, Mapping

import sqlalchemy as sa

from tasuki.errors import NotPossible, TasukiError
from tasuki.fleet.agents import personas
from tasuki.fleet.exchange.shared_files import share_persona
from tasuki.fleet.orders.agents import adopt_agent
from tasuki.fleet.orders.bodies import Adoption, NewPersona
from tasuki.fleet.service import Fleet
from tasuki.fleet.store import queries, tables
from tasuki.fleet.store.models import FleetAgent, Persona
from tasuki.handoffs import PreparedHandoff
from tasuki.launch import LaunchResult

NEW = "new"
"""What the field *Persona* holds for one that is to be added."""


def list_free_personas(fleet: Fleet) -> list[Persona]:
    """List the personas as which nobody works."""
    free = []
    with fleet.database.read() as connection:
        for persona in queries.list_personas(fleet.database):
            try:
                personas.check_available(connection, persona.slug)
            except TasukiError:
                continue
            free.append(persona)
    return free


def list_agents(fleet: Fleet, handoff_id: str) -> list[FleetAgent]:
    """List the agents that were started with a brief, the newest first."""
    with fleet.database.read() as connection:
        is_own = tables.agents.c.brief == handoff_id
        query = sa.select(tables.agents.c.id).where(is_own).order_by(tables.agents.c.id.desc())
        ids = connection.execute(query.limit(20)).scalars().all()
    return [queries.load_agent(fleet.database, id) for id in ids]


def check_persona(fleet: Fleet, form: Mapping[str, str]) -> None:
    """Raise NotPossible, PersonaNotFound or AlreadyUnderWay where the wanted persona cannot be had."""
    slug = form.get("persona", "")
    if slug == NEW:
        for kind in ("role", "name"):
            personas.normalize_word(kind, form.get(kind, ""))
    elif slug:
        with fleet.database.read() as connection:
            personas.check_available(connection, slug)
            if queries.load_persona(connection, slug).retired_at is not None:
                raise NotPossible(f"Persona {slug} is retired. Choose another one.")


def take_into_fleet(
    fleet: Fleet, prepared: PreparedHandoff, launched: LaunchResult, form: Mapping[str, str]
) -> Iterator[str]:
    """Make a started successor an agent of the fleet; yield what went wrong, as sentences.

    It runs already, so nothing that fails here stops it.
    """
    handoff, name = prepared.handoff, prepared.successor.name
    try:
        persona = _add_wanted_persona(fleet, name, form)
        adoption = Adoption(launched.pane, name, persona, _find_session(prepared))
        agent = adopt_agent(fleet, adoption, handoff.id, handoff.goal.text)
    except TasukiError as error:
        yield f"It runs, but is no agent of the fleet: {error}"
        return
    if agent.persona:
        yield f"It works as {agent.persona}; its successors get the skill."


def _add_wanted_persona(fleet: Fleet, harness: str, form: Mapping[str, str]) -> str:
    slug = form.get("persona", "")
    if slug != NEW:
        return slug
    added = personas.add_persona(
        fleet.database, fleet.root, NewPersona(role=form.get("role", ""), name=form.get("name", ""), harness=harness)
    )  # fmt: skip
    share_persona(fleet.database, fleet.root, added.slug)
    return added.slug


def _find_session(prepared: PreparedHandoff) -> str:
    """Find the session that the successor got, among the events of the handoff; empty for none."""
    events = prepared.vault.load_events(prepared.handoff.id)
    started = [event for event in events if event.kind == "started"]
    return str(started[-1].detail.get("successor_thread", "")) if started else ""
