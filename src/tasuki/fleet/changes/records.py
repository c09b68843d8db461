"""What is said of an agent's work: branch, commits, files, and their differences. Without secrets."""

from typing import Literal

from msgspec import Struct

Since = Literal["start", "handoff"]
"""Where the work begins that is shown: with the agent, or with its last handoff document."""


class WorkCommit(Struct, frozen=True):
    """A commit: its whole hash, its subject on one line, and when it was committed."""

    hash: str
    subject: str
    at: float
    author: str


class ChangedFile(Struct, frozen=True):
    """A file that differs from the start, committed or not."""

    key: str
    """Names the file in addresses; paths need not be text."""
    path: str
    """Relative to the top of the repository, as it can be shown on one line."""
    state: Literal["added", "changed", "deleted", "renamed", "conflicted", "untracked"]
    old_path: str = ""
    added: int | None = None
    """Lines; None for a binary file, and for one that is too large to be counted."""
    removed: int | None = None


class FileDiff(Struct, frozen=True):
    """The differences of one file: lines of a unified diff from the first `@@` on."""

    key: str
    lines: tuple[str, ...] = ()
    more: int | None = 0
    """Lines that are left out; None for an unknown number."""
    note: str = ""
    """Why there are no lines: binary, a mode, a symbolic link."""


class WorkChanges(Struct, frozen=True):
    """What an agent changed since it began, or since its last handoff document."""

    agent_id: int
    at: float
    """When it was read, in seconds since 1970."""
    since: Since = "start"
    problem: str = ""
    """Why nothing is known, as a sentence; empty where something is."""
    folder: str = ""
    """Whole path of the top of the work tree."""
    branch: str = ""
    """Empty where HEAD is on none."""
    upstream: str = ""
    ahead: int = 0
    behind: int = 0
    head: str = ""
    base: str = ""
    """The commit with which the work tree is compared; empty for a comparison with nothing."""
    note: str = ""
    """What is uncertain about that commit, as a sentence."""
    begun_branch: str = ""
    added: int = 0
    removed: int = 0
    commit_count: int = 0
    commits: tuple[WorkCommit, ...] = ()
    """The newest first; not all where there are many."""
    file_count: int = 0
    files: tuple[ChangedFile, ...] = ()
    diffs: tuple[FileDiff, ...] = ()
    """Of files in the same order; empty unless it was asked for."""
    left_out: str = ""
    """What is not listed or counted, as a sentence."""
