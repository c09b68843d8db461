"""Write a handoff from a running session to the message of its successor, stored in the vault.

    read the thread → the session writes → the document is checked → vault

Every way into a session uses this: AgentSession, `tasuki chat`, the ACP proxy. A signal can
cancel the request for the document at any time.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from tasuki import handoffs
from tasuki.config.settings import LoadedSettings, Settings
from tasuki.draft import assemble, pipeline
from tasuki.draft import brief as briefs
from tasuki.draft.authors import session_document
from tasuki.draft.authors.author import AuthorReply
from tasuki.draft.authors.session_document import AskSession, SessionDocument
from tasuki.draft.claims.lookup import fold_quote
from tasuki.draft.pipeline import AnalyzedThread, HandoffResult
from tasuki.draft.redact.redactor import Redactor
from tasuki.errors import AgentFailed, AuthorFailed, Cancelled, GoalHasSecret, TasukiError
from tasuki.harness import registry as harnesses
from tasuki.harness.pi_v3.format import wrap_handoff
from tasuki.harness.protocol import Harness
from tasuki.model import Goal, Handoff
from tasuki.session.agent_session.backend import TurnEnded
from tasuki.session.futures import wait_unless_aborted
from tasuki.text_safety import clean_text
from tasuki.vault import Vault, create_handoff_id

T = TypeVar("T")
CANCEL_SECONDS = 5.0
"""How long an agent that was ordered to stop may take to confirm it."""


class HandoffWriter(Struct, eq=False):
    """Writes one handoff: its questions run as turns of the session.

    `run_turn` sends a question and waits for the whole answer, `cancel` breaks that off,
    `seconds` limits each answer. The checks between the questions run in their own thread.
    """

    run_turn: Callable[[str], Awaitable[TurnEnded]]
    cancel: Callable[[], Awaitable[None]]
    abort: asyncio.Event
    seconds: float
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)

    async def run(self, work: Callable[[AskSession], T]) -> T:
        """Run `work` in a thread, with a function that asks the session; return its result.

        Where the task is cancelled from outside, the signal is set and the agent stopped first.
        """
        task = asyncio.ensure_future(asyncio.to_thread(work, self.ask))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            self.abort.set()
            with suppress(TasukiError):
                await task
            raise

    def ask(self, question: str) -> AuthorReply:
        """Return the answer of the session; called in the thread.

        Raises Cancelled, AuthorFailed, AgentFailed.
        """
        return asyncio.run_coroutine_threadsafe(self._get_answer(question), self.loop).result()

    async def _get_answer(self, question: str) -> AuthorReply:
        if self.abort.is_set():
            raise Cancelled("The handoff was cancelled.")
        turn_task = asyncio.ensure_future(self.run_turn(question))
        await wait_unless_aborted(self.abort, turn_task, self.seconds)
        is_late = not turn_task.done() and not self.abort.is_set()
        if not turn_task.done():
            await self._stop_turn(turn_task)
        if self.abort.is_set():
            raise Cancelled("The handoff was cancelled.")
        if is_late:
            raise AuthorFailed(
                f"The agent did not finish within {self.seconds:g} s. Allow "
                "more time with author_seconds in your settings."
            )
        ended = turn_task.result()
        if ended.stop == "cancelled":
            raise Cancelled("The agent interrupted the turn.")
        if ended.stop != "end_turn":
            raise AuthorFailed(f"The agent stopped before it finished ({ended.stop}).")
        return AuthorReply(ended.text)

    async def _stop_turn(self, turn: "asyncio.Future[TurnEnded]") -> None:
        """Stop the agent; one that does not stop is left alone."""
        with suppress(AgentFailed, TimeoutError):
            await asyncio.wait_for(self.cancel(), CANCEL_SECONDS)
        with suppress(AgentFailed, TimeoutError):
            await asyncio.wait_for(turn, CANCEL_SECONDS)


async def run_unless_aborted(abort: asyncio.Event, work: Coroutine[Any, Any, T]) -> T:
    """Return the result of some work, unless the signal comes first and cancels it.

    Raises Cancelled.
    """
    task = asyncio.ensure_future(work)
    try:
        await wait_unless_aborted(abort, task)
        if not task.done():
            task.cancel()
            await asyncio.wait({task})
        if task.cancelled():
            raise Cancelled("The handoff was cancelled.")
        return task.result()
    finally:
        task.cancel()


WRITING_PHASE = "Writing handoff document..."
MOST_LINES = 20
"""Most files, and most todos, that a successor is given."""


class HandoffOutcome(Struct, frozen=True):
    """A handoff out of a running session, stored in the vault.

    `document` is what the session wrote, redacted, empty where another author wrote; `message`
    is what the successor's context begins with; `notes` are sentences for the user. `prefill`
    belongs into the input line, unsent: the goal, and the words of the user that had been waiting.
    """

    handoff: Handoff
    document: str
    message: str
    notes: tuple[str, ...] = ()
    prefill: str = ""


def write_handoff(
    harness: Harness,
    path: Path,
    ask: AskSession,
    *,
    loaded: LoadedSettings,
    focus: str = "",
    goal: Goal | None = None,
    successor_name: str = "",
    vault: Vault | None = None,
    extra_lines: Sequence[str] = (),
    report: Callable[[str], None] = lambda phase: None,
) -> HandoffOutcome:
    """Let a running session write its own handoff.

    `focus` is what the document should focus on, `goal` what the user wants next; `extra_lines`
    list what the session made besides the conversation: files, its todo list. The session is
    asked through `ask`; where the user's own configuration names the author `offline` or
    `model`, that one writes instead. A focus is kept without secrets; a goal with one is
    refused. The thread file is read before anything is asked, so a document is never its own
    evidence.

    Raises NothingToHandOff, GoalHasSecret, AuthorFailed, Cancelled, StoreFailed,
    ThreadUnreadable.
    """
    vault = vault or Vault()
    effective_goal = goal or Goal(text=Redactor().redact(clean_text(focus)))
    if goal and not goal.forced and (secret := handoffs.describe_secrets(goal.text)):
        raise GoalHasSecret(f"{secret} Remove it.")
    is_author_chosen = loaded.sources.get("author", "default") != "default"
    if is_author_chosen and loaded.settings.author != "agent":
        return _write_by_author(
            harness, path, effective_goal, loaded, successor_name, vault, report
        )
    settings = loaded.settings
    analysis = pipeline.analyze_thread(harness, path, effective_goal, settings, report=report)
    report(WRITING_PHASE)
    id = create_handoff_id()
    document = session_document.request_document(
        ask, analysis.task, analysis.base, settings, id, focus or (goal.text if goal else "")
    )
    report(pipeline.ASSEMBLING)
    return _assemble_handoff(
        analysis, document, extra_lines, id, settings, successor_name or harness.name, vault
    )


def contains_prompt(harness: Harness, path: Path, prompt: str) -> bool:
    """Whether a thread is the conversation in which the user wrote this prompt.

    It may be another one, or a file that is still being written.
    """
    words = fold_quote(clean_text(prompt))
    try:
        entries = harness.read(path).entries
    except TasukiError:
        return False
    return any(
        words in fold_quote(clean_text(e.text)) for e in reversed(entries) if e.kind == "user"
    )


def limit_lines(lines: Sequence[str], noun: str) -> list[str]:
    """Return the first lines, and how many more there are."""
    more = len(lines) - MOST_LINES
    return [*lines[:MOST_LINES], f"- … and {more} more {noun}"] if more > 0 else list(lines)


def _assemble_handoff(
    analysis: AnalyzedThread,
    document: SessionDocument,
    extra_lines: Sequence[str],
    id: str,
    settings: Settings,
    successor_name: str,
    vault: Vault,
) -> HandoffOutcome:
    redactor = analysis.task.build_redactor()
    text = redactor.redact_document(document.document)
    draft = assemble.redact_draft(document.draft, redactor)
    citations = tuple(assemble.build_citations(analysis.thread, document.draft, redactor))
    redacted = replace(
        document,
        document=text,
        draft=draft,
        added=assemble.redact_draft(document.added, redactor),
    )
    body = redactor.redact_document(session_document.render_body(redacted, id, extra_lines))
    context = _build_context(body, settings, has_goal=bool(draft.goal.text))
    handoff = assemble.build_handoff(
        draft,
        analysis.thread,
        context,
        redactor,
        citations,
        id=id,
        parent=handoffs.complete_id(vault, analysis.derived.parent),
        to=successor_name,
        budget=settings.budget,
        created=handoffs.format_now(),
        snapshot=analysis.take_snapshot(draft),
    )
    vault.save(handoff, handoffs.build_brief(handoff, context))
    vault.append_event(id, handoffs.create_event("drafted"))
    result = HandoffResult(handoff, context, analysis.cached, analysis.derived.facts, [])
    thread = analysis.thread
    kept = handoffs.keep_copy(harnesses.get_harness(thread.harness), Path(thread.path), settings)
    notes = (*handoffs.describe_authorship(result), *handoffs.collect_warnings(result), *kept)
    return HandoffOutcome(handoff, redacted.document, wrap_handoff(body), notes)


def _build_context(body: str, settings: Settings, *, has_goal: bool) -> str:
    """Build the brief without its goal, for a successor that is started from the vault."""
    preamble = [briefs.PREAMBLE] if has_goal and settings.include_handoff_preamble else []
    head = "\n".join([briefs.TITLE, *preamble])
    return f"{head}\n\n{briefs.FENCE_OPEN}\n{body}\n{briefs.FENCE_CLOSE}\n"


def _write_by_author(
    harness: Harness,
    path: Path,
    goal: Goal,
    loaded: LoadedSettings,
    successor_name: str,
    vault: Vault,
    report: Callable[[str], None],
) -> HandoffOutcome:
    """Write the handoff by another author, from the thread file alone."""
    successor = harnesses.get_harness(successor_name) if successor_name else harness
    prepared = handoffs.prepare_handoff(
        harness, path, goal, loaded, successor=successor, vault=vault, must_keep=True, report=report
    )
    notes = (*prepared.authorship_notes, *prepared.warnings)
    return HandoffOutcome(prepared.handoff, "", wrap_handoff(prepared.context.rstrip("\n")), notes)
