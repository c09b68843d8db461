"""What may be asked for, with its bounds: the bodies of requests."""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

Short = Annotated[str, Meta(max_length=200)]
Path = Annotated[str, Meta(max_length=4096)]
Long = Annotated[str, Meta(max_length=100_000)]
Reason = Annotated[str, Meta(min_length=1, max_length=4000)]
Context = Annotated[str, Meta(max_length=4000)]
Percent = Annotated[float, Meta(ge=1, le=100)]


class _Body(Struct, frozen=True, forbid_unknown_fields=True):
    pass


class NewPersona(_Body, frozen=True):
    """A persona to add. `threshold` is in percent; without one that of the settings is used."""

    role: Short
    name: Short
    skill: Long = ""
    harness: Short = "claude"
    model: Short = ""
    threshold: Percent | None = None
    automatic: bool = False


class PersonaChange(_Body, frozen=True):
    """What is to change of a persona; what is left out stays."""

    skill: Long | UnsetType = UNSET
    harness: Short | UnsetType = UNSET
    model: Short | UnsetType = UNSET
    threshold: Percent | UnsetType | None = UNSET
    automatic: bool | UnsetType = UNSET


class LessonOrder(_Body, frozen=True):
    """What becomes of lessons that agents proposed; without ids all of them."""

    order: Literal["accept", "drop"]
    ids: Annotated[tuple[Annotated[int, Meta(ge=1, le=2**31 - 1)], ...], Meta(max_length=1000)] = ()


class NewAgent(_Body, frozen=True):
    """An agent to start. `cwd` is a whole path; `arguments` go to the program as they are."""

    cwd: Path
    persona: Short = ""
    harness: Short = ""
    model: Short = ""
    permission: Short = ""
    goal: Long = ""
    arguments: Annotated[
        tuple[Annotated[str, Meta(max_length=4096)], ...], Meta(max_length=64)
    ] = ()


class Adoption(_Body, frozen=True):
    """An agent that runs in a pane already. `pane` is tmux's id of it, `%3`."""

    pane: Short
    harness: Short
    persona: Short = ""
    session: Short = ""


class Message(_Body, frozen=True):
    """A text that is typed to an agent."""

    text: Annotated[str, Meta(min_length=1, max_length=100_000)]


class SettingsChange(_Body, frozen=True):
    """Settings of the fleet to change; what is left out stays, and null is the default."""

    context_threshold: Annotated[int, Meta(ge=1, le=100)] | UnsetType | None = UNSET
    notify: Path | UnsetType | None = UNSET
    notify_about: Short | UnsetType | None = UNSET


class Seen(_Body, frozen=True):
    """Up to which alert the operator has seen them."""

    up_to: Annotated[int, Meta(ge=0, le=2**31 - 1)]


class Key(_Body, frozen=True):
    """A key to press, by tmux's name of it."""

    key: Short


class Caller(_Body, frozen=True):
    """Who asks whether it is inside an agent: what its environment and its processes tell."""

    token: Short = ""
    sessions: Annotated[tuple[Path, ...], Meta(max_length=16)] = ()
    processes: Annotated[
        tuple[Annotated[int, Meta(ge=1, le=2**31 - 1)], ...], Meta(max_length=64)
    ] = ()


class Recovery(_Body, frozen=True):
    """Why lost agents are carried on."""

    reason: Reason = "it was lost"


class NewHandoff(_Body, frozen=True, rename={"source": "from"}):
    """Why an agent is handed off. `context` is for its successor; `force` does not wait for what it runs.

    `goal` is what the successor is to do; without one it goes on with its predecessor's task.

    `"from": "thread"`: the document is written from the agent's thread, for an agent that is dead,
    has no pane or is out of its quota.
    """

    reason: Reason
    context: Context = ""
    goal: Context = ""
    force: bool = False
    source: Literal["agent", "thread"] = "agent"
