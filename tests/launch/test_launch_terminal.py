"""Successors run in this terminal; a first text is typed in for them; the terminal is kept."""

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import structs
from terminals import Terminal
from tree import PROGRAMS
from waiting import retry_until

from tasuki.errors import LaunchFailed
from tasuki.harness.protocol import LaunchPlan, PlannedFile
from tasuki.launch import LaunchResult
from tasuki.launch import terminal as terminals
from tasuki.launch.terminal import ProgramOutput
from tasuki.launch.tmux.server import wait_until_settled

pytestmark = pytest.mark.skipif(not shutil.which("tmux"), reason="tmux is not installed")

PROGRAM = str(PROGRAMS / "prompt.py")
STARTER = str(PROGRAMS / "start_here.py")


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    """A terminal of the test's own."""
    made = Terminal(tmp_path)
    yield made
    made.end()


class Run:
    """A plan carried out in a terminal, and what is known of it."""

    def __init__(self, terminal: Terminal, folder: Path, shell: bool = False, **more: Any) -> None:
        self.terminal = terminal
        self.log, self.out = folder / "events.jsonl", folder / "out.txt"
        argv = (sys.executable, PROGRAM, str(self.log))
        plan = LaunchPlan(argv=argv, cwd=str(folder), ready=r"^ready> ")
        plan = structs.replace(plan, **more)
        order = folder / "plan.json"
        order.write_bytes(msgspec.json.encode(plan))
        command = [sys.executable, STARTER, str(order), str(self.out)]
        if shell:
            (folder / "go").write_text(shlex.join(command))
            self.pane = terminal.open(["bash", "--norc", "-i"], folder)
            terminal.shows(self.pane, "bash-")
            terminal.keys(self.pane, ". ./go", "Enter")
        else:
            self.pane = terminal.open(command, folder)

    def events(self, kind: str) -> list[dict[str, Any]]:
        """What the program told, of one kind."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return [event for event in map(json.loads, lines) if event["kind"] == kind]

    def wait(self, kind: str) -> dict[str, Any]:
        """The first event of a kind, once it is there."""
        return retry_until(lambda: self.events(kind))[0]

    def keys(self, *keys: str) -> None:
        """Press keys in the terminal."""
        self.terminal.keys(self.pane, *keys)

    def result(self) -> tuple[LaunchResult, str]:
        """What `start` returned, and whether the terminal was kept."""
        told, kept = self.told()
        return msgspec.json.decode(told, type=LaunchResult), kept

    def told(self) -> tuple[str, str]:
        """What the starter wrote, once it has."""
        text = retry_until(lambda: self.out.read_text() if self.out.exists() else "")
        told, kept = text.splitlines()
        return told, kept


@pytest.mark.parametrize("order", [signal.SIGINT, signal.SIGTERM])
def test_keys_while_the_program_starts(
    order: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C in the moment of the start does not end tasuki, which would leave the program alone."""
    spawn = subprocess.Popen

    def interrupted(*arguments: Any, **more: Any) -> Any:
        program = spawn(*arguments, **more)
        os.kill(os.getpid(), order)
        return program

    monkeypatch.setattr(subprocess, "Popen", interrupted)
    before = signal.getsignal(order)
    argv = ["sleep", "0.2" if order == signal.SIGINT else "100"]
    with terminals._ForegroundProgram(argv, str(tmp_path), dict(os.environ)) as program:
        code = program.wait()
    assert code == (0 if order == signal.SIGINT else 128 + signal.SIGTERM)
    assert signal.getsignal(order) is before


