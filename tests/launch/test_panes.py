"""The panes of a fleet, in a real tmux server: opened once, whoever is killed when; looked at, closed."""

import os
import random
import shutil
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pane_programs import PROGRAM, events, ordered, prompt, submit
from terminals import Terminal
from waiting import retry_until, runs

from tasuki.errors import LaunchFailed, PaneGone
from tasuki.launch.tmux.panes import TmuxPanes

pytestmark = pytest.mark.skipif(not shutil.which("tmux"), reason="tmux is not installed")

OPENER = """
import sys; from pathlib import Path
from tasuki.launch.tmux.panes import TmuxPanes; from tasuki.launch.tmux.server import Tmux
panes = TmuxPanes(Tmux(sys.argv[1]), Path(sys.argv[2])); order = Path(sys.argv[3])
print("ready", flush=True); sys.stdin.readline()
found = panes.find("agent-1")
if found is None and order.exists():
    panes.open(order, "one", "agent-1", sys.argv[2])
"""


def test_a_window_opens_in_the_background(panes: TmuxPanes, terminal: Terminal, log: Path) -> None:
    """A window of an agent takes its order away, carries its tag, and leaves the others in front."""
    terminal.run(("new-session", "-d", "-s", "tasuki", "-n", "mine", "sleep", "100"))

    opened = prompt(panes, log, T_MINE="yes")

    assert panes.find("agent-1") == opened
    assert opened.window == "tasuki:1"
    assert runs(opened.pid)
    assert events(log, "start")[0]["env"]["T_MINE"] == "yes"
    assert list(log.parent.glob("*.json")) + list(log.parent.rglob("z")) == []
    active = terminal.run(("list-windows", "-a", "-F", "#{window_name} #{window_active}"))
    assert active.splitlines() == ["mine 1", "a window 0"]


def test_a_session_that_nobody_looks_at_stays(
    panes: TmuxPanes, terminal: Terminal, log: Path, tmp_path: Path
) -> None:
    """Where the user's settings end such sessions, that of agents is left out."""
    (tmp_path / "tmux.conf").write_text("set -g destroy-unattached on\n")
    terminal.base = (*terminal.base, "-f", str(tmp_path / "tmux.conf"))
    opened = prompt(panes, log)

    assert runs(opened.pid)
    assert terminal.run(("show-options", "-gv", "destroy-unattached")).strip() == "on"


def test_a_tmux_that_ends_by_itself_is_named(
    panes: TmuxPanes, terminal: Terminal, log: Path, tmp_path: Path
) -> None:
    """No window can stay there: the refusal names the option, and how to switch it off."""
    (tmp_path / "tmux.conf").write_text("set -s exit-unattached on\n")
    terminal.base = (*terminal.base, "-f", str(tmp_path / "tmux.conf"))
    with pytest.raises(LaunchFailed) as refused:
        prompt(panes, log)

    assert "its option exit-unattached is on" in str(refused.value)
    assert "tmux set-option -s exit-unattached off" in str(refused.value)
    assert "nothing was started" in str(refused.value)


def test_the_session_is_made_where_it_is_missing(panes: TmuxPanes, log: Path) -> None:
    """Without any server the first window brings the session with it."""
    assert not panes.read_status().running

    opened = prompt(panes, log)

    assert opened.window.startswith("tasuki:")
    assert panes.read_status().running


def test_a_server_that_is_just_exiting(panes: TmuxPanes, terminal: Terminal, log: Path) -> None:
    """Its last window is gone and it goes too, while a window is asked of it: a new one is started."""
    terminal.run(("new-session", "-d", "-s", "tasuki", "sleep", "100"))
    server = int(terminal.run(("display-message", "-p", "#{pid}")))
    os.kill(server, signal.SIGSTOP)
    with ThreadPoolExecutor(1) as pool:
        opening = pool.submit(prompt, panes, log)
        retry_until(lambda: any("new-window" in line for line in commands_of(os.getpid())))
        os.kill(server, signal.SIGKILL)
        opened = opening.result(30)

    assert runs(opened.pid)
    assert 1 == len(events(log, "start"))


def commands_of(pid: int) -> list[str]:
    """The command lines of the processes that any thread of a process started."""
    started = [word for path in Path(f"/proc/{pid}/task").glob("*/children") for word in path.read_text().split()]  # fmt: skip
    return [
        Path(f"/proc/{one}/cmdline").read_bytes().replace(b"\0", b" ").decode() for one in started
    ]


