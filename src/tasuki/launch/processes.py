"""The processes of this machine: who runs a hook, with which environment, and which have a thread open.

Some agents withhold their keys from hooks; other variables must not reach a successor. The
search for programs that have a thread open is best effort: no result proves nothing. Linux tells
everything in /proc; macOS, where `ps` is asked, tells of one process at a time.
"""

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from tasuki.harness import registry as harnesses
from tasuki.harness.optional import list_running
from tasuki.model import Thread
from tasuki.text_safety import shorten_to_line

SHELLS = frozenset({"sh", "dash", "bash", "zsh", "ash", "busybox", "ksh", "mksh", "fish"})
MOST = 12
"""Steps up from a process; a hook is two or three below its harness."""
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
MOST_COMMAND_BYTES = 4096


class RunningProcess(Struct, frozen=True, gc=False):
    """One process as /proc shows it. Source: proc(5), `/proc/PID/stat`."""

    pid: int
    name: str
    state: str
    parent: int
    front: int
    """The process group that has its terminal; -1 for none."""
    seconds: float
    """The processor time that it used."""
    started: int
    """When it began, in ticks since boot."""


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
    processes = map(read_process, _list_pids())
    return ProcessTree({process.pid: process for process in processes if process})


def read_process(pid: int) -> RunningProcess | None:
    """Read what /proc shows of a process; None where it is gone, or there is no /proc."""
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:
            head, _, rest = file.read(4096).decode(errors="replace").rpartition(")")
        fields = rest.split()
        used = (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND
        return RunningProcess(
            pid, head.partition("(")[2], fields[0], int(fields[1]), int(fields[5]), used, int(fields[19])
        )  # fmt: skip
    except (OSError, IndexError, ValueError):
        return None


def read_command(pid: int) -> str:
    """Read the command line of a process, its words separated by spaces; empty where it is gone."""
    try:
        return " ".join(_read_arguments(pid, MOST_COMMAND_BYTES))
    except OSError:
        return ""


def _read_arguments(pid: int, most: int) -> list[str]:
    with open(f"/proc/{pid}/cmdline", "rb", buffering=0) as file:
        return file.read(most).decode(errors="replace").rstrip("\0").split("\0")


def _list_pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _ask_ps(columns: str, pid: int) -> str:
    """Ask `ps` about a process on a system without /proc; empty where it is gone."""
    if os.path.isdir("/proc/self"):
        return ""
    return _run("ps", "-o", columns, "-p", str(pid)).strip()


def _run(*command: str) -> str:
    """Return what a command prints; empty where it cannot be run."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=2, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout


def read_boot_id() -> str:
    """Read the id of the machine's present boot; `-` where the system has none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return "-"


def list_ancestors(pid: int) -> list[int]:
    """List a process and those that started it, the nearest first."""
    ancestors: list[int] = []
    while pid > 1 and len(ancestors) < MOST:
        ancestors.append(pid)
        pid, _ = _read_parent_and_name(pid) or (0, "")
    return ancestors


def is_below(pid: int, ancestor: int) -> bool:
    """Tell whether a process is another one, or was started by it, directly or indirectly."""
    return ancestor in list_ancestors(pid)


def find_program_above(pid: int) -> int | None:
    """Find the nearest process at or above `pid` that is no shell: the program that ran a hook.

    None where the process is gone, or nothing but shells is above it.
    """
    for one in list_ancestors(pid):
        parent_and_name = _read_parent_and_name(one)
        if parent_and_name is None or not _is_shell_name(parent_and_name[1]):
            return one if parent_and_name else None
    return None


def is_shell(pid: int) -> bool:
    """Tell whether a process is a shell, judged by its name."""
    parent_and_name = _read_parent_and_name(pid)
    return parent_and_name is not None and _is_shell_name(parent_and_name[1])


def _is_shell_name(name: str) -> bool:
    return name.lstrip("-") in SHELLS


def _read_parent_and_name(pid: int) -> tuple[int, str] | None:
    if process := read_process(pid):
        return process.parent, process.name
    parent, _, name = _ask_ps("ppid=,comm=", pid).partition(" ")
    return (int(parent), os.path.basename(name.strip())) if parent.isdecimal() else None


def find_start_time(pid: int) -> str:
    """Find when a process began, in words that differ for another one with the same number.

    It is empty if the process is gone.
    """
    process = read_process(pid)
    return str(process.started) if process else _ask_ps("lstart=", pid)


def is_alive(pid: int, start_time: str = "") -> bool:
    """Tell whether a process runs, is no zombie, and began at `start_time` (where known)."""
    process = read_process(pid)
    now = str(process.started) if process else _ask_ps("lstart=", pid)
    is_ended = process is not None and process.state in ("Z", "X")
    return bool(now) and (not start_time or now == start_time) and not is_ended


def send_signal(pid: int, number: int, start_time: str = "") -> bool:
    """Send a signal if the process is still the expected one; return whether it was sent."""
    if not is_alive(pid, start_time):
        return False
    try:
        os.kill(pid, number)
    except OSError:
        return False
    return True


def find_foreground(pid: int) -> int | None:
    """Find the process that has the terminal of `pid`: a shell, or the program that it runs.

    Of a pipe whose first program has ended (`cat brief | agent`) it is one that still runs.
    None where `pid` has no terminal, or is gone.
    """
    group = _find_foreground_group(pid)
    if group is None or is_alive(group):
        return group
    return next((one for one in _list_members(group) if is_alive(one)), None)


def has_terminal(process: int, pane: int) -> bool:
    """Tell whether a process has the terminal that `pane` runs in.

    It has not while it is stopped or in the background. True where that is unknown.
    """
    front = _find_foreground_group(pane)
    try:
        return front is None or os.getpgid(process) == front
    except OSError:
        return True


def _list_members(group: int) -> list[int]:
    """List the processes of a group, the oldest first; none where there is no /proc."""
    members = []
    for pid in _list_pids() if os.path.isdir("/proc/self") else ():
        with suppress(OSError):
            if os.getpgid(pid) == group:
                members.append(pid)
    return sorted(members)


def _find_foreground_group(pid: int) -> int | None:
    process = read_process(pid)
    group = str(process.front) if process else _ask_ps("tpgid=", pid)
    return int(group) if group.isdecimal() and int(group) > 1 else None


def find_working_folder(pid: int) -> str:
    """Find the folder that a process works in, `/` where that is unknown."""
    try:
        return os.readlink(f"/proc/{pid}/cwd")
    except OSError:
        lines = _run("lsof", "-a", "-d", "cwd", "-Fn", "-p", str(pid)).splitlines()
    return next((line[1:] for line in lines if line.startswith("n/")), os.sep)


MOST_ANCESTORS = 8
"""Most ancestors that are looked at: a shell or two, the agent, its launcher."""
PROCESS_VARIABLES = frozenset(("NODE_CHANNEL_FD", "NODE_CHANNEL_SERIALIZATION_MODE", "NODE_UNIQUE_ID",
                            "LISTEN_FDS", "LISTEN_PID", "NOTIFY_SOCKET", "_", "SHLVL", "OLDPWD"))  # fmt: skip
"""Variables of one process: node ends at once if it names a channel that it did not get."""


def find_withheld_variables() -> dict[str, str]:
    """Find variables of the agent that its hook did not get, so that a successor can have them.

    Of several ancestors that have one the nearest counts; none beyond the pane is asked. Empty
    where processes cannot be looked into. The values may be secrets: they go to the successor's
    process and nowhere else.
    """
    variables: dict[str, str] = {}
    pid = os.getppid()
    for _ in range(MOST_ANCESTORS):
        process = read_process(pid)
        if process is None or process.parent <= 1 or process.name.startswith("tmux"):
            break
        variables = _read_environment(pid) | variables
        pid = process.parent
    return {
        k: v for k, v in variables.items() if k not in os.environ and k not in PROCESS_VARIABLES
    }


def _read_environment(pid: int) -> dict[str, str]:
    try:
        raw = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return {}
    pairs = (os.fsdecode(word).partition("=") for word in raw.split(b"\0") if b"=" in word)
    return {name: value for name, _, value in pairs}


BUDGET = 0.03
"""Seconds that the search through the processes may take."""


def find_running_programs(thread: Thread) -> list[str]:
    """Return one sentence for each running program that seems to have the thread open.

    Some programs say so themselves. For the others, on Linux, a process of the harness counts that
    holds the file open or was started with its path or id.
    """
    harness = harnesses.get_harness(thread.harness)
    sentences = []
    for running in list_running(harness, thread.id):
        # Programs say when they began as /proc does.
        if is_alive(running.pid, running.began if os.path.isdir("/proc/self") else ""):
            where = shorten_to_line(f", tmux {running.tmux}" if running.tmux else "", 60)
            state = f" and is {shorten_to_line(running.state, 20)}" if running.state else ""
            sentences.append(
                f"{harness.title} (process {running.pid}{where}) has this thread open{state}."
            )
    return sentences or list(_find_processes(thread))


def _find_processes(thread: Thread) -> Iterator[str]:
    names = harnesses.find_facts(thread.harness).process_names or (thread.harness,)
    deadline = time.monotonic() + BUDGET
    with suppress(OSError):
        for pid in _list_pids():
            if time.monotonic() > deadline:
                return
            if pid != os.getpid():
                with suppress(OSError):
                    yield from _check_process(pid, names, thread)


def _check_process(pid: int, names: tuple[str, ...], thread: Thread) -> Iterator[str]:
    argv = _read_arguments(pid, 65536)
    if not any(_is_program(word, names) for word in argv[:2]):
        return
    is_open = any(word in (thread.id, thread.path) for word in argv[1:] if word)
    for number in () if is_open else os.listdir(f"/proc/{pid}/fd"):
        with suppress(OSError):
            is_open = is_open or os.readlink(f"/proc/{pid}/fd/{number}") == thread.path
    if is_open:
        yield f"{shorten_to_line(os.path.basename(argv[0]), 40)} (process {pid}) has this thread open."


def _is_program(word: str, names: tuple[str, ...]) -> bool:
    parts = word.partition(" ")[0].split("/")
    candidates = parts if "node_modules" in parts else parts[-1:]
    return not set(names).isdisjoint(candidates)
