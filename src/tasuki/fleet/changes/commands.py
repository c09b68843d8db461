"""The command that an agent runs just now, from the processes below its program."""

import os
import time

from tasuki.draft.redact.redactor import Redactor
from tasuki.fleet.store.models import FleetAgent
from tasuki.launch.processes import TICKS_PER_SECOND, ProcessTree, read_command

COMMAND_CHARACTERS = 160
SHELLS = frozenset({"sh", "bash", "zsh", "dash", "fish", "ksh"})
HOOKS_PATH = "/api/hooks/"
HOOK_SCRIPT = "/fleet/hook.sh"
EARLY_SECONDS = 1.0
"""A turn is reported a moment after it began."""


def find_command(agent: FleetAgent, tree: ProcessTree | None) -> str:
    """Return the command that the current turn of an agent has begun, without secrets.

    Servers of its tools, which began before the turn, are left out. Of several it is the first that
    is no shell. Empty where it runs none, or where this system does not tell.
    """
    program = agent.process or agent.pid
    if tree is None or not program or agent.turn_at is None:
        return ""
    # In the ticks since boot by which a process says when it began.
    since_boot = time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
    since = (since_boot - (time.time() - agent.turn_at + EARLY_SECONDS)) * TICKS_PER_SECOND
    below = tree.list_below(program)
    words = {pid: read_command(pid) for pid in (program, *(one.pid for one in below))}
    own = (HOOKS_PATH, HOOK_SCRIPT)  # The script of the fleet's hooks, or the curl that it runs.
    hooks = {one.pid for one in below if any(part in words[one.pid] for part in own)}
    for one in below:  # The oldest first: what a hook started is a part of it.
        if one.parent in hooks:
            hooks.add(one.pid)
    commands = [
        words[one.pid] for one in below
        # A process that has yet to become its own program has its parent's words.
        if one.started >= since and one.pid not in hooks and words[one.pid] not in ("", words[one.parent])
    ]  # fmt: skip
    chosen = next((command for command in commands if not _is_shell(command)), "")
    chosen = chosen or (commands[-1] if commands else "")
    return Redactor().redact_line(chosen, COMMAND_CHARACTERS)


def _is_shell(command: str) -> bool:
    return os.path.basename(command.split(" ", 1)[0]).lstrip("-") in SHELLS
