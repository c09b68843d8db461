"""Whether a successor acknowledged: its first answer behind the prompt begins with a line."""

import re

from tasuki.fleet.bridge import entries
from tasuki.fleet.rows import Agent

MOST = 500
"""Characters of an answer that are looked at."""


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
    """Whether an answer begins with the line that was asked for, in whatever marks and letters."""
    plain = re.sub(r"[*_`#>\s\u200b\ufeff]+", " ", answer[:MOST]).strip().lower()
    return re.match(rf"{re.escape(line.lower())}(?![\w-])", plain) is not None
