"""What is said to a model that judges briefs, as Markdown files, filled in strictly.

As `tasuki.draft.prompts`, for the files of this folder.
"""

import re
from functools import cache
from pathlib import Path

_VARIABLE = re.compile(r"\{\{(\w+)\}\}")
_CRITIQUE = re.compile(r'"critique": "([^"]+)"')


def render(name: str, **values: object) -> str:
    """The prompt `name` with its variables filled in; values are not looked through again.

    Raises LookupError for a variable without a value and for a value without a variable.
    """
    text = _text(name)
    wanted = set(_VARIABLE.findall(text))
    if odd := wanted ^ set(values):
        what = "needs" if odd <= wanted else "knows no"
        raise LookupError(f"The prompt {name} {what} {', '.join(sorted(odd))}.")
    return _VARIABLE.sub(lambda match: str(values[match[1]]), text)


def critiques(name: str) -> frozenset[str]:
    """The critiques that a prompt shows as examples: no verdict may repeat one."""
    return frozenset(_CRITIQUE.findall(_text(name)))


@cache
def _text(name: str) -> str:
    return Path(__file__).with_name(f"{name}.md").read_text("utf-8").strip()
