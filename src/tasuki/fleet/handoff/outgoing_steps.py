"""The steps of the outgoing agent, until it has ended; `workflow.py` has the order.

Also the document that tasuki itself writes from the agent's thread, by the fallback order.
"""

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import sqlalchemy as sa
from msgspec.structs import replace

from tasuki.config.settings import LoadedSettings
from tasuki.draft.facts import earlier_handoffs
from tasuki.draft.redact.redactor import Redactor
from tasuki.errors import PaneGone, TasukiError
from tasuki.fleet import prompts
from tasuki.fleet.agents.limits import can_answer
from tasuki.fleet.agents.persona_files import propose_lessons
from tasuki.fleet.exchange import shared_files, thread_copies
from tasuki.fleet.handoff import documents, move_steps
from tasuki.fleet.handoff.commands import note_handoff
from tasuki.fleet.handoff.forks import describe_place
from tasuki.fleet.handoff.step_context import READY_POLL_SECONDS, WRITTEN_SECONDS, StepContext
from tasuki.fleet.store import queries, tables
from tasuki.fleet.store.failures import StepFailed
from tasuki.fleet.store.models import FleetAgent, FleetHandoff, TypingIntent
from tasuki.harness import registry as harnesses
from tasuki.text_safety import clean_text, shorten_to_line
from tasuki.threads.catalog import get_reader, is_readable
from tasuki.typed_prompts import find_named_document

if TYPE_CHECKING:
    from tasuki.handoffs import PreparedHandoff
    from tasuki.model import Thread


def await_idle(context: StepContext, handoff: FleetHandoff) -> str:
    """Wait until no turn, compaction, sub-agent or background command of the agent runs."""
    if _has_document(handoff):
        return "the document is there"
    if context.find_intent(handoff, "instruction"):
        return "it was instructed"

    last_blocker = ""

    def is_idle() -> bool:
        nonlocal last_blocker
        agent = _load_running_agent(context, handoff)
        blocker = _find_blocker(agent, force=handoff.force)
        if blocker != last_blocker:
            last_blocker = blocker
            _note_waiting(context, handoff, blocker)
        return not blocker

    if context.wait_for(handoff, [handoff.agent_id], is_idle, context.limits.idle):
        return ""
    agent = _load_running_agent(context, handoff)
    code = {"waiting": "agent_waiting", "idle": "children_running"}.get(agent.state, "agent_busy")
    raise StepFailed(code, f"Agent {agent.id}: {_find_blocker(agent, force=handoff.force)}.")


def instruct_agent(context: StepContext, handoff: FleetHandoff) -> str:
    """Ask the agent for the document, and see its turn begin."""
    if _has_document(handoff):
        return "the document is there"
    agent = _load_running_agent(context, handoff)
    if not can_answer(agent):
        return _write_instead(context, handoff, agent)
    path = _reserve_path(context, handoff, agent)
    text = prompts.render_instruction(handoff, path)
    return context.type_prompt(handoff, agent, "instruction", text, context.limits.instruct)


def await_turn(context: StepContext, handoff: FleetHandoff) -> str:
    """Wait until that turn, and no other one, has ended."""
    if not (intent := context.find_intent(handoff, "instruction")):
        return "the document was there"
    silence = _SilenceTimer(context.limits.silent)

    def find_ended() -> TypingIntent | None:
        now = context.find_intent(handoff, "instruction")
        if now and now.ended_at is not None:
            return now
        agent = _load_running_agent(context, handoff)

        def is_ready() -> bool:
            shown = context.delivery.read_screen_state
            return not context.has_waiting_events() and shown(agent).state == "ready"

        if silence.is_too_long(is_ready):
            raise StepFailed(
                "turn_interrupted",
                f"Agent {agent.id} is ready, but the end of its turn was not reported: it was interrupted "
                "(Escape), or its hooks are gone.",
            )
        return None

    ended_intent = context.wait_for(handoff, [handoff.agent_id], find_ended, context.limits.turn)
    if ended_intent is None:
        raise StepFailed(
            "turn_too_long",
            f"Agent {handoff.agent_id} was instructed and did not end its turn within "
            f"{context.limits.turn / 60:.0f} minutes.",
        )
    if (ended_intent.end or {}).get("interrupted"):
        raise StepFailed(
            "turn_interrupted", f"The turn of agent {intent.agent_id} was interrupted."
        )
    agent = _load_running_agent(context, handoff)
    if agent.failure and not documents.is_document_ready(Path(handoff.file_path)):
        return _write_instead(context, handoff, agent)
    return ""


