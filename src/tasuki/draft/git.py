"""What git says about a folder, in two short calls that change nothing."""

import os
import subprocess
from pathlib import Path

from tasuki.model import Revision

TIMEOUT = 2.0
"""Seconds; a repository on a dead network share must not hang a handoff."""
_ENV = {"GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0"}
_ELSEWHERE = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_NAMESPACE", "GIT_PREFIX")
"""Variables that a hook of git sets: they would lead away from the folder that is asked about."""
_GIT = ("git", "-c", "core.fsmonitor=false")
"""A repository's own setting could name a program to run."""


def git(cwd: str | Path, *arguments: str) -> str | None:
    """Standard output of one git command, None if git or the repository is not there."""
    try:
        done = subprocess.run(
            (*_GIT, "-C", str(cwd), *arguments),
            capture_output=True,
            timeout=TIMEOUT,
            env=_environment(),
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired, ValueError):
        return None
    return done.stdout.decode("utf-8", "backslashreplace") if done.returncode == 0 else None


def _environment() -> dict[str, str]:
    return {k: v for k, v in os.environ.items() if k not in _ELSEWHERE} | _ENV


class Probe:
    """`git status` of a folder, started at once and waited for when asked."""

    def __init__(self, cwd: str) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        if not cwd or not os.path.isdir(cwd):
            return
        try:
            self._process = subprocess.Popen(
                (*_GIT, "-C", cwd, "status", "--porcelain=v2", "--branch", "-z"),
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                stdin=subprocess.DEVNULL,
                env=_environment(),
            )
        except (OSError, ValueError):
            self._process = None

    def revision(self) -> Revision:
        """Branch, HEAD and changed files now; nothing where there is no repository."""
        if self._process is None:
            return Revision()
        try:
            output, _ = self._process.communicate(timeout=TIMEOUT)
        except subprocess.TimeoutExpired:
            self._process.kill()  # Not read to the end: what git started may hold the pipe open.
            self._process.wait()
            return Revision()
        if self._process.returncode != 0:
            return Revision()
        return parse_status(output.decode("utf-8", "backslashreplace"))


def parse_status(output: str) -> Revision:
    """A revision from `git status --porcelain=v2 --branch -z`."""
    head = branch = ""
    dirty: list[str] = []
    skip = False
    for field in output.split("\0"):
        if skip:
            skip = False
        elif field.startswith("# branch.oid "):
            head = field[13:].replace("(initial)", "")
        elif field.startswith("# branch.head "):
            branch = field[14:].replace("(detached)", "")
        elif field.startswith("1 "):
            dirty.append(field.split(" ", 8)[-1])
        elif field.startswith("2 "):
            dirty.append(field.split(" ", 9)[-1])
            skip = True
        elif field.startswith("u "):
            dirty.append(field.split(" ", 10)[-1])
        elif field.startswith("? "):
            dirty.append(field[2:])
    return Revision(branch_now=branch, head_now=head, dirty_now=tuple(dirty), repository=True)


def occurring_in_tree(cwd: str, candidates: list[str]) -> set[str] | None:
    """Which texts occur in tracked files of a repository; None if that cannot be told in time."""
    if not candidates:
        return set()
    arguments = [a for c in candidates for a in ("-e", c)]
    try:
        done = subprocess.run(
            (*_GIT, "-C", cwd, "grep", "-ohIF", "--max-count=2", *arguments),
            capture_output=True,
            timeout=0.4,
            env=_environment(),
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired, ValueError):
        return None
    if done.returncode not in (0, 1):
        return None
    return set(done.stdout.decode("utf-8", "replace").split("\n")) - {""}
