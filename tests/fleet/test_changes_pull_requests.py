"""The pull request of a branch, as a scripted `gh` on PATH tells it."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from work_trees import WorkFolder

from tasuki.fleet.changes import pull_requests
from tasuki.fleet.changes.pull_requests import NO_PROGRAM, NONE, NOT_SIGNED_IN, PullRequests

SECRET = "ghp_" + "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC2dF4hJ6"
SAID = {
    "number": 42, "title": "Retry uploads", "state": "OPEN", "isDraft": False,
    "url": "https://github.com/ann/upload/pull/42",
    "statusCheckRollup": [
        {"__typename": "CheckRun", "name": "tests", "status": "COMPLETED", "conclusion": "SUCCESS",
         "detailsUrl": "https://github.com/ann/upload/runs/1"},
        {"__typename": "CheckRun", "name": "lint", "status": "COMPLETED", "conclusion": "FAILURE",
         "detailsUrl": "javascript:alert(1)"},
        {"__typename": "CheckRun", "name": "docs", "status": "IN_PROGRESS", "conclusion": ""},
        {"__typename": "StatusContext", "context": "deploy", "state": "PENDING", "targetUrl": ""},
    ],
}  # fmt: skip


class Scripted:
    """A program `gh` that writes down what it was asked."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.asked = folder / "asked"
        self.says(SAID)

    def says(self, said: Any, *, error: str = "", code: int = 0, seconds: float = 0) -> None:
        """What it says from now on."""
        text = said if isinstance(said, str) else json.dumps(said)
        (self.folder / "said").write_text(text)
        (self.folder / "error").write_text(error)
        program = self.folder / "gh"
        program.write_text(
            f'#!/bin/sh\necho "$PWD $*" >> {self.asked}\nsleep {seconds}\n'
            f"cat {self.folder}/said\ncat {self.folder}/error >&2\nexit {code}\n"
        )
        program.chmod(0o755)

    def count(self) -> int:
        """How often it was asked."""
        return len(self.asked.read_text().splitlines()) if self.asked.exists() else 0


@pytest.fixture
def gh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scripted:
    """A scripted `gh`, first on PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return Scripted(folder)


@pytest.fixture
def work_folder(tmp_path: Path) -> WorkFolder:
    """A repository on the branch main."""
    return WorkFolder(tmp_path / "repository")


def test_number_state_and_checks(gh: Scripted, work_folder: WorkFolder) -> None:
    """Number, title, state and checks are taken over; only a link of https is a link."""
    found = PullRequests().find(str(work_folder.folder))

    assert (42, "Retry uploads", "open", "") == (found.number, found.title, found.state, found.note)
    assert (1, 1, 2) == tuple(found.count(state) for state in ("passed", "failed", "running"))
    assert "https://github.com/ann/upload/runs/1" == found.checks[0].url
    assert "" == found.checks[1].url
    assert (
        f"{work_folder.folder} pr view --json {pull_requests.FIELDS}"
        == gh.asked.read_text().strip()
    )


def test_it_is_asked_once_a_minute(
    gh: Scripted, work_folder: WorkFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second look within a minute asks nothing; another branch is another question."""
    asked = PullRequests()
    for _ in range(3):
        asked.find(str(work_folder.folder))
    once = gh.count()
    work_folder.git("checkout", "-q", "-b", "other")
    asked.find(str(work_folder.folder))
    monkeypatch.setattr(pull_requests, "KEPT_SECONDS", 0.0)
    asked.find(str(work_folder.folder))

    assert (1, 3) == (once, gh.count())


@pytest.mark.parametrize(
    ("said", "error", "code", "note"),
    [
        ("", "no pull requests found for branch \"main\"", 1, NONE),
        ("", "no git remotes found", 1, NONE),
        ("", "To get started with GitHub CLI, please run:  gh auth login", 4, NOT_SIGNED_IN),
        ("", f"boom {SECRET}\x1b[31m", 1, "gh failed: boom [REDACTED:github-token]"),
        ("", "", 1, "gh failed."),
        ("nonsense", "", 0, "gh said what tasuki does not understand. Its version may be too old."),
        ([1, 2], "", 0, "gh said what tasuki does not understand. Its version may be too old."),
        ({"number": "x"}, "", 0, "gh said what tasuki does not understand. Its version may be too old."),
        ({"number": 1, "statusCheckRollup": [1]}, "", 0,
         "gh said what tasuki does not understand. Its version may be too old."),
    ],
)  # fmt: skip
def test_what_gh_cannot_say_is_a_note(
    gh: Scripted, work_folder: WorkFolder, said: Any, error: str, code: int, note: str
) -> None:
    """Without an answer there is a sentence, without secrets and control characters."""
    gh.says(said, error=error, code=code)
    found = PullRequests().find(str(work_folder.folder))

    assert (0, note) == (found.number, found.note)


def test_secrets_and_drafts(gh: Scripted, work_folder: WorkFolder) -> None:
    """A title is redacted; a draft is called one."""
    gh.says({**SAID, "title": f"Use {SECRET}", "isDraft": True})
    found = PullRequests().find(str(work_folder.folder))

    assert SECRET not in found.title
    assert "draft" == found.state


def test_a_slow_gh(gh: Scripted, work_folder: WorkFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """A `gh` that does not answer is not waited for."""
    monkeypatch.setattr(pull_requests, "GH_SECONDS", 0.2)
    gh.says(SAID, seconds=30)

    assert "did not answer" in PullRequests().find(str(work_folder.folder)).note


def test_without_gh_or_branch(
    gh: Scripted, work_folder: WorkFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without `gh`, without a branch and without a repository it is a note, and nothing is asked."""
    work_folder.git("checkout", "-q", "--detach")
    detached = PullRequests().find(str(work_folder.folder)).note
    plain = PullRequests().find(str(tmp_path)).note
    monkeypatch.setenv("PATH", "/nowhere")
    missing = PullRequests().find(str(work_folder.folder)).note

    assert "on no branch" in detached
    assert "no git repository" in plain
    assert NO_PROGRAM == missing
    assert 0 == gh.count()
