"""Agents that were lost, as by a restart of the machine, and how each can be carried on.

Lost is an agent whose pane or process went without anybody's order. Its work is carried on from its thread,
or where it had not taken over yet, by the handoff that made it.
"""

from pathlib import Path
from typing import TYPE_CHECKING

import sqlalchemy as sa
from msgspec import Struct

from tasuki.errors import AlreadyUnderWay, NotPossible
from tasuki.fleet import reading, tables
from tasuki.fleet.database import Database
from tasuki.fleet.engine import lost_queue_of
from tasuki.fleet.rows import Agent, FleetHandoff
from tasuki.fleet.vacancies import UNFINISHED
from tasuki.harness import file_of
from tasuki.launch.panes import Panes
from tasuki.launch.processes import is_alive
from tasuki.vault.fleet_records import HUNG_UP

if TYPE_CHECKING:
    from tasuki.fleet.service import Fleet


class LostAgent(Struct, frozen=True):
    """An agent that was lost and that nobody succeeded. `retried` is the handoff that carries it on, where one does."""

    agent: Agent
    retried: FleetHandoff | None = None
    refused: str = ""
    """Why it cannot be carried on, as a sentence."""


def recover_lost_agents(fleet: "Fleet", reason: str) -> list[tuple[LostAgent, FleetHandoff | None]]:
    """Carry every lost agent on, a few at once; each with its handoff, None where it was refused."""
    queue, done = lost_queue_of(fleet.host), []
    for lost in find_lost_agents(fleet.database, fleet.panes, fleet.host):
        made: FleetHandoff | None = None
        try:
            if lost.retried:
                made = fleet.retry(lost.retried.id, queue)
            elif not lost.refused:
                made = fleet.hand_off(lost.agent.id, reason=reason, from_thread=True, queue=queue)
        except (NotPossible, AlreadyUnderWay) as error:
            lost = LostAgent(lost.agent, lost.retried, str(error))
        done.append((lost, made))
    return done


def find_lost_agents(database: Database, panes: Panes, host: str) -> list[LostAgent]:
    """The lost agents of a host that are the last of their persona, the oldest first."""
    retired = {persona.slug for persona in reading.personas(database, retired=True)}
    newest: dict[str, Agent] = {}
    for agent in reading.agents(database, host=host):
        if agent.persona and agent.persona not in retired:
            newest.setdefault(agent.persona, agent)
    lost = [agent for agent in newest.values() if is_lost(database, agent)]
    found = [_lost_agent(database, panes, agent) for agent in sorted(lost, key=lambda a: a.id)]
    return [one for one in found if one is not None]


def is_lost(database: Database, agent: Agent) -> bool:
    """Whether an agent went without anybody's order: also one that its harness told the end of.

    Claude Code calls it `other` when its terminal is taken away, as at the end of tmux.
    """
    if agent.state == "lost":
        return True
    return (
        agent.state == "ended" and agent.end_reason == HUNG_UP and not _was_asked(database, agent)
    )


def _was_asked(database: Database, agent: Agent) -> bool:
    """Whether tasuki asked an agent to end."""
    intents = tables.intents.c
    query = sa.select(intents.id).where(intents.agent_id == agent.id, intents.kind == "exit")
    with database.read() as connection:
        return connection.execute(query).first() is not None


def _lost_agent(database: Database, panes: Panes, agent: Agent) -> LostAgent | None:
    """How a lost agent can be carried on; None where that is being done, or was."""
    own = reading.handoffs(database, agent_id=agent.id)
    handoff = next((of for of in own if of.state != "cancelled"), None)
    if handoff and handoff.state not in ("failed", "uncertain"):
        return None
    came_by = reading.handoff_to(database, agent.id)
    if came_by and came_by.state == "running":
        return None
    had_prompt = came_by and came_by.failure and came_by.failure.code == "not_acknowledged"
    if came_by and came_by.state in UNFINISHED and not had_prompt:
        return LostAgent(agent, came_by)
    if handoff and handoff.recorded_at is not None:
        return LostAgent(agent, handoff)
    try:
        check_gone(panes, agent)
    except NotPossible as error:
        return LostAgent(agent, refused=str(error))
    if not agent.thread or not file_of(Path(agent.thread)).exists():
        return LostAgent(
            agent,
            refused=f"Agent {agent.id} has no thread: it took no turn, or its harness deleted it. Start another "
            f"agent of its persona: tasuki agent start --persona {agent.persona}",
        )
    return LostAgent(agent)


def check_gone(panes: Panes, agent: Agent) -> None:
    """Raises NotPossible where the program of an agent that counts as ended is alive: there would be two."""
    if agent.process and is_alive(agent.process, agent.process_began):
        where = f"in pane {agent.pane}" if agent.pane else f"as process {agent.process}"
    else:
        state = panes.status([agent.pane]).panes.get(agent.pane) if agent.pane else None
        is_own = agent.ordered_at is not None and bool(
            agent.pid
        )  # an adopted one's pane is a shell's
        if state is None or state.dead or not is_own or state.pid != agent.pid:
            return
        where = f"in pane {agent.pane}"
    raise NotPossible(
        f"Agent {agent.id} counts as {agent.state}, but its program still runs {where}. End it there first; "
        "then its work is carried on from its thread."
    )
