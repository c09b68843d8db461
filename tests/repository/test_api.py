"""The public API: what a program does that imports `tasuki`."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tree import ROOT

import tasuki
from tasuki.errors import GoalHasSecret, GoalTooVague
from tasuki_testing import story

PAGE = ROOT / "docs" / "api.md"


@pytest.fixture
def thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A thread of Claude Code in a home of the test's own."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("TASUKI_DATA", str(tmp_path / "data"))
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    folder = tmp_path / ".claude" / "projects" / "-home-dev-proj"
    folder.mkdir(parents=True)
    return story("claude").write(folder)


def test_a_handoff_is_prepared_and_loaded(thread: Path) -> None:
    """It is stored, its brief ends with the goal, and it loads again by a prefix of its id."""
    prepared = tasuki.prepare_handoff(thread, "cover the parser with tests", to="codex")

    assert prepared.handoff.to == "codex"
    assert "cover the parser with tests" in prepared.brief
    assert tasuki.load_handoff(prepared.handoff.id[:8]).brief == prepared.brief


def test_a_goal_is_refused_as_on_the_command_line(thread: Path) -> None:
    """A vague one, and one that holds a secret."""
    with pytest.raises(GoalTooVague):
        tasuki.prepare_handoff(thread, "continue")
    with pytest.raises(GoalHasSecret):
        tasuki.prepare_handoff(thread, "log in with the token ghp_" + "a1B2" * 9)


def test_threads_are_found_and_read(thread: Path) -> None:
    """What was found can be read by its path, and by its id."""
    (head,) = tasuki.find_threads(harness="claude")

    assert head.path == str(thread)
    assert tasuki.read_thread(head.path) == tasuki.read_thread(head.id)


def test_the_example_of_the_page_runs(thread: Path) -> None:
    """It runs as it is, in the folder of the thread."""
    folder = Path(tasuki.read_thread(thread).cwd)
    program = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)[0]
    program = program.replace("Path.cwd()", f"Path({str(folder)!r})")
    done = subprocess.run((sys.executable, "-c", program), capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
    assert "cover the parser with tests" in done.stdout


def test_an_unknown_name_is_an_attribute_error() -> None:
    """As in any other module."""
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = tasuki.nothing  # type: ignore[attr-defined]
