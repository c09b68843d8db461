"""The prompts that are typed to agents, as Markdown files, filled in strictly."""

from pathlib import Path

from tasuki.draft.prompts import render_prompt_in
from tasuki.fleet.store.models import FleetAgent, FleetHandoff
from tasuki.text_safety import clean_text
from tasuki.typed_prompts import GOAL_LABEL, NEXT_LABEL, OPERATOR_LABEL

PROMPTS_FOLDER = Path(__file__).parent


def render(name: str, **values: object) -> str:
    """Render the prompt `name` with its variables, as `tasuki.draft.prompts.render_prompt_in` does."""
    return render_prompt_in(PROMPTS_FOLDER, name, values)


def render_instruction(handoff: FleetHandoff, path: Path) -> str:
    """Render the request for the document that is typed to the outgoing agent."""
    return render(
        "instruction", reason=clean_text(handoff.reason), path=path, persona=handoff.persona,
        reference=build_reference(handoff),
    )  # fmt: skip


def render_injection(
    handoff: FleetHandoff, predecessor: FleetAgent, path: Path, place: str = ""
) -> str:
    """Render the prompt that the successor, or a fork, begins with, after its skill.

    `place` is where it works if it is a fork, or on another host than its predecessor.
    """
    place = clean_text(place)
    name, more = ("fork", {"place": place}) if handoff.fork else ("injection", {})
    about = [
        *([f"Your folder: {place}"] if place and not handoff.fork else []),
        *([f"{GOAL_LABEL} {clean_text(predecessor.goal)}"] if predecessor.goal else []),
        *([f"{NEXT_LABEL} {clean_text(handoff.goal)}"] if handoff.goal else []),
        *([f"{OPERATOR_LABEL} {clean_text(handoff.context)}"] if handoff.context else []),
    ]
    return render(
        name, predecessor=predecessor.id, persona=predecessor.persona or handoff.persona,
        session=predecessor.session[:8] or "unknown", path=path, reason=clean_text(handoff.reason),
        about="".join(f"{line}\n" for line in about), short=handoff.id[:8], reference=handoff.id,
        **more,
    )  # fmt: skip


def build_reference(handoff: FleetHandoff) -> str:
    """Return the words that identify the turn requested in this attempt of a handoff."""
    return f"{handoff.id}/{handoff.attempt}"


def build_acknowledgement(handoff: FleetHandoff) -> str:
    """Return the line that the successor's first answer must begin with."""
    return f"handoff {handoff.id[:8]}"
