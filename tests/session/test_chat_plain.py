"""`tasuki chat` without a terminal: prompts are lines, answers plain text, failures exit codes."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from fakes import FAKE
from fakes.acp_agent import AcpRule, AcpScript, AcpStep
from forked import CHAT, run_tasuki
from selection import by_default
from sessions import DOCUMENT
from waiting import retry_until, runs

from tasuki.config.installation import build_install_line
from tasuki.session.pi_store.manager import list_sessions

TOOL = {"title": "Read a.py", "kind": "read"}
RULES = (
    AcpRule("Write a handoff document.*EMPTY", (AcpStep(stop="end_turn"),)),
    AcpRule("Write a handoff document", (AcpStep(say=DOCUMENT),)),
    AcpRule(
        r"look at it\Z",
        (AcpStep(say="## Found\n\n- *one*\n"), AcpStep(tool=TOOL), AcpStep(say="That is all.")),
    ),
    AcpRule("may", (AcpStep(ask=("allow_once", "reject_once")), AcpStep(say="got {got}"))),
    AcpRule("break", (AcpStep(error="overloaded"),)),
    AcpRule("die", (AcpStep(exit=7),)),
)
Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs the chat with lines as its standard input."""
    (tmp_path / "proj" / "src").mkdir(parents=True)
    monkeypatch.setenv("TASUKI_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("HOME", str(tmp_path))
    script = tmp_path / "script.json"
    script.write_bytes(msgspec.json.encode(AcpScript(RULES, log=str(tmp_path / "log.jsonl"))))
    agent = f"{sys.executable} {FAKE} acp_agent {script}"

    def chat(
        *lines: str, arguments: tuple[str, ...] = ("--agent", agent)
    ) -> "subprocess.CompletedProcess[str]":
        told = "".join(f"{line}\n" for line in lines)
        passed = os.environ.keys() - {"PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE"}
        env = {**{name: os.environ[name] for name in passed}, "LANG": "C.UTF-8"}
        return run_tasuki(
            ("chat", *arguments), env=env, cwd=tmp_path / "proj", input=told, modules=CHAT
        )

    return chat


def test_answers_are_plain_text(run: Run) -> None:
    """Standard output holds what the agent said, Markdown as it wrote it, and nothing else."""
    done = run("look at it", "and now")

    assert done.returncode == 0
    assert done.stdout.split("\n") == [
        "## Found", "", "- *one*", "That is all.", "", "[session-1 mode=default n=2]", "",
    ]  # fmt: skip
    assert done.stderr.split() == ["✓", "Read", "a.py"]


def test_a_handoff_in_a_script(run: Run, tmp_path: Path) -> None:
    """`/handoff` is a line like others; what follows reaches the fresh session."""
    done = run("look at it", "/handoff the tests", "and now")

    assert done.returncode == 0
    assert "New session started with handoff context" in done.stderr
    assert "[session-2 " in done.stdout
    assert len(list_sessions(tmp_path / "proj")) == 2


@pytest.mark.parametrize(
    ("lines", "code", "said"),
    [
        (("/handoff", "never sent"), 3, "Nothing to hand off (no messages yet)"),
        (("look at it", "/handoff EMPTY", "never sent"), 1, "Handoff failed: "),
        (("break it", "never sent"), 1, "overloaded"),
        (("die", "never sent"), 1, "ended with status 7"),
        (("look at it", "/quit", "never sent"), 0, ""),
    ],
)
def test_the_first_failure_ends_it(
    run: Run, tmp_path: Path, lines: tuple[str, ...], code: int, said: str
) -> None:
    """The exit code says what kind of failure it was; no further line is sent."""
    done = run(*lines)

    assert done.returncode == code
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert "never sent" not in (tmp_path / "log.jsonl").read_text()


def test_questions_get_the_careful_answer(run: Run) -> None:
    """There is nobody to ask, and standard error says what was answered."""
    done = run("may I")

    assert "got id-reject_once" in done.stdout
    assert "asks: rm -rf build → reject_once (no terminal to ask in)" in done.stderr


def test_resume(run: Run, tmp_path: Path) -> None:
    """The newest session, or one by the beginning of its id, with the agent it was held with."""
    run("look at it")
    (head,) = list_sessions(tmp_path / "proj")

    for which in (("--resume",), ("--resume", head.id[:20])):
        assert run("go on", arguments=which).returncode == 0
    assert "User: look at it" in (tmp_path / "log.jsonl").read_text()
    (same,) = list_sessions(tmp_path / "proj")
    assert same.id == head.id
    missing = run(arguments=("--resume", "1234"))
    assert missing.returncode == 1
    assert "There is no session that begins with '1234'" in missing.stderr


@pytest.mark.parametrize("order", [signal.SIGINT, signal.SIGTERM])
def test_ended_from_outside(run: Run, tmp_path: Path, order: signal.Signals) -> None:
    """While it waits for a line a signal ends it, and the agent with it."""
    told = tmp_path / "child"
    script = tmp_path / "script.json"
    script.write_bytes(msgspec.json.encode(AcpScript(RULES, child=str(told), linger=True)))
    agent = f"{sys.executable} {FAKE} acp_agent {script}"
    command = [sys.executable, "-m", "tasuki", "chat", "--agent", agent]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=tmp_path / "proj", text=True
    ) as process:
        assert process.stdin
        assert process.stdout
        process.stdin.write("hello\n")
        process.stdin.flush()
        assert process.stdout.readline()
        process.send_signal(order)
        assert process.wait(20) == 128 + order

    assert retry_until(lambda: not runs(int(told.read_text())), 5)


