"""The handoff of an agent, step by step, on one screen.

Each step is durable: once it is done it is not done again, and after a crash the step that
was under way is carried out again. So every step first checks what is there already (the
pane's marks, the file, the record, the successor's thread), and does what is missing.

    the outgoing agent                                 its successor
    ─────────────────────────────────────              ───────────────────────────────────────
    await_idle    nothing of it runs                   create        its window is opened
    instruct      it is asked for the document         register      its session has begun
    await_turn    that turn has ended                  skill         it has its persona's skill
    check         the document is there, and whole     prompt        it gets the document
    record        path and prompt are recorded         deliver       its own thread has the prompt
    shut_down     it has ended                         acknowledge   its answer says so

A move to another host goes to and fro: `pack` (the old host), `unpack`, `create`, `register`,
`skill` (the new one), `shut_down` (the old one), `fetch`, `prompt` and so on (the new one). So the
outgoing agent lives until its successor runs. Each stretch on one host is a leg.

A step that fails leaves its name, a sentence and what the operator can do. Before
`shut_down` the outgoing agent is alive and usable; from `record` on the record and the
document stay, and `retry` continues.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

if TYPE_CHECKING:
    from tasuki.fleet.store.models import FleetHandoff

OUTGOING_STEPS = ("await_idle", "instruct", "await_turn", "check", "record", "shut_down")
SUCCESSOR_STEPS = ("create", "register", "skill", "prompt", "deliver", "acknowledge")
ALL_STEPS = (*OUTGOING_STEPS, *SUCCESSOR_STEPS)
FROM_THREAD_STEPS = ("write", "record", "shut_down", *SUCCESSOR_STEPS)
"""The agent is dead, out of quota, or has no pane: the document is written from its thread."""

FORK_STEPS = ("worktree", "write", "record", *SUCCESSOR_STEPS)
"""The agent goes on undisturbed: a second one begins from its thread, where asked in a worktree."""

MOVE_ARRIVAL = ("unpack", "create", "register", "skill")
MOVE_STEPS = (
    "await_idle", "instruct", "await_turn", "check", "record", "pack", *MOVE_ARRIVAL, "shut_down",
    "fetch", "prompt", "deliver", "acknowledge",
)  # fmt: skip
"""The agent's work goes on on another host."""
MOVE_FROM_THREAD_STEPS = ("write", *MOVE_STEPS[MOVE_STEPS.index("record") :])
RESCUE_STEPS = ("restore", "write", "unpack", "record", *SUCCESSOR_STEPS)
"""The agent's host is gone: all is done on another one, from the copy of its thread."""
ANSWERABLE_CODES = frozenset(
    {"successor_silent", "skill_missing", "skill_refused", "skill_uncertain"}
)
"""Failures of a successor that lives: the operator looks at its pane, then retries."""
SOURCE_STEPS = frozenset(
    {"await_idle", "instruct", "await_turn", "check", "write", "record", "pack", "shut_down"}
)
"""Steps of a move that are carried out on the host that the agent leaves."""

StepFunction = Callable[[str], bool]
MoveKind = Literal["", "move", "rescue"]


class HandoffShape(Struct, frozen=True):
    """What decides which steps a handoff has."""

    from_thread: bool = False
    fork: bool = False
    move: MoveKind = ""

    def list_steps(self) -> tuple[str, ...]:
        """Return the names of the steps, in order."""
        if self.fork:
            return FORK_STEPS
        if self.move == "rescue":
            return RESCUE_STEPS
        if self.move:
            return MOVE_FROM_THREAD_STEPS if self.from_thread else MOVE_STEPS
        return FROM_THREAD_STEPS if self.from_thread else ALL_STEPS

    def is_on_source(self, step: str) -> bool:
        """Whether a step of a move is carried out on the host that the agent leaves."""
        return self.move == "move" and step in SOURCE_STEPS

    def find_leg(self, step: str) -> str:
        """Return the first step of the leg that a step is in; empty where there is only one."""
        if self.move != "move":
            return ""
        leg, steps = "", self.list_steps()
        for before, name in zip(("", *steps), steps, strict=False):
            if not before or self.is_on_source(before) != self.is_on_source(name):
                leg = name
            if name == step:
                return leg
        return ""


def find_shape(handoff: "FleetHandoff") -> HandoffShape:
    """Find the shape of a handoff."""
    move: MoveKind = handoff.move.kind if handoff.move else ""
    return HandoffShape(handoff.from_thread, handoff.fork, move)


def find_step_host(handoff: "FleetHandoff", step: str, source: str) -> str:
    """Find the host that carries a step out; `source` is that of the agent."""
    if handoff.move is None or step == "done":
        return handoff.host
    return source if find_shape(handoff).is_on_source(step) else handoff.target_host


def is_undone(failed_step: str, code: str) -> bool:
    """Whether a move that failed at a step is undone on the new host.

    A successor that lives and may wait for an answer, such as whether to trust its folder, stays.
    """
    return failed_step in MOVE_ARRIVAL and code not in ANSWERABLE_CODES


def choose_resume_step(failed_step: str, code: str, shape: HandoffShape) -> str:
    """Choose the step with which a retry begins, after a failure of this code at a step.

    Steps of the outgoing agent start over; a successor that died is replaced by a new one. A move
    whose arrival failed was undone, so it is packed again.
    """
    if shape.move == "move" and (failed_step == "pack" or is_undone(failed_step, code)):
        return "pack"
    if code == "successor_died":
        return "create"
    if failed_step in (*OUTGOING_STEPS[:4], "worktree", "restore", "write"):
        return shape.list_steps()[0]
    if shape.move and failed_step == "deliver":
        return "prompt"
    return {"register": "create", "deliver": "prompt"}.get(failed_step, failed_step)


def run_steps(carry_out: StepFunction, first: str, shape: HandoffShape) -> None:
    """Carry out the steps from `first` on, until one of them does not succeed.

    `carry_out` takes the name of a step and returns whether it is done; it is durable. Where the
    next step belongs to another host, it passes the handoff on and returns False.
    """
    order = shape.list_steps()
    for name in order[order.index(first) :]:
        if not carry_out(name):
            return
    carry_out("done")


class StepLimits(Struct, frozen=True):
    """How long each step may take, in seconds, while the server runs; each has its own failure."""

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
