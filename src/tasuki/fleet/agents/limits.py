"""Agents at a usage limit: what the operator is told, and to which harness their work may go."""

import shutil
import time
from pathlib import Path

from tasuki.errors import HarnessMissing, NotPossible
from tasuki.fleet.agents.lifecycle import check_hooks
from tasuki.fleet.store.models import FleetAgent
from tasuki.harness import registry as harnesses
from tasuki.harness.reading.usage_limits import describe_reset

GO_ON = "Go on."
"""What is typed to an agent whose limit has reset."""


def describe_limit(text: str, resets_at: float | None) -> str:
    """Describe a limit in a sentence, with the time at which it resets where that is known."""
    until = describe_reset(resets_at)
    return f"{text.rstrip('.')}. It resets at {until}." if until else f"{text.rstrip('.')}."


def check_target(data: Path, name: str) -> None:
    """Check that agents of a harness can be started in this fleet.

    Raises UsageError for an unknown one, NotPossible without control or hooks, HarnessMissing
    where its program is not found.
    """
    harness = harnesses.get_harness(name)
    harnesses.require_control(name)
    if shutil.which(harness.program) is None:
        raise HarnessMissing(
            f"{harness.title} cannot take over: its program `{harness.program}` is not on the PATH of the server. "
            "Install it, or name another harness: --to"
        )
    check_hooks(data, name)


def check_resumable(agent: FleetAgent, *, force: bool) -> None:
    """Raise NotPossible for an agent that is at no limit, or whose limit has not reset."""
    if force:
        return
    if agent.state != "limited":
        raise NotPossible(
            f"Agent {agent.id} is {agent.state}, not at a usage limit. Send it a text: tasuki agent send {agent.id} TEXT"
        )
    if agent.limited_until is None:
        raise NotPossible(
            f"When the limit of agent {agent.id} resets is not known. Try it anyway: --force"
        )
    if agent.limited_until > time.time():
        raise NotPossible(
            f"The limit of agent {agent.id} resets at {describe_reset(agent.limited_until)}. Wait for "
            f"that, or try it anyway: --force. Another harness can go on: tasuki agent handoff {agent.id} --to HARNESS"
        )