def test_no_agent(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where none is named and none installed the sentence says how to name one."""
    monkeypatch.setenv("PATH", str(tmp_path))
    nobody = run(arguments=())
    assert nobody.returncode == 2
    assert 'Name one: --agent "gemini --acp"' in nobody.stderr

    missing = run(arguments=("--agent", "opencode"))
    assert missing.returncode == 1
    assert "npm install -g opencode-ai" in missing.stderr


def test_the_extra_is_missing(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without the SDK the line to run is told."""
    (tmp_path / "acp.py").write_text("raise ModuleNotFoundError('No module', name='acp')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    done = run("hello")

    assert done.returncode == 1
    assert build_install_line("acp") in done.stderr


@pytest.mark.parametrize(
    "program",
    by_default(
        ["cat", "sleep 0.2", "echo hello", "false", "yes", "yes {", "cat /dev/zero"],
        "cat",
        "false",
        "yes",
    ),
)
def test_a_program_that_is_no_agent_is_told_as_that(tmp_path: Path, program: str) -> None:
    """A program that echoes, ends, says something else or never stops does not speak the protocol, and that is what is said."""
    env = {
        "HOME": str(tmp_path),
        "PATH": os.environ["PATH"],
        "LANG": "C.UTF-8",
        "TASUKI_DATA": str(tmp_path / "data"),
    }
    done = run_tasuki(
        ("chat", "--agent", program), cwd=tmp_path, env=env, input="hello\n", modules=CHAT
    )

    assert done.returncode == 1
    assert "It does not speak ACP" in done.stderr
    assert f"It was started as: {program}\n" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/etc/passwd", "/etc/passwd is not executable. If it is the agent: chmod +x /etc/passwd"),
        ("/usr", "/usr is a folder, not a program. Name the program in it."),
        ("/nowhere/agent", "There is no program /nowhere/agent. Give its path"),
    ],
)
def test_a_path_that_is_no_program_is_told(run: Run, path: str, said: str) -> None:
    """What it is, not that it is not on the PATH."""
    done = run(arguments=("--agent", path))

    assert done.returncode == 1
    assert said in done.stderr


def test_an_agent_that_is_silent_is_told_to_be_waited_for(tmp_path: Path) -> None:
    """After some seconds the user knows what nothing happens for, and for how long."""
    env = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "TASUKI_DATA": str(tmp_path / "data")}
    with subprocess.Popen(
        (sys.executable, "-m", "tasuki", "chat", "--agent", "sleep 300"), cwd=tmp_path, env=env,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as chat:  # fmt: skip
        assert chat.stderr
        said = chat.stderr.readline()
        chat.send_signal(signal.SIGTERM)
        chat.wait(20)

    assert said.startswith("Waiting for sleep to answer, at most ")
    assert said.endswith("seconds. It was started as: sleep 300\n")
