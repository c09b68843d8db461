"""The environment of the agent that called a hook: some keep their keys from what they start."""

import os
from pathlib import Path

PROC = Path("/proc")
STEPS = 8
"""Ancestors that are looked at: a shell or two, the agent, its launcher."""
OF_THE_PROCESS = frozenset(("NODE_CHANNEL_FD", "NODE_CHANNEL_SERIALIZATION_MODE", "NODE_UNIQUE_ID",
                            "LISTEN_FDS", "LISTEN_PID", "NOTIFY_SOCKET", "_", "SHLVL", "OLDPWD"))  # fmt: skip
"""What means one process alone: a node that is told of a channel which it was not given ends at once."""


def kept_back() -> dict[str, str]:
    """Variables of the agent that its hook was not given, so that a successor can have them.

    Of several ancestors that have one the nearest tells its value; none beyond the pane is asked.
    Empty where processes cannot be looked into. The values may be secrets: they go to the
    successor's process and nowhere else.
    """
    found: dict[str, str] = {}
    pid = os.getppid()
    for _ in range(STEPS):
        name, parent = _process(pid)
        if parent <= 1 or name.startswith("tmux"):
            break
        found = _environment(pid) | found
        pid = parent
    return {k: v for k, v in found.items() if k not in os.environ and k not in OF_THE_PROCESS}


def _environment(pid: int) -> dict[str, str]:
    try:
        raw = (PROC / str(pid) / "environ").read_bytes()
    except OSError:
        return {}
    pairs = (os.fsdecode(word).partition("=") for word in raw.split(b"\0") if b"=" in word)
    return {name: value for name, _, value in pairs}


def _process(pid: int) -> tuple[str, int]:
    """Name and parent of a process, empty and 0 where it cannot be looked into."""
    try:
        status = (PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return "", 0
    head, _, rest = status.rpartition(")")
    return head.partition("(")[2], int(rest.split()[1])
