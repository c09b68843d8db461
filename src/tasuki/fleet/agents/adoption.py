"""Adopts an agent that is already running in a pane."""

import re
import time
from typing import Any

import sqlalchemy as sa

from tasuki.errors import NotPossible
from tasuki.fleet.agents.personas import check_available
from tasuki.fleet.store import log, queries, tables
from tasuki.fleet.store.database import FleetDatabase
from tasuki.fleet.store.models import FleetAgent
from tasuki.harness import registry as harnesses
from tasuki.launch.processes import (
    find_foreground,
    find_start_time,
    find_working_folder,
    is_alive,
    is_shell,
)
from tasuki.launch.tmux.panes import TmuxPanes

_PANE = re.compile(r"%\d{1,9}")


def adopt_agent(
    database: FleetDatabase,
    panes: TmuxPanes,
    host: str,
    *,
    pane: str,
    harness: str,
    persona: str,
    session: str,
) -> FleetAgent:
    """Adopt the agent in a pane and return its row.

    Where `session` is empty, the agent's next event tells its session. An anonymous agent that
    is known in this pane becomes this one. Raises NotPossible, AlreadyUnderWay,
    PersonaNotFound.
    """
    if not _PANE.fullmatch(pane):
        raise NotPossible(
            f"{pane!r} is no pane of tmux. In it: tmux display-message -p '#{{pane_id}}'"
        )
    if harnesses.get_control(harnesses.get_harness(harness)) is None:
        raise NotPossible(f"Agents of {harness} cannot be run by tasuki.")
    state = panes.read_status([pane]).panes.get(pane)
    if state is None or state.dead:
        raise NotPossible(
            f"There is no pane {pane} with a running program. List them: tmux list-panes -a"
        )
    process = _find_program(pane, state.pid)
    with database.write() as connection:
        id = _find_known_agent(connection, host, pane, harness, session, process)
        if persona:
            check_available(connection, persona, except_agent=id)
        values: dict[str, Any] = {
            "persona": persona or None, "pane": pane, "window": state.window, "pid": state.pid,
            "adopted": True,
        }  # fmt: skip
        if id is None:
            now = time.time()
            new_values = {"harness": harness, "state": "idle", "state_at": now, "cwd": find_working_folder(process),
                    "process": process, "process_began": find_start_time(process), "host": host, "started_at": now, "registered_at": now, "session": session}  # fmt: skip
            query = (
                sa.insert(tables.agents)
                .values(**new_values, **values)
                .returning(tables.agents.c.id)
            )
            id = int(connection.execute(query).scalar_one())
        else:
            known_agent = queries.load_agent_in(connection, id)
            if not (
                known_agent.process and is_alive(known_agent.process, known_agent.process_began)
            ):
                values |= {"process": process, "process_began": find_start_time(process)}
            connection.execute(
                sa.update(tables.agents).where(tables.agents.c.id == id).values(**values)
            )
        log.note(connection, "agent", f"Agent {id} in pane {pane} was adopted.", agent_id=id)
    return queries.load_agent(database, id)


def _find_program(pane: str, pid: int) -> int:
    """Return the process that has a pane's terminal. Raises NotPossible where that is a shell."""
    process = find_foreground(pid) or pid
    if is_shell(process) or not is_alive(process):
        raise NotPossible(f"In pane {pane} no agent is running: its shell waits for a command.")
    return process


def _find_known_agent(
    connection: sa.Connection, host: str, pane: str, harness: str, session: str, process: int
) -> int | None:
    """Find the agent of this host that is known in this pane, or has this session.

    Of several in one pane it is the one whose process has the terminal: another one runs inside
    of it. Raises NotPossible if it has a persona.
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
