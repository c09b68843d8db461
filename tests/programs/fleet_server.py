"""`tasuki` with two things more: time limits for tests, and a point of the code at which it stops.

At the point named by FLEET_STOP_AT the process writes FLEET_REACHED and waits to be killed, so that
a kill -9 from outside falls exactly there: `instruct:before`, `instruct:after` (done, and not yet
recorded), or the name of a function that has just done its work: `Panes.paste`.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

AT = os.environ.get("FLEET_STOP_AT", "")
REACHED = os.environ.get("FLEET_REACHED", "")


def reached(point: str) -> None:
    """Stop here, for good, if this is the point."""
    if point != AT:
        return
    new = Path(f"{REACHED}.new")
    new.write_text(point)
    new.rename(REACHED)
    while True:
        time.sleep(60)


def behind(owner: Any, name: str, point: str = "") -> None:
    """Stop behind a function's work."""
    inner: Callable[..., Any] = getattr(owner, name)
    label = point or f"{owner.__name__.rpartition('.')[2]}.{name}"

    def outer(*arguments: Any, **named: Any) -> Any:
        result = inner(*arguments, **named)
        reached(label)
        return result

    setattr(owner, name, outer)


def points() -> None:
    """Put the points into the code."""
    from tasuki.fleet.agents import lifecycle
    from tasuki.fleet.agents.lifecycle import AgentLifecycle
    from tasuki.fleet.agents.queue_runner import QueueRunner
    from tasuki.fleet.delivery.typed_input import InputTyping
    from tasuki.fleet.handoff import documents, worktrees
    from tasuki.fleet.handoff.runner import StepRunner
    from tasuki.fleet.handoff.step_context import StepContext
    from tasuki.launch.tmux.panes import TmuxPanes

    carried_out = StepRunner._run_step

    def around(self: StepRunner, id: str, attempt: int, name: str) -> bool:
        reached(f"{name}:before")
        done = carried_out(self, id, attempt, name)
        reached(f"{name}:after")
        return done

    StepRunner._run_step = around  # type: ignore[method-assign]
    until = StepContext.wait_for

    def waiting(self: StepContext, of: Any, *arguments: Any) -> Any:
        step = self.database and _step(self, of.id)
        reached(f"{step}:middle")
        return until(self, of, *arguments)

    StepContext.wait_for = waiting  # type: ignore[method-assign]
    behind(QueueRunner, "_claim")
    behind(QueueRunner, "_deliver")
    behind(TmuxPanes, "paste")
    behind(TmuxPanes, "enter")
    behind(TmuxPanes, "open")
    behind(InputTyping, "empty_input")
    behind(documents, "reserve_path")
    behind(worktrees, "_run")
    behind(documents, "_rewrite_document")
    behind(lifecycle, "_write_private")
    behind(AgentLifecycle, "insert_agent")
    behind(AgentLifecycle, "_write_order")


def _step(context: Any, id: str) -> str:
    from tasuki.fleet.store import queries

    return queries.load_handoff(context.database, id).step


def limits() -> None:
    """Shorter time limits."""
    given = json.loads(os.environ.get("FLEET_LIMITS") or "{}")
    if given:
        from tasuki.fleet import service
        from tasuki.fleet.handoff.workflow import StepLimits

        service.Fleet.__init__.__kwdefaults__["limits"] = StepLimits(**given)


def named() -> None:
    """Run on a machine of another name."""
    if name := os.environ.get("FLEET_HOST_NAME"):
        import socket

        socket.gethostname = lambda: name


def clocked() -> None:
    """Run on a machine whose clock is off by some seconds."""
    if seconds := float(os.environ.get("FLEET_CLOCK") or 0):
        real = time.time
        time.time = lambda: real() + seconds


def upgraded() -> None:
    """Be a later version of tasuki: another number, another code of the workflow."""
    if os.environ.get("FLEET_LATER"):
        import tasuki
        from tasuki.fleet import hosts
        from tasuki.fleet.handoff import workflow

        tasuki.__version__ = hosts.__version__ = "99.0"
        inner = workflow.run_steps

        def hand_off(*arguments: Any, **named: Any) -> None:
            inner(*arguments, **named)

        workflow.run_steps = hand_off


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        points()
        limits()
        named()
        clocked()
        upgraded()
    from tasuki.cli.main import main

    main()
