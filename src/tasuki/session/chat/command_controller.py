"""The commands of the chat itself, and what the user is told of how they went."""

from collections.abc import Awaitable, Callable
from pathlib import Path

from msgspec import Struct

from tasuki.errors import Cancelled, TasukiError, ThreadNotFound
from tasuki.model import ThreadHead
from tasuki.plain import one_line
from tasuki.session.agent_session import LEAST_MESSAGES, NOTHING
from tasuki.session.chat.conversation import Conversation
from tasuki.session.chat.view import Choice, View

CANCELLED = "Handoff cancelled"
FAILED = "Handoff failed: {}"
STARTED = "New session started with handoff context"
LISTED = 9
"""Sessions that can be chosen from."""


class Command(Struct, frozen=True):
    """A command of the chat. One that `waits` is not taken while the agent works."""

    description: str
    hint: str = ""
    waits: bool = True


COMMANDS = {
    "/handoff": Command("hand the work to a fresh session", "[focus instructions]"),
    "/new": Command("begin a fresh session, without a handoff"),
    "/resume": Command("go back to an earlier session", "[id]"),
    "/help": Command("show commands and keys", waits=False),
    "/quit": Command("leave", waits=False),
}
KEYS = {
    "Enter": "send, also while the agent works",
    "Alt-Enter": "new line",
    "Escape": "cancel the turn, or the handoff",
    "Ctrl-C": "the same; twice leaves",
    "Up, Ctrl-R": "earlier prompts, search in them",
}


class CommandController:
    """Carries out the commands, and shows how each went."""

    def __init__(self, conversation: Conversation, view: View) -> None:
        self.conversation = conversation
        self.view = view
        self.leave: Callable[[], None] = lambda: None
        """Ends the chat."""
        self._handlers: dict[str, Callable[[str], Awaitable[None]]] = {
            "/handoff": lambda words: self.handle_handoff_command(words or None),
            "/new": self._new,
            "/resume": self._resume,
            "/help": self._help,
            "/quit": self._quit,
        }

    def named(self, name: str) -> Callable[[str], Awaitable[None]] | None:
        """What carries out a command, if it is one of ours."""
        return self._handlers.get(name)

    async def handle_handoff_command(self, custom_instructions: str | None) -> None:
        """The running session writes a handoff, and a fresh one goes on with it."""
        session = self.conversation.session
        if session.manager.message_count() < LEAST_MESSAGES:
            self.view.warn(NOTHING)
            return
        try:
            outcome = await session.handoff(custom_instructions)
        except Cancelled:
            outcome = None
        except TasukiError as error:
            self.view.error(FAILED.format(error), error.exit_code)
            self.give_back()
            return
        if outcome is None:
            self.view.error(CANCELLED, Cancelled.exit_code)
            self.give_back()
            return
        self.view.rebuild(session.messages, session.todos)
        for sentence in outcome.told:
            self.view.note(sentence)
        self.view.note(STARTED)
        if outcome.prefill:
            self.view.fill_input(outcome.prefill)

    def give_back(self) -> None:
        """Words that waited go back into the input line: nobody knows whether they still fit."""
        if words := self.conversation.waiting_words():
            self.view.fill_input(words)

    async def _new(self, words: str) -> None:
        if await self._opened(self.conversation.fresh()):
            self.view.note("New session started")
            if words:
                self.view.fill_input(words)

    async def _resume(self, words: str) -> None:
        try:
            head = self._found(words) if words else await self._chosen()
        except TasukiError as error:
            self.view.error(str(error), error.exit_code)
            return
        if head is not None and await self._opened(self.conversation.resume(Path(head.path))):
            session = self.conversation.session
            self.view.rebuild(session.messages, session.todos)
            for note in session.manager.notes:
                self.view.note(note)
            self.view.note(f"Session {head.id[:13]} resumed")

    async def _opened(self, opening: Awaitable[None]) -> bool:
        try:
            await opening
        except TasukiError as error:
            self.view.error(str(error), error.exit_code)
            return False
        return True

    def _found(self, id: str) -> ThreadHead:
        found = [head for head in self.conversation.others() if head.id.startswith(id)]
        if len(found) != 1:
            many = f"{len(found)} sessions begin" if found else "No session of this folder begins"
            raise ThreadNotFound(f"{many} with {id!r}. See them all: /resume")
        return found[0]

    async def _chosen(self) -> ThreadHead | None:
        heads = self.conversation.others()[:LISTED]
        if not heads:
            raise ThreadNotFound("There is no other session of this folder yet.")
        options = tuple(f"{head.id[:13]}  {_words(head)}" for head in heads)
        chosen = await self.view.choose(Choice("Which session?", options))
        return None if chosen is None else heads[chosen]

    async def _help(self, words: str) -> None:
        lines = [f"{f'{name} {c.hint}':30} {c.description}" for name, c in COMMANDS.items()]
        lines += [f"{keys:30} {what}" for keys, what in KEYS.items()]
        if own := ", ".join(f"/{c.name}" for c in self.conversation.commands):
            lines.append(f"Of {self.conversation.title} itself: {own}")
        self.view.note("\n".join(lines))

    async def _quit(self, words: str) -> None:
        self.leave()


def _words(head: ThreadHead) -> str:
    return one_line(head.name or head.first_words or "(handed off, nothing said yet)", 60)
