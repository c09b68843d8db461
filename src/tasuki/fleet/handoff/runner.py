"""Carries out one step of a handoff and records its outcome: the log, the failure, the alarm.

The vault's record of a handoff from a thread is kept up to date, too: started, delivered,
acknowledged. It is under the handoff's own id. A record that is missing, or cannot be written,
does not hold a handoff up.
"""

import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec
import sqlalchemy as sa

from tasuki.draft.redact.redactor import Redactor
from tasuki.errors import HandoffNotFound, StoreFailed
from tasuki.fleet import alerts
from tasuki.fleet.exchange.host_list import describe_gone
from tasuki.fleet.exchange.shared_files import delete_parcels
from tasuki.fleet.handoff import (
    commands,
    forks,
    move_steps,
    outgoing_steps,
    successor_steps,
    workflow,
)
from tasuki.fleet.handoff.engine import name_attempt
from tasuki.fleet.handoff.step_context import StepContext
from tasuki.fleet.store import queries, tables
from tasuki.fleet.store.database import FleetDatabase, is_temporary
from tasuki.fleet.store.failures import (
    REMEDIES,
    UNCERTAIN_CODES,
    HandoffStopped,
    ServerClosing,
    name_failure,
)
from tasuki.fleet.store.log import ChangeFeed
from tasuki.fleet.store.models import FleetHandoff, StepFailure
from tasuki.handoffs import create_event
from tasuki.vault import Vault

RETRY_SECONDS = 1.0
"""How long a step waits for an absent database before it starts over."""
NOTE_CHARACTERS = 1000

STEPS: dict[str, Callable[[StepContext, FleetHandoff], str]] = {
    "await_idle": outgoing_steps.await_idle,
    "instruct": outgoing_steps.instruct_agent,
    "await_turn": outgoing_steps.await_turn,
    "check": outgoing_steps.check_document,
    "worktree": forks.create_worktree,
    "write": outgoing_steps.write_document,
    "record": outgoing_steps.record_document,
    "pack": move_steps.pack_work,
    "restore": move_steps.restore_thread,
    "unpack": move_steps.unpack_work,
    "shut_down": outgoing_steps.shut_down_agent,
    "fetch": move_steps.fetch_document,
    "create": successor_steps.create_successor,
    "register": successor_steps.await_registration,
    "skill": successor_steps.give_skill,
    "prompt": successor_steps.prompt_successor,
    "deliver": successor_steps.await_delivery,
    "acknowledge": successor_steps.await_acknowledgement,
}
"""What each step of `workflow.py` does; the text that it returns is the step's note."""

_STEP_EVENTS = {"register": "started", "deliver": "delivered", "acknowledge": "acknowledged"}
"""The event that is recorded when a step is done."""

logger = logging.getLogger("tasuki.fleet")


