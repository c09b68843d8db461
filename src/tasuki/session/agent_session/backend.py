"""The Backend seam: the agent of a running session, and the events that it sends.

The events of the session itself are here too, and its queues for the end of a turn: the user's
own words, and notes that go with them.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, Protocol

from msgspec import Struct

from tasuki.harness.protocol import Harness
from tasuki.session.pi_store.messages import Json

LEAST_MESSAGES = 2
"""Fewer messages are nothing to hand off."""
NOTHING_MESSAGE = "Nothing to hand off (no messages yet)"
CANCELLED_MESSAGE = "Handoff cancelled"
STARTED_MESSAGE = "New session started with handoff context"

Stop = Literal["end_turn", "cancelled", "max_tokens", "max_turn_requests", "refusal"]
"""How a turn ended; the words of the Agent Client Protocol."""
ToolStatus = Literal["pending", "in_progress", "completed", "failed"]
TodoStatus = Literal["pending", "in_progress", "completed"]


class TextPiece(Struct, frozen=True):
    """A piece of what the agent says. Another `message` begins another block."""

    text: str
    message: str = ""


class ThoughtPiece(Struct, frozen=True):
    """A piece of what the agent thinks; it is shown, and not kept."""

    text: str


class FileDiff(Struct, frozen=True):
    """A file before and after a tool changed it; `old` is None for a new file."""

    path: str
    old: str | None
    new: str


class ToolProgress(Struct, frozen=True):
    """The current state of a tool call; it is sent again whenever something about it changes.

    `kind` is the protocol's: read, edit, delete, move, search, execute, think, fetch or other.
    """

    id: str
    title: str = ""
    kind: str = "other"
    status: ToolStatus = "pending"
    arguments: Json = {}
    paths: tuple[str, ...] = ()
    diffs: tuple[FileDiff, ...] = ()
    output: str = ""


class AgentTodo(Struct, frozen=True):
    """One entry of the agent's plan."""

    text: str
    status: TodoStatus = "pending"


class AgentPlan(Struct, frozen=True):
    """The agent's whole plan."""

    todos: tuple[AgentTodo, ...]


class ContextUsage(Struct, frozen=True):
    """Tokens in the context, and its size; 0 where it is not known."""

    used: int
    size: int = 0


class AgentCommand(Struct, frozen=True):
    """A slash command of the agent itself, without the slash."""

    name: str
    description: str = ""
    hint: str = ""


class AgentCommands(Struct, frozen=True):
    """The agent's own slash commands, all of them."""

    commands: tuple[AgentCommand, ...]


class PermissionOption(Struct, frozen=True):
    """One answer to a question for permission. `kind` is the protocol's: `allow_once`, …"""

    id: str
    name: str
    kind: str


class PermissionRequest(Struct, frozen=True):
    """The agent asks for permission. `answer` takes the id of an option, or None for no answer."""

    tool: ToolProgress
    options: tuple[PermissionOption, ...]
    answer: Callable[[str | None], None]


def find_refusal(options: Sequence[PermissionOption]) -> int | None:
    """Find the index of the option that refuses, this once if possible; None if there is none."""
    indexes = [i for i, option in enumerate(options) if option.kind.startswith("reject")]
    return min(indexes, key=lambda i: options[i].kind != "reject_once", default=None)


BackendEvent = (
    TextPiece
    | ThoughtPiece
    | ToolProgress
    | AgentPlan
    | ContextUsage
    | AgentCommands
    | PermissionRequest
)
Emit = Callable[[BackendEvent], None]


class Backend(Protocol):
    """One agent that holds a conversation, and can begin a fresh one.

    Every method raises AgentFailed where the agent fails, is not there or has ended.
    """

    name: str
    """Name of its harness where that is known, else of its program."""

    async def open(self, context: Sequence[Json], emit: Emit) -> str:
        """Open a fresh session of the agent, with messages as its context; return its id.

        The session before stays as it is, and in use if this fails. Where the agent cannot be
        given messages, they go in front of the first prompt. `emit` takes events outside of a
        turn.
        """

    async def prompt(self, texts: Sequence[str], emit: Emit) -> Stop:
        """Run one turn of the agent: `texts` are the blocks of the prompt.

        Nothing in it is expanded.
        """

    async def cancel(self) -> None:
        """Cancel the turn; `prompt` then returns `cancelled`."""

    def find_thread(self) -> tuple[Harness, Path] | None:
        """Find where the agent itself keeps this session, if tasuki can read that."""

    async def close(self) -> None:
        """End the agent."""


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
    """The user's own words that wait for the end of the turn changed."""

    waiting: tuple[str, ...]


class HandoffPhase(Struct, frozen=True):
    """The current phase of a handoff that is being generated."""

    label: str


class SessionSwitched(Struct, frozen=True):
    """Another session is in use now: read its messages and todos again."""

    session_id: str
    path: Path


SessionEvent = (
    BackendEvent | TurnStarted | TurnEnded | QueueChanged | HandoffPhase | SessionSwitched
)
SessionListener = Callable[[SessionEvent], None]


class PromptQueues:
    """Words of the user that steer or follow up, and notes for the next turn."""

    def __init__(self) -> None:
        self.steering: list[str] = []
        self.follow_up: list[str] = []
        self.notes: list[str] = []

    @property
    def waiting(self) -> tuple[str, ...]:
        """The user's words, in the order in which they will be sent."""
        return (*self.steering, *self.follow_up)

    @property
    def next_words(self) -> str:
        """The words of the user that are sent next; empty if none wait."""
        return next(iter(self.waiting), "")

    def drop_next(self) -> None:
        """Drop the next words, now that they are kept elsewhere."""
        (self.steering or self.follow_up).pop(0)

    def clear(self) -> tuple[str, ...]:
        """Empty all queues; return the user's own words, which must not be lost."""
        words = self.waiting
        self.steering, self.follow_up, self.notes = [], [], []
        return words
