"""Text and keys for real tmux panes: each typed once, whoever is killed when."""

import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pane_programs import events, prompt, submit, texts
from terminals import Terminal
from waiting import retry_until

from tasuki.errors import LaunchFailed, PaneGone
from tasuki.launch.tmux.panes import TmuxPanes
from tasuki.launch.tmux.paste import PaneMarks
from tasuki.launch.tmux.server import Tmux, _join_commands

pytestmark = pytest.mark.skipif(not shutil.which("tmux"), reason="tmux is not installed")

SENDER = """
import sys, time; from pathlib import Path
from tasuki.launch.tmux.panes import TmuxPanes; from tasuki.launch.tmux.server import Tmux
panes = TmuxPanes(Tmux(sys.argv[1]), Path(sys.argv[2]), stays=True)
print("ready", flush=True)
for id in map(str.strip, sys.stdin):
    with panes.lock(sys.argv[3]):
        marks = panes.read_marks(sys.argv[3])
        if marks.paste != id:
            marks = panes.paste(sys.argv[3], id + "\\nsecond line", id)
        if marks.enter != id:
            time.sleep(0.01)
            panes.enter(sys.argv[3], id)
"""


def test_a_paste_whose_answer_was_lost_is_given_again(
    terminal: Terminal, tmp_path: Path, log: Path
) -> None:
    """It was pasted once, its mark says so, and no buffer is left."""

    class Twice(TmuxPanes):
        def _run(self, *commands: Sequence[str]) -> str:
            self.tmux.run(*commands)
            return self.tmux.run(*commands)

    panes = Twice(terminal, tmp_path / "locks")
    pane = prompt(TmuxPanes(terminal, tmp_path / "locks"), log).pane

    assert panes.paste(pane, "one", "t-1") == PaneMarks("t-1")
    assert panes.enter(pane, "t-1") == PaneMarks("t-1", "t-1")
    assert retry_until(lambda: texts(log, "enter")) == ["one"]
    assert panes.tmux.run(("list-buffers",)) == ""


def test_a_text_is_typed_once(panes: TmuxPanes, log: Path) -> None:
    """However often a step is made again, each text is pasted once and submitted once."""
    pane = prompt(panes, log).pane

    assert panes.read_marks(pane) == PaneMarks()
    for _ in range(3):
        assert panes.paste(pane, "one\ntwo", "t-1") == PaneMarks("t-1")
    assert panes.enter(pane, "other") == PaneMarks("t-1")
    for _ in range(3):
        assert panes.enter(pane, "t-1") == PaneMarks("t-1", "t-1")
    assert submit(panes, pane, "three", "t-2", 0) == PaneMarks("t-2", "t-2")
    assert submit(panes, pane, "three", "t-2", 0) == PaneMarks("t-2", "t-2")
    assert retry_until(lambda: len(texts(log, "enter")) == 2)
    assert texts(log, "paste") == ["one\rtwo", "three"]
    assert texts(log, "enter") == ["one\rtwo", "three"]
    assert panes.tmux.run(("list-buffers",)) == ""


def test_what_was_pasted_over_is_known(panes: TmuxPanes, log: Path) -> None:
    """A pane remembers each text that was pasted into it, also behind another one."""
    pane = prompt(panes, log).pane
    for id in ("t-1", "t-2"):
        submit(panes, pane, id, id, 0.01)

    assert panes.read_marks(pane) == PaneMarks("t-2", "t-2")
    assert [panes.was_pasted(pane, id) for id in ("t-1", "t-2", "t-3", "1")] == [
        True, True, False, False,
    ]  # fmt: skip


def test_a_second_enter(panes: TmuxPanes, log: Path) -> None:
    """`id+` presses Enter for a second time, and never for a third one."""
    pane = prompt(panes, log).pane
    submit(panes, pane, "text", "t-1", 0)

    for id in ("t-1+", "t-1+", "t-1"):
        assert panes.enter(pane, id) == PaneMarks("t-1", "t-1+")

    assert retry_until(lambda: len(texts(log, "enter")) >= 2)
    submit(panes, pane, "last", "t-2", 0)
    retry_until(lambda: "last" in texts(log, "enter"))
    assert texts(log, "enter") == ["text", "", "last"]


@pytest.mark.parametrize(
    ("text", "arrives"),
    [
        ("start\x1b[201~\rrm -rf\x9b201~\x03\x7f\x00 end", "start\rrm -rf end"),
        ("ends in a semicolon;", "ends in a semicolon;"),
        ("#{pane_id} #(touch x) $HOME `id` %1 \\r \"'", "#{pane_id} #(touch x) $HOME `id` %1 \\r \"'"),
        ("-t %0 ;", "-t %0 ;"),
        ("a\r\nb\rc\td\ud800", "a\rb\rc\td?"),
        ("line ✓ 12345\n" * 70_000, "line ✓ 12345\r" * 70_000),
    ],
    ids=["controls", "semicolon", "formats", "options", "line ends", "1 MB"],
)  # fmt: skip
def test_any_text(panes: TmuxPanes, log: Path, text: str, arrives: str) -> None:
    """A text arrives as one piece to the letter, without what could press keys of its own."""
    pane = prompt(panes, log).pane

    submit(panes, pane, text, "t-1", 0)

    retry_until(lambda: texts(log, "enter"), 20)
    assert texts(log, "paste") == [arrives]
    assert texts(log, "enter") == [arrives]
    assert events(log, "typed") == []
    assert list(log.parent.glob("x")) == []


