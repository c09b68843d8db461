"""Carrying out a harness's plan: this terminal or tmux, and what stands around a start."""

from typing import Literal

from tasuki.harness.protocol import LaunchPlan
from tasuki.launch.clipboard import copy
from tasuki.launch.prepare import Launched
from tasuki.launch.running import running_elsewhere

Where = Literal["here", "tmux"]


def start(
    plan: LaunchPlan, where: Where, name: str = "", brief: str = "", socket: str = ""
) -> Launched:
    """Carry out a plan.

    here: in this terminal; returns when the program has ended. tmux: in a new window called
    `name`; returns when it is up and its first text filled in. `brief` is the path of the stored
    brief, for messages; `socket` names another tmux server (`tmux -L`). Raises HarnessMissing
    where the program is not installed, LaunchFailed where it could not be started.
    """
    if where == "tmux":
        from tasuki.launch.tmux import start_in_tmux

        return start_in_tmux(plan, name, socket, brief)
    from tasuki.launch.terminal import start_here

    return start_here(plan)


__all__ = ["Launched", "Where", "copy", "running_elsewhere", "start"]
