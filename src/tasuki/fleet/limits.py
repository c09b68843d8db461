"""How long each step of a handoff may take, in seconds, while the server runs."""

from msgspec import Struct


class Limits(Struct, frozen=True):
    """Time limits of the steps; each has a failure of its own."""

    idle: float = 900.0
    """Until the agent is idle and nothing of it runs any more."""
    instruct: float = 30.0
    """Until the turn that the instruction began shows."""
    turn: float = 900.0
    """Until that turn has ended."""
    silent: float = 6.0
    """How long an agent whose turn began may be ready without its stop, before that is a failure."""
    shut_down: float = 30.0
    """Until the outgoing agent has ended by itself."""
    signalled: float = 5.0
    """Until a program that got a signal has ended."""
    register: float = 90.0
    """Until the successor's session has started."""
    skill: float = 120.0
    """Until it has its persona's skill."""
    prompt: float = 30.0
    """Until the turn that the injection prompt began shows."""
    deliver: float = 60.0
    """Until its own thread holds the prompt."""
    acknowledge: float = 300.0
    """Until its first answer begins with the line that was asked for."""
