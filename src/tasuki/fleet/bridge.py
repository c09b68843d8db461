"""Types text into the pane of an agent, once, and proves that it was taken.

    written down ─▶ the input is empty ─▶ pasted ─▶ Enter ─▶ its turn began
                                                   └▶ one more Enter where the text still stands

Each paste and Enter leaves a mark on the pane in the same tmux command, so that after a crash it is
known how far it came. What can be proven neither to have arrived nor to be absent is uncertain, and
is never typed again.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from tasuki import harness as harnesses
from tasuki.draft.screen_redaction import redact_screen
from tasuki.errors import NotPossible, PaneGone, TasukiError
from tasuki.fleet import intents, log
from tasuki.fleet.changes import Changes
from tasuki.fleet.database import Database
from tasuki.fleet.failures import Closing, Stopped
from tasuki.fleet.intents import Intent
from tasuki.fleet.rows import Agent
from tasuki.harness.control import Control, Sight
from tasuki.launch.panes import Panes
from tasuki.launch.processes import has_terminal, is_alive
from tasuki.plain import one_line

TAKEN_SECONDS = 3.0
"""How long the screen may take to show a paste."""
READY_SECONDS = 15.0
"""How long an agent that told it is idle may take until its input is ready."""
CLEARED_SECONDS = 0.7
"""How long the screen may take to show that a line of the input was taken away."""
STANDS_SECONDS = 1.5
"""How long a text may stand in the input behind Enter before Enter is pressed once more."""
POLL_SECONDS = 0.1
_HINDRANCES = {"busy": "it is at work", "waiting": "it waits for an answer to a question"}
BEHIND = "it is stopped, or another program has its terminal"
MOST_LINES = 40
"""Lines of unsent input that are taken away."""


class Sent(Struct, frozen=True):
    """What became of a text. `leftover` is what stood in the input before, and was taken away.

    proven: its turn began, or what it asks for happened. uncertain: nothing can be proven.
    refused: it was not typed, `why` says what was in the way.
    """

    state: Literal["proven", "uncertain", "refused"]
    leftover: str = ""
    why: str = ""


class Bridge:
    """Types into panes; one text at a time for each."""

    def __init__(self, database: Database, panes: Panes, changes: Changes) -> None:
        self.database = database
        self.panes = panes
        self.changes = changes

    def sight(self, agent: Agent) -> Sight:
        """What the program of an agent does now. Raises PaneGone, also where only its shell is left."""
        if agent.adopted and agent.process and not is_alive(agent.process, agent.process_began):
            raise PaneGone(f"The program of agent {agent.id} in pane {agent.pane} has ended.")
        look = self.panes.look(agent.pane)
        told = replace(look, pid=agent.process or look.pid, session=agent.session)
        return control_of(agent).sight(told)

    def deliver(
        self,
        agent: Agent,
        intent: Intent,
        text: str,
        seconds: float,
        happened: Callable[[], bool] | None = None,
        *,
        at_once: bool = False,
        wanted: Callable[[], bool] = lambda: True,
    ) -> Sent:
        """Type a text, or go on where that was broken off; waits `seconds` for the proof.

        `happened` tells whether what the text asks for has happened, where that begins no turn;
        `at_once` types it to an agent that is at work, too, which takes it up later. `wanted` is asked
        before each paste and Enter: once it says no, nothing more is typed, and Stopped is raised.
        Raises PaneGone, LaunchFailed.
        """
        proven = happened or (lambda: self._is_proven(intent.id))
        if proven():
            return Sent("proven")
        with self.panes.lock(agent.pane):
            leftover, why = self._typed(agent, intent, text, wanted, at_once=at_once)
            leftover = redact_screen(leftover)
            if why:
                return Sent("refused", leftover, why)
            with self.database.write(synced=False) as connection:
                intents.mark(connection, intent.id, "sent")
            if self._see(agent, intent, proven, wanted, seconds):
                with self.database.write(synced=False) as connection:
                    intents.mark(connection, intent.id, "proven")
                return Sent("proven", leftover)
        with self.database.write(synced=False) as connection:
            intents.mark(connection, intent.id, "uncertain")
        return Sent("uncertain", leftover)

    def press(self, agent: Agent, key: str) -> None:
        """Press one key, between texts that are typed. Raises NotPossible, LaunchFailed."""
        with self.panes.lock(agent.pane):
            if not _is_in_front(agent):
                raise NotPossible(f"Nothing is typed to agent {agent.id}: {BEHIND}.")
            try:
                self.panes.keys(agent.pane, key, pid=_pid(agent))
            except PaneGone as error:
                raise NotPossible(str(error)) from error

    def _typed(
        self, agent: Agent, intent: Intent, text: str, wanted: Callable[[], bool], *, at_once: bool
    ) -> tuple[str, str]:
        """Paste and press Enter, as far as that was not done; what stood there, and what hinders."""
        control, leftover, before = control_of(agent), "", ""
        if not _is_in_front(agent):
            return "", BEHIND
        marks = self.panes.marks(agent.pane, _pid(agent))
        if marks.paste != intent.id and self.panes.was_pasted(agent.pane, intent.id):
            return "", ""  # another text came after it: only its proof can tell what became of it
        if marks.paste != intent.id:
            sight = self.sight(agent) if at_once else self._ready(agent)
            if not at_once and (why := _HINDRANCES.get(sight.state, "")):
                return "", why
            leftover, before = self._emptied(agent, control, sight.typed)
            if before and leftover:
                return (
                    leftover,
                    f"something stands in its input: {one_line(redact_screen(before), 80)!r}",
                )
            check_wanted(wanted)
            if not _is_in_front(agent):
                return leftover, BEHIND
            self.panes.paste(agent.pane, text, intent.id, _pid(agent))
        if marks.enter not in (intent.id, _again(intent)):
            self._await(lambda: self.sight(agent).typed != before, TAKEN_SECONDS)
            time.sleep(control.enter_gap)
            check_wanted(wanted)
            if not _is_in_front(agent):
                return leftover, BEHIND
            self.panes.enter(agent.pane, intent.id, _pid(agent))
        return leftover, ""

    def _ready(self, agent: Agent) -> Sight:
        """What is to be seen once something can be typed, or after waiting for that."""
        deadline = time.monotonic() + READY_SECONDS
        while (sight := self.sight(agent)).state in _HINDRANCES and time.monotonic() < deadline:
            self._pause()
        return sight

    def _emptied(self, agent: Agent, control: Control, first: str) -> tuple[str, str]:
        """Take away what stands in the input; what it was, and what stands there still.

        It is written into the log before. What a key that deletes does not change is no text but a
        hint of the program's.
        """
        if not first or not control.clear_keys:
            return first, first
        said = f"What stood unsent in the input of agent {agent.id}: {redact_screen(first)}"
        with self.database.write() as connection:
            log.note(connection, "leftover", said, agent_id=agent.id)
        now, same = first, 0
        for _ in range(MOST_LINES):
            if (
                not now or same == 2
            ):  # a line goes in two: its words, then its end, which is not seen
                break
            self.panes.keys(agent.pane, *control.clear_keys, pid=_pid(agent))
            before = now
            self._await(lambda seen=before: self.sight(agent).typed != seen, CLEARED_SECONDS)  # type: ignore[misc]
            now = self.sight(agent).typed
            same = same + 1 if now == before else 0
        return ("", now) if now == first else (first, now)

    def _see(
        self,
        agent: Agent,
        intent: Intent,
        proven: Callable[[], bool],
        wanted: Callable[[], bool],
        seconds: float,
    ) -> bool:
        """Wait for the proof; press Enter once more where the text still stands in the input."""
        began, pressed = time.monotonic(), False
        with self.changes.of([agent.id]) as news:
            while (waited := time.monotonic() - began) < seconds:
                if proven():
                    return True
                if self.changes.closing.is_set():
                    raise Closing
                check_wanted(wanted)
                if not pressed and waited > STANDS_SECONDS:
                    pressed = True
                    if self._still_stands(agent):
                        self._once_more(agent, intent)
                news.wait(min(0.5, max(0.05, seconds - waited)))
                news.clear()
        return proven() or self._in_thread(agent, intent.proof)

    def _once_more(self, agent: Agent, intent: Intent) -> None:
        if self.panes.marks(agent.pane, _pid(agent)).enter != _again(intent):
            self.panes.enter(agent.pane, _again(intent), _pid(agent))

    def _still_stands(self, agent: Agent) -> bool:
        """Whether the text, or the placeholder of a long paste, stands unsent in the input."""
        try:
            sight = self.sight(agent)
        except PaneGone:
            return False
        return bool(sight.typed) and sight.state != "busy"

    def _is_proven(self, id: str) -> bool:
        with self.database.read() as connection:
            found = intents.get(connection, id)
        return bool(found and found.state == "proven")

    def _in_thread(self, agent: Agent, proof: str) -> bool:
        """Whether the agent's own thread has the words, for a harness whose hooks are silent."""
        return bool(proof) and holds(agent, proof)

    def _await(self, condition: Callable[[], bool], seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                return False
            self._pause()
        return True

    def _pause(self) -> None:
        if self.changes.closing.wait(POLL_SECONDS):
            raise Closing


def holds(agent: Agent, words: str) -> bool:
    """Whether a prompt in an agent's own thread has these words."""
    return any(words in entry.text for entry in entries(agent) if entry.kind == "user")


def entries(agent: Agent) -> list:  # type: ignore[type-arg]
    """The entries of an agent's thread; none while it cannot be read."""
    if not agent.thread:
        return []
    try:
        return list(harnesses.get(agent.harness).read(Path(agent.thread)).entries)
    except TasukiError:
        return []


def check_wanted(wanted: Callable[[], bool]) -> None:
    """Raises Stopped where something is not wanted any more."""
    if not wanted():
        raise Stopped("What was to be typed is not wanted any more.")


def _pid(agent: Agent) -> int:
    return agent.pid or 0


def _is_in_front(agent: Agent) -> bool:
    """Whether what is typed into the pane of an agent reaches it, and not the shell that it was adopted in."""
    if not (agent.adopted and agent.process and agent.pid):
        return True
    return has_terminal(agent.process, agent.pid)


def _again(intent: Intent) -> str:
    return f"{intent.id}+"


def control_of(agent: Agent) -> Control:
    """How agents of its harness are run. Raises NotPossible."""
    control = harnesses.control(harnesses.get(agent.harness))
    if control is None:
        raise TasukiError(f"Agents of {agent.harness} cannot be run by tasuki.")
    return control
