"""Agents begin and end: their row, their window in tmux, their orderly exit."""

import hashlib
import json
import os
import secrets
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from tasuki import harness as harnesses
from tasuki.errors import LaunchFailed, NotPossible, PaneGone, TasukiError
from tasuki.fleet import alerts, log, reading, states, tables
from tasuki.fleet.correlator import digest
from tasuki.fleet.database import Database
from tasuki.fleet.documents import folder as documents_folder
from tasuki.fleet.prompts import render
from tasuki.fleet.rows import Agent
from tasuki.fleet.vacancies import check_vacant
from tasuki.harness.control import TOKEN, AgentRequest, Control
from tasuki.harness.hook_script import path_in
from tasuki.harness.install import Installer
from tasuki.launch.panes import Panes
from tasuki.launch.prepare import command, environment
from tasuki.vault.store import why


class Died(LaunchFailed):
    """The program was started and is gone again."""


class Lifecycle:
    """Starts agents so that a crash at any point starts none twice.

    1. The row is written, with an id.
    2. Its order (program, environment, token) is written to a file, and that is noted in the row.
    3. A window of tmux is opened that takes the order and becomes the program; its command names
       the agent, so that it is found again.
    """

    def __init__(self, database: Database, panes: Panes, data: Path, root: Path, host: str) -> None:
        self.database = database
        self.panes = panes
        self.data = data
        self.root = root
        self.host = host
        self._mark = hashlib.sha256(os.path.realpath(data).encode()).hexdigest()[:8]

    def create_agent(
        self,
        *,
        persona_slug: str = "",
        previous_agent_id: int | None = None,
        harness: str = "",
        cwd: str = "",
        model: str = "",
        permission: str = "",
        goal: str = "",
        arguments: Sequence[str] = (),
    ) -> Agent:
        """Start an agent, of a persona or none, as the successor of another one or none.

        Raises PersonaNotFound, NotPossible, AlreadyUnderWay, HarnessMissing, LaunchFailed.
        """
        with self.database.write() as connection:
            id = self.enrol(
                connection, persona_slug=persona_slug, previous_agent_id=previous_agent_id,
                harness=harness, cwd=cwd, model=model, permission=permission, goal=goal,
                arguments=arguments,
            )  # fmt: skip
        try:
            return self.start(id)
        except TasukiError as error:
            self.gone(id, "ended", f"it could not be started: {error}")
            raise

    def enrol(
        self,
        connection: sa.Connection,
        *,
        persona_slug: str,
        previous_agent_id: int | None,
        harness: str,
        cwd: str,
        model: str,
        permission: str,
        goal: str,
        arguments: Sequence[str],
    ) -> int:
        """Write the row of an agent that is to be started; its id.

        Raises PersonaNotFound, NotPossible, AlreadyUnderWay while an agent works as the persona.
        """
        persona = None
        if persona_slug:
            check_vacant(connection, persona_slug, succeeds=previous_agent_id is not None)
            persona = reading.persona_in(connection, persona_slug)
        if persona and persona.retired_at is not None:
            raise NotPossible(
                f"Persona {persona.slug} is retired. Add another one: tasuki persona add"
            )
        name = harness or (persona.harness if persona else "claude")
        self._control(name)
        check_folder(cwd)
        values = {
            "harness": name, "state": "starting", "state_at": time.time(), "cwd": os.path.abspath(cwd),
            "host": self.host, "started_at": time.time(), "persona": persona_slug or None,
            "previous_agent_id": previous_agent_id, "goal": goal, "permission": permission,
            "model": model or (persona.model if persona else ""), "arguments": list(arguments),
        }  # fmt: skip
        query = sa.insert(tables.agents).values(**values).returning(tables.agents.c.id)
        id = int(connection.execute(query).scalar_one())
        log.note(connection, "agent", f"Agent {id} is being started.", agent_id=id)
        return id

    def start(self, id: int) -> Agent:
        """Carry the start of an agent on from wherever it is; the agent with its pane.

        Raises Died where its program is gone already, HarnessMissing, LaunchFailed.
        """
        agent = reading.agent(self.database, id)
        if agent.pane:
            return agent
        tag, order = self.tag(id), self._order(id)
        found = self.panes.find(tag)
        if found and agent.ordered_at is None:  # the order is written down before the pane is made
            raise Died(
                f"Pane {found.pane} holds agent {id} of an earlier fleet of this folder, so no other one was started. "
                "End it there, or give this fleet another data folder."
            )
        if found is None:
            if agent.ordered_at is None:
                agent = self._ordered(agent, order)
            elif not order.exists():
                raise Died(f"The program of agent {id} was started and is gone.")
            try:
                found = self.panes.open(order, agent.persona or agent.harness, tag, agent.cwd)
            except PaneGone as error:
                raise Died(str(error)) from error
        with self.database.write(synced=False) as connection:
            self._update(connection, id, pane=found.pane, window=found.window, pid=found.pid)
        return reading.agent(self.database, id)

    def _ordered(self, agent: Agent, order: Path) -> Agent:
        """Write the order of an agent that no window was opened for."""
        control = self._control(agent.harness)
        token, session = secrets.token_urlsafe(24), str(uuid.uuid4())
        plan = control.start(
            AgentRequest(
                cwd=agent.cwd,
                session=session,
                prompt=self._first_prompt(agent, control),
                model=agent.model,
                permission=agent.permission,
                writable=(str(documents_folder(self.root, agent.persona)),)
                if agent.persona
                else (),
                arguments=tuple(agent.arguments),
            )
        )
        content = {
            "argv": command(plan),
            "cwd": plan.cwd,
            "env": {**environment(plan), TOKEN: token},
        }
        try:
            _write_private(order, json.dumps(content).encode())
        except OSError as error:
            raise LaunchFailed(f"The order {order} cannot be written: {why(error)}.") from error
        known = {"session": session} if control.chooses_session else {}
        with self.database.write(synced=False) as connection:
            self._update(
                connection, agent.id, ordered_at=time.time(), token_hash=digest(token), **known
            )
        return reading.agent(self.database, agent.id)

    def _first_prompt(self, agent: Agent, control: Control) -> str:
        """Its persona's skill where that cannot be given at the session's start, and its goal.

        A successor gets its task with its predecessor's document, in a prompt of its own.
        """
        goal = agent.goal if agent.previous_agent_id is None else ""
        if not agent.persona or control.skill_at_start:
            return goal
        if not (skill := self.skill(agent.persona)):
            return goal or (render("skill_wait") if control.starts_at_prompt else "")
        then = f"Your task:\n\n{goal}" if goal else render("skill_wait")
        return render("skill", persona=agent.persona, skill=skill, then=then)

    def skill(self, slug: str) -> str:
        """The text of a persona's skill; empty where there is none."""
        from tasuki.fleet import personas

        return personas.skill(self.root, slug)

    def skill_prompt(self, agent: Agent) -> str:
        """Its persona's skill as a prompt of its own, behind which it waits."""
        slug = agent.persona or ""
        return render("skill", persona=slug, skill=self.skill(slug), then=render("skill_wait"))

    def skilled(self, id: int) -> None:
        """Note that an agent has its persona's skill."""
        with self.database.write(synced=False) as connection:
            self._update(connection, id, skill_at=time.time())
            log.note(connection, "skill", f"Agent {id} took its skill in.", agent_id=id)

    def tag(self, id: int) -> str:
        """The words in a window's command by which an agent's pane is found again."""
        return f"tasuki-{self._mark}-agent-{id}"

    def _order(self, id: int) -> Path:
        return self.data / "launch" / f"{id}.json"

    def _control(self, name: str) -> Control:
        control = harnesses.control(harnesses.get(name))
        if control is None:
            raise NotPossible(f"Agents of {name} cannot be run by tasuki.")
        return control

    def gone(self, id: int, state: str, reason: str) -> None:
        """Note that an agent ended, or is lost; nothing where that is known."""
        with self.database.write(synced=False) as connection:
            query = sa.select(tables.agents).where(tables.agents.c.id == id)
            row = dict(connection.execute(query).mappings().one())
            if states.has_ended(row):
                return
            states.end(row, state, time.time(), reason)
            connection.execute(sa.update(tables.agents).where(tables.agents.c.id == id).values(row))
            log.note(connection, "agent", f"Agent {id} {state}: {reason}", agent_id=id)
            if state == "lost" and not reading.is_handed_off_in(connection, id):
                text = f"Agent {id} ({row['persona'] or row['harness']}) is lost: {reason}"
                log.note(connection, "alarm", text, agent_id=id, data={"code": "agent_lost"})
                alerts.of_agent(connection, "failed", row, row["ended_at"], f"Agent {id}: {reason}")
        self._order(id).unlink(missing_ok=True)

    def _update(self, connection: sa.Connection, id: int, **values: Any) -> None:
        connection.execute(
            sa.update(tables.agents).where(tables.agents.c.id == id).values(**values)
        )


def check_folder(cwd: str) -> None:
    """Raises NotPossible where an agent cannot work in a folder."""
    if not os.path.isdir(cwd):
        raise NotPossible(f"There is no folder {cwd}. Name one that exists: --cwd")


def check_hooks(data: Path, name: str) -> None:
    """Raises NotPossible where a harness lacks the fleet's hooks: its agents would never be heard of."""
    adapter = harnesses.get(name)
    control = harnesses.control(adapter)
    if control is None:
        return
    additions = control.additions(str(path_in(data)))
    states = Installer(data.parent).states(f"{name}/fleet", additions)
    if not path_in(data).exists() or any(s.state == "add" for s in states):
        raise NotPossible(
            f"The fleet's hooks are not in {adapter.title}: nothing would be heard of the agent. "
            f"Put them there: tasuki install {name} --fleet"
        )


def _write_private(path: Path, content: bytes) -> None:
    """Write a file that holds keys: for its owner alone, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    new = path.with_suffix(".new")
    number = os.open(new, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600)
    with os.fdopen(number, "wb") as file:
        file.write(content)
    os.replace(new, path)
