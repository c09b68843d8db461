"""Agents that were lost, as by a restart of the machine, and how each can be recovered.

An agent is lost if its pane or process vanished without an order. Its work continues from
its thread; or, where it had not taken over yet, with the handoff that created it.
"""

from pathlib import Path

import sqlalchemy as sa
from msgspec import Struct

from tasuki.errors import NotPossible
from tasuki.fleet.agents.personas import UNFINISHED
from tasuki.fleet.store import queries, tables
from tasuki.fleet.store.database import FleetDatabase
from tasuki.fleet.store.models import FleetAgent, FleetHandoff
from tasuki.harness.registry import get_containing_file
from tasuki.launch.processes import is_alive
from tasuki.launch.tmux.panes import TmuxPanes
from tasuki.vault.fleet_records import HUNG_UP


class LostAgent(Struct, frozen=True):
    """A lost agent without a successor. `retried` is the handoff that continues it, if any does."""

    agent: FleetAgent
    retried: FleetHandoff | None = None
    refused: str = ""
    """Why it cannot be recovered, as a sentence."""


def find_lost_agents(database: FleetDatabase, panes: TmuxPanes, host: str) -> list[LostAgent]:
    """Find the lost agents of a host that are the last of their persona, oldest first."""
    retired = {persona.slug for persona in queries.list_personas(database, retired=True)}
    newest: dict[str, FleetAgent] = {}
    for agent in queries.list_agents(database, host=host):
        if agent.persona and agent.persona not in retired:
            newest.setdefault(agent.persona, agent)
    lost = [agent for agent in newest.values() if is_lost(database, agent)]
    classified = [
        _classify_agent(database, panes, agent) for agent in sorted(lost, key=lambda a: a.id)
    ]
    return [one for one in classified if one is not None]


def is_lost(database: FleetDatabase, agent: FleetAgent) -> bool:
    """Whether an agent vanished without an order; also if its harness reported the end.

    Claude Code calls it `other` when its terminal is taken away, as at the end of tmux.
    """
    if agent.state == "lost":
        return True
    return (
        agent.state == "ended"
        and agent.end_reason == HUNG_UP
        and not _was_asked_to_end(database, agent)
    )


def _was_asked_to_end(database: FleetDatabase, agent: FleetAgent) -> bool:
    """Whether tasuki asked an agent to end."""
    intents = tables.intents.c
    query = sa.select(intents.id).where(intents.agent_id == agent.id, intents.kind == "exit")
    with database.read() as connection:
        return connection.execute(query).first() is not None


def _classify_agent(
    database: FleetDatabase, panes: TmuxPanes, agent: FleetAgent
) -> LostAgent | None:
    """Decide how a lost agent can be recovered; None where that is under way, or done."""
    own = queries.list_handoffs(database, agent_id=agent.id)
    handoff = next((candidate for candidate in own if candidate.state != "cancelled"), None)
    if handoff and handoff.state not in ("failed", "uncertain"):
        return None
    incoming = queries.find_incoming_handoff(database, agent.id)
    if incoming and incoming.state == "running":
        return None
    had_prompt = incoming and incoming.failure and incoming.failure.code == "not_acknowledged"
    if incoming and incoming.state in UNFINISHED and not had_prompt:
        return LostAgent(agent, incoming)
    if handoff and handoff.recorded_at is not None:
        return LostAgent(agent, handoff)
    try:
        check_gone(panes, agent)
    except NotPossible as error:
        return LostAgent(agent, refused=str(error))
    if not agent.thread or not get_containing_file(Path(agent.thread)).exists():
        return LostAgent(
            agent,
            refused=f"Agent {agent.id} has no thread: it took no turn, or its harness deleted it. Start another "
            f"agent of its persona: tasuki agent start --persona {agent.persona}",
        )
    return LostAgent(agent)


def check_gone(panes: TmuxPanes, agent: FleetAgent) -> None:
    """Raise NotPossible where the program of an ended agent is alive: there would be two."""
    if agent.process and is_alive(agent.process, agent.process_began):
        where = f"in pane {agent.pane}" if agent.pane else f"as process {agent.process}"
    else:
        state = panes.read_status([agent.pane]).panes.get(agent.pane) if agent.pane else None
        is_own = agent.ordered_at is not None and bool(
            agent.pid
        )  # the pane of an adopted agent belongs to a shell
        if state is None or state.dead or not is_own or state.pid != agent.pid:
            return
        where = f"in pane {agent.pane}"
    raise NotPossible(
        f"Agent {agent.id} counts as {agent.state}, but its program still runs {where}. End it there first; "
        "then its work is carried on from its thread."
    )