def test_an_order_to_end_while_the_start_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not lost: tasuki itself ends then, and its own handlers are back."""
    ordered: list[int] = []

    def refuse(*_: Any, **__: Any) -> Any:
        os.kill(os.getpid(), signal.SIGTERM)
        raise OSError("cannot be run")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    before = signal.signal(signal.SIGTERM, lambda number, _: ordered.append(number))
    try:
        with pytest.raises(LaunchFailed):
            terminals._ForegroundProgram(["x"], str(tmp_path), {})
        assert ordered == [signal.SIGTERM]
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGTERM, before)


def test_in_the_foreground(terminal: Terminal, tmp_path: Path) -> None:
    """Without a text the program has this terminal; its exit status comes back."""
    run = Run(terminal, tmp_path, env={"T_X": "1"}, unset=("LANG",))
    run.terminal.shows(run.pane, "ready>")
    run.keys("C-c")
    run.wait("typed")
    run.keys("BSpace", "Enter")
    run.wait("enter")
    run.keys("q")

    launched, kept = run.result()

    assert (launched.code, launched.how, kept) == (7, "here", "terminal kept")
    assert run.events("start")[0]["env"]["T_X"] == "1"
    assert run.events("start")[0]["size"] == [100, 30]
    assert "back\n[ended 0]" in run.terminal.shows(run.pane, "[ended")


def test_ctrl_c_is_the_programs(terminal: Terminal, tmp_path: Path) -> None:
    """A program that Ctrl-C ends gives 130, and tasuki goes on to keep its events."""
    argv = ("sh", "-c", "echo waiting; sleep 100")
    run = Run(terminal, tmp_path, argv=argv)
    run.terminal.shows(run.pane, "waiting")
    run.keys("C-c")

    launched, kept = run.result()

    assert (launched.code, kept) == (130, "terminal kept")


def test_a_killed_program_leaves_a_usable_terminal(terminal: Terminal, tmp_path: Path) -> None:
    """A program killed in raw mode leaves echo, line mode and the cursor as they were."""
    run = Run(terminal, tmp_path)
    run.terminal.shows(run.pane, "ready>")
    run.keys("k")

    launched, kept = run.result()

    assert (launched.code, kept) == (137, "terminal kept")
    run.terminal.shows(run.pane, "[ended")
    assert run.terminal.run(("display-message", "-p", "-t", run.pane, "#{cursor_flag}"))[0] == "1"


def test_the_text_is_typed_in(terminal: Terminal, tmp_path: Path) -> None:
    """The relay types the text as one paste once the program is ready, and does not submit."""
    run = Run(terminal, tmp_path, paste="# Goal\n\tfix ✓\x1b[201~\r", env={"T_DELAY": "0.5"})

    assert run.wait("paste")["text"] == "# Goal\r\tfix ✓\r"
    run.terminal.shows(run.pane, "ready> [pasted")
    run.keys("ä", "Enter")
    assert run.wait("enter")["text"].startswith("# Goal\r\tfix ✓\r")
    run.keys("q")

    launched, kept = run.result()
    assert (launched.code, launched.filled, kept) == (7, True, "terminal kept")
    assert run.events("start")[0]["size"] == [100, 30]
    assert "back" in run.terminal.shows(run.pane, "[ended 0]")


def test_a_long_text_is_typed_in(terminal: Terminal, tmp_path: Path) -> None:
    """A text far longer than the terminal's buffer arrives whole."""
    text = "".join(f"line {n} ✓\n" for n in range(6_000))
    run = Run(terminal, tmp_path, paste=text)

    assert text.replace("\n", "\r") == run.wait("paste")["text"]


def test_the_size_follows(terminal: Terminal, tmp_path: Path) -> None:
    """A new size of the terminal reaches the program."""
    run = Run(terminal, tmp_path, paste="x")
    run.wait("paste")
    run.terminal.run(("resize-window", "-t", run.pane, "-x", "71", "-y", "19"))

    assert run.wait("size")["size"] == [71, 19]


