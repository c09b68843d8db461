"""Agents begin: started in a new window of tmux, or adopted in the pane where they already run.

Here is their row, their window, and the note of their end.
"""

import hashlib
import json
import os
import secrets
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from tasuki.errors import LaunchFailed, NotPossible, PaneGone, TasukiError
from tasuki.files import explain_error, replace_file
from tasuki.fleet import alerts
from tasuki.fleet.agents import personas
from tasuki.fleet.agents.personas import check_available
from tasuki.fleet.changes.work import build_start_values
from tasuki.fleet.handoff.documents import get_documents_folder as documents_folder
from tasuki.fleet.hooks.correlator import hash_token
from tasuki.fleet.orders.bodies import Adoption, NewAgent
from tasuki.fleet.prompts import render
from tasuki.fleet.store import log, queries, states, tables
from tasuki.fleet.store.database import FleetDatabase, update_row
from tasuki.fleet.store.models import FleetAgent
from tasuki.harness import registry as harnesses
from tasuki.harness.plans import TOKEN
from tasuki.harness.protocol import AgentControl, AgentRequest
from tasuki.harness.typed_text import is_plain_argument
from tasuki.install.hook_script import get_script_path
from tasuki.install.installer import Installer
from tasuki.launch import processes
from tasuki.launch.prepare import build_command, build_environment
from tasuki.launch.tmux.panes import PaneState, TmuxPanes
from tasuki.patterns import compile_pattern
from tasuki.text_safety import clean_text


class AgentDied(LaunchFailed):
    """The program was started and has ended already."""


