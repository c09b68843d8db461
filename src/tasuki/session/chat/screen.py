"""A conversation in a terminal: past messages scroll, the current work is above the prompt.

The chat's keys are those that every input line has, and a few more.
"""

import asyncio
import errno
import os
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.enums import DEFAULT_BUFFER
from prompt_toolkit.filters import Condition, has_focus
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.layout import FormattedTextControl, HSplit, Layout, Window
from prompt_toolkit.layout.processors import AfterInput
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.styles import Style
from rich.text import Text

from tasuki.session.agent_session.backend import (
    AgentTodo,
    HandoffPhase,
    PermissionRequest,
    QueueChanged,
    SessionEvent,
    SessionSwitched,
    TurnEnded,
    TurnStarted,
)
from tasuki.session.chat.controllers import (
    CommandCompleter,
    build_status_line,
    find_hint,
    open_history,
)
from tasuki.session.chat.conversation import ChatConversation
from tasuki.session.chat.painter import TODO_MARKS, EventPainter, format_tool_title, replay_messages
from tasuki.session.chat.view import NumberedChoice, ScrollWriter
from tasuki.session.pi_store.messages import Json
from tasuki.text_safety import shorten_to_line

SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
TICK_SECONDS = 0.1
LIVE_LINES = 6
TWICE_SECONDS = 2.0
"""Seconds within which a second Ctrl-C leaves."""
LEAVE_HINT = "Ctrl-C again leaves"
STYLE = Style.from_dict({
    "below": "#888888",
    "hint": "#888888 italic",
    "live": "",
    "dim": "#888888",
    "busy": "ansicyan",
    "prompt": "ansicyan bold",
    "question": "bold",
    "careful": "ansigreen",
})  # fmt: skip


