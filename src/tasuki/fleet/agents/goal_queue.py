"""Goals that wait for a persona: the operator lists them, its idle agent gets the first one.

waiting ──claimed──▶ typing ──its turn began──▶ typed
                        ├──nothing was typed──▶ waiting
                        └──not known──▶ uncertain, and the queue stops
"""

import time
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from msgspec import Struct
from msgspec.structs import asdict, replace

from tasuki.draft.redact.redactor import Redactor, redact
from tasuki.errors import NoLongerPossible, NotPossible
from tasuki.fleet.delivery.messages import MOST_CHARACTERS
from tasuki.fleet.orders.bodies import GoalOrder
from tasuki.fleet.store import log, queries, tables
from tasuki.fleet.store.database import FleetDatabase, update_row
from tasuki.fleet.store.models import Persona, QueuedGoal
from tasuki.text_safety import clean_text

MOST_WAITING = 200
"""Goals that may wait for one persona."""
MOST_TYPED = 20
"""Goals that are listed after they were typed."""
_GOALS = tables.queued_goals
_COLUMNS = [_GOALS.c[name] for name in QueuedGoal.__struct_fields__]


class GoalQueue(Struct, frozen=True):
    """The queue of a persona. `typed` are the newest first, without secrets like the others."""

    persona: str
    paused: bool
    stopped: str
    """Why nothing more is typed, as a sentence; empty while it goes on."""
    goals: tuple[QueuedGoal, ...]
    """Those that wait, in order; before them one that is being typed, or is uncertain."""
    typed: tuple[QueuedGoal, ...] = ()


class RemovedGoal(Struct, frozen=True):
    """A goal that was removed while it waited, and the ids of those that were before it."""

    goal: QueuedGoal
    before: tuple[int, ...]


def load_queue(database: FleetDatabase, slug: str) -> GoalQueue:
    """Load the queue of a persona. Raises PersonaNotFound."""
    with database.read() as connection:
        persona = queries.load_persona(connection, slug)
        is_own = _GOALS.c.persona == slug
        ahead = sa.select(_GOALS).where(is_own, _GOALS.c.state != "typed")
        ahead = ahead.order_by(_GOALS.c.place, _GOALS.c.id)
        done = sa.select(_GOALS).where(is_own, _GOALS.c.state == "typed")
        done = done.order_by(_GOALS.c.typed_at.desc()).limit(MOST_TYPED)
        goals, typed = (queries.load_rows(QueuedGoal, connection, one) for one in (ahead, done))
    return GoalQueue(slug, persona.queue_paused, persona.queue_stopped, tuple(goals), tuple(typed))


def add_goal(database: FleetDatabase, slug: str, text: str) -> QueuedGoal:
    """Add a goal at the end. Raises PersonaNotFound, NotPossible."""
    text = _check_text(text)
    with database.write(alone=True) as connection:
        persona = queries.load_persona(connection, slug)
        places = _check_room(connection, persona)
        values = {
            "persona": slug, "place": max(places, default=0) + 1, "text": text, "state": "waiting",
            "created_at": time.time(),
        }  # fmt: skip
        query = sa.insert(_GOALS).values(**values).returning(*_COLUMNS)
        goal = QueuedGoal(*connection.execute(query).one())
        shown = Redactor().redact_line(text, 200)
        _note(connection, persona, f"A goal was queued for {slug}: {shown}")
    return goal


def edit_goal(
    database: FleetDatabase, slug: str, goal_id: int, text: str
) -> tuple[QueuedGoal, QueuedGoal]:
    """Change a waiting goal; return it as it is, and was. Raises PersonaNotFound, NotPossible."""
    text = _check_text(text)
    with database.write(alone=True) as connection:
        persona, goal = _load_goal(connection, slug, goal_id)
        _check_waiting(goal)
        update_row(connection, _GOALS, goal_id, text=text)
        _note(connection, persona, f"Queued goal {goal_id} of {slug} was changed.")
        return _load_goal(connection, slug, goal_id)[1], goal


