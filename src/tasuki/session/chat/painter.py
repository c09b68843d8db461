"""Paints events and past messages as lines: finished ones are printed, an unfinished one is live.

Markdown is painted line by line, as it streams in: readable, and still fit to be copied. A tool
call is its title, a few lines of its output, a short difference. After a handoff, and when a
session is resumed, the session is shown again from its messages.
"""

import difflib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct
from rich.text import Text

from tasuki.patterns import compile_pattern
from tasuki.session.agent_session.backend import (
    AgentPlan,
    AgentTodo,
    BackendEvent,
    FileDiff,
    SessionEvent,
    TextPiece,
    ThoughtPiece,
    ToolProgress,
    TurnEnded,
    TurnStarted,
)
from tasuki.session.pi_store.messages import Json, extract_text
from tasuki.text_safety import clean_for_display, shorten_to_line
from tasuki.typed_prompts import HANDOFF_CLOSING

_FENCE = compile_pattern(r"\s*(```+|~~~+)\s*(\S*)")
_HEADING = compile_pattern(r"(#{1,6})\s+(.*)")
_ITEM = compile_pattern(r"(\s*)([-*+]|\d{1,3}[.)])\s+(.*)")
_RULE = compile_pattern(r"\s*(?:[-*_]\s*){3,}")
_INLINE = compile_pattern(
    r"(`+)(?P<code>.+?)\1"
    r"|\*\*(?P<bold>\S(?:.*?\S)?)\*\*"
    r"|(?<![\w*])\*(?P<italic>[^\s*](?:[^*]*[^\s*])?)\*(?![\w*])"
    r"|\[(?P<words>[^\]\n]+)\]\((?P<address>[^()\s]+)\)"
)
CODE_STYLE = "cyan"
_BOXES = {"[ ] ": "☐ ", "[x] ": "☑ ", "[X] ": "☑ "}


class PaintedLine(Struct):
    """A line to print; where it is wrapped, the rest is indented by `indent` columns."""

    text: Text
    indent: int = 0
    wrapped: bool = True
    """False for code, which is not wrapped at blanks."""


class MarkdownPainter:
    """Paints one line after the other; it knows whether it is inside a block of code."""

    def __init__(self) -> None:
        self._fence = ""

    def paint_line(self, line: str) -> PaintedLine | None:
        """Paint a line; None for a mark that is not shown."""
        if (match := _FENCE.fullmatch(line)) and match[1].startswith(self._fence):
            self._fence = "" if self._fence else match[1]
            return None
        if self._fence:
            return PaintedLine(Text(f"  {line}", CODE_STYLE), 4, wrapped=False)
        if match := _HEADING.fullmatch(line):
            return PaintedLine(
                _style_inline(match[2], "bold" if len(match[1]) < 3 else "bold italic")
            )
        if _RULE.fullmatch(line):
            return PaintedLine(Text("─" * 20, "dim"))
        if match := _ITEM.fullmatch(line):
            return _build_item(match[1], match[2], match[3])
        if line.startswith(">"):
            return PaintedLine(
                Text("│ ", "dim").append(_style_inline(line.lstrip("> "), "italic")), 2
            )
        return PaintedLine(_style_inline(line))


def _build_item(blanks: str, mark: str, words: str) -> PaintedLine:
    mark = mark if mark[0].isdigit() else "•"
    for box, shown in _BOXES.items():
        if words.startswith(box):
            mark, words = shown.strip(), words[len(box) :]
    head = f"{blanks}{mark} "
    return PaintedLine(Text(head).append(_style_inline(words)), len(head))


def _style_inline(line: str, style: str = "") -> Text:
    """Style the code, emphasis and links of a line."""
    text = Text(style=style)
    position = 0
    for match in _INLINE.finditer(line):
        text.append(line[position : match.start()])
        position = match.end()
        if match["code"]:
            text.append(match["code"].strip(), CODE_STYLE)
        elif match["words"]:
            text.append(match["words"], "underline").append(f" ({match['address']})", "dim")
        else:
            text.append(match["bold"] or match["italic"], "bold" if match["bold"] else "italic")
    return text.append(line[position:])


OUTPUT_LINES = 6
DIFF_LINES = 16
TITLE_COLUMNS = 200
_READING = ("read", "search", "fetch", "think")
"""Kinds whose output is not shown where all went well."""


def format_tool_title(tool: ToolProgress) -> str:
    """Format one line that says what a tool does."""
    return shorten_to_line(tool.title or tool.kind, TITLE_COLUMNS)


