"""Types a text into an agent's pane, once, and proves that it was taken.

    written down ─▶ the input is empty ─▶ pasted ─▶ Enter ─▶ its turn began
                                                 └▶ one more Enter if the text is still there

Each paste and Enter leaves a mark on the pane in the same tmux command, so after a crash it
is known how far it came. A text that can be proven neither to have arrived nor to be absent
is uncertain, and is never typed again.
"""

import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from tasuki.draft.redact.screen import redact_screen
from tasuki.errors import NotPossible, PaneGone, TasukiError
from tasuki.fleet.delivery import outbox
from tasuki.fleet.delivery.outbox import TypingIntent
from tasuki.fleet.store import log
from tasuki.fleet.store.database import FleetDatabase
from tasuki.fleet.store.failures import HandoffStopped, ServerClosing
from tasuki.fleet.store.log import ChangeFeed
from tasuki.fleet.store.models import FleetAgent
from tasuki.harness import registry as harnesses
from tasuki.harness.protocol import AgentControl, Screenshot, ScreenState
from tasuki.launch.processes import has_terminal, is_alive
from tasuki.launch.tmux.panes import TmuxPanes
from tasuki.launch.tmux.paste import PaneKey, PressedKey
from tasuki.text_safety import shorten_to_line

KEYS_SECONDS = 20.0
"""How long keys wait for a text that is being typed."""
TAKEN_SECONDS = 3.0
"""How long the screen may take to show a paste."""
READY_SECONDS = 15.0
"""How long an agent that reported idle may take until its input is ready."""
CLEARED_SECONDS = 0.7
"""How long the screen may take to show that a line of the input was removed."""
STANDS_SECONDS = 1.5
"""How long a text may stay in the input after Enter before Enter is pressed once more."""
POLL_SECONDS = 0.1
_BLOCKERS = {"busy": "it is working", "waiting": "it waits for an answer to a question"}
NOT_IN_FRONT = "it is stopped, or another program has its terminal"
MOST_LINES = 40
"""Most lines of unsent input that are removed."""


class DeliveryResult(Struct, frozen=True):
    """The outcome of typing a text.

    `leftover` is unsent input that was there before and was removed.

    proven: its turn began, or what it asks for happened. uncertain: nothing can be proven.
    refused: it was not typed, and `why` gives the reason.
    """

    state: Literal["proven", "uncertain", "refused"]
    leftover: str = ""
    why: str = ""


