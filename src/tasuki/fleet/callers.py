"""Which agent a program is a part of that asks tasuki for something."""

from collections.abc import Sequence

from tasuki.fleet import reading
from tasuki.fleet.correlator import digest
from tasuki.fleet.database import Database
from tasuki.fleet.rows import Agent
from tasuki.launch.processes import is_alive


def find_caller(
    database: Database, host: str, token: str, sessions: Sequence[str], processes: Sequence[int]
) -> Agent | None:
    """The running agent of a host whose token, session or process a caller has; None for none.

    Anonymous agents are nobody's. A caller of another session is inside the agent, and not its part.
    """
    running = reading.agents(database, ended=False, host=host)
    own = [agent for agent in running if agent.ordered_at is not None or agent.adopted]
    found = (
        _by_token(database, token, own) or _by_session(sessions, own) or _by_process(processes, own)
    )
    if found and found.session and sessions and _by_session(sessions, [found]) is None:
        return None
    return found


def _by_token(database: Database, token: str, own: Sequence[Agent]) -> Agent | None:
    id = reading.agent_of_token(database, digest(token)) if token else None
    return next((agent for agent in own if agent.id == id), None)


def _by_session(sessions: Sequence[str], own: Sequence[Agent]) -> Agent | None:
    named = {name for name in sessions if name}
    return next((a for a in own if named & ({a.session, a.thread} - {""})), None)


def _by_process(processes: Sequence[int], own: Sequence[Agent]) -> Agent | None:
    """The agent whose program is the nearest above the caller."""
    by_process = {agent.process: agent for agent in own if agent.process}
    for pid in processes:
        agent = by_process.get(pid)
        if agent and agent.process and is_alive(agent.process, agent.process_began):
            return agent
    return None
