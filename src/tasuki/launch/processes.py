"""The processes of agents: who runs a hook, whether a process is still the one that was meant."""

import os
import subprocess

SHELLS = frozenset({"sh", "dash", "bash", "zsh", "ash", "busybox", "ksh", "mksh", "fish"})
MOST = 12
"""Steps up from a process; a hook is two or three below its harness."""


def program_above(pid: int) -> int | None:
    """The nearest process at or above `pid` that is no shell: the program that ran a hook.

    None where the process is gone, or nothing but shells is above it.
    """
    for _ in range(MOST):
        if pid <= 1 or (found := _parent_and_name(pid)) is None:
            return None
        parent, name = found
        if name.lstrip("-") not in SHELLS:
            return pid
        pid = parent
    return None


def is_below(pid: int, above: int) -> bool:
    """Whether a process is another one, or was started by it, by one that it started, and so on."""
    for _ in range(MOST):
        if pid == above:
            return True
        if pid <= 1 or (found := _parent_and_name(pid)) is None:
            return False
        pid = found[0]
    return False


def above(pid: int) -> list[int]:
    """A process and those that it was started by, the nearest first."""
    found: list[int] = []
    while pid > 1 and len(found) < MOST:
        found.append(pid)
        known = _parent_and_name(pid)
        pid = known[0] if known else 0
    return found


def _parent_and_name(pid: int) -> tuple[int, str] | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            before, _, after = file.read(4096).decode(errors="replace").rpartition(")")
        return int(after.split()[1]), before.partition("(")[2]
    except (OSError, IndexError, ValueError):
        return None if os.path.isdir("/proc/self") else _by_ps(pid)


def _by_ps(pid: int) -> tuple[int, str] | None:
    """The same on macOS, which has no /proc."""
    call = ("ps", "-o", "ppid=,comm=", "-p", str(pid))
    try:
        done = subprocess.run(call, capture_output=True, text=True, timeout=2, check=False)
        parent, _, name = done.stdout.strip().partition(" ")
        return int(parent), os.path.basename(name.strip())
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None


def started_at(pid: int) -> str:
    """When a process began, in words that differ for another one with the same number; empty if gone."""
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


def is_alive(pid: int, began: str = "") -> bool:
    """Whether a process runs, is no zombie, and began when it is said to (where that is known)."""
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:
            fields = file.read(4096).rpartition(b")")[2].split()
        state, now = fields[0].decode(), fields[19].decode()
    except (OSError, IndexError):
        if os.path.isdir("/proc/self"):
            return False
        state, now = "", started_at(pid)  # macOS has no /proc
    return bool(now) and (not began or now == began) and state not in ("Z", "X")


def send_signal(pid: int, number: int, began: str = "") -> bool:
    """Send a signal, if the process is still the one that is meant; whether it was sent."""
    if not is_alive(pid, began):
        return False
    try:
        os.kill(pid, number)
    except OSError:
        return False
    return True


def foreground(pid: int) -> int | None:
    """The process that has the terminal of `pid`: a shell itself, or the program that it runs.

    Of a pipe whose first program has ended (`cat brief | agent`) it is one that still runs. None
    where `pid` has no terminal, or is gone.
    """
    group = _front(pid)
    if group is None or is_alive(group):
        return group
    return next((one for one in _members(group) if is_alive(one)), None)


def has_terminal(process: int, pane: int) -> bool:
    """Whether a process has the terminal that `pane` runs in; not while it is stopped, or behind.

    True where nobody tells.
    """
    front = _front(pane)
    try:
        return front is None or os.getpgid(process) == front
    except OSError:
        return True


def _members(group: int) -> list[int]:
    """The processes of a group, the oldest first; none where there is no /proc."""
    found = []
    for name in os.listdir("/proc") if os.path.isdir("/proc/self") else ():
        try:
            if name.isdigit() and os.getpgid(int(name)) == group:
                found.append(int(name))
        except OSError:
            continue
    return sorted(found)


def _front(pid: int) -> int | None:
    """The process group that has the terminal of a process."""
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
    """Whether a process is a shell, as far as its name tells."""
    found = _parent_and_name(pid)
    return found is not None and found[1].lstrip("-") in SHELLS


def working_folder(pid: int) -> str:
    """The folder that a process works in, `/` where nobody tells."""
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