def restore_text(database: FleetDatabase, slug: str, goal_id: int, text: str, changed: str) -> None:
    """Give a goal its text back that was changed. Raises NoLongerPossible where it changed again since."""
    with database.write(alone=True) as connection:
        persona, goal = _load_goal(connection, slug, goal_id)
        _check_waiting(goal)
        if goal.text != changed:
            raise NoLongerPossible(f"Goal {goal_id} was changed again since: it stays as it is.")
        update_row(connection, _GOALS, goal_id, text=text)
        _note(connection, persona, f"Queued goal {goal_id} of {slug} reads as before.")


def remove_goal(database: FleetDatabase, slug: str, goal_id: int) -> RemovedGoal | None:
    """Remove a goal; return it where it can be restored. Raises PersonaNotFound, NotPossible."""
    with database.write(alone=True) as connection:
        persona, goal = _load_goal(connection, slug, goal_id)
        if goal.state != "uncertain":
            _check_waiting(goal)
        ids = _list_waiting(connection, slug)
        connection.execute(sa.delete(_GOALS).where(_GOALS.c.id == goal_id))
        _note(connection, persona, f"Queued goal {goal_id} of {slug} was removed.")
        _resume_queue(connection, slug, goal)
    if goal.state == "uncertain":
        return None
    return RemovedGoal(goal, tuple(ids[: ids.index(goal_id)]))


def restore_goal(database: FleetDatabase, removed: RemovedGoal) -> None:
    """Put a goal back that was removed, behind those that were before it; under its id if free.

    Raises PersonaNotFound, NotPossible.
    """
    goal = removed.goal
    values = asdict(goal)
    with database.write(alone=True) as connection:
        persona = queries.load_persona(connection, goal.persona)
        _check_room(connection, persona)
        if connection.execute(sa.select(_GOALS.c.id).where(_GOALS.c.id == goal.id)).first():
            del values["id"]  # SQLite gives the greatest one again
        ids = _list_waiting(connection, goal.persona)
        place = max((n for n, id in enumerate(ids, 1) if id in removed.before), default=0)
        query = sa.insert(_GOALS).values(**values).returning(_GOALS.c.id)
        id = connection.execute(query).scalar_one()
        _number(connection, [*ids[:place], id, *ids[place:]])
        _note(connection, persona, f"Queued goal {id} of {goal.persona} was put back.")


def order_goal(database: FleetDatabase, slug: str, goal_id: int, order: GoalOrder) -> None:
    """Move a goal that waits, or say of an uncertain one that it arrived, or is to be typed again.

    That resumes a stopped queue. Raises PersonaNotFound, NotPossible.
    """
    with database.write(alone=True) as connection:
        persona, goal = _load_goal(connection, slug, goal_id)
        if order in ("arrived", "again"):
            if goal.state != "uncertain":
                raise NotPossible(f"Goal {goal.id} is not uncertain: it is {goal.state}.")
            values: dict[str, Any] = {"state": "typed", "typed_at": goal.typed_at or time.time()}
            if order == "again":  # its next claim has another key
                values = {"state": "waiting", "agent_id": None, "typed_at": None, "key": ""}
            update_row(connection, _GOALS, goal.id, **values)
            _resume_queue(connection, slug, goal)
        else:
            _check_waiting(goal)
            ids = _list_waiting(connection, slug)
            place = ids.index(goal_id)
            targets = {"first": 0, "up": max(place - 1, 0), "down": place + 1, "last": len(ids)}
            ids.remove(goal_id)
            ids.insert(targets[order], goal_id)
            _number(connection, ids)
        _note(connection, persona, f"Queued goal {goal_id} of {slug}: {order}.")