class TerminalScreen:
    """The terminal as a view. `run` shows the prompt until the user leaves."""

    def __init__(self, conversation: ChatConversation, history_path: Path) -> None:
        self.conversation = conversation
        self.scroll = ScrollWriter()
        self.painter = EventPainter(self.scroll.write)
        self.submit: Callable[[str], Awaitable[None]]
        self.busy_with = f"Starting {conversation.title}"
        self.since = time.monotonic()
        self.waiting: tuple[str, ...] = ()
        self.choice: NumberedChoice | None = None
        self.answer: asyncio.Future[int | None] | None = None
        self.hint = ""
        """A sentence that replaces the bottom line."""
        self._tasks: set[asyncio.Future[object]] = set()
        self._completer = CommandCompleter(lambda: conversation.commands)
        self.prompt: PromptSession[None] = PromptSession(
            output=_create_output(),
            message=self._build_prompt,
            multiline=True,
            prompt_continuation="  ",
            key_bindings=build_bindings(self),
            completer=self._completer,
            complete_while_typing=Condition(
                lambda: bool(self._completer.find_commands(self.typed_text))
            ),
            history=open_history(history_path),
            input_processors=[AfterInput(self._build_hint)],
            style=STYLE,
            reserve_space_for_menu=6,
            erase_when_done=True,
        )
        bottom = Window(
            FormattedTextControl(
                lambda: self.hint or build_status_line(conversation, self._get_width())
            ),
            height=1,
            style="class:below",
        )
        layout = Layout(HSplit([self.prompt.layout.container, bottom]), self.prompt.default_buffer)
        self.prompt.layout = self.prompt.app.layout = layout
        self.prompt.app.ttimeoutlen = self.prompt.app.timeoutlen = 0.05

    async def run(self) -> None:
        """Show the prompt until the user leaves."""
        ticking = asyncio.get_running_loop().create_task(self._tick())
        try:
            self.scroll.write_now()
            await self.prompt.prompt_async()
        except EOFError:  # the terminal was closed
            pass
        except OSError as error:
            # EIO is also the closed terminal, noticed while something was written.
            if error.errno != errno.EIO:
                raise
        finally:
            ticking.cancel()
            for task in list(self._tasks):
                task.cancel()
            self.painter.finish()
            await self.scroll.close()

    def leave(self, error: BaseException | None = None) -> None:
        """End `run`, with an error where there is one."""
        app = self.prompt.app
        if not app.is_running or app.is_done:
            return
        if error is not None:
            app.exit(exception=error)
        else:
            app.exit()

    # -- the View --------------------------------------------------------------------------

    def take(self, event: SessionEvent) -> None:
        if isinstance(event, TurnStarted):
            self._set_busy("Writing handoff document" if event.internal else "Working")
        elif isinstance(event, HandoffPhase):
            self._set_busy(event.label.rstrip(". "))
        elif isinstance(event, TurnEnded | SessionSwitched):
            self.busy_with = ""
        elif isinstance(event, QueueChanged):
            self.waiting = event.waiting
        if not isinstance(event, PermissionRequest):
            self.painter.take(event)
        self.prompt.app.invalidate()

    def show_note(self, text: str) -> None:
        self._paint_text(text, "cyan")

    def show_warning(self, text: str) -> None:
        self._paint_text(text, "yellow")

    def show_error(self, text: str, code: int = 1) -> None:
        self._paint_text(text, "red")

    def clear_input(self) -> None:
        """Do nothing: Enter cleared the line, and what was typed since then stays."""

    def fill_input(self, text: str) -> None:
        buffer = self.prompt.default_buffer
        buffer.text = f"{text}\n{buffer.text}" if buffer.text else text
        buffer.cursor_position = len(buffer.text)

    def rebuild(self, messages: Sequence[Json], todos: Sequence[AgentTodo]) -> None:
        self.busy_with = ""
        self.painter.todos = tuple(todos)
        replay_messages(self.painter, messages)
        self.prompt.app.invalidate()

    async def choose(self, choice: NumberedChoice) -> int | None:
        self.choice = choice
        self.answer = asyncio.get_running_loop().create_future()
        self.prompt.app.invalidate()
        try:
            index = await self.answer
        finally:
            self.choice = self.answer = None
        words = "no answer" if index is None else choice.options[index]
        self.painter.add_gap()
        self.painter.paint_note(f"{choice.question} → {words}", "dim")
        return index

    # -- actions of the keys ---------------------------------------------------------------

    @property
    def typed_text(self) -> str:
        """The text in the input line."""
        return self.prompt.default_buffer.text

    def accept(self) -> None:
        """Answer the question, or submit what was typed; Enter calls it."""
        buffer = self.prompt.default_buffer
        text = buffer.text
        if self.choice is not None and not text.strip():
            self.decide(self.choice.default)
            return
        if text.strip():
            buffer.append_to_history()
            buffer.reset()
            self.start_task(self.submit(text))

    def decide(self, index: int | None) -> None:
        """Answer the question."""
        if self.answer is not None and not self.answer.done():
            self.answer.set_result(index)

    def cancel(self) -> None:
        """Take back the question, or cancel the current work."""
        if self.choice is not None:
            self.decide(None)
        else:
            self.start_task(self.conversation.interrupt())

    def show_remark(self, text: str, seconds: float) -> None:
        """Show a sentence in the bottom line for a while."""
        self.hint = text
        asyncio.get_running_loop().call_later(seconds, self._clear_remark, text)
        self.prompt.app.invalidate()

    def _clear_remark(self, text: str) -> None:
        if self.hint == text:
            self.hint = ""
            self.prompt.app.invalidate()

    def start_task(self, work: Awaitable[object]) -> None:
        """Run work in a task, apart from the prompt; an error in it ends the screen."""
        task: asyncio.Future[object] = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._on_task_done)

    def _on_task_done(self, task: "asyncio.Future[object]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.leave(error)

    # -- painting --------------------------------------------------------------------------

    def _paint_text(self, text: str, style: str) -> None:
        if "\n" in text:
            self.painter.add_gap()
        self.painter.paint_note(text, style)
        self.prompt.app.invalidate()

    def _set_busy(self, label: str) -> None:
        if self.busy_with != label:
            self.busy_with, self.since = label, time.monotonic()

    def mark_ready(self) -> None:
        """Note that the agent is ready for words."""
        self.busy_with = ""
        self.prompt.app.invalidate()

    async def _tick(self) -> None:
        """Turn the spinner while there is something to wait for."""
        while True:
            await asyncio.sleep(TICK_SECONDS)
            if self.busy_with:
                self.prompt.app.invalidate()

    def _build_prompt(self) -> StyleAndTextTuples:
        parts: StyleAndTextTuples = []
        for style, line in self._build_live_lines():
            parts += [(style, line), ("", "\n")]
        return [*parts, ("class:prompt", "> ")]

    def _build_live_lines(self) -> list[tuple[str, str]]:
        lines: list[tuple[str, str]] = []
        if unfinished := self.painter.live:
            pieces = Text(unfinished).wrap(self.scroll.console, self._get_width())
            lines += [("class:live", piece.plain) for piece in pieces[-LIVE_LINES:]]
        lines += [
            ("class:dim", f"○ {format_tool_title(tool)}"[: self._get_width()])
            for tool in list(self.painter.tools.values())[-3:]
        ]
        lines += self._build_plan_lines()
        lines += [
            ("class:dim", shorten_to_line(f"waiting: {text}", self._get_width()))
            for text in self.waiting
        ]
        lines += self._build_question_lines()
        if self.busy_with and self.choice is None:
            seconds_passed = time.monotonic() - self.since
            sign = SPINNER[int(seconds_passed / TICK_SECONDS) % len(SPINNER)]
            seconds = f" {seconds_passed:.0f} s" if seconds_passed >= 1 else ""
            cancel_hint = " · Escape cancels" if self.conversation.is_ready else ""
            lines.append(("class:busy", f"{sign} {self.busy_with}{seconds}{cancel_hint}"))
        return lines if self.painter.is_blank or not lines else [("", ""), *lines]

    def _build_plan_lines(self) -> list[tuple[str, str]]:
        todos = self.painter.todos
        if all(t.status == "completed" for t in todos):
            return []
        styles = {"in_progress": "class:live bold", "completed": "class:dim", "pending": ""}
        width = self._get_width()
        return [
            (styles[t.status], shorten_to_line(f"{TODO_MARKS[t.status]} {t.text}", width))
            for t in todos[:8]
        ]

    def _build_question_lines(self) -> list[tuple[str, str]]:
        choice = self.choice
        if choice is None:
            return []
        lines = [("class:question", shorten_to_line(choice.question, self._get_width()))]
        lines += [("class:dim", f"  {line}"[: self._get_width()]) for line in choice.lines]
        for index, option in enumerate(choice.options):
            is_careful = index == choice.default
            enter_hint = "  (Enter)" if is_careful else ""
            lines.append(
                ("class:careful" if is_careful else "", f"  {index + 1} {option}{enter_hint}")
            )
        return [*lines, ("class:dim", "  Press a number. Escape: no answer")]

    def _build_hint(self) -> StyleAndTextTuples:
        """Build the hint after a command, which is no part of the input."""
        return [("class:hint", find_hint(self.typed_text, self.conversation.commands))]

    def _get_width(self) -> int:
        return max(self.scroll.console.width - 1, 20)


def build_bindings(screen: TerminalScreen) -> KeyBindings:
    """Build the key bindings of a screen."""
    keys = KeyBindings()
    typing = has_focus(DEFAULT_BUFFER)
    is_asked = Condition(lambda: screen.choice is not None and not screen.typed_text) & typing
    interrupted_at = -TWICE_SECONDS

    @keys.add("enter", filter=typing)
    def _(event: KeyPressEvent) -> None:
        screen.accept()

    @keys.add("escape", "enter", filter=typing)
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    @keys.add("escape", filter=typing)
    def _(event: KeyPressEvent) -> None:
        screen.cancel()

    @keys.add("c-c")
    def _(event: KeyPressEvent) -> None:
        nonlocal interrupted_at
        now, before = time.monotonic(), interrupted_at
        interrupted_at = now
        if now - before < TWICE_SECONDS:
            screen.leave()
        elif event.current_buffer.text:
            event.current_buffer.reset()
            interrupted_at = -TWICE_SECONDS
        else:
            screen.cancel()
            screen.show_remark(LEAVE_HINT, TWICE_SECONDS)

    @keys.add("c-d", filter=typing & Condition(lambda: not screen.typed_text))
    def _(event: KeyPressEvent) -> None:
        screen.leave()

    def answer_choice(index: int, event: KeyPressEvent) -> None:
        if screen.choice is not None and index < len(screen.choice.options):
            screen.decide(index)

    for number in range(9):
        keys.add(str(number + 1), filter=is_asked)(partial(answer_choice, number))
    return keys


def _create_output() -> Vt100_Output:
    """Create the output to the terminal, without asking it for the cursor's position.

    The bottom line stays at the prompt then, and a terminal that does not answer costs nothing.
    """
    output = Vt100_Output.from_pty(sys.stdout, term=os.environ.get("TERM"))
    output.enable_cpr = False
    return output
