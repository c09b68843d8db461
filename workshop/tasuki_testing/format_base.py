"""What records of every harness are made with: a clock, and what most formats have in common."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, Protocol

from tasuki_testing.forms import Form, JsonLines

Record = dict[str, Any]
Ended = Literal["done", "failed", "running"]
FileTools = Mapping[str, tuple[str, Mapping[str, str], str]]
"""How a file is edited, written or read: the tool, its arguments by event, its result."""


class Clock:
    """Times and ids that are the same at every run."""

    def __init__(self, seed: int = 0) -> None:
        self._seconds = 0
        self._ids = seed * 100_000

    def time(self) -> str:
        """Return an ISO 8601 time, one second later with each call."""
        self._seconds += 1
        minutes, seconds = divmod(self._seconds, 60)
        hours, minutes = divmod(minutes, 60)
        return f"2026-01-05T{9 + hours:02}:{minutes:02}:{seconds:02}.000Z"

    def number(self) -> int:
        """Return the next unused number."""
        self._ids += 1
        return self._ids

    def uuid(self) -> str:
        """Return a UUID made of the next number."""
        return f"00000000-0000-7000-8000-{self.number():012x}"


class Format(Protocol):
    """Records of one harness, with one method for each kind of event."""

    id: str
    form: Form

    def file_name(self) -> str: ...
    def begin(self) -> list[Record]: ...
    def user(self, text: str) -> list[Record]: ...
    def assistant(self, text: str) -> list[Record]: ...
    def shell(self, command: str, output: str, code: int) -> list[Record]: ...
    def edit(self, path: str, old: str, new: str) -> list[Record]: ...
    def write(self, path: str, content: str) -> list[Record]: ...
    def read(self, path: str, content: str) -> list[Record]: ...
    def todos(self, items: Sequence[tuple[str, str]]) -> list[Record]: ...
    def compaction(self, summary: str) -> list[Record]: ...
    def interruption(self) -> list[Record]: ...
    def background(self, command: str, ended: Ended) -> list[Record]: ...
    def agent(self, task: str, ended: Ended) -> list[Record]: ...
    def sidechain(self, text: str) -> list[Record]: ...
    def handoff(self, context: str) -> list[Record]: ...


class BaseFormat:
    """What most formats have in common. What a harness does not record gives no record."""

    form: Form = JsonLines()
    commit = "c0ffee0000000000000000000000000000000000"
    file_tools: ClassVar[FileTools] = {}

    def __init__(self, cwd: str, clock: Clock) -> None:
        self.cwd, self.clock = cwd, clock
        self.id = clock.uuid()
        self.parent: str | None = None

    def begin(self) -> list[Record]:
        return []

    def user(self, text: str) -> list[Record]:
        raise NotImplementedError

    def shell(self, command: str, output: str, code: int) -> list[Record]:
        raise NotImplementedError

    def build_call(self, name: str, arguments: Record, result: str | None) -> list[Record]:
        """Return the records of a call; without a result it has not ended."""
        raise NotImplementedError

    def edit(self, path: str, old: str, new: str) -> list[Record]:
        return self._call_file_tool("edit", path=path, old=old, new=new)

    def write(self, path: str, content: str) -> list[Record]:
        return self._call_file_tool("write", path=path, content=content)

    def read(self, path: str, content: str) -> list[Record]:
        return self._call_file_tool("read", path=path, content=content)

    def _call_file_tool(self, event: str, **given: str) -> list[Record]:
        name, named, result = self.file_tools[event]
        arguments = {key: given.get(value, value) for key, value in named.items()}
        return self.build_call(name, arguments, result.format(**given))

    def todos(self, items: Sequence[tuple[str, str]]) -> list[Record]:
        return []

    def background(self, command: str, ended: Ended) -> list[Record]:
        """Record a command as any other: the harness has none in the background."""
        return self.shell(command, "finished", int(ended == "failed"))

    def agent(self, task: str, ended: Ended) -> list[Record]:
        return []

    def sidechain(self, text: str) -> list[Record]:
        return []

    def handoff(self, context: str) -> list[Record]:
        return self.user(f"# Handoff Context\n{context}")

    def get_agent_result(self, ended: Ended) -> str | None:
        """Return what a sub-agent reports; None while it runs."""
        return {"running": None, "done": "It is done.", "failed": "It failed."}[ended]
