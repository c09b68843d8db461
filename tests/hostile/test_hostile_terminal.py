"""Interruptions, odd terminals and odd goals, in a real terminal: it is left as it was found."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import GOAL, World
from terminals import Terminal
from waiting import retry_until

from tasuki.launch.tmux.server import Tmux

pytestmark = pytest.mark.skipif(not shutil.which("tmux"), reason="tmux is not installed")

AGENT = "#!/bin/sh\nprintf '\\033[?2004hagent has %s words\\n' $#\nexec sleep 600\n"


class Place:
    """A project with a thread, stand-ins for the agents' programs, and a terminal in it."""

    def __init__(self, root: Path) -> None:
        self.world = World(root)
        self.world.thread()
        self.programs = root / "bin"
        self.programs.mkdir()
        for name in ("claude", "codex", "pi"):
            self.program(name, AGENT)
        env = {
            **self.world.env,
            "PATH": f"{self.programs}:{os.environ['PATH']}",
            "TMPDIR": str(root),
        }
        self.terminal = Terminal(self.world.home, env)

    def program(self, name: str, text: str) -> str:
        """Put a program on the path."""
        path = self.programs / name
        path.write_text(text)
        path.chmod(0o755)
        return str(path)

    def run(self, *arguments: str, width: int = 90, height: int = 24) -> str:
        """Run tasuki; the pane that it runs in."""
        command = (sys.executable, "-m", "tasuki", *arguments)
        return self.terminal.open(command, self.world.project, width, height)

    def signal(self, pane: str, order: int) -> None:
        """Send a signal to the program in a pane."""
        shell = self.terminal.run(("display-message", "-p", "-t", pane, "#{pane_pid}")).strip()
        found = subprocess.run(["pgrep", "-P", shell], capture_output=True, text=True, check=True)
        os.kill(int(found.stdout.split()[-1]), order)

    def ended(self, pane: str, code: int) -> str:
        """The screen once the command ended with this code."""
        screen = self.terminal.shows(pane, "[ended")
        assert f"[ended {code}]" in screen, screen
        assert "Traceback" not in screen
        return screen


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """A place with a terminal of its own."""
    made = Place(tmp_path)
    yield made
    made.terminal.end()


@pytest.mark.parametrize("order", [signal.SIGTERM, signal.SIGHUP])
def test_an_order_to_end_puts_the_screen_back(place: Place, order: signal.Signals) -> None:
    """A review that is told to end leaves the screen and the mouse as they were, without a word."""
    pytest.importorskip("textual")
    pane = place.run("handoff", GOAL)
    place.terminal.shows(pane, "Brief:")
    place.signal(pane, order)
    screen = place.ended(pane, 128 + order)

    assert screen.strip() == f"[ended {128 + order}]"
    state = "#{alternate_on} #{mouse_any_flag} #{cursor_flag}"
    assert place.terminal.run(("display-message", "-p", "-t", pane, state)).strip() == "0 0 1"


@pytest.mark.parametrize("order", [signal.SIGTERM, signal.SIGHUP])
def test_an_order_to_end_removes_what_the_editor_had(place: Place, order: signal.Signals) -> None:
    """The brief that lay in a temporary file for the editor goes when tasuki is told to end."""
    place.terminal.env["EDITOR"] = place.program("ed-it", "#!/bin/sh\necho at work\nsleep 600\n")
    pane = place.run("handoff", "--editor", GOAL)
    place.terminal.shows(pane, "at work")
    folder = Path(place.terminal.env["TMPDIR"])
    assert len(list(folder.glob("tasuki-*"))) == 1
    place.signal(pane, order)
    place.ended(pane, 128 + order)

    assert not list(folder.glob("tasuki-*"))


@pytest.mark.parametrize(
    ("goal", "asked"), [(("fix",), "Goal>"), (("push with ghp_" + "A1b2C3d4E5f6" * 3,), "[y/N]"), ((), "Goal>")]
)  # fmt: skip
def test_ctrl_c_at_a_question_starts_nothing(
    place: Place, goal: tuple[str, ...], asked: str
) -> None:
    """Ctrl-C at the goal prompt and at a confirmation says so on a line of its own, with code 130."""
    pane = place.run("handoff", *goal)
    place.terminal.shows(pane, asked)
    place.terminal.keys(pane, "C-c")
    screen = place.ended(pane, 130)

    assert "Interrupted; nothing was started." in screen.splitlines()
    assert not (place.world.data / "handoffs").exists()


@pytest.mark.parametrize("harness", ["codex", "pi"])
def test_ctrl_c_while_the_successor_comes_up_takes_it_back(place: Place, harness: str) -> None:
    """A window that waits for its first text goes again, with its session file, and is no start."""
    server = place.terminal
    first = server.open(["sleep", "600"], place.world.project)
    server.env["TMUX"] = server.run(("display-message", "-p", "#{socket_path},#{pid},0")).strip()
    pane = place.run("handoff", "--yes", "--to", harness, GOAL)
    retry_until(lambda: any("handoff-" in line for line in server.panes()))
    retry_until(lambda: "agent has" in _all_text(server))
    server.keys(pane, "C-c")
    screen = place.ended(pane, 130)

    assert "nothing was started" in screen
    assert not [line for line in server.panes() if "handoff-" in line]
    assert first in server.panes()[0]
    assert not list((place.world.home / ".pi").rglob("*.jsonl"))
    assert place.world.run("handoffs").stdout.split()[2] == "failed"


def _all_text(server: Tmux) -> str:
    panes = server.run(("list-panes", "-a", "-F", "#{pane_id}")).split()
    return "\n".join(server.capture_screen(pane).text for pane in panes)


def test_a_goal_with_a_nul_is_started_like_any_other(place: Place) -> None:
    """No argument can hold a NUL; the successor starts with the rest of the goal."""
    (place.world.project / "goal.md").write_text("make \0 the retries \x1b[31m configurable")
    pane = place.run("handoff", "--yes", "--goal-file", "goal.md")

    assert "Traceback" not in place.terminal.shows(pane, "agent has 4 words")


def test_a_terminal_without_a_cursor_gets_the_editor(place: Place) -> None:
    """With TERM=dumb no screen can be drawn: the review is in the editor, and nothing spins."""
    place.terminal.env |= {"TERM": "dumb", "EDITOR": "true"}
    pane = place.run("handoff", GOAL)
    place.terminal.shows(pane, "Start the successor, save only, or cancel?")
    place.terminal.keys(pane, "cancel", "Enter")
    place.ended(pane, 130)


def test_escape_sequences_of_a_thread_do_not_reach_the_terminal(place: Place) -> None:
    """A goal printed in a terminal, and words of a thread in lists, move no cursor."""
    (place.world.project / "goal.md").write_text("make \x1b[2J\x1b]0;title\x07 the retries better")
    pane = place.run("handoff", "--print", "--goal-file", "goal.md", height=60)
    screen = place.ended(pane, 0)

    assert "# Handoff Context" in screen
    assert "the retries better" in screen


@pytest.mark.parametrize("command", ["threads", "handoffs", "lineage", "--help"])
def test_forty_columns_are_enough(place: Place, command: str) -> None:
    """Lists and help end well in a narrow terminal of a plain locale without colours."""
    place.world.run("handoff", GOAL)
    place.terminal.env |= {"LC_ALL": "C", "NO_COLOR": "1"}
    place.ended(place.run(command, width=40, height=50), 0)
