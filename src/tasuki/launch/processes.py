"""The processes of agents: who runs a hook, with which environment, and which have a thread open.

Some agents withhold their keys from hooks; other variables must not reach a successor. The
search for programs that have a thread open is best effort: no result proves nothing.
"""

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from tasuki.harness import registry as harnesses
from tasuki.harness.optional import list_running
from tasuki.harness.protocol import RunningProgram
from tasuki.model import Thread
from tasuki.text_safety import shorten_to_line

SHELLS = frozenset({"sh", "dash", "bash", "zsh", "ash", "busybox", "ksh", "mksh", "fish"})
MOST = 12
"""Steps up from a process; a hook is two or three below its harness."""


def read_boot_id() -> str:
    """Read the id of the machine's present boot; `-` where the system has none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return "-"


def find_program_above(pid: int) -> int | None:
    """Find the nearest process at or above `pid` that is no shell: the program that ran a hook.

    None where the process is gone, or nothing but shells is above it.
    """
    for _ in range(MOST):
        if pid <= 1 or (parent_and_name := _read_parent_and_name(pid)) is None:
            return None
        parent, name = parent_and_name
        if name.lstrip("-") not in SHELLS:
            return pid
        pid = parent
    return None


def is_below(pid: int, ancestor: int) -> bool:
    """Tell whether a process is another one, or was started by it, directly or indirectly."""
    for _ in range(MOST):
        if pid == ancestor:
            return True
        if pid <= 1 or (parent_and_name := _read_parent_and_name(pid)) is None:
            return False
        pid = parent_and_name[0]
    return False


def list_ancestors(pid: int) -> list[int]:
    """List a process and those that started it, the nearest first."""
    ancestors: list[int] = []
    while pid > 1 and len(ancestors) < MOST:
        ancestors.append(pid)
        parent_and_name = _read_parent_and_name(pid)
        pid = parent_and_name[0] if parent_and_name else 0
    return ancestors


def _read_parent_and_name(pid: int) -> tuple[int, str] | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            before, _, after = file.read(4096).decode(errors="replace").rpartition(")")
        return int(after.split()[1]), before.partition("(")[2]
    except (OSError, IndexError, ValueError):
        return None if os.path.isdir("/proc/self") else _read_by_ps(pid)


def _read_by_ps(pid: int) -> tuple[int, str] | None:
    """Read the same on macOS, which has no /proc."""
    call = ("ps", "-o", "ppid=,comm=", "-p", str(pid))
    try:
        done = subprocess.run(call, capture_output=True, text=True, timeout=2, check=False)
        parent, _, name = done.stdout.strip().partition(" ")
        return int(parent), os.path.basename(name.strip())
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None


def find_start_time(pid: int) -> str:
    """Find when a process began, in words that differ for another one with the same number.

    It is empty if the process is gone.
    """
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read(4096).decode(errors="replace").rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        if os.path.isdir("/proc/self"):
            return ""
    call = ("ps", "-o", "lstart=", "-p", str(pid))
    try:
        return subprocess.run(
            call, capture_output=True, text=True, timeout=2, check=False
        ).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return ""


def is_alive(pid: int, start_time: str = "") -> bool:
    """Tell whether a process runs, is no zombie, and began at `start_time` (where known)."""
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:
            fields = file.read(4096).rpartition(b")")[2].split()
        state, now = fields[0].decode(), fields[19].decode()
    except (OSError, IndexError):
        if os.path.isdir("/proc/self"):
            return False
        state, now = "", find_start_time(pid)  # macOS has no /proc
    return bool(now) and (not start_time or now == start_time) and state not in ("Z", "X")


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
    for name in os.listdir("/proc") if os.path.isdir("/proc/self") else ():
        try:
            if name.isdigit() and os.getpgid(int(name)) == group:
                members.append(int(name))
        except OSError:
            continue
    return sorted(members)


def _find_foreground_group(pid: int) -> int | None:
    """Find the process group that has the terminal of a process."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            leader = int(file.read(4096).decode(errors="replace").rpartition(")")[2].split()[5])
    except (OSError, IndexError, ValueError):
        if os.path.isdir("/proc/self"):
            return None
        call = ("ps", "-o", "tpgid=", "-p", str(pid))
        try:
            done = subprocess.run(call, capture_output=True, text=True, timeout=2, check=False)
            leader = int(done.stdout)
        except (OSError, ValueError, subprocess.TimeoutExpired):
            return None
    return leader if leader > 1 else None


