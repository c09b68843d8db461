"""The command that an agent runs is its own, never the one with which it reports to tasuki."""

import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
from waiting import retry_until

from tasuki.fleet.changes.keeper import EARLY_SECONDS, find_command
from tasuki.fleet.store.models import FleetAgent
from tasuki.launch.processes import read_process_tree

SCRIPT = "exec -a /x/fleet/hook.sh bash -c 'sleep 30.7; :'"
HOOK = "exec -a 'curl -q -s http://127.0.0.1:8787/api/hooks/claude' sleep 30"
pytestmark = pytest.mark.skipif(
    read_process_tree() is None, reason="this system tells no processes"
)


@pytest.fixture
def program(request: pytest.FixtureRequest) -> Iterator[subprocess.Popen[bytes]]:
    """A program that runs commands."""
    script = " & ".join(f"bash -c {one!r}" for one in request.param) + " & wait"
    with subprocess.Popen(["bash", "-c", script], start_new_session=True) as made:
        yield made
        subprocess.run(["pkill", "-s", str(made.pid)], check=False)


def command_of(pid: int, turn_at: float | None = None) -> str:
    """The command of an agent whose program has this process, and whose turn began 5 s ago or then."""
    began = turn_at or time.time() - 5
    agent = FleetAgent(1, "claude", "busy", 0.0, "/", "h", 0.0, process=pid, turn_at=began)
    return find_command(agent, read_process_tree())


@pytest.mark.parametrize(
    "program", [(HOOK, "exec sleep 31.5"), (SCRIPT, "sleep 0.3; exec sleep 31.5")], indirect=True
)
def test_a_hook_is_passed_over(program: subprocess.Popen[bytes]) -> None:
    """What it runs beside it is named, not what the hook itself starts."""
    retry_until(lambda: command_of(program.pid) == "sleep 31.5", 10)


@pytest.mark.parametrize("program", [(HOOK,)], indirect=True)
def test_a_hook_alone_is_nothing(program: subprocess.Popen[bytes]) -> None:
    """It runs nothing then, but the shell around it."""
    tree = read_process_tree()
    assert tree
    retry_until(lambda: len((read_process_tree() or tree).list_below(program.pid)) >= 1, 10)
    time.sleep(0.3)

    assert "api/hooks" not in command_of(program.pid)


@pytest.mark.parametrize(
    "program", [("exec -a /x/fleet/hook.sh bash -c 'sleep 1.5; sleep 30.7; :'",)], indirect=True
)
def test_what_a_hook_of_before_the_turn_starts_is_nothing(
    program: subprocess.Popen[bytes],
) -> None:
    """A slow one still reports what came before it."""
    turn_at = time.time() + EARLY_SECONDS + 0.7
    time.sleep(2.5)

    assert "" == command_of(program.pid, turn_at)


def test_a_process_that_is_not_yet_its_own_program_is_nothing() -> None:
    """Forked, and before it runs another program, it has its parent's command line."""
    script = "import os, time\nos.fork()\ntime.sleep(30)"
    with subprocess.Popen([sys.executable, "-c", script], start_new_session=True) as program:
        try:
            tree = read_process_tree()
            assert tree
            retry_until(lambda: (read_process_tree() or tree).list_below(program.pid), 10)

            assert "" == command_of(program.pid)
        finally:
            subprocess.run(["pkill", "-s", str(program.pid)], check=False)
