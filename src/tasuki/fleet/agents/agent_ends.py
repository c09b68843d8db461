"""How agents end: on request, or lost without one.

On request an agent gets its own exit command, and a signal only if it does not respond. An agent
is lost if its pane or process vanished without a request, as by a restart of the machine. Its work
continues from its thread; or, where it had not taken over yet, with the handoff that created it.
"""

import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

import sqlalchemy as sa
from msgspec import Struct

from tasuki.errors import LaunchFailed, NotPossible, PaneGone
from tasuki.fleet.agents.lifecycle import AgentLifecycle
from tasuki.fleet.agents.personas import UNFINISHED
from tasuki.fleet.delivery import outbox
from tasuki.fleet.delivery.prompt_delivery import PromptDelivery
from tasuki.fleet.delivery.typed_input import check_wanted, get_control
from tasuki.fleet.handoff.workflow import StepLimits
from tasuki.fleet.store import log, queries, states, tables
from tasuki.fleet.store.database import FleetDatabase, update_row
from tasuki.fleet.store.failures import ServerClosing, StepFailed
from tasuki.fleet.store.models import FleetAgent, FleetHandoff
from tasuki.launch.processes import find_start_time, is_alive, send_signal
from tasuki.launch.tmux.panes import TmuxPanes
from tasuki.threads.catalog import is_readable
from tasuki.vault.fleet_records import HUNG_UP


class _AgentProcess(NamedTuple):
    """The process of an agent, and when it began."""

    pid: int
    began: str


@dataclass(eq=False, repr=False)
class AgentShutdown:
    """Ends agents: with `/exit`, then, and only then, with signals."""

    lifecycle: AgentLifecycle
    delivery: PromptDelivery
    limits: StepLimits

    def __post_init__(self) -> None:
        self.database = self.lifecycle.database

    def shut_down_agent(
        self,
        agent_id: int,
        *,
        handoff_id: str | None = None,
        key: str = "",
        is_wanted: Callable[[], bool] = lambda: True,
    ) -> str:
        """End an agent and return how it ended, as a sentence. Do nothing if it has ended.

        `key` keeps the typed exit the same one after a crash. `is_wanted` is asked before each
        action: once it returns False, nothing more is done. Raises StepFailed, NotPossible,
        HandoffStopped.
        """
        agent = queries.load_agent(self.database, agent_id)
        if agent.ended_at is not None:
            return "It had ended."
        outcome, program = "", self._find_process(agent)
        # tasuki opened its pane, and nothing of it is left
        is_over = program is None and bool(agent.pane) and agent.ordered_at is not None
        if agent.pane and not is_over:
            with suppress(PaneGone):
                outcome = self._request_exit(agent, program, handoff_id, key, is_wanted)
        if not (outcome or is_over or self._is_gone(agent_id, program)):
            outcome = self._send_signals(agent, program, is_wanted)
        self.lifecycle.note_end(agent_id, "ended", outcome or "its pane was closed")
        return outcome or "Its pane was closed."

    def _find_process(self, agent: FleetAgent) -> _AgentProcess | None:
        """Find the process of an agent.

        The process of its pane counts only where tasuki opened the pane: otherwise it is a shell.
        And only while the pane exists: the number of a vanished process may belong to another
        one.
        """
        if agent.process:
            return _AgentProcess(agent.process, agent.process_began)
        if not agent.pid or agent.ordered_at is None:
            return None
        began = find_start_time(agent.pid)
        pane = self.delivery.panes.read_status([agent.pane]).panes.get(agent.pane)
        is_there = pane is not None and not pane.dead and pane.pid == agent.pid
        return _AgentProcess(agent.pid, began) if is_there and began else None

    def _request_exit(
        self,
        agent: FleetAgent,
        program: "_AgentProcess | None",
        handoff_id: str | None,
        key: str,
        is_wanted: Callable[[], bool],
    ) -> str:
        """Type the exit command; return how the agent ended, empty where it did not."""
        self._await_idle(agent, is_wanted)
        with self.database.write(synced=False) as connection:
            intent = outbox.record_intent(
                connection, key or f"exit-{agent.id}-{int(time.time() * 1000)}", agent=agent,
                kind="exit", proof="", handoff_id=handoff_id,
            )  # fmt: skip
        try:
            sent = self.delivery.deliver_text(
                agent, intent, get_control(agent).exit_text, self.limits.shut_down,
                has_happened=lambda: self._is_gone(agent.id, program), is_wanted=is_wanted,
            )  # fmt: skip
        except PaneGone:  # its program may live on, without a pane
            ended = not program or self._is_gone(agent.id, program)
            return "It ended when it was asked to." if ended else ""
        except LaunchFailed:
            return ""
        if sent.state == "refused" and agent.state in ("limited", "failed"):
            return ""  # It asks what to do about its error; nobody is to answer that.
        if sent.state == "refused":
            raise StepFailed("agent_busy", f"Agent {agent.id} was not ended: {sent.why}.")
        gone = self._is_gone(agent.id, program)
        return "It ended when it was asked to." if gone else ""

    def _await_idle(self, agent: FleetAgent, is_wanted: Callable[[], bool]) -> None:
        """Wait for idle, so that an agent is not ended in the middle of another turn."""
        deadline = time.monotonic() + self.limits.shut_down
        while (now := queries.load_agent(self.database, agent.id)).state in (
            *states.WORKING, "compacting",
        ):  # fmt: skip
            if self.delivery.read_screen_state(agent).state == "ready":
                return
            if self.delivery.changes.closing.is_set():
                raise ServerClosing
            check_wanted(is_wanted)
            if time.monotonic() > deadline:
                raise StepFailed(
                    "agent_busy", f"Agent {agent.id} is at work ({now.state}) and was not ended."
                )
            time.sleep(0.2)

    def _send_signals(
        self, agent: FleetAgent, program: "_AgentProcess | None", is_wanted: Callable[[], bool]
    ) -> str:
        if not program:
            raise StepFailed(
                "shutdown_failed",
                f"Agent {agent.id} did not end when it was asked to, and its process is not known.",
            )
        for number, name in ((signal.SIGTERM, "SIGTERM"), (signal.SIGKILL, "SIGKILL")):
            check_wanted(is_wanted)
            send_signal(program.pid, number, program.began)
            deadline = time.monotonic() + self.limits.signalled
            while time.monotonic() < deadline:
                if self._is_gone(agent.id, program):
                    return f"It did not end when it was asked to; {name} ended it."
                time.sleep(0.05)
        raise StepFailed(
            "shutdown_failed", f"Agent {agent.id} (process {program.pid}) does not end."
        )

    def _is_gone(self, agent_id: int, program: "_AgentProcess | None") -> bool:
        """Whether its process is gone; if none is known, whether its end was reported."""
        if program:
            return not is_alive(program.pid, program.began)
        return queries.load_agent(self.database, agent_id).ended_at is not None