def build_tool_lines(tool: ToolProgress) -> Iterator[PaintedLine]:
    """Build the lines of a tool that ended."""
    is_failed = tool.status == "failed"
    mark = Text("✗ ", "bold red") if is_failed else Text("✓ ", "green")
    yield PaintedLine(mark.append(format_tool_title(tool), "bold"), 2)
    for diff in tool.diffs:
        yield from build_diff_lines(
            diff, with_name=len(tool.diffs) > 1 or Path(diff.path).name not in tool.title
        )
    if tool.output and not tool.diffs and (is_failed or tool.kind not in _READING):
        yield from _build_output_lines(tool.output)


def build_diff_lines(diff: FileDiff, with_name: bool = True) -> Iterator[PaintedLine]:
    """Build a few lines of what changed in a file."""
    if with_name:
        yield PaintedLine(Text(f"  {shorten_to_line(diff.path, TITLE_COLUMNS)}", "dim"), 2)
    changed = list(_list_changes(diff))
    yield from changed[:DIFF_LINES]
    yield from _count_hidden(len(changed) - DIFF_LINES, "lines changed")


def _list_changes(diff: FileDiff) -> Iterator[PaintedLine]:
    old, new = ((text or "").splitlines() for text in (diff.old, diff.new))
    for line in list(difflib.unified_diff(old, new, n=1, lineterm=""))[2:]:
        style = {"+": "green", "-": "red", "@": "dim"}.get(line[:1], "dim")
        if not line.startswith("@"):
            text = clean_for_display(line[1:]).replace("\n", " ")[:TITLE_COLUMNS]
            yield PaintedLine(Text(f"  {line[:1]} {text}", style), 4, wrapped=False)


def _build_output_lines(output: str) -> Iterator[PaintedLine]:
    """Build lines of the end of an output, where its result is."""
    lines = [line for line in clean_for_display(output).strip("\n").split("\n") if line.strip()]
    hidden = len(lines) - OUTPUT_LINES
    yield from _count_hidden(hidden, "lines above")
    for line in lines[max(hidden, 0) :]:
        yield PaintedLine(Text(f"  {line[:TITLE_COLUMNS]}", "dim"), 2, wrapped=False)


def _count_hidden(count: int, noun: str) -> Iterator[PaintedLine]:
    if count > 0:
        yield PaintedLine(Text(f"  … {count} more {noun}", "dim italic"), 2)


TODO_MARKS = {"completed": "☑", "in_progress": "◐", "pending": "☐"}
DOCUMENT_REQUESTED = "The session is writing its handoff document."


class EventPainter:
    """Turns events into lines, which it passes to `write`, without terminal control codes.

    With `raw`, Markdown is left as the agent wrote it.
    """

    def __init__(self, write: Callable[[PaintedLine], None], raw: bool = False) -> None:
        self.write = write
        self.raw = raw
        self.todos: tuple[AgentTodo, ...] = ()
        self.tools: dict[str, ToolProgress] = {}
        """The tools that are running."""
        self._markdown = MarkdownPainter()
        self._kind: type[BackendEvent] | None = None
        self._message = ""
        self._rest = ""
        """A line that is not finished."""
        self.is_blank = True
        """Whether the last line that was written was blank."""

    @property
    def live(self) -> str:
        """The words that are not a whole line yet."""
        return clean_for_display(self._rest).replace("\n", " ")

    def take(self, event: SessionEvent) -> None:
        """Paint an event."""
        if isinstance(event, TextPiece):
            self._stream(event, event.text, event.message)
        elif isinstance(event, ThoughtPiece):
            self._stream(event, event.text, "")
        elif isinstance(event, ToolProgress) and event.status in ("pending", "in_progress"):
            self.tools[event.id] = event
        elif isinstance(event, ToolProgress):
            self.tools.pop(event.id, None)
            self._paint_lines(build_tool_lines(event))
        elif isinstance(event, AgentPlan) and event.todos != self.todos:
            self.todos = event.todos
            if self.raw:
                self._paint_lines(build_todo_lines(event.todos))
        elif isinstance(event, TurnStarted) and event.internal:
            self.add_gap()
            self.paint_note(DOCUMENT_REQUESTED, "dim")
        elif isinstance(event, TurnStarted):
            self.paint_user(event.text)
        elif isinstance(event, TurnEnded):
            self._paint_end()

    def paint_user(self, text: str) -> None:
        """Paint words of the user."""
        self.add_gap()
        for number, line in enumerate(clean_for_display(text).split("\n")):
            self._put(
                PaintedLine(Text("› " if not number else "  ", "bold cyan").append(line, "bold"), 2)
            )
        self.add_gap()

    def paint_answer(self, text: str) -> None:
        """Paint a whole text of the agent."""
        self._stream(TextPiece(""), text, "")
        self.finish()

    def paint_note(self, text: str, style: str = "") -> None:
        """Paint a sentence of tasuki."""
        self.finish()
        for line in clean_for_display(text).split("\n"):
            self._put(PaintedLine(Text(line, style)))

    def add_gap(self) -> None:
        """Add a blank line, unless there is one."""
        self.finish()
        if not self.is_blank:
            self._put(PaintedLine(Text("")))

    def finish(self) -> None:
        """End the current line."""
        if self._rest:
            self._flush(self._rest)
            self._rest = ""
        self._kind = None

    def _put(self, line: PaintedLine) -> None:
        self.is_blank = not line.text.plain.strip()
        self.write(line)

    def _stream(self, event: BackendEvent, text: str, message: str) -> None:
        """Paint text that comes in pieces: whole lines are written, the rest waits."""
        if type(event) is not self._kind or message != self._message:
            self.add_gap()
            self._kind, self._message = type(event), message
            self._markdown = MarkdownPainter()
        *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            self._flush(line)

    def _flush(self, line: str) -> None:
        line = clean_for_display(line.rstrip("\r")).replace("\n", " ")
        if self._kind is ThoughtPiece:
            self._put(PaintedLine(Text(line, "dim italic")))
        elif self.raw:
            self._put(PaintedLine(Text(line)))
        elif (painted := self._markdown.paint_line(line)) is not None and not (
            self.is_blank and not painted.text.plain
        ):
            self._put(painted)

    def _paint_lines(self, lines: Iterable[PaintedLine]) -> None:
        self.add_gap()
        for line in lines:
            self._put(line)

    def _paint_end(self) -> None:
        """Paint the tools that still run as unfinished: no more events of them will come."""
        for tool in self.tools.values():
            self.add_gap()
            self._put(PaintedLine(Text(f"○ {format_tool_title(tool)} (not finished)", "dim"), 2))
        self.tools.clear()
        self.add_gap()


