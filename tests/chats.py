"""A chat for tests: a conversation with a scripted agent, and a view that remembers what it was shown."""

from collections.abc import Sequence
from pathlib import Path

from sessions import WORKED

from tasuki import config
from tasuki.config import Loaded
from tasuki.session.backend import Todo
from tasuki.session.chat.command_controller import CommandController
from tasuki.session.chat.conversation import Conversation
from tasuki.session.chat.input_controller import InputController
from tasuki.session.chat.view import Choice
from tasuki.session.events import SessionEvent
from tasuki.session.messages import Json
from tasuki.testing.session_backend import Rule, ScriptedBackend
from tasuki.vault import Vault


class ChatBackend(ScriptedBackend):
    """The scripted agent, as one that the chat can start."""

    title = "Scripted"
    resume = ""
    command = "scripted --acp"
    ended = False


class ShownView:
    """A view without a screen: `shown` holds what it was told to show, in order."""

    def __init__(self) -> None:
        self.shown: list[tuple[str, str]] = []
        self.input = ""
        self.choices: list[Choice] = []
        self.answer: int | None = None

    def take(self, event: SessionEvent) -> None:
        """What the session tells is not kept here."""

    def note(self, text: str) -> None:
        self.shown.append(("note", text))

    def warn(self, text: str) -> None:
        self.shown.append(("warn", text))

    def error(self, text: str, code: int = 1) -> None:
        self.shown.append((f"error {code}", text))

    def clear_input(self) -> None:
        self.input = ""

    def fill_input(self, text: str) -> None:
        self.input = f"{text}\n{self.input}" if self.input else text

    def rebuild(self, messages: Sequence[Json], todos: Sequence[Todo]) -> None:
        self.shown.append(("rebuilt", f"{len(messages)} messages, {len(todos)} todos"))

    async def choose(self, choice: Choice) -> int | None:
        self.choices.append(choice)
        return self.answer


class Chatting:
    """A chat with an agent that follows rules, in a folder."""

    def __init__(self, folder: Path, *rules: Rule, loaded: Loaded | None = None) -> None:
        self.backend = ChatBackend((*rules, WORKED))
        self.view = ShownView()
        self.conversation = Conversation(
            self.backend,
            folder,
            loaded or config.loaded(folder),
            folder=folder / "sessions",
            vault=Vault(folder / "handoffs"),
        )
        self.commands = CommandController(self.conversation, self.view)
        self.input = InputController(self.conversation, self.commands, self.view)

    async def said(self, *texts: str) -> None:
        """Start where need be, and submit texts one after the other."""
        if not self.conversation.ready:
            await self.conversation.start()
        for text in texts:
            self.view.input = text
            await self.input.submit(text)

    @property
    def prompts(self) -> list[str]:
        """What reached the model, the requests of a handoff apart."""
        return [asked.prompt for asked in self.backend.log if len(asked.prompt) < 300]
