"""What tests of agents' controls share: the payloads that real programs gave to their hooks."""

import json
from typing import Any

from tree import FIXTURES

from tasuki.harness import registry as harnesses
from tasuki.harness.protocol import AgentControl, AgentEvent

HOOKS = FIXTURES / "hooks"
NAMES = tuple(sorted(path.stem for path in HOOKS.glob("*.jsonl")))


def control(name: str) -> AgentControl:
    """How agents of one harness are run."""
    found = harnesses.get_control(harnesses.get_harness(name))
    assert found is not None
    return found


def payloads(name: str) -> list[dict[str, Any]]:
    """What the hooks of one program were given, in order."""
    return [json.loads(line) for line in (HOOKS / f"{name}.jsonl").read_text().splitlines()]


def told(name: str) -> list[AgentEvent]:
    """What those payloads tell."""
    made = control(name)
    return [event for payload in payloads(name) if (event := made.parse_event(payload))]


def story(name: str) -> list[str]:
    """The same as a word or two for each."""
    return [f"{event.kind} {event.source}".strip() for event in told(name)]