def test_a_program_without_bracketed_paste(panes: TmuxPanes, log: Path) -> None:
    """A program that has not asked for marked pastes gets an Enter for each newline: it is told apart nowhere."""
    pane = prompt(panes, log, T_UNMARKED="1").pane

    submit(panes, pane, "one\ntwo", "t-1", 0)

    retry_until(lambda: len(texts(log, "enter")) == 2)
    assert texts(log, "enter") == ["one", "two"]


def test_an_operator_who_scrolls(panes: TmuxPanes, terminal: Terminal, log: Path) -> None:
    """A text arrives whole in a pane that is scrolled back, and keys do; Enter leaves it scrolled."""
    pane = prompt(panes, log).pane
    scroll = ("copy-mode", "-t", pane)
    terminal.run(scroll)

    panes.paste(pane, "one\ntwo", "t-1")
    terminal.run(scroll)
    panes.enter(pane, "t-1")

    retry_until(lambda: texts(log, "enter") == ["one\rtwo"])
    assert texts(log, "paste") == ["one\rtwo"]
    assert panes.read_status().panes[pane].in_mode
    panes.press_keys(pane, "C-c", "Escape", "C-u")
    retry_until(lambda: [e["key"] for e in events(log, "typed")] == ["\x03", "\x1b", "\x15"])
    assert not panes.read_status().panes[pane].in_mode


def test_a_dead_pane_takes_no_text(panes: TmuxPanes, log: Path) -> None:
    """A text for a pane whose program has ended is refused, and tmux lives: 3.3a ends otherwise."""
    living, dying = prompt(panes, log), prompt(panes, log, "agent-2")
    panes.paste(dying.pane, "text", "t-1")
    os.kill(dying.pid, signal.SIGKILL)
    retry_until(lambda: panes.read_status().panes[dying.pane].dead)

    for call in (
        lambda: panes.paste(dying.pane, "text", "t-2"),
        lambda: panes.enter(dying.pane, "t-1"),
        lambda: panes.press_keys(dying.pane, "Enter"),
        lambda: panes.read_marks(dying.pane),
        lambda: panes.paste("%77", "text", "t-2"),
        lambda: panes.enter("%77", "t-1"),
        lambda: panes.read_marks("%77"),
    ):
        with pytest.raises(PaneGone):
            call()

    assert panes.tmux.run(("list-buffers",)) == ""
    assert panes.read_status().panes[dying.pane].status in (137, None)
    assert not panes.read_status().panes[living.pane].dead


def test_panes_that_die_while_they_are_typed_into(panes: TmuxPanes, log: Path) -> None:
    """Programs that are killed at any moment around a paste never take tmux with them."""
    kept = prompt(panes, log)
    for number in range(12):
        log = log.with_name(f"{number}.jsonl")
        dying = prompt(panes, log, f"agent-{number + 2}")
        killer = threading.Timer(random.random() * 0.02, os.kill, (dying.pid, signal.SIGKILL))
        killer.start()
        try:
            submit(panes, dying.pane, "text", "t-1", 0.005)
        except PaneGone:
            pass
        killer.join()
        retry_until(lambda pane=dying.pane: panes.read_status().panes[pane].dead)  # type: ignore[misc]

    assert panes.capture_screen(kept.pane).pid == kept.pid


def test_another_process_in_the_pane(panes: TmuxPanes, log: Path) -> None:
    """A pane that has another process than the one that is meant gets no text and no key."""
    opened = prompt(panes, log)

    for call in (
        lambda: panes.paste(opened.pane, "text", "t-1", pid=opened.pid + 1),
        lambda: submit(panes, opened.pane, "text", "t-1", 0, pid=opened.pid + 1),
        lambda: panes.press_keys(opened.pane, "Enter", pid=opened.pid + 1),
    ):
        with pytest.raises(PaneGone):
            call()

    assert submit(panes, opened.pane, "mine", "t-1", 0, pid=opened.pid) == PaneMarks("t-1", "t-1")
    retry_until(lambda: texts(log, "enter") == ["mine"])
    assert texts(log, "paste") == ["mine"]


