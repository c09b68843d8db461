"""From what a session tells to lines: what is finished is printed, what is not yet is live."""

from collections.abc import Callable, Iterable, Sequence

from rich.text import Text as Styled

from tasuki.plain import one_line, shown
from tasuki.session.backend import BackendEvent, Plan, Text, Thought, Todo, Tool
from tasuki.session.chat.markdown import Line, Markdown
from tasuki.session.chat.tool_lines import tool_lines, tool_title
from tasuki.session.events import SessionEvent, TurnEnded, TurnStarted

MARKS = {"completed": "☑", "in_progress": "◐", "pending": "☐"}
ASKED = "The session is asked for a handoff document."


class Painter:
    """Turns events into lines, which it gives to `write`. Nothing that a terminal obeys goes on.

    With `raw`, Markdown is left as the agent wrote it.
    """

    def __init__(self, write: Callable[[Line], None], raw: bool = False) -> None:
        self.write = write
        self.raw = raw
        self.todos: tuple[Todo, ...] = ()
        self.tools: dict[str, Tool] = {}
        """Those that run."""
        self._markdown = Markdown()
        self._kind: type[BackendEvent] | None = None
        self._message = ""
        self._rest = ""
        """A line that is not finished."""
        self.blank = True
        """Whether the last line that was written was blank."""

    @property
    def live(self) -> str:
        """The words that are not a whole line yet."""
        return shown(self._rest).replace("\n", " ")

    def take(self, event: SessionEvent) -> None:
        """Paint what an event says."""
        if isinstance(event, Text):
            self._stream(event, event.text, event.message)
        elif isinstance(event, Thought):
            self._stream(event, event.text, "")
        elif isinstance(event, Tool):
            self._tool(event)
        elif isinstance(event, Plan):
            self._plan(event)
        elif isinstance(event, TurnStarted):
            self._started(event)
        elif isinstance(event, TurnEnded):
            self._ended()

    def said(self, text: str) -> None:
        """Words of the user."""
        self.gap()
        for number, line in enumerate(shown(text).split("\n")):
            self._put(
                Line(Styled("› " if not number else "  ", "bold cyan").append(line, "bold"), 2)
            )
        self.gap()

    def answer(self, text: str) -> None:
        """A whole text of the agent."""
        self._stream(Text(""), text, "")
        self.finish()

    def plain(self, text: str, style: str = "") -> None:
        """A sentence of ours."""
        self.finish()
        for line in shown(text).split("\n"):
            self._put(Line(Styled(line, style)))

    def gap(self) -> None:
        """A blank line, unless there is one."""
        self.finish()
        if not self.blank:
            self._put(Line(Styled("")))

    def finish(self) -> None:
        """End the line under way."""
        if self._rest:
            self._flush(self._rest)
            self._rest = ""
        self._kind = None

    def _put(self, line: Line) -> None:
        self.blank = not line.text.plain.strip()
        self.write(line)

    def _stream(self, event: BackendEvent, text: str, message: str) -> None:
        """Text that comes in pieces: whole lines are written, the rest waits."""
        if type(event) is not self._kind or message != self._message:
            self.gap()
            self._kind, self._message = type(event), message
            self._markdown = Markdown()
        *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            self._flush(line)

    def _flush(self, line: str) -> None:
        line = shown(line.rstrip("\r")).replace("\n", " ")
        if self._kind is Thought:
            self._put(Line(Styled(line, "dim italic")))
        elif self.raw:
            self._put(Line(Styled(line)))
        elif (painted := self._markdown.line(line)) is not None and not (
            self.blank and not painted.text.plain
        ):
            self._put(painted)

    def _tool(self, tool: Tool) -> None:
        if tool.status in ("pending", "in_progress"):
            self.tools[tool.id] = tool
            return
        self.tools.pop(tool.id, None)
        self._lines(tool_lines(tool))

    def _lines(self, lines: Iterable[Line]) -> None:
        self.gap()
        for line in lines:
            self._put(line)

    def _plan(self, plan: Plan) -> None:
        if plan.todos != self.todos:
            self.todos = plan.todos
            if self.raw:
                self._lines(todo_lines(plan.todos))

    def _started(self, event: TurnStarted) -> None:
        if event.internal:
            self.gap()
            self.plain(ASKED, "dim")
        else:
            self.said(event.text)

    def _ended(self) -> None:
        """What still runs will not be told of again."""
        for tool in self.tools.values():
            self.gap()
            self._put(Line(Styled(f"○ {tool_title(tool)} (not finished)", "dim"), 2))
        self.tools.clear()
        self.gap()


def todo_lines(todos: Sequence[Todo]) -> list[Line]:
    """The agent's plan."""
    styles = {"completed": "dim", "in_progress": "bold", "pending": ""}
    return [
        Line(Styled(f"{MARKS[t.status]} {one_line(t.text, 200)}", styles[t.status]), 2)
        for t in todos
    ]
