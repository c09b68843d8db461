"""Read git's state of a folder with two short calls that change nothing."""

import os
import subprocess
from pathlib import Path

from tasuki.model import Revision

TIMEOUT = 2.0
"""Seconds; a repository on a dead network share must not hang a handoff."""
_ENV = {"GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0"}
_HOOK_VARIABLES = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_NAMESPACE", "GIT_PREFIX")
"""Variables that a git hook sets. They would point git to another folder than the given one."""
_GIT = ("git", "-c", "core.fsmonitor=false")
"""The setting is overridden because a repository's own could name a program to run."""


def run_git(cwd: str | Path, *arguments: str) -> str | None:
    """Return the standard output of one git command, or None without git or a repository."""
    try:
        result = subprocess.run(
            (*_GIT, "-C", str(cwd), *arguments),
            capture_output=True,
            timeout=TIMEOUT,
            env=_build_environment(),
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired, ValueError):
        return None
    return result.stdout.decode("utf-8", "backslashreplace") if result.returncode == 0 else None


def _build_environment() -> dict[str, str]:
    return {k: v for k, v in os.environ.items() if k not in _HOOK_VARIABLES} | _ENV


class GitProbe:
    """`git status` of a folder, started at once and waited for on demand."""

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
                env=_build_environment(),
            )
        except (OSError, ValueError):
            self._process = None

    def read_revision(self) -> Revision:
        """Return the current branch, HEAD and changed files, or nothing without a repository."""
        if self._process is None:
            return Revision()
        try:
            output, _ = self._process.communicate(timeout=TIMEOUT)
        except subprocess.TimeoutExpired:
            self._process.kill()  # Not read to the end: a program that git started may hold the pipe open.
            self._process.wait()
            return Revision()
        if self._process.returncode != 0:
            return Revision()
        return parse_status(output.decode("utf-8", "backslashreplace"))


def parse_status(output: str) -> Revision:
    """Return the revision in the output of `git status --porcelain=v2 --branch -z`."""
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


def find_in_tree(cwd: str, candidates: list[str]) -> set[str] | None:
    """Return which texts occur in tracked files of a repository; None if git takes too long."""
    if not candidates:
        return set()
    arguments = [a for c in candidates for a in ("-e", c)]
    try:
        result = subprocess.run(
            (*_GIT, "-C", cwd, "grep", "-ohIF", "--max-count=2", *arguments),
            capture_output=True,
            timeout=0.4,
            env=_build_environment(),
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired, ValueError):
        return None
    if result.returncode not in (0, 1):
        return None
    return set(result.stdout.decode("utf-8", "replace").split("\n")) - {""}