@dataclass(eq=False, repr=False)
class AgentLifecycle:
    """Starts agents so that a crash at any point starts none twice.

    1. The row is written, with an id.
    2. Its order (program, environment, token) is written to a file, and that is noted in the row.
    3. A window of tmux is opened that takes the order and becomes the program; its command names
       the agent, so that it is found again.
    """

    database: FleetDatabase
    panes: TmuxPanes
    data: Path
    root: Path
    host: str

    def __post_init__(self) -> None:
        self._folder_mark = hashlib.sha256(os.path.realpath(self.data).encode()).hexdigest()[:8]

    def create_agent(self, request: NewAgent, order_id: str = "") -> FleetAgent:
        """Create and start an agent, with a persona or none; for one order of another host, once.

        Raises PersonaNotFound, NotPossible, AlreadyUnderWay, HarnessMissing, LaunchFailed.
        """
        with self.database.write(alone=True) as connection:
            known = queries.find_ordered_agent(connection, order_id) if order_id else None
            id = known or self.insert_agent(connection, request, order_id=order_id)
        try:
            return self.complete_start(id)
        except TasukiError as error:
            self.note_end(id, "ended", f"it could not be started: {error}")
            raise

    def insert_agent(
        self,
        connection: sa.Connection,
        request: NewAgent,
        previous_agent_id: int | None = None,
        forked_from: int | None = None,
        *,
        beside: int | None = None,
        order_id: str = "",
    ) -> int:
        """Insert the row of an agent that is to be started, as the successor of another or none.

        `forked_from` is an agent that goes on, from whose thread this one begins; `beside` one of the
        same persona that ends once this one runs. `order_id` names the order of another host.

        Return its id. Raises PersonaNotFound, NotPossible; AlreadyUnderWay while an agent works
        as the persona.
        """
        persona = None
        if slug := request.persona:
            is_successor = (previous_agent_id or forked_from) is not None
            check_available(connection, slug, except_agent=beside, is_successor=is_successor)
            persona = queries.load_persona(connection, slug)
        if persona and persona.retired_at is not None:
            raise NotPossible(
                f"Persona {persona.slug} is retired. Add another one: tasuki persona add"
            )
        name = request.harness or (persona.harness if persona else harnesses.DEFAULT)
        harnesses.require_control(name)
        check_folder(request.cwd)
        values = {
            "harness": name, "state": "starting", "state_at": time.time(), "cwd": os.path.abspath(request.cwd),
            "host": self.host, "started_at": time.time(), "persona": slug or None,
            "previous_agent_id": previous_agent_id, "forked_from": forked_from, "goal": request.goal,
            "permission": request.permission, "arguments": list(request.arguments),
            "order_id": order_id,
            "model": request.model or (persona.model if persona and persona.harness == name else ""),
        }  # fmt: skip
        query = sa.insert(tables.agents).values(**values).returning(tables.agents.c.id)
        id = int(connection.execute(query).scalar_one())
        log.note(connection, "agent", f"Agent {id} is being started.", agent_id=id)
        return id

    def complete_start(self, agent_id: int) -> FleetAgent:
        """Continue the start of an agent from wherever it is; return the agent with its pane.

        Raises AgentDied where its program is gone already, HarnessMissing, LaunchFailed.
        """
        agent = queries.load_agent(self.database, agent_id)
        if agent.pane:
            return agent
        # The words in a window's command by which the pane is found again.
        tag, order = f"tasuki-{self._folder_mark}-agent-{agent_id}", self._get_order_path(agent_id)
        pane = self.panes.find(tag)
        if pane and agent.ordered_at is None:  # the order is recorded before the pane is created
            raise AgentDied(
                f"Pane {pane.pane} holds agent {agent_id} of an earlier fleet of this folder, so no other one was started. "
                "End it there, or give this fleet another data folder."
            )
        if pane is None:
            if agent.ordered_at is None:
                agent = self._write_order(agent, order)
            elif not order.exists():
                raise AgentDied(f"The program of agent {agent_id} was started and is gone.")
            try:
                pane = self.panes.open(order, agent.persona or agent.harness, tag, agent.cwd)
            except PaneGone as error:
                raise AgentDied(str(error)) from error
        with self.database.write(synced=False) as connection:
            place = {"pane": pane.pane, "window": pane.window, "pid": pane.pid}
            update_row(connection, tables.agents, agent_id, **place)
        return queries.load_agent(self.database, agent_id)

    def resume_starts(self) -> None:
        """Continue the start of agents that the last server was starting for the operator."""
        running = queries.list_handoffs(self.database, state="running")
        with_handoff = {handoff.successor_id for handoff in running}
        for agent in queries.list_agents(self.database, ended=False, host=self.host):
            is_open = agent.state == "starting" and not agent.pane and agent.registered_at is None
            if is_open and agent.id not in with_handoff:
                try:
                    self.complete_start(agent.id)
                except TasukiError as error:
                    self.note_end(agent.id, "ended", f"it could not be started: {error}")

    def _write_order(self, agent: FleetAgent, order: Path) -> FleetAgent:
        """Write the order of an agent for which no window was opened."""
        control = harnesses.require_control(agent.harness)
        token, session = secrets.token_urlsafe(24), str(uuid.uuid4())
        prompt = self._build_first_prompt(agent, control)
        folders = [documents_folder(self.root, agent.persona)] if agent.persona else []
        request = AgentRequest(
            cwd=agent.cwd, session=session, prompt=prompt, model=agent.model,
            permission=agent.permission, writable=tuple(map(str, folders)), arguments=agent.arguments,
        )  # fmt: skip
        plan = control.plan_start(request)
        environment = {**build_environment(plan), TOKEN: token}
        content = {"argv": build_command(plan), "cwd": plan.cwd, "env": environment}
        try:
            _write_private(order, json.dumps(content).encode())
        except OSError as error:
            raise LaunchFailed(
                f"The order {order} cannot be written: {explain_error(error)}."
            ) from error
        chosen = {"session": session} if control.chooses_session else {}
        start = build_start_values(agent.cwd)
        with self.database.write(synced=False) as connection:
            update_row(
                connection, tables.agents, agent.id, ordered_at=time.time(), token_hash=hash_token(token),
                turn_at=time.time() if prompt else None, **chosen, **start,
            )  # fmt: skip
        return queries.load_agent(self.database, agent.id)

    def _build_first_prompt(self, agent: FleetAgent, control: AgentControl) -> str:
        """Build the first prompt: the goal, and the persona's skill if the session start gives none.

        A successor, and a fork, gets its task with a document, in a separate prompt.
        """
        gets_document = (agent.previous_agent_id or agent.forked_from) is not None
        goal = "" if gets_document else agent.goal
        task = f"Your task:\n\n{goal}" if goal else ""
        prompt = goal if is_plain_argument(goal) else task
        if not agent.persona or control.skill_at_start:
            return prompt
        if not (skill := self.read_skill(agent.persona)):
            return prompt or (render("skill_wait") if control.starts_at_prompt else "")
        then = task or render("skill_wait")
        return render("skill", persona=agent.persona, skill=skill, then=then)

    def read_skill(self, slug: str) -> str:
        """Return the text of a persona's skill; empty for none."""
        return personas.build_skill(self.root, slug)

    def _get_order_path(self, agent_id: int) -> Path:
        return self.data / "launch" / f"{agent_id}.json"

    def note_end(self, agent_id: int, state: str, reason: str) -> None:
        """Note that an agent ended, or is lost; do nothing where that is known."""
        with self.database.write(synced=False) as connection:
            query = sa.select(tables.agents).where(tables.agents.c.id == agent_id)
            row = dict(connection.execute(query).mappings().one())
            if states.has_ended(row):
                return
            reason = row["end_reason"] or reason  # its program told it before it was gone
            states.end_agent(row, state, time.time(), reason)
            update_row(connection, tables.agents, agent_id, **row)
            log.note(connection, "agent", f"Agent {agent_id} {state}: {reason}", agent_id=agent_id)
            if state == "lost" and not queries.is_handed_off(connection, agent_id):
                text = f"Agent {agent_id} ({row['persona'] or row['harness']}) is lost: {reason}"
                log.note(connection, "alarm", text, agent_id=agent_id, data={"code": "agent_lost"})
                text = f"Agent {agent_id}: {reason}"
                alerts.raise_agent_alert(connection, "failed", row, row["ended_at"], text)
        self._get_order_path(agent_id).unlink(missing_ok=True)