def build_todo_lines(todos: Sequence[AgentTodo]) -> list[PaintedLine]:
    """Build the lines of the agent's plan."""
    styles = {"completed": "dim", "in_progress": "bold", "pending": ""}
    return [
        PaintedLine(
            Text(f"{TODO_MARKS[t.status]} {shorten_to_line(t.text, 200)}", styles[t.status]), 2
        )
        for t in todos
    ]


MOST_MESSAGES = 12
"""Most messages of a session that are shown."""
DOCUMENT_LINES = 24


def replay_messages(painter: EventPainter, messages: Sequence[Json]) -> None:
    """Show the newest messages of a context; before them the first lines of a handoff document."""
    visible = [m for m in messages if m.get("role") in ("user", "assistant", "custom")]
    painter.add_gap()
    painter.write(PaintedLine(Text("─" * 40, "dim")))
    leading = [m for m in visible[:1] if m.get("role") == "custom"]
    rest = visible[len(leading) :]
    for message in leading:
        _paint_document(painter, extract_text(message))
    if len(rest) > MOST_MESSAGES:
        painter.paint_note(f"… {len(rest) - MOST_MESSAGES} earlier messages", "dim italic")
    for message in rest[-MOST_MESSAGES:]:
        _paint_message(painter, message)


def _paint_message(painter: EventPainter, message: Json) -> None:
    text = extract_text(message).strip()
    if message["role"] == "user":
        painter.paint_user(text)
    elif message["role"] == "custom":
        painter.paint_note(shorten_to_line(text, 200), "dim")
    elif text:
        painter.paint_answer(text)
    for block in message.get("content") or ():
        if isinstance(block, dict) and block.get("type") == "toolCall":
            arguments = block.get("arguments")
            values = arguments if isinstance(arguments, dict) else {}
            names = ("command", "path", "pattern", "title")
            subject = next((str(values[n]) for n in names if values.get(n)), "")
            painter.paint_note(f"✓ {block.get('name')} {shorten_to_line(subject, 100)}", "dim")


def _paint_document(painter: EventPainter, text: str) -> None:
    text = text.removesuffix(HANDOFF_CLOSING).strip()
    text = text.removeprefix("<handoff-context>").removesuffix("</handoff-context>").strip()
    lines = text.split("\n")
    painter.paint_answer("\n".join(lines[:DOCUMENT_LINES]))
    if len(lines) > DOCUMENT_LINES:
        painter.paint_note(f"… {len(lines) - DOCUMENT_LINES} more lines", "dim italic")
    painter.add_gap()
