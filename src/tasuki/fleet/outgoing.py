"""The steps of a handoff that concern the outgoing agent. The story is in `workflow.py`."""

import time
from collections.abc import Callable
from pathlib import Path

import sqlalchemy as sa

from tasuki.errors import PaneGone
from tasuki.fleet import documents, log, reading, tables
from tasuki.fleet.failures import StepFailed
from tasuki.fleet.intents import Intent
from tasuki.fleet.lessons import propose_lessons
from tasuki.fleet.rows import Agent, FleetHandoff
from tasuki.fleet.step import READY_POLL, Step
from tasuki.fleet.thread_documents import write_from_thread
from tasuki.plain import one_line


class Outgoing(Step):
    """From the moment when nothing of the agent runs to its end."""

    def await_idle(self, of: FleetHandoff) -> str:
        """Nothing of the agent runs: no turn, no compaction, no sub-agent, no background command."""
        if self._document_is_there(of):
            return "the document is there"
        if self._intent(of, "instruction"):
            return "it was instructed"

        said = ""

        def idle() -> bool:
            nonlocal said
            hindrance = _hindrance(self._alive(of), force=of.force)
            if hindrance != said:
                said = hindrance
                self._say(of, hindrance)
            return not hindrance

        if self._until(of, [of.agent_id], idle, self.limits.idle):
            return ""
        agent = self._alive(of)
        code = {"waiting": "agent_waiting", "idle": "children_running"}.get(
            agent.state, "agent_busy"
        )
        raise StepFailed(code, f"Agent {agent.id}: {_hindrance(agent, force=of.force)}.")

    def instruct(self, of: FleetHandoff) -> str:
        """The agent is asked for the document, and its turn has begun."""
        if self._document_is_there(of):
            return "the document is there"
        agent = self._alive(of)
        path = self._path(of, agent)
        text = documents.instruction(of, path)
        return self._typed(of, agent, "instruction", text, self.limits.instruct)

    def await_turn(self, of: FleetHandoff) -> str:
        """That turn, and no other one, has ended."""
        if not (intent := self._intent(of, "instruction")):
            return "the document was there"
        silent = _Silence(self.limits.silent)

        def ended() -> Intent | None:
            now = self._intent(of, "instruction")
            if now and now.ended_at is not None:
                return now
            agent = self._alive(of)
            if silent.too_long(lambda: self._is_ready(agent)):
                raise StepFailed(
                    "turn_interrupted",
                    f"Agent {agent.id} is ready, but its turn's end was not told: it was broken off "
                    "(Escape), or its hooks are gone.",
                )
            return None

        found = self._until(of, [of.agent_id], ended, self.limits.turn)
        if found is None:
            raise StepFailed(
                "turn_too_long",
                f"Agent {of.agent_id} was instructed and did not end its turn within "
                f"{self.limits.turn / 60:.0f} minutes.",
            )
        if (found.end or {}).get("interrupted"):
            raise StepFailed(
                "turn_interrupted", f"The turn of agent {intent.agent_id} was broken off."
            )
        return ""

    def check(self, of: FleetHandoff) -> str:
        """The document is there and whole; what it lacks is added from the thread."""
        agent = self._agent(of.agent_id)
        if not of.file_path:
            raise StepFailed("document_missing", "No path for a document was reserved.")
        path = Path(of.file_path)
        documents.read(path)
        received = self._received(agent)
        notes = documents.completed(path, agent, of, received) + documents.note_gone(received)
        if proposed := propose_lessons(
            self.database, self.lifecycle.root, of, documents.read(path)
        ):
            notes = (
                *notes,
                f"Lessons that it proposes: {proposed}. Review them: tasuki persona lessons {of.persona}",
            )
        self._set(of, author=of.author or "agent", notes=[*of.notes, *notes])
        return " ".join(notes)

    def write(self, of: FleetHandoff) -> str:
        """The document is written from the agent's thread."""
        agent = self._agent(of.agent_id)
        path = self._path(of, agent)
        if not documents.is_ready(path):
            loaded = self.load_settings()
            received = self._received(agent)
            written = write_from_thread(path, agent, of, loaded, received)
            told = written.notes + documents.note_gone(received)
            notes = [note for note in told if note not in of.notes]
            self._set(of, author=written.author, notes=[*of.notes, *notes])
        return f"written from {agent.thread}"

    def record(self, of: FleetHandoff) -> str:
        """The record holds the path of the document, and the prompt of the successor."""
        if of.recorded_at is None:
            agent, path = self._agent(of.agent_id), Path(of.file_path)
            prompt = documents.injection(of, agent, path)
            self._set(of, recorded_at=time.time(), injection_prompt=prompt)
            documents.release(path)
        return ""

    def shut_down(self, of: FleetHandoff) -> str:
        """The outgoing agent has ended; what came after its document is added to it."""
        key = f"{of.id}-exit-{of.attempt}"
        ended = self.ending.shutdown_agent(
            of.agent_id, handoff_id=of.id, key=key, wanted=lambda: self._is_under_way(of)
        )
        if not of.from_thread:
            agent = self._agent(of.agent_id)
            if notes := documents.complete_at_end(Path(of.file_path), agent, of):
                self._set(of, notes=[*of.notes, *notes])
        return ended

    def _received(self, agent: Agent) -> Path | None:
        """The document with which an agent itself took over; None for the first of a chain."""
        of = reading.handoff_to(self.database, agent.id)
        return Path(of.file_path) if of and of.file_path else None

    def _is_ready(self, agent: Agent) -> bool:
        """Whether an agent shows that it is ready, and everything that its hooks told is known."""
        return not self.unheard() and self.bridge.sight(agent).state == "ready"

    def _alive(self, of: FleetHandoff) -> Agent:
        agent = self._agent(of.agent_id)
        if agent.ended_at is not None:
            raise StepFailed("agent_gone", f"Agent {agent.id} ended ({agent.end_reason}).")
        return agent

    def _document_is_there(self, of: FleetHandoff) -> bool:
        """Whether a retry finds the document that the attempt before waited for."""
        return of.attempt > 1 and bool(of.file_path) and documents.is_ready(Path(of.file_path))

    def _path(self, of: FleetHandoff, agent: Agent) -> Path:
        """The path of the document, reserved once for a handoff."""
        if of.file_path:
            return Path(of.file_path)
        session = agent.session or f"agent{agent.id}"
        path = documents.reserve(self.lifecycle.root, of.persona, session, time.time(), of.id)
        self._set(of, file_path=str(path))
        return path

    def _say(self, of: FleetHandoff, what: str) -> None:
        """Show what a step waits for."""
        steps = tables.steps
        where = (steps.c.handoff_id == of.id) & (steps.c.attempt == of.attempt)
        where &= steps.c.ended_at.is_(None)
        with self.database.write() as connection:
            connection.execute(sa.update(steps).where(where).values(note=what))
            text = f"Handoff {of.id[:8]} waits: {what or 'no more'}"
            log.note(connection, "handoff", text, agent_id=of.agent_id, handoff_id=of.id,
                     data={"waits": what})  # fmt: skip
        self.changes.happened([of.agent_id])


def _hindrance(agent: Agent, *, force: bool) -> str:
    """What keeps an agent from being instructed now, in words; empty for nothing."""
    if agent.state == "waiting":
        return f"it waits for you: {agent.waiting_for}" if agent.waiting_for else "it waits for you"
    if agent.state != "idle":
        return {
            "compacting": "it compacts its context",
            "starting": "it has not registered yet",
        }.get(agent.state, "its turn has not ended")
    if agent.children and not force:
        return f"{len(agent.children)} of its own still run: {one_line(', '.join(agent.children), 200)}"
    return ""


class _Silence:
    """How long something has been so without a break."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._since: float | None = None
        self._looked = 0.0

    def too_long(self, is_so: Callable[[], bool]) -> bool:
        """Whether it has been so for too long; looked at once in a second."""
        now = time.monotonic()
        if now - self._looked < READY_POLL:
            return False
        self._looked = now
        try:
            so = is_so()
        except PaneGone:
            so = False
        if not so:
            self._since = None
            return False
        self._since = self._since or now
        return now - self._since >= self.seconds