def read_folder(text: str) -> str:
    """Return a folder as a whole path; `~` is the home of the server's user. Raises NotPossible."""
    folder = os.path.expanduser(text.strip()) if text.strip().startswith("~") else text.strip()
    if not folder.startswith("/"):
        raise NotPossible("The folder must be a whole path: it begins with / or ~/.")
    return folder


def check_folder(cwd: str) -> None:
    """Raise NotPossible where an agent cannot work in a folder."""
    if not os.path.isdir(cwd):
        raise NotPossible(f"There is no folder {cwd}. Name one that exists: --cwd")


def check_hooks(data: Path, name: str, cwd: str = "") -> None:
    """Raise NotPossible where the fleet's hooks are missing or off: agents would be silent."""
    adapter = harnesses.get_harness(name)
    control = harnesses.get_control(adapter)
    if control is None:
        return
    additions = control.list_additions(str(get_script_path(data)))
    parts = Installer(data.parent).list_parts(f"{name}/fleet", additions)
    if not get_script_path(data).exists() or any(part.state == "add" for part in parts):
        raise NotPossible(
            f"The fleet's hooks are not in {adapter.title}: its agents would report nothing. "
            f"Install them: tasuki install {name} --fleet"
        )
    integration = harnesses.get_integration(adapter)
    if obstacles := integration.find_obstacles(Path(cwd)) if integration and cwd else ():
        raise NotPossible(f"Agents of {adapter.title} would report nothing there. {obstacles[0]}")


