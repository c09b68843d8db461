"""Synthetic threads in each harness's own format, for tests and for cases with planted facts."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Self

from tasuki_testing import thread_formats
from tasuki_testing.format_base import Clock, Ended, Format, Record

P = ParamSpec("P")


def _record(
    event: Callable[Concatenate[Format, P], list[Record]],
) -> Callable[Concatenate["ThreadBuilder", P], "ThreadBuilder"]:
    """Return the method of a builder that adds the records of an event."""

    def record_event(
        builder: "ThreadBuilder", /, *args: P.args, **given: P.kwargs
    ) -> "ThreadBuilder":
        return builder._add_records(getattr(builder._format, event.__name__)(*args, **given))

    return record_event


class ThreadBuilder:
    """Writes a thread step by step: `ThreadBuilder("codex").user("Fix it").write(path)`.

    `harness` is a name in `tasuki_testing.thread_formats.FORMATS`, or your own `Format`. Ids
    and times are the same at every run; `seed` makes the ids of several threads differ. Nothing
    is written before `write`.
    """

    def __init__(self, harness: str | Format, cwd: str = "/home/dev/proj", seed: int = 0) -> None:
        self.harness = harness
        if isinstance(harness, str):
            harness = thread_formats.create_format(harness, cwd, Clock(seed))
        self._format: Format = harness
        self.id = self._format.id
        self.records: list[Record] = list(self._format.begin())

    def _add_records(self, records: list[Record]) -> Self:
        self.records.extend(records)
        return self

    user = _record(Format.user)
    """Record that the user typed a prompt."""
    assistant = _record(Format.assistant)
    """Record that the agent said something."""
    edit = _record(Format.edit)
    """Record that the agent replaced a text in a file: path, old and new text."""
    create = _record(Format.write)
    """Record that the agent wrote a new file: path and content."""
    compaction = _record(Format.compaction)
    """Record that the harness replaced what came before by a summary."""
    interruption = _record(Format.interruption)
    """Record that the user pressed Escape."""
    sidechain = _record(Format.sidechain)
    """Record a sub-agent's words in the same file; only Claude Code has such lines."""
    handoff = _record(Format.handoff)
    """Begin the thread with the brief of an earlier handoff."""

    def shell(self, command: str, output: str = "", code: int = 0) -> Self:
        """Record that the agent ran a command that ended."""
        return self._add_records(self._format.shell(command, output, code))

    def read(self, path: str, content: str = "") -> Self:
        """Record that the agent read a file; in Codex, with `cat`."""
        return self._add_records(self._format.read(path, content))

    def todos(self, *items: tuple[str, str]) -> Self:
        """Record the agent's todos: texts, each with `pending`, `in_progress` or `completed`."""
        return self._add_records(self._format.todos(items))

    def background(self, command: str, ended: Ended = "running") -> Self:
        """Record a background command; its end may be recorded too."""
        return self._add_records(self._format.background(command, ended))

    def agent(self, task: str, ended: Ended = "done") -> Self:
        """Record that the agent gave a task to a sub-agent."""
        return self._add_records(self._format.agent(task, ended))

    def raw(self, **record: Any) -> Self:
        """Record a record as it is."""
        return self._add_records([record])

    def units(self) -> list[bytes]:
        """Return the parts that the harness would write one by one: lines, messages, rows."""
        return [self._format.form.encode(record) for record in self.records]

    def text(self) -> str:
        """Return all units as one text."""
        return b"".join(self.units()).decode()

    def write(self, path: Path) -> Path:
        """Write the thread; a folder gets a file with the harness's own file name."""
        if path.is_dir():
            path = path / self.file_name()
            self._format.form.file(path).parent.mkdir(parents=True, exist_ok=True)
        self._format.form.write(self.units(), path)
        return path

    def file_name(self) -> str:
        """Return the name that the harness would give the file."""
        return self._format.file_name()


STORY_TODOS: Sequence[tuple[str, str]] = (
    ("Raise the timeout", "completed"),
    ("Write a test", "in_progress"),
    ("Tell the user", "pending"),
)
STORY_SUMMARY = "We are fixing the timeout of the login."


def story(harness: str | Format, cwd: str = "/home/dev/proj") -> ThreadBuilder:
    """Return a thread in which everything happens that a contract checks."""
    return (
        ThreadBuilder(harness, cwd)
        .handoff("- Earlier work: the login form. [#7]")
        .user("Please fix the login timeout; keep it under 30 s — not more")
        .assistant("I look at the code first.")
        .read("src/login.py", "TIMEOUT = 5\n")
        .sidechain("SIDECHAIN-WORDS that no entry may hold")
        .compaction(STORY_SUMMARY)
        .shell("pytest -q tests/test_login.py", "1 failed: timeout\n", 1)
        .edit("src/login.py", "TIMEOUT = 5", "TIMEOUT = 25")
        .create("tests/test_timeout.py", "def test_timeout():\n    assert True")
        .shell("pytest -q", "2 passed\n", 0)
        .todos(*STORY_TODOS)
        .agent("Review the change", "done")
        .interruption()
        .user("Go on")
        .background("npm run dev", "running")
    )
