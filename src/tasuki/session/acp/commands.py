"""The command `/handoff`: how it is advertised, and which prompts are one."""

import re
from typing import Any

from tasuki.session.acp.wire import Json

NAME = "handoff"
DESCRIPTION = "Hand the work over to a fresh session of this agent"
HINT = "[focus instructions]"
_HANDOFF = re.compile(r"\s*/handoff(?:\s+(.*))?", re.DOTALL)
_COMMAND = re.compile(r"\s*/[\w.:-]+(?:\s|$)")


def offered(commands: list[Any], version: int) -> list[Any]:
    """A list of commands with ours at its end; one of the agent's by that name gives way."""
    input: Json = {"hint": HINT} if version < 2 else {"type": "text", "hint": HINT}
    ours = {"name": NAME, "description": DESCRIPTION, "input": input}
    others = [c for c in commands if not (isinstance(c, dict) and c.get("name") == NAME)]
    return [*others, ours]


def first_text(prompt: object) -> str:
    """The first text block of a prompt."""
    for block in prompt if isinstance(prompt, list) else ():
        if isinstance(block, dict) and block.get("type") == "text":
            return str(block.get("text") or "")
    return ""


def focus_of(text: str) -> str | None:
    """The words behind `/handoff`, empty if there are none; None for every other prompt."""
    found = _HANDOFF.fullmatch(text)
    return (found[1] or "").strip() if found else None


def is_command(text: str) -> bool:
    """Whether a prompt is a slash command: one that is only a path is none."""
    return _COMMAND.match(text) is not None
