"""Messages of a session in pi's form: how they are made, and how the model is shown them.

Source: pi 1.5, `docs/message-types.md` and `docs/session-format.md` of its package.
"""

import time
from collections.abc import Iterable
from datetime import datetime
from typing import Any

Json = dict[str, Any]
"""A record of a session file, a message or a block of one, with the field names of pi."""

COMPACTED = (
    "The conversation history before this point was compacted into the following summary:\n\n"
    "<summary>\n{}\n</summary>"
)
BRANCHED = (
    "The following is a summary of a branch that this conversation came back from:\n\n"
    "<summary>\n{}</summary>"
)
_NO_USAGE = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 0}
_NO_COST = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0}


def milliseconds(timestamp: str = "") -> int:
    """A time of an entry, or now, as messages have it: milliseconds since 1970; 0 if unreadable."""
    if not timestamp:
        return time.time_ns() // 1_000_000
    try:
        return round(datetime.fromisoformat(timestamp).timestamp() * 1000)
    except ValueError:
        return 0


def text_block(text: str) -> Json:
    """A block of text."""
    return {"type": "text", "text": text}


def text_of(message: Json) -> str:
    """The text blocks of a message, joined by newlines."""
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return "\n".join(b.get("text", "") for b in content if b.get("type") == "text")


def tool_call(id: str, name: str, arguments: Json) -> Json:
    """A block of an assistant message that calls a tool."""
    return {"type": "toolCall", "id": id, "name": name, "arguments": arguments}


def user_message(text: str) -> Json:
    """What the user said."""
    return {"role": "user", "content": [text_block(text)], "timestamp": milliseconds()}


def assistant_message(
    content: list[Json],
    *,
    provider: str = "",
    model: str = "",
    stop: str = "stop",
    usage: Json | None = None,
    error: str = "",
) -> Json:
    """What the agent said. `stop` is pi's reason: stop, length, toolUse, error or aborted."""
    message: Json = {
        "role": "assistant",
        "content": content,
        "api": "acp",
        "provider": provider,
        "model": model,
        "usage": {**_NO_USAGE, "cost": _NO_COST, **(usage or {})},
        "stopReason": stop,
        "timestamp": milliseconds(),
    }
    if error:
        message["errorMessage"] = error
    return message


def tool_result(call_id: str, name: str, text: str, error: bool = False) -> Json:
    """What a tool gave back."""
    return {
        "role": "toolResult",
        "toolCallId": call_id,
        "toolName": name,
        "content": [text_block(text)],
        "isError": error,
        "timestamp": milliseconds(),
    }


def model_messages(messages: Iterable[Json]) -> list[Json]:
    """The messages of a context as the model gets them: of pi's own roles, all but those of the
    conversation itself become user messages, and a command that was to stay hidden none."""
    return [shown for message in messages if (shown := _for_model(message)) is not None]


def _for_model(message: Json) -> Json | None:
    role = message.get("role")
    if role in ("system", "user", "assistant", "toolResult"):
        return message
    content = _as_user(str(role), message)
    if content is None:
        return None
    return {"role": "user", "content": content, "timestamp": message.get("timestamp", 0)}


def _as_user(role: str, message: Json) -> list[Json] | None:
    if role == "custom":
        content = message.get("content") or []
        return [text_block(content)] if isinstance(content, str) else content
    if role == "compactionSummary":
        return [text_block(COMPACTED.format(message["summary"]))]
    if role == "branchSummary":
        return [text_block(BRANCHED.format(message["summary"]))]
    if role == "bashExecution" and not message.get("excludeFromContext"):
        return [text_block(_command_text(message))]
    return None


def _command_text(message: Json) -> str:
    """A command that the user ran, with its output."""
    output = message.get("output")
    text = f"Ran `{message.get('command', '')}`\n"
    text += f"```\n{output}\n```" if output else "(no output)"
    if message.get("cancelled"):
        text += "\n\n(command cancelled)"
    elif code := message.get("exitCode"):
        text += f"\n\nCommand exited with code {code}"
    if message.get("truncated") and (full := message.get("fullOutputPath")):
        text += f"\n\n[Output truncated. Full output: {full}]"
    return text
