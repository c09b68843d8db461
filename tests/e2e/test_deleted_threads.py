"""The real Claude Code ends a turn, its thread is deleted later, and tasuki works from the copy."""

import subprocess
import sys

import pytest
from conftest import ANSWER, World
from inside import WISH, conversation, installed, opened, typed
from waiting import retry_until

from tasuki.harness.registry import get_harness
from tasuki.threads.kept.copies import read_record

pytestmark = pytest.mark.e2e

CLAUDE = get_harness("claude")
GOAL = "add the missing test for the parser"


def run(world: World, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run tasuki in the project."""
    return subprocess.run(
        [sys.executable, "-m", "tasuki", *arguments],
        cwd=world.project, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("again", [False, pytest.param(True, marks=pytest.mark.long)])
def test_a_thread_that_is_deleted_is_read_found_and_handed_off(
    with_claude: World, again: bool
) -> None:
    """All turns of the session are in the copy; a second turn within 30 s is copied after them."""
    world = with_claude
    installed(world, "claude")
    world.set(TASUKI_KEEP_THREADS="all")
    pane = opened(world, ["claude"])
    world.shows(pane, "❯")
    conversation(world, pane)
    (path,) = retry_until(lambda: [f.path for f in CLAUDE.list_files(world.project)], 20)
    (copy,) = retry_until(lambda: list((world.folder / "data" / "threads").glob("*.zst")), 30)
    if again:
        typed(world, pane, "and then what")
        world.shows(pane, "A second answer.")
        world.until_quiet(pane)
        retry_until(lambda: read_record(copy).bytes == path.stat().st_size, 60)
    typed(world, pane, "/exit")
    world.shows(pane, "[ended 0]")
    before = CLAUDE.read(path)
    path.unlink()

    assert "(kept copy)" in run(world, "threads").stdout
    read = run(world, "read", before.id)
    for words in (WISH, ANSWER, *(["A second answer."] if again else [])):
        assert words in read.stdout
    assert "Claude Code no longer has its own file" in read.stderr
    assert before.id[:8] in run(world, "find", "parser", "blank").stdout
    handed = run(world, "handoff", "--from", before.id, GOAL, "--print")
    assert handed.returncode == 0, handed.stderr
    assert WISH in handed.stdout
