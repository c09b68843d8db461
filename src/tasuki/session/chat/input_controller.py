"""What a submitted text is: a command of ours, or words for the agent."""

from tasuki.errors import TasukiError
from tasuki.session.chat.command_controller import COMMANDS, CommandController
from tasuki.session.chat.conversation import Conversation
from tasuki.session.chat.view import View

BUSY = "The agent is still at work. Wait for it, or cancel it with Escape; then {}."
AGAIN = "{} ended; it is started again with the conversation so far."
_ENDINGS = {
    "cancelled": "Cancelled",
    "max_tokens": "The agent stopped: its answer reached the size limit.",
    "max_turn_requests": "The agent stopped: it reached its limit of requests in one turn.",
    "refusal": "The agent refused to go on.",
}


class InputController:
    """Decides over each text that the user submits. No command of ours reaches the model."""

    def __init__(self, conversation: Conversation, commands: CommandController, view: View) -> None:
        self.conversation = conversation
        self.commands = commands
        self.view = view

    async def submit(self, text: str) -> None:
        """Do what a text says. Failures are shown, not raised."""
        text = text.strip()
        if not text:
            return
        self.view.clear_input()
        name, words = _split(text)
        command = self.commands.named(name)
        if command is None:
            await self.say(text)
            return
        if COMMANDS[name].waits:
            await self.conversation.opened()
        if self.conversation.busy and COMMANDS[name].waits:
            self.view.warn(BUSY.format(name))
            self.view.fill_input(text)
        else:
            await command(words)

    async def say(self, text: str) -> None:
        """Words for the agent; while it works they wait."""
        if self.conversation.busy:
            self.conversation.session.follow_up(text)
            return
        try:
            if self.conversation.backend.ended:
                self.view.note(AGAIN.format(self.conversation.title))
                await self.conversation.restart()
            stop = await self.conversation.session.prompt(text)
        except TasukiError as error:
            self.view.error(str(error), error.exit_code)
        else:
            if stop == "end_turn":
                return
            self.view.warn(_ENDINGS[stop])
        self.commands.give_back()


def _split(text: str) -> tuple[str, str]:
    """The first word, and all after it."""
    name = text.split(maxsplit=1)[0]
    return name, text[len(name) :].strip()
