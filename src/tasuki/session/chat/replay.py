"""A session shown anew, from its messages: after a handoff, and when it is resumed."""

from collections.abc import Sequence

from rich.text import Text

from tasuki.harness.jsonl import HANDOFF_CLOSING
from tasuki.plain import one_line
from tasuki.session.chat.markdown import Line
from tasuki.session.chat.painter import Painter
from tasuki.session.messages import Json, text_of

NEWEST = 12
"""Messages that are shown of a session."""
DOCUMENT_LINES = 24


def replay(painter: Painter, messages: Sequence[Json]) -> None:
    """Show the newest messages of a context; a handoff document in front of them, its first lines."""
    shown = [m for m in messages if m.get("role") in ("user", "assistant", "custom")]
    painter.gap()
    painter.write(Line(Text("─" * 40, "dim")))
    ahead = [m for m in shown[:1] if m.get("role") == "custom"]
    rest = shown[len(ahead) :]
    for message in ahead:
        _document(painter, text_of(message))
    if len(rest) > NEWEST:
        painter.plain(f"… {len(rest) - NEWEST} earlier messages", "dim italic")
    for message in rest[-NEWEST:]:
        _message(painter, message)


def _message(painter: Painter, message: Json) -> None:
    text = text_of(message).strip()
    if message["role"] == "user":
        painter.said(text)
    elif message["role"] == "custom":
        painter.plain(one_line(text, 200), "dim")
    elif text:
        painter.answer(text)
    for block in message.get("content") or ():
        if isinstance(block, dict) and block.get("type") == "toolCall":
            painter.plain(f"✓ {block.get('name')} {_what(block.get('arguments'))}", "dim")


def _what(arguments: object) -> str:
    known = arguments if isinstance(arguments, dict) else {}
    names = ("command", "path", "pattern", "title")
    return one_line(next((str(known[n]) for n in names if known.get(n)), ""), 100)


def _document(painter: Painter, text: str) -> None:
    text = text.removesuffix(HANDOFF_CLOSING).strip()
    text = text.removeprefix("<handoff-context>").removesuffix("</handoff-context>").strip()
    lines = text.split("\n")
    painter.answer("\n".join(lines[:DOCUMENT_LINES]))
    if len(lines) > DOCUMENT_LINES:
        painter.plain(f"… {len(lines) - DOCUMENT_LINES} more lines", "dim italic")
    painter.gap()
