"""Review of a kept handoff, and its start: what `tasuki handoff` and `tasuki start` share."""

import os
import shlex
from typing import TYPE_CHECKING

import click
from msgspec import Struct

from tasuki import handoffs
from tasuki.draft import brief as briefs
from tasuki.errors import GoalHasSecret
from tasuki.plain import shown

if TYPE_CHECKING:
    from tasuki.launch import Launched

NOTHING_STARTED = "Nothing was started."
CANCELLED = 130
"""Exit code of a review that was cancelled."""


class Starting(Struct, frozen=True):
    """How the user wants a successor to be started."""

    yes: bool = False
    editor: bool = False
    send: bool = False
    tmux: bool = False
    model: str = ""
    force: bool = False
    budget: int = 0
    arguments: tuple[str, ...] = ()

    def review_and_start(self, offer: handoffs.Offer) -> int:
        """Let the user look at it, then start it; the exit code."""
        from tasuki.launch import running_elsewhere

        asked_inside = os.environ.pop(handoffs.INSIDE, "")
        for running in () if asked_inside else running_elsewhere(offer.thread):
            offer.warnings.append(f"The thread is still open: {running}")
        if self.yes:
            say_warnings(offer)
        elif (code := self._review(offer)) is not None:
            return code
        launched = handoffs.start(
            offer,
            where="tmux" if self.tmux or os.environ.get("TMUX") else "here",
            tell=tell,
            send=self.send,
            model=self.model,
            arguments=self.arguments,
        )
        _say_started(offer, launched)
        return 0

    def _review(self, offer: handoffs.Offer) -> int | None:
        """The exit code if nothing is to be started, else None."""
        from tasuki.cli import reviewing

        result = reviewing.reviewed(
            offer.brief,
            offer.thread,
            offer.handoff,
            [*offer.told, *offer.warnings, *offer.notes],
            in_editor=self.editor,
            budget=self.budget,
        )
        if result.action != "cancel" and result.text != offer.brief:
            revise(offer, result.text, force=self.force, asking=True)
        short = offer.handoff.id[:8]
        if result.action == "start":
            return None
        if result.action == "save":
            click.echo(f"Saved as handoff {short}. Start it: tasuki start {short}", err=True)
            return 0
        click.echo(
            f"Cancelled. {NOTHING_STARTED} The draft is kept: tasuki show {short}, "
            f"tasuki start {short}", err=True,
        )  # fmt: skip
        return CANCELLED


def revise(offer: handoffs.Offer, text: str, *, force: bool, asking: bool = False) -> None:
    """Take an edited brief over. Raises GoalHasSecret where its new goal holds one."""
    _, goal = briefs.split(text)
    if goal.rstrip("\n") not in ("", offer.handoff.goal.text):
        confirm_secrets(goal, asking=asking, force=force)
    offer.revise(text)


def confirm_secrets(goal: str, *, asking: bool, force: bool) -> None:
    """Ask whether a goal that seems to hold a secret is to be handed on. Raises GoalHasSecret."""
    message = handoffs.secrets_in(goal)
    if not message or force:
        return
    if not (asking and click.confirm(f"{message} Go on?", default=False, err=True)):
        raise GoalHasSecret(f"{message} Take it out, or confirm with --force.")


def say_warnings(offer: handoffs.Offer) -> None:
    """Who wrote it, and the warnings, on standard error, one a line."""
    for warning in (*offer.told, *offer.warnings):
        tell(briefs.plain(warning))


def tell(sentence: str) -> None:
    """A sentence on standard error."""
    click.echo(f"tasuki: {sentence}", err=True)


def _say_started(offer: handoffs.Offer, launched: "Launched") -> None:
    back = shlex.join(handoffs.resume_command(offer.thread))
    where = f" in tmux {launched.target}" if launched.pane else ""
    attached = f" Attach: {shlex.join(launched.attach)}." if launched.attach else ""
    returning = f" Back to the predecessor: {shown(back)}" if back else ""
    click.echo(
        f"Handoff {offer.handoff.id[:8]} started {offer.successor.title}{where}."
        f"{attached}{returning}", err=True,
    )  # fmt: skip