def test_a_server_without_a_session(panes: TmuxPanes, terminal: Terminal, log: Path) -> None:
    """A server that stands without any session counts as none, and a window brings the session."""
    terminal.run(("start-server",), ("set-option", "-g", "exit-empty", "off"))

    assert not panes.read_status().running
    assert panes.find("agent-1") is None
    assert prompt(panes, log).window == "tasuki:0"


def test_a_tag_is_the_whole_word(panes: TmuxPanes, log: Path) -> None:
    """`agent-1` is not found in the pane of `agent-17`, nor a tag in another command that has it."""
    opened = prompt(panes, log, "agent-17")
    panes.tmux.run(("new-window", "-d", "-t", "=tasuki:", "sh", "-c", "sleep 100 # agent-1"))

    assert panes.find("agent-1") is None
    assert panes.find("17") is None
    assert panes.find("agent-17") == opened


def test_many_windows_for_one_order(panes: TmuxPanes, log: Path) -> None:
    """Of windows that are opened at once for one order, one becomes the program; all get its pane."""
    order = ordered(log.parent, (sys.executable, PROGRAM, str(log)))
    with ThreadPoolExecutor(6) as pool:
        found = list(
            pool.map(lambda _: panes.open(order, "one", "agent-1", str(log.parent)), range(6))
        )

    assert len(set(found)) == 1
    assert list(panes.read_status().panes) == [found[0].pane]
    assert len(retry_until(lambda: events(log, "start"))) == 1


