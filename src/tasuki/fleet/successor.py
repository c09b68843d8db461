"""The steps of a handoff that concern the successor. The story is in `workflow.py`."""

import time

import sqlalchemy as sa

from tasuki.draft.screen_redaction import redact_screen
from tasuki.errors import (
    AlreadyUnderWay,
    HarnessMissing,
    LaunchFailed,
    NotPossible,
    PaneGone,
    PersonaNotFound,
    StoreFailed,
    TasukiError,
)
from tasuki.fleet import acknowledging, documents, reading, tables
from tasuki.fleet.bridge import control_of, holds
from tasuki.fleet.failures import StepFailed, Stopped
from tasuki.fleet.lifecycle import Died
from tasuki.fleet.rows import Agent, FleetHandoff
from tasuki.fleet.step import Step
from tasuki.plain import one_line, shown

_NOT_STARTED = (
    AlreadyUnderWay, HarnessMissing, LaunchFailed, NotPossible, PersonaNotFound, StoreFailed,
)  # fmt: skip
WRITTEN_SECONDS = 5.0
"""How long a harness may take to write an answer down whose turn has ended."""


class Successor(Step):
    """From its window to its first answer."""

    def create(self, of: FleetHandoff) -> str:
        """A window was opened for an agent of the same persona, and its program started."""
        try:
            self.lifecycle.skill(
                of.persona
            )  # one that cannot be given is told before anything begins
            self._note_death(of)
            id = self._successor_id(of)
            agent = self._started(id)
        except _NOT_STARTED as error:
            raise StepFailed("successor_not_started", str(error)) from error
        return f"agent {agent.id} in pane {agent.pane}"

    def _started(self, id: int) -> Agent:
        try:
            return self.lifecycle.start(id)
        except Died as error:
            self.lifecycle.gone(id, "ended", str(error))
            raise StepFailed("successor_died", str(error)) from error

    def register(self, of: FleetHandoff) -> str:
        """Its session has begun: its hooks told so."""

        def registered() -> bool:
            return self._successor(of).registered_at is not None

        seconds = self.limits.register
        if control_of(
            self._successor(of)
        ).starts_at_prompt:  # the turn that reads its skill completes it
            seconds += self.limits.skill
        if self._until(of, self._both(of), registered, seconds):
            return ""
        agent = self._successor(of)
        raise StepFailed(
            "successor_silent",
            f"Agent {agent.id} did not register within {seconds:.0f} s. "
            f"Its screen says: {self._last_words(agent)}",
        )

    def skill(self, of: FleetHandoff) -> str:
        """It has the skill of its persona."""
        if not self.lifecycle.skill(of.persona):
            return "the persona has no skill"

        def injected() -> bool:
            agent = self._successor(of)
            return agent.skill_at is not None or self._is_late(agent)

        if not self._until(of, self._both(of), injected, self.limits.skill):
            raise StepFailed("skill_missing", f"Agent {of.successor_id} did not get its skill.")
        agent = self._successor(of)
        if agent.skill_at is not None:
            return ""
        text = self.lifecycle.skill_prompt(agent)
        self._typed(of, agent, "skill", text, self.limits.prompt)
        ended = self._until(
            of, self._both(of), lambda: self._intent_ended(of, "skill"), self.limits.skill
        )
        if not ended:
            raise StepFailed("skill_missing", f"Agent {agent.id} did not take its skill in.")
        self.lifecycle.skilled(agent.id)
        return "given as a prompt"

    def prompt(self, of: FleetHandoff) -> str:
        """It is told, after its skill, where the work goes on: once."""

        def ready() -> bool:
            return self._successor(of).state == "idle" or bool(self._intent(of, "prompt"))

        if not self._until(of, self._both(of), ready, self.limits.skill):
            agent = self._successor(of)
            raise StepFailed("prompt_refused", f"Agent {agent.id} is {agent.state}, not idle.")
        agent = self._successor(of)
        return self._typed(of, agent, "prompt", of.injection_prompt, self.limits.prompt)

    def deliver(self, of: FleetHandoff) -> str:
        """Its own thread holds the prompt."""
        words = documents.acknowledgement(of)

        def delivered() -> bool:
            return holds(self._successor(of), words)

        if self._until(of, self._both(of), delivered, self.limits.deliver):
            return ""
        agent = self._successor(of)
        raise StepFailed(
            "not_delivered",
            f"The thread of agent {agent.id} does not hold the prompt: {agent.thread}",
        )

    def acknowledge(self, of: FleetHandoff) -> str:
        """Its first answer begins with the line that was asked for."""
        line = documents.acknowledgement(of)

        silent = (
            f"Agent {of.successor_id} has the prompt, but its answer did not begin with {line!r}"
        )

        def acknowledged() -> bool:
            if acknowledging.is_acknowledged(self._successor(of), line):
                return True
            turn = self._intent(of, "prompt")
            if turn and turn.ended_at is not None and time.time() - turn.ended_at > WRITTEN_SECONDS:
                raise StepFailed("not_acknowledged", f"{silent}.")
            return False

        if not self._until(of, self._both(of), acknowledged, self.limits.acknowledge):
            minutes = self.limits.acknowledge / 60
            raise StepFailed("not_acknowledged", f"{silent} within {minutes:.0f} minutes.")
        self._set(of, acknowledged_at=time.time())
        if self.lifecycle.skill(of.persona) and self._successor(of).skill_at is None:
            self._set(of, notes=[*of.notes, "The successor's hook ended before its skill arrived."])
        return ""

    def _successor(self, of: FleetHandoff) -> Agent:
        agent = self._agent(self._successor_of(of))
        if agent.ended_at is not None:
            raise StepFailed(
                "successor_died",
                f"Agent {agent.id} ended before it took over ({agent.end_reason}).",
            )
        return agent

    def _note_death(self, of: FleetHandoff) -> None:
        """Look whether the successor of an earlier attempt lives: a new one is started where it does not."""
        if of.successor_id is None:
            return
        agent = self._agent(of.successor_id)
        if agent.ended_at is None and agent.pane:
            try:
                self.bridge.sight(agent)
            except PaneGone as error:
                self.lifecycle.gone(agent.id, "lost", str(error))

    def _successor_id(self, of: FleetHandoff) -> int:
        """The row of the successor; a new one where there is none, or the last one has ended."""
        with self.database.write(synced=False) as connection:
            handoff = reading.handoff_in(connection, of.id)
            if (handoff.state, handoff.attempt) != ("running", of.attempt):
                raise Stopped("The handoff is not under way any more.")
            if handoff.successor_id is not None:
                last = reading.agent_in(connection, handoff.successor_id)
                if last.ended_at is None:
                    return last.id
            old = reading.agent_in(connection, of.agent_id)
            id = self.lifecycle.enrol(
                connection, persona_slug=of.persona, previous_agent_id=old.id, harness=old.harness,
                cwd=old.cwd, model=old.model, permission=old.permission,
                goal=handoff.goal or old.goal,
                arguments=tuple(old.arguments),
            )  # fmt: skip
            connection.execute(
                sa.update(tables.handoffs)
                .where(tables.handoffs.c.id == of.id)
                .values(successor_id=id)
            )
        return id

    def _successor_of(self, of: FleetHandoff) -> int:
        id = of.successor_id  # of a handoff as it was when its step began
        if id is None:
            id = reading.handoff(self.database, of.id).successor_id
        assert id is not None
        return id

    def _both(self, of: FleetHandoff) -> list[int]:
        return [of.agent_id, self._successor_of(of)]

    def _is_late(self, agent: Agent) -> bool:
        """Whether its session began while no answer could reach it, so that the skill is typed."""
        return control_of(agent).skill_at_start and agent.registered_at is not None

    def _intent_ended(self, of: FleetHandoff, kind: str) -> bool:
        found = self._intent(of, kind)
        return bool(found and found.ended_at is not None)

    def _last_words(self, agent: Agent) -> str:
        try:
            text = redact_screen(shown(self.bridge.panes.look(agent.pane).text))
            lines = [line for line in text.splitlines() if line.strip()]
        except TasukiError as error:
            return str(error)
        return one_line(" / ".join(lines[-6:]), 400) or "(nothing)"
