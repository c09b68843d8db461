"""A home, a project, settings and the program in tests of authors that are asked over a wire."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from fakes.model_server import ModelRequest
from forked import MODELS, run_tasuki

from tasuki.cli.main import cli
from tasuki_testing import ThreadBuilder, story

GOAL = "make the login timeout configurable and cover it with a test"
EMPTY: dict[str, Any] = {
    "relevantFiles": [],
    "relevantCommands": [],
    "relevantInformation": [],
    "decisions": [],
    "openQuestions": [],
    "failedApproaches": [],
    "constraints": [],
    "nextSteps": [],
    "corrections": [],
    "state": {"done": [], "inProgress": [], "notWanted": []},
}
"""An answer with all keys that says nothing."""
APIS = {"openai": "/v1", "responses": "/v1", "anthropic": "", "google": ""}
"""Kinds of endpoints, and what follows host and port in their base URL."""


class Desk:
    """What one user has: a home without keys, a project, settings, and tasuki in it."""

    def __init__(self, root: Path) -> None:
        self.home, self.project, self.data = (root / n for n in ("home", "proj", "data"))
        for folder in (self.home, self.project):
            folder.mkdir()
        self.config = root / "config.toml"
        self.threads = root / "threads"
        self.env = {
            "HOME": str(self.home),
            "PATH": os.environ["PATH"],
            "TASUKI_DATA": str(self.data),
            "TASUKI_CONFIG": str(self.config),
            "LANG": "C.UTF-8",
        }

    def asks(self, url: str, api: str = "openai", settings: str = "", **provider: object) -> None:
        """Write settings that ask a model at this address; `url` has no path."""
        about = {"base_url": url + APIS[api], "api": api, "window": 32_000, **provider}
        lines = [f"{name} = {json.dumps(value)}" for name, value in about.items()]
        self.config.write_text(
            f'author = "model"\nmodel = "local/scripted"\n{settings}\n[providers.local]\n'
            + "\n".join(lines)
        )

    def thread(self, harness: str = "claude", builder: ThreadBuilder | None = None) -> Path:
        """A thread of the project, in a file of its own."""
        self.threads.mkdir(exist_ok=True)
        return (builder or story(harness, cwd=str(self.project))).write(self.threads)

    def command(self, *arguments: str) -> Sequence[str]:
        """The command line of tasuki."""
        return (sys.executable, "-m", "tasuki", *arguments)

    def run(
        self, *arguments: str, seconds: float = 100, **env: str
    ) -> subprocess.CompletedProcess[str]:
        """Run tasuki in the project."""
        return run_tasuki(
            arguments, env={**self.env, **env}, cwd=self.project, timeout=seconds, modules=MODELS
        )

    def handoff(self, path: Path, *more: str) -> dict[str, Any]:
        """The document of a handoff, made in this process, which has loaded the libraries."""
        given = ("handoff", "--json", "--from", str(path), *more, GOAL)
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(self.project)
            for name in os.environ:
                patch.delenv(name)
            done = CliRunner().invoke(cli, given, env=self.env, catch_exceptions=False)
        assert done.exit_code == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def written(self) -> str:
        """Everything that was stored, as one text."""
        files = [
            path for path in self.data.rglob("*") if path.is_file() and path.suffix != ".thread"
        ]
        return "\n".join(path.read_bytes().decode("utf-8", "replace") for path in files)


def by(document: dict[str, Any]) -> dict[str, Any]:
    """Who wrote a handoff, and what it cost."""
    found: dict[str, Any] = document["handoff"]["draft"]["authorship"]
    return found


def alike(brief: str) -> str:
    """A brief without what differs at every run: the handoff's id."""
    return re.sub(r"tasuki read [0-9a-f]{8}", "tasuki read …", brief)


def answer(**sections: Any) -> str:
    """An answer in the form that is asked for; sections that are not given are empty."""
    return json.dumps({**EMPTY, **sections}, ensure_ascii=False)


def extracted(request: ModelRequest) -> str:
    """A sound answer from what a request holds: the first of each list, and a result it shows."""
    if any(turn.role == "assistant" for turn in request.turns):
        return answer()
    asked = request.turns[-1].text
    numbers = re.findall(r"^([FCU])1 .*?\[#(\d+)", asked, re.MULTILINE)
    refs = {letter: [int(ref)] for letter, ref in numbers}
    ref, words = re.findall(r"^\[#(\d+) assistant[^\]]*\] (.+)$", asked, re.MULTILINE)[-1]
    return answer(
        relevantFiles=[{"file": "F1", "reason": "changed for it", "refs": refs["F"]}],
        relevantCommands=[{"command": "C1", "reason": "checks it", "refs": refs["C"]}],
        relevantInformation=[{"text": words, "refs": [int(ref)]}],
        constraints=[{"text": "U1", "refs": refs["U"]}],
    )