def _write_instead(context: StepContext, handoff: FleetHandoff, agent: FleetAgent) -> str:
    """Write the document of an agent from its thread, because an error keeps it from writing.

    Raises StepFailed at a usage limit that its successor would meet, too.
    """
    error = agent.failure.text if agent.failure else ""
    if agent.state == "limited" and handoff.harness in ("", agent.harness):
        raise StepFailed("agent_limited", f"Agent {agent.id} is at its usage limit: {error}")
    write_document(context, handoff)
    return f"its turn failed, so the document was written from its thread: {error}"


def check_document(context: StepContext, handoff: FleetHandoff) -> str:
    """Check that the document exists and is whole; add what it lacks from the thread."""
    agent = context.load_agent(handoff.agent_id)
    if not handoff.file_path:
        raise StepFailed("document_missing", "No path for a document was reserved.")
    path = Path(handoff.file_path)
    documents.read_document(path)
    received = _find_received_document(context, agent)
    notes = [*documents.complete_document(path, agent, handoff, received)]
    notes += documents.note_missing_document(received)
    root, text = context.lifecycle.root, documents.read_document(path)
    if count := propose_lessons(context.database, root, handoff, text):
        notes.append(
            f"Lessons that it proposes: {count}. Review them: tasuki persona lessons {handoff.persona}"
        )
    author = handoff.author or "agent"
    context.update_handoff(handoff, author=author, notes=[*handoff.notes, *notes])
    return " ".join(notes)


def write_document(context: StepContext, handoff: FleetHandoff) -> str:
    """Write the document from the agent's thread."""
    agent = context.load_agent(handoff.agent_id)
    path = _reserve_path(context, handoff, agent)
    if not documents.is_document_ready(path):
        loaded = context.load_settings()
        received = _find_received_document(context, agent)
        author, all_notes = write_from_thread(path, agent, handoff, loaded, received)
        all_notes += documents.note_missing_document(received)
        notes = [note for note in all_notes if note not in handoff.notes]
        context.update_handoff(handoff, author=author, notes=[*handoff.notes, *notes])
    failed = "" if can_answer(agent) or not agent.failure else f": {agent.failure.text}"
    return f"written from {agent.thread}{failed}"


def record_document(context: StepContext, handoff: FleetHandoff) -> str:
    """Record the path of the document, and the prompt of the successor."""
    if handoff.recorded_at is None:
        agent, path = context.load_agent(handoff.agent_id), Path(handoff.file_path)
        place = describe_place(handoff, agent) if handoff.fork else ""
        if handoff.move and handoff.move.kind == "rescue":
            place = move_steps.describe_place(context, handoff, handoff.move)
        prompt = prompts.render_injection(handoff, agent, path, place)
        shared_files.store_document(context.database, handoff.id, documents.read_document(path))
        context.update_handoff(
            handoff, recorded_at=context.database.read_clock(), injection_prompt=prompt
        )
        documents.release_path(path)
        _keep_thread(context, handoff, agent)
    return ""


def _keep_thread(context: StepContext, handoff: FleetHandoff, agent: FleetAgent) -> None:
    """Copy the agent's thread, where the settings say so; a failure is a note of the handoff."""
    settings = context.load_settings().settings
    if settings.keep_threads == "off" or not agent.thread:
        return
    from tasuki.threads.kept.policy import keep_at_handoff

    harness, path = harnesses.get_harness(agent.harness), Path(agent.thread)
    problem = keep_at_handoff(harness, path, settings) or _store_thread(context, agent)
    note = Redactor().redact(clean_text(problem))
    if note and note not in handoff.notes:
        context.update_handoff(handoff, notes=[*handoff.notes, note])


def _store_thread(context: StepContext, agent: FleetAgent) -> str:
    """Store the agent's thread for other hosts; return why that failed, as a sentence."""
    if context.database.is_sqlite:
        return ""
    try:
        thread_copies.store_thread(context.database, agent)
    except (TasukiError, OSError) as error:
        return f"The thread could not be stored for other hosts: {error}"
    return ""


