"""`tasuki handoff` of a thread that ends at a usage limit."""

import json
import shutil
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from command_line import GOAL, World
from terminals import Terminal

SECRET = "sk-proj-" + "a1B2c3D4" * 6


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A project whose machine has Codex and Claude Code, neither of which runs here."""
    made = World(tmp_path)
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("claude", "codex"):
        (programs / name).write_text("#!/bin/sh\nexit 1\n")
        (programs / name).chmod(0o755)
    made.env["PATH"] = f"{programs}:/usr/bin:/bin"
    return made


def limited(world: World, seconds: float | None = 7200.0, *, answered: bool = False) -> Path:
    """A thread whose last turn was refused at a usage limit that resets in some seconds."""
    path = world.thread()
    lines = path.read_text().splitlines()
    last = json.loads(lines[-1])
    quota = {} if seconds is None else {"resetsAt": int(time.time() + seconds)}
    now = datetime.fromtimestamp(time.time() - 20000, UTC).isoformat().replace("+00:00", "Z")
    failure = {
        "parentUuid": last["uuid"], "isSidechain": False, "type": "assistant", "uuid": "limit",
        "timestamp": now, "sessionId": last["sessionId"], "cwd": last["cwd"], "version": last["version"],
        "message": {"id": "m", "model": "<synthetic>", "role": "assistant",
                    "content": [{"type": "text", "text": "You've hit your 5-hour limit"}]},
        "error": "rate_limit", "apiError": "usage_limit_reached", "quotaLimits": quota,
        "isApiErrorMessage": True,
    }  # fmt: skip
    answer = {**failure, "parentUuid": "limit", "uuid": "answer", "isApiErrorMessage": False,
              "message": {"id": "m2", "model": "claude", "role": "assistant",
                          "content": [{"type": "text", "text": "Now it is done."}]}}  # fmt: skip
    more = [failure, answer] if answered else [failure]
    path.write_text("\n".join([*lines, *map(json.dumps, more)]) + "\n")
    return path


def sign_in(world: World) -> None:
    """Codex has credentials."""
    (world.home / ".codex").mkdir()
    (world.home / ".codex" / "auth.json").write_text(json.dumps({"OPENAI_API_KEY": SECRET}))


def test_e13_the_exact_command_is_named(world: World) -> None:
    """E13: one line on standard error says until when, and what to type; the brief is as ever."""
    path = limited(world)
    sign_in(world)
    done = world.run("handoff", "--print", "--from", str(path), GOAL)
    until = f"{datetime.fromtimestamp(int(time.time()) + 7200):%H:%M}"
    (line,) = [one for one in done.stderr.splitlines() if "usage limit" in one]

    assert done.returncode == 0
    assert line.startswith("tasuki: Claude Code is at its usage limit until ")
    assert until[:3] in line
    assert line.endswith(f"To go on in Codex: tasuki handoff --from {path} --to codex '{GOAL}'")
    assert SECRET not in done.stdout + done.stderr
    assert done.stdout.rstrip().endswith(GOAL)
    stopped = (
        """The last turn stopped at a usage limit of claude: "You've hit your 5-hour limit\""""
    )
    assert stopped in done.stdout


def test_e13_a_long_goal_is_not_repeated(world: World) -> None:
    """The stored handoff is started instead."""
    path = limited(world)
    sign_in(world)
    goal = f"{GOAL}, " + "and then the next part of it, " * 6
    done = json.loads(world.run("handoff", "--json", "--from", str(path), goal).stdout)

    assert done["warnings"][0].endswith(f"tasuki start {done['id'][:8]} --to codex")


def test_e13_without_another_harness_that_is_said(world: World) -> None:
    """Codex is installed and has no credentials: it is not offered."""
    done = world.run("handoff", "--print", "--from", str(limited(world, None)), GOAL)

    assert "Claude Code is at its usage limit. No other harness with credentials" in done.stderr


def test_e13_unknown_credentials_are_offered_last(world: World) -> None:
    """A configuration of Codex may name another provider: it is offered, after those that are known."""
    (world.home / ".codex").mkdir()
    (world.home / ".codex" / "config.toml").write_text('model_provider = "local"\n')
    (Path(world.env["PATH"].split(":")[0]) / "gemini").symlink_to("/bin/false")
    path = str(limited(world))
    unsure = world.run("handoff", "--print", "--from", path, GOAL)
    sure = world.run("handoff", "--print", "--from", path, GOAL, GEMINI_API_KEY="dummy")

    assert "--to codex" in unsure.stderr
    assert "--to gemini" in sure.stderr


@pytest.mark.parametrize("case", ["named", "over", "answered"])
def test_e13_else_nothing_is_said(world: World, case: str) -> None:
    """Not with `--to`, not after the reset, and not after a later answer."""
    path = limited(world, -100.0 if case == "over" else 7200.0, answered=case == "answered")
    sign_in(world)
    options = ("--to", "claude") if case == "named" else ()
    done = world.run("handoff", "--print", "--from", str(path), *options, GOAL)

    assert (done.returncode, "usage limit" in done.stderr) == (0, False), done.stderr


@pytest.mark.parametrize(("typed", "started"), [("codex", "codex"), ("", "claude")])
def test_e13_in_a_terminal_the_user_chooses(world: World, typed: str, started: str) -> None:
    """The question names the choices; Enter alone stays with the harness of the thread."""
    if not shutil.which("tmux"):
        pytest.skip("tmux is not installed")
    limited(world)
    sign_in(world)
    for name in ("claude", "codex"):
        program = Path(world.env["PATH"].split(":")[0]) / name
        program.write_text(f'#!/bin/sh\necho "{name} runs with $# arguments"\n')
    terminal = Terminal(world.home, world.env)
    try:
        command = [sys.executable, "-m", "tasuki", "handoff", GOAL, "--yes", "--send"]
        pane = terminal.open(command, world.project, 140, 40)
        terminal.shows(pane, "Continue in (claude, codex) [claude]:")
        terminal.keys(pane, *filter(None, (typed, "Enter")))
        shown = terminal.shows(pane, "[ended 0]")
    finally:
        terminal.end()

    assert "Also installed: Codex." in shown
    assert f"{started} runs with" in shown
