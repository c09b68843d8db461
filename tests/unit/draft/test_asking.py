"""Asking the agent of a thread: what goes wrong, and what stays behind. The programs are scripts."""

import json
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fixture_threads import adapter
from waiting import retry_until, runs

from tasuki.draft.authors.agent_and_model import ask_agent
from tasuki.errors import AuthorFailed, Cancelled, TasukiError
from tasuki.harness.protocol import AskAnswer, AskPlan, AskRequest, PlannedFile
from tasuki.model import Thread

QUESTION = "What must the next one know?"
SECRET = "sk-ant-api03-" + "Ab3dE5gH7j" * 9


class Fake:
    """A harness whose program is a script; the answer is its output, or the JSON of one."""

    name = program = "parrot"
    title = "Parrot"
    can_ask = True
    remove: tuple[str, ...] = ()
    plan: Callable[[AskRequest], dict[str, Any]] = staticmethod(lambda request: {})

    def ask(self, request: AskRequest) -> AskPlan:
        given = {"argv": (self.program,), "cwd": request.scratch, "stdin": request.question}
        return AskPlan(**given | type(self).plan(request))

    def parse_answer(self, output: str, request: AskRequest) -> AskAnswer:
        fields = json.loads(output) if output.startswith("{") else {"text": output}
        return AskAnswer(**fields, remove=self.remove)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that holds programs, a thread and, in `tmp`, scratch folders."""
    (tmp_path / "tmp").mkdir()
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    (tmp_path / "thread.jsonl").write_text("{}\n")
    return tmp_path


def script(folder: Path, source: str, name: str = "parrot") -> None:
    """Put a program on the PATH, written in Python."""
    path = folder / "bin" / name
    path.write_text(f"#!{sys.executable} -S\nimport os, signal, sys, time\n{source}\n")
    path.chmod(0o755)


def asked(folder: Path, harness: Any = None, seconds: float = 20.0, **more: Any) -> AskAnswer:
    """What the agent of the thread answers."""
    path = str(folder / "thread.jsonl")
    thread = Thread(harness="parrot", id="t-1", path=path, cwd=str(folder))
    return ask_agent(harness or Fake(), thread, QUESTION, seconds=seconds, **more)


def fails(folder: Path, **more: Any) -> TasukiError:
    """The error that there is instead of an answer; no scratch folder is left."""
    with pytest.raises(TasukiError) as caught:
        asked(folder, **more)
    assert list((folder / "tmp").iterdir()) == []
    return caught.value


def pid_in(path: Path) -> int:
    """The number of a process, once it is written down."""
    retry_until(lambda: path.exists() and path.read_text().endswith("\n"), 10)
    return int(path.read_text())


CHILD = """
if os.fork() == 0:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    open({!r}, "w").write(f"{{os.getpid()}}\\n")
    time.sleep(60)
    os._exit(0)