def shut_down_agent(context: StepContext, handoff: FleetHandoff) -> str:
    """End the outgoing agent; add what came after its document to it."""
    key = f"{handoff.id}-exit-{handoff.attempt}"
    is_wanted = partial(context.is_under_way, handoff)
    outcome = context.shutdown.shut_down_agent(
        handoff.agent_id, handoff_id=handoff.id, key=key, is_wanted=is_wanted
    )
    agent = context.load_agent(handoff.agent_id)
    path = Path(handoff.file_path)
    notes = () if handoff.from_thread else documents.complete_at_end(path, agent, handoff)
    if notes:
        handoff = replace(handoff, notes=(*handoff.notes, *notes))
        context.update_handoff(handoff, notes=[*handoff.notes])
    if notes or handoff.move:
        shared_files.store_document(context.database, handoff.id, documents.read_document(path))
    if handoff.move:
        _store_thread(context, agent)
        move_steps.forget_pack(context, handoff)
    _keep_thread(context, handoff, agent)
    return outcome


def _find_received_document(context: StepContext, agent: FleetAgent) -> Path | None:
    """Find the document with which an agent itself took over; None for the first of a chain."""
    handoff = queries.find_incoming_handoff(context.database, agent.id)
    return Path(handoff.file_path) if handoff and handoff.file_path else None


def _load_running_agent(context: StepContext, handoff: FleetHandoff) -> FleetAgent:
    agent = context.load_agent(handoff.agent_id)
    if agent.ended_at is not None:
        raise StepFailed("agent_gone", f"Agent {agent.id} ended ({agent.end_reason}).")
    return agent


def _has_document(handoff: FleetHandoff) -> bool:
    """Whether a retry finds the document that the attempt before waited for."""
    is_retry = handoff.attempt > 1 and bool(handoff.file_path)
    return is_retry and documents.is_document_ready(Path(handoff.file_path))


def _reserve_path(context: StepContext, handoff: FleetHandoff, agent: FleetAgent) -> Path:
    """Return the path of the document, reserved once for a handoff."""
    if handoff.file_path:
        return Path(handoff.file_path)
    session = agent.session or f"agent{agent.id}"
    path = documents.reserve_path(
        context.lifecycle.root, handoff.persona, session, time.time(), handoff.id
    )
    context.update_handoff(handoff, file_path=str(path))
    return path


def _note_waiting(context: StepContext, handoff: FleetHandoff, reason: str) -> None:
    """Show what a step waits for."""
    steps = tables.steps
    is_open = (steps.c.handoff_id == handoff.id) & (steps.c.attempt == handoff.attempt)
    is_open &= steps.c.ended_at.is_(None)
    with context.database.write() as connection:
        connection.execute(sa.update(steps).where(is_open).values(note=reason))
        text = f"Handoff {handoff.id[:8]} {f'waits: {reason}' if reason else 'no longer waits'}"
        note_handoff(connection, handoff, text, waits=reason)
    context.changes.notify([handoff.agent_id])


def _find_blocker(agent: FleetAgent, *, force: bool) -> str:
    """Return why an agent cannot be instructed now, in words; empty where it can."""
    if agent.state == "waiting":
        return f"it waits for you: {agent.waiting_for}" if agent.waiting_for else "it waits for you"
    if agent.state not in ("idle", "limited", "failed"):
        return {
            "compacting": "it compacts its context",
            "starting": "it has not registered yet",
        }.get(agent.state, "its turn has not ended")
    if agent.children and not force:
        return f"{len(agent.children)} sub-agents or background commands still run: {shorten_to_line(', '.join(agent.children), 200)}"
    return ""


