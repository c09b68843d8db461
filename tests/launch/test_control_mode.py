"""A client of tmux that stays: it answers as a process would, or not at all."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pane_programs import own_server
from terminals import Terminal
from waiting import retry_until

from tasuki.errors import PaneGone
from tasuki.launch.tmux.control_mode import ControlMode, TmuxUnanswered
from tasuki.launch.tmux.panes import TmuxPanes

pytestmark = pytest.mark.skipif(not shutil.which("tmux"), reason="tmux is not installed")

ID = "display-message -p '#{session_name}'"


@pytest.fixture
def terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    """A tmux server of the test's own, with the fleet's session and one of the operator's."""
    with own_server(tmp_path, monkeypatch) as made:
        made.run(("new-session", "-d", "-s", "tasuki", "-x", "80", "-y", "20", "cat"))
        made.run(("new-session", "-d", "-s", "mine", "-x", "80", "-y", "20", "cat"))
        yield made


@pytest.fixture
def control(terminal: Terminal) -> Iterator[ControlMode]:
    """A client of it."""
    made = ControlMode(terminal.base, "tasuki", dict(os.environ))
    yield made
    made.close()


@pytest.fixture
def panes(terminal: Terminal, tmp_path: Path) -> Iterator[TmuxPanes]:
    """Its panes, asked by a client."""
    made = TmuxPanes(terminal, tmp_path / "locks", stays=True)
    yield made
    made.close_client()


def clients(terminal: Terminal) -> list[str]:
    """The clients of the server: process and session."""
    form = "#{client_pid} #{client_session}"
    return terminal.run(("list-clients", "-F", form)).splitlines()


def first(terminal: Terminal) -> str:
    """The pane of the fleet's session."""
    return terminal.run(("list-panes", "-t", "=tasuki:", "-F", "#{pane_id}")).strip()


def typed(terminal: Terminal, pane: str, text: str) -> None:
    """A program shows a text."""
    terminal.run(("send-keys", "-t", pane, "-l", text))
    terminal.run(("send-keys", "-t", pane, "Enter"))


def test_it_answers_as_a_process_does(terminal: Terminal, panes: TmuxPanes, tmp_path: Path) -> None:
    """Whatever letters a screen shows, and what it is asked for."""
    pane = first(terminal)
    for line in ("é ✓ 日本 🙂", "a\\b 'c' \"d\" #{pane_id} $(e) ; f", "%end", "\t|"):
        typed(terminal, pane, line)
    plain = TmuxPanes(terminal, tmp_path / "locks")
    retry_until(lambda: plain.capture_screen(pane).text.count("|") == 2)

    assert panes.capture_screen(pane) == plain.capture_screen(pane)
    assert panes.read_status() == plain.read_status()
    assert panes.read_marks(pane) == plain.read_marks(pane)
    assert [line.split()[1] for line in clients(terminal)] == ["tasuki"]


def test_no_process_is_started_for_a_question(terminal: Terminal, panes: TmuxPanes) -> None:
    """One client answers all of them, from every thread."""
    pane = first(terminal)
    panes.capture_screen(pane)
    (before,) = clients(terminal)
    with ThreadPoolExecutor(8) as pool:
        seen = list(
            pool.map(lambda _: (panes.capture_screen(pane).pid, panes.read_marks(pane)), range(200))
        )

    assert len(set(seen)) == 1
    assert clients(terminal) == [before]


class Counting(ControlMode):
    """Knows the number of tmux's newest answer, as a program that wants to forge one would like to."""

    number = 0

    def _read_line(self, deadline: float) -> str:
        line = super()._read_line(deadline)
        if line.startswith("%begin"):
            self.number = int(line.split()[2])
        return line


def test_a_screen_that_looks_like_a_guard(terminal: Terminal) -> None:
    """A program that forges the end of an answer, and another answer, changes no answer of others."""
    control = Counting(terminal.base, "tasuki", dict(os.environ))
    pane, cut = first(terminal), 0
    for _ in range(20):
        control.ask(ID)
        ends = [f"%end {int(time.time())} {control.number + n} 1" for n in range(1, 16)]
        terminal.run(("set-buffer", "\n".join((*ends, "whole", ""))), ("paste-buffer", "-t", pane))
        shown = retry_until(lambda: _whole(terminal, pane))
        try:
            cut += control.ask(f"capture-pane -p -t {pane}") != shown
        except TmuxUnanswered:
            cut += 1
        assert control.ask(ID) == "tasuki\n"
        terminal.run(("send-keys", "-R", "-t", pane), ("clear-history", "-t", pane))
    control.close()

    assert cut, "no forged guard was ever the one that was waited for"


def _whole(terminal: Terminal, pane: str) -> str:
    shown = terminal.run(("capture-pane", "-p", "-t", pane))
    return shown if "whole" in shown else ""


def test_what_is_out_of_step_is_no_answer(terminal: Terminal, control: ControlMode) -> None:
    """An answer to an earlier question is not taken for one to this; the next client answers."""
    control.ask(ID)
    assert control._client
    assert control._client.stdin
    control._client.stdin.write(b"display-message -p stale\n")

    assert control.ask(ID).endswith("tasuki\n")
    assert control.ask(ID) == "tasuki\n"


