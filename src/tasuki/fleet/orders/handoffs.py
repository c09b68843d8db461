"""Orders for handoffs: begin, move, fork, retry, cancel, finish."""

import uuid
from contextlib import suppress
from typing import Any, Literal

from msgspec.structs import replace

from tasuki.errors import AlreadyUnderWay, HandoffNotFound, NotPossible
from tasuki.fleet.agents import limits
from tasuki.fleet.agents.agent_ends import LostAgent, check_gone, find_lost_agents
from tasuki.fleet.agents.lifecycle import check_hooks
from tasuki.fleet.exchange.host_list import describe_gone, find_host, load_host
from tasuki.fleet.exchange.shared_files import delete_parcels, share_persona
from tasuki.fleet.handoff import commands, moves
from tasuki.fleet.handoff.engine import build_lost_queue_name, build_queue_name
from tasuki.fleet.handoff.forks import begin_fork, check_fork
from tasuki.fleet.handoff.moves import MovePreview, TargetAnswer, TargetQuestion
from tasuki.fleet.handoff.runner import record_event
from tasuki.fleet.handoff.workflow import MOVE_ARRIVAL
from tasuki.fleet.orders.agents import find_agent_host
from tasuki.fleet.orders.bodies import AgentRights, NewFork, NewHandoff
from tasuki.fleet.orders.order import order
from tasuki.fleet.parts import FleetParts
from tasuki.fleet.store import queries
from tasuki.fleet.store.models import FleetHandoff

CHECK_SECONDS = 15.0
"""How long another host may take to say what it has for an agent."""
PREVIEW_SECONDS = 30.0
"""How long another host may take to say what a move would do: it asks a third one."""
HandoffOrder = Literal["retry", "cancel", "finish", "skip"]
_SETTLERS = {
    "cancel": (commands.cancel_handoff, "cancelled"), "finish": (commands.finish_handoff, "done"),
    "skip": (commands.skip_acknowledgement, "done"),
}  # fmt: skip
"""What carries an order out, and the state that it leaves."""


def find_carrier(fleet: FleetParts, id: int, data: NewHandoff, **_: Any) -> str:
    """Find the host that begins a handoff: the agent's; the new one where that is gone.

    Raises AgentNotFound, HostNotFound, UsageError.
    """
    data.check()
    host = queries.load_agent(fleet.database, id).host
    if not data.to_host or host == fleet.host:
        return host
    if load_host(fleet.database, host).state not in ("given up", "retired"):
        return host
    return find_host(fleet.database, data.to_host).id


@order("hand_off", find_carrier)
def hand_off(
    fleet: FleetParts,
    id: int,
    data: NewHandoff,
    queue: str = "",
    order_id: str = "",
    *,
    automatic: bool = False,
) -> FleetHandoff:
    """Begin to hand an agent off, also to another host; return at once.

    Raises AgentNotFound, NotPossible, AlreadyUnderWay, HostNotFound, HostAway.
    """
    new_id = _choose_id(order_id)
    if known := _find_handoff(fleet, order_id, new_id):
        return known
    agent = queries.load_agent(fleet.database, id)
    if not limits.can_answer(agent):
        data = replace(data, source="thread")
    move: MovePreview | None = None
    if data.to_host:
        move = preview_move(fleet, id, data)
        move.check()
        signed = fleet.gate.sign(move.host, new_id, "move", {"agent_id": id})["signed"]
        move = replace(move, plan=replace(move.plan, signed=signed))
        if move.plan.kind == "rescue":
            data = replace(data, source="thread")
    elif data.to:
        limits.check_target(fleet.data, data.to)
    if data.from_thread and agent.ended_at is not None and agent.host == fleet.host:
        check_gone(fleet.panes, agent)
    handoff = commands.begin_handoff(
        fleet.database, id, data, host=fleet.host, queue=queue or build_queue_name(fleet.host),
        new_id=new_id, move=move, automatic=automatic,
    )  # fmt: skip
    fleet.pass_to_engine(handoff)
    return handoff


def _choose_id(order_id: str) -> str:
    """Choose the id of a handoff: that of the order, so that it begins once also after a crash."""
    return order_id.rpartition("-")[2] or uuid.uuid4().hex


def _find_handoff(fleet: FleetParts, order_id: str, new_id: str) -> FleetHandoff | None:
    """Find the handoff that an order began before a crash."""
    with suppress(HandoffNotFound):
        return queries.load_handoff(fleet.database, new_id) if order_id else None
    return None


@order("look", find_carrier, seconds=PREVIEW_SECONDS)
def preview_move(fleet: FleetParts, id: int, data: NewHandoff) -> MovePreview:
    """Say what a move of an agent to another host would do, and what stands in its way.

    Raises AgentNotFound, HostNotFound, HostAway.
    """
    agent = queries.load_agent(fleet.database, id)
    if agent.host != fleet.host:
        return moves.plan_rescue(fleet.database, fleet.data, agent, data)

    def ask(host: str, question: TargetQuestion) -> TargetAnswer:
        return check_move(fleet, host, question, AgentRights(agent.permission, agent.arguments))

    return moves.plan_move(fleet.database, agent, data, ask)


