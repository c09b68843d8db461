"""Takes on an agent that is running in a pane already."""

import re
import time
from typing import Any

import sqlalchemy as sa

from tasuki import harness as harnesses
from tasuki.errors import NotPossible
from tasuki.fleet import log, reading, tables
from tasuki.fleet.database import Database
from tasuki.fleet.rows import Agent
from tasuki.fleet.vacancies import check_vacant
from tasuki.launch.panes import Panes
from tasuki.launch.processes import foreground, is_alive, is_shell, started_at, working_folder

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
    state = panes.status([pane]).panes.get(pane)
    if state is None or state.dead:
        raise NotPossible(
            f"There is no pane {pane} with a running program. List them: tmux list-panes -a"
        )
    process = _program(pane, state.pid)
    with database.write() as connection:
        id = _known(connection, host, pane, harness, session, process)
        if persona:
            check_vacant(connection, persona, but=id)
        values: dict[str, Any] = {
            "persona": persona or None, "pane": pane, "window": state.window, "pid": state.pid,
            "adopted": True,
        }  # fmt: skip
        if id is None:
            now = time.time()
            made = {"harness": harness, "state": "idle", "state_at": now, "cwd": working_folder(process),
                    "process": process, "process_began": started_at(process), "host": host, "started_at": now, "registered_at": now, "session": session}  # fmt: skip
            query = sa.insert(tables.agents).values(**made, **values).returning(tables.agents.c.id)
            id = int(connection.execute(query).scalar_one())
        else:
            known = reading.agent_in(connection, id)
            if not (known.process and is_alive(known.process, known.process_began)):
                values |= {"process": process, "process_began": started_at(process)}
            connection.execute(
                sa.update(tables.agents).where(tables.agents.c.id == id).values(**values)
            )
        log.note(connection, "agent", f"Agent {id} in pane {pane} was adopted.", agent_id=id)
    return reading.agent(database, id)


def _program(pane: str, pid: int) -> int:
    """The process that has a pane's terminal. Raises NotPossible where that is a shell."""
    process = foreground(pid) or pid
    if is_shell(process) or not is_alive(process):
        raise NotPossible(f"In pane {pane} no agent is running: its shell waits for a command.")
    return process


def _known(
    connection: sa.Connection, host: str, pane: str, harness: str, session: str, process: int
) -> int | None:
    """The agent of this host that is known in this pane, or with this session. Raises NotPossible if it has a persona.

    Of several in one pane it is the one whose process has the terminal: another is inside of it.
    """
    agents = tables.agents
    same = agents.c.session == session if session else agents.c.pane == pane
    query = (
        sa.select(agents.c.id, agents.c.persona)
        .where(
            same, agents.c.host == host, agents.c.harness == harness, agents.c.ended_at.is_(None)
        )
        .order_by((sa.func.coalesce(agents.c.process, 0) == process).desc(), agents.c.id.desc())
    )
    row = connection.execute(query).first()
    if row is None:
        return None
    if row.persona:
        raise NotPossible(f"Agent {row.id} in pane {pane} has the persona {row.persona} already.")
    return int(row.id)
