"""Whether a successor acknowledged: its first answer behind the prompt begins with a line."""

import re

from tasuki.fleet.bridge import entries
from tasuki.fleet.rows import Agent


def is_acknowledged(agent: Agent, line: str) -> bool:
    """Whether the first words of the agent behind the prompt that asks for `line` begin with it.

    Marks of Markdown around it, and its case, do not count.
    """
    asked = False
    for entry in entries(agent):
        if entry.kind == "user":
            asked = asked or line in entry.text
        elif asked and entry.kind == "assistant" and entry.text.strip():
            return begins_with(entry.text, line)
    return False


def begins_with(answer: str, line: str) -> bool:
    """Whether an answer's first line is the one that was asked for."""
    first = answer.strip().partition("\n")[0]
    return re.sub(r"[*_`#>\s.]+", " ", first).strip().lower() == line.lower()
