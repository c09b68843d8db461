"""A running session: one conversation with an agent, in a session file, that can hand itself off.

The steps of a handoff, in order:

    guard → write (checked, kept in the vault) → flush the old session → fresh session on disk
          → fresh agent session → switch → reset

The switch comes last: whatever fails or is cancelled before it leaves the old session in
use, and a crash between any two steps leaves the old session whole, or the new one.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import ValidationError, convert, to_builtins
from msgspec.structs import replace

from tasuki import handoffs
from tasuki.config.settings import LoadedSettings
from tasuki.draft.goal import check_goal
from tasuki.errors import AgentFailed, Cancelled, NothingToHandOff, TasukiError, UsageError
from tasuki.harness import registry as harnesses
from tasuki.harness.protocol import Harness
from tasuki.model import Goal
from tasuki.session.agent_session.backend import (
    LEAST_MESSAGES,
    NOTHING_MESSAGE,
    AgentPlan,
    AgentTodo,
    Backend,
    BackendEvent,
    HandoffPhase,
    PermissionRequest,
    PromptQueues,
    QueueChanged,
    SessionEvent,
    SessionListener,
    SessionSwitched,
    Stop,
    TurnEnded,
    TurnStarted,
    find_refusal,
)
from tasuki.session.agent_session.handoff import (
    HandoffOutcome,
    HandoffWriter,
    contains_prompt,
    limit_lines,
    run_unless_aborted,
    write_handoff,
)
from tasuki.session.agent_session.recorder import TurnRecorder
from tasuki.session.pi_store import messages
from tasuki.session.pi_store.manager import SessionManager
from tasuki.session.pi_store.messages import Json
from tasuki.typed_prompts import is_typed_by_tasuki
from tasuki.vault import Vault

CUSTOM_TYPE = "handoff"
PLAN_TYPE = "plan"
"""Custom type of the entries that hold the agent's plan."""


