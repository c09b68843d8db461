"""What is typed to agents, as Markdown files, filled in strictly."""

from pathlib import Path

from tasuki.draft.prompts import render_in

HERE = Path(__file__).parent


def render(name: str, **values: object) -> str:
    """The prompt `name` with its variables filled in; as `tasuki.draft.prompts.render_in`."""
    return render_in(HERE, name, values)
