"""Types what agents are given unasked: the goals of a persona, one at a time, once its agent is idle."""

import logging
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError

from tasuki.errors import Refused, TasukiError
from tasuki.fleet.alerts import raise_alarm
from tasuki.fleet.background import BackgroundWork
from tasuki.fleet.delivery import messages, outbox
from tasuki.fleet.delivery.prompt_delivery import DeliveryResult, PromptDelivery
from tasuki.fleet.exchange.gate import HostGate
from tasuki.fleet.handoff import commands
from tasuki.fleet.store import log, queries, tables
from tasuki.fleet.store.database import FleetDatabase, update_row
from tasuki.fleet.store.failures import HandoffStopped, ServerClosing
from tasuki.fleet.store.log import ChangeFeed
from tasuki.fleet.store.models import FleetAgent, Persona, QueuedGoal, TypingIntent

LOOK_SECONDS = 1.0
"""Seconds between two looks at the queues."""
SETTLED_SECONDS = 1.0
"""How long an agent must be idle: what follows the end of its turn, such as a handoff, comes first."""
_GOALS = tables.queued_goals
_COLUMNS = [_GOALS.c[name] for name in QueuedGoal.__struct_fields__]
logger = logging.getLogger("tasuki.fleet")


@dataclass(eq=False, repr=False)
class QueueRunner(BackgroundWork):
    """A thread that gives the agents of this host their next goals, and resumes limited ones.

    A goal is claimed before it is typed, and typed by the outbox under the key of that claim: after a
    crash the same claim is carried on, so that nothing is typed twice.
    """

    database: FleetDatabase
    delivery: PromptDelivery
    changes: ChangeFeed
    gate: HostGate
    resume_limited: Callable[[], None]
    name, pause = "queue", LOOK_SECONDS

    def __post_init__(self) -> None:
        self.host = self.database.host
        super().__post_init__()

    def _run(self) -> None:
        with suppress(ServerClosing):
            super()._run()

    def _work(self) -> None:
        self._run_safely(self.type_goals)
        self.resume_limited()

    def type_goals(self) -> None:
        """Carry on what was claimed, then claim and type what may be typed now."""
        for goal, key in self._list_claimed():
            self._carry_on(goal, key)
        for goal_id, agent_id in self._list_next():
            if (claim := self._claim(goal_id, agent_id)) and not self._stop.is_set():
                self._carry_on(*claim)

    def _list_claimed(self) -> list[tuple[QueuedGoal, str]]:
        """List the goals that are claimed, or uncertain, for agents of this host or that ended.

        The host of an agent that ended may be gone: every host says that such a claim is uncertain.
        """
        agents = tables.agents.c
        is_ours = (agents.host == self.host) | agents.ended_at.is_not(None)
        query = sa.select(_GOALS.c.key, *_COLUMNS)
        query = query.join(tables.agents, agents.id == _GOALS.c.agent_id)
        query = query.where(_GOALS.c.state.in_(("typing", "uncertain")), is_ours)
        return [(QueuedGoal(*row[1:]), row[0]) for row in self.database.fetch(query)]

    def _list_next(self) -> list[tuple[int, int]]:
        """List the first waiting goal of each persona whose agent on this host is idle."""
        agents, personas = tables.agents.c, tables.personas.c
        query = sa.select(_GOALS.c.persona, _GOALS.c.id, agents.id)
        query = query.join(tables.agents, agents.persona == _GOALS.c.persona)
        query = query.join(tables.personas, personas.slug == _GOALS.c.persona).where(
            _GOALS.c.state == "waiting", agents.ended_at.is_(None), agents.host == self.host,
            agents.state == "idle", ~personas.queue_paused, personas.queue_stopped == "",
        )  # fmt: skip
        query = query.order_by(_GOALS.c.persona, _GOALS.c.place, _GOALS.c.id)
        first: dict[str, tuple[int, int]] = {}
        for slug, goal_id, agent_id in self.database.fetch(query):
            first.setdefault(slug, (goal_id, agent_id))
        return list(first.values())

    def _claim(self, goal_id: int, agent_id: int) -> tuple[QueuedGoal, str] | None:
        """Claim a goal for an agent; None where something changed meanwhile, or comes first."""
        key = secrets.token_hex(8)
        with self.database.write(alone=True) as connection:
            query = sa.select(*_COLUMNS).where(_GOALS.c.id == goal_id)
            row = connection.execute(query).one_or_none()
            if row is None or QueuedGoal(*row).state != "waiting":
                return None
            agent = queries.load_agent(connection, agent_id)
            persona = queries.load_persona(connection, row.persona)
            if persona.queue_paused or persona.queue_stopped or agent.persona != persona.slug:
                return None
            open_states = _GOALS.c.state.in_(("typing", "uncertain"))
            claimed = sa.select(_GOALS.c.id).where(_GOALS.c.persona == persona.slug, open_states)
            is_settled = time.time() - agent.state_at >= SETTLED_SECONDS
            if connection.execute(claimed).first() or not is_settled:
                return None
            if explain_wait(self.database, agent, persona):
                return None
            values = {"state": "typing", "agent_id": agent_id, "key": key, "typed_at": time.time()}
            claim = sa.update(_GOALS).where(_GOALS.c.id == goal_id).values(**values)
            row = connection.execute(claim.returning(*_COLUMNS)).one()
        return QueuedGoal(*row), key

    def _carry_on(self, goal: QueuedGoal, key: str) -> None:
        agent = queries.load_agent(self.database, goal.agent_id or 0)
        proof = goal.text.split("\n")[0][: messages.PROOF_CHARACTERS]
        with self.database.write(synced=False) as connection:
            intent = outbox.record_intent(
                connection, f"goal-{key}", agent=agent, kind="message", proof=proof
            )
        if intent.state == "proven":
            self._record(goal, agent, DeliveryResult("proven"))
        elif goal.state == "typing":
            self._record(goal, agent, self._deliver(agent, intent, goal.text, goal.id))

    def _deliver(
        self, agent: FleetAgent, intent: TypingIntent, text: str, goal_id: int
    ) -> DeliveryResult:
        """Type a goal, or carry on; `refused` only where it is certain that nothing was typed."""
        if agent.ended_at is not None or agent.pane != intent.pane:
            return DeliveryResult("uncertain")
        refused = DeliveryResult("refused")
        with self.database.read() as connection:
            query = sa.select(_GOALS.c.host).where(_GOALS.c.id == goal_id)
            host = connection.execute(query).scalar() or self.host
        try:
            if host != self.host:
                self.gate.check_rules(host, ("send",), {})
            result = self.delivery.deliver_text(
                agent, intent, text, messages.PROOF_SECONDS,
                is_wanted=lambda: commands.find_running(self.database, agent.id) is None,
            )  # fmt: skip
            if result.state != "refused":
                return result
            refused = result
        except Refused as error:
            refused = DeliveryResult("refused", why=str(error).rstrip("."), lasting=True)
        except HandoffStopped:
            pass  # its handoff began
        except SQLAlchemyError:
            raise
        except (TasukiError, RuntimeError) as error:
            logger.warning("Queued goal for agent %s: %s", agent.id, error)
        try:
            pasted = self.delivery.panes.was_pasted(agent.pane, intent.id)
        except TasukiError:
            pasted = True
        return DeliveryResult("uncertain") if pasted else refused

    def _record(self, goal: QueuedGoal, agent: FleetAgent, result: DeliveryResult) -> None:
        with self.database.write() as connection:
            if result.state == "proven":
                update_row(connection, _GOALS, goal.id, state="typed")
                if goal.state == "uncertain":
                    update_row(connection, tables.personas, goal.persona, queue_stopped="")
                text = f"Queued goal {goal.id} of {goal.persona} was typed to agent {agent.id}."
                log.note(connection, "message", text, agent_id=agent.id, data={"goal": goal.id})
            elif result.state == "refused":
                values = {"state": "waiting", "agent_id": None, "typed_at": None}
                update_row(connection, _GOALS, goal.id, **values)
                if result.lasting:
                    why = f"Goal {goal.id} was not sent to agent {agent.id}: {result.why}."
                    self._stop_at(connection, goal, agent, why)
            else:
                update_row(connection, _GOALS, goal.id, state="uncertain")
                why = f"Goal {goal.id} may have reached agent {agent.id} or not. Look at its terminal, then say what became of it."
                self._stop_at(connection, goal, agent, why)
        self.changes.notify([agent.id])

    def _stop_at(
        self, connection: sa.Connection, goal: QueuedGoal, agent: FleetAgent, why: str
    ) -> None:
        update_row(connection, tables.personas, goal.persona, queue_stopped=why)
        raise_alarm(
            connection, "queue_stopped", f"{goal.id}/{goal.typed_at}",
            f"The queue of {goal.persona} stopped", why, host=self.host, agent_id=agent.id,
        )  # fmt: skip


def explain_wait(database: FleetDatabase, agent: FleetAgent, persona: Persona) -> str:
    """Return why the next goal is not typed to an agent now, as a sentence; empty where it may be."""
    try:
        messages.check_typable(agent)
        messages.check_has_prompt(database, agent.id)
    except TasukiError as error:
        return str(error)
    if handoff := commands.find_running(database, agent.id):
        return f"Handoff {handoff.id[:8]} is under way; the queue goes on with the successor."
    incoming = queries.find_incoming_handoff(database, agent.id)
    if incoming and incoming.state == "running":
        return f"It takes over by handoff {incoming.id[:8]}."
    if agent.state != "idle" or agent.question:
        return f"Its agent is not idle: {agent.state}."
    if agent.children:
        return "Something of it runs in the background."
    if persona.automatic and not persona.automation_stopped and agent.over_threshold:
        return "Its context is past the threshold: the automatic handoff goes first."
    return ""