class PromptDelivery:
    """Types texts into panes, one at a time for each pane."""

    def __init__(self, database: FleetDatabase, panes: TmuxPanes, changes: ChangeFeed) -> None:
        self.database = database
        self.panes = panes
        self.changes = changes

    def _has_other_input(self, agent: FleetAgent, before: str) -> bool:
        return self.read_screen_state(agent).typed != before

    def read_screen_state(self, agent: FleetAgent) -> ScreenState:
        """Return what the agent's program does now.

        Raises PaneGone, also if only its shell is left.
        """
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

        `has_happened` says whether what the text asks for has happened, for a text that begins no
        turn. With `at_once` the text is also typed to a busy agent, which takes it up later.
        `is_wanted` is asked before each paste and Enter: once it returns False, nothing more is typed,
        and HandoffStopped is raised. Raises PaneGone, LaunchFailed.
        """
        is_proven = has_happened or (lambda: self._is_proven(intent.id))
        if is_proven():
            return DeliveryResult("proven")
        with self.panes.lock(agent.pane):
            leftover, why = self._type_text(agent, intent, text, is_wanted, at_once=at_once)
            leftover = redact_screen(leftover)
            if why:
                return DeliveryResult("refused", leftover, why)
            with self.database.write(synced=False) as connection:
                outbox.mark_intent(connection, intent.id, "sent")
            if self._await_proof(agent, intent, is_proven, is_wanted, seconds):
                with self.database.write(synced=False) as connection:
                    outbox.mark_intent(connection, intent.id, "proven")
                return DeliveryResult("proven", leftover)
        with self.database.write(synced=False) as connection:
            outbox.mark_intent(connection, intent.id, "uncertain")
        return DeliveryResult("uncertain", leftover)

    def press_key(self, agent: FleetAgent, key: str) -> None:
        """Press one key, never while a text is being typed. Raises NotPossible, LaunchFailed."""
        self.type_keys(agent, [PressedKey(key)])

    def type_keys(self, agent: FleetAgent, keys: Sequence[PaneKey]) -> None:
        """Type keys in order, never while a text is being typed. Raises NotPossible, LaunchFailed."""
        with self.panes.lock(agent.pane, KEYS_SECONDS):
            if not is_in_front(agent):
                raise NotPossible(f"Nothing is typed to agent {agent.id}: {NOT_IN_FRONT}.")
            try:
                self.panes.type_keys(agent.pane, keys, pid=_get_pid(agent))
            except PaneGone as error:
                raise NotPossible(str(error)) from error

    def _type_text(
        self,
        agent: FleetAgent,
        intent: TypingIntent,
        text: str,
        is_wanted: Callable[[], bool],
        *,
        at_once: bool,
    ) -> tuple[str, str]:
        """Paste and press Enter, unless that is done; return the leftover input and the blocker."""
        control, leftover, before = get_control(agent), "", ""
        if not is_in_front(agent):
            return "", NOT_IN_FRONT
        marks = self.panes.read_marks(agent.pane, _get_pid(agent))
        if marks.paste != intent.id and self.panes.was_pasted(agent.pane, intent.id):
            return "", ""  # another text came after it: only its proof can tell what became of it
        if marks.paste != intent.id:
            sight = self.read_screen_state(agent) if at_once else self._await_ready(agent)
            if not at_once and (why := _BLOCKERS.get(sight.state, "")):
                return "", why
            leftover, before = self._clear_input(agent, control, sight.typed)
            if before and leftover:
                return (
                    leftover,
                    f"there is other text in its input: {shorten_to_line(redact_screen(before), 80)!r}",
                )
            check_wanted(is_wanted)
            if not is_in_front(agent):
                return leftover, NOT_IN_FRONT
            self.panes.paste(agent.pane, text, intent.id, _get_pid(agent))
        if marks.enter not in (intent.id, _build_second_mark(intent)):
            self._await(lambda: self.read_screen_state(agent).typed != before, TAKEN_SECONDS)
            time.sleep(control.enter_gap)
            check_wanted(is_wanted)
            if not is_in_front(agent):
                return leftover, NOT_IN_FRONT
            self.panes.enter(agent.pane, intent.id, _get_pid(agent))
        return leftover, ""

    def _await_ready(self, agent: FleetAgent) -> ScreenState:
        """Return the state of the screen once the input is ready, or when the wait is over."""
        deadline = time.monotonic() + READY_SECONDS
        while (
            sight := self.read_screen_state(agent)
        ).state in _BLOCKERS and time.monotonic() < deadline:
            self._pause()
        return sight

    def _clear_input(self, agent: FleetAgent, control: AgentControl, first: str) -> tuple[str, str]:
        """Clear the input; return what was in it, and what is still in it.

        The leftover is written into the log first. Text that a delete key does not change is not
        input but a hint of the program.
        """
        if not first or not control.clear_keys:
            return first, first
        note = f"Unsent text in the input of agent {agent.id}: {redact_screen(first)}"
        with self.database.write() as connection:
            log.note(connection, "leftover", note, agent_id=agent.id)
        now, same = first, 0
        for _ in range(MOST_LINES):
            # A line goes in two: its words, then its end, which is not seen.
            if not now or same == 2:
                break
            self.panes.press_keys(agent.pane, *control.clear_keys, pid=_get_pid(agent))
            before = now
            self._await(partial(self._has_other_input, agent, now), CLEARED_SECONDS)
            now = self.read_screen_state(agent).typed
            same = same + 1 if now == before else 0
        return ("", now) if now == first else (first, now)

    def _await_proof(
        self,
        agent: FleetAgent,
        intent: TypingIntent,
        is_proven: Callable[[], bool],
        is_wanted: Callable[[], bool],
        seconds: float,
    ) -> bool:
        """Wait for the proof; press Enter once more if the text is still in the input."""
        began, pressed = time.monotonic(), False
        with self.changes.subscribe([agent.id]) as news:
            while (waited := time.monotonic() - began) < seconds:
                if is_proven():
                    return True
                if self.changes.closing.is_set():
                    raise ServerClosing
                check_wanted(is_wanted)
                if not pressed and waited > STANDS_SECONDS:
                    pressed = True
                    if self._is_still_unsent(agent):
                        self._press_enter_again(agent, intent)
                news.wait(min(0.5, max(0.05, seconds - waited)))
                news.clear()
        # The thread is the proof for a harness whose hooks are silent.
        return is_proven() or (bool(intent.proof) and has_prompt_with(agent, intent.proof))

    def _press_enter_again(self, agent: FleetAgent, intent: TypingIntent) -> None:
        if self.panes.read_marks(agent.pane, _get_pid(agent)).enter != _build_second_mark(intent):
            self.panes.enter(agent.pane, _build_second_mark(intent), _get_pid(agent))

    def _is_still_unsent(self, agent: FleetAgent) -> bool:
        """Whether the text, or the placeholder of a long paste, is still unsent in the input."""
        try:
            sight = self.read_screen_state(agent)
        except PaneGone:
            return False
        return bool(sight.typed) and sight.state != "busy"

    def _is_proven(self, intent_id: str) -> bool:
        with self.database.read() as connection:
            intent = outbox.load_intent(connection, intent_id)
        return bool(intent and intent.state == "proven")

    def _await(self, condition: Callable[[], bool], seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                return False
            self._pause()
        return True

    def _pause(self) -> None:
        if self.changes.closing.wait(POLL_SECONDS):
            raise ServerClosing


def has_prompt_with(agent: FleetAgent, words: str) -> bool:
    """Whether a prompt in the agent's thread has these words."""
    return any(words in entry.text for entry in read_entries(agent) if entry.kind == "user")


def read_entries(agent: FleetAgent) -> list:  # type: ignore[type-arg]
    """Return the entries of an agent's thread; none while it cannot be read."""
    if not agent.thread:
        return []
    try:
        return list(harnesses.get_harness(agent.harness).read(Path(agent.thread)).entries)
    except TasukiError:
        return []


def check_wanted(is_wanted: Callable[[], bool]) -> None:
    """Raise HandoffStopped where the text is no longer wanted."""
    if not is_wanted():
        raise HandoffStopped("The text is no longer wanted.")


def _get_pid(agent: FleetAgent) -> int:
    return agent.pid or 0


def is_in_front(agent: FleetAgent) -> bool:
    """Whether text typed into an agent's pane reaches the agent.

    It does not while the shell in which the agent was adopted has the terminal.
    """
    if not (agent.adopted and agent.process and agent.pid):
        return True
    return has_terminal(agent.process, agent.pid)


def _build_second_mark(intent: TypingIntent) -> str:
    return f"{intent.id}+"


def get_control(agent: FleetAgent) -> AgentControl:
    """Return the control of the agent's harness. Raises NotPossible."""
    return harnesses.require_control(agent.harness)
