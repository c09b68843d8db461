"""What the tests with real programs share: an isolated home, a scripted model, a terminal."""

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]

import install  # noqa: E402
from terminals import Terminal  # noqa: E402
from waiting import retry_until  # noqa: E402

from tasuki.launch.tmux import settled  # noqa: E402
from tasuki.testing.model_server import ModelServer, Rule, Step  # noqa: E402

ANSWER = "The scripted answer."
PI_ENV = {"PI_OFFLINE": "1", "PI_SKIP_VERSION_CHECK": "1", "PI_TELEMETRY": "0"}
CLAUDE_ENV = {
    "ANTHROPIC_AUTH_TOKEN": "dummy",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
}


def pytest_configure(config: pytest.Config) -> None:
    """Name the marker of these tests."""
    config.addinivalue_line("markers", "e2e: starts real programs, installed from npm")


CODEX_CONFIG = """\
model = "gpt-5.5"
model_provider = "local"
approval_policy = "never"
check_for_update_on_startup = false
[model_providers.local]
name = "Local"
base_url = "{url}/v1"
wire_api = "responses"
env_key = "LOCAL_KEY"
request_max_retries = 1
stream_max_retries = 1
[projects."{project}"]
trust_level = "trusted"
[tui]
screen_reader_detection_done = true
[tui.model_availability_nux]
"gpt-6.1-sol" = 1
[notice.model_migrations]
"gpt-5.5" = "gpt-6-sol"
"""


OMP_MODELS = """providers:
  local:
    baseUrl: {url}/v1
    api: openai-completions
    apiKey: dummy-key
    compat: {{supportsDeveloperRole: false, supportsReasoningEffort: false}}
    models:
      - {{id: scripted, name: scripted, contextWindow: 128000, maxTokens: 8000}}
"""
OMP_CONFIG = """modelRoles: {default: local/scripted, smol: local/scripted, slow: local/scripted, tiny: local/scripted}
setupVersion: 999
startup: {setupWizard: false, checkUpdate: false, quiet: true}
"""


class World:
    """A home, a project and a scripted model that a real program lives in."""

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
        """Write a JSON file of the home."""
        target = self.home / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(json.dumps(content))

    def shows(self, pane: str, text: str, seconds: float = 20.0) -> str:
        """The screen once it shows a text, line breaks not counted."""

        def screen() -> str:
            now = self.terminal.screen(pane).text
            return now if text in now or text in " ".join(now.split()) else ""

        return retry_until(screen, seconds)

    def until_quiet(self, pane: str) -> str:
        """The screen once it stands still for 0.3 s."""
        return settled(self.terminal, pane, 5.0)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """A world of the test's own, ended with it."""
    if not shutil.which("tmux"):
        pytest.skip("tmux is not installed")
    rules = [Rule("and then", (Step("A second answer."),))]
    with ModelServer(rules, Step(ANSWER), tmp_path / "model.jsonl") as model:
        made = World(tmp_path.resolve(), model, monkeypatch)
        yield made
        made.terminal.end()


@pytest.fixture(scope="session")
def pi() -> list[str]:
    """The command of pi, installed with the user's own settings of npm."""
    return install.pi()


@pytest.fixture
def with_pi(pi: list[str], world: World) -> World:
    """A world with pi, whose only model is the scripted one."""
    compat = {"supportsDeveloperRole": False, "supportsReasoningEffort": False}
    provider = {
        "baseUrl": f"{world.model.url}/v1",
        "api": "openai-completions",
        "apiKey": "dummy-key",
        "compat": compat,
        "models": [{"id": "scripted", "contextWindow": 128000, "maxTokens": 8000}],
    }
    settings = {"defaultProvider": "local", "defaultModel": "scripted", "quietStartup": True}
    world.write(".pi/agent/models.json", {"providers": {"local": provider}})
    world.write(".pi/agent/settings.json", {**settings, "enableInstallTelemetry": False})
    world.set(**PI_ENV)
    world.program("pi", pi)
    return world


@pytest.fixture(scope="session")
def claude() -> list[str]:
    """The command of Claude Code, installed with the user's own settings of npm."""
    return install.claude()


@pytest.fixture
def with_claude(claude: list[str], world: World) -> World:
    """A world with Claude Code, onboarded, that trusts the project and talks to the model."""
    trusted = {str(world.project): {"hasTrustDialogAccepted": True}}
    seen = {"hasCompletedOnboarding": True, "hasSeenAutoDefaultNudge": True, "theme": "dark"}
    world.write(".claude.json", {**seen, "projects": trusted})
    permissions = {"defaultMode": "acceptEdits", "allow": ["Read"]}
    world.write(
        ".claude/settings.json", {"permissions": permissions, "promptSuggestionEnabled": False}
    )
    world.set(**CLAUDE_ENV, ANTHROPIC_BASE_URL=world.model.url)
    world.program("claude", claude)
    return world


@pytest.fixture(scope="session")
def codex() -> list[str]:
    """The command of Codex, installed with the user's own settings of npm."""
    return install.codex()


@pytest.fixture
def with_codex(codex: list[str], world: World) -> World:
    """A world with Codex, that trusts the project and talks to the model."""
    config = world.home / ".codex" / "config.toml"
    config.parent.mkdir()
    config.write_text(CODEX_CONFIG.format(url=world.model.url, project=world.project))
    world.set(LOCAL_KEY="dummy")
    world.program("codex", codex)
    return world


@pytest.fixture(scope="session")
def omp() -> list[str]:
    """The command of oh-my-pi, installed with the user's own settings of npm."""
    return install.omp()


@pytest.fixture
def with_omp(omp: list[str], world: World) -> World:
    """A world with oh-my-pi past its first-start questions, whose only model is the scripted one."""
    folder = world.home / ".omp" / "agent"
    folder.mkdir(parents=True)
    (folder / "models.yml").write_text(OMP_MODELS.format(url=world.model.url))
    (folder / "config.yml").write_text(OMP_CONFIG)
    world.set(PI_OFFLINE="1", PI_SKIP_VERSION_CHECK="1")
    world.program("omp", omp)
    return world
