"""The handoff of an agent, step by step, on one screen.

Each step is durable: once it is done it is not done again, and after a crash the one that was
under way is carried out anew. So every step looks first at what is there already (the pane's marks,
the file, the record, the successor's thread), and acts on what is missing.

    the outgoing agent                                    its successor
    ─────────────────────────────────────                 ───────────────────────────────────────
    await_idle      nothing of it runs                    create          its window is opened
    instruct        it is asked for the document          register        its session has begun
    await_turn      that turn has ended                   skill           it has its persona's skill
    check           the document is there, and whole      prompt          it is told where to go on
    record          path and prompt are written down      deliver         its own thread has the prompt
    shut_down       it has ended                          acknowledge     its answer says so

A step that fails leaves its name, a sentence and what the operator can do. Before `shut_down` the
outgoing agent is alive and usable; from `record` on the record and the document stay, and `retry`
carries on.
"""

from collections.abc import Callable

OUTGOING = ("await_idle", "instruct", "await_turn", "check", "record", "shut_down")
SUCCESSOR = ("create", "register", "skill", "prompt", "deliver", "acknowledge")
STEPS = (*OUTGOING, *SUCCESSOR)
FROM_THREAD = ("write", "record", "shut_down", *SUCCESSOR)
"""The agent is dead, out of its quota, or has no pane: the document is written from its thread."""

Step = Callable[[str], bool]


def steps(*, from_thread: bool) -> tuple[str, ...]:
    """The names of the steps of a handoff, in their order."""
    return FROM_THREAD if from_thread else STEPS


def resumed_at(failed: str, code: str, *, from_thread: bool) -> str:
    """The step with which a retry begins, behind a failure of this name at a step.

    What the outgoing agent did is asked of it anew; a successor that died has one of its own.
    """
    if code == "successor_died":
        return "create"
    if failed in OUTGOING[:4] or failed == "write":
        return steps(from_thread=from_thread)[0]
    return {"register": "create", "deliver": "prompt"}.get(failed, failed)


def hand_off(carried_out: Step, first: str, *, from_thread: bool) -> None:
    """Carry out the steps from `first` on, until one of them does not succeed.

    `carried_out` takes the name of a step and tells whether it is done; it is durable.
    """
    order = steps(from_thread=from_thread)
    for name in order[order.index(first) :]:
        if not carried_out(name):
            return
    carried_out("done")
