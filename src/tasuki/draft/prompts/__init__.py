"""What is said to models and agents, as Markdown files, filled in strictly."""

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent
_EXAMPLE = re.compile(r'"(?:text|reason)": "([^"]{6,})"')
_VARIABLE = re.compile(r"\{\{(\w+)\}\}")


def render(name: str, **values: object) -> str:
    """The prompt `name` with its variables filled in; as `render_in`, of this folder."""
    return render_in(HERE, name, values)


def render_in(folder: Path, name: str, values: Mapping[str, object]) -> str:
    """The prompt `name` of a folder with its variables filled in.

    Values are put in as they are and not looked through again. Raises LookupError for a variable
    without a value and for a value without a variable: a prompt must say what its caller means.
    """
    text = text_in(folder, name)
    wanted = set(_VARIABLE.findall(text))
    if odd := wanted ^ set(values):
        what = "needs" if odd <= wanted else "knows no"
        raise LookupError(f"The prompt {name} {what} {', '.join(sorted(odd))}.")
    return _VARIABLE.sub(lambda match: str(values[match[1]]), text)


@cache
def examples() -> frozenset[str]:
    """The texts and reasons that prompts show as examples, in lower case: no answer may hold them."""
    shown = (m for name in ("system", "agent") for m in _EXAMPLE.finditer(text_in(HERE, name)))
    return frozenset(match[1].lower() for match in shown)


@cache
def text_in(folder: Path, name: str) -> str:
    """The prompt `name` of a folder as it stands there."""
    return (folder / f"{name}.md").read_text("utf-8").strip()
