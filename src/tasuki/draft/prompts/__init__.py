"""Prompts for models and agents, as Markdown files, filled in strictly."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from tasuki.patterns import compile_pattern

HERE = Path(__file__).parent
_EXAMPLE = compile_pattern(r'"(?:text|reason)": "([^"]{6,})"')
_VARIABLE = compile_pattern(r"\{\{(\w+)\}\}")


def render_prompt(name: str, **values: object) -> str:
    """The prompt `name` with its variables filled in; as `render_prompt_in`, of this folder."""
    return render_prompt_in(HERE, name, values)


def render_prompt_in(folder: Path, name: str, values: Mapping[str, object]) -> str:
    """Return the prompt `name` of a folder with its variables filled in.

    Values are inserted as they are and not searched again. Raises LookupError for a variable
    without a value and for a value without a variable: a prompt must use exactly what its
    caller passes.
    """
    text = read_prompt_text(folder, name)
    wanted = set(_VARIABLE.findall(text))
    if odd := wanted ^ set(values):
        verb = "needs" if odd <= wanted else "knows no"
        raise LookupError(f"The prompt {name} {verb} {', '.join(sorted(odd))}.")
    return _VARIABLE.sub(lambda match: str(values[match[1]]), text)


@cache
def list_examples() -> frozenset[str]:
    """Return the texts and reasons that prompts show as examples, in lower case. No answer may contain them."""
    shown = (m for m in _EXAMPLE.finditer(read_prompt_text(HERE, "form")))
    return frozenset(match[1].lower() for match in shown)


@cache
def read_prompt_text(folder: Path, name: str) -> str:
    """Return the prompt `name` of a folder without its variables filled in."""
    return (folder / f"{name}.md").read_text("utf-8").strip()