class StepRunner:
    """Runs steps and records their outcomes."""

    def __init__(self, database: FleetDatabase, changes: ChangeFeed, context: StepContext) -> None:
        self.database = database
        self.changes = changes
        self.context = context
        self.waiting: set[str] = set()
        """Handoffs whose step waits for the database."""
        self.begin: Callable[[FleetHandoff], None] | None = None
        """Begins a leg of a handoff on another host; set once there is an engine."""

    def carry_out(self, handoff_id: str, attempt: int, name: str) -> bool:
        """Carry out a step, unless it is done; return whether the next one may follow.

        While the database is away, or its disk is full, the step waits, however long that takes,
        and starts over. Raises ServerClosing where the server ends meanwhile.
        """
        try:
            while True:
                try:
                    return self._run_step(handoff_id, attempt, name)
                except sa.exc.DBAPIError as error:
                    if not is_temporary(error):
                        raise
                    self.waiting.add(handoff_id)
                    if self.changes.closing.wait(RETRY_SECONDS):
                        raise ServerClosing from error
        finally:
            self.waiting.discard(handoff_id)

    def _run_step(self, handoff_id: str, attempt: int, name: str) -> bool:
        handoff = queries.load_handoff(self.database, handoff_id)
        if handoff.state != "running" or handoff.attempt != attempt:
            return False
        if (host := self._find_host(handoff, name)) != self.database.host:
            return self._go_on_elsewhere(handoff, name, host)
        if name == "done":
            self._finish_handoff(handoff)
            return True
        if not self._begin_step(handoff, name):
            return True
        try:
            if handoff.move:
                self.context.gate.check_move(handoff, handoff.move)
            note = STEPS[name](self.context, handoff)
        except HandoffStopped:
            return False
        except sa.exc.DBAPIError as error:
            if is_temporary(error):
                raise
            logger.exception("Step %s of handoff %s", name, handoff_id[:8])
            why = f"The database refused the write: {error.orig}"
            return self._fail_step(handoff, name, "unexpected", why)
        except Exception as error:
            code, sentence = name_failure(error)
            if code == "unexpected":
                logger.exception("Step %s of handoff %s", name, handoff_id[:8])
            return self._fail_step(handoff, name, code, sentence)
        self._end_step(handoff, name, note)
        record_step(self.database, handoff, name)
        if handoff.move and handoff.move.kind == "move":
            return not self._undo_late(handoff, name)
        return True

    def _find_host(self, handoff: FleetHandoff, name: str) -> str:
        if handoff.move is None:
            return self.database.host
        source = queries.load_agent(self.database, handoff.agent_id).host
        return workflow.find_step_host(handoff, name, source)

    def _go_on_elsewhere(self, handoff: FleetHandoff, name: str, host: str) -> bool:
        """Pass a move on to the host of its next step; return whether this one goes on instead.

        Where the agent's host is gone, nobody can end the agent, and its successor goes on without.
        """
        if not (gone := describe_gone(self.database, host)):
            self._pass_on(handoff, name, host)
            return False
        if not self._begin_step(handoff, name):
            return name == "shut_down"
        if name != "shut_down":
            return self._fail_step(handoff, name, "host_given_up", gone)
        self._end_step(handoff, name, f"{gone} The agent may still run there.")
        return True

    def _pass_on(self, handoff: FleetHandoff, name: str, host: str) -> None:
        """Let another host go on. It finds the handoff itself if this server ends in between."""
        with self.database.write() as connection:
            passed = commands.pass_on(connection, handoff, name, host)
            if passed is not None:
                text = f"Handoff {handoff.id[:8]}: goes on at {name}, on another host"
                commands.note_handoff(connection, handoff, text, step=name)
        current = passed or queries.load_handoff(self.database, handoff.id)
        known = (handoff.attempt, "running", name, host)
        if (current.attempt, current.state, current.step, current.host) != known:
            return
        assert self.begin
        self.begin(current)
        self.changes.notify([handoff.agent_id])

    def _begin_step(self, handoff: FleetHandoff, name: str) -> bool:
        """Record that a step begins; return False where it is done already."""
        key = _build_key(handoff, name)
        with self.database.write(synced=False) as connection:
            existing = connection.execute(_FIND_OUTCOME, key).first()
            if existing and existing.outcome in ("ok", "skipped"):
                return False
            connection.execute(_SET_STEP, {"of": handoff.id, "now": name})
            if existing is None:
                values = {"handoff_id": handoff.id, "attempt": handoff.attempt, "step": name}
                began = {"started_at": self.database.read_clock()}
                connection.execute(_INSERT_STEP, values | began)
                text = f"Handoff {handoff.id[:8]}: {name} begins"
                commands.note_handoff(connection, handoff, text, step=name)
        self.changes.notify([handoff.agent_id])
        return True

    def _end_step(self, handoff: FleetHandoff, name: str, note: str) -> None:
        note = Redactor().redact_line(note, NOTE_CHARACTERS)
        with self.database.write() as connection:
            self._write_end(connection, handoff, name, "ok", note)
            text = f"Handoff {handoff.id[:8]}: {name} is done"
            commands.note_handoff(connection, handoff, text, step=name)
        self.changes.notify([handoff.agent_id])

    def _fail_step(self, handoff: FleetHandoff, name: str, code: str, sentence: str) -> bool:
        """Record a failure, undo a move's arrival, alert the operator; always return False."""
        sentence = self._undo(handoff, name, code, sentence)
        sentence = Redactor().redact_line(sentence, NOTE_CHARACTERS)
        remedy = REMEDIES[code].format(agent=handoff.agent_id)
        state = "uncertain" if code in UNCERTAIN_CODES else "failed"
        failure = StepFailure(code, name, sentence, remedy)
        with self.database.write() as connection:
            self._write_end(connection, handoff, name, "failed", sentence)
            built = msgspec.to_builtins(failure)
            if not self._settle(connection, handoff, state=state, failure=built):
                return False
            text = f"Handoff {handoff.id[:8]} {state} at {name}: {sentence} {remedy}"
            commands.note_handoff(connection, handoff, text, kind="alarm", code=code, step=name)
            kind = "unacknowledged" if code == "not_acknowledged" else "failed"
            alerts.raise_alert(
                connection, kind, f"{kind}/{handoff.id}/{handoff.attempt}/{name}",
                f"Handoff of {handoff.persona} {state}", f"{sentence} {remedy}",
                host=handoff.host, agent_id=handoff.agent_id, handoff_id=handoff.id,
            )  # fmt: skip
        if name in workflow.SUCCESSOR_STEPS:
            record_event(handoff, state, reason=sentence)
        self.changes.notify([handoff.agent_id])
        return False

    def _undo(self, handoff: FleetHandoff, name: str, code: str, sentence: str) -> str:
        """Undo the arrival of a move; return the sentence of the failure with what was undone."""
        is_move = handoff.move is not None and handoff.move.kind == "move"
        if not is_move or name not in workflow.MOVE_ARRIVAL:
            return sentence
        lives = f"Agent {handoff.agent_id} lives on where it is."
        if code == "host_given_up":
            return f"{sentence} {lives}"
        if not workflow.is_undone(name, code):
            return (
                f"{sentence.rstrip('.')}. Nothing was undone; to undo the move, cancel it. {lives}"
            )
        current = queries.load_handoff(self.database, handoff.id)
        undone = move_steps.undo_arrival(self.context, current)
        return f"{sentence.rstrip('.')}. Undone there: {undone} {lives}"

    def _undo_late(self, handoff: FleetHandoff, name: str) -> bool:
        """Undo a step that ended after the cancel, which may have been early; return whether."""
        if name not in ("pack", *workflow.MOVE_ARRIVAL):
            return False
        current = queries.load_handoff(self.database, handoff.id)
        if current.state != "cancelled":
            return False
        delete_parcels(self.database, handoff.id)
        if name != "pack":
            self.undo_move(handoff.id)
        return True

    def undo_move(self, handoff_id: str) -> str:
        """Undo on this host what a cancelled move has made here; return what, as a sentence."""
        handoff = queries.load_handoff(self.database, handoff_id)
        if handoff.state != "cancelled" or handoff.move is None:
            return "It goes on, so nothing was undone."
        agent = queries.load_agent(self.database, handoff.agent_id)
        if agent.ended_at is not None:
            return f"Agent {agent.id} has ended meanwhile, so nothing was undone: its work is here."
        return move_steps.undo_arrival(self.context, handoff)

    def give_up(self, handoff: FleetHandoff, why: str) -> None:
        """Record a failure of an attempt that the engine no longer carries out."""
        current = queries.load_handoff(self.database, handoff.id)
        if (current.host, name_attempt(current)) != (handoff.host, name_attempt(handoff)):
            return  # it was passed on meanwhile, and goes on
        code = "no_room" if "full" in why else "unexpected"
        self._fail_step(handoff, handoff.step, code, f"The engine stopped at this step: {why}")

    def _finish_handoff(self, handoff: FleetHandoff) -> None:
        with self.database.write() as connection:
            if self._settle(connection, handoff, state="done", step="done", failure=None):
                title = f"Handoff of {handoff.persona} is done"
                if handoff.fork:
                    title = f"Fork of agent {handoff.agent_id} is done"
                text = f"Handoff {handoff.id[:8]} of {handoff.persona} is done."
                commands.note_handoff(connection, handoff, text, state="done")
                alerts.raise_alert(
                    connection, "done", f"done/{handoff.id}", title,
                    f"Agent {handoff.successor_id} works on.", host=handoff.host, agent_id=handoff.successor_id,
                    handoff_id=handoff.id,
                )  # fmt: skip
        self.changes.notify([handoff.agent_id])

    def _write_end(
        self, connection: sa.Connection, handoff: FleetHandoff, name: str, outcome: str, note: str
    ) -> None:
        end = {"now": self.database.read_clock(), "what": outcome, "said": note}
        connection.execute(_END_STEP, {**_build_key(handoff, name), **end})

    def _settle(self, connection: sa.Connection, handoff: FleetHandoff, **values: Any) -> bool:
        """Write how a handoff ended; return whether it was still under way."""
        handoffs = tables.handoffs
        is_open = (handoffs.c.id == handoff.id) & (handoffs.c.state == "running")
        values["finished_at"] = self.database.read_clock()
        return connection.execute(sa.update(handoffs).where(is_open).values(**values)).rowcount > 0


