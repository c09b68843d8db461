"""Find programs that still have a thread open. Best effort: no result proves nothing."""

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from tasuki.model import Thread
from tasuki.paths import find_home_folder
from tasuki.text_safety import shorten_to_line

BUDGET = 0.03
"""Seconds that the search through the processes may take."""
PROGRAMS = {
    "claude": ("claude",),
    "codex": ("codex",),
    "pi": ("pi", "pi-coding-agent"),
    "omp": ("omp", "pi-coding-agent"),
    "gemini": ("gemini", "gemini-cli"),
    "opencode": ("opencode", "opencode-ai"),
    "copilot": ("copilot",),
}
"""Names of programs and packages by which a harness is recognized in a command line."""


class _RunningClaudeSession(Struct):
    pid: int
    sessionId: str = ""
    procStart: str = ""
    status: str = ""
    tmux: str = ""


def find_running_programs(thread: Thread) -> list[str]:
    """Return one sentence for each running program that seems to have the thread open.

    Claude Code says so itself, in `sessions/<pid>.json` (2.1.330). For the others, on Linux, a
    process of the harness counts that holds the file open or was started with its path or id.
    """
    if thread.harness == "claude" and (sentences := list(_find_claude_sessions(thread))):
        return sentences
    return list(_find_processes(thread))


def _find_claude_sessions(thread: Thread) -> Iterator[str]:
    base = os.environ.get("CLAUDE_CONFIG_DIR")
    folder = (Path(base) if base else find_home_folder() / ".claude") / "sessions"
    for path in folder.glob("*.json"):
        with suppress(OSError, ValueError, RecursionError):
            session = msgspec.json.decode(path.read_bytes(), type=_RunningClaudeSession)
            if session.sessionId == thread.id and _is_alive(session.pid, session.procStart):
                where = shorten_to_line(f", tmux {session.tmux}" if session.tmux else "", 60)
                state = f" and is {shorten_to_line(session.status, 20)}" if session.status else ""
                yield f"Claude Code (process {session.pid}{where}) has this thread open{state}."


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
    names = PROGRAMS.get(thread.harness, (thread.harness,))
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
