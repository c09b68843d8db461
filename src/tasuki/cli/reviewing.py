"""Which review: the screen where it is installed, else the editor."""

import os
from collections.abc import Sequence
from typing import Literal, cast

from msgspec import Struct

from tasuki.model import Handoff, Thread

Action = Literal["start", "save", "cancel"]


class Reviewed(Struct, frozen=True):
    """What the user decided, and the brief as they left it."""

    action: Action
    text: str


def reviewed(
    text: str,
    thread: Thread,
    handoff: Handoff,
    warnings: Sequence[str],
    *,
    in_editor: bool,
    budget: int,
) -> Reviewed:
    """Show a brief for review. An editor that leaves an empty file, or fails, cancels."""
    if not in_editor and os.environ.get("TERM", "dumb") != "dumb":
        try:
            from tasuki.cli.review import review
        except ImportError:
            pass
        else:
            result = review(text, thread, handoff.draft.left_out, warnings, budget)
            return Reviewed(action=result.action, text=result.text)
    return _in_editor(text)


def _in_editor(text: str) -> Reviewed:
    import click

    from tasuki.cli.editor import edit_in_editor

    edited = edit_in_editor(text)
    if edited is None:
        return Reviewed(action="cancel", text=text)
    answer = click.prompt(
        "Start the successor, save only, or cancel?",
        type=click.Choice(["start", "save", "cancel"]),
        default="start",
        err=True,
    )
    return Reviewed(action=cast(Action, answer), text=edited)
