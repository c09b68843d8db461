"""What a scripted ACP agent is and does: the format of the script of
`fakes.acp_agent`.
"""

from typing import Any

from msgspec import Struct

Json = dict[str, Any]


class AcpStep(Struct, frozen=True, omit_defaults=True):
    """One thing that the agent does in a turn; the first field that is set decides which.

    `{session}`, `{mode}`, `{n}` and `{got}` (the outcome of the last request) are filled into
    `say`.
    """

    say: str = ""
    repeat: int = 1
    """How often it is said."""
    think: str = ""
    tool: Json | None = None
    """A `tool_call` that completes at once: `{title, kind, rawInput, locations, content}`."""
    update: Json | None = None
    """A `session/update` of any kind."""
    line: str = ""
    """A line to the letter, whatever it is; `{session}` is filled in."""
    ask: tuple[str, ...] = ()
    """Ask for permission, with options of these kinds."""
    request: str = ""
    """Send a request to the client, with `params`."""
    params: Json = {}
    notify: str = ""
    """Send a notification with `params`."""
    wait: float = 0.0
    """Seconds to wait; a cancellation ends it, unless `deaf`."""
    deaf: bool = False
    exit: int | None = None
    """End the process with this status."""
    error: str = ""
    """Answer the prompt with an error."""
    stop: str = ""
    """End the turn with this reason."""


class AcpRule(Struct, frozen=True):
    """Steps for prompts in whose text `match` is found."""

    match: str
    steps: tuple[AcpStep, ...]


class AcpScript(Struct, frozen=True, omit_defaults=True):
    """What the agent is and does."""

    rules: tuple[AcpRule, ...] = ()
    version: int = 1
    """The newest version of the protocol that it speaks."""
    capabilities: Json = {}
    """Capabilities of sessions, besides load and list: `{"close": {}, "delete": {}, "fork": {}}`."""
    commands: tuple[str, ...] = ("own",)
    early: bool = False
    """Commands are told before the answer that opens the session, too."""
    sessions: int = 1_000_000
    """How many sessions can be opened."""
    slow: float = 0.0
    """Seconds until a session is open."""
    ids: str = "session-{n}"
    """Form of session ids; `{uuid}` is a random one."""
    keep: str = ""
    """File in which sessions are kept, so that they can be loaded. Those with a prompt alone."""
    threads: str = ""
    """Folder in which it records each session as pi does, so that tasuki can read it."""
    log: str = ""
    """File to which every line is appended that it is sent."""
    child: str = ""
    """File that gets the process id of a child, which outlives its parent and holds its output."""
    linger: bool = False
    """It goes on when its input is closed."""
    farewell: int = 0
    """Status that it ends with when its input is closed."""
