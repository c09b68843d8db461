"""The Backend seam: the agent behind a running session, and what it tells while it works."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, Protocol

from msgspec import Struct

from tasuki.harness.protocol import Harness
from tasuki.session.messages import Json

Stop = Literal["end_turn", "cancelled", "max_tokens", "max_turn_requests", "refusal"]
"""How a turn ended; the words of the Agent Client Protocol."""
ToolStatus = Literal["pending", "in_progress", "completed", "failed"]
TodoStatus = Literal["pending", "in_progress", "completed"]


class Text(Struct, frozen=True):
    """A piece of what the agent says. Another `message` begins another block."""

    text: str
    message: str = ""


class Thought(Struct, frozen=True):
    """A piece of what the agent thinks; it is shown, and not kept."""

    text: str


class Diff(Struct, frozen=True):
    """A file before and after a tool changed it; `old` is None for a new file."""

    path: str
    old: str | None
    new: str


class Tool(Struct, frozen=True):
    """A tool call as it stands now; it is told again whenever something about it changes.

    `kind` is the protocol's: read, edit, delete, move, search, execute, think, fetch or other.
    """

    id: str
    title: str = ""
    kind: str = "other"
    status: ToolStatus = "pending"
    arguments: Json = {}
    paths: tuple[str, ...] = ()
    diffs: tuple[Diff, ...] = ()
    output: str = ""


class Todo(Struct, frozen=True):
    """One entry of the agent's plan."""

    text: str
    status: TodoStatus = "pending"


class Plan(Struct, frozen=True):
    """The agent's plan, whole."""

    todos: tuple[Todo, ...]


class Usage(Struct, frozen=True):
    """Tokens in the context, and its size; 0 where it is not known."""

    used: int
    size: int = 0


class AgentCommand(Struct, frozen=True):
    """A slash command of the agent itself, without the slash."""

    name: str
    description: str = ""
    hint: str = ""


class Commands(Struct, frozen=True):
    """The agent's own slash commands, all of them."""

    commands: tuple[AgentCommand, ...]


class PermissionOption(Struct, frozen=True):
    """One answer to a question for permission. `kind` is the protocol's: `allow_once`, …"""

    id: str
    name: str
    kind: str


class Permission(Struct, frozen=True):
    """The agent asks whether it may. `answer` takes the id of an option, or None for no answer."""

    tool: Tool
    options: tuple[PermissionOption, ...]
    answer: Callable[[str | None], None]


BackendEvent = Text | Thought | Tool | Plan | Usage | Commands | Permission
Emit = Callable[[BackendEvent], None]


class Backend(Protocol):
    """One agent that holds a conversation, and can begin a fresh one.

    Every method raises AgentFailed where the agent fails, is not there or has ended.
    """

    name: str
    """Name of its harness where that is known, else of its program."""

    async def open(self, context: Sequence[Json], emit: Emit) -> str:
        """Begin a fresh session of the agent, with messages as its context; its id.

        The session before stays as it is, and in use if this fails. Where the agent cannot be
        given messages, they go in front of the first prompt. `emit` takes what it tells unasked.
        """
        ...

    async def prompt(self, texts: Sequence[str], emit: Emit) -> Stop:
        """One turn of the agent: `texts` are the blocks of the prompt. Nothing in it is expanded."""
        ...

    async def cancel(self) -> None:
        """Break the turn off; `prompt` then returns `cancelled`."""
        ...

    def thread(self) -> tuple[Harness, Path] | None:
        """Where the agent itself keeps this session, if tasuki can read that."""
        ...

    async def close(self) -> None:
        """End the agent."""
        ...
