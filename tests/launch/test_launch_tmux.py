"""Successors start in a real tmux server, with their text standing unsent in the input."""

import json
import os
import re
import shutil
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import structs
from terminals import Terminal
from tree import PROGRAMS
from waiting import retry_until

from tasuki.errors import HarnessMissing, LaunchFailed
from tasuki.harness.protocol import LaunchPlan, PlannedFile
from tasuki.launch import LaunchResult, start
from tasuki.launch.tmux import server as tmux_module

pytestmark = pytest.mark.skipif(not shutil.which("tmux"), reason="tmux is not installed")

PROGRAM = str(PROGRAMS / "prompt.py")
READY = r"^ready> "


def events(log: Path, kind: str) -> list[dict[str, Any]]:
    """What the program told, of one kind."""
    lines = log.read_text().splitlines() if log.exists() else []
    return [event for event in map(json.loads, lines) if event["kind"] == kind]


def plan(log: Path, **more: Any) -> LaunchPlan:
    """A plan that starts the program in the folder of its log."""
    folder = log.parent / "work dir #(touch x)"
    folder.mkdir(exist_ok=True)
    made = LaunchPlan(argv=(sys.executable, PROGRAM, str(log)), cwd=str(folder), ready=READY)
    return structs.replace(made, **more)


def test_text_stands_unsent(terminal: Terminal, log: Path) -> None:
    """The text is pasted as one piece once the program is ready, and not submitted."""
    text = "# Goal\n\n\tfix ✓ `it`;\n~ end;"
    wanted = plan(log, paste=text, env={"T_LATE": "1", "T_DELAY": "0.6"})

    launched = start(wanted, "tmux", name="tasuki 1234", socket=terminal.socket)

    assert [text.replace("\n", "\r")] == [e["text"] for e in events(log, "paste")]
    assert events(log, "enter") == []
    assert events(log, "early") == []
    assert launched.filled
    assert "ready> [pasted" in terminal.capture_screen(launched.pane).text
    assert re.fullmatch(r"tasuki:\d+", launched.target)
    assert launched.attach[-3:] == ("attach", "-t", launched.target)
    assert terminal.panes() == [f"{launched.pane} tasuki 1234 0"]
    terminal.keys(launched.pane, "Enter")
    assert retry_until(lambda: events(log, "enter"))[0]["text"].endswith("end;")


def test_control_characters_do_not_end_the_paste(terminal: Terminal, log: Path) -> None:
    """A text that holds the end of a paste and an Enter is still one unsent paste."""
    text = "start\x1b[201~\rrm -rf\x9b201~\x03\x7f\x00 end"

    start(plan(log, paste=text), "tmux", socket=terminal.socket)

    assert [e["text"] for e in events(log, "paste")] == ["start\rrm -rf end"]
    assert events(log, "enter") + events(log, "typed") == []


def test_a_long_text(terminal: Terminal, log: Path) -> None:
    """A text of 200 kB arrives whole, though a tmux command is limited to 16 kB."""
    text = "".join(f"line {n} ✓\n" for n in range(14_000))

    start(plan(log, paste=text), "tmux", socket=terminal.socket)

    assert [text.replace("\n", "\r")] == [
        e["text"] for e in retry_until(lambda: events(log, "paste"))
    ]


