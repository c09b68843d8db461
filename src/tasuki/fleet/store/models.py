"""The rows of the fleet as callers see them: one struct for each table."""

from typing import Any, Literal

from msgspec import Struct

from tasuki.fleet.store.agent_question import AgentQuestion
from tasuki.harness.registry import DEFAULT
from tasuki.model import TurnFailure

AgentState = Literal[
    "starting", "idle", "busy", "waiting", "compacting", "limited", "failed", "stuck", "ended", "lost"
]  # fmt: skip
"""waiting: for the user. limited: its account is at a usage limit. failed: its last turn ended with
another error. stuck: it is busy, and nothing of it has moved for long. lost: its pane vanished without
a report."""


MUTED_FOR_GOOD = 32503680000.0
"""The year 3000: an agent is muted until it is unmuted."""


def describe_stuck(command: str) -> str:
    """Describe in a sentence why an agent counts as stuck; `command` is what it runs, or empty."""
    what = f"It runs: {command}" if command else "It runs nothing"
    return f"Nothing of it moves. {what}"


class WorkSummary(Struct, frozen=True):
    """What an agent has changed since it began, in one line for its card. Without secrets."""

    branch: str = ""
    """Empty where HEAD is on none."""
    added: int = 0
    """Lines."""
    removed: int = 0
    files: int = 0
    commits: int = 0
    command: str = ""
    """What its program was running; empty for nothing."""
    problem: str = ""
    """Why the rest is not known, as a sentence; empty where it is."""
    at: float = 0.0
    """When that was read, in seconds since 1970."""

    @property
    def has_work(self) -> bool:
        """Whether anything was changed."""
        return bool(self.files or self.commits)


HandoffState = Literal["running", "failed", "uncertain", "done", "cancelled"]


class Persona(Struct, frozen=True):
    """A named role whose agents succeed one another. Times are seconds since 1970, UTC."""

    slug: str
    """`{role}-{name}-{n}`."""
    role: str
    name: str
    number: int
    folder: str
    """Whole path of the folder with `skill.md`, `experience.md` and `handoffs/`."""
    created_at: float
    harness: str = DEFAULT
    model: str = ""
    threshold: float | None = None
    """Context use in percent that raises an event; None for the setting."""
    automatic: bool = False
    """At the threshold it is handed off automatically."""
    on_limit: str = ""
    """The harness to which its agent is handed off at a usage limit; empty for none."""
    automation_stopped: str = ""
    """Why the loop guard stopped automatic handoffs, as a sentence; empty while they run."""
    retired_at: float | None = None
    queue_paused: bool = False
    """Its queued goals wait until the operator resumes them."""
    queue_stopped: str = ""
    """Why no queued goal is typed any more, as a sentence; empty while they are."""


class GoalTemplate(Struct, frozen=True):
    """A goal that is used again. `{words}` in it, and in the folder, become fields."""

    id: int
    name: str
    goal: str
    created_at: float
    persona: str = ""
    role: str = ""
    """Its agent works as the first free persona of this role, where none is named."""
    folder: str = ""
    harness: str = ""
    model: str = ""
    permission: str = ""
    used_at: float | None = None


class QueuedGoal(Struct, frozen=True):
    """A goal that waits until the agent of its persona is idle, or was typed to it."""

    id: int
    persona: str
    place: int
    """They are typed in this order."""
    text: str
    state: Literal["waiting", "typing", "typed", "uncertain"]
    created_at: float
    agent_id: int | None = None
    """The agent to which it was typed."""
    typed_at: float | None = None


