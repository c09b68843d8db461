"""The prompt: completed commands, the hint after a command, prompts of earlier days.

Below it is the bottom line: the agent, the folder, how full its context is.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.layout.processors import AfterInput

from tasuki.config.settings import format_path
from tasuki.session.agent_session.backend import AgentCommand, ContextUsage
from tasuki.session.chat.controllers import CHAT_COMMANDS
from tasuki.session.chat.conversation import ChatConversation
from tasuki.text_safety import shorten_to_line

CommandSource = Callable[[], Iterable[AgentCommand]]
"""Returns the agent's current commands."""


def find_hint(text: str, commands: Iterable[AgentCommand]) -> str:
    """Find what may follow a command that is alone in the input line; empty for anything else."""
    name = text.removesuffix(" ")
    if name in CHAT_COMMANDS:
        hint = CHAT_COMMANDS[name].hint
    else:
        hint = next((c.hint for c in commands if f"/{c.name}" == name), "")
    return f"{'' if text.endswith(' ') else ' '}{hint}" if hint else ""


def build_inline_hint(text: Callable[[], str], commands: CommandSource) -> AfterInput:
    """Build a processor that shows the hint after the input, without being part of it."""

    def build_hint() -> StyleAndTextTuples:
        return [("class:hint", find_hint(text(), commands()))]

    return AfterInput(build_hint)


class CommandCompleter(Completer):
    """Completes the chat's commands, then the agent's own."""

    def __init__(self, commands: CommandSource) -> None:
        self.commands = commands

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterator[Completion]:
        if document.text_after_cursor:
            return
        for name, description in self.find_commands(document.text):
            summary = shorten_to_line(description, 60)
            yield Completion(name, -len(document.text), display_meta=summary)

    def find_commands(self, text: str) -> list[tuple[str, str]]:
        """Find the commands that begin with a text, with their descriptions."""
        if not text.startswith("/") or "\n" in text:
            return []
        return [
            (n, description)
            for n, description in self._list_all()
            if n.startswith(text) and n != text
        ]

    def _list_all(self) -> Iterator[tuple[str, str]]:
        for name, command in CHAT_COMMANDS.items():
            yield name, command.description
        for agent_command in self.commands():
            if f"/{agent_command.name}" not in CHAT_COMMANDS:
                yield f"/{agent_command.name}", agent_command.description


def open_history(path: Path) -> History:
    """Open the prompts of earlier days, in a file for the user alone; else in memory."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))
    except OSError:
        return InMemoryHistory()
    return FileHistory(path)


FOLDER_COLUMNS = 32
"""Columns of a folder's name."""


def build_status_line(conversation: ChatConversation, width: int) -> str:
    """Build the bottom line, as far as it fits in `width` columns."""
    parts = [
        conversation.title,
        _shorten_folder(conversation.cwd),
        format_context_use(conversation.usage),
    ]
    if is_full(conversation):
        parts.append("/handoff")
    parts.append("/help")
    return shorten_to_line(" · ".join(part for part in parts if part), width)


def format_context_use(usage: ContextUsage) -> str:
    """Format the use as `context 12.5k of 128k (10 %)`; empty where nothing is known."""
    if not usage.used:
        return ""
    if not usage.size:
        return f"context {_shorten_count(usage.used)}"
    percent = round(100 * usage.used / usage.size)
    return f"context {_shorten_count(usage.used)} of {_shorten_count(usage.size)} ({percent} %)"


def is_full(conversation: ChatConversation) -> bool:
    """Whether a handoff should be suggested."""
    usage, percent = conversation.usage, conversation.loaded.settings.suggest_at
    return bool(percent and usage.size) and 100 * usage.used >= percent * usage.size


def _shorten_count(tokens: int) -> str:
    for size, unit in ((1_000_000, "M"), (1000, "k")):
        if tokens >= size:
            return f"{tokens / size:.1f}".removesuffix(".0") + unit
    return str(tokens)


def _shorten_folder(path: Path) -> str:
    """Shorten a folder to its last part where the whole would take too much room."""
    whole = format_path(path).removesuffix("/.")
    return whole if len(whole) <= FOLDER_COLUMNS else f"…/{path.name}"
