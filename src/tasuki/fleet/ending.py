"""An agent ends: asked in its own words first; a signal only where it does not answer."""

import signal
import time
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from tasuki.errors import LaunchFailed, PaneGone
from tasuki.fleet import intents, reading
from tasuki.fleet.bridge import Bridge, check_wanted, control_of
from tasuki.fleet.failures import Closing, StepFailed
from tasuki.fleet.lifecycle import Lifecycle
from tasuki.fleet.limits import Limits
from tasuki.fleet.rows import Agent
from tasuki.launch.processes import is_alive, send_signal, started_at


class _Program(NamedTuple):
    """The process that is an agent, and when it began."""

    pid: int
    began: str


class Ending:
    """Ends agents: `/exit`, then, and only then, signals."""

    def __init__(self, lifecycle: Lifecycle, bridge: Bridge, limits: Limits) -> None:
        self.lifecycle = lifecycle
        self.bridge = bridge
        self.database = lifecycle.database
        self.limits = limits

    def shutdown_agent(
        self,
        id: int,
        *,
        handoff_id: str | None = None,
        key: str = "",
        wanted: Callable[[], bool] = lambda: True,
    ) -> str:
        """End an agent; how it ended, as a sentence. Nothing happens where it has ended.

        `key` makes the exit that is typed the same one after a crash. `wanted` is asked before each
        thing that is done: once it says no, nothing more is. Raises StepFailed, NotPossible, Stopped.
        """
        agent = reading.agent(self.database, id)
        if agent.ended_at is not None:
            return "It had ended."
        said, program = "", self._program(agent)
        # tasuki opened its pane, and nothing of it is there any more
        is_over = program is None and bool(agent.pane) and agent.ordered_at is not None
        if agent.pane and not is_over:
            with suppress(PaneGone):
                said = self._asked(agent, program, handoff_id, key, wanted)
        if not (said or is_over or self._is_gone(id, program)):
            said = self._signalled(agent, program, wanted)
        self.lifecycle.gone(id, "ended", said or "its pane was closed")
        return said or "Its pane was closed."

    def _program(self, agent: Agent) -> _Program | None:
        """The process of an agent; that of its pane only where tasuki opened it: else it is a shell.

        And only while the pane is there: the number of one that is gone may be another one's by now.
        """
        if agent.process:
            return _Program(agent.process, agent.process_began)
        if not agent.pid or agent.ordered_at is None:
            return None
        began = started_at(agent.pid)
        pane = self.bridge.panes.status([agent.pane]).panes.get(agent.pane)
        there = pane is not None and not pane.dead and pane.pid == agent.pid
        return _Program(agent.pid, began) if there and began else None

    def _asked(
        self,
        agent: Agent,
        program: "_Program | None",
        handoff_id: str | None,
        key: str,
        wanted: Callable[[], bool],
    ) -> str:
        """Type its exit command; how it ended, empty where it did not."""
        self._await_idle(agent, wanted)
        with self.database.write(synced=False) as connection:
            intent = intents.intend(
                connection, key or f"exit-{agent.id}-{int(time.time() * 1000)}", agent=agent,
                kind="exit", proof="", handoff_id=handoff_id,
            )  # fmt: skip
        try:
            sent = self.bridge.deliver(
                agent, intent, control_of(agent).exit_text, self.limits.shut_down,
                happened=lambda: self._is_gone(agent.id, program), wanted=wanted,
            )  # fmt: skip
        except PaneGone:  # its program may live on, without a pane
            ended = not program or self._is_gone(agent.id, program)
            return "It ended when it was asked to." if ended else ""
        except LaunchFailed:
            return ""
        if sent.state == "refused":
            raise StepFailed("agent_busy", f"Agent {agent.id} was not ended: {sent.why}.")
        gone = self._is_gone(agent.id, program)
        return "It ended when it was asked to." if gone else ""

    def _await_idle(self, agent: Agent, wanted: Callable[[], bool]) -> None:
        """An agent that began another turn is not ended in the middle of it."""
        deadline = time.monotonic() + self.limits.shut_down
        while (now := reading.agent(self.database, agent.id)).state in ("busy", "compacting"):
            if self.bridge.sight(agent).state == "ready":
                return
            if self.bridge.changes.closing.is_set():
                raise Closing
            check_wanted(wanted)
            if time.monotonic() > deadline:
                raise StepFailed(
                    "agent_busy", f"Agent {agent.id} is at work ({now.state}) and was not ended."
                )
            time.sleep(0.2)

    def _signalled(
        self, agent: Agent, program: "_Program | None", wanted: Callable[[], bool]
    ) -> str:
        if not program:
            raise StepFailed(
                "shutdown_failed",
                f"Agent {agent.id} did not end when it was asked to, and its process is not known.",
            )
        for number, name in ((signal.SIGTERM, "SIGTERM"), (signal.SIGKILL, "SIGKILL")):
            check_wanted(wanted)
            send_signal(program.pid, number, program.began)
            deadline = time.monotonic() + self.limits.signalled
            while time.monotonic() < deadline:
                if self._is_gone(agent.id, program):
                    return f"It did not end when it was asked to; {name} ended it."
                time.sleep(0.05)
        raise StepFailed(
            "shutdown_failed", f"Agent {agent.id} (process {program.pid}) does not end."
        )

    def _is_gone(self, id: int, program: "_Program | None") -> bool:
        """Whether its process is gone; its session's end was told, where no process is known."""
        if program:
            return not is_alive(program.pid, program.began)
        return reading.agent(self.database, id).ended_at is not None
