"""The processes of agents: who runs a hook, and whether a process is still the expected one."""

import os
import subprocess

SHELLS = frozenset({"sh", "dash", "bash", "zsh", "ash", "busybox", "ksh", "mksh", "fish"})
MOST = 12
"""Steps up from a process; a hook is two or three below its harness."""


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