class AgentSession:
    """One conversation with a Backend. Every message of it is kept in `manager`.

    `templates` are texts for prompts of the form `/name words`; `$ARGUMENTS` in one is replaced
    by the words. `todo_reminders` is how many times in a row the agent is reminded of open
    todos.
    """

    def __init__(
        self,
        manager: SessionManager,
        backend: Backend,
        loaded: LoadedSettings,
        *,
        vault: Vault | None = None,
        templates: Mapping[str, str] | None = None,
        todo_reminders: int = 0,
    ) -> None:
        self.manager = manager
        self.backend = backend
        self.loaded = loaded
        self.vault = vault or Vault()
        self.templates = dict(templates or {})
        self.queues = PromptQueues()
        self.todo_reminders = todo_reminders
        self.reminder_count = 0
        """How many reminders have followed one another."""
        self.is_streaming = False
        self.backend_session = ""
        self._listeners: list[SessionListener] = []
        self._abort: asyncio.Event | None = None
        self._is_complete = True
        """The agent's own thread holds the conversation from its beginning."""
        self._undelivered_handoff = ""

    # -- state -----------------------------------------------------------------------------

    @property
    def session_id(self) -> str:
        """Id of the session in use."""
        return self.manager.id

    @property
    def messages(self) -> list[Json]:
        """The context as the model has it."""
        return self.manager.build_session_context()

    @property
    def todos(self) -> tuple[AgentTodo, ...]:
        """The newest plan of this session."""
        data = self.manager.find_custom_data(PLAN_TYPE)
        try:
            return convert(data["todos"], tuple[AgentTodo, ...]) if data else ()
        except (KeyError, TypeError, ValidationError):
            return ()  # a plan of another program

    @property
    def is_generating_handoff(self) -> bool:
        """Whether a handoff is under way."""
        return self._abort is not None

    def subscribe(self, listener: SessionListener) -> Callable[[], None]:
        """Call a listener with every event, in order, until the returned function is called.

        What a listener raises goes to the exception handler of the event loop: the session goes
        on.
        """
        self._listeners.append(listener)

        def unsubscribe() -> None:
            with suppress(ValueError):
                self._listeners.remove(listener)

        return unsubscribe

    def _emit(self, event: SessionEvent) -> None:
        for listener in list(self._listeners):
            try:
                listener(event)
            except Exception as error:
                context = {
                    "message": f"A listener of the session failed: {error}",
                    "exception": error,
                }
                asyncio.get_running_loop().call_exception_handler(context)

    # -- conversation ----------------------------------------------------------------------

    async def start(self) -> None:
        """Open the agent's session, with the messages of the session file as its context."""
        context = self.messages
        self._is_complete = not any(m["role"] in ("user", "assistant") for m in context)
        self.backend_session = await self.backend.open(context, self._take_event)

    async def prompt(self, text: str, *, expand: bool = True) -> Stop:
        """Send a prompt and wait for the end of its turn; then send the queued prompts.

        Raises UsageError while a turn runs (`steer` and `follow_up` wait), AgentFailed,
        StoreFailed.
        """
        self._refuse_while_busy()
        stop = await self._send_prompt(self.expand_template(text) if expand else text)
        while stop == "end_turn" and (words := self.queues.next_words):
            stop = await self._send_prompt(
                self.expand_template(words) if expand else words, is_queued=True
            )
        return stop

    def expand_template(self, text: str) -> str:
        """Return a prompt with its template filled in, where it names one."""
        name, _, words = text.removeprefix("/").partition(" ")
        if not text.startswith("/") or name not in self.templates:
            return text
        return self.templates[name].replace("$ARGUMENTS", words.strip())

    def steer(self, text: str) -> None:
        """Queue words of the user that go to the agent before all others that wait."""
        self.queues.steering.append(text)
        self._emit(QueueChanged(self.queues.waiting))

    def follow_up(self, text: str) -> None:
        """Queue words of the user that go to the agent once it is done."""
        self.queues.follow_up.append(text)
        self._emit(QueueChanged(self.queues.waiting))

    def add_note(self, text: str) -> None:
        """Add a note to the next prompt; it is not the user's words."""
        self.queues.notes.append(text)

    async def abort_turn(self) -> None:
        """Cancel the turn."""
        if self.is_streaming:
            await self.backend.cancel()

    def _refuse_while_busy(self) -> None:
        if self.is_generating_handoff:
            raise UsageError("A handoff is in progress; wait for it, or cancel it.")
        if self.is_streaming:
            raise UsageError("A turn is still running; wait until it ends, or cancel it.")

    async def _send_prompt(self, text: str, *, is_queued: bool = False) -> Stop:
        notes, self.queues.notes = self.queues.notes, []
        for note in notes:
            self.manager.append_custom_message("note", note)
        self.manager.append_message(messages.build_user_message(text))
        self.manager.flush()
        if is_queued:  # They leave the queue only once they are on the disk.
            self.queues.drop_next()
            self._emit(QueueChanged(self.queues.waiting))
        ended = await self._run_turn([*notes, text])
        if self._undelivered_handoff:  # The agent took the first prompt with it.
            self._note_event(self._undelivered_handoff, "delivered")
            self._undelivered_handoff = ""
        self._queue_reminder(ended.stop)
        return ended.stop

    async def _run_turn(self, texts: Sequence[str], *, internal: bool = False) -> TurnEnded:
        """Run one turn of the agent, kept as it comes. `texts` go to the agent unchanged."""
        recorder = TurnRecorder(self.manager.append_message, provider=self.backend.name)
        self.is_streaming = True
        self._emit(TurnStarted(texts[-1], internal))
        stop: Stop = "cancelled"
        error = ""
        try:
            stop = await self.backend.prompt(texts, lambda e: self._take_turn_event(e, recorder))
        except AgentFailed as failure:
            error = str(failure)
            raise
        finally:
            self.is_streaming = False
            try:
                recorder.end(stop, error)
                self.manager.flush()
            finally:
                ended = TurnEnded(stop, recorder.text, internal, error)
                self._emit(ended)
        return ended

    def _take_turn_event(self, event: BackendEvent, recorder: TurnRecorder) -> None:
        if isinstance(event, PermissionRequest) and self.is_generating_handoff:
            index = find_refusal(event.options)
            event.answer(None if index is None else event.options[index].id)
            return
        recorder.take(event)
        self._take_event(event)

    def _take_event(self, event: BackendEvent) -> None:
        if isinstance(event, AgentPlan):
            self.manager.append_custom_entry(PLAN_TYPE, {"todos": to_builtins(event.todos)})
        self._emit(event)

    def _queue_reminder(self, stop: Stop) -> None:
        """Queue a reminder of open todos for the next prompt, at most a few times in a row."""
        open_todos = [f"- {t.text}" for t in self.todos if t.status != "completed"]
        if stop == "end_turn" and open_todos and self.reminder_count < self.todo_reminders:
            self.reminder_count += 1
            self.add_note("\n".join(["Still open in your todo list:", *open_todos]))
        elif not open_todos:
            self.reminder_count = 0

    # -- handoff ---------------------------------------------------------------------------

    def abort_handoff(self) -> None:
        """Cancel the handoff that is being generated; do nothing where there is none."""
        if self._abort is not None:
            self._abort.set()

    async def handoff(
        self, custom_instructions: str | None = None, goal: str | None = None
    ) -> HandoffOutcome | None:
        """Hand the conversation off to a fresh session; None if it was cancelled.

        `custom_instructions` say what the document should focus on. With a `goal` the rules for
        goals apply. Raises NothingToHandOff for fewer than two messages, GoalTooVague,
        GoalHasSecret, AuthorFailed if the agent wrote nothing, AgentFailed, StoreFailed; the old
        session is then still in use.
        """
        self._refuse_while_busy()
        if self.manager.count_messages() < LEAST_MESSAGES:
            raise NothingToHandOff(NOTHING_MESSAGE)
        min_length = self.loaded.settings.min_goal_length
        checked_goal = check_goal(goal, min_length=min_length) if goal is not None else None
        self._abort = abort = asyncio.Event()
        try:
            session_handoff = await self._write_handoff(
                (custom_instructions or "").strip(), checked_goal, abort
            )
            if abort.is_set():
                return None
            return await self._switch_session(session_handoff, checked_goal, abort)
        except Cancelled:
            return None
        finally:
            self._abort = None

    async def _write_handoff(
        self, focus: str, goal: Goal | None, abort: asyncio.Event
    ) -> HandoffOutcome:
        """Write the handoff by this session and keep it in the vault."""
        self.manager.flush()
        writer = HandoffWriter(
            self._ask_agent, self.backend.cancel, abort, self.loaded.settings.author_seconds
        )

        def report(phase: str) -> None:
            writer.loop.call_soon_threadsafe(self._emit, HandoffPhase(phase))

        return await writer.run(
            lambda ask: write_handoff(
                *self._find_thread(),
                ask,
                loaded=self.loaded,
                focus=focus,
                goal=goal,
                vault=self.vault,
                successor_name=self.backend.name
                if self.backend.name in harnesses.list_names()
                else "",
                extra_lines=self._list_files_and_todos(),
                report=report,
            )
        )

    def _find_thread(self) -> tuple[Harness, Path]:
        """Find the thread to read: the agent's own where it is complete, else this file."""
        own = self.backend.find_thread() if self._is_complete else None
        if own and contains_prompt(*own, self._find_newest_prompt()):
            return own
        return harnesses.get_harness(harnesses.SESSION_FORMAT), self.manager.path

    def _find_newest_prompt(self) -> str:
        """Find what the user said last."""
        messages_newest_first = (
            e["message"] for e in reversed(self.manager.tree.get_branch()) if e["type"] == "message"
        )
        texts = (messages.extract_text(m) for m in messages_newest_first if m.get("role") == "user")
        return next((text for text in texts if not is_typed_by_tasuki(text)), "")

    def _list_files_and_todos(self) -> tuple[str, ...]:
        """List the newest files that were made, and the todos, for the successor to open."""
        marks = {"completed": "x", "in_progress": "~", "pending": " "}
        files = [f"- `{path}`" for path in self.manager.list_artifacts()]
        todos = [f"- [{marks[t.status]}] {t.text}" for t in self.todos]
        return (*limit_lines(files, "files"), *limit_lines(todos, "todos"))

    async def _ask_agent(self, question: str) -> TurnEnded:
        """Ask the agent a question of tasuki's, unchanged, in the session in use."""
        self.manager.append_message(
            {**messages.build_user_message(question), "attribution": "agent"}
        )
        return await self._run_turn([question], internal=True)

    async def _switch_session(
        self, session_handoff: HandoffOutcome, goal: Goal | None, abort: asyncio.Event
    ) -> HandoffOutcome:
        """Put a fresh session on disk, open the agent's, then use them. Raises Cancelled."""
        old = self.manager
        old.flush()
        fresh = SessionManager.create(old.cwd, old.folder, str(old.path))
        try:
            self._begin_session(fresh, session_handoff)
            self.manager = fresh  # The agent may send events of the session that it opens.
            opened = await run_unless_aborted(
                abort, self.backend.open(self.messages, self._take_event)
            )
        except BaseException:
            self.manager = old
            fresh.close()
            with suppress(OSError):
                fresh.path.unlink(missing_ok=True)
            raise
        old.close()
        self.backend_session = opened
        self._is_complete, self._undelivered_handoff = True, session_handoff.handoff.id
        self.reminder_count = 0
        prefill = "\n".join([*([goal.text] if goal else []), *self.queues.clear()])
        self._note_event(
            session_handoff.handoff.id,
            "started",
            harness=self.backend.name,
            successor_thread=opened or self.session_id,
            successor_path=str(self.manager.path),
        )
        self._emit(QueueChanged(()))
        self._emit(SessionSwitched(self.session_id, self.manager.path))
        return replace(session_handoff, prefill=prefill)

    def _begin_session(self, fresh: SessionManager, session_handoff: HandoffOutcome) -> None:
        """Write the start of a fresh session: the handoff, and the current plan."""
        origin = session_handoff.handoff.predecessor
        predecessor = {"harness": origin.harness, "id": origin.thread_id, "path": origin.path}
        details: Json = {"handoff": session_handoff.handoff.id, "predecessor": predecessor}
        fresh.append_custom_message(CUSTOM_TYPE, session_handoff.message, details)
        if self.todos:
            plan = {"todos": to_builtins(self.todos), "from": str(self.manager.path)}
            fresh.append_custom_entry(PLAN_TYPE, plan)
        fresh.flush()

    def _note_event(self, handoff_id: str, kind: str, **details: str) -> None:
        with suppress(TasukiError):
            self.vault.append_event(handoff_id, handoffs.create_event(kind, **details))