def test_a_pane_whose_input_is_off(panes: TmuxPanes, terminal: Terminal, log: Path) -> None:
    """A pane that takes no input says how to switch it on; nothing counts as typed."""
    pane = prompt(panes, log).pane
    terminal.run(("select-pane", "-d", "-t", pane))

    with pytest.raises(LaunchFailed, match=f"select-pane -e -t {pane}"):
        submit(panes, pane, "text", "t-1", 0)

    terminal.run(("select-pane", "-e", "-t", pane))
    assert panes.read_marks(pane) == PaneMarks()


class Killed(Tmux):
    """A tmux whose clients are killed with -9 some time after they were started."""

    def __init__(self, socket: str, chance: random.Random) -> None:
        super().__init__(socket)
        self.chance = chance

    def run(self, *commands: Sequence[str], text: str | None = None, **more: Any) -> str:
        """Start a client, and kill it."""
        if commands[0][0] in ("load-buffer", "delete-buffer"):
            return super().run(*commands, text=text)
        client = subprocess.Popen(
            [*self.base, *_join_commands(commands)],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        time.sleep(self.chance.uniform(0, 0.008))
        client.kill()
        client.wait()
        raise LaunchFailed("killed")


def test_clients_that_are_killed(panes: TmuxPanes, log: Path) -> None:
    """A client killed with -9 at any moment leaves the mark and the paste, or neither; so with Enter."""
    pane = prompt(panes, log).pane
    chance = random.Random(7)
    killed = TmuxPanes(Killed(panes.tmux.socket, chance), log.parent)
    pasted, entered = [], []
    for number in range(120):
        id = f"t-{number}"
        with pytest.raises(LaunchFailed, match="killed"):
            killed.paste(pane, id, id)
        if panes.read_marks(pane).paste == id:
            pasted.append(id)
        else:
            panes.paste(pane, id, id)
        with pytest.raises(LaunchFailed, match="killed"):
            killed.enter(pane, id)
        if panes.read_marks(pane).enter == id:
            entered.append(id)
        else:
            panes.enter(pane, id)

    wanted = [f"t-{number}" for number in range(120)]
    retry_until(lambda: texts(log, "enter")[-1:] == wanted[-1:])
    assert texts(log, "paste") == wanted
    assert texts(log, "enter") == wanted
    assert 5 < len(pasted) < 115
    assert 5 < len(entered) < 115


def test_senders_that_are_killed(panes: TmuxPanes, log: Path) -> None:
    """A sender killed with -9 anywhere, and one that begins again, submit each text once, in order."""
    pane = prompt(panes, log).pane
    call = (sys.executable, "-c", SENDER, panes.tmux.socket, str(panes.folder), pane)
    ids = [f"t-{number}" for number in range(60)]
    chance, killed, done = random.Random(3), 0, 0
    while done < len(ids):
        sender = subprocess.Popen(call, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert sender.stdin
        assert sender.stdout
        sender.stdout.readline()
        sender.stdin.write("".join(f"{id}\n" for id in ids[done:]))
        sender.stdin.flush()
        time.sleep(chance.uniform(0.0, 0.15))
        sender.kill()
        sender.communicate()
        killed += 1
        mark = panes.read_marks(pane)
        done = ids.index(mark.enter) + 1 if mark.enter else 0

    retry_until(lambda: texts(log, "enter")[-1:] == ["t-59\rsecond line"])
    assert texts(log, "paste") == [f"{id}\rsecond line" for id in ids]
    assert texts(log, "enter") == [f"{id}\rsecond line" for id in ids]
    assert events(log, "typed") == []
    assert killed > 5


def test_one_sender_at_a_time(panes: TmuxPanes, log: Path) -> None:
    """Texts of many threads at once arrive one after the other, each with its own Enter."""
    pane = prompt(panes, log).pane
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: submit(panes, pane, f"text {n}", f"t-{n}", 0.01), range(8)))

    retry_until(lambda: len(texts(log, "enter")) == 8)
    assert sorted(texts(log, "enter")) == [f"text {n}" for n in range(8)]


def test_the_lock_holds_across_processes(panes: TmuxPanes, log: Path) -> None:
    """Another process that types keeps this one away, until it ends, however it ends."""
    code = (
        "import sys; from pathlib import Path\n"
        "from tasuki.launch.tmux.panes import TmuxPanes; from tasuki.launch.tmux.server import Tmux\n"
        "with TmuxPanes(Tmux(sys.argv[1]), Path(sys.argv[2])).lock('%0'):\n"
        "    print('held', flush=True); sys.stdin.read()\n"
    )
    call = (sys.executable, "-c", code, panes.tmux.socket, str(panes.folder))
    other = subprocess.Popen(call, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert other.stdout
    other.stdout.readline()

    with pytest.raises(LaunchFailed, match="typing into the tmux pane %0"), panes.lock("%0", 0.1):
        pass
    with panes.lock("%1", 0.1):
        pass
    other.kill()
    other.communicate()
    with panes.lock("%0", 5):
        pass
