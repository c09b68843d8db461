"""A made-up thread under way, with what was planted in it."""

import re
from dataclasses import dataclass, field
from typing import Self

from tasuki_testing.builder import ThreadBuilder


@dataclass(frozen=True)
class Fact:
    """Something a successor has to know.

    `needs` are expressions that must all occur in one line of the brief; a line in which
    `unless` occurs does not count.
    """

    kind: str
    role: str
    text: str
    needs: tuple[str, ...]
    unless: str = ""
    held_out: bool = False


@dataclass(frozen=True)
class Decoy:
    """Something that was true, or only looked like it, and must not stand in a brief as true.

    It leaks when all of `needs` occur in one line and `unless` does not, in that line or its
    heading.
    """

    kind: str
    needs: tuple[str, ...]
    unless: str = ""


@dataclass
class Script:
    """Writes a thread and keeps a record of what was planted in it."""

    name: str
    harness: str
    cwd: str
    goal: str
    seed: int
    variant: int = 0
    """Which of many courses the talk between the planted facts takes."""
    facts: list[Fact] = field(default_factory=list)
    decoys: list[Decoy] = field(default_factory=list)
    messages: list[tuple[str, str]] = field(default_factory=list)
    written: list[str] = field(default_factory=list)
    """The text of every entry."""
    entries: int = 0

    def __post_init__(self) -> None:
        self.thread = ThreadBuilder(self.harness, self.cwd, self.seed)
        self._last = ("", "")

    def _wrote(self, role: str, text: str) -> Self:
        self._last = (role, text)
        self.written.append(text)
        self.entries += 1
        if role in ("user", "agent"):
            self.messages.append((role, text))
        return self

    def user(self, text: str) -> Self:
        """The user typed this."""
        self.thread.user(text)
        return self._wrote("user", text)

    def agent(self, text: str) -> Self:
        """The agent said this."""
        self.thread.assistant(text)
        return self._wrote("agent", text)

    def shell(self, command: str, output: str = "", code: int = 0) -> Self:
        """The agent ran this."""
        self.thread.shell(command, output, code)
        return self._wrote("tool", output)

    def read(self, path: str, content: str) -> Self:
        """The agent read this file."""
        self.thread.read(f"{self.cwd}/{path}", content)
        return self._wrote("tool", content)

    def edit(self, path: str, old: str, new: str) -> Self:
        """The agent changed this file."""
        self.thread.edit(f"{self.cwd}/{path}", old, new)
        return self._wrote("tool", new)

    def create(self, path: str, content: str) -> Self:
        """The agent wrote this file."""
        self.thread.create(f"{self.cwd}/{path}", content)
        return self._wrote("tool", content)

    def todos(self, *items: tuple[str, str]) -> Self:
        """The agent wrote its list of tasks."""
        self.thread.todos(*items)
        return self._wrote("tool", "\n".join(text for text, _ in items))

    def summary(self, text: str) -> Self:
        """The harness compacted."""
        self.thread.compaction(text)
        return self._wrote("compaction", text)

    def interrupted(self) -> Self:
        """The user pressed Escape."""
        self.thread.interruption()
        return self

    def delegated(self, task: str) -> Self:
        """The agent gave a task to a sub-agent, which came back."""
        self.thread.agent(task, "done")
        return self._wrote("tool", task)

    def keep(self, kind: str, *needs: str, unless: str = "", held_out: bool = False) -> Self:
        """The entry just written holds a fact."""
        role, text = self._last
        self.facts.append(Fact(kind, role, best_line(text, needs), needs, unless, held_out))
        return self

    def avoid(self, kind: str, *needs: str, unless: str = "") -> Self:
        """The brief must not say this."""
        self.decoys.append(Decoy(kind, needs, unless))
        return self


def holds(line: str, needs: tuple[str, ...], unless: str = "", around: str = "") -> bool:
    """Whether a line has all of `needs` and nothing of `unless`, there or `around` it."""
    if not all(re.search(need, line, re.IGNORECASE) for need in needs):
        return False
    return not (unless and re.search(unless, f"{around}\n{line}", re.IGNORECASE))


def best_line(text: str, needs: tuple[str, ...]) -> str:
    """The shortest run of sentences of a text that has all of `needs`, on one line."""
    for paragraph in text.split("\n"):
        parts = re.split(r"(?<=[.?!]) +", paragraph)
        for size in range(1, len(parts) + 1):
            for start in range(len(parts) - size + 1):
                run = " ".join(parts[start : start + size])
                if holds(run, needs):
                    return run
    return " ".join(text.split())
