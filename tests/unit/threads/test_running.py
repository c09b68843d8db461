"""Whether a thread is still open in a program is told from real processes."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from waiting import retry_until

from tasuki.launch import find_running_programs
from tasuki.model import Thread

linux = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="there is no /proc here")


@pytest.fixture
def sessions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which Claude Code tells of its running sessions."""
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path))
    folder = tmp_path / "sessions"
    folder.mkdir()
    return folder


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """A running process."""
    process = subprocess.Popen(["sleep", "100"])
    yield process
    process.kill()
    process.wait()


def program(folder: Path, name: str, *arguments: str) -> list[str]:
    """A command whose first word is called `name` and that just waits."""
    folder.mkdir(exist_ok=True)
    shutil.copy(shutil.which("python3", path="/usr/bin:/bin") or sys.executable, folder / name)
    return [str(folder / name), "-c", "import time; time.sleep(100)", *arguments]


def start_of(pid: int) -> str:
    """When a process began, as Claude Code writes it."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]


def test_claude_tells(sessions: Path, sleeper: subprocess.Popen[bytes]) -> None:
    """A session file of a running process names it with its pane; others are not counted."""
    thread = Thread(harness="claude", id="s-1", path="/p/s-1.jsonl")
    session = {"pid": sleeper.pid, "sessionId": "s-1", "status": "busy", "tmux": "c:@0.%0\x1b[31m"}
    (sessions / "1.json").write_text(json.dumps(session))
    (sessions / "2.json").write_text(json.dumps({**session, "sessionId": "s-2"}))
    (sessions / "3.json").write_text("not json")
    (sessions / "4.json").write_text(json.dumps({**session, "pid": 2**22 + 5}))
    (sessions / "5.key").write_text("secret")

    assert find_running_programs(thread) == [
        f"Claude Code (process {sleeper.pid}, tmux c:@0.%0) has this thread open and is busy."
    ]


@linux
def test_a_reused_process_id(sessions: Path, sleeper: subprocess.Popen[bytes]) -> None:
    """A process that began at another time than the session says is another one."""
    thread = Thread(harness="claude", id="s-1", path="/p/s-1.jsonl")
    session = {"pid": sleeper.pid, "sessionId": "s-1", "procStart": start_of(sleeper.pid)}
    (sessions / "1.json").write_text(json.dumps(session))
    assert len(find_running_programs(thread)) == 1

    (sessions / "1.json").write_text(json.dumps({**session, "procStart": "1"}))
    assert find_running_programs(thread) == []


def test_keys_are_never_read(sessions: Path) -> None:
    """The secrets beside the session files stay unread."""
    key = sessions / "1.key"
    key.write_text("secret")
    before = 1_000_000_000
    os.utime(key, (before, before))

    find_running_programs(Thread(harness="claude", id="s-1", path="/p/s-1.jsonl"))

    assert before == key.stat().st_atime


@linux
def test_an_open_file(tmp_path: Path) -> None:
    """A program of the harness that holds the thread's file open is found."""
    path = tmp_path / "rollout.jsonl"
    path.touch()
    thread = Thread(harness="codex", id="s-1", path=str(path))
    assert find_running_programs(thread) == []
    command = program(tmp_path / "bin", "codex")
    with path.open() as held:
        holder = subprocess.Popen(command, pass_fds=[held.fileno()])
    try:
        found = retry_until(lambda: find_running_programs(thread))

        assert [f"codex (process {holder.pid}) has this thread open."] == found
        assert find_running_programs(Thread(harness="pi", id="s-1", path=str(path))) == []
    finally:
        holder.kill()
        holder.wait()
    assert find_running_programs(thread) == []


def thread_of_pi(folder: Path) -> Thread:
    """A thread whose id no other test uses: others run at the same time."""
    return Thread(harness="pi", id=f"s-{folder}", path=str(folder / "s-1.jsonl"))


@linux
@pytest.mark.parametrize("named", ["id", "path"])
def test_an_argument(tmp_path: Path, named: str) -> None:
    """A program of the harness that was started with the thread's id or path is found."""
    thread = thread_of_pi(tmp_path)
    argument = getattr(thread, named)
    holder = subprocess.Popen(program(tmp_path / "bin", "pi", "--session", argument))
    try:
        found = retry_until(lambda: find_running_programs(thread))

        assert found == [f"pi (process {holder.pid}) has this thread open."]
    finally:
        holder.kill()
        holder.wait()


@linux
def test_other_programs_do_not_count(tmp_path: Path) -> None:
    """A reader of the file in a home folder called `pi` is no running pi."""
    path = tmp_path / "pi" / "s-1.jsonl"
    command = program(tmp_path / "pi", "less", str(path))
    holder = subprocess.Popen(command)
    try:
        retry_until(lambda: b"less" in Path(f"/proc/{holder.pid}/cmdline").read_bytes())

        assert find_running_programs(Thread(harness="pi", id="s-1", path=str(path))) == []
    finally:
        holder.kill()
        holder.wait()


@linux
def test_the_search_ends_with_its_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the look at all processes has not found by then is not found."""
    thread = thread_of_pi(tmp_path)
    holder = subprocess.Popen(program(tmp_path / "bin", "pi", "--session", thread.id))
    try:
        assert retry_until(lambda: find_running_programs(thread))
        monkeypatch.setattr("tasuki.launch.processes.BUDGET", -1)

        assert find_running_programs(thread) == []
    finally:
        holder.kill()
        holder.wait()