def test_arguments_and_environment(
    terminal: Terminal, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Arguments arrive to the letter; the environment is the user's, less and plus the plan's."""
    monkeypatch.setenv("T_MINE", "a'b\"c\nd;")
    monkeypatch.setenv("CLAUDECODE", "1")
    monkeypatch.setenv("TERM", "dumb")
    brief = "x" * 90_000 + "'\"$(touch x)`;\n;"
    wanted = plan(log, unset=("CLAUDECODE",), env={"T_PLAN": "yes"})
    wanted = structs.replace(wanted, argv=(*wanted.argv, "--prefill", brief, ";", "#{pane_id}"))

    launched = start(wanted, "tmux", name="#(touch y)", socket=terminal.socket)

    told = events(log, "start")[0]
    assert ["--prefill", brief, ";", "#{pane_id}"] == told["argv"]
    assert wanted.cwd == told["cwd"]
    assert told["env"]["T_MINE"] == "a'b\"c\nd;"
    assert told["env"]["T_PLAN"] == "yes"
    assert "CLAUDECODE" not in told["env"]
    assert told["env"]["TERM"] != "dumb"
    assert launched.pane == told["env"]["TMUX_PANE"]
    assert not launched.filled
    assert [p for p in log.parent.rglob("*") if p.name in ("x", "y")] == []


def test_a_secret_of_the_environment_is_on_no_command_line(
    terminal: Terminal, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Environment and brief are never arguments of tmux, which every user can read."""
    seen: list[list[str]] = []
    run = subprocess.run
    monkeypatch.setenv("T_KEY", "sk-very-secret")

    def recorded(command: list[str], **more: Any) -> Any:
        seen.append(command)
        return run(command, **more)

    monkeypatch.setattr(subprocess, "run", recorded)
    start(plan(log, paste="the brief itself"), "tmux", socket=terminal.socket)

    assert seen
    assert not [c for c in seen if "sk-very-secret" in str(c) or "brief itself" in str(c)]
    assert events(log, "start")[0]["env"]["T_KEY"] == "sk-very-secret"


def test_a_second_window_joins_the_session(terminal: Terminal, log: Path) -> None:
    """Outside tmux a second successor gets a window of its own in the same session."""
    first = start(plan(log), "tmux", name="one", socket=terminal.socket)
    second = start(plan(log), "tmux", name="two", socket=terminal.socket)

    assert first.pane != second.pane
    assert second.target.partition(":")[0] == "tasuki"
    assert [pane.split()[1] for pane in terminal.panes()] == ["one", "two"]


def test_a_session_with_a_longer_name_is_left_alone(terminal: Terminal, log: Path) -> None:
    """`tasuki` does not match `tasuki-notes`."""
    terminal.run(("new-session", "-d", "-s", "tasuki-notes", "sleep", "100"))

    launched = start(plan(log), "tmux", socket=terminal.socket)

    assert launched.target.startswith("tasuki:")


def test_inside_tmux(terminal: Terminal, log: Path) -> None:
    """Inside tmux the window opens in the user's own session and server."""
    code = (
        "import sys, msgspec\n"
        "from tasuki.launch import start; from tasuki.harness.protocol import LaunchPlan\n"
        "p = msgspec.json.decode(sys.argv[1], type=LaunchPlan)\n"
        "print(msgspec.json.encode(start(p, 'tmux', name='next')).decode(), flush=True)\n"
    )
    wanted = msgspec.json.encode(plan(log, paste="hello")).decode()
    command = f"'{sys.executable}' -c \"$CODE\" '{wanted}' > out.json; sleep 100"
    script = log.parent / "run.sh"
    script.write_text(
        f"CODE='{code.replace(chr(39), chr(39) + chr(92) + chr(39) * 2)}'\n{command}\n"
    )
    terminal.run(
        ("new-session", "-d", "-s", "mine", "-n", "first", "sh", str(script)), cwd=str(log.parent)
    )
    out = log.parent / "out.json"

    def told() -> LaunchResult | None:
        text = out.read_bytes() if out.exists() else b""
        return msgspec.json.decode(text, type=LaunchResult) if text.endswith(b"\n") else None

    launched = retry_until(told, 20)

    assert launched is not None
    assert launched.target == "mine:1"
    assert launched.attach == ()
    assert launched.back == "C-b l, or tmux select-window -t mine:0"
    assert [e["text"] for e in events(log, "paste")] == ["hello"]
    assert [pane.split()[1] for pane in terminal.panes()] == ["first", "next"]


def test_tmux_itself_says_how_to_come_back(
    terminal: Terminal, log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The successor's window has taken the place of this one, so the line of tmux names the keys."""
    first = terminal.open(["sleep", "100"], tmp_path)
    terminal.run(("set-option", "-g", "prefix", "C-a"))
    client = Terminal(tmp_path)
    try:
        outer = client.open(["tmux", "-L", terminal.socket, "attach"], tmp_path, 100, 30)
        client.shows(outer, "[")
        number = terminal.run(("display-message", "-p", "#{socket_path},#{pid},0")).strip()
        monkeypatch.setenv("TMUX", number)
        monkeypatch.setenv("TMUX_PANE", first)
        launched = start(plan(log, paste="hello"), "tmux", name="next")

        client.shows(outer, "tasuki: back to the window before this one: C-a l")
        assert launched.back.startswith("C-a l, or tmux select-window -t ")
        client.keys(outer, "C-a", "l")
        retry_until(lambda: terminal.run(("display-message", "-p", "#{pane_id}")).strip() == first)
    finally:
        client.end()


def test_planned_files_are_written_first(terminal: Terminal, log: Path) -> None:
    """Files of the plan exist when the program starts, with their modes and folders."""
    path = log.parent / "new" / "sessions" / "s.jsonl"
    wanted = plan(log, files=(PlannedFile(str(path), "first\r\nsecond ✓\n"),))

    start(wanted, "tmux", socket=terminal.socket)

    assert path.read_bytes() == b"first\r\nsecond \xe2\x9c\x93\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_file_is_never_overwritten(terminal: Terminal, log: Path) -> None:
    """Where a planned file exists nothing starts, and files written before it go again."""
    path = log.parent / "s.jsonl"
    path.write_text("mine")
    files = (PlannedFile(str(log.parent / "other"), "x"), PlannedFile(str(path), "x"))

    with pytest.raises(LaunchFailed, match=r"s\.jsonl already exists"):
        start(plan(log, files=files), "tmux", socket=terminal.socket)

    assert path.read_text() == "mine"
    assert not (log.parent / "other").exists()
    assert not log.exists()


def test_a_program_that_dies_at_once(terminal: Terminal, log: Path) -> None:
    """The last lines of a program that ended are in the error, and its window is closed.

    The status stands there too where tmux knows it: 3.3a says of some dead panes, for good, that
    they are dead and nothing else.
    """
    wanted = plan(log, env={"T_DIE": "s-1"}, paste="text")

    with pytest.raises(
        LaunchFailed, match=r"ended at once with status [1?]\..*\n.*no such session: s-1"
    ):
        start(wanted, "tmux", socket=terminal.socket)

    with pytest.raises(LaunchFailed):
        terminal.panes()


def test_a_program_that_dies_at_once_without_a_text(terminal: Terminal, log: Path) -> None:
    """A program without a text to paste is watched too."""
    with pytest.raises(LaunchFailed, match="ended at once"):
        start(plan(log, env={"T_DIE": "x", "T_DELAY": "0.5"}), "tmux", socket=terminal.socket)


def test_never_ready(terminal: Terminal, log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the program never is ready nothing is pasted, and the brief's path is named."""
    monkeypatch.setattr(tmux_module, "READY_SECONDS", 1.0)
    wanted = plan(log, env={"T_NEVER": "1"}, paste="text")

    with pytest.raises(
        LaunchFailed, match=r"(?s)nothing was pasted.*/v/brief\.md: paste it"
    ) as told:
        start(wanted, "tmux", socket=terminal.socket, brief="/v/brief.md")

    assert terminal.panes()[0].split()[0] in str(told.value)
    assert events(log, "paste") + events(log, "typed") == []


def test_a_window_closes_when_its_program_ends(terminal: Terminal, log: Path) -> None:
    """After a good start the window goes with its program, as any other window does."""
    launched = start(plan(log), "tmux", socket=terminal.socket)
    terminal.run(("new-session", "-d", "-s", "keep", "sleep", "100"))

    terminal.keys(launched.pane, "q")

    retry_until(lambda: len(terminal.panes()) == 1)


def test_what_is_missing_is_named(
    terminal: Terminal, log: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A missing program, folder or tmux is named, with what to do."""
    with pytest.raises(HarnessMissing, match="npm install -g @anthropic-ai/claude-code"):
        start(plan(log, argv=("claude",), env={"PATH": "/nowhere"}), "tmux", socket=terminal.socket)
    with pytest.raises(LaunchFailed, match=r"/gone is gone"):
        start(plan(log, cwd="/gone"), "tmux", socket=terminal.socket)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LaunchFailed, match=r"tmux is not installed.*apt install tmux"):
        start(plan(log), "tmux", socket=terminal.socket)


def test_two_starts_at_once(terminal: Terminal, log: Path) -> None:
    """Two starts at once paste each text into its own window."""
    terminal.run(("new-session", "-d", "-s", "tasuki", "sleep", "100"))
    logs = [log.parent / str(n) / "events.jsonl" for n in range(3)]
    for each in logs:
        each.parent.mkdir()
    with ThreadPoolExecutor() as pool:
        for n, each in enumerate(logs):
            pool.submit(start, plan(each, paste=f"text {n}"), "tmux", socket=terminal.socket)

    assert [[e["text"] for e in events(each, "paste")] for each in logs] == [
        ["text 0"],
        ["text 1"],
        ["text 2"],
    ]


def test_the_socket_of_the_test_is_used_alone(terminal: Terminal) -> None:
    """A pane id of the user's own server is not looked up in another server."""
    assert "TMUX" not in terminal._build_environment({"TMUX": "/tmp/x,1,0", "TMUX_PANE": "%0"})
    assert not terminal.is_inside
    assert os.environ.get("TMUX") is None