@order("move", lambda _, host, **__: host, seconds=CHECK_SECONDS)
def check_move(
    fleet: FleetParts, host: str, question: TargetQuestion, data: AgentRights
) -> TargetAnswer:
    """Check what a host has for an agent that would come there."""
    return moves.check_target(fleet.database, fleet.data, question)


@order("hand_off", find_agent_host, at="/agents/{id:int}/fork")
def fork_agent(fleet: FleetParts, id: int, data: NewFork, order_id: str = "") -> FleetHandoff:
    """Start a second agent from an agent's thread; the first goes on undisturbed.

    Returns at once. Raises AgentNotFound, NotPossible, PersonaNotFound, AlreadyUnderWay,
    StoreFailed, HostAway.
    """
    new_id = _choose_id(order_id)
    if known := _find_handoff(fleet, order_id, new_id):
        return known
    agent = queries.load_agent(fleet.database, id)
    for slug in filter(None, {data.persona, agent.persona}):
        share_persona(fleet.database, fleet.root, slug)
    check_hooks(fleet.data, check_fork(fleet.database, agent, data))
    handoff = begin_fork(
        fleet.database, fleet.root, agent, data, host=fleet.host,
        queue=build_queue_name(fleet.host), new_id=new_id,
    )  # fmt: skip
    share_persona(fleet.database, fleet.root, handoff.persona)
    fleet.pass_to_engine(handoff)
    return handoff


def recover_lost_agents(
    fleet: FleetParts, reason: str
) -> list[tuple[LostAgent, FleetHandoff | None]]:
    """Recover this host's lost agents, a few at once; each with its handoff, None if refused."""
    queue, recovered = build_lost_queue_name(fleet.host), []
    for lost in find_lost_agents(fleet.database, fleet.panes, fleet.host):
        handoff: FleetHandoff | None = None
        try:
            if lost.retried:
                handoff = order_handoff(fleet, lost.retried.id, "retry", queue)
            elif not lost.refused:
                handoff = hand_off(fleet, lost.agent.id, NewHandoff(reason, source="thread"), queue)
        except (NotPossible, AlreadyUnderWay) as error:
            lost = LostAgent(lost.agent, lost.retried, str(error))
        recovered.append((lost, handoff))
    return recovered


def order_handoff(
    fleet: FleetParts, id: str, wanted: HandoffOrder, queue: str = ""
) -> FleetHandoff:
    """Carry out an operator's order for a handoff, as `commands` describes it.

    Any host can cancel, also while the handoff's own is away. Raises HandoffNotFound,
    NotPossible, HostAway.
    """
    handoff = queries.load_handoff(fleet.database, id)
    ordered = settle_handoff(fleet, handoff.id, wanted, handoff.attempt, queue)
    if wanted == "cancel":
        _undo_cancelled(fleet, ordered)
    return ordered


def _find_settler(fleet: FleetParts, id: str, wanted: HandoffOrder, *_: Any, **__: Any) -> str:
    handoff = queries.load_handoff(fleet.database, id)
    is_here = wanted == "cancel" or bool(describe_gone(fleet.database, handoff.host))
    return fleet.host if is_here else handoff.host


@order("hand_off", _find_settler)
def settle_handoff(
    fleet: FleetParts,
    id: str,
    wanted: HandoffOrder,
    attempt: int,
    queue: str = "",
    order_id: str = "",
) -> FleetHandoff:
    """Carry out an order for a handoff that was at an attempt; after a crash it is not done twice."""
    handoff = queries.load_handoff(fleet.database, id)
    if wanted == "retry":
        if order_id and handoff.attempt > attempt:
            return handoff  # by this order, before a crash
        handoff = commands.retry_handoff(fleet.database, id, queue)
        fleet.pass_to_engine(handoff)
        return handoff
    settle, state = _SETTLERS[wanted]
    if order_id and handoff.state == state:
        return handoff  # by this order, before a crash
    handoff = settle(fleet.database, id)
    if handoff.state == "done":
        record_event(handoff, "delivered", by="the operator")
    if handoff.move:
        delete_parcels(fleet.database, id)
    fleet.changes.notify(filter(None, (handoff.agent_id, handoff.successor_id)))
    return handoff


def _undo_cancelled(fleet: FleetParts, handoff: FleetHandoff) -> None:
    """Let the target of a cancelled move undo what it has made, now or once it is back."""
    is_move = handoff.move is not None and handoff.move.kind == "move"
    if not is_move or handoff.step not in (*MOVE_ARRIVAL, "shut_down"):
        return
    if queries.load_agent(fleet.database, handoff.agent_id).ended_at is None:
        key = f"undo-{handoff.id}-{handoff.attempt}"
        fleet.orders.leave(handoff.target_host, undo_move.name, {"id": handoff.id}, key)


def _find_target(fleet: FleetParts, id: str) -> str:
    return queries.load_handoff(fleet.database, id).target_host


@order("move", _find_target)
def undo_move(fleet: FleetParts, id: str) -> str:
    """Undo what a cancelled move has made on this host; return what, as a sentence."""
    undone = fleet.step_runner.undo_move(id)
    handoff = queries.load_handoff(fleet.database, id)
    fleet.note(
        "handoff", f"Handoff {id[:8]} was cancelled. Undone on this host: {undone}",
        agent_id=handoff.agent_id, handoff_id=id,
    )  # fmt: skip
    return undone
