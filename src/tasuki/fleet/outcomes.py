"""Carries out one step of a handoff and writes down what became of it: the log, the failure, the alarm."""

import logging
import time
from typing import Any

import msgspec
import sqlalchemy as sa

from tasuki.fleet import alerts, log, reading, tables
from tasuki.fleet.changes import Changes
from tasuki.fleet.database import Database, is_gone
from tasuki.fleet.failures import REMEDIES, UNCERTAIN, Closing, Stopped, name_failure
from tasuki.fleet.rows import Failure, FleetHandoff
from tasuki.fleet.steps import Steps
from tasuki.fleet.vault_records import follow_failure, follow_step
from tasuki.plain import one_line

RETRY_SECONDS = 1.0
"""How long a step waits for a database that is away before it is begun anew."""
NOTE = 1000

logger = logging.getLogger("tasuki.fleet")


class Outcomes:
    """What became of each step."""

    def __init__(self, database: Database, changes: Changes, steps: Steps) -> None:
        self.database = database
        self.changes = changes
        self.steps = steps
        self.waiting: set[str] = set()
        """Handoffs whose step waits for the database."""

    def carry_out(self, id: str, attempt: int, name: str) -> bool:
        """Carry out a step; whether the next one may follow. A step that is done is not done again.

        While the database is away, or its disk is full, the step waits, however long that takes, and
        is begun anew. Raises Closing where the server ends meanwhile.
        """
        try:
            while True:
                try:
                    return self._carried_out(id, attempt, name)
                except sa.exc.DBAPIError as error:
                    if not is_gone(error):
                        raise
                    self.waiting.add(id)
                    if self.changes.closing.wait(RETRY_SECONDS):
                        raise Closing from error
        finally:
            self.waiting.discard(id)

    def _carried_out(self, id: str, attempt: int, name: str) -> bool:
        of = reading.handoff(self.database, id)
        if of.state != "running" or of.attempt != attempt:
            return False
        if name == "done":
            self._finish(of)
            return True
        if not self._begin(of, name):
            return True
        try:
            note = getattr(self.steps, name)(of)
        except Stopped:
            return False
        except sa.exc.DBAPIError as error:
            if is_gone(error):
                raise
            logger.exception("Step %s of handoff %s", name, id[:8])
            return self._fail(of, name, "unexpected", f"The database refused: {error.orig}")
        except Exception as error:
            code, sentence = name_failure(error)
            if code == "unexpected":
                logger.exception("Step %s of handoff %s", name, id[:8])
            return self._fail(of, name, code, sentence)
        self._end(of, name, note)
        follow_step(self.database, of, name)
        return True

    def _begin(self, of: FleetHandoff, name: str) -> bool:
        """Write down that a step begins; False where it is done already."""
        one = _one(of, name)
        with self.database.write(synced=False) as connection:
            known = connection.execute(_OUTCOME, one).first()
            if known and known.outcome in ("ok", "skipped"):
                return False
            connection.execute(_IN_STEP, {"of": of.id, "now": name})
            if known is None:
                values = {"handoff_id": of.id, "attempt": of.attempt, "step": name}
                connection.execute(_BEGUN, {**values, "started_at": time.time()})
                self._note(connection, of, f"{name} begins", name)
        self.changes.happened([of.agent_id])
        return True

    def _end(self, of: FleetHandoff, name: str, note: str) -> None:
        with self.database.write() as connection:
            connection.execute(_ENDED, _ended(of, name, "ok", one_line(note, NOTE)))
            self._note(connection, of, f"{name} is done", name)
        self.changes.happened([of.agent_id])

    def _fail(self, of: FleetHandoff, name: str, code: str, sentence: str) -> bool:
        """Write a failure down and tell it; always False."""
        sentence = one_line(sentence, NOTE)
        remedy = REMEDIES[code].format(agent=of.agent_id)
        state = "uncertain" if code in UNCERTAIN else "failed"
        failure = Failure(code, name, sentence, remedy)
        with self.database.write() as connection:
            handoffs = tables.handoffs
            connection.execute(_ENDED, _ended(of, name, "failed", sentence))
            changed = connection.execute(
                sa.update(handoffs)
                .where(handoffs.c.id == of.id, handoffs.c.state == "running")
                .values(state=state, failure=msgspec.to_builtins(failure), finished_at=time.time())
            )
            if not changed.rowcount:
                return False
            log.note(
                connection, "alarm", f"Handoff {of.id[:8]} {state} at {name}: {sentence} {remedy}",
                agent_id=of.agent_id, handoff_id=of.id, data={"code": code, "step": name},
            )  # fmt: skip
            kind = "unacknowledged" if code == "not_acknowledged" else "failed"
            alerts.raise_(
                connection, kind, f"{kind}/{of.id}/{of.attempt}/{name}",
                f"Handoff of {of.persona} {state}", f"{sentence} {remedy}",
                host=of.host, agent_id=of.agent_id, handoff_id=of.id,
            )  # fmt: skip
        follow_failure(of, name, state, sentence)
        self.changes.happened([of.agent_id])
        return False

    def give_up(self, of: FleetHandoff, why: str) -> None:
        """The engine carries an attempt out no more that should be under way: a failure like any other."""
        code = "no_room" if "full" in why else "unexpected"
        self._fail(of, of.step, code, f"The engine stopped at this step: {why}")

    def _finish(self, of: FleetHandoff) -> None:
        with self.database.write() as connection:
            handoffs = tables.handoffs
            done = connection.execute(
                sa.update(handoffs)
                .where(handoffs.c.id == of.id, handoffs.c.state == "running")
                .values(state="done", step="done", finished_at=time.time(), failure=None)
            )
            if done.rowcount:
                text = f"Handoff {of.id[:8]} of {of.persona} is done."
                log.note(connection, "handoff", text, agent_id=of.agent_id, handoff_id=of.id,
                         data={"state": "done"})  # fmt: skip
                alerts.raise_(
                    connection, "done", f"done/{of.id}", f"Handoff of {of.persona} is done",
                    f"Agent {of.successor_id} works on.", host=of.host, agent_id=of.successor_id,
                    handoff_id=of.id,
                )  # fmt: skip
        self.changes.happened([of.agent_id])

    def _note(self, connection: sa.Connection, of: FleetHandoff, text: str, step: str) -> None:
        log.note(
            connection, "handoff", f"Handoff {of.id[:8]}: {text}", agent_id=of.agent_id,
            handoff_id=of.id, data={"step": step},
        )  # fmt: skip


def _one(of: FleetHandoff, name: str) -> dict[str, Any]:
    return {"of": of.id, "try": of.attempt, "named": name}


def _ended(of: FleetHandoff, name: str, outcome: str, note: str) -> dict[str, Any]:
    return {**_one(of, name), "now": time.time(), "what": outcome, "said": note}


_STEP = (
    (tables.steps.c.handoff_id == sa.bindparam("of"))
    & (tables.steps.c.attempt == sa.bindparam("try"))
    & (tables.steps.c.step == sa.bindparam("named"))
)
_OUTCOME = sa.select(tables.steps.c.outcome).where(_STEP)
_BEGUN = sa.insert(tables.steps)
_ENDED = (
    sa.update(tables.steps)
    .where(_STEP)
    .values(ended_at=sa.bindparam("now"), outcome=sa.bindparam("what"), note=sa.bindparam("said"))
)
_IN_STEP = (
    sa.update(tables.handoffs)
    .where(tables.handoffs.c.id == sa.bindparam("of"))
    .values(step=sa.bindparam("now"))
)
"""Statements of every step are made once: to make one takes as long as to carry it out."""