"""


def test_the_question_goes_to_standard_input_and_the_answer_comes_back(folder: Path) -> None:
    """The plan is carried out in a private folder: copies, links and files, environment and all."""
    (folder / "tmp" / "kept").write_text("kept\n")

    class Planned(Fake):
        plan = staticmethod(
            lambda request: {
                "copies": ((str(folder / "thread.jsonl"), f"{request.scratch}/a/copy"),),
                "links": ((str(folder / "tmp"), f"{request.scratch}/a/link"),),
                "files": (PlannedFile(f"{request.scratch}/b/file", "planned"),),
                "env": {"SAID": "aloud"},
                "unset": ("HIDDEN",),
            }
        )

    os.environ["HIDDEN"] = "x"
    script(
        folder,
        "print(sys.stdin.read(), open('a/copy').read(), os.listdir('a/link')[0][:4],"
        " open('b/file').read(), oct(os.stat('.').st_mode), oct(os.stat('b/file').st_mode),"
        " os.environ['SAID'], 'HIDDEN' in os.environ)",
    )
    try:
        said = asked(folder, Planned()).text
    finally:
        del os.environ["HIDDEN"]

    assert said.startswith(f"{QUESTION} {{}}\n ")
    assert said.endswith("planned 0o40700 0o100600 aloud False\n")
    assert [p.name for p in (folder / "tmp").iterdir()] == ["kept"]


def test_without_a_question_on_it_standard_input_is_empty(folder: Path) -> None:
    """A program that reads although it should not waits for nothing."""

    class Silent(Fake):
        plan = staticmethod(lambda request: {"stdin": ""})

    script(folder, "print(len(sys.stdin.read()))")

    assert asked(folder, Silent()).text == "0\n"


def test_a_plan_that_leads_out_of_the_scratch_folder_is_refused(folder: Path) -> None:
    """Neither a path nor a link of the plan itself is written through."""

    class Outside(Fake):
        plan = staticmethod(
            lambda request: {
                "links": ((str(folder), f"{request.scratch}/out"),),
                "files": (PlannedFile(f"{request.scratch}/out/written", ""),),
            }
        )

    script(folder, "print('hello')")

    assert "does not lie in" in str(fails(folder, harness=Outside()))
    assert not (folder / "written").exists()


def test_who_cannot_be_asked_is_named(folder: Path) -> None:
    """No program, no thread, no way to ask: each is a sentence with what to do instead."""
    missing = str(fails(folder))
    script(folder, "print('hello')")
    (folder / "thread.jsonl").unlink()
    gone = str(fails(folder))
    unable = str(fails(folder, harness=adapter("copilot")))

    assert missing == (
        "Parrot is not installed here: no program `parrot` on the PATH. "
        "Draft without it: --author offline."
    )
    assert gone.startswith(f"{folder / 'thread.jsonl'} is gone: ")
    assert unable == (
        "Copilot CLI cannot be asked about a thread without changing it. "
        "Draft without it: --author offline."
    )


def test_an_export_of_opencode_cannot_be_asked(folder: Path) -> None:
    """What only the adapter knows is a failure of the author, too."""
    script(folder, "print('hello')", "opencode")

    assert "is an export" in str(fails(folder, harness=adapter("opencode")))


def test_the_time_limit_ends_what_the_program_started(folder: Path) -> None:
    """A child of the program that does not listen to SIGTERM is ended as well, by its group."""
    script(folder, f"{CHILD.format(str(folder / 'pid'))}\ntime.sleep(60)")
    began = time.monotonic()
    error = fails(folder, seconds=1.0)

    assert isinstance(error, AuthorFailed)
    assert str(error).startswith("Parrot did not answer within 1 s, and was ended.")
    assert time.monotonic() - began < 10
    retry_until(lambda: not runs(pid_in(folder / "pid")), 5)


def test_what_a_program_leaves_running_is_ended_with_it(folder: Path) -> None:
    """The answer is taken, and a child that is still there is ended."""
    pid = str(folder / "pid")
    wait = f"while not os.path.exists({pid!r}): time.sleep(0.01)"
    script(folder, f"{CHILD.format(pid)}\n{wait}\nprint('hello')")

    assert asked(folder).text == "hello\n"
    retry_until(lambda: not runs(pid_in(folder / "pid")), 5)


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_endless_output_is_refused(folder: Path, stream: str) -> None:
    """More than 8 MB are not taken, on either stream."""
    script(folder, f"while True: sys.{stream}.write('x' * 100_000)")

    assert "Parrot wrote more than 8 MB" in str(fails(folder))


@pytest.mark.parametrize(
    "ending",
    [
        "os.kill(os.getpid(), signal.SIGINT)",
        "os.kill(os.getpid(), signal.SIGTERM)",
        "sys.exit(130)",
        "sys.exit(143)",
        """print('{"text": "half a", "aborted": true}')""",
        """print('{"error": "it stopped", "aborted": true}'); sys.exit(1)""",
    ],
)
def test_an_abort_anywhere_is_a_cancellation(folder: Path, ending: str) -> None:
    """A signal, its exit code, or an aborted turn."""
    script(folder, f"signal.signal(signal.SIGINT, signal.SIG_DFL)\n{ending}")
    error = fails(folder)

    assert isinstance(error, Cancelled)
    assert str(error) == "The question to Parrot was interrupted."
    assert error.exit_code == 130


def test_a_failure_tells_its_reason_without_secrets(folder: Path) -> None:
    """The end of standard error, on one line, without control characters, keys and stack traces."""
    trace = "Error: x\\n    at run (file.js:3:28)\\n   4: <unknown>\\n"
    words = f"{'word ' * 200}\\n{trace}\\x1b[31mno {SECRET}\\x1b[0m\\n"
    script(folder, f"print('hello'); sys.stderr.write('{words}'); sys.exit(7)")
    error = str(fails(folder))

    assert error.startswith("Parrot ended with exit code 7: …word ")
    assert "Error: x no [REDACTED:" in error
    assert error.endswith("Draft without it: --author offline.")
    assert SECRET not in error
    assert "\x1b" not in error
    assert len(error) < 450


def test_the_words_of_the_program_come_before_its_exit_code(folder: Path) -> None:
    """Where the answer says why there is none, that is the reason."""
    script(folder, """print('{"error": "no credit left"}'); sys.exit(1)""")

    assert str(fails(folder)).startswith("Parrot gave no answer: no credit left. ")


@pytest.mark.parametrize("output", ["", " \n\t\n", '{"text": ""}'])
def test_an_answer_without_text_is_a_failure(folder: Path, output: str) -> None:
    """And never a cancellation."""
    script(folder, f"sys.stdout.write({output!r})")
    error = fails(folder)

    assert isinstance(error, AuthorFailed)
    assert "there is no text in it" in str(error)


def test_what_asking_left_behind_is_taken_away(folder: Path) -> None:
    """By the command that the answer names, in the same environment, after a failure too."""

    class Leaving(Fake):
        remove = ("sweep", "fork-1")
        plan = staticmethod(lambda request: {"env": {"SAID": "aloud"}})

    script(folder, "print('hello')")
    swept = folder / "swept"
    script(folder, f"open({str(swept)!r}, 'a').write(os.environ['SAID'] + sys.argv[1])", "sweep")
    answer = asked(folder, Leaving())
    script(folder, "sys.exit(3)")
    error = fails(folder, harness=Leaving())

    assert (answer.text, answer.remove, answer.note) == ("hello\n", (), "")
    assert swept.read_text() == "aloudfork-1" * 2
    assert "sweep" not in str(error)


def test_what_could_not_be_taken_away_is_said(folder: Path) -> None:
    """With the command to do it by hand, beside the answer or in the error."""

    class Leaving(Fake):
        remove = ("sweep", "fork-1")

    script(folder, "print('hello')")
    answer = asked(folder, Leaving())
    script(folder, "sys.exit(3)")
    error = fails(folder, harness=Leaving())

    note = "The question left something behind. Remove it with: sweep fork-1"
    assert (answer.text, answer.note) == ("hello\n", note)
    assert str(error).endswith(note)


def test_an_interrupt_ends_the_program_and_goes_on(folder: Path) -> None:
    """Ctrl-C is raised again as what it is; nothing runs on, nothing is left."""
    script(folder, f"{CHILD.format(str(folder / 'pid'))}\ntime.sleep(60)")

    def interrupt() -> None:
        pid_in(folder / "pid")
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        asked(folder, seconds=30.0)

    assert list((folder / "tmp").iterdir()) == []
    retry_until(lambda: not runs(pid_in(folder / "pid")), 5)


def test_the_scratch_folder_is_private(folder: Path) -> None:
    """Whatever the umask says."""
    script(folder, "print(oct(os.stat('.').st_mode & 0o777))")
    before = os.umask(0)
    try:
        answer = asked(folder)
    finally:
        os.umask(before)

    assert answer.text.strip() == "0o700"