@pytest.mark.parametrize("seed", range(10))
def test_an_opener_that_is_killed(panes: TmuxPanes, log: Path, seed: int) -> None:
    """An opener killed with -9 at any moment, and another one after it, start the program once."""
    order = ordered(log.parent, (sys.executable, PROGRAM, str(log)))
    call = (sys.executable, "-c", OPENER, panes.tmux.socket, str(log.parent), str(order))
    for wait in (random.Random(seed).uniform(0, 0.08), 20.0):
        opener = subprocess.Popen(call, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert opener.stdin
        assert opener.stdout
        opener.stdout.readline()
        opener.stdin.write(b"\n")
        opener.stdin.flush()
        try:
            opener.wait(wait)
        except subprocess.TimeoutExpired:
            opener.kill()
        opener.communicate()

    assert panes.find("agent-1")
    assert len(retry_until(lambda: events(log, "start"))) == 1
    assert len(panes.read_status().panes) == 1


def test_a_program_that_dies_at_once(panes: TmuxPanes, log: Path) -> None:
    """Its last words are read from the pane that stands, with its status; then that is closed."""
    order = ordered(log.parent, (sys.executable, PROGRAM, str(log)), T_DIE="s-1")

    opened = panes.open(order, "one", "agent-1", str(log.parent))

    state = retry_until(
        lambda: (s := panes.read_status([opened.pane]).panes[opened.pane]).dead and s
    )
    assert state
    assert state.status in (1, None)
    assert "no such session: s-1" in panes.read_last_lines(opened.pane)
    assert panes.find("agent-1") == opened
    with pytest.raises(PaneGone):
        panes.capture_screen(opened.pane)
    panes.close(opened.pane)
    panes.close(opened.pane)
    assert panes.find("agent-1") is None
    assert panes.read_last_lines(opened.pane) == ""


def test_a_program_that_ends_well(panes: TmuxPanes, terminal: Terminal, log: Path) -> None:
    """A window closes when its program ends with 0; where that is at once, opening says so."""
    terminal.run(("new-session", "-d", "-s", "tasuki", "sleep", "100"))
    order = ordered(log.parent, ("/bin/sh", "-c", "exit 0"))

    said = "agent-1 ended at once"
    try:
        panes.open(order, "one", "agent-1", str(log.parent))
    except PaneGone as error:
        said = str(error)
    retry_until(lambda: len(panes.read_status().panes) == 1)  # on a busy machine it takes its time

    assert not order.exists()
    assert "agent-1 ended at once" in said


def test_an_order_that_cannot_be_taken(panes: TmuxPanes, log: Path) -> None:
    """Where no window can take the order it stays, nothing is started, and the reason is told."""
    order = log.parent / "folder.json"
    order.mkdir()

    with pytest.raises(LaunchFailed, match=r"(?s)nothing was started.*cannot be read"):
        panes.open(order, "one", "agent-1", str(log.parent))

    assert order.exists()
    assert panes.find("agent-1") is None


def test_an_order_whose_program_is_gone(panes: TmuxPanes, log: Path) -> None:
    """A program that is not there is named in the last words."""
    order = ordered(log.parent, ("/nowhere/claude",))

    opened = panes.open(order, "one", "agent-1", str(log.parent))

    assert "/nowhere/claude cannot be run in" in panes.read_last_lines(opened.pane, 20).replace(
        "\n", ""
    )


def test_status_of_many(panes: TmuxPanes, terminal: Terminal, log: Path) -> None:
    """One call tells of all panes; those that are gone are left out, and so is everything without tmux."""
    opened = prompt(panes, log)
    other = terminal.run(("new-window", "-d", "-P", "-F", "#{pane_id}", "sleep", "100")).strip()
    terminal.run(("select-pane", "-t", other, "-T", "a\ttitle\n%7\t1"))

    survey = panes.read_status([opened.pane, "%99", other])

    assert list(survey.panes) == [opened.pane, other]
    state = survey.panes[other]
    assert (state.command, state.dead, state.status, state.in_mode) == ("sleep", False, None, False)
    assert survey.panes[opened.pane].start_command.split()[-1] == "agent-1"
    assert survey.panes[opened.pane].pid == opened.pid
    terminal.end()
    assert not panes.read_status([opened.pane]).running
    assert panes.find("agent-1") is None


def test_look(panes: TmuxPanes, log: Path) -> None:
    """A look has the screen, the title and the process of a pane; a pane that is gone is an error."""
    opened = prompt(panes, log)
    panes.tmux.run(("select-pane", "-t", opened.pane, "-T", "⠼ proj"))

    look = panes.capture_screen(opened.pane)

    assert "ready>" in look.text
    assert (look.title, look.pid) == ("⠼ proj", opened.pid)
    panes.close(opened.pane, opened.pid + 1)
    assert panes.capture_screen(opened.pane) == look
    panes.close(opened.pane, opened.pid)
    with pytest.raises(PaneGone):
        panes.capture_screen(opened.pane)


def test_tmux_that_ends(panes: TmuxPanes, terminal: Terminal, log: Path) -> None:
    """Where tmux itself is gone every call says so, and a new server's pane is another process."""
    opened = prompt(panes, log)
    terminal.end()

    for call in (
        lambda: submit(panes, opened.pane, "text", "t-1", 0),
        lambda: panes.capture_screen(opened.pane),
        lambda: panes.press_keys(opened.pane, "Escape"),
    ):
        with pytest.raises(PaneGone):
            call()
    again = prompt(panes, log, "agent-2")
    assert again.pane == opened.pane
    with pytest.raises(PaneGone):
        submit(panes, opened.pane, "text", "t-1", 0, pid=opened.pid)
    assert panes.find("agent-1") is None


def test_hostile_names(panes: TmuxPanes, log: Path) -> None:
    """What stands in commands to tmux is checked first: ids of panes and texts, keys, tags, names."""
    opened = prompt(panes, log)
    for call in (
        lambda: panes.press_keys(opened.pane, "Enter ; kill-server"),
        lambda: panes.press_keys(opened.pane, ";"),
        lambda: panes.paste(opened.pane, "x", "a ; kill-server"),
        lambda: panes.enter(opened.pane, "#{pane_id}"),
        lambda: panes.capture_screen("tasuki:0"),
        lambda: panes.close("%0 ; kill-server"),
        lambda: panes.open(log, "x", "two words", "/"),
    ):
        with pytest.raises(LaunchFailed, match=r"is not "):
            call()
    order = ordered(log.parent, (sys.executable, PROGRAM, str(log)), "9")

    panes.open(order, "-t #(touch y) :;.\n" + "x" * 99, "agent-9", str(log.parent))

    listed = panes.tmux.run(("list-windows", "-a", "-F", "#{window_name}")).splitlines()
    assert listed[-1].startswith("t touch y ")
    assert len(listed[-1]) == 40
    assert list(log.parent.glob("y")) == []


def test_without_tmux(panes: TmuxPanes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without tmux is told what to install."""
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(LaunchFailed, match=r"tmux is not installed.*apt install tmux"):
        panes.read_status()
