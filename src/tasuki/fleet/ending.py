"""An agent ends: asked in its own words first; a signal only where it does not answer."""

import signal
import time

from tasuki.errors import LaunchFailed, NotPossible, PaneGone
from tasuki.fleet import intents, reading
from tasuki.fleet.bridge import Bridge, control_of
from tasuki.fleet.failures import Closing, StepFailed
from tasuki.fleet.lifecycle import Lifecycle
from tasuki.fleet.limits import Limits
from tasuki.fleet.rows import Agent
from tasuki.launch.processes import is_alive, send_signal, started_at


class Ending:
    """Ends agents: `/exit`, then, and only then, signals."""

    def __init__(self, lifecycle: Lifecycle, bridge: Bridge, limits: Limits) -> None:
        self.lifecycle = lifecycle
        self.bridge = bridge
        self.database = lifecycle.database
        self.limits = limits

    def shutdown_agent(self, id: int, *, handoff_id: str | None = None, key: str = "") -> str:
        """End an agent; how it ended, as a sentence. Nothing happens where it has ended.

        `key` makes the exit that is typed the same one after a crash. Raises StepFailed, NotPossible.
        """
        agent = reading.agent(self.database, id)
        if agent.ended_at is not None:
            return "It had ended."
        process = agent.process or agent.pid
        began = started_at(process) if process else ""
        try:
            said = self._asked(agent, handoff_id, key) if agent.pane else ""
        except PaneGone:
            said = ""
        if not said and not self._is_gone(id, process, began):
            said = self._signalled(agent, process, began)
        self.lifecycle.gone(id, "ended", said or "its pane was closed")
        return said or "Its pane was closed."

    def _asked(self, agent: Agent, handoff_id: str | None, key: str) -> str:
        """Type its exit command; how it ended, empty where it did not."""
        self._await_idle(agent)
        process = agent.process or agent.pid
        began = started_at(process) if process else ""
        with self.database.write() as connection:
            intent = intents.intend(
                connection, key or f"exit-{agent.id}-{int(time.time() * 1000)}", agent=agent,
                kind="exit", proof="", handoff_id=handoff_id,
            )  # fmt: skip
        try:
            sent = self.bridge.deliver(
                agent, intent, control_of(agent).exit_text, self.limits.shut_down,
                happened=lambda: self._is_gone(agent.id, process, began),
            )  # fmt: skip
        except PaneGone:
            return "It ended when it was asked to."
        except LaunchFailed:
            return ""
        if sent.state == "refused":
            raise StepFailed("agent_busy", f"Agent {agent.id} was not ended: {sent.why}.")
        gone = self._is_gone(agent.id, process, began)
        return "It ended when it was asked to." if gone else ""

    def _await_idle(self, agent: Agent) -> None:
        """An agent that began another turn is not ended in the middle of it."""
        deadline = time.monotonic() + self.limits.shut_down
        while (now := reading.agent(self.database, agent.id)).state in ("busy", "compacting"):
            if self.bridge.sight(agent).state == "ready":
                return
            if self.bridge.changes.closing.is_set():
                raise Closing
            if time.monotonic() > deadline:
                raise StepFailed(
                    "agent_busy", f"Agent {agent.id} is at work ({now.state}) and was not ended."
                )
            time.sleep(0.2)

    def _signalled(self, agent: Agent, process: int | None, began: str) -> str:
        if not process:
            raise NotPossible(
                f"Agent {agent.id} has no tmux pane, and its process is not known: end it yourself."
            )
        for number, name in ((signal.SIGTERM, "SIGTERM"), (signal.SIGKILL, "SIGKILL")):
            send_signal(process, number, began)
            deadline = time.monotonic() + self.limits.signalled
            while time.monotonic() < deadline:
                if self._is_gone(agent.id, process, began):
                    return f"It did not end when it was asked to; {name} ended it."
                time.sleep(0.05)
        raise StepFailed("shutdown_failed", f"Agent {agent.id} (process {process}) does not end.")

    def _is_gone(self, id: int, process: int | None, began: str) -> bool:
        """Whether its session's end was told, or its process is gone."""
        if process:
            return not is_alive(process, began)
        return reading.agent(self.database, id).ended_at is not None