def _write_private(path: Path, content: bytes) -> None:
    """Write a file that holds keys: for its owner alone, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    replace_file(path, content, synced=False)


_PANE = compile_pattern(r"%\d{1,9}")


def adopt_agent(
    database: FleetDatabase,
    panes: TmuxPanes,
    host: str,
    wanted: Adoption,
    brief: str = "",
    goal: str = "",
) -> FleetAgent:
    """Adopt the agent in a pane and return its row.

    `brief` is the id of the stored handoff with which it was started, and `goal` that one's. Where
    no session is named, the agent's next event reports it. An anonymous agent that is known in this
    pane becomes this one. Raises NotPossible, AlreadyUnderWay, PersonaNotFound.
    """
    pane, harness, persona = wanted.pane, wanted.harness, wanted.persona
    if not _PANE.fullmatch(pane):
        raise NotPossible(
            f"{pane!r} is not a tmux pane. To see the id of a pane, run in it: tmux display-message -p '#{{pane_id}}'"
        )
    harnesses.require_control(harness)
    state, process = _find_program(panes, pane)
    folder = processes.find_working_folder(process)
    start = build_start_values(folder)
    with database.write(alone=True) as connection:
        id = _find_known_agent(connection, host, wanted, process)
        if persona:
            check_available(connection, persona, except_agent=id)
        values: dict[str, Any] = {
            "persona": persona or None, "pane": pane, "window": state.window, "pid": state.pid,
            "adopted": True,
        }  # fmt: skip
        if brief:
            values |= {"brief": brief, "goal": clean_text(goal)}
        if id is None:
            now = time.time()
            new_values = {
                "harness": harness, "state": "idle", "state_at": now, "cwd": folder,
                "process": process, "process_began": processes.find_start_time(process), "host": host,
                "started_at": now, "registered_at": now, "session": wanted.session, **start,
            }  # fmt: skip
            query = sa.insert(tables.agents).values(**new_values, **values)
            id = int(connection.execute(query.returning(tables.agents.c.id)).scalar_one())
        else:
            known = queries.load_agent(connection, id)
            if not (known.process and processes.is_alive(known.process, known.process_began)):
                values |= {"process": process, "process_began": processes.find_start_time(process)}
            if known.begun_commit is None:
                values |= start
            update_row(connection, tables.agents, id, **values)
        log.note(connection, "agent", f"Agent {id} in pane {pane} was adopted.", agent_id=id)
    return queries.load_agent(database, id)


def _find_program(panes: TmuxPanes, pane: str) -> tuple[PaneState, int]:
    """Return a pane, and the process that has its terminal. Raises NotPossible for a shell."""
    state = panes.read_status([pane]).panes.get(pane)
    if state is None or state.dead:
        raise NotPossible(
            f"There is no pane {pane} with a running program. List them: tmux list-panes -a"
        )
    process = processes.find_foreground(state.pid) or state.pid
    if processes.is_shell(process) or not processes.is_alive(process):
        raise NotPossible(f"In pane {pane} no agent is running: its shell waits for a command.")
    return state, process


def _find_known_agent(
    connection: sa.Connection, host: str, wanted: Adoption, process: int
) -> int | None:
    """Find the agent of this host that is known in this pane, or has this session.

    Of several in one pane it is the one whose process has the terminal: another one runs inside
    of it. Raises NotPossible if it has a persona.
    """
    agents, session = tables.agents.c, wanted.session
    same = agents.session == session if session else agents.pane == wanted.pane
    same &= (agents.host == host) & (agents.harness == wanted.harness) & agents.ended_at.is_(None)
    has_terminal = sa.func.coalesce(agents.process, 0) == process
    query = sa.select(agents.id, agents.persona).where(same)
    row = connection.execute(query.order_by(has_terminal.desc(), agents.id.desc())).first()
    if row is None:
        return None
    if row.persona:
        raise NotPossible(
            f"Agent {row.id} in pane {wanted.pane} has the persona {row.persona} already."
        )
    return int(row.id)