def is_shell(pid: int) -> bool:
    """Tell whether a process is a shell, judged by its name."""
    parent_and_name = _read_parent_and_name(pid)
    return parent_and_name is not None and parent_and_name[1].lstrip("-") in SHELLS


def find_working_folder(pid: int) -> str:
    """Find the folder that a process works in, `/` where that is unknown."""
    try:
        return os.readlink(f"/proc/{pid}/cwd")
    except OSError:
        pass
    call = ("lsof", "-a", "-d", "cwd", "-Fn", "-p", str(pid))
    try:
        done = subprocess.run(call, capture_output=True, text=True, timeout=2, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return os.sep
    names = [line[1:] for line in done.stdout.splitlines() if line.startswith("n/")]
    return names[0] if names else os.sep


PROC = Path("/proc")
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
        name, parent = _read_process(pid)
        if parent <= 1 or name.startswith("tmux"):
            break
        variables = _read_environment(pid) | variables
        pid = parent
    return {
        k: v for k, v in variables.items() if k not in os.environ and k not in PROCESS_VARIABLES
    }


def _read_environment(pid: int) -> dict[str, str]:
    try:
        raw = (PROC / str(pid) / "environ").read_bytes()
    except OSError:
        return {}
    pairs = (os.fsdecode(word).partition("=") for word in raw.split(b"\0") if b"=" in word)
    return {name: value for name, _, value in pairs}


def _read_process(pid: int) -> tuple[str, int]:
    """Read the name and parent of a process, empty and 0 where it cannot be looked into."""
    try:
        status = (PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return "", 0
    head, _, rest = status.rpartition(")")
    return head.partition("(")[2], int(rest.split()[1])


BUDGET = 0.03
"""Seconds that the search through the processes may take."""


def find_running_programs(thread: Thread) -> list[str]:
    """Return one sentence for each running program that seems to have the thread open.

    Some programs say so themselves. For the others, on Linux, a process of the harness counts that
    holds the file open or was started with its path or id.
    """
    harness = harnesses.get_harness(thread.harness)
    alive = (one for one in list_running(harness, thread.id) if _is_alive(one.pid, one.began))
    return [_describe(harness.title, one) for one in alive] or list(_find_processes(thread))


def _describe(title: str, running: RunningProgram) -> str:
    where = shorten_to_line(f", tmux {running.tmux}" if running.tmux else "", 60)
    state = f" and is {shorten_to_line(running.state, 20)}" if running.state else ""
    return f"{title} (process {running.pid}{where}) has this thread open{state}."


def _is_alive(pid: int, start_time: str) -> bool:
    """Tell whether a process runs and, where both times are known, began at `start_time`."""
    if pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass
    actual = _read_start_time(pid)
    return not start_time or not actual or actual == start_time


def _read_start_time(pid: int) -> str:
    """Read the start of a process in clock ticks since boot; empty where there is no /proc."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


def _find_processes(thread: Thread) -> Iterator[str]:
    names = harnesses.find_facts(thread.harness).process_names or (thread.harness,)
    deadline = time.monotonic() + BUDGET
    with suppress(OSError):
        for pid in os.listdir("/proc"):
            if time.monotonic() > deadline:
                return
            if pid.isdigit() and int(pid) != os.getpid():
                with suppress(OSError):
                    yield from _check_process(pid, names, thread)


def _check_process(pid: str, names: tuple[str, ...], thread: Thread) -> Iterator[str]:
    with open(f"/proc/{pid}/cmdline", "rb") as file:
        argv = file.read(65536).decode(errors="replace").rstrip("\0").split("\0")
    if not any(_is_program(word, names) for word in argv[:2]):
        return
    named = any(word in (thread.id, thread.path) for word in argv[1:] if word)
    if named or _has_open_file(pid, thread.path):
        yield f"{shorten_to_line(os.path.basename(argv[0]), 40)} (process {pid}) has this thread open."


def _is_program(word: str, names: tuple[str, ...]) -> bool:
    parts = word.partition(" ")[0].split("/")
    candidates = parts if "node_modules" in parts else parts[-1:]
    return not set(names).isdisjoint(candidates)


def _has_open_file(pid: str, path: str) -> bool:
    folder = f"/proc/{pid}/fd"
    for number in os.listdir(folder):
        with suppress(OSError):
            if os.readlink(f"{folder}/{number}") == path:
                return True
    return False