def pause_queue(database: FleetDatabase, slug: str, *, paused: bool) -> None:
    """Pause a queue or resume it. Raises PersonaNotFound, NotPossible while a goal is uncertain."""
    with database.write(alone=True) as connection:
        persona = queries.load_persona(connection, slug)
        values: dict[str, Any] = {"queue_paused": paused}
        if not paused:
            is_uncertain = (_GOALS.c.persona == slug) & (_GOALS.c.state == "uncertain")
            query = sa.select(_GOALS.c.id).where(is_uncertain)
            if (id := connection.execute(query).scalars().first()) is not None:
                raise NotPossible(
                    f"Goal {id} may have been typed or not. Say first whether it arrived, or remove it."
                )
            values["queue_stopped"] = ""
        update_row(connection, tables.personas, slug, **values)
        _note(connection, persona, f"The queue of {slug} was {'paused' if paused else 'resumed'}.")


def redact_queue(queue: GoalQueue) -> GoalQueue:
    """Return a queue without secrets."""

    def clean(goals: Sequence[QueuedGoal]) -> tuple[QueuedGoal, ...]:
        return tuple(replace(goal, text=redact(goal.text)[0]) for goal in goals)

    stopped = redact(queue.stopped)[0]
    return replace(queue, stopped=stopped, goals=clean(queue.goals), typed=clean(queue.typed))


def _check_text(text: str) -> str:
    text = clean_text(text).strip()
    if not text:
        raise NotPossible("There is no goal. Say what the agent should accomplish.")
    if len(text) > MOST_CHARACTERS:
        raise NotPossible(f"A goal of {len(text)} characters is too long to be typed.")
    return text


def _check_waiting(goal: QueuedGoal) -> None:
    if goal.state == "waiting":
        return
    word = "is being typed" if goal.state == "typing" else "was typed"
    raise NotPossible(f"Goal {goal.id} no longer waits: it {word}.")


def _load_goal(connection: sa.Connection, slug: str, goal_id: int) -> tuple[Persona, QueuedGoal]:
    persona = queries.load_persona(connection, slug)
    query = sa.select(*_COLUMNS).where(_GOALS.c.id == goal_id, _GOALS.c.persona == slug)
    row = connection.execute(query).one_or_none() if goal_id <= queries.GREATEST_ID else None
    if row is None:
        raise NotPossible(f"{slug} has no queued goal {goal_id}. It may have been removed.")
    return persona, QueuedGoal(*row)


def _check_room(connection: sa.Connection, persona: Persona) -> list[int]:
    """Return the places of the goals of a persona that takes one more. Raises NotPossible."""
    slug = persona.slug
    if persona.retired_at is not None:
        raise NotPossible(f"Persona {slug} is retired: no agent of it takes goals.")
    query = sa.select(_GOALS.c.place).where(_GOALS.c.persona == slug, _GOALS.c.state != "typed")
    places = list(connection.execute(query).scalars())
    if len(places) >= MOST_WAITING:
        raise NotPossible(f"{len(places)} goals wait for {slug} already. Remove some first.")
    return places


def _list_waiting(connection: sa.Connection, slug: str) -> list[int]:
    """List the ids of the goals that wait, in order."""
    is_waiting = (_GOALS.c.persona == slug) & (_GOALS.c.state == "waiting")
    query = sa.select(_GOALS.c.id).where(is_waiting).order_by(_GOALS.c.place, _GOALS.c.id)
    return list(connection.execute(query).scalars())


def _number(connection: sa.Connection, ids: Sequence[int]) -> None:
    for place, id in enumerate(ids, 1):
        update_row(connection, _GOALS, id, place=place)


def _resume_queue(connection: sa.Connection, slug: str, goal: QueuedGoal) -> None:
    """Resume a queue that stopped at this goal; it did where the goal was uncertain."""
    if goal.state == "uncertain":
        update_row(connection, tables.personas, slug, queue_stopped="")


def _note(connection: sa.Connection, persona: Persona, text: str) -> None:
    """Write into the log; as a line of its agent, whose page shows the queue."""
    agent_id = queries.find_worker(connection, persona.slug)
    log.note(connection, "persona", text, agent_id=agent_id, data={"slug": persona.slug})
