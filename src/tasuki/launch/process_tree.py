"""The processes below a program, with the processor time that they have used. Linux alone tells that."""

import os
from collections.abc import Iterator

from msgspec import Struct

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
MOST_COMMAND_BYTES = 4096


class RunningProcess(Struct, frozen=True, gc=False):
    """One process: its parent, when it started (ticks since boot), and its processor time in seconds."""

    pid: int
    parent: int
    started: int
    seconds: float


class ProcessTree:
    """All processes of this machine at one moment."""

    def __init__(self, processes: dict[int, RunningProcess]) -> None:
        self.processes = processes
        self._children: dict[int, list[RunningProcess]] = {}
        for process in processes.values():
            self._children.setdefault(process.parent, []).append(process)

    def list_below(self, pid: int) -> list[RunningProcess]:
        """List the processes that a process started, directly or indirectly, the newest last."""
        found: dict[int, RunningProcess] = {}
        waiting = [pid]
        while waiting:
            for child in self._children.get(waiting.pop(), ()):
                if child.pid not in found:
                    found[child.pid] = child
                    waiting.append(child.pid)
        return sorted(found.values(), key=lambda process: (process.started, process.pid))


def read_process_tree() -> ProcessTree | None:
    """Read all processes; None on a system without /proc."""
    if not os.path.isdir("/proc/self"):
        return None
    return ProcessTree({process.pid: process for process in _read_processes()})


def _read_processes() -> Iterator[RunningProcess]:
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb", buffering=0) as file:
                fields = file.read(4096).rpartition(b")")[2].split()
            used = (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND
            yield RunningProcess(int(name), int(fields[1]), int(fields[19]), used)
        except (OSError, IndexError, ValueError):
            continue


def read_command(pid: int) -> str:
    """Read the command line of a process, its words separated by spaces; empty where it is gone."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb", buffering=0) as file:
            words = file.read(MOST_COMMAND_BYTES).rstrip(b"\0").split(b"\0")
    except OSError:
        return ""
    return " ".join(word.decode("utf-8", "replace") for word in words)
