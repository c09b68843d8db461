"""Terminals in a real tmux: what a browser is told of screen and rows above, and what is typed there."""

import shlex
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from waiting import retry_until

from tasuki.errors import LaunchFailed, NotPossible
from tasuki.fleet.delivery import terminals
from tasuki.fleet.delivery.terminals import KnownTerminal, TerminalReader
from tasuki.fleet.store.models import FleetAgent
from tasuki.launch.tmux.panes import TmuxPanes
from tasuki.launch.tmux.paste import PaneKey, PastedText, PressedKey, TypedText
from tasuki.launch.tmux.server import Tmux

TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
AGENT = FleetAgent(1, "claude", "idle", 0.0, "/", "host", 0.0, pane="%0")


class Desk:
    """A pane that a test writes to, a reader, and a browser that shows what the reader says."""

    def __init__(self, panes: TmuxPanes, file: Path) -> None:
        self.panes = panes
        self.file = file
        self.reader = TerminalReader(panes)
        self.above: list[str] = []
        self.screen: list[str] = []
        self.view: dict[str, Any] = {}
        self.wholes = 0
        self.taken = 0
        self.known = KnownTerminal()

    def write(self, text: str) -> None:
        """Let the pane show more."""
        with self.file.open("a") as stream:
            stream.write(text)

    def look(self) -> str:
        """Ask as a browser does, keep what comes, and return all that is shown."""
        answer = self.reader.read_terminal(AGENT, self.known)
        if "screen" in answer:
            self.view = answer
            self.wholes += not answer["known"]
            self.taken = len(answer["above"])
            self.above = [*(self.above if answer["known"] else []), *answer["above"]]
            self.screen = answer["screen"]
            self.known = KnownTerminal(
                answer["epoch"], answer["tag"], answer["start"] + len(answer["above"])
            )
        return "".join((*self.above, *self.screen))

    def sees(self, text: str) -> str:
        """What is shown once a text is there."""
        return retry_until(lambda: text in (now := self.look()) and now) or ""


@pytest.fixture
def panes(tmp_path: Path) -> Iterator[TmuxPanes]:
    """A tmux server of the test's own."""
    with tempfile.TemporaryDirectory(prefix="t-", dir="/tmp") as folder:
        made = TmuxPanes(Tmux(f"{folder}/s"), tmp_path, stays=False)
        yield made
        subprocess.run([*made.tmux.base, "kill-server"], capture_output=True, check=False)


def open_pane(panes: TmuxPanes, command: str, columns: int = 40, rows: int = 6) -> None:
    """The pane %0 with a command; its own settings stay out."""
    size = ("-x", str(columns), "-y", str(rows))
    panes.tmux.run(("-f", "/dev/null", "new-session", "-d", "-s", "x", *size, "sh", "-c", command))


@pytest.fixture
def desk(panes: TmuxPanes, tmp_path: Path) -> Desk:
    """A pane of 40 columns and 6 rows that shows what is written into a file."""
    file = tmp_path / "shown"
    file.touch()
    open_pane(panes, f"exec tail -f -n +1 {shlex.quote(str(file))}")
    return Desk(panes, file)


def test_colours_cursor_and_size(desk: Desk) -> None:
    """The screen has its colours, and says where the cursor is and how large the pane is."""
    desk.write("\x1b[31mred\x1b[0m plain\n> ")
    desk.sees("\n>")

    assert desk.screen[:2] == ["\x1b[31mred\x1b[m plain\n", ">\n"]
    assert (desk.view["columns"], desk.view["rows"], desk.view["cursor"]) == (40, 6, (2, 1))


def test_a_pane_that_stands_still_says_only_that(desk: Desk) -> None:
    """What is known is not sent again."""
    desk.write("one\n")
    desk.sees("one")

    assert desk.reader.read_terminal(AGENT, desk.known) == {"tag": desk.known.tag}


def test_only_new_rows_above_are_sent(desk: Desk) -> None:
    """Rows that leave the screen are added to those that are known, in order, and none twice."""
    desk.write("".join(f"line {n}\n" for n in range(20)))
    desk.sees("line 19\n")
    for n in range(20, 60):
        desk.write(f"line {n}\n")
        desk.sees(f"line {n}\n")

    assert desk.wholes == 1
    assert desk.taken == 1
    assert "".join((*desk.above, *desk.screen)).split("\n")[:60] == [f"line {n}" for n in range(60)]


