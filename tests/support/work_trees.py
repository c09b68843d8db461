"""Repositories in which an agent works: made with real git, from nothing of this computer's settings."""

import os
import subprocess
from pathlib import Path
from typing import Any

import fleet_rows

from tasuki.fleet.changes.records import ChangedFile, FileDiff, WorkChanges
from tasuki.fleet.changes.work import read_changes
from tasuki.fleet.store.models import FleetAgent

ENVIRONMENT = {"HOME": "/nowhere", "GIT_CONFIG_NOSYSTEM": "1", "PATH": os.environ["PATH"]}


class WorkFolder:
    """A repository with one commit, and the agent that begins at it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        self.git("init", "-q", "-b", "main")
        self.write("app.py", "one\ntwo\nthree\n")
        self.write("notes.md", "# Notes\n")
        self.begun = self.commit("First")

    def git(self, *arguments: str) -> str:
        """Run git; what it prints."""
        names = ("-c", "user.name=Ann", "-c", "user.email=ann@example.com")
        done = subprocess.run(
            ["git", *names, "-C", str(self.folder), *arguments],
            capture_output=True, text=True, check=True, env=ENVIRONMENT,
        )  # fmt: skip
        return done.stdout.strip()

    def write(self, name: str, text: str) -> Path:
        """Write a file."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def commit(self, subject: str, *options: str) -> str:
        """Commit everything; the hash."""
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", subject, *options)
        return self.git("rev-parse", "HEAD")

    def agent(self, **values: Any) -> FleetAgent:
        """The agent that began at the first commit."""
        given = {"cwd": str(self.folder), "begun_commit": self.begun, "begun_branch": "main"}
        return fleet_rows.agent(**{**given, **values})

    def read(self, diff: str = "all", **values: Any) -> WorkChanges:
        """What the agent changed."""
        return read_changes(self.agent(**values), diff=diff)


def by_path(changes: WorkChanges) -> dict[str, ChangedFile]:
    """The files of an agent's work."""
    return {file.path: file for file in changes.files}


def diff_of(changes: WorkChanges, path: str) -> FileDiff:
    """The differences of one file."""
    key = by_path(changes)[path].key
    return next(diff for diff in changes.diffs if diff.key == key)
