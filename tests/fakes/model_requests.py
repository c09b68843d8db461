"""Parse requests to a model: the messages as turns, and the last human text among them."""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, Literal

from msgspec import Struct

from fakes.model_answers import ModelApi

Role = Literal["system", "user", "assistant", "tool"]

_HARNESS_TAGS = re.compile(
    r"<(system-reminder|session_context|current_datetime|reminder)>.*?</\1>\s*", re.DOTALL
)
"""Tags that Claude Code, Gemini CLI and Copilot CLI add to user messages themselves."""


class ModelTurn(Struct, frozen=True):
    """One message of a request, its text alone."""

    role: Role
    text: str


def list_strings(value: object) -> Iterator[str]:
    """Yield every string of a JSON value except keys."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for part in value.values():
            yield from list_strings(part)
    elif isinstance(value, list):
        for part in value:
            yield from list_strings(part)


def list_turns(api: ModelApi, body: dict[str, Any]) -> Iterator[ModelTurn]:
    """Yield the messages of a request, in order; a separate system prompt comes first."""
    if api == "gemini":
        yield from _list_gemini_turns(body)
        return
    if system := body.get("system") or body.get("instructions"):
        yield ModelTurn("system", _get_text(system))
    messages = body.get("input" if api == "responses" else "messages") or []
    if isinstance(messages, str):
        messages = [{"role": "user", "content": messages}]
    for message in messages:
        if api == "responses" and message.get("type", "message") != "message":
            yield from _list_item_turns(message)
        else:
            yield from _list_message_turns(message)


def find_position(turns: Sequence[ModelTurn]) -> tuple[str, int]:
    """Return the last human text, and how many assistant messages came after it.

    Items that follow each other (a text, then its calls) are one message.
    """
    prompt, step, open_message = "", 0, False
    for turn in turns:
        if turn.role == "user" and (human := extract_human_text(turn.text)):
            prompt, step = human, 0
        step += turn.role == "assistant" and not open_message
        open_message = turn.role == "assistant"
    return prompt, step


def extract_human_text(text: str) -> str:
    """Return a user message without what its harness added.

    opencode 1.18 puts quotes around a prompt with blanks that came from the command line.
    """
    human = _HARNESS_TAGS.sub("", text).strip()
    if human.startswith('"') and human.endswith('"') and " " in human and '"' not in human[1:-1]:
        return human[1:-1]
    return human


def _get_text(content: object) -> str:
    """Return the text of a message's content: a string, or the text parts of a list."""
    if not isinstance(content, list):
        return content if isinstance(content, str) else ""
    parts = (part.get("text") for part in content if isinstance(part, dict))
    return "\n".join(part for part in parts if isinstance(part, str))


def _list_item_turns(item: dict[str, Any]) -> Iterator[ModelTurn]:
    """Yield what is between the messages of a Responses request: calls and their results."""
    kind = item.get("type", "")
    if kind.endswith("_output"):
        yield ModelTurn("tool", _get_text(item.get("output")) or str(item.get("output")))
    elif kind.endswith("_call"):
        yield ModelTurn("assistant", "")


def _list_message_turns(message: dict[str, Any]) -> Iterator[ModelTurn]:
    content, role = message.get("content"), message.get("role")
    parts = content if isinstance(content, list) else []
    results = [part for part in parts if part.get("type") == "tool_result"]
    if role in ("system", "developer"):
        yield ModelTurn("system", _get_text(content))
    elif role == "assistant":
        yield ModelTurn("assistant", _get_text(content))
    elif role == "tool" or results:
        yield ModelTurn(
            "tool",
            "\n".join(_get_text(part.get("content")) for part in results) or _get_text(content),
        )
        if results and extract_human_text(_get_text(content)):
            yield ModelTurn("user", _get_text(content))
    else:
        yield ModelTurn("user", _get_text(content))


def _list_gemini_turns(body: dict[str, Any]) -> Iterator[ModelTurn]:
    """Yield the messages of a Gemini request; its tool results have the user's role."""
    if system := body.get("systemInstruction"):
        yield ModelTurn("system", _get_text(system.get("parts")))
    for content in body.get("contents") or []:
        parts = content.get("parts") or []
        results = [part["functionResponse"] for part in parts if "functionResponse" in part]
        if content.get("role") == "model":
            yield ModelTurn("assistant", _get_text(parts))
        elif results:
            said = (json.dumps(one.get("response"), ensure_ascii=False) for one in results)
            yield ModelTurn("tool", "\n".join(said))
        else:
            yield ModelTurn("user", _get_text(parts))