def record_step(database: FleetDatabase, handoff: FleetHandoff, step: str) -> None:
    """Record what a finished step means for its handoff."""
    if (kind := _STEP_EVENTS.get(step)) is None:
        return
    detail = {}
    if kind == "started":
        successor_id = queries.load_handoff(database, handoff.id).successor_id or 0
        successor = queries.load_agent(database, successor_id)
        detail = {
            "harness": successor.harness, "where": "tmux", "successor_thread": successor.session,
            "successor_path": successor.thread,
        }  # fmt: skip
    record_event(handoff, kind, **detail)


def record_event(handoff: FleetHandoff, kind: str, **detail: str) -> None:
    """Record an event of a handoff from a thread, unless it is the last one: a step may be repeated."""
    if not handoff.from_thread:
        return
    vault = Vault()
    with suppress(HandoffNotFound):  # it could not be kept, or was pruned
        try:
            events = vault.load_events(handoff.id)
            if not events or events[-1].kind != kind:
                vault.append_event(handoff.id, create_event(kind, **detail))
        except StoreFailed as error:
            logger.warning("The record of handoff %s: %s", handoff.id[:8], error)


def _build_key(handoff: FleetHandoff, name: str) -> dict[str, Any]:
    return {"of": handoff.id, "try": handoff.attempt, "named": name}


_IS_STEP = (
    (tables.steps.c.handoff_id == sa.bindparam("of"))
    & (tables.steps.c.attempt == sa.bindparam("try"))
    & (tables.steps.c.step == sa.bindparam("named"))
)
_FIND_OUTCOME = sa.select(tables.steps.c.outcome).where(_IS_STEP)
_INSERT_STEP = sa.insert(tables.steps)
_END_STEP = (
    sa.update(tables.steps)
    .where(_IS_STEP)
    .values(ended_at=sa.bindparam("now"), outcome=sa.bindparam("what"), note=sa.bindparam("said"))
)
_SET_STEP = (
    sa.update(tables.handoffs)
    .where(tables.handoffs.c.id == sa.bindparam("of"))
    .values(step=sa.bindparam("now"))
)
"""Statements that every step uses are built once: that takes as long as running one."""
