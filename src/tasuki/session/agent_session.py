"""A running session: one conversation with an agent, kept in a session file, that can hand itself off.

The lifecycle of a handoff, in the order in which it happens:

    guard → write (checked, kept in the vault) → flush the old session → fresh session on disk
          → fresh agent session → switch → reset

The switch comes last: whatever fails or is cancelled before it leaves the old session in use, and a
crash between any two steps leaves the old session whole, or the new one.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct, ValidationError, convert, to_builtins

from tasuki import handoffs
from tasuki import harness as harnesses
from tasuki.config import Loaded
from tasuki.draft.goal import check_goal
from tasuki.errors import AgentFailed, Cancelled, NothingToHandOff, TasukiError, UsageError
from tasuki.harness.jsonl import asks_for_document
from tasuki.harness.protocol import Harness
from tasuki.model import Goal
from tasuki.session import messages
from tasuki.session.backend import Backend, BackendEvent, Permission, Plan, Stop, Todo
from tasuki.session.events import (
    HandoffPhase,
    Listener,
    QueueChanged,
    SessionEvent,
    SessionSwitched,
    TurnEnded,
    TurnStarted,
)
from tasuki.session.handing import Handed, handed, holds, listed
from tasuki.session.manager import SessionManager
from tasuki.session.messages import Json
from tasuki.session.queues import Queues, reminder
from tasuki.session.recording import Recorder
from tasuki.session.writing import Writing, refusal, unless
from tasuki.vault import Vault

LEAST_MESSAGES = 2
NOTHING = "Nothing to hand off (no messages yet)"
CUSTOM_TYPE = "handoff"
PLAN = "plan"
"""Custom type of the entries that hold the agent's plan."""


class Outcome(Struct, frozen=True):
    """A handoff that took place.

    `document` is what the session wrote (empty where another author wrote), `message` what the new
    session begins with. `prefill` belongs into the input line, unsent: the goal, and the words of
    the user that had been waiting. `told` are sentences for the user.
    """

    document: str
    message: str
    handoff_id: str
    prefill: str = ""
    told: tuple[str, ...] = ()


