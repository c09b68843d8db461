"""A text reaches the clipboard by the first way that works, and the way is named."""

import os
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from terminals import Terminal
from waiting import retry_until

from tasuki.errors import LaunchFailed
from tasuki.launch import clipboard, copy_text

CODE = "import sys; from tasuki.launch import copy_text; print(copy_text(sys.argv[1]), flush=True)"


@pytest.fixture(autouse=True)
def nothing_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No display, no tmux, and programs only where the test puts them."""
    for name in ("WAYLAND_DISPLAY", "DISPLAY", "TMUX", "TERM"):
        monkeypatch.delenv(name, raising=False)
    programs = tmp_path / "bin"
    programs.mkdir()
    monkeypatch.setenv("PATH", str(programs))
    return programs


@pytest.fixture
def terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    """A terminal of the test's own."""
    monkeypatch.setenv("PATH", "/usr/local/bin:/usr/bin:/bin")
    if not shutil.which("tmux"):
        pytest.skip("tmux is not installed")
    made = Terminal(tmp_path)
    yield made
    made.end()


def script(folder: Path, name: str, body: str) -> None:
    """A program for the test."""
    (folder / name).write_text(f"#!/bin/sh\nPATH=/usr/bin:/bin\n{body}\n")
    (folder / name).chmod(0o755)


@pytest.mark.parametrize(
    ("name", "display"), [("wl-copy", "WAYLAND_DISPLAY"), ("xclip", "DISPLAY"), ("xsel", "DISPLAY")]
)
def test_programs(
    nothing_here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, display: str
) -> None:
    """A clipboard program gets the text where its display is."""
    script(nothing_here, name, f"cat > {tmp_path}/copied")
    with pytest.raises(LaunchFailed):
        copy_text("text")
    monkeypatch.setenv(display, ":0")

    assert name == copy_text("grüße\n\ttab")
    assert (tmp_path / "copied").read_text() == "grüße\n\ttab"


def test_a_program_that_fails_or_hangs(
    nothing_here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that fails or hangs is passed over; one that stays in the background is not."""
    monkeypatch.setattr(clipboard, "SECONDS", 0.5)
    monkeypatch.setenv("WAYLAND_DISPLAY", "w")
    monkeypatch.setenv("DISPLAY", ":0")
    script(nothing_here, "wl-copy", "exit 1")
    script(nothing_here, "xclip", "exec sleep 30")
    script(nothing_here, "xsel", f"cat > {tmp_path}/copied; sleep 3 &")
    start = time.monotonic()

    assert copy_text("text") == "xsel"
    assert time.monotonic() - start < 2.5


def test_nothing_can_copy() -> None:
    """Where nothing can copy the error says what to install, and the other way."""
    with pytest.raises(LaunchFailed, match=r"Install wl-clipboard or xclip.*--print"):
        copy_text("text")


def test_the_buffer_of_tmux(terminal: Terminal, tmp_path: Path) -> None:
    """Inside tmux the text is in tmux's buffer, to the letter."""
    made = ("new-session", "-d", "-P", "-F", "#{pane_id}", sys.executable, "-c", CODE)
    long = "grüße;\n" * 500
    pane = terminal.run((*made, long + "; sleep 9"), env=terminal.env).strip()
    terminal.run(("set-option", "-g", "remain-on-exit", "on"))
    assert pane

    retry_until(lambda: terminal.run(("list-buffers",)))

    assert long + "; sleep 9" == terminal.run(("show-buffer",))


def test_the_terminal_itself(terminal: Terminal, tmp_path: Path) -> None:
    """Elsewhere the terminal is asked (OSC 52); tmux, as that terminal, takes the text."""
    terminal.run(("new-session", "-d", "sleep", "100"), ("set-option", "-s", "set-clipboard", "on"))
    pane = terminal.open([sys.executable, "-c", CODE, "grüße"], tmp_path)

    assert "the terminal (OSC 52)" in terminal.shows(pane, "[ended 0]")
    assert retry_until(lambda: terminal.run(("show-buffer",))) == "grüße"


def test_too_long_for_the_terminal(terminal: Terminal, tmp_path: Path) -> None:
    """A text that terminals would drop without a word is refused."""
    code = CODE.replace("sys.argv[1]", "'x' * 90_000")
    pane = terminal.open([sys.executable, "-c", code], tmp_path)

    terminal.shows(pane, "[ended 1]")
    assert os.environ.get("TMUX") is None
