"""How agents of one harness are run in tmux panes: their start, their hooks, what their screen says."""

import shlex
from collections.abc import Mapping
from typing import Any, Literal, Protocol

from msgspec import Struct

from tasuki.harness.integration import Addition, text
from tasuki.harness.protocol import LaunchPlan

FLEET_MARK = "tasuki fleet"
"""Stands in everything that `tasuki install HARNESS --fleet` adds."""
TOKEN = "TASUKI_AGENT_TOKEN"  # noqa: S105 the name of a variable
"""Variable in the environment of an agent by which its hooks say whose they are."""

EventKind = Literal[
    "started",
    "prompt",
    "busy",
    "idle",
    "waiting",
    "compacting",
    "compacted",
    "child_started",
    "child_ended",
    "context",
    "ended",
]


class AgentEvent(Struct, frozen=True):
    """What a hook of an agent tells, in the words of tasuki.

    started: a session began in the program. prompt: the user's words were submitted. busy: it
    works (a tool was called). idle: a turn of the agent itself ended. waiting: it asks the user.
    compacting, compacted: around a compaction. child_started, child_ended: a sub-agent.
    context: only how full the context is. ended: the program, or its session, ends.
    """

    kind: EventKind
    session: str
    """Id of the thread, as the harness has it."""
    path: str = ""
    """The thread's file; empty where the payload does not tell."""
    cwd: str = ""
    model: str = ""
    permission: str = ""
    """Permission mode, in the form that `AgentRequest.permission` takes."""
    text: str = ""
    """prompt: the words. idle: the agent's last words. waiting: what for. ended: why."""
    turn: str = ""
    """Id of the turn, where the harness has one: the same at its prompt and at its end."""
    source: str = ""
    """started: startup, resume, clear, compact, fork. compacting, compacted: manual, auto."""
    previous: str = ""
    """started: id or path of the session that the same process was in before."""
    child: str = ""
    """child_started, child_ended: which sub-agent."""
    running: tuple[str, ...] | None = None
    """idle: background work that goes on, a line each; None where the harness does not tell."""
    interrupted: bool = False
    """idle: the user broke the turn off."""
    used: float | None = None
    """Context use in percent of the window."""
    tokens: int | None = None
    """Context use in tokens."""
    window: int | None = None
    """The context window in tokens."""


class HookReply(Struct, frozen=True):
    """What tasuki says to an agent's hook: text for the model at a session's start, or a veto."""

    context: str = ""
    veto: str = ""
    """Why a compaction must not happen now, as a sentence; empty where it may."""


class AgentRequest(Struct, frozen=True):
    """An agent to be started. `prompt` is submitted as its first one; empty for none.

    `session` is an id that the new thread shall have, where the harness lets it be chosen.
    `writable` are folders, outside of `cwd`, that it may write to without being asked.
    """

    cwd: str
    session: str
    prompt: str = ""
    model: str = ""
    permission: str = ""
    writable: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()


class Look(Struct, frozen=True):
    """One look at a pane: its screen as plain text, title, process, and the session in it.

    `above` are the lines over the screen, where they were asked for.
    """

    text: str
    title: str = ""
    pid: int = 0
    session: str = ""
    above: str = ""


class Sight(Struct, frozen=True):
    """What a look says. `typed` is what stands in the input, unsent; empty where nothing does.

    unknown: neither the program's own signal nor the screen tells.
    """

    state: Literal["ready", "busy", "waiting", "unknown"]
    typed: str = ""


class Control(Protocol):
    """One harness whose agents can be run in a fleet."""

    exit_text: str
    """What is typed to end the program: `/exit`."""
    interrupt_keys: tuple[str, ...]
    """Keys, in tmux's names, that break off a turn: `("Escape",)`."""
    clear_keys: tuple[str, ...]
    """Keys, in tmux's names, that take one line of unsent input away; never ones that can end it."""
    enter_gap: float
    """Seconds to wait between a paste and Enter."""
    chooses_session: bool
    """`AgentRequest.session` becomes the id of the thread."""
    skill_at_start: bool
    """The answer to its session start reaches the model; else the skill is its first prompt."""
    starts_at_prompt: bool
    """Its session start fires with the first prompt, not with the program."""
    queues_prompts: bool
    """A prompt that is submitted while a turn runs begins a turn of its own behind it; else it joins that one."""
    can_veto: bool
    """An automatic compaction can be vetoed without harm."""
    notes: tuple[str, ...]
    """What the user has to do after `tasuki install --fleet`, as sentences."""

    def additions(self, hook: str) -> tuple[Addition, ...]:
        """What `tasuki install --fleet` adds, each with `FLEET_MARK`.

        `hook` is the path of tasuki's hook script: called with the harness's name and the payload
        on standard input, it prints the answer. It ends within about a second, always with 0.
        """
        ...

    def event(self, payload: Mapping[str, Any]) -> AgentEvent | None:
        """What a payload tells; None for nothing that matters. The payload may be anything."""
        ...

    def answer(self, event: AgentEvent, reply: HookReply) -> str:
        """What the hook prints; empty for nothing."""
        ...

    def start(self, request: AgentRequest) -> LaunchPlan:
        """How to start an agent; the plan's `ready` says when a text can be pasted."""
        ...

    def sight(self, look: Look) -> Sight:
        """What the program does now: by its own signal where it has one, else by its screen."""
        ...


def fleet_hook(hook: str, harness: str) -> str:
    """A shell command for a hook: hands its payload to tasuki's hook script; silent once that is gone."""
    script = shlex.quote(hook)
    return f": {FLEET_MARK}; if [ -r {script} ]; then sh {script} {harness}; fi"


def permission_asked(payload: Mapping[str, Any]) -> str:
    """What a tool may not do unasked, in its own words; commands, which may hold keys, are not told."""
    told = payload.get("tool_input")
    told = told if isinstance(told, Mapping) else {}
    about = text(told, "file_path") or text(told, "description")
    return ": ".join(filter(None, ("permission for " + text(payload, "tool_name"), about)))
