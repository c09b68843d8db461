"""`/api/personas/{slug}/queue`: the goals that wait for the agent of a persona."""

from litestar import Router, delete, get, patch, post
from litestar.handlers import HTTPRouteHandler
from litestar.params import JSONBody
from msgspec import UNSET

from tasuki.errors import UsageError
from tasuki.fleet.agents import goal_queue
from tasuki.fleet.agents.goal_queue import GoalQueue, redact_queue
from tasuki.fleet.orders.bodies import GoalChange, NewGoal, QueueChange
from tasuki.fleet.service import Fleet
from tasuki.web.handlers import PathId, PathWord, TheFleet
from tasuki.web.security.access import require_operator


@get("/personas/{slug:str}/queue", sync_to_thread=True)
def show_queue(fleet: TheFleet, slug: PathWord) -> GoalQueue:
    """Show the goals that wait for a persona, in order, and the last that were typed."""
    return redact_queue(goal_queue.load_queue(fleet.database, slug))


@post("/personas/{slug:str}/queue", status_code=200, sync_to_thread=True)
def add_goal(fleet: TheFleet, slug: PathWord, data: JSONBody[NewGoal]) -> GoalQueue:
    """Add a goal at the end; it is typed once its agent is idle and those before it were typed."""
    goal_queue.add_goal(fleet.database, slug, data.text)
    return _answer(fleet, slug)


@patch("/personas/{slug:str}/queue", sync_to_thread=True)
def pause_queue(fleet: TheFleet, slug: PathWord, data: JSONBody[QueueChange]) -> GoalQueue:
    """Pause a queue or resume it."""
    goal_queue.pause_queue(fleet.database, slug, paused=data.paused)
    return _answer(fleet, slug)


@patch("/personas/{slug:str}/queue/{id:int}", sync_to_thread=True)
def change_goal(
    fleet: TheFleet, slug: PathWord, id: PathId, data: JSONBody[GoalChange]
) -> GoalQueue:
    """Change a goal: its text while it waits, or its place; or say whether an uncertain one arrived."""
    if (data.text is UNSET) == (data.order is UNSET):
        raise UsageError("Give either `text` or `order`.")
    if data.text is not UNSET:
        goal_queue.edit_goal(fleet.database, slug, id, data.text)
    if data.order is not UNSET:
        goal_queue.order_goal(fleet.database, slug, id, data.order)
    return _answer(fleet, slug)


@delete("/personas/{slug:str}/queue/{id:int}", status_code=200, sync_to_thread=True)
def remove_goal(fleet: TheFleet, slug: PathWord, id: PathId) -> GoalQueue:
    """Remove a goal that waits or is uncertain."""
    goal_queue.remove_goal(fleet.database, slug, id)
    return _answer(fleet, slug)


def _answer(fleet: Fleet, slug: str) -> GoalQueue:
    fleet.changes.notify()
    return redact_queue(goal_queue.load_queue(fleet.database, slug))


HANDLERS: list[HTTPRouteHandler] = [show_queue, add_goal, pause_queue, change_goal, remove_goal]
ROUTERS = [Router("/api", route_handlers=HANDLERS, guards=[require_operator], tags=["personas"])]
