"""What the operator's orders and the API's other routes take: each body once, with its bounds.

Hosts of the fleet give one another the same ones.
"""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from tasuki.errors import UsageError
from tasuki.harness import registry as harnesses

ShortText = Annotated[str, Meta(max_length=200)]
PathText = Annotated[str, Meta(max_length=4096)]
LongText = Annotated[str, Meta(max_length=100_000)]
ReasonText = Annotated[str, Meta(min_length=1, max_length=4000)]
ContextText = Annotated[str, Meta(max_length=4000)]
PercentValue = Annotated[float, Meta(ge=1, le=100)]


class RequestBody(Struct, frozen=True, forbid_unknown_fields=True):
    """A body; a field that it does not know is refused."""


class NewPersona(RequestBody, frozen=True):
    """A persona to add. `threshold` is in percent; without one that of the settings is used.

    `on_limit` is the harness in which its work goes on at a usage limit; empty for none.
    """

    role: ShortText
    name: ShortText
    skill: LongText = ""
    harness: ShortText = harnesses.DEFAULT
    model: ShortText = ""
    threshold: PercentValue | None = None
    automatic: bool = False
    on_limit: ShortText = ""


class PersonaChange(RequestBody, frozen=True):
    """Changes of a persona; omitted fields stay."""

    skill: LongText | UnsetType = UNSET
    harness: ShortText | UnsetType = UNSET
    model: ShortText | UnsetType = UNSET
    threshold: PercentValue | UnsetType | None = UNSET
    automatic: bool | UnsetType = UNSET
    on_limit: ShortText | UnsetType = UNSET


class NewTemplate(RequestBody, frozen=True):
    """A goal that is used again. Words in braces in `goal` and `folder` become fields.

    `role`: its agent works as the first free persona of that role; `persona` names one.
    """

    name: ShortText
    goal: LongText
    persona: ShortText = ""
    role: ShortText = ""
    folder: PathText = ""
    harness: ShortText = ""
    model: ShortText = ""
    permission: ShortText = ""


class TemplateChange(RequestBody, frozen=True):
    """Changes of a template; omitted fields stay."""

    name: ShortText | UnsetType = UNSET
    goal: LongText | UnsetType = UNSET
    persona: ShortText | UnsetType = UNSET
    role: ShortText | UnsetType = UNSET
    folder: PathText | UnsetType = UNSET
    harness: ShortText | UnsetType = UNSET
    model: ShortText | UnsetType = UNSET
    permission: ShortText | UnsetType = UNSET


class TemplateStart(RequestBody, frozen=True):
    """What is filled in to start a template. `cwd` takes the place of its folder."""

    fields: dict[ShortText, Annotated[str, Meta(max_length=20_000)]] = {}
    cwd: PathText = ""
    host: ShortText = ""


class NewGoal(RequestBody, frozen=True):
    """A goal for the queue of a persona."""

    text: LongText


class QueueChange(RequestBody, frozen=True):
    """Whether a queue is paused. Resuming also goes on after a stop."""

    paused: bool


GoalOrder = Literal["first", "up", "down", "last", "arrived", "again"]


class GoalChange(RequestBody, frozen=True):
    """A new text for a goal that waits, or an order for it.

    `arrived` and `again` are for one of which it is not known whether it was typed.
    """

    text: LongText | UnsetType = UNSET
    order: GoalOrder | UnsetType = UNSET


class LessonOrder(RequestBody, frozen=True):
    """The decision on proposed lessons; without ids all of them."""

    order: Literal["accept", "drop"]
    ids: Annotated[tuple[Annotated[int, Meta(ge=1, le=2**31 - 1)], ...], Meta(max_length=1000)] = ()


class NewAgent(RequestBody, frozen=True):
    """An agent to start. `cwd` is a whole path; `arguments` go to the program as they are.

    `host` is the id or the label of the host that starts it; empty for that of the server.
    """

    cwd: PathText
    host: ShortText = ""
    persona: ShortText = ""
    harness: ShortText = ""
    model: ShortText = ""
    permission: ShortText = ""
    goal: LongText = ""
    arguments: Annotated[
        tuple[Annotated[str, Meta(max_length=4096)], ...], Meta(max_length=64)
    ] = ()


class AgentRights(RequestBody, frozen=True):
    """The permission mode of an agent, and the further arguments of its program."""

    permission: str
    arguments: tuple[str, ...]


class Adoption(RequestBody, frozen=True):
    """An agent that is already running in a pane. `pane` is tmux's id of the pane, `%3`.

    `host` is where that pane is; empty for the host of the server.
    """

    pane: ShortText
    harness: ShortText
    persona: ShortText = ""
    session: ShortText = ""
    host: ShortText = ""


