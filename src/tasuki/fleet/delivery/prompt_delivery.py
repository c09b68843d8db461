"""Types a text into an agent's pane, once, and proves that it was taken.

    written down ─▶ typed, as `typed_input` says ─▶ its turn began
                                            └▶ one more Enter if the input still holds just the text

Each paste and Enter leaves a mark on the pane in the same tmux command, so after a crash it
is known how far it came. A text that can be proven neither to have arrived nor to be absent
is uncertain, and is never typed again.
"""

import secrets
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Literal

import sqlalchemy as sa
from msgspec import Struct
from msgspec.structs import replace

from tasuki.draft.redact.screen import redact_screen
from tasuki.errors import NotPossible, PaneGone, TasukiError
from tasuki.fleet.delivery import outbox
from tasuki.fleet.delivery.typed_input import (
    NOT_IN_FRONT,
    TYPED_NOW,
    InputTyping,
    WantedText,
    check_wanted,
    get_control,
    is_in_front,
)
from tasuki.fleet.store import log, tables
from tasuki.fleet.store.database import FleetDatabase
from tasuki.fleet.store.failures import ServerClosing
from tasuki.fleet.store.log import ChangeFeed
from tasuki.fleet.store.models import FleetAgent, TypingIntent
from tasuki.harness import registry as harnesses
from tasuki.harness.protocol import Screenshot, ScreenState
from tasuki.harness.typed_text import is_command, is_unknown_command, prepare_text, squeeze_text
from tasuki.launch.processes import is_alive
from tasuki.launch.tmux.panes import TmuxPanes
from tasuki.launch.tmux.paste import PaneKey

KEYS_SECONDS = 20.0
"""How long keys wait for a text that is being typed."""
READY_SECONDS = 15.0
"""How long an agent that reported idle may take until its input is ready."""
STANDS_SECONDS = 1.5
"""How long a text may stay in the input after Enter before Enter is pressed once more."""
COMMAND_SECONDS = 3.0
"""How long after Enter the screen shows what became of a command that no event reports."""
FIELD_SECONDS = 3.0
"""How long a dialog may take to open the field of a choice."""
FIELD_GAP = 0.3
"""Seconds between words in a field and Enter."""
CLOCK_SECONDS = 1.0
"""How far the times of a thread may be off."""
_BLOCKERS = {"busy": "it is working", "waiting": "it waits for an answer to a question"}
AT_WORK = "it is working, and this is a command of its program: send it once it is idle"
_DONE = {
    "compacting": "it compacts its context", "compacted": "it compacted its context",
    "started": "it began another session", "ended": "it ended",
}  # fmt: skip
"""What a command did, by the event that reports it."""


class DeliveryResult(Struct, frozen=True):
    """The outcome of typing a text.

    `leftover` is unsent input that was there before: removed, unless the program puts it back.

    proven: its turn began, or what it asks for happened; `why` says what a command did that began
    none. uncertain: nothing can be proven. refused: it was not sent, and `why` gives the reason, which
    waiting does not change where it is `lasting`.
    """

    state: Literal["proven", "uncertain", "refused"]
    leftover: str = ""
    why: str = ""
    lasting: bool = False