@pytest.mark.parametrize("alone", ["", "1"])
@pytest.mark.parametrize("paste", ["", "some text"])
def test_ctrl_z_stops_both(terminal: Terminal, tmp_path: Path, paste: str, alone: str) -> None:
    """Ctrl-Z gives the shell back its terminal, and `fg` goes on where it was.

    Programs stop their whole group, or themselves alone; either way, with the relay or without.
    """
    env = {"T_ALONE": alone} if alone else {}
    run = Run(terminal, tmp_path, shell=True, paste=paste, env=env)
    run.terminal.shows(run.pane, "ready> [pasted" if paste else "ready>")
    run.keys("C-z")
    run.wait("suspended")
    run.terminal.shows(run.pane, "Stopped")
    run.keys("echo sh''ell", "Enter")
    run.terminal.shows(run.pane, "shell")
    run.keys("fg", "Enter")
    run.wait("resumed")
    run.keys("x", "Enter")

    assert run.wait("enter")["text"] == f"{paste}x"
    run.keys("q")
    assert run.result()[1] == "terminal kept"


def test_ctrl_z_without_a_shell(terminal: Terminal, tmp_path: Path) -> None:
    """Where nothing could continue it, a stopped program goes on at once."""
    run = Run(terminal, tmp_path, paste="some text")
    run.wait("paste")
    run.keys("C-z")

    run.wait("resumed")


def test_killed_under_the_relay(terminal: Terminal, tmp_path: Path) -> None:
    """A killed program leaves no mode switched on: screen, cursor, marked pastes."""
    run = Run(terminal, tmp_path, paste="x")
    run.wait("paste")
    run.keys("Enter")
    run.wait("enter")
    run.keys("k")

    launched, kept = run.result()

    assert (launched.code, kept) == (137, "terminal kept")
    run.terminal.shows(run.pane, "[ended")
    flags = ("display-message", "-p", "-t", run.pane, "#{cursor_flag}#{alternate_on}")
    assert run.terminal.run(flags).strip() == "10"


def test_an_order_to_end_is_passed_on(terminal: Terminal, tmp_path: Path) -> None:
    """tasuki told to end ends the program, and goes on to keep its events."""
    run = Run(terminal, tmp_path, argv=("sh", "-c", "echo up; exec sleep 100"))
    run.terminal.shows(run.pane, "up")
    os.kill(starter(run), signal.SIGTERM)

    launched, kept = run.result()

    assert (launched.code, kept) == (143, "terminal kept")


def starter(run: Run) -> int:
    """The process of tasuki below the pane's shell."""
    shell = run.terminal.run(("display-message", "-p", "-t", run.pane, "#{pane_pid}")).strip()
    children = Path(f"/proc/{shell}/task/{shell}/children")
    if not children.exists():
        pytest.skip("the children of a process cannot be listed here")
    return int(children.read_text().split()[0])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_an_order_to_end(terminal: Terminal, tmp_path: Path, number: int) -> None:
    """tasuki told to end puts the terminal back, and the program ends with it."""
    run = Run(terminal, tmp_path, paste="x")
    run.wait("paste")
    tasuki = starter(run)
    program = descendants(tasuki)
    os.kill(tasuki, number)

    assert (f"ended {128 + number}", "terminal kept") == run.told()
    run.terminal.shows(run.pane, f"[ended {128 + number}]")
    retry_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in program))