class AgentMessage(RequestBody, frozen=True):
    """A text that is typed to an agent."""

    text: Annotated[str, Meta(min_length=1, max_length=100_000)]


class Resumption(RequestBody, frozen=True):
    """Whether an agent is told to go on although its usage limit has not reset."""

    force: bool = False


class MuteOrder(RequestBody, frozen=True, rename={"span": "for"}):
    """For how long an agent is muted: `30m`, `1h`, `2d`, `tomorrow`; empty for good, `off` ends it."""

    span: ShortText = ""


class SettingsChange(RequestBody, frozen=True):
    """Changes of the fleet's settings; omitted ones stay, and null is the default."""

    context_threshold: Annotated[int, Meta(ge=1, le=100)] | UnsetType | None = UNSET
    notify: PathText | UnsetType | None = UNSET
    notify_about: ShortText | UnsetType | None = UNSET


class SeenAlerts(RequestBody, frozen=True):
    """The alert up to which the operator has seen them."""

    up_to: Annotated[int, Meta(ge=0, le=2**31 - 1)]


class KeyPress(RequestBody, frozen=True):
    """A key to press, by its tmux name."""

    key: ShortText


class QuestionAnswer(RequestBody, frozen=True):
    """An answer to the question of a waiting agent: the keys of choices, or a text."""

    mark: ShortText
    choice: ShortText = ""
    text: LongText = ""
    choices: Annotated[list[ShortText], Meta(max_length=20)] = []


class CallerClues(RequestBody, frozen=True):
    """Clues to the agent that a caller is inside of: from its environment and its processes."""

    token: ShortText = ""
    sessions: Annotated[tuple[PathText, ...], Meta(max_length=16)] = ()
    processes: Annotated[
        tuple[Annotated[int, Meta(ge=1, le=2**31 - 1)], ...], Meta(max_length=64)
    ] = ()


class Recovery(RequestBody, frozen=True):
    """Why lost agents are recovered."""

    reason: ReasonText = "it was lost"


class HostLabel(RequestBody, frozen=True):
    """The name of a host for people; empty for its machine's own."""

    label: Annotated[str, Meta(max_length=100)]


class NewHostToken(RequestBody, frozen=True):
    """A token with which a host joins.

    `label` is the name that the host gets, `database_host` where it reaches PostgreSQL, `HOST` or
    `HOST:PORT`; without one it is where this server does. `unverified`: its URL may lead to a
    server whose certificate is not checked.
    """

    label: Annotated[str, Meta(max_length=100)] = ""
    database_host: ShortText = ""
    unverified: bool = False


class NewFork(RequestBody, frozen=True):
    """A fork of an agent: a second one that begins from its thread.

    `worktree`: true for one next to the repository, or the whole path of its folder.
    """

    goal: ReasonText
    persona: ShortText = ""
    worktree: bool | PathText = False
    reason: ReasonText = "fork"


class NewHandoff(RequestBody, frozen=True, rename={"source": "from"}):
    """Why an agent is handed off.

    `context` is for its successor; `force` does not wait for its children. `goal` is what the
    successor should do; without one it continues its predecessor's task. `"from": "thread"`:
    the document is written from the agent's thread, for an agent that is dead, has no pane or
    is out of its quota; one at a usage limit is always handed off so. `to` is the harness of the
    successor; without one it is the agent's.

    `to_host`: the successor works on that host. `to_cwd` is a checkout there, whole path; without
    one it is found. `worktree` is the folder of the worktree that may be made there, whole path.
    `with_secrets`: uncommitted work travels although it holds what looks like a secret. With
    `dry_run` nothing begins; the answer is what would happen, and every obstacle.
    """

    reason: ReasonText
    context: ContextText = ""
    goal: ContextText = ""
    force: bool = False
    source: Literal["agent", "thread"] = "agent"
    to: ShortText = ""
    to_host: ShortText = ""
    to_cwd: PathText = ""
    worktree: PathText = ""
    with_secrets: bool = False
    dry_run: bool = False

    def check(self) -> None:
        """Raise UsageError where what is for another host comes without one, or is no whole path."""
        if not self.to_host and (self.to_cwd or self.worktree or self.with_secrets or self.dry_run):
            raise UsageError("That is for a handoff to another host. Name the host: --to-host")
        for folder in (self.to_cwd, self.worktree):
            if folder and not folder.startswith("/"):
                raise UsageError(f"{folder} is no whole path on the other host.")

    @property
    def from_thread(self) -> bool:
        """Whether the document is written from the thread, so that the agent may have ended."""
        return self.source == "thread"
