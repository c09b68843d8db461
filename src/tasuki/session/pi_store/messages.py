"""Messages of a session in pi's form: how they are built, and how the model sees them.

Source: pi 1.5, `docs/message-types.md` and `docs/session-format.md` of its package.
"""

import time
from collections.abc import Iterable
from datetime import datetime
from typing import Any

Json = dict[str, Any]
"""A record of a session file, a message or a block of one, with the field names of pi."""

COMPACTION_TEMPLATE = (
    "The conversation history before this point was compacted into the following summary:\n\n"
    "<summary>\n{}\n</summary>"
)
BRANCH_TEMPLATE = (
    "The following is a summary of a branch that this conversation came back from:\n\n"
    "<summary>\n{}</summary>"
)
_NO_USAGE = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 0}
_NO_COST = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0}


def convert_time(timestamp: str = "") -> int:
    """Convert an entry's time, or now, to milliseconds since 1970; 0 if it is unreadable."""
    if not timestamp:
        return time.time_ns() // 1_000_000
    try:
        return round(datetime.fromisoformat(timestamp).timestamp() * 1000)
    except ValueError:
        return 0


def build_text_block(text: str) -> Json:
    """Build a block of text."""
    return {"type": "text", "text": text}


def extract_text(message: Json) -> str:
    """Extract the text blocks of a message, joined by newlines."""
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return "\n".join(b.get("text", "") for b in content if b.get("type") == "text")


def build_tool_call(id: str, name: str, arguments: Json) -> Json:
    """Build a block of an assistant message that calls a tool."""
    return {"type": "toolCall", "id": id, "name": name, "arguments": arguments}


def build_user_message(text: str) -> Json:
    """Build a message of the user."""
    return {"role": "user", "content": [build_text_block(text)], "timestamp": convert_time()}


def build_assistant_message(
    content: list[Json],
    *,
    provider: str = "",
    model: str = "",
    stop: str = "stop",
    usage: Json | None = None,
    error: str = "",
) -> Json:
    """Build a message of the agent.

    `stop` is pi's reason: stop, length, toolUse, error or aborted.
    """
    message: Json = {
        "role": "assistant",
        "content": content,
        "api": "acp",
        "provider": provider,
        "model": model,
        "usage": {**_NO_USAGE, "cost": _NO_COST, **(usage or {})},
        "stopReason": stop,
        "timestamp": convert_time(),
    }
    if error:
        message["errorMessage"] = error
    return message


def build_tool_result(call_id: str, name: str, text: str, error: bool = False) -> Json:
    """Build the result of a tool."""
    return {
        "role": "toolResult",
        "toolCallId": call_id,
        "toolName": name,
        "content": [build_text_block(text)],
        "isError": error,
        "timestamp": convert_time(),
    }


def build_model_messages(messages: Iterable[Json]) -> list[Json]:
    """Build the messages of a context as the model gets them.

    Messages of pi's own roles become user messages, except those of the conversation itself; a
    command that should stay hidden is left out.
    """
    return [
        converted for message in messages if (converted := _convert_for_model(message)) is not None
    ]


def _convert_for_model(message: Json) -> Json | None:
    role = message.get("role")
    if role in ("system", "user", "assistant", "toolResult"):
        return message
    content = _convert_to_user(str(role), message)
    if content is None:
        return None
    return {"role": "user", "content": content, "timestamp": message.get("timestamp", 0)}


def _convert_to_user(role: str, message: Json) -> list[Json] | None:
    if role == "custom":
        content = message.get("content") or []
        return [build_text_block(content)] if isinstance(content, str) else content
    if role == "compactionSummary":
        return [build_text_block(COMPACTION_TEMPLATE.format(message["summary"]))]
    if role == "branchSummary":
        return [build_text_block(BRANCH_TEMPLATE.format(message["summary"]))]
    if role == "bashExecution" and not message.get("excludeFromContext"):
        return [build_text_block(_format_command(message))]
    return None


def _format_command(message: Json) -> str:
    """Format a command that the user ran, with its output."""
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