def test_a_refusal_is_told_as_by_a_process(terminal: Terminal, panes: TmuxPanes) -> None:
    """A pane that is gone raises PaneGone; the session's other panes are still seen."""
    pane = first(terminal)
    panes.capture_screen(pane)

    with pytest.raises(PaneGone):
        panes.capture_screen("%99")
    assert panes.capture_screen(pane).pid


def test_a_client_that_is_killed_is_replaced(terminal: Terminal, panes: TmuxPanes) -> None:
    """Without its client a question is asked by a process; then there is a new client."""
    pane = first(terminal)
    panes.capture_screen(pane)
    (before,) = clients(terminal)
    os.kill(int(before.split()[0]), signal.SIGKILL)
    found = panes.capture_screen(pane)
    retry_until(lambda: panes.capture_screen(pane) and clients(terminal))

    assert found.pid
    assert clients(terminal) != [before]


def test_without_the_fleets_session_nobody_is_attached(
    terminal: Terminal, panes: TmuxPanes
) -> None:
    """The client goes into no session of the operator's, and its session's end is no failure."""
    panes.capture_screen(first(terminal))
    terminal.run(("kill-session", "-t", "=tasuki"))
    (mine,) = panes.read_status().panes
    retry_until(lambda: not clients(terminal))

    assert panes.capture_screen(mine).pid
    assert clients(terminal) == []


def test_a_server_that_is_gone(terminal: Terminal, panes: TmuxPanes) -> None:
    """tmux with all its panes is gone: that is said, and nothing waits."""
    pane = first(terminal)
    panes.capture_screen(pane)
    terminal.run(("kill-server",))

    with pytest.raises(PaneGone):
        panes.capture_screen(pane)
    assert panes.read_status().running is False


def test_a_line_that_is_cut_off_is_not_carried_out(
    terminal: Terminal, control: ControlMode
) -> None:
    """Killed in the middle of writing: half a command does nothing."""
    control.ask(ID)
    client = control._client
    assert client
    assert client.stdin
    client.stdin.write(b"rename-session -t =mine yours")
    client.stdin.close()
    client.wait(10)

    assert "mine" in terminal.run(("list-sessions",))


def test_windows_keep_their_size(terminal: Terminal, panes: TmuxPanes) -> None:
    """The client has no say in how large a window is."""
    before = terminal.run(("list-windows", "-a", "-F", "#{window_width}x#{window_height}"))
    panes.capture_screen(first(terminal))

    assert terminal.run(("list-windows", "-a", "-F", "#{window_width}x#{window_height}")) == before


def test_a_tmux_that_hangs_holds_nobody_up_for_ever(
    terminal: Terminal, control: ControlMode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that is stopped: Unanswered after the time limit; an answer once it runs again."""
    control.ask(ID)
    pid = int(control.ask("display-message -p '#{pid}'"))
    monkeypatch.setattr("tasuki.launch.tmux.control_mode.SECONDS", 0.5)
    monkeypatch.setattr("tasuki.launch.tmux.control_mode.REST_SECONDS", 0.0)
    os.kill(pid, signal.SIGSTOP)
    try:
        with pytest.raises(TmuxUnanswered):
            control.ask(ID)
    finally:
        os.kill(pid, signal.SIGCONT)

    assert retry_until(lambda: _tried(control)) == "tasuki\n"


def _tried(control: ControlMode) -> str:
    try:
        return control.ask(ID)
    except TmuxUnanswered:
        return ""


def test_no_client_outlives_whoever_asked(terminal: Terminal, tmp_path: Path) -> None:
    """A server that is killed leaves no client behind."""
    code = (
        "import sys, time; from pathlib import Path; from tasuki.launch.tmux.panes import TmuxPanes\n"
        "from tasuki.launch.tmux.server import Tmux\n"
        "panes = TmuxPanes(Tmux(sys.argv[1]), Path(sys.argv[2]), stays=True); panes.read_status()\n"
        "print('ready', flush=True); time.sleep(60)"
    )
    program = subprocess.Popen(
        [sys.executable, "-c", code, terminal.socket, str(tmp_path)], stdout=subprocess.PIPE
    )
    assert program.stdout
    program.stdout.readline()
    attached = clients(terminal)
    program.kill()
    program.wait()
    program.stdout.close()
    retry_until(lambda: not clients(terminal))

    assert len(attached) == 1


def test_to_ask_starts_no_server(terminal: Terminal, tmp_path: Path) -> None:
    """Nor runs the operator's configuration, which may start his sessions again."""
    terminal.run(("kill-server",))
    (tmp_path / ".tmux.conf").write_text(f"run-shell 'touch {tmp_path}/configured'\n")
    control = ControlMode(terminal.base, "tasuki", {**os.environ, "HOME": str(tmp_path)})
    with pytest.raises(TmuxUnanswered):
        control.ask("list-panes -a")

    assert not (tmp_path / "configured").exists()
