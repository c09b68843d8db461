"""From a thread and a goal to a checked handoff, on one screen.

    read → derive → author → check → redact → assemble

Nothing here touches a terminal or starts a program; `report` is called with the phase that
begins.
"""

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from glob import escape
from pathlib import Path

from msgspec.structs import replace

from tasuki.config.settings import LoadedSettings, Settings
from tasuki.draft import assemble
from tasuki.draft.authors import fallback
from tasuki.draft.authors.author import AuthorTask
from tasuki.draft.facts import git
from tasuki.draft.facts.derive import DerivedFacts, derive_facts, read_facts
from tasuki.errors import NothingToHandOff, TasukiError
from tasuki.harness.protocol import Harness
from tasuki.harness.reading.cache import CachedThread
from tasuki.model import Draft, Facts, Goal, Handoff, Revision, Thread

ANALYZING = "Analyzing conversation..."
EXTRACTING = "Extracting relevant context..."
ASSEMBLING = "Assembling handoff prompt..."


class HandoffResult:
    """A handoff with its brief, and what a review also needs."""

    def __init__(
        self,
        handoff: Handoff,
        context: str,
        cached: CachedThread,
        facts: Facts,
        messages: list[str],
    ) -> None:
        self.handoff = handoff
        self.context = context
        self.cached, self.thread = cached, cached.thread
        self.facts = facts
        self.messages = messages
        """Sentences for the user about who wrote it."""


class AnalyzedThread:
    """A thread with its facts, ready for an author. `base` holds the sections no author writes: metadata, drift, skill."""

    def __init__(
        self,
        cached: CachedThread,
        derived: DerivedFacts,
        revision: Revision,
        base: Draft,
        task: AuthorTask,
    ) -> None:
        self.cached, self.thread = cached, cached.thread
        self.derived = derived
        self.revision = revision
        self.base = base
        self.task = task

    def take_snapshot(self, draft: Draft) -> dict[str, str]:
        """Return the state that drift is checked against when the successor starts."""
        return git.take_snapshot(self.thread.cwd, draft.files, self.revision)


def make_handoff(
    harness: Harness,
    path: Path,
    goal: Goal,
    loaded: LoadedSettings,
    *,
    handoff_id: str,
    to: str,
    report: Callable[[str], None] = lambda phase: None,
    resolve_parent: Callable[[str], str] = lambda prefix: prefix,
    replay: bool = False,
) -> HandoffResult:
    """Make a handoff from a thread file.

    `replay` is for a thread of the past, as in a benchmark: git and the folder, which know what
    came after it, are not read. Raises NothingToHandOff if the thread holds no conversation,
    and what the author raises.
    """
    analyzed = analyze_thread(harness, path, goal, loaded.settings, report=report, replay=replay)
    draft, messages = fallback.write_draft(analyzed.task, analyzed.base, loaded, handoff_id)

    report(ASSEMBLING)
    redactor, settings = analyzed.task.build_redactor(), loaded.settings
    draft, context, citations = assemble.fit_draft(
        draft, analyzed.thread, redactor, settings, handoff_id
    )
    handoff = assemble.build_handoff(
        draft,
        analyzed.thread,
        context,
        redactor,
        citations,
        id=handoff_id,
        parent=resolve_parent(analyzed.derived.parent),
        to=to,
        budget=settings.budget,
        created=datetime.now(UTC).isoformat(timespec="milliseconds"),
        snapshot={} if replay else analyzed.take_snapshot(draft),
    )
    return HandoffResult(handoff, context, analyzed.cached, analyzed.derived.facts, messages)


def _read_planning(harness: Harness, thread: Thread) -> Thread | None:
    """Read the thread in which the plan was made that this one began with, if it is beside it."""
    if not thread.parent or not any(e.origin == "plan" for e in thread.entries):
        return None
    for path in Path(thread.path).parent.glob(f"*{escape(thread.parent)}.*"):
        with suppress(TasukiError):
            return harness.read(path)
    return None


def analyze_thread(
    harness: Harness,
    path: Path,
    goal: Goal,
    settings: Settings,
    *,
    report: Callable[[str], None] = lambda phase: None,
    replay: bool = False,
) -> AnalyzedThread:
    """Read a thread file and derive its facts. Raises NothingToHandOff if it holds no conversation."""
    report(ANALYZING)
    cached = CachedThread(harness, path, is_kept=settings.cache and not replay)
    thread = cached.thread
    if sum(e.kind in ("user", "assistant", "tool") for e in thread.entries) < 2:
        raise NothingToHandOff(
            f"Nothing to hand off (no messages yet) in {path}. Earlier threads: tasuki threads"
        )
    revision = Revision() if replay else git.GitProbe(thread.cwd).read_revision()

    report(EXTRACTING)
    known = cached.derive("facts", read_facts)
    derived = derive_facts(thread, revision, goal.text, known)
    if (before := _read_planning(harness, thread)) is not None:
        from tasuki.draft.facts.earlier_handoffs import quote_before_plan

        previous = (*derived.facts.previous, *quote_before_plan(thread, before))
        derived = replace(derived, facts=replace(derived.facts, previous=previous))
    base = Draft(
        goal=goal,
        metadata=assemble.build_metadata_lines(thread, revision)
        if settings.include_metadata
        else (),
        drift=() if replay else tuple(git.find_thread_drift(thread, derived.facts)),
        skill=derived.facts.skill,
    )
    return AnalyzedThread(
        cached,
        derived,
        revision,
        base,
        AuthorTask(thread, derived, goal, settings.list_limits(), settings.budget),
    )