class AgentSession:
    """One conversation over a Backend. Everything it says and hears is kept in `manager`.

    `templates` are texts that a prompt `/name words` stands for; `$ARGUMENTS` in one is replaced by
    the words. `todo_reminders` is how often in a row open todos are called to the agent's mind.
    """

    def __init__(
        self,
        manager: SessionManager,
        backend: Backend,
        loaded: Loaded,
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
        self.queues = Queues()
        self.todo_reminders = todo_reminders
        self.reminded = 0
        """How many reminders have followed one another."""
        self.is_streaming = False
        self.backend_session = ""
        self._listeners: list[Listener] = []
        self._abort: asyncio.Event | None = None
        self._complete = True
        """The agent's own thread holds the conversation from its beginning."""
        self._undelivered = ""

    # -- what it is ------------------------------------------------------------------------

    @property
    def session_id(self) -> str:
        """Id of the session in use."""
        return self.manager.id

    @property
    def messages(self) -> list[Json]:
        """The context as the model has it."""
        return self.manager.build_session_context().messages

    @property
    def todos(self) -> tuple[Todo, ...]:
        """The newest plan of this session."""
        plans = (e for e in reversed(self.manager.get_branch()) if e.get("customType") == PLAN)
        entry = next(plans, None)
        data = entry.get("data") if entry else None
        try:
            return convert(data["todos"], tuple[Todo, ...]) if data else ()
        except (KeyError, TypeError, ValidationError):
            return ()  # a plan of another program

    @property
    def is_generating_handoff(self) -> bool:
        """Whether a handoff is under way."""
        return self._abort is not None

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Have every event told to a listener, in order, until the returned function is called.

        What a listener raises goes to the exception handler of the event loop: the session goes on.
        """
        self._listeners.append(listener)

        def leave() -> None:
            with suppress(ValueError):
                self._listeners.remove(listener)

        return leave

    def _emit(self, event: SessionEvent) -> None:
        for listener in list(self._listeners):
            try:
                listener(event)
            except Exception as error:
                told = {"message": f"A listener of the session failed: {error}", "exception": error}
                asyncio.get_running_loop().call_exception_handler(told)

    # -- conversation ----------------------------------------------------------------------

    async def start(self) -> None:
        """Open the agent's session, with what the session file holds as its context."""
        context = self.messages
        self._complete = not any(m["role"] in ("user", "assistant") for m in context)
        self.backend_session = await self.backend.open(context, self._unasked)

    async def prompt(self, text: str, *, expand: bool = True) -> Stop:
        """Say something to the agent, and hear it out; then what waited meanwhile.

        Raises UsageError while a turn runs (`steer` and `follow_up` wait), AgentFailed, StoreFailed.
        """
        self._refuse_while_busy()
        stop = await self._prompt(self.expanded(text) if expand else text)
        while stop == "end_turn" and (said := self.queues.next):
            stop = await self._prompt(self.expanded(said) if expand else said, waited=True)
        return stop

    def expanded(self, text: str) -> str:
        """A prompt with its template filled in, where it names one."""
        name, _, words = text.removeprefix("/").partition(" ")
        if not text.startswith("/") or name not in self.templates:
            return text
        return self.templates[name].replace("$ARGUMENTS", words.strip())

    def steer(self, text: str) -> None:
        """Words of the user that go to the agent before all others that wait."""
        self.queues.steering.append(text)
        self._emit(QueueChanged(self.queues.waiting))

    def follow_up(self, text: str) -> None:
        """Words of the user that go to the agent once it is done."""
        self.queues.follow_up.append(text)
        self._emit(QueueChanged(self.queues.waiting))

    def next_turn(self, text: str) -> None:
        """A note that goes along with the next prompt; not the user's words."""
        self.queues.next_turn.append(text)

    async def abort(self) -> None:
        """Break the turn off."""
        if self.is_streaming:
            await self.backend.cancel()

    def _refuse_while_busy(self) -> None:
        if self.is_generating_handoff:
            raise UsageError("A handoff is under way; wait for it, or cancel it.")
        if self.is_streaming:
            raise UsageError("A turn is still running; wait for its end, or cancel it.")

    async def _prompt(self, text: str, *, waited: bool = False) -> Stop:
        notes = self.queues.take_notes()
        for note in notes:
            self.manager.append_custom_message_entry("note", note, display=True)
        self.manager.append_message(messages.user_message(text))
        self.manager.flush()
        if waited:  # They leave the queue once they are on the disk, and not before.
            self.queues.drop_next()
            self._emit(QueueChanged(self.queues.waiting))
        ended = await self._turn([*notes, text])
        self._delivered()
        self._remind(ended.stop)
        return ended.stop

    async def _turn(self, texts: Sequence[str], *, internal: bool = False) -> TurnEnded:
        """One turn of the agent, kept as it comes. `texts` go to it as they are."""
        recorder = Recorder(self.manager.append_message, provider=self.backend.name)
        self.is_streaming = True
        self._emit(TurnStarted(texts[-1], internal))
        stop: Stop = "cancelled"
        error = ""
        try:
            stop = await self.backend.prompt(texts, lambda e: self._heard(e, recorder))
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

    def _heard(self, event: BackendEvent, recorder: Recorder) -> None:
        if isinstance(event, Permission) and self.is_generating_handoff:
            event.answer(refusal(event.options))
            return
        recorder.take(event)
        self._unasked(event)

    def _unasked(self, event: BackendEvent) -> None:
        if isinstance(event, Plan):
            self.manager.append_custom_entry(PLAN, {"todos": to_builtins(event.todos)})
        self._emit(event)

    def _remind(self, stop: Stop) -> None:
        """Call open todos to mind with the next prompt, a few times in a row at most."""
        left = [t.text for t in self.todos if t.status != "completed"]
        if stop == "end_turn" and left and self.reminded < self.todo_reminders:
            self.reminded += 1
            self.next_turn(reminder(left))
        elif not left:
            self.reminded = 0

    def _delivered(self) -> None:
        """Note that the agent took the first prompt with a handoff in its context."""
        if self._undelivered:
            with suppress(TasukiError):
                self.vault.append(self._undelivered, handoffs.event("delivered"))
            self._undelivered = ""

    # -- handoff ---------------------------------------------------------------------------

    def abort_handoff(self) -> None:
        """Cancel the handoff that is being generated; nothing happens where there is none."""
        if self._abort is not None:
            self._abort.set()

    async def handoff(
        self, custom_instructions: str | None = None, goal: str | None = None
    ) -> Outcome | None:
        """Hand the conversation off to a fresh session; None if it was cancelled.

        `custom_instructions` are what the document is to look at most. With a `goal` the goal rules
        hold. Raises NothingToHandOff for fewer than two messages, GoalTooVague, GoalHasSecret,
        AuthorFailed if the agent wrote nothing, AgentFailed, StoreFailed; the old session is then
        still in use.
        """
        self._refuse_while_busy()
        if self.manager.message_count() < LEAST_MESSAGES:
            raise NothingToHandOff(NOTHING)
        least = self.loaded.settings.min_goal_length
        wanted = check_goal(goal, min_length=least) if goal is not None else None
        self._abort = abort = asyncio.Event()
        try:
            written = await self._written((custom_instructions or "").strip(), wanted, abort)
            return None if abort.is_set() else await self._switch(written, wanted, abort)
        except Cancelled:
            return None
        finally:
            self._abort = None

    async def _written(self, focus: str, goal: Goal | None, abort: asyncio.Event) -> Handed:
        """The handoff, written by this session and kept in the vault."""
        self.manager.flush()
        writing = Writing(
            self._asked, self.backend.cancel, abort, self.loaded.settings.author_seconds
        )
        return await writing.run(
            lambda ask: handed(
                *self._thread(),
                ask,
                loaded=self.loaded,
                focus=focus,
                goal=goal,
                vault=self.vault,
                to=self.backend.name if self.backend.name in harnesses.names() else "",
                made=self._made(),
                report=writing.reporting(lambda phase: self._emit(HandoffPhase(phase))),
            )
        )

    def _thread(self) -> tuple[Harness, Path]:
        """The thread to read: the agent's own where it has the whole conversation, else this file."""
        own = self.backend.thread() if self._complete else None
        if own and holds(*own, self._newest_prompt()):
            return own
        return harnesses.get("pi"), self.manager.path

    def _newest_prompt(self) -> str:
        """What the user said last."""
        said = (e["message"] for e in reversed(self.manager.get_branch()) if e["type"] == "message")
        texts = (messages.text_of(m) for m in said if m.get("role") == "user")
        return next((text for text in texts if not asks_for_document(text)), "")

    def _made(self) -> tuple[str, ...]:
        """What the successor may want to open: the newest files that were made, and the todo list."""
        marks = {"completed": "x", "in_progress": "~", "pending": " "}
        files = [f"- `{made.path}`" for made in self.manager.artifacts()]
        todos = [f"- [{marks[t.status]}] {t.text}" for t in self.todos]
        return (*listed(files, "files"), *listed(todos, "todos"))

    async def _asked(self, question: str) -> TurnEnded:
        """A question of ours, to the letter, in the session in use."""
        self.manager.append_message({**messages.user_message(question), "attribution": "agent"})
        return await self._turn([question], internal=True)

    async def _switch(self, written: Handed, goal: Goal | None, abort: asyncio.Event) -> Outcome:
        """Put a fresh session on disk, open the agent's, then use them. Raises Cancelled."""
        before, todos = self.manager.save(), self.todos
        parent = self.manager.path
        self.manager.flush()
        self.manager.new_session(parent=str(parent))
        try:
            self._begin(written, parent, todos)
            opened = await unless(abort, self.backend.open(self.messages, self._unasked))
        except BaseException:
            fresh = self.manager.path
            self.manager.restore(before)
            with suppress(OSError):
                fresh.unlink(missing_ok=True)
            raise
        self.backend_session = opened
        self._complete, self._undelivered = True, written.handoff.id
        self.reminded = 0
        prefill = "\n".join([*([goal.text] if goal else []), *self.queues.clear()])
        self._started(written, opened)
        self._emit(QueueChanged(()))
        self._emit(SessionSwitched(self.session_id, self.manager.path))
        return Outcome(written.document, written.message, written.handoff.id, prefill, written.told)

    def _begin(self, written: Handed, parent: Path, todos: Sequence[Todo]) -> None:
        """What a fresh session holds: the handoff, and the plan as it stood."""
        origin = written.handoff.predecessor
        predecessor = {"harness": origin.harness, "id": origin.thread_id, "path": origin.path}
        details: Json = {"handoff": written.handoff.id, "predecessor": predecessor}
        self.manager.append_custom_message_entry(CUSTOM_TYPE, written.message, True, details)
        if todos:
            plan = {"todos": to_builtins(todos), "from": str(parent)}
            self.manager.append_custom_entry(PLAN, plan)
        self.manager.flush()

    def _started(self, written: Handed, opened: str) -> None:
        known = {"harness": self.backend.name, "successor_thread": opened or self.session_id,
                 "successor_path": str(self.manager.path)}  # fmt: skip
        with suppress(TasukiError):
            self.vault.append(written.handoff.id, handoffs.event("started", **known))