class FleetAgent(Struct, frozen=True):
    """A running harness in a tmux pane, or one that ended."""

    id: int
    harness: str
    state: AgentState
    state_at: float
    cwd: str
    host: str
    started_at: float
    session: str = ""
    """Id of its thread; empty until it registered, where the harness chooses it."""
    thread: str = ""
    """Whole path of its thread."""
    persona: str | None = None
    previous_agent_id: int | None = None
    forked_from: int | None = None
    """The agent from whose thread it began, and which went on."""
    pane: str = ""
    """tmux's id of its pane, `%3`; empty for none."""
    window: str = ""
    """Where the pane was created: `tasuki:2`."""
    pid: int | None = None
    """Process of the pane."""
    process: int | None = None
    """Process of the harness itself."""
    process_began: str = ""
    """When that process began, in words that differ for a later one with the same number."""
    ordered_at: float | None = None
    vetoed_at: float | None = None
    """When a compaction of it was vetoed, for a handoff."""
    model: str = ""
    permission: str = ""
    arguments: tuple[str, ...] = ()
    goal: str = ""
    adopted: bool = False
    """It was already running when tasuki adopted it."""
    registered_at: float | None = None
    skill_at: float | None = None
    """When its persona's skill had been given to it."""
    ended_at: float | None = None
    end_reason: str = ""
    children: tuple[str, ...] = ()
    """Sub-agents and background commands that are running."""
    turn_at: float | None = None
    """When the turn began that runs; None where none does."""
    context_used: float | None = None
    """Percent of the window, as reported by the harness or its thread; None where neither did."""
    context_tokens: int | None = None
    context_window: int | None = None
    context_at: float | None = None
    context_source: str = ""
    """status line, hook or thread."""
    over_threshold: bool = False
    waiting_for: str = ""
    question: AgentQuestion | None = None
    """What it asks while it waits; None where that is not known."""
    last_words: str = ""
    """How its last answer began, without secrets."""
    failure: TurnFailure | None = None
    """The error with which its last turn ended, until one succeeds."""
    limit_text: str = ""
    """The usage limit that it met last, in its harness's words, until a turn of it succeeds."""
    limited_until: float | None = None
    """When that limit resets; None where that is not known."""
    stuck_at: float | None = None
    """Since when nothing of it has moved, while its state is `stuck`."""
    stuck_with: str = ""
    """What it runs meanwhile, without secrets; empty where it runs nothing."""
    begun_commit: str | None = None
    """The commit of its folder when it began; empty where there was none, None where nobody looked."""
    begun_branch: str = ""
    changes: WorkSummary | None = None
    """What it has changed; None until that was read."""
    muted_until: float | None = None
    """Until when its alerts are only listed, `MUTED_FOR_GOOD` for good; None where they are sent."""
    brief: str = ""
    """Id of the stored handoff with whose brief it began; empty for none."""


class FleetEvent(Struct, frozen=True):
    """One line of the fleet's log, in the order in which it was recorded."""

    id: int
    at: float
    """When it happened, as its source reports it."""
    received_at: float
    kind: str
    """An event of a hook (`started`, `prompt`, …), or `agent`, `handoff`, `alarm`, `persona`."""
    agent_id: int | None = None
    handoff_id: str | None = None
    text: str = ""
    """A sentence for people; of a hook's event a short excerpt."""
    data: dict[str, Any] = {}


class OperatorAlert(Struct, frozen=True):
    """An alert for the operator, and whether it was sent."""

    id: int
    key: str
    at: float
    kind: Literal["done", "failed", "limited", "needs_you", "stuck", "threshold", "unacknowledged"]
    host: str
    title: str
    text: str
    agent_id: int | None = None
    handoff_id: str | None = None
    state: Literal["due", "sending", "sent", "not_sent", "uncertain", "quiet"] = "due"
    """uncertain: its server was killed while it was sent. quiet: it is only listed, as is set."""
    problem: str = ""
    """Why it was not sent, as a sentence."""
    seen_at: float | None = None
    muted: bool = False
    """Its agent was muted: it raises no notification anywhere."""

    @property
    def path(self) -> str:
        """The path of the page that it is about."""
        if self.handoff_id:
            return f"/handoffs/{self.handoff_id}"
        return "/alerts" if self.agent_id is None else f"/agents/{self.agent_id}"


