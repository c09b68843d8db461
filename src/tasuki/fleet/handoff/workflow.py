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

A step that fails leaves its name, a sentence and what the operator can do. Before
`shut_down` the outgoing agent is alive and usable; from `record` on the record and the
document stay, and `retry` continues.
"""

from collections.abc import Callable

from msgspec import Struct

OUTGOING_STEPS = ("await_idle", "instruct", "await_turn", "check", "record", "shut_down")
SUCCESSOR_STEPS = ("create", "register", "skill", "prompt", "deliver", "acknowledge")
ALL_STEPS = (*OUTGOING_STEPS, *SUCCESSOR_STEPS)
FROM_THREAD_STEPS = ("write", "record", "shut_down", *SUCCESSOR_STEPS)
"""The agent is dead, out of quota, or has no pane: the document is written from its thread."""

FORK_STEPS = ("worktree", "write", "record", *SUCCESSOR_STEPS)
"""The agent goes on undisturbed: a second one begins from its thread, where asked in a worktree."""

StepFunction = Callable[[str], bool]


def list_steps(*, from_thread: bool, fork: bool = False) -> tuple[str, ...]:
    """Return the names of the steps of a handoff, in order."""
    if fork:
        return FORK_STEPS
    return FROM_THREAD_STEPS if from_thread else ALL_STEPS


def choose_resume_step(
    failed_step: str, code: str, *, from_thread: bool, fork: bool = False
) -> str:
    """Choose the step with which a retry begins, after a failure of this code at a step.

    Steps of the outgoing agent start over; a successor that died is replaced by a new one.
    """
    if code == "successor_died":
        return "create"
    if failed_step in (*OUTGOING_STEPS[:4], "worktree", "write"):
        return list_steps(from_thread=from_thread, fork=fork)[0]
    return {"register": "create", "deliver": "prompt"}.get(failed_step, failed_step)


def run_steps(
    carry_out: StepFunction, first: str, *, from_thread: bool, fork: bool = False
) -> None:
    """Carry out the steps from `first` on, until one of them does not succeed.

    `carry_out` takes the name of a step and returns whether it is done; it is durable.
    """
    order = list_steps(from_thread=from_thread, fork=fork)
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
