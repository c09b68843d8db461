"""Controllers of the chat: submitted texts, its commands, questions for permission; and the prompt.

The prompt completes commands, shows a hint after one, and keeps prompts of earlier days. Below
it is the bottom line: the agent, the folder, how full its context is.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable, Iterator
from pathlib import Path

from msgspec import Struct
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory, History, InMemoryHistory

from tasuki.config.settings import format_path
from tasuki.errors import Cancelled, TasukiError, ThreadNotFound
from tasuki.model import ThreadHead
from tasuki.session.agent_session.backend import (
    CANCELLED_MESSAGE,
    LEAST_MESSAGES,
    NOTHING_MESSAGE,
    STARTED_MESSAGE,
    AgentCommand,
    ContextUsage,
    PermissionRequest,
    ToolProgress,
    find_refusal,
)
from tasuki.session.chat.conversation import ChatConversation
from tasuki.session.chat.painter import build_diff_lines, format_tool_title
from tasuki.session.chat.view import ChatView, NumberedChoice
from tasuki.text_safety import clean_for_display, shorten_to_line

FAILED_MESSAGE = "Handoff failed: {}"
MOST_LISTED = 9
"""Most sessions that can be chosen from."""


class ChatCommand(Struct, frozen=True):
    """A command of the chat. One that `waits` is refused while the agent works."""

    description: str
    hint: str = ""
    waits: bool = True


CHAT_COMMANDS = {
    "/handoff": ChatCommand("hand the work to a fresh session", "[focus instructions]"),
    "/new": ChatCommand("start a fresh session without a handoff"),
    "/resume": ChatCommand("go back to an earlier session", "[id]"),
    "/help": ChatCommand("show commands and keys", waits=False),
    "/quit": ChatCommand("leave", waits=False),
}
KEY_DESCRIPTIONS = {
    "Enter": "send, even while the agent works",
    "Alt-Enter": "new line",
    "Escape": "cancel the turn, or the handoff",
    "Ctrl-C": "the same; twice to leave",
    "Up, Ctrl-R": "earlier prompts, search in them",
}


BUSY_MESSAGE = "The agent is still working. Wait for it, or cancel it with Escape; then {}."
RESTART_MESSAGE = "{} ended; it is restarted with the conversation so far."
_STOP_MESSAGES = {
    "cancelled": "Cancelled",
    "max_tokens": "The agent stopped: its answer reached the size limit.",
    "max_turn_requests": "The agent stopped: it reached its limit of requests in one turn.",
    "refusal": "The agent refused to continue.",
}


class ChatController:
    """Decides about each text that the user submits, and runs the chat's commands.

    These never reach the model. Failures are shown, not raised.
    """

    def __init__(self, conversation: ChatConversation, view: ChatView) -> None:
        self.conversation = conversation
        self.view = view
        self._handlers: dict[str, Callable[[str], Awaitable[None]]] = {
            "/handoff": lambda words: self.hand_off(words or None),
            "/new": self._start_new,
            "/resume": self._resume,
            "/help": self._show_help,
            "/quit": self._leave_chat,
        }

    async def submit(self, text: str) -> None:
        """Carry out a text: run a command, send all else to the agent."""
        text = text.strip()
        if not text:
            return
        self.view.clear_input()
        name = text.split(maxsplit=1)[0]
        handle = self._handlers.get(name)
        if handle is None:
            await self.send_words(text)
            return
        if CHAT_COMMANDS[name].waits:
            await self.conversation.wait_until_open()
        if self.conversation.is_busy and CHAT_COMMANDS[name].waits:
            self.view.show_warning(BUSY_MESSAGE.format(name))
            self.view.fill_input(text)
        else:
            try:
                await handle(text[len(name) :].strip())
            except TasukiError as error:
                self.view.show_error(str(error), error.exit_code)

    async def send_words(self, text: str) -> None:
        """Send words to the agent; while it works they wait."""
        if self.conversation.is_busy:
            self.conversation.session.follow_up(text)
            return
        try:
            if self.conversation.backend.has_ended:
                self.view.show_note(RESTART_MESSAGE.format(self.conversation.title))
                await self.conversation.start()
            stop = await self.conversation.session.prompt(text)
        except TasukiError as error:
            self.view.show_error(str(error), error.exit_code)
        else:
            if stop == "end_turn":
                return
            self.view.show_warning(_STOP_MESSAGES[stop])
        self._return_waiting_words()

    async def hand_off(self, custom_instructions: str | None) -> None:
        """Let the running session write a handoff, and a fresh one continue with it."""
        session = self.conversation.session
        if session.manager.count_messages() < LEAST_MESSAGES:
            self.view.show_warning(NOTHING_MESSAGE)
            return
        problem, code = CANCELLED_MESSAGE, Cancelled.exit_code
        try:
            outcome = await session.handoff(custom_instructions)
        except Cancelled:
            outcome = None
        except TasukiError as error:
            outcome, problem, code = None, FAILED_MESSAGE.format(error), error.exit_code
        if outcome is None:
            self.view.show_error(problem, code)
            self._return_waiting_words()
            return
        self.show_session()
        for sentence in (*outcome.notes, STARTED_MESSAGE):
            self.view.show_note(sentence)
        if outcome.prefill:
            self.view.fill_input(outcome.prefill)

    def show_session(self) -> None:
        """Show the session in use again, and what was odd in its file."""
        session = self.conversation.session
        self.view.rebuild(session.messages, session.todos)
        for note in session.manager.notes:
            self.view.show_note(note)

    def _return_waiting_words(self) -> None:
        """Put waiting words back into the input line: they may no longer fit."""
        if words := self.conversation.take_waiting_words():
            self.view.fill_input(words)

    async def _start_new(self, words: str) -> None:
        await self.conversation.start_fresh()
        self.view.show_note("New session started")
        if words:
            self.view.fill_input(words)

    async def _resume(self, words: str) -> None:
        head = self._find_session(words) if words else await self._choose_session()
        if head is None:
            return
        await self.conversation.resume(Path(head.path))
        self.show_session()
        self.view.show_note(f"Session {head.id[:13]} resumed")

    def _find_session(self, session_id: str) -> ThreadHead:
        matches = [
            head for head in self.conversation.list_others() if head.id.startswith(session_id)
        ]
        if len(matches) != 1:
            many = (
                f"{len(matches)} sessions begin" if matches else "No session of this folder begins"
            )
            raise ThreadNotFound(f"{many} with {session_id!r}. See them all: /resume")
        return matches[0]

    async def _choose_session(self) -> ThreadHead | None:
        heads = self.conversation.list_others()[:MOST_LISTED]
        if not heads:
            raise ThreadNotFound("This folder has no other session yet.")
        words = (h.name or h.first_words or "(handed off, no messages yet)" for h in heads)
        options = tuple(
            f"{head.id[:13]}  {shorten_to_line(text, 60)}"
            for head, text in zip(heads, words, strict=True)
        )
        index = await self.view.choose(NumberedChoice("Which session?", options))
        return None if index is None else heads[index]

    async def _show_help(self, words: str) -> None:
        lines = [f"{f'{name} {c.hint}':30} {c.description}" for name, c in CHAT_COMMANDS.items()]
        lines += [f"{keys:30} {description}" for keys, description in KEY_DESCRIPTIONS.items()]
        if own := ", ".join(f"/{c.name}" for c in self.conversation.commands):
            lines.append(f"Commands of {self.conversation.title}: {own}")
        self.view.show_note("\n".join(lines))

    async def _leave_chat(self, words: str) -> None:
        self.view.leave()


_COMMANDS = ("command", "cmd", "script")
MOST_LINES = 8


class PermissionDialog:
    """Asks the user what the agent may do; while one question is open the others wait."""

    def __init__(self, view: ChatView, title: str) -> None:
        self.view, self.title = view, title
        self._lock = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()

    def ask(self, permission: PermissionRequest) -> None:
        """Ask, and answer the agent once the user has answered."""
        task = asyncio.get_running_loop().create_task(self._ask(permission))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _ask(self, permission: PermissionRequest) -> None:
        async with self._lock:
            index = await self.view.choose(build_question(permission, self.title))
        answer = None if index is None else permission.options[index]
        permission.answer(answer.id if answer else None)


def build_question(permission: PermissionRequest, title: str) -> NumberedChoice:
    """Build the question for permission that the user sees."""
    tool = permission.tool
    return NumberedChoice(
        f"{title} asks: {format_tool_title(tool)}",
        tuple(shorten_to_line(option.name, 70) for option in permission.options),
        find_refusal(permission.options),
        tuple(_describe_details(tool)),
    )


def _describe_details(tool: ToolProgress) -> Iterator[str]:
    """Describe what exactly the agent wants to do: the command, or the change."""
    values = (tool.arguments.get(name) for name in _COMMANDS)
    command = next((c for c in values if isinstance(c, str)), "")
    if command and command not in tool.title:
        yield from _limit_lines(f"$ {line}" for line in clean_for_display(command).splitlines())
    for diff in tool.diffs:
        yield from _limit_lines(line.text.plain for line in build_diff_lines(diff))


def _limit_lines(lines: Iterable[str]) -> Iterator[str]:
    lines = list(lines)
    yield from lines[:MOST_LINES]
    if len(lines) > MOST_LINES:
        yield f"… {len(lines) - MOST_LINES} more lines"


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
        own = ((f"/{c.name}", c.description) for c in self.commands())
        descriptions = {**dict(own), **{n: c.description for n, c in CHAT_COMMANDS.items()}}
        names = dict.fromkeys((*CHAT_COMMANDS, *descriptions))
        return [(n, descriptions[n]) for n in names if n.startswith(text) and n != text]


def open_history(path: Path) -> History:
    """Open the prompts of earlier days, in a file for the user alone; else in memory."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))
    except OSError:
        return InMemoryHistory()
    return FileHistory(path)


FOLDER_COLUMNS = 32
"""Columns of a folder's whole name; of a longer one only the last part is shown."""


def build_status_line(conversation: ChatConversation, width: int) -> str:
    """Build the bottom line, as far as it fits in `width` columns."""
    folder = format_path(conversation.cwd).removesuffix("/.")
    if len(folder) > FOLDER_COLUMNS:
        folder = f"…/{conversation.cwd.name}"
    parts = [conversation.title, folder, format_context_use(conversation.usage)]
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