class _SilenceTimer:
    """Measures how long a condition has been met without a break."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._since: float | None = None
        self._checked_at = 0.0

    def is_too_long(self, condition: Callable[[], bool]) -> bool:
        """Whether the condition has been met for too long; checked once a second."""
        now = time.monotonic()
        if now - self._checked_at < READY_POLL_SECONDS:
            return False
        self._checked_at = now
        try:
            is_met = condition()
        except PaneGone:
            is_met = False
        if not is_met:
            self._since = None
            return False
        self._since = self._since or now
        return now - self._since >= self.seconds


def write_from_thread(
    path: Path,
    agent: FleetAgent,
    handoff: FleetHandoff,
    loaded: LoadedSettings,
    received: Path | None = None,
) -> tuple[str, tuple[str, ...]]:
    """Write the document of an agent from its thread; the vault keeps it under the handoff's id.

    Returns its author, `thread (offline)`, and notes on why it was not another one. `received`
    is the document that the agent itself began with. Raises StepFailed.
    """
    if not is_readable(agent.harness, agent.thread):
        raise StepFailed(
            "thread_missing",
            f"Agent {agent.id} has no thread ({agent.thread or 'none is known'}): it took no turn, or its harness "
            f"deleted it. The document would be {path}.",
        )
    prepared, notes = _prepare_with_fallback(agent, handoff, loaded)
    author = prepared.handoff.draft.authorship.author
    head = (
        f"# {'Fork' if handoff.fork else 'Handoff'} of agent {agent.id}, written from its thread\n\n"
        f"The agent did not write this: tasuki did ({author}), from {agent.thread}.\n"
        f"Reason: {clean_text(handoff.reason)}\n"
    )
    if handoff.fork:
        place = clean_text(describe_place(handoff, agent))
        head += f"Agent {agent.id} goes on. Your folder: {place}\n"
    earlier = _format_earlier(prepared.thread, prepared.brief, received)
    documents.write_document(path, f"{head}{earlier}\n{prepared.brief}")
    return f"thread ({author})", tuple(map(clean_text, [*notes, *prepared.authorship_notes]))


def _prepare_with_fallback(
    agent: FleetAgent, handoff: FleetHandoff, loaded: LoadedSettings
) -> tuple["PreparedHandoff", list[str]]:
    """Prepare the handoff by the author of the settings; offline where that one cannot be asked."""
    from tasuki.errors import AuthorFailed, ExtraMissing, ModelUnavailable

    settings = loaded.settings
    try:
        return _prepare_handoff(agent, handoff, loaded), []
    except (ModelUnavailable, ExtraMissing, AuthorFailed) as error:
        if settings.strict or settings.author == "offline":
            raise StepFailed("author_failed", str(error)) from error
        note = (
            f"The author {settings.author} could not be asked, so it was written offline. {error}"
        )
        offline = replace(loaded, settings=replace(settings, author="offline"))
        return _prepare_handoff(agent, handoff, offline), [note]


def _prepare_handoff(
    agent: FleetAgent, handoff: FleetHandoff, loaded: LoadedSettings
) -> "PreparedHandoff":
    from tasuki import handoffs
    from tasuki.errors import NothingToHandOff, ThreadNotFound, ThreadUnreadable
    from tasuki.model import Goal
    from tasuki.vault import Vault

    harness = get_reader(agent.harness, Path(agent.thread))
    # Only words of people, or nothing.
    goal_text = clean_text(handoff.goal or handoff.context or agent.goal)
    deadline = time.monotonic() + WRITTEN_SECONDS
    while True:
        try:
            return handoffs.prepare_handoff(
                harness, Path(agent.thread), Goal(text=goal_text, forced=True), loaded,
                successor=harnesses.get_harness(handoff.harness or agent.harness), vault=Vault(), must_keep=False, id=handoff.id,
            )  # fmt: skip
        except (ThreadNotFound, ThreadUnreadable) as error:
            raise StepFailed("thread_missing", str(error)) from error
        except NothingToHandOff as error:
            if not agent.last_words or time.monotonic() > deadline:
                raise StepFailed("thread_unusable", str(error)) from error
            time.sleep(READY_POLL_SECONDS)  # it answered, and has not written that down yet


def _format_earlier(thread: "Thread", brief: str, received: Path | None) -> str:
    """Format the document that an agent began with, and earlier rulings that the brief left out."""
    named = (find_named_document(e.text) for e in thread.entries if e.kind == "user")
    document = next((path for path in named if path), "") or str(received or "")
    introduction = (
        f"It had itself begun with the document {clean_text(document)}.\n" if document else ""
    )
    rulings = documents.collect_earlier_rulings(thread, received)
    missing = [line for line in rulings if line.strip('"') not in brief]
    if not missing:
        return introduction
    lines = "\n".join(f"- {' '.join(clean_text(line).split())}" for line in missing)
    return f"{introduction}\n## {earlier_handoffs.HANDED_ON_HEADING}\n\n{lines}\n"