class TypingIntent(Struct, frozen=True):
    """A text that is, or was, typed into a pane."""

    id: str
    agent_id: int
    handoff_id: str | None
    kind: str
    """instruction, skill, prompt, exit or message."""
    pane: str
    proof: str
    """Words that only this text has."""
    created_at: float
    state: str
    """intended, sent, proven or uncertain."""
    proven_at: float | None = None
    turn: str = ""
    turns_before: int = 0
    """Turns that end before its own: it was queued after the user's own prompt."""
    ended_at: float | None = None
    end: dict[str, Any] | None = None
    """The end of the turn that it began: `interrupted` and the last `words`."""


class StepFailure(Struct, frozen=True):
    """Why a step failed, and what the operator can do."""

    code: str
    """Name of the failure: `document_missing`."""
    step: str
    sentence: str
    remedy: str
    """What to do next, as a sentence."""


class PersonaLesson(Struct, frozen=True):
    """A lesson that an agent proposes for every later one of its persona; the operator decides."""

    id: int
    persona: str
    handoff_id: str
    agent_id: int
    text: str
    """One line, without secrets."""
    state: Literal["proposed", "accepted", "dropped"]
    proposed_at: float
    decided_at: float | None = None


class StepRun(Struct, frozen=True):
    """One step of a handoff as it was carried out."""

    step: str
    attempt: int
    started_at: float
    ended_at: float | None = None
    outcome: str = ""
    """ok, failed, skipped; empty while it runs."""
    note: str = ""


class MovePlan(Struct, frozen=True):
    """Where an agent's work goes on another host, and what is done of that."""

    kind: Literal["move", "rescue"] = "move"
    """rescue: the agent's host is gone, and its thread comes from the database."""
    checkout: str = ""
    """Whole path of a checkout of the repository on the other host; empty without a repository."""
    folder: str = ""
    """Whole path of the folder in which the successor works, once that is known."""
    wanted: str = ""
    """Whole path of the worktree that the operator wants; empty for one next to the checkout."""
    with_secrets: bool = False
    """What looks like a secret in uncommitted work travels, too."""
    origin: str = ""
    commit: str = ""
    branch: str = ""
    inside: str = ""
    """The agent's folder relative to the top of its repository."""
    index_commit: str = ""
    work_commit: str = ""
    left_out: tuple[str, ...] = ()
    """What does not travel, as sentences."""
    place: str = ""
    """Whole path of the top of the checkout or worktree in which the work lands."""
    place_branch: str = ""
    in_place: bool = False
    is_placed: bool = False
    """The place was chosen when the work arrived, and not only foreseen."""
    undone: str = ""
    """What was undone after a failure, as a sentence."""
    signed: dict[str, Any] | None = None
    """By the host that began it."""


class FleetHandoff(Struct, frozen=True):
    """The handoff of one agent: its record, and how far it has come."""

    id: str
    """32 hexadecimal digits; the first 8 are in the acknowledgement."""
    agent_id: int
    persona: str
    reason: str
    state: HandoffState
    step: str
    """Its current step, or the one in which it ended."""
    created_at: float
    host: str
    queue: str
    attempt: int = 1
    context: str = ""
    """What the operator added for the successor."""
    goal: str = ""
    """What the successor should do; empty where it continues its predecessor's task."""
    force: bool = False
    from_thread: bool = False
    fork: bool = False
    """The agent goes on; its successor is a second agent, of the persona named here."""
    worktree: str = ""
    """Whole path of the git worktree that a fork gets; empty for none."""
    branch: str = ""
    """The branch of that worktree."""
    automatic: bool = False
    harness: str = ""
    """The successor's harness; empty for that of the agent."""
    target_host: str = ""
    """The host on which the successor works, where that is another one."""
    move: MovePlan | None = None
    file_path: str = ""
    author: str = ""
    """Who wrote the document: agent, or thread and the author of the fallback order."""
    recorded_at: float | None = None
    injection_prompt: str = ""
    successor_id: int | None = None
    acknowledged_at: float | None = None
    finished_at: float | None = None
    failure: StepFailure | None = None
    notes: tuple[str, ...] = ()
    """What the operator should know: gaps that were filled, a signal that was needed."""