def descendants(pid: int) -> list[int]:
    """All processes below one."""
    below = [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return below + [deeper for child in below for deeper in descendants(child)]


def test_not_before_it_is_ready(terminal: Terminal, tmp_path: Path) -> None:
    """A program that marks pastes from the start gets the text once it shows that it is ready."""
    run = Run(terminal, tmp_path, paste="text", env={"T_LATE": "1", "T_DELAY": "1.0"})

    assert run.wait("paste")["text"] == "text"
    assert run.events("early") == []


def test_pastes_are_not_marked(terminal: Terminal, tmp_path: Path) -> None:
    """A program that looks ready but does not mark pastes gets none: each line would be sent."""
    run = Run(terminal, tmp_path, paste="one\ntwo", env={"T_UNMARKED": "1"})
    run.terminal.shows(run.pane, "ready>")
    wait_until_settled(run.terminal, run.pane, 2.0)
    run.keys("q")

    launched, _ = run.result()

    assert not launched.filled
    assert run.events("typed") + run.events("enter") == []


def test_never_ready(terminal: Terminal, tmp_path: Path) -> None:
    """A program that does not mark pastes gets none, and the result says so."""
    run = Run(terminal, tmp_path, paste="x", env={"T_NEVER": "1"})
    run.wait("start")
    run.keys("y")
    run.wait("typed")
    run.keys("Enter", "q")

    launched, _ = run.result()

    assert not launched.filled
    assert run.events("paste") == []


def test_a_program_that_dies_at_once(terminal: Terminal, tmp_path: Path) -> None:
    """What a dying program says stays on the screen, with its status in the result."""
    run = Run(terminal, tmp_path, paste="x", env={"T_DIE": "yes"})

    launched, kept = run.result()

    assert (launched.code, launched.filled, kept) == (1, False, "terminal kept")
    assert "no such session: yes" in run.terminal.shows(run.pane, "[ended")


@pytest.mark.parametrize("paste", ["", "text"])
def test_planned_files(terminal: Terminal, tmp_path: Path, paste: str) -> None:
    """Files of the plan are there when the program runs, and stay when it ended."""
    path = tmp_path / "a" / "s.jsonl"
    files = (PlannedFile(str(path), "{}\n"),)
    run = Run(terminal, tmp_path, paste=paste, files=files, argv=("cat", str(path)))

    run.terminal.shows(run.pane, "{}")
    assert run.result()[0].code == 0
    assert path.read_text() == "{}\n"


def test_missing_program(terminal: Terminal, tmp_path: Path) -> None:
    """A program that is not installed is named with its package."""
    run = Run(terminal, tmp_path, argv=("codex",), env={"PATH": "/nowhere"}, paste="x")

    told, kept = run.told()

    assert told.startswith("HarnessMissing: The program codex is not on your PATH.")
    assert "npm install -g @openai/codex" in told
    assert kept == "terminal kept"


def test_without_a_terminal(tmp_path: Path) -> None:
    """Without a terminal nothing starts, and the ways that work are named."""
    plan = LaunchPlan(
        argv=("cat",), cwd=str(tmp_path), files=(PlannedFile(str(tmp_path / "f"), ""),)
    )
    order, out = tmp_path / "plan.json", tmp_path / "out.txt"
    order.write_bytes(msgspec.json.encode(plan))

    subprocess.run(
        [sys.executable, STARTER, str(order), str(out)],
        stdin=subprocess.DEVNULL,
        check=True,
        capture_output=True,
    )

    assert out.read_text().startswith("LaunchFailed: There is no terminal here for cat")
    assert "--tmux" in out.read_text()
    assert not (tmp_path / "f").exists()


@pytest.mark.parametrize(
    ("written", "ready", "found"),
    [
        (b"hello\r\n\x1b[1m\xe2\x9d\xaf \x1b[0m", r"^\s*[\xe2\u276f>]\s", True),
        (b"\x1b[20;1H\xe2\x80\xba Ask Codex", r"^\u203a ", True),
        (b"one\x1b[2Ctwo", r"^one two$", True),
        (b"a > b", r"^>", False),
        (b"\x1b]0;> title\x07text", r"^>", False),
        (b"\x1b[?2026h\x1b[2K> \x1b[?2026l", r"^> ", True),
    ],
)
def test_text_is_found_in_output(written: bytes, ready: str, found: bool) -> None:
    """Sequences are taken out of the output, and a jump to another line begins one."""
    output = ProgramOutput()
    for byte in written:
        output.add_data(bytes([byte]))

    assert found == output.matches(ready)


def test_modes_are_followed_across_pieces() -> None:
    """Modes are known however the output is cut, and what is left on is switched off."""
    output = ProgramOutput()
    for byte in b"\x1b[?1049;2004h\x1b[?25l\x1b[>7u" + b"x" * 100_000 + b"\x1b[?1006h\x1b[?1049l":
        output.add_data(bytes([byte]))

    assert output.takes_pastes
    assert output.build_mode_reset() == b"\x1b[?1006l\x1b[?2004l\x1b[<u\x1b[?25h"
