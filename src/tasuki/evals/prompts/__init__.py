"""What is said to a model that judges briefs, as Markdown files, filled in strictly."""

import re
from pathlib import Path

from tasuki.draft.prompts import render_in, text_in

HERE = Path(__file__).parent
_CRITIQUE = re.compile(r'"critique": "([^"]+)"')


def render(name: str, **values: object) -> str:
    """The prompt `name` of this folder with its variables filled in; as `tasuki.draft.prompts`."""
    return render_in(HERE, name, values)


def critiques(name: str) -> frozenset[str]:
    """The critiques that a prompt shows as examples: no verdict may repeat one."""
    return frozenset(_CRITIQUE.findall(text_in(HERE, name)))
