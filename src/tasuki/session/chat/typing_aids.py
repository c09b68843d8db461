"""What helps while typing: commands completed, the hint behind one, prompts of earlier days."""

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.layout.processors import AfterInput

from tasuki.plain import one_line
from tasuki.session.backend import AgentCommand
from tasuki.session.chat.command_controller import COMMANDS

Commands = Callable[[], Iterable[AgentCommand]]
"""The agent's own commands, as they are now."""


def hint(text: str, commands: Iterable[AgentCommand]) -> str:
    """What may follow a command that stands alone in the input line; empty for anything else."""
    name = text.removesuffix(" ")
    given = COMMANDS[name].hint if name in COMMANDS else _own_hint(name, commands)
    return f"{'' if text.endswith(' ') else ' '}{given}" if given else ""


def _own_hint(name: str, commands: Iterable[AgentCommand]) -> str:
    return next((c.hint for c in commands if f"/{c.name}" == name), "")


def inline_hint(text: Callable[[], str], commands: Commands) -> AfterInput:
    """Shows the hint behind the input, without being part of it."""

    def shown() -> StyleAndTextTuples:
        return [("class:hint", hint(text(), commands()))]

    return AfterInput(shown)


class CommandCompleter(Completer):
    """Completes our commands, then the agent's own."""

    def __init__(self, commands: Commands) -> None:
        self.commands = commands

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterator[Completion]:
        if document.text_after_cursor:
            return
        for name, description in self.known(document.text):
            shown = one_line(description, 60)
            yield Completion(name, -len(document.text), display_meta=shown)

    def known(self, text: str) -> list[tuple[str, str]]:
        """The commands that a text is the beginning of, with what they do."""
        if not text.startswith("/") or "\n" in text:
            return []
        return [(n, what) for n, what in self._all() if n.startswith(text) and n != text]

    def _all(self) -> Iterator[tuple[str, str]]:
        for name, command in COMMANDS.items():
            yield name, command.description
        for own in self.commands():
            if f"/{own.name}" not in COMMANDS:
                yield f"/{own.name}", own.description


def history(path: Path) -> History:
    """The prompts of earlier days, in a file for the user alone; in memory where there can be none."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))
    except OSError:
        return InMemoryHistory()
    return FileHistory(path)
