"""From a thread and a goal to a checked handoff, on one screen.

    read → derive → author → check → redact → assemble

Nothing here touches a terminal or starts a program; `report` is told which phase begins.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from tasuki.config import Loaded, Settings
from tasuki.draft import assemble, drift, git, ladder
from tasuki.draft.authors.task import Task
from tasuki.draft.facts import Derived, derive, with_values
from tasuki.draft.redact import Redactor
from tasuki.errors import NothingToHandOff
from tasuki.harness.protocol import Harness
from tasuki.model import Draft, Facts, Goal, Handoff, Revision, Thread

ANALYZING = "Analyzing conversation..."
EXTRACTING = "Extracting relevant context..."
ASSEMBLING = "Assembling handoff prompt..."


class Made:
    """A handoff with its brief, and what a review wants beside it."""

    def __init__(
        self, handoff: Handoff, context: str, thread: Thread, facts: Facts, told: list[str]
    ) -> None:
        self.handoff = handoff
        self.context = context
        self.thread = thread
        self.facts = facts
        self.told = told
        """Sentences for the user about who wrote it."""


class Prepared:
    """What is known of a thread before anybody writes. `known` is a draft of what is known beside it."""

    def __init__(
        self, thread: Thread, derived: Derived, revision: Revision, known: Draft, task: Task
    ) -> None:
        self.thread = thread
        self.derived = derived
        self.revision = revision
        self.known = known
        self.task = task

    def snapshot(self, draft: Draft) -> dict[str, str]:
        """What drift is checked against when the successor starts."""
        return drift.snapshot(self.thread.cwd, draft.files, self.revision)


def make(
    harness: Harness,
    path: Path,
    goal: Goal,
    loaded: Loaded,
    *,
    handoff_id: str,
    to: str,
    report: Callable[[str], None] = lambda phase: None,
    resolve_parent: Callable[[str], str] = lambda prefix: prefix,
    replay: bool = False,
) -> Made:
    """A handoff from a thread file.

    `replay`: of a thread of the past, as a benchmark makes it; git and the folder, which know what
    came after it, are not asked.
    Raises NothingToHandOff if the thread holds no conversation, and what the author raises.
    """
    given = prepared(harness, path, goal, loaded.settings, report=report, replay=replay)
    draft, told = ladder.write(given.task, given.known, loaded, handoff_id)

    report(ASSEMBLING)
    redactor, settings = Redactor(), loaded.settings
    draft, context, citations = assemble.fitted(draft, given.thread, redactor, settings, handoff_id)
    handoff = assemble.handoff(
        draft,
        given.thread,
        context,
        redactor,
        citations,
        id=handoff_id,
        parent=resolve_parent(given.derived.parent),
        to=to,
        budget=settings.budget,
        created=datetime.now(UTC).isoformat(timespec="milliseconds"),
        snapshot={} if replay else given.snapshot(draft),
    )
    return Made(handoff, context, given.thread, given.derived.facts, told)


def prepared(
    harness: Harness,
    path: Path,
    goal: Goal,
    settings: Settings,
    *,
    report: Callable[[str], None] = lambda phase: None,
    replay: bool = False,
) -> Prepared:
    """A thread file read, with its facts. Raises NothingToHandOff if it holds no conversation."""
    report(ANALYZING)
    thread = harness.read(path)
    if sum(e.kind in ("user", "assistant", "tool") for e in thread.entries) < 2:
        raise NothingToHandOff(f"Nothing to hand off (no messages yet) in {path}.")
    revision = Revision() if replay else git.Probe(thread.cwd).revision()

    report(EXTRACTING)
    derived = derive(thread, revision, goal.text)
    if revision.repository:
        derived = with_values(derived, thread.cwd)
    known = Draft(
        goal=goal,
        metadata=assemble.metadata(thread, revision) if settings.include_metadata else (),
        drift=() if replay else tuple(drift.since_thread(thread, derived.facts)),
        skill=derived.facts.skill,
    )
    return Prepared(
        thread, derived, revision, known, Task(thread, derived, goal, settings.limits())
    )
