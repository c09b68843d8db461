"""A thread that ends at a usage limit: its harness cannot go on now, another one may."""

import shlex
import shutil
import time

import click

from tasuki import handoffs
from tasuki.handoffs import PreparedHandoff
from tasuki.harness import registry as harnesses
from tasuki.harness.protocol import Harness
from tasuki.harness.reading.usage_limits import describe_reset

MOST_GOAL_CHARACTERS = 120
"""A longer goal is not repeated in a command."""


def offer_other_harness(prepared: PreparedHandoff, *, can_ask: bool) -> PreparedHandoff:
    """Say that a thread ends at a usage limit, and offer other harnesses for its successor.

    With `can_ask` the user chooses, and the handoff is returned for that harness. Otherwise it is
    returned as it is, with the advice among its warnings.
    """
    limit, successor = prepared.thread.limit, prepared.successor
    is_over = limit and limit.resets_at is not None and limit.resets_at <= time.time()
    if limit is None or is_over or successor.name != prepared.thread.harness:
        return prepared
    until = describe_reset(limit.resets_at)
    sentence = f"{successor.title} is at its usage limit{f' until {until}' if until else ''}."
    others = list_others(successor.name)
    if can_ask and prepared.stored and others:
        listed = ", ".join(h.title for h in others)
        click.echo(f"{sentence} Also installed: {listed}.", err=True)
        names = click.Choice([successor.name, *(h.name for h in others)])
        # Enter changes nothing.
        chosen: str = click.prompt("Continue in", type=names, default=successor.name, err=True)
        if chosen != successor.name:
            other = handoffs.load_handoff(prepared.vault, prepared.handoff.id, chosen)
            other.warnings[:0] = prepared.warnings
            other.authorship_notes[:0] = prepared.authorship_notes
            return other
    else:
        advice = "No other harness with credentials was found on this machine."
        if others:
            goal, target = prepared.handoff.goal.text, ("--to", others[0].name)
            words = ["handoff", "--from", prepared.thread.path, *target, goal]
            if len(goal) > MOST_GOAL_CHARACTERS or "\n" in goal:
                words = ["start", prepared.handoff.id[:8], *target]
            advice = f"To go on in {others[0].title}: {shlex.join(('tasuki', *words))}"
        prepared.warnings.insert(0, f"{sentence} {advice}")
    return prepared


def list_others(name: str) -> list[Harness]:
    """List the other harnesses that are installed: those with credentials first, without those that lack them."""
    adapters = (harnesses.get_harness(other) for other in harnesses.list_names() if other != name)
    found = [h for h in adapters if h.can_start and shutil.which(h.program)]
    signed_in = {h.name: harnesses.is_signed_in(h) for h in found}
    usable = [h for h in found if signed_in[h.name] is not False]
    return sorted(usable, key=lambda h: signed_in[h.name] is None)
