"""What a running session tells its listeners: what the agent tells, and what becomes of the session."""

from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from tasuki.session.backend import BackendEvent, Stop


class TurnStarted(Struct, frozen=True):
    """A turn begins. `internal`: the session itself asks, as for a handoff document."""

    text: str
    internal: bool = False


class TurnEnded(Struct, frozen=True):
    """A turn is over, with the text blocks of its newest message, joined by newlines."""

    stop: Stop
    text: str
    internal: bool = False
    error: str = ""


class QueueChanged(Struct, frozen=True):
    """The user's own words that wait for the end of the turn."""

    waiting: tuple[str, ...]


class HandoffPhase(Struct, frozen=True):
    """A handoff is being generated, and what happens now."""

    label: str


class SessionSwitched(Struct, frozen=True):
    """Another session is in use now: read messages and todos anew."""

    session_id: str
    path: Path


SessionEvent = (
    BackendEvent | TurnStarted | TurnEnded | QueueChanged | HandoffPhase | SessionSwitched
)
Listener = Callable[[SessionEvent], None]
