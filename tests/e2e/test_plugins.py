"""The plug-ins of a release in the real Claude Code and Codex, installed from a folder as from a repository."""

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import npm_programs
import pytest
from conftest import World
from inside import WISH, conversation, opened, review
from test_codex_command import trusted, without_daemon
from tree import ROOT

from tasuki import __version__

sys.path.append(str(ROOT / "scripts"))

from release_parts import Release, write_parts

pytestmark = pytest.mark.e2e

GOAL = "add the missing test for the parser"


def with_plugins(world: World) -> Path:
    """The folder of the plug-ins; tasuki is on the PATH."""
    sdist = world.folder / "tasuki.tar.gz"
    sdist.touch()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    write_parts(world.folder / "dist", Release(__version__, "someone", project), sdist, [])
    world.program("tasuki", [sys.executable, "-m", "tasuki"])
    world.set(TASUKI_DATA=str(world.folder / "data"), TASUKI_CONFIG=str(world.folder / "own.toml"))
    (world.folder / "own.toml").touch()
    return world.folder / "dist" / "plugins"


def tell(world: World, *command: str) -> None:
    """Run a command of a harness."""
    done = subprocess.run(command, cwd=world.project, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_plug_in_of_claude_code_hands_off(with_claude: World) -> None:
    """With the plug-in alone, its command is taken out before the model sees it, and hints name it."""
    world = with_claude
    world.program("claude", npm_programs.command("claude")[-1:])  # with the PATH of the world
    tell(world, "claude", "plugin", "marketplace", "add", str(with_plugins(world)))
    tell(world, "claude", "plugin", "install", "tasuki@tasuki")
    pane = opened(world, ["claude"])
    world.shows(pane, "❯")
    (world.folder / "own.toml").write_text("suggest_at = 1\n")
    for _ in range(2):  # A turn that is written late is counted after the next one.
        conversation(world, pane)
    world.shows(pane, "/tasuki:handoff GOAL")
    draft = review(world, pane, f"/tasuki:handoff {GOAL}")

    assert WISH[:30] in " ".join(world.terminal.capture_screen(draft).text.split())
    world.shows(pane, "Review the handoff in the new tmux window")
    assert world.model.find_requests(GOAL) == []
    (handoff,) = world.vault.list_handoffs()
    assert handoff.goal.text == GOAL


def test_the_plug_in_of_codex_hands_off(with_codex: World) -> None:
    """Its hooks want the same trust as those of `tasuki install`."""
    world = with_codex
    without_daemon(world)
    assert shutil.which("codex")
    tell(world, "codex", "plugin", "marketplace", "add", str(with_plugins(world)))
    tell(world, "codex", "plugin", "add", "tasuki@tasuki")
    pane = opened(world, ["codex"])
    trusted(world, pane)
    conversation(world, pane)
    review(world, pane, f"$handoff {GOAL}")

    (handoff,) = world.vault.list_handoffs()
    assert handoff.goal.text == GOAL
    assert world.model.find_requests(GOAL) == []