class PromptDelivery:
    """Types texts into panes, one at a time for each pane."""

    def __init__(self, database: FleetDatabase, panes: TmuxPanes, changes: ChangeFeed) -> None:
        self.database = database
        self.panes = panes
        self.changes = changes
        self.typing = InputTyping(panes, changes)

    def read_screen_state(self, agent: FleetAgent) -> ScreenState:
        """Return what its program does now. Raises PaneGone, also if only its shell is left."""
        return get_control(agent).read_screen(self.capture_screen(agent))

    def capture_screen(self, agent: FleetAgent) -> Screenshot:
        """Capture the screen of the agent's program. Raises PaneGone as `read_screen_state`."""
        if agent.adopted and agent.process and not is_alive(agent.process, agent.process_began):
            raise PaneGone(f"The program of agent {agent.id} in pane {agent.pane} has ended.")
        screenshot = self.panes.capture_screen(agent.pane)
        return replace(screenshot, pid=agent.process or screenshot.pid, session=agent.session)

    def deliver_text(
        self,
        agent: FleetAgent,
        intent: TypingIntent,
        text: str,
        seconds: float,
        has_happened: Callable[[], bool] | None = None,
        *,
        at_once: bool = False,
        is_wanted: Callable[[], bool] = lambda: True,
    ) -> DeliveryResult:
        """Type a text, or continue where typing was interrupted; wait `seconds` for the proof.

        `has_happened` says whether the program has ended, for the text that ends it. With `at_once`
        the text is also typed to a busy agent, which takes it up later. `is_wanted` is asked before
        each paste and Enter: once it returns False, nothing more is typed, and HandoffStopped is
        raised. Raises PaneGone, LaunchFailed.
        """
        is_proven = has_happened or (lambda: self._is_proven(intent.id))
        if is_proven():
            return DeliveryResult("proven")
        if at_once and is_command(text):
            return DeliveryResult("refused", why=AT_WORK)
        try:
            text = text if has_happened else prepare_text(text, get_control(agent))
        except NotPossible as error:
            return DeliveryResult("refused", why=str(error), lasting=True)
        wanted = WantedText(
            agent, intent.id, text, lambda: self.read_screen_state(agent), is_wanted, has_happened is not None
        )  # fmt: skip
        with self.panes.lock(agent.pane):
            wanted, why = self._type_text(wanted, at_once=at_once)
            leftover = redact_screen(wanted.leftover)
            if why:
                waits = why in (*_BLOCKERS.values(), NOT_IN_FRONT, TYPED_NOW)
                return DeliveryResult("refused", leftover, why, not waits)
            outbox.mark_intent(self.database, intent.id, "sent")
            try:
                done = self._await_proof(wanted, intent, is_proven, seconds)
            except NotPossible as error:
                return DeliveryResult("refused", leftover, str(error), lasting=True)
            if done is None and self._is_taken_back(wanted, is_proven):
                why = "its program did not take it"
                return DeliveryResult("refused", leftover, why, lasting=True)
        state: Literal["proven", "uncertain"] = "uncertain" if done is None else "proven"
        outbox.mark_intent(self.database, intent.id, state)
        return DeliveryResult(state, leftover, done or "")

    def type_words(self, agent: FleetAgent, keys: Sequence[str], text: str) -> None:
        """Type words into the field of a dialog, which `keys` open, and submit them.

        Whoever calls holds the pane. Raises NotPossible, with nothing sent, where the field is not
        proven to be empty, or then to hold just these words; PaneGone, LaunchFailed.
        """
        control, key = get_control(agent), "".join(keys)

        def read() -> ScreenState:
            field = control.read_field(self.capture_screen(agent))
            is_open = field is not None and field.key == key
            return ScreenState(
                "waiting", *((field.typed, field.is_whole) if field and is_open else ())
            )

        text = f"{text} " if text.endswith("\\") else text  # Else Enter begins another line.
        wanted = WantedText(agent, f"answer-{secrets.token_hex(8)}", text, read)
        if keys and read().typed is None:
            self.panes.press_keys(agent.pane, *keys, pid=wanted.pid)
        self.typing.await_change(wanted.is_input_empty, FIELD_SECONDS)
        why = self.typing.paste_text(wanted) or self.typing.enter_text(wanted, FIELD_GAP)
        if why:
            raise NotPossible(f"The answer was not sent: {why}. Look at its terminal.")

    def type_keys(self, agent: FleetAgent, keys: Sequence[PaneKey]) -> None:
        """Type keys in order, never while a text is being typed. Raises NotPossible, LaunchFailed."""
        with self.panes.lock(agent.pane, KEYS_SECONDS):
            if not is_in_front(agent):
                raise NotPossible(f"Nothing is typed to agent {agent.id}: {NOT_IN_FRONT}.")
            try:
                self.panes.type_keys(agent.pane, keys, pid=agent.pid or 0)
            except PaneGone as error:
                raise NotPossible(str(error)) from error

    def _type_text(self, wanted: WantedText, *, at_once: bool) -> tuple[WantedText, str]:
        """Paste and press Enter, unless that is done; return the text with its leftover, and why not."""
        agent = wanted.agent
        if not is_in_front(agent):
            return wanted, NOT_IN_FRONT
        marks = self.panes.read_marks(agent.pane, wanted.pid)
        if marks.paste == wanted.id:
            is_entered = marks.enter in (wanted.id, _build_second_mark(wanted))
            return wanted, "" if is_entered else self.typing.type_text(wanted, is_pasted=True)
        if self.panes.was_pasted(agent.pane, wanted.id):
            # Another text came after it: only its proof can tell what became of it.
            return wanted, ""
        shown = self._await_ready(agent, at_once=at_once)
        if not at_once and (why := _BLOCKERS.get(shown.state, "")):
            return wanted, why
        if shown.typed:
            if self.typing.is_typed_now(wanted, shown):
                return wanted, TYPED_NOW
            wanted = replace(wanted, leftover=shown.typed)
            note = f"Unsent text in the input of agent {agent.id}: {redact_screen(shown.typed)}"
            log.note(self.database, "leftover", note, agent_id=agent.id)
            if why := self.typing.empty_input(wanted, shown):
                return wanted, why
        return wanted, self.typing.type_text(wanted)

    def _await_ready(self, agent: FleetAgent, *, at_once: bool) -> ScreenState:
        """Return the state of the screen once the input is ready, or when the wait is over."""

        def is_ready() -> bool:
            shown = self.read_screen_state(agent)
            return shown.typed is not None and (at_once or shown.state not in _BLOCKERS)

        self.typing.await_change(is_ready, READY_SECONDS)
        return self.read_screen_state(agent)

    def _await_proof(
        self,
        wanted: WantedText,
        intent: TypingIntent,
        is_proven: Callable[[], bool],
        seconds: float,
    ) -> str | None:
        """Wait for the proof; return None for none, and what is proven of a command.

        Press Enter once more if the input still holds just the text. Raises NotPossible for a command
        that its program does not know.
        """
        agent, began, pressed = wanted.agent, time.monotonic(), False
        with self.changes.subscribe([agent.id]) as news:
            while (waited := time.monotonic() - began) < seconds:
                if is_proven():
                    return ""
                if self.changes.closing.is_set():
                    raise ServerClosing
                check_wanted(wanted.is_wanted)
                if not pressed and waited > STANDS_SECONDS:
                    pressed = True
                    second, marks = _build_second_mark(wanted), self.panes.read_marks
                    if self._is_unsent(wanted) and marks(agent.pane, wanted.pid).enter != second:
                        self.panes.enter(agent.pane, second, wanted.pid)
                if waited > COMMAND_SECONDS and (done := self._describe_command(wanted, intent)):
                    return done
                news.wait(min(0.5, max(0.05, seconds - waited)))
                news.clear()
        # The thread is the proof for a harness whose hooks are silent.
        proof = intent.proof
        is_there = is_proven() or (proof and has_prompt_with(agent, proof, intent.created_at))
        return "" if is_there else None

    def _describe_command(self, wanted: WantedText, intent: TypingIntent) -> str:
        """Describe what a command did; empty for words, and unsent. Raises NotPossible if unknown."""
        if wanted.ends_program or not is_command(wanted.text):
            return ""
        events = tables.events.c
        query = sa.select(events.kind).where(
            events.agent_id == wanted.agent.id, events.kind.in_(_DONE),
            events.received_at >= intent.created_at,
        )  # fmt: skip
        kinds = set(self.database.fetch(query).scalars())
        try:
            shown = wanted.read()
        except PaneGone:
            return "its program took it as a command: it ended"
        if done := next((_DONE[kind] for kind in _DONE if kind in kinds), ""):
            return f"its program took it as a command: {done}"
        if shown.typed is None:
            return "its program took it as a command, and shows a dialog or a menu now"
        if is_unknown_command(wanted.text, self.capture_screen(wanted.agent).text):
            raise NotPossible("its program knows no such command: put a word in front")
        is_gone = shown.typed in ("", wanted.leftover)
        return "its program took it as a command: its terminal shows what it did" if is_gone else ""

    def _is_unsent(self, wanted: WantedText) -> bool:
        with suppress(PaneGone):
            return wanted.is_unsent()
        return False

    def _is_taken_back(self, wanted: WantedText, is_proven: Callable[[], bool]) -> bool:
        """Take back a text that Enter did not send; whether it is proven that it was not."""
        if wanted.ends_program or not self._is_unsent(wanted) or not self.typing.take_back(wanted):
            return False
        # A program that was stopped meanwhile takes the Enter first, and then the keys of taking back.
        return not self.typing.await_change(
            lambda: is_proven() or wanted.read().state == "busy", COMMAND_SECONDS
        )

    def _is_proven(self, intent_id: str) -> bool:
        intent = outbox.load_intent(self.database, intent_id)
        return bool(intent and intent.state == "proven")


def has_prompt_with(agent: FleetAgent, words: str, since: float = 0.0) -> bool:
    """Whether a prompt in the agent's thread, typed after a moment, has these words."""
    wanted = squeeze_text(words)
    prompts = (entry for entry in read_entries(agent) if entry.kind == "user")
    return any(
        wanted in squeeze_text(prompt.text) for prompt in prompts if _was_typed(prompt.at, since)
    )


def _was_typed(at: str, since: float) -> bool:
    with suppress(ValueError):
        return not since or datetime.fromisoformat(at).timestamp() > since - CLOCK_SECONDS
    return False


def read_entries(agent: FleetAgent) -> list:  # type: ignore[type-arg]
    """Return the entries of an agent's thread; none while it cannot be read."""
    if not agent.thread:
        return []
    with suppress(TasukiError):
        return list(harnesses.get_harness(agent.harness).read(Path(agent.thread)).entries)
    return []


def _build_second_mark(wanted: WantedText) -> str:
    return f"{wanted.id}+"
