"""A conversation in a terminal: what was said scrolls, what is under way stands above the prompt."""

import asyncio
import errno
import os
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.layout import FormattedTextControl, HSplit, Layout, Window
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.styles import Style
from rich.text import Text

from tasuki.plain import one_line
from tasuki.session.backend import Permission, Todo
from tasuki.session.chat import keys
from tasuki.session.chat.conversation import Conversation
from tasuki.session.chat.painter import MARKS, Painter
from tasuki.session.chat.replay import replay
from tasuki.session.chat.scroll import Scroll
from tasuki.session.chat.status import status_line
from tasuki.session.chat.tool_lines import tool_title
from tasuki.session.chat.typing_aids import CommandCompleter, history, inline_hint
from tasuki.session.chat.view import Choice
from tasuki.session.events import (
    HandoffPhase,
    QueueChanged,
    SessionEvent,
    SessionSwitched,
    TurnEnded,
    TurnStarted,
)
from tasuki.session.messages import Json

SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
TICK = 0.1
LIVE_LINES = 6
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


class Screen:
    """The terminal as a View. `run` shows the prompt until the user leaves."""

    def __init__(self, conversation: Conversation, past: Path) -> None:
        self.conversation = conversation
        self.scroll = Scroll()
        self.painter = Painter(self.scroll.write)
        self.submit: Callable[[str], Awaitable[None]]
        self.busy_with = f"Starting {conversation.title}"
        self.since = time.monotonic()
        self.waiting: tuple[str, ...] = ()
        self.choice: Choice | None = None
        self.answer: asyncio.Future[int | None] | None = None
        self.hint = ""
        """A sentence in the place of the bottom line."""
        self._tasks: set[asyncio.Future[object]] = set()
        commands = lambda: self.conversation.commands  # noqa: E731
        self._completer = CommandCompleter(commands)
        self.prompt: PromptSession[None] = PromptSession(
            output=_output(),
            message=self._above,
            multiline=True,
            prompt_continuation="  ",
            key_bindings=keys.bindings(self),
            completer=self._completer,
            complete_while_typing=Condition(self._completes),
            history=history(past),
            input_processors=[inline_hint(lambda: self.typed, commands)],
            style=STYLE,
            reserve_space_for_menu=6,
            erase_when_done=True,
        )
        below = Window(FormattedTextControl(self._below), height=1, style="class:below")
        whole = Layout(HSplit([self.prompt.layout.container, below]), self.prompt.default_buffer)
        self.prompt.layout = self.prompt.app.layout = whole
        self.prompt.app.ttimeoutlen = self.prompt.app.timeoutlen = 0.05

    async def run(self) -> None:
        """Show the prompt until the user leaves."""
        ticking = asyncio.get_running_loop().create_task(self._tick())
        try:
            self.scroll.now()
            await self.prompt.prompt_async()
        except EOFError:  # the terminal was closed
            pass
        except OSError as error:
            if error.errno != errno.EIO:  # the same, noticed while something was written
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
            self._busy("Writing handoff document" if event.internal else "Working")
        elif isinstance(event, HandoffPhase):
            self._busy(event.label.rstrip(". "))
        elif isinstance(event, TurnEnded):
            self._idle()
        elif isinstance(event, QueueChanged):
            self.waiting = event.waiting
        elif isinstance(event, SessionSwitched):
            self._idle()
        if not isinstance(event, Permission):
            self.painter.take(event)
        self.prompt.app.invalidate()

    def note(self, text: str) -> None:
        self._say(text, "cyan")

    def warn(self, text: str) -> None:
        self._say(text, "yellow")

    def error(self, text: str, code: int = 1) -> None:
        self._say(text, "red")

    def clear_input(self) -> None:
        """Enter did it; what was typed since then stays."""

    def fill_input(self, text: str) -> None:
        buffer = self.prompt.default_buffer
        buffer.text = f"{text}\n{buffer.text}" if buffer.text else text
        buffer.cursor_position = len(buffer.text)

    def rebuild(self, messages: Sequence[Json], todos: Sequence[Todo]) -> None:
        self._idle()
        self.painter.todos = tuple(todos)
        replay(self.painter, messages)
        self.prompt.app.invalidate()

    async def choose(self, choice: Choice) -> int | None:
        self.choice = choice
        self.answer = asyncio.get_running_loop().create_future()
        self.prompt.app.invalidate()
        try:
            chosen = await self.answer
        finally:
            self.choice = self.answer = None
        words = "no answer" if chosen is None else choice.options[chosen]
        self.painter.gap()
        self.painter.plain(f"{choice.question} → {words}", "dim")
        return chosen

    # -- what the keys do ------------------------------------------------------------------

    @property
    def typed(self) -> str:
        """What stands in the input line."""
        return self.prompt.default_buffer.text

    def accept(self) -> None:
        """Enter: answer the question, or submit what was typed."""
        buffer = self.prompt.default_buffer
        text = buffer.text
        if self.choice is not None and not text.strip():
            self.decide(self.choice.default)
            return
        if text.strip():
            buffer.append_to_history()
            buffer.reset()
            self.start(self.submit(text))

    def decide(self, index: int | None) -> None:
        """Answer the question."""
        if self.answer is not None and not self.answer.done():
            self.answer.set_result(index)

    def interrupt(self) -> None:
        """Break off what is under way."""
        self.start(self.conversation.interrupt())

    def remark(self, text: str, seconds: float) -> None:
        """A sentence in the bottom line, for a while."""
        self.hint = text
        asyncio.get_running_loop().call_later(seconds, self._unremarked, text)
        self.prompt.app.invalidate()

    def _unremarked(self, text: str) -> None:
        if self.hint == text:
            self.hint = ""
            self.prompt.app.invalidate()

    def start(self, work: Awaitable[object]) -> None:
        """Do something beside the prompt; what it fails with ends the screen."""
        task: asyncio.Future[object] = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: "asyncio.Future[object]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.leave(error)

    # -- what is shown ---------------------------------------------------------------------

    def _say(self, text: str, style: str) -> None:
        if "\n" in text:
            self.painter.gap()
        self.painter.plain(text, style)
        self.prompt.app.invalidate()

    def _busy(self, label: str) -> None:
        if self.busy_with != label:
            self.busy_with, self.since = label, time.monotonic()

    def _idle(self) -> None:
        self.busy_with = ""

    def ready(self) -> None:
        """The agent can be talked to."""
        self._idle()
        self.prompt.app.invalidate()

    async def _tick(self) -> None:
        """Turn the spinner while there is something to wait for."""
        while True:
            await asyncio.sleep(TICK)
            if self.busy_with:
                self.prompt.app.invalidate()

    def _above(self) -> StyleAndTextTuples:
        """What is under way, and the prompt."""
        parts: StyleAndTextTuples = []
        for style, line in self._live():
            parts += [(style, line), ("", "\n")]
        return [*parts, ("class:prompt", "> ")]

    def _live(self) -> list[tuple[str, str]]:
        lines: list[tuple[str, str]] = []
        if unfinished := self.painter.live:
            pieces = Text(unfinished).wrap(self.scroll.console, self._width())
            lines += [("class:live", piece.plain) for piece in pieces[-LIVE_LINES:]]
        lines += [("class:dim", f"○ {tool_title(tool)}"[: self._width()])
                  for tool in list(self.painter.tools.values())[-3:]]  # fmt: skip
        lines += self._plan()
        lines += [
            ("class:dim", one_line(f"waiting: {text}", self._width())) for text in self.waiting
        ]
        lines += self._question()
        if self.busy_with and self.choice is None:
            passed = time.monotonic() - self.since
            sign = SPINNER[int(passed / TICK) % len(SPINNER)]
            seconds = f" {passed:.0f} s" if passed >= 1 else ""
            cancels = " · Escape cancels" if self.conversation.ready else ""
            lines.append(("class:busy", f"{sign} {self.busy_with}{seconds}{cancels}"))
        return lines if self.painter.blank or not lines else [("", ""), *lines]

    def _plan(self) -> list[tuple[str, str]]:
        todos = self.painter.todos
        if all(t.status == "completed" for t in todos):
            return []
        styles = {"in_progress": "class:live bold", "completed": "class:dim", "pending": ""}
        return [(styles[t.status], one_line(f"{MARKS[t.status]} {t.text}", self._width()))
                for t in todos[:8]]  # fmt: skip

    def _question(self) -> list[tuple[str, str]]:
        choice = self.choice
        if choice is None:
            return []
        lines = [("class:question", one_line(choice.question, self._width()))]
        lines += [("class:dim", f"  {line}"[: self._width()]) for line in choice.lines]
        for index, option in enumerate(choice.options):
            careful = index == choice.default
            enter = "  (Enter)" if careful else ""
            lines.append(("class:careful" if careful else "", f"  {index + 1} {option}{enter}"))
        return [*lines, ("class:dim", "  Press a number. Escape: no answer")]

    def _below(self) -> StyleAndTextTuples:
        return [("", self.hint or status_line(self.conversation, self._width()))]

    def _completes(self) -> bool:
        """Whether what was typed is the beginning of a command."""
        return bool(self._completer.known(self.typed))

    def _width(self) -> int:
        return max(self.scroll.console.width - 1, 20)


def _output() -> Vt100_Output:
    """The terminal. It is not asked where the cursor is: the bottom line stays at the prompt then,
    and a terminal that does not answer costs nothing."""
    output = Vt100_Output.from_pty(sys.stdout, term=os.environ.get("TERM"))
    output.enable_cpr = False
    return output
