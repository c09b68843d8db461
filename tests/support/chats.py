"""A chat for tests: a conversation with a scripted agent, and a view that remembers what it was shown."""

from collections.abc import Sequence
from pathlib import Path

from fakes.session_backend import BackendRule, ScriptedBackend
from sessions import WORKED

from tasuki.config import settings
from tasuki.config.settings import LoadedSettings
from tasuki.session.agent_session.backend import AgentTodo, SessionEvent
from tasuki.session.chat.controllers import ChatController
from tasuki.session.chat.conversation import ChatConversation
from tasuki.session.chat.view import NumberedChoice
from tasuki.session.pi_store.messages import Json
from tasuki.vault import Vault


class ChatBackend(ScriptedBackend):
    """The scripted agent, as one that the chat can start."""

    title = "Scripted"
    resume = ""
    command = "scripted --acp"
    has_ended = False


class ShownView:
    """A view without a screen: `shown` holds what it was told to show, in order."""

    def __init__(self) -> None:
        self.shown: list[tuple[str, str]] = []
        self.input = ""
        self.choices: list[NumberedChoice] = []
        self.answer: int | None = None
        self.has_left = False

    def take(self, event: SessionEvent) -> None:
        """What the session tells is not kept here."""

    def leave(self) -> None:
        self.has_left = True

    def show_note(self, text: str) -> None:
        self.shown.append(("note", text))

    def show_warning(self, text: str) -> None:
        self.shown.append(("warn", text))

    def show_error(self, text: str, code: int = 1) -> None:
        self.shown.append((f"error {code}", text))

    def clear_input(self) -> None:
        self.input = ""

    def fill_input(self, text: str) -> None:
        self.input = f"{text}\n{self.input}" if self.input else text

    def rebuild(self, messages: Sequence[Json], todos: Sequence[AgentTodo]) -> None:
        self.shown.append(("rebuilt", f"{len(messages)} messages, {len(todos)} todos"))

    async def choose(self, choice: NumberedChoice) -> int | None:
        self.choices.append(choice)
        return self.answer


class Chatting:
    """A chat with an agent that follows rules, in a folder."""

    def __init__(
        self, folder: Path, *rules: BackendRule, loaded: LoadedSettings | None = None
    ) -> None:
        self.backend = ChatBackend((*rules, WORKED))
        self.view = ShownView()
        self.conversation = ChatConversation(
            self.backend,
            folder,
            loaded or settings.load_with_sources(folder),
            folder=folder / "sessions",
            vault=Vault(folder / "handoffs"),
        )
        self.input = ChatController(self.conversation, self.view)

    async def said(self, *texts: str) -> None:
        """Start where need be, and submit texts one after the other."""
        if not self.conversation.is_ready:
            await self.conversation.start()
        for text in texts:
            self.view.input = text
            await self.input.submit(text)

    @property
    def prompts(self) -> list[str]:
        """What reached the model, the requests of a handoff apart."""
        return [asked.prompt for asked in self.backend.log if len(asked.prompt) < 300]
