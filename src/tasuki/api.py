"""The functions of the public API: small, with the settings and the vault of the user.

`tasuki` itself passes these names on; programs import them from there.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tasuki import handoffs
from tasuki.config.settings import load_with_sources
from tasuki.draft.goal import check_goal
from tasuki.draft.redact.redactor import redact
from tasuki.errors import GoalHasSecret, TasukiError
from tasuki.handoffs import PreparedHandoff
from tasuki.harness import registry as harnesses
from tasuki.model import Entry, Goal, Handoff, Thread, ThreadHead
from tasuki.threads import catalog
from tasuki.vault import Vault

if TYPE_CHECKING:
    from tasuki.launch import LaunchResult

__all__ = [
    "Entry",
    "Goal",
    "Handoff",
    "PreparedHandoff",
    "TasukiError",
    "Thread",
    "ThreadHead",
    "check_goal",
    "find_threads",
    "load_handoff",
    "prepare_handoff",
    "read_thread",
    "redact",
    "start_successor",
]


def find_threads(
    folder: str | os.PathLike[str] | None = None, *, harness: str = "", limit: int | None = None
) -> list[ThreadHead]:
    """Return what both ends of each thread show, newest first.

    `folder` and `harness` narrow it to the threads of a working folder and of one harness, such
    as `claude`. Threads that cannot be read are left out. Raises UsageError for an unknown
    harness.
    """
    cwd = Path(folder).absolute() if folder is not None else None
    return list(catalog.list_heads(harness or None, cwd, limit))


def read_thread(thread: str | os.PathLike[str], *, folder: str | os.PathLike[str] = ".") -> Thread:
    """Return a whole thread: its entries, todos, background work, and how it could be read.

    `thread` is the path of its file, its id, a unique prefix of the id, a harness name for the
    newest one of that harness in `folder`, or `@n` for the n-th newest there. Raises
    ThreadNotFound, ThreadUnreadable, and UsageError where it is ambiguous.
    """
    return catalog.read_whole_thread(
        *catalog.find_thread(os.fspath(thread), Path(folder).absolute())
    )


def prepare_handoff(
    thread: str | os.PathLike[str],
    goal: str,
    *,
    to: str = "",
    folder: str | os.PathLike[str] = ".",
    report: Callable[[str], None] = lambda phase: None,
) -> PreparedHandoff:
    """Make a handoff from a thread and store it as a draft; nothing is started.

    `thread` is as in `read_thread`. `to` names the harness of the successor, by default that of
    the thread. The settings of `folder` hold, as for `tasuki handoff` there. `report` is called
    with the name of each phase. The result has `brief`, the successor's first prompt, and
    `handoff`, with the draft and its citations. Raises GoalTooVague, GoalHasSecret,
    ThreadNotFound, ThreadUnreadable, NothingToHandOff, StoreFailed, and what the configured
    author raises.
    """
    here = Path(folder).absolute()
    harness, path = catalog.find_thread(os.fspath(thread), here)
    loaded = load_with_sources(here)
    checked = check_goal(goal, min_length=loaded.settings.min_goal_length)
    if secrets := handoffs.describe_secrets(checked.text):
        raise GoalHasSecret(f"{secrets} Remove it.")
    return handoffs.prepare_handoff(
        harness,
        path,
        checked,
        loaded,
        successor=harnesses.get_harness(to or harness.name),
        vault=Vault(),
        must_keep=True,
        report=report,
    )


def load_handoff(id: str, *, to: str = "") -> PreparedHandoff:
    """Load a stored handoff by its id or a unique prefix of at least 4 digits.

    `to` names another harness for the successor. Raises HandoffNotFound, UsageError.
    """
    return handoffs.load_handoff(Vault(), id, to)


def start_successor(
    prepared: PreparedHandoff,
    *,
    where: Literal["here", "tmux"] = "tmux",
    send: bool = False,
    tell: Callable[[str], None] = lambda sentence: None,
) -> "LaunchResult":
    """Start the successor of a handoff, and record what became of its first prompt.

    `tmux` opens its own window and returns when the program is up; `here` runs it in this
    terminal and returns when it has ended. `send` sends the prompt instead of leaving it in the
    input. `tell` is called with sentences for the user, such as drift of the folder. Raises
    UsageError where the harness cannot start one, HarnessMissing, LaunchFailed.
    """
    return handoffs.start_successor(prepared, where=where, tell=tell, send=send)