def test_many_new_rows_at_once(desk: Desk) -> None:
    """More than are looked at on every question come all the same, and what was there keeps its numbers."""
    desk.write("".join(f"line {n}\n" for n in range(50)))
    desk.sees("line 49\n")
    desk.write("".join(f"line {n}\n" for n in range(50, 900)))
    desk.sees("line 899\n")

    assert desk.wholes == 1
    assert "".join((*desk.above, *desk.screen)).split("\n")[:900] == [
        f"line {n}" for n in range(900)
    ]


def test_the_oldest_rows_go(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only so many rows above the screen are kept; those that are known stay where they are."""
    monkeypatch.setattr(terminals, "MOST_ABOVE", 30)
    desk.write("".join(f"line {n}\n" for n in range(50)))
    desk.sees("line 49\n")
    first = desk.view["start"]
    for n in range(50, 70):
        desk.write(f"line {n}\n")
        desk.sees(f"line {n}\n")
    other = Desk(desk.panes, desk.file)
    other.look()

    assert (first, desk.wholes, len(other.above)) == (0, 1, 30)
    assert desk.above[-30:] == other.above


def test_a_history_that_tmux_shortens(desk: Desk) -> None:
    """tmux drops a tenth of its rows at a time; what a browser has goes on without a reset."""
    desk.panes.tmux.run(("set-option", "-g", "history-limit", "100"), ("new-window", "-d", f"exec tail -f {desk.file}"))  # fmt: skip
    agent = FleetAgent(1, "claude", "idle", 0.0, "/", "host", 0.0, pane="%1")
    reader, known, lines, wholes = TerminalReader(desk.panes), KnownTerminal(), [], 0
    for n in range(0, 400, 5):
        desk.write("".join(f"line {m}\n" for m in range(n, n + 5)))
        retry_until(lambda n=n: f"line {n + 4}\n" in desk.panes.capture_screen("%1").text)
        answer = reader.read_terminal(agent, known)
        wholes += not answer["known"]
        lines += answer["above"]
        known = KnownTerminal(
            answer["epoch"], answer["tag"], answer["start"] + len(answer["above"])
        )

    assert wholes == 1
    assert lines == [f"line {n}\n" for n in range(len(lines))]
    assert len(lines) > 350


@pytest.mark.parametrize("change", ["clear", "resize"])
def test_other_rows_begin_anew(desk: Desk, change: str) -> None:
    """Where tmux forgets the rows above, or wraps them anew, everything is sent again."""
    desk.write("".join(f"line {n} {'x' * 30}\n" for n in range(30)))
    desk.sees("line 29")
    commands = {"clear": ("clear-history", "-t", "%0"), "resize": ("resize-window", "-t", "x:", "-x", "20")}  # fmt: skip
    desk.panes.tmux.run(commands[change])
    retry_until(lambda: desk.look() and desk.wholes == 2)

    assert ("line 3 " in "".join(desk.above)) is (change == "resize")
    assert desk.screen[-2:] == (["line 29 " + "x" * 30 + "\n", "\n"] if change == "clear" else ["x" * 18 + "\n", "\n"])  # fmt: skip


def test_wrapped_rows_are_one_line(desk: Desk) -> None:
    """A row that the terminal wrapped ends without a newline, also before a character of two columns."""
    desk.write(f"{'a' * 45}\n{'b' * 39}語c\nend\n")
    desk.sees("end")

    assert desk.screen[:5] == [
        "a" * 40,
        "aaaaa\n",
        "b" * 39 + desk.screen[2][39:],
        "語c\n",
        "end\n",
    ]
    assert not desk.screen[2].endswith("\n")


def test_a_secret_is_hidden_wherever_it_stands(desk: Desk) -> None:
    """On the screen, wrapped over rows, cut by colours, and in the rows above once it has scrolled."""
    desk.write(f"{'x' * 20} \x1b[31m{TOKEN[:12]}\x1b[1m{TOKEN[12:]}\x1b[0m end\n")
    desk.sees("end\n")
    on_screen = "".join(desk.screen)
    desk.write("".join(f"line {n}\n" for n in range(30)))
    desk.sees("line 29\n")
    said = on_screen + "".join(desk.above)

    assert not any(TOKEN[n : n + 5] in said for n in range(4, 35))
    assert said.count("[REDACTED]") == 4


def test_a_secret_that_is_recognised_later_goes_from_the_rows_above(desk: Desk) -> None:
    """Its first half had scrolled off before its second half came: everything is sent again."""
    desk.write(f"a\nb\n{'x' * 23} {TOKEN[:16]}")
    shown = desk.sees(TOKEN[:12])
    desk.write(f"{TOKEN[16:]}\n" + "".join(f"line {n}\n" for n in range(5)))
    desk.sees("line 4\n")

    assert TOKEN[:12] in shown
    assert TOKEN[4:12] not in "".join((*desk.above, *desk.screen))


def test_the_alternate_screen(desk: Desk) -> None:
    """A program that takes the whole screen is seen, and the rows above stay."""
    desk.write("".join(f"line {n}\n" for n in range(20)))
    desk.sees("line 19\n")
    desk.write("\x1b[?1049h\x1b[2J\x1b[3;3Hwhole")
    desk.sees("whole")
    above = list(desk.above)
    desk.write("\x1b[?1049l")
    desk.sees("line 19\n")

    assert above[:3] == ["line 0\n", "line 1\n", "line 2\n"]
    assert desk.wholes == 1


def test_a_pane_that_is_gone(desk: Desk) -> None:
    """It is said in a sentence."""
    desk.panes.tmux.run(("new-window", "-d", "sleep 100"), ("kill-pane", "-t", "%0"))
    with pytest.raises(NotPossible, match="%0 of agent 1 is gone"):
        desk.look()


def test_the_pane_of_another_program_is_not_shown(desk: Desk) -> None:
    """After a restart of tmux the id of an agent's pane may be that of any program."""
    desk.write("private\n")
    desk.sees("private")
    other = FleetAgent(1, "claude", "idle", 0.0, "/", "host", 0.0, pane="%0", pid=1)
    for read in (
        lambda: desk.reader.read_terminal(other, KnownTerminal()),
        lambda: terminals.read_screen(desk.panes, other),
    ):
        with pytest.raises(NotPossible, match="%0 of agent 1 is gone"):
            read()


# -- typing ------------------------------------------------------------------------------


@pytest.fixture
def typed(panes: TmuxPanes) -> Callable[..., str]:
    """Types into a pane that shows every byte; returns what it shows once its last one is there."""
    open_pane(panes, "stty raw -echo; printf 'ready\\033[?2004h '; exec cat -v", columns=120)
    retry_until(lambda: "ready" in panes.capture_screen("%0").text)

    def type_keys(*keys: PaneKey) -> str:
        panes.type_keys("%0", (*keys, TypedText("|end")))
        retry_until(lambda: "|end" in panes.capture_screen("%0").text)
        return panes.capture_screen("%0").text.strip().removeprefix("ready ")

    return type_keys


def test_keys_texts_and_pastes_come_in_order(typed: Callable[..., str]) -> None:
    """Each as its bytes; a paste in brackets where the program has asked for them."""
    keys = [PressedKey(name) for name in ("Up", "BTab", "C-c", "Escape", "Tab", "BSpace", "DC")]

    assert typed(TypedText("a é;"), *keys, PastedText("x\ny"), PressedKey("Enter")) == (
        "a M-CM-);^[[A^[[Z^C^[     ^?^[[3~^[[200~x^My^[[201~^M|end"
    )


@pytest.mark.parametrize(
    "text", ["; kill-server", "#{pane_id} $(x)", "-H 61", "'\"\\", "~ \\; {a}"]
)
def test_no_text_is_a_command(typed: Callable[..., str], text: str) -> None:
    """What has a meaning for tmux or a shell arrives as it is."""
    assert typed(TypedText(text)) == f"{text}|end"


def test_controls_in_a_text_press_nothing(typed: Callable[..., str]) -> None:
    """A text has no escape and no control character; a newline is Enter."""
    assert typed(TypedText("a\x1b[Ab\x03\nc")) == "ab^Mc|end"


@pytest.mark.parametrize("name", ["", "kill-server", "Enter ; kill-server", "-l", "C-"])
def test_what_is_no_key_is_refused(panes: TmuxPanes, name: str) -> None:
    """Nothing of the batch is typed then."""
    open_pane(panes, "cat")
    with pytest.raises(LaunchFailed, match="is not a key"):
        panes.type_keys("%0", [TypedText("before"), PressedKey(name)])

    assert "before" not in panes.capture_screen("%0").text


def test_a_batch_for_another_process_is_not_typed(panes: TmuxPanes) -> None:
    """A pane with the same id after a restart of tmux is another one; no paste stays in a buffer."""
    open_pane(panes, "cat")
    with pytest.raises(Exception, match="is gone"):
        panes.type_keys("%0", [PastedText("before")], pid=1)

    assert "before" not in panes.capture_screen("%0").text
    assert panes.tmux.run(("list-buffers",)) == ""
