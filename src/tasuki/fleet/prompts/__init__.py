"""The prompts that are typed to agents, as Markdown files, filled in strictly."""

from pathlib import Path

from tasuki.draft.prompts import render_prompt_in

PROMPTS_FOLDER = Path(__file__).parent


def render(name: str, **values: object) -> str:
    """Render the prompt `name` with its variables, as `tasuki.draft.prompts.render_prompt_in` does."""
    return render_prompt_in(PROMPTS_FOLDER, name, values)
