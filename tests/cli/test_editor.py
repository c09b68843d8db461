"""Review in an editor gives back what the user left, and leaves no file behind."""

import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from terminals import Terminal

from tasuki.cli.handoff.review import edit_in_editor
from tasuki.errors import TasukiError, UsageError


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A temporary folder of the test's own, and no editor."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.delenv("EDITOR", raising=False)
    return folder


def editor(tmp_path: Path, body: str) -> str:
    """A program that edits the file it is given."""
    path = tmp_path / "my editor"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return f"'{path}' --wait"


def test_edited(tmp_path: Path, own_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The editor's command may hold quotes and arguments; the file is private Markdown."""
    body = (
        f'echo "$1 $2" > {tmp_path}/seen; stat -c %a "$2" >> {tmp_path}/seen; echo "grüße" >> "$2"'
    )
    monkeypatch.setenv("EDITOR", editor(tmp_path, body))

    assert edit_in_editor("one\ntwo\n") == "one\ntwo\ngrüße\n"
    seen = (tmp_path / "seen").read_text().split()
    assert seen[0] == "--wait"
    assert seen[1].endswith(".md")
    assert seen[2] == "600"
    assert list(own_folder.iterdir()) == []


def test_unchanged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An unchanged text comes back to the letter, also where the editor added a last newline."""
    monkeypatch.setenv("EDITOR", "true")
    assert edit_in_editor("no newline ✓") == "no newline ✓"
    monkeypatch.setenv("EDITOR", editor(tmp_path, 'echo >> "$2"'))
    assert edit_in_editor("no newline ✓") == "no newline ✓"


def test_visual_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """VISUAL is preferred to EDITOR."""
    monkeypatch.setenv("EDITOR", "false")
    monkeypatch.setenv("VISUAL", editor(tmp_path, 'echo new > "$2"'))

    assert edit_in_editor("old\n") == "new\n"


@pytest.mark.parametrize("body", ['> "$2"', 'echo "  " > "$2"', 'rm "$2"', "exit 1", "kill -9 $$"])
def test_given_up(
    tmp_path: Path, own_folder: Path, monkeypatch: pytest.MonkeyPatch, body: str
) -> None:
    """An empty or removed file, or an editor that fails or is killed, gives the review up."""
    monkeypatch.setenv("EDITOR", editor(tmp_path, body))

    assert edit_in_editor("text") is None
    assert list(own_folder.iterdir()) == []


@pytest.mark.parametrize("value", ["/no/such/editor", "'unclosed", "nosuch --wait"])
def test_a_wrong_setting(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    """A setting that cannot be run is named, not passed over."""
    monkeypatch.setenv("EDITOR", value)

    with pytest.raises(UsageError, match=r"\$EDITOR is .* which cannot be run"):
        edit_in_editor("text")


def test_no_editor(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without any editor the error says what to set or install."""
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(UsageError, match=r"Set EDITOR, or install the extra `review`: "):
        edit_in_editor("text")


def test_no_place_for_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """A temporary folder that cannot be written to is an error with a sentence."""
    monkeypatch.setenv("EDITOR", "true")
    monkeypatch.setattr(tempfile, "tempdir", "/nowhere")

    with pytest.raises(TasukiError, match="cannot be written for the editor"):
        edit_in_editor("text")


def test_ctrl_c_is_the_editors(tmp_path: Path) -> None:
    """Ctrl-C in the editor does not end the review, nor leave the file."""
    if not shutil.which("tmux"):
        pytest.skip("tmux is not installed")
    folder = tmp_path / "files"
    folder.mkdir()
    code = (
        "from tasuki.cli.handoff.review import edit_in_editor; print(repr(edit_in_editor('one')))"
    )
    body = 'trap "echo kept >> $2; exit 0" INT; echo editing; while :; do sleep 0.1; done'
    env = {"EDITOR": editor(tmp_path, body), "TMPDIR": str(folder)}
    terminal = Terminal(tmp_path, env)
    try:
        pane = terminal.open([sys.executable, "-c", code], tmp_path)
        terminal.shows(pane, "editing")
        terminal.keys(pane, "C-c")
        assert "'onekept'" in terminal.shows(pane, "[ended 0]")
    finally:
        terminal.end()
    assert list(folder.iterdir()) == []


def test_killed_while_editing(tmp_path: Path, own_folder: Path) -> None:
    """The file is readable by the user alone while the editor runs."""
    code = (
        "import sys, tempfile; tempfile.tempdir = sys.argv[1];"
        "from tasuki.cli.handoff.review import edit_in_editor; edit_in_editor('one')"
    )
    env = {**os.environ, "EDITOR": editor(tmp_path, "echo up; sleep 5")}
    command = [sys.executable, "-c", code, str(own_folder)]
    process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, start_new_session=True)
    assert process.stdout is not None
    process.stdout.readline()

    (path,) = own_folder.iterdir()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