class LostAgent(Struct, frozen=True):
    """A lost agent without a successor. `retried` is the handoff that continues it, if any does."""

    agent: FleetAgent
    retried: FleetHandoff | None = None
    refused: str = ""
    """Why it cannot be recovered, as a sentence."""


CLEARED = "; the operator cleared it"
"""Ends the reason of the end of a lost agent that was cleared."""


def clear_lost_agent(database: FleetDatabase, agent_id: int) -> FleetAgent:
    """Clear a lost agent: it has ended, and nothing is to be recovered. Of any host.

    Its thread and its history stay. Raises AgentNotFound; NotPossible where it is not lost, or a handoff
    of it is under way.
    """
    with database.write(alone=True) as connection:
        agent = queries.load_agent(connection, agent_id)
        if agent.state != "lost":
            raise NotPossible(f"Agent {agent_id} is not lost: it is {agent.state}.")
        for handoff in queries.list_agent_handoffs(connection, [agent_id]):
            if handoff.state == "running" and not handoff.fork:
                raise NotPossible(
                    f"Handoff {handoff.id[:8]} of agent {agent_id} is under way. Cancel it first."
                )
        reason = f"{agent.end_reason}{CLEARED}"
        update_row(connection, tables.agents, agent_id, state="ended", end_reason=reason)
        text = f"Agent {agent_id}, which was lost, was cleared."
        log.note(connection, "agent", text, agent_id=agent_id)
        return queries.load_agent(connection, agent_id)


def find_lost_agents(database: FleetDatabase, panes: TmuxPanes, host: str) -> list[LostAgent]:
    """Find the lost agents of a host that are the last of their persona, oldest first."""
    newest = queries.list_newest_of_personas(database, host, {"lost", "ended"})
    lost = [agent for agent in newest if is_lost(database, agent)]
    classified = [_classify_agent(database, panes, agent) for agent in lost]
    return [one for one in classified if one is not None]


def is_lost(database: FleetDatabase, agent: FleetAgent) -> bool:
    """Whether an agent vanished without an order; also if its harness reported the end.

    Claude Code calls it `other` when its terminal disappears, as at the end of tmux.
    """
    if agent.state == "lost":
        return True
    if agent.state != "ended" or agent.end_reason != HUNG_UP:
        return False
    intents = tables.intents.c
    query = sa.select(intents.id).where(intents.agent_id == agent.id, intents.kind == "exit")
    return database.fetch(query).first() is None  # tasuki asked for no end


def _classify_agent(
    database: FleetDatabase, panes: TmuxPanes, agent: FleetAgent
) -> LostAgent | None:
    """Decide how a lost agent can be recovered; None where that is under way, or done."""
    own = queries.list_handoffs(database, agent_id=agent.id, fork=False)
    handoff = next((candidate for candidate in own if candidate.state != "cancelled"), None)
    if handoff and handoff.state not in ("failed", "uncertain"):
        return None
    incoming = queries.find_incoming_handoff(database, agent.id)
    if incoming and incoming.state == "running":
        return None
    had_prompt = incoming and incoming.failure and incoming.failure.code == "not_acknowledged"
    if incoming and incoming.state in UNFINISHED and not had_prompt:
        return LostAgent(agent, incoming)
    if handoff and handoff.recorded_at is not None:
        return LostAgent(agent, handoff)
    try:
        check_gone(panes, agent)
    except NotPossible as error:
        return LostAgent(agent, refused=str(error))
    if not is_readable(agent.harness, agent.thread):
        return LostAgent(
            agent,
            refused=f"Agent {agent.id} has no thread: it took no turn, or its harness deleted it. Start another "
            f"agent of its persona: tasuki agent start --persona {agent.persona}",
        )
    return LostAgent(agent)


def check_gone(panes: TmuxPanes, agent: FleetAgent) -> None:
    """Raise NotPossible where the program of an ended agent is alive: there would be two."""
    if agent.process and is_alive(agent.process, agent.process_began):
        where = f"in pane {agent.pane}" if agent.pane else f"as process {agent.process}"
    else:
        state = panes.read_status([agent.pane]).panes.get(agent.pane) if agent.pane else None
        # The pane of an adopted agent belongs to a shell.
        is_own = agent.ordered_at is not None and bool(agent.pid)
        if state is None or state.dead or not is_own or state.pid != agent.pid:
            return
        where = f"in pane {agent.pane}"
    raise NotPossible(
        f"Agent {agent.id} is recorded as {agent.state}, but its program still runs {where}. End it there first; "
        "then its work continues from its thread."
    )
