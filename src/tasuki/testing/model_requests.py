"""What a request to a model says: its messages as turns, and the last human text among them."""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, Literal

from msgspec import Struct

from tasuki.testing.model_answers import Api

Role = Literal["system", "user", "assistant", "tool"]

_WRAPPED = re.compile(
    r"<(system-reminder|session_context|current_datetime|reminder)>.*?</\1>\s*", re.DOTALL
)
"""What Claude Code, Gemini CLI and Copilot CLI put into user messages of their own accord."""


class Turn(Struct, frozen=True):
    """One message of a request, its text alone."""

    role: Role
    text: str


def strings(value: object) -> Iterator[str]:
    """Every string of a JSON value, keys apart."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for part in value.values():
            yield from strings(part)
    elif isinstance(value, list):
        for part in value:
            yield from strings(part)


def turns_of(api: Api, body: dict[str, Any]) -> Iterator[Turn]:
    """The messages of a request, in order; the system prompt first where it stands apart."""
    if api == "gemini":
        yield from _contents(body)
        return
    if system := body.get("system") or body.get("instructions"):
        yield Turn("system", _text(system))
    messages = body.get("input" if api == "responses" else "messages") or []
    if isinstance(messages, str):
        messages = [{"role": "user", "content": messages}]
    for message in messages:
        if api == "responses" and message.get("type", "message") != "message":
            yield from _item(message)
        else:
            yield from _message(message)


def position(turns: Sequence[Turn]) -> tuple[str, int]:
    """The last human text, and how many assistant messages came after it.

    Items that follow each other (a text, then its calls) are one message.
    """
    prompt, step, open_message = "", 0, False
    for turn in turns:
        if turn.role == "user" and (human := human_text(turn.text)):
            prompt, step = human, 0
        step += turn.role == "assistant" and not open_message
        open_message = turn.role == "assistant"
    return prompt, step


def human_text(text: str) -> str:
    """A user message without what its harness put in.

    opencode 1.18 puts quotes around a prompt with blanks that came from the command line.
    """
    human = _WRAPPED.sub("", text).strip()
    if human.startswith('"') and human.endswith('"') and " " in human and '"' not in human[1:-1]:
        return human[1:-1]
    return human


def _text(content: object) -> str:
    """The text of a message's content: a string, or the text parts of a list."""
    if not isinstance(content, list):
        return content if isinstance(content, str) else ""
    parts = (part.get("text") for part in content if isinstance(part, dict))
    return "\n".join(part for part in parts if isinstance(part, str))


def _item(item: dict[str, Any]) -> Iterator[Turn]:
    """What stands between the messages of a Responses request: calls and their results."""
    kind = item.get("type", "")
    if kind.endswith("_output"):
        yield Turn("tool", _text(item.get("output")) or str(item.get("output")))
    elif kind.endswith("_call"):
        yield Turn("assistant", "")


def _message(message: dict[str, Any]) -> Iterator[Turn]:
    content, role = message.get("content"), message.get("role")
    parts = content if isinstance(content, list) else []
    results = [part for part in parts if part.get("type") == "tool_result"]
    if role in ("system", "developer"):
        yield Turn("system", _text(content))
    elif role == "assistant":
        yield Turn("assistant", _text(content))
    elif role == "tool" or results:
        yield Turn(
            "tool", "\n".join(_text(part.get("content")) for part in results) or _text(content)
        )
        if results and human_text(_text(content)):
            yield Turn("user", _text(content))
    else:
        yield Turn("user", _text(content))


def _contents(body: dict[str, Any]) -> Iterator[Turn]:
    """The messages of a Gemini request; results of tools come as the user's there."""
    if system := body.get("systemInstruction"):
        yield Turn("system", _text(system.get("parts")))
    for content in body.get("contents") or []:
        parts = content.get("parts") or []
        results = [part["functionResponse"] for part in parts if "functionResponse" in part]
        if content.get("role") == "model":
            yield Turn("assistant", _text(parts))
        elif results:
            said = (json.dumps(one.get("response"), ensure_ascii=False) for one in results)
            yield Turn("tool", "\n".join(said))
        else:
            yield Turn("user", _text(parts))
