"""Rows of the fleet for tests that need no database."""

import time
from typing import Any

from tasuki.fleet.store.models import FleetAgent, FleetHandoff

ID = "ab12cd34" * 4


def agent(**values: Any) -> FleetAgent:
    """An idle agent of a persona in a pane."""
    given = {
        "id": 7, "harness": "claude", "state": "idle", "state_at": 100.0, "cwd": "/", "host": "h",
        "started_at": 90.0, "session": "5e55104d-0000-4000-8000-000000000001",
        "persona": "developer-con-1", "pane": "%1", "pid": 1,
    }  # fmt: skip
    return FleetAgent(**{**given, **values})


def handoff(**values: Any) -> FleetHandoff:
    """A handoff of that agent that is under way."""
    given = {
        "id": ID, "agent_id": 7, "persona": "developer-con-1", "reason": "context_limit",
        "state": "running", "step": "instruct", "attempt": 1, "created_at": time.time(), "host": "h",
        "queue": "host-h",
    }  # fmt: skip
    return FleetHandoff(**{**given, **values})
