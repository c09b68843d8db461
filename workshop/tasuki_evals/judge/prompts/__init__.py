"""Prompts for a model that judges briefs, as Markdown files, filled in strictly."""

import re
from pathlib import Path

from tasuki.draft.prompts import read_prompt_text, render_prompt_in

HERE = Path(__file__).parent
_CRITIQUE = re.compile(r'"critique": "([^"]+)"')


def render_judge_prompt(name: str, **values: object) -> str:
    """Return the prompt `name` of this folder with its variables filled in.

    It is strict as `tasuki.draft.prompts` is.
    """
    return render_prompt_in(HERE, name, values)


def list_critiques(name: str) -> frozenset[str]:
    """Return the critiques that a prompt shows as examples: no verdict may repeat one."""
    return frozenset(_CRITIQUE.findall(read_prompt_text(HERE, name)))
