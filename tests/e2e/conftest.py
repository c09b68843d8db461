"""What the tests with real programs share: an isolated home, a scripted model, a terminal."""

import copy
import json
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from agents import PROGRAMS
from fakes.model_server import ModelRequest, ModelRule, ModelServer, ModelStep
from terminals import Terminal
from waiting import retry_until

from tasuki.launch.tmux.server import wait_until_settled
from tasuki.vault import Vault

ANSWER = "The scripted answer."


def pytest_configure(config: pytest.Config) -> None:
    """Name the marker of these tests."""
    config.addinivalue_line("markers", "e2e: starts real programs, installed from npm")


@pytest.fixture(scope="session")
def tmp_path_factory(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[pytest.TempPathFactory]:
    """Make folders on the disk: the sandbox of Codex has a /dev, and so a memory, of its own."""
    made = copy.copy(tmp_path_factory)
    made._basetemp = Path(tempfile.mkdtemp(prefix="tasuki-e2e-"))
    yield made
    shutil.rmtree(made._basetemp, ignore_errors=True)


class World:
    """A home, a project and a scripted model that real programs live in."""

    def __init__(self, folder: Path, model: ModelServer, patch: pytest.MonkeyPatch) -> None:
        self.home, self.project, self.programs = (folder / n for n in ("home", "proj", "bin"))
        self.model, self.patch, self.folder = model, patch, folder
        for made in (self.home, self.project, self.programs, folder / "tmp"):
            made.mkdir()
        path = f"{self.programs}:{os.environ['PATH']}"
        for name in list(os.environ):
            patch.delenv(name)
        self.set(PATH=path, HOME=str(self.home), TERM="xterm-256color", LANG="C.UTF-8")
        self.set(TMPDIR=str(folder / "tmp"), SHELL="/bin/sh")
        init = ["git", "init", "-q", "-b", "main", str(self.project)]
        subprocess.run(init, check=True)
        self.terminal = Terminal(self.home, dict(os.environ))

    @property
    def vault(self) -> Vault:
        """Where the handoffs of the world are kept."""
        return Vault(self.folder / "data" / "handoffs")

    def set(self, **variables: str) -> None:
        """Set environment variables, for this process and so for what it starts."""
        for name, value in variables.items():
            self.patch.setenv(name, value)

    def program(self, name: str, command: Sequence[str]) -> None:
        """Put a program on the PATH."""
        path = self.programs / name
        path.write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
        path.chmod(0o755)
        self.terminal.env.update(os.environ)

    def write(self, path: str, content: object) -> None:
        """Write a file of the home: a text, or a value as JSON."""
        target = self.home / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(content if isinstance(content, str) else json.dumps(content))

    def run(self, command: Sequence[str], width: int = 140, height: int = 40) -> str:
        """Run a command in a pane, in the project; the pane."""
        self.terminal.env.update(os.environ)
        return self.terminal.open(command, self.project, width, height)

    def shows(self, pane: str, text: str, seconds: float = 20.0) -> str:
        """The screen once it shows a text, line breaks not counted; fails where it never will."""
        now = ""

        def screen() -> str:
            nonlocal now
            now = self.terminal.capture_screen(pane).text
            found = text in now or text in " ".join(now.split())
            return now if found or "[ended " in now else ""

        with suppress(AssertionError):
            retry_until(screen, seconds)
        if text not in now and text not in " ".join(now.split()):
            shown = "\n".join(line for line in now.splitlines() if line.strip())
            pytest.fail(f"{text!r} did not appear in {seconds:.0f} s, but:\n{shown}")
        return now

    def sent(self, text: str) -> list[ModelRequest]:
        """The requests that hold a text, without those by which a harness asks for a title.

        These offer no tools, but for those of Codex, which quote the prompt and may come first.
        """
        return [
            request
            for request in list(self.model.log)
            if request.count_text(text) and request.body.get("tools") and not is_title(request)
        ]

    def until_quiet(self, pane: str) -> str:
        """The screen once it stands still for 0.3 s."""
        return wait_until_settled(self.terminal, pane, 5.0)


def is_title(request: ModelRequest) -> bool:
    """Whether Codex asks for the title of a thread."""
    return request.prompt.startswith("Generate a concise, single-line task title")


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """A world of the test's own, ended with it."""
    if not shutil.which("tmux"):
        pytest.skip("tmux is not installed")
    rules = [ModelRule("and then", (ModelStep("A second answer."),))]
    with ModelServer(rules, ModelStep(ANSWER), tmp_path / "model.jsonl") as model:
        made = World(tmp_path.resolve(), model, monkeypatch)
        yield made
        made.terminal.end()


def _with(name: str) -> Callable[[World], World]:
    """A fixture: a world in which one program is set up."""

    def made(world: World) -> World:
        PROGRAMS[name].prepare(world)
        return world

    return pytest.fixture(name=f"with_{name}")(made)


with_claude, with_codex, with_pi, with_omp, with_gemini, with_opencode, with_copilot = (
    _with(name) for name in ("claude", "codex", "pi", "omp", "gemini", "opencode", "copilot")
)
