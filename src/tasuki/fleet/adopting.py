"""Takes on an agent that is running in a pane already."""

import re
import time
from typing import Any

import sqlalchemy as sa

from tasuki import harness as harnesses
from tasuki.errors import AlreadyUnderWay, NotPossible
from tasuki.fleet import log, reading, tables
from tasuki.fleet.database import Database
from tasuki.fleet.rows import Agent
from tasuki.launch.panes import Panes
from tasuki.launch.processes import working_folder

_PANE = re.compile(r"%\d{1,9}")


def adopt(
    database: Database,
    panes: Panes,
    host: str,
    *,
    pane: str,
    harness: str,
    persona: str,
    session: str,
) -> Agent:
    """The row of an agent in a pane. Its next event tells its session, where `session` does not.

    An anonymous agent that is known in this pane becomes this one. Raises NotPossible,
    AlreadyUnderWay, PersonaNotFound.
    """
    if not _PANE.fullmatch(pane):
        raise NotPossible(
            f"{pane!r} is no pane of tmux. In it: tmux display-message -p '#{{pane_id}}'"
        )
    if harnesses.control(harnesses.get(harness)) is None:
        raise NotPossible(f"Agents of {harness} cannot be run by tasuki.")
    if persona and (busy := reading.agents(database, ended=False, persona=persona)):
        raise AlreadyUnderWay(f"Agent {busy[0].id} works as {persona} already.")
    state = panes.status([pane]).panes.get(pane)
    if state is None or state.dead:
        raise NotPossible(
            f"There is no pane {pane} with a running program. List them: tmux list-panes -a"
        )
    with database.write() as connection:
        if persona:
            reading.persona_in(connection, persona)
        id = _known(connection, pane, harness, session)
        values: dict[str, Any] = {
            "persona": persona or None, "pane": pane, "window": state.window, "pid": state.pid,
            "adopted": True,
        }  # fmt: skip
        if id is None:
            now = time.time()
            made = {"harness": harness, "state": "idle", "state_at": now, "cwd": working_folder(state.pid),
                    "host": host, "started_at": now, "registered_at": now, "session": session}  # fmt: skip
            query = sa.insert(tables.agents).values(**made, **values).returning(tables.agents.c.id)
            id = int(connection.execute(query).scalar_one())
        else:
            connection.execute(
                sa.update(tables.agents).where(tables.agents.c.id == id).values(**values)
            )
        log.note(connection, "agent", f"Agent {id} in pane {pane} was adopted.", agent_id=id)
    return reading.agent(database, id)


def _known(connection: sa.Connection, pane: str, harness: str, session: str) -> int | None:
    """The agent that is known in this pane, or with this session. Raises NotPossible if it has a persona."""
    agents = tables.agents
    same = agents.c.session == session if session else agents.c.pane == pane
    query = (
        sa.select(agents.c.id, agents.c.persona)
        .where(same, agents.c.harness == harness, agents.c.ended_at.is_(None))
        .order_by(agents.c.id.desc())
    )
    row = connection.execute(query).first()
    if row is None:
        return None
    if row.persona:
        raise NotPossible(f"Agent {row.id} in pane {pane} has the persona {row.persona} already.")
    return int(row.id)
