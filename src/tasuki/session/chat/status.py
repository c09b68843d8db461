"""The bottom line: the agent, the folder, how full its context is."""

from pathlib import Path

from tasuki.config import tilde
from tasuki.plain import one_line
from tasuki.session.backend import Usage
from tasuki.session.chat.conversation import Conversation

FOLDER = 32
"""Columns of a folder's name."""


def status_line(conversation: Conversation, width: int) -> str:
    """What fits of it in `width` columns."""
    parts = [conversation.title, _folder(conversation.cwd), context_use(conversation.usage)]
    if is_full(conversation):
        parts.append("/handoff")
    parts.append("/help")
    return one_line(" · ".join(part for part in parts if part), width)


def context_use(usage: Usage) -> str:
    """`context 12.5k of 128k (10 %)`; empty where nothing is known."""
    if not usage.used:
        return ""
    if not usage.size:
        return f"context {_short(usage.used)}"
    percent = round(100 * usage.used / usage.size)
    return f"context {_short(usage.used)} of {_short(usage.size)} ({percent} %)"


def is_full(conversation: Conversation) -> bool:
    """Whether a handoff is to be suggested."""
    usage, percent = conversation.usage, conversation.loaded.settings.suggest_at
    return bool(percent and usage.size) and 100 * usage.used >= percent * usage.size


def _short(tokens: int) -> str:
    for size, unit in ((1_000_000, "M"), (1000, "k")):
        if tokens >= size:
            return f"{tokens / size:.1f}".removesuffix(".0") + unit
    return str(tokens)


def _folder(path: Path) -> str:
    """A folder, by its last part where the whole would take too much room."""
    whole = tilde(path).removesuffix("/.")
    return whole if len(whole) <= FOLDER else f"…/{path.name}"
