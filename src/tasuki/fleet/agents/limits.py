"""Agents whose last turn failed: what the operator is told, and where their work may go on."""

import shutil
import time
from pathlib import Path

from tasuki.errors import HarnessMissing, NotPossible
from tasuki.fleet.agents.lifecycle import check_hooks
from tasuki.fleet.store.models import FleetAgent
from tasuki.harness import registry as harnesses
from tasuki.harness.reading.usage_limits import describe_reset
from tasuki.model import TurnFailure

GO_ON = "Go on."
"""What is typed to an agent whose limit has reset."""


def build_failure_alert(before: TurnFailure | None, failure: TurnFailure) -> tuple[str, str] | None:
    """Build the alert of an error, its kind as `raise_agent_alert` takes it, and its text.

    None where the turn `before` failed for the same kind of reason: that was told.
    """
    if before is not None and before.kind == failure.kind:
        return None
    until = describe_reset(failure.resets_at)
    text = f"{failure.text.rstrip('.')}.{f' It resets at {until}.' if until else ''}"
    return "limited" if failure.kind == "limit" else "turn_failed", text


def can_answer(agent: FleetAgent) -> bool:
    """Whether an agent could write now, as far as the error of its last turn tells."""
    is_over = agent.failure is not None and agent.failure.kind != "other"
    return not (agent.state == "limited" or (agent.state == "failed" and is_over))


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
    if force or (agent.state == "failed" and can_answer(agent)):
        return
    if agent.state != "limited":
        state = "unable to go on" if agent.state == "failed" else agent.state
        advice = f"Send it a text: tasuki agent send {agent.id} TEXT"
        if agent.state == "failed":
            advice = f"Hand it off: tasuki agent handoff {agent.id}"
        raise NotPossible(f"Agent {agent.id} is {state}, not at a usage limit. {advice}")
    if agent.limited_until is None:
        raise NotPossible(
            f"When the limit of agent {agent.id} resets is not known. Try it anyway: --force"
        )
    if agent.limited_until > time.time():
        raise NotPossible(
            f"The limit of agent {agent.id} resets at {describe_reset(agent.limited_until)}. Wait for "
            f"that, or try it anyway: --force. Another harness can go on: tasuki agent handoff {agent.id} --to HARNESS"
        )
