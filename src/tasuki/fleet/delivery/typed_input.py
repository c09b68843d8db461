"""The one contract by which a text gets into a program's input.

    the input is empty ─▶ pasted ─▶ the input holds exactly this text, or what stands for it ─▶ Enter

Each arrow is proven on the screen. What does not hold stops it there: nothing is sent, what was pasted
is taken back where the input holds just that, and unsent text of the user is back, or told whole.
"""

import time
from collections.abc import Callable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from tasuki.draft.redact.screen import redact_screen
from tasuki.fleet.store.failures import HandoffStopped, ServerClosing
from tasuki.fleet.store.log import ChangeFeed
from tasuki.fleet.store.models import FleetAgent
from tasuki.harness import registry as harnesses
from tasuki.harness.protocol import AgentControl, ScreenState
from tasuki.harness.typed_text import holds_text
from tasuki.launch.processes import has_terminal
from tasuki.launch.tmux.panes import TmuxPanes
from tasuki.launch.tmux.paste import PaneKey, PastedText, PressedKey
from tasuki.patterns import compile_pattern
from tasuki.text_safety import shorten_to_line

SHOWN_SECONDS = 8.0
"""How long the screen may take to show a paste, or an input that was emptied."""
STILL_SECONDS = 1.5
"""How long unsent text must stand still before it is removed: nobody types it just now."""
POLL_SECONDS = 0.1
_ATTACHED = compile_pattern(r"\[(?:Image|File|PDF|Document|Audio|Video)\b[^\]\n]*\]")
"""What stands for something that is attached to a draft."""
NOT_IN_FRONT = "it is stopped, or another program has its terminal"
TYPED_NOW = "somebody types into its input just now"
NO_INPUT = "its screen shows no input for a prompt now"


class WantedText(Struct, frozen=True):
    """A text that is to be typed under an id. `read` reads the input that it is for.

    `is_wanted` is asked before each paste and Enter. `ends_program`: it is the command that ends it.
    `leftover` is what was in the input.
    """

    agent: FleetAgent
    id: str
    text: str
    read: Callable[[], ScreenState]
    is_wanted: Callable[[], bool] = lambda: True
    ends_program: bool = False
    leftover: str = ""
    is_resumed: bool = False
    """It was pasted by a server that ended: what stands for a text must tell its size."""

    @property
    def pid(self) -> int:
        """The process of its pane, 0 where that is not known."""
        return self.agent.pid or 0

    def is_held(self) -> bool:
        """Tell whether the input holds exactly this text."""
        return self._is_in(self.read())

    def _is_in(self, shown: ScreenState) -> bool:
        pasted = get_control(self.agent).pasted
        return holds_text(shown, self.text, pasted, needs_size=self.is_resumed)

    def is_pasted(self) -> bool:
        """Tell whether the program shows this text, or asks what becomes of it."""
        return self.is_held() or self.read().asks_about_paste

    def is_unsent(self) -> bool:
        """Tell whether this text waits in the input of a program that does nothing.

        What was there before and is back is not this text, though it may be the same.
        """
        shown = self.read()
        is_own = shown.typed != self.leftover and shown.state != "busy"
        return is_own and self._is_in(shown)

    def is_input_empty(self) -> bool:
        """Tell whether the input is empty."""
        return self.read().typed == ""

    def check(self) -> str:
        """Return why nothing may be typed now, empty where it may. Raises HandoffStopped."""
        check_wanted(self.is_wanted)
        return "" if is_in_front(self.agent) else NOT_IN_FRONT


class InputTyping:
    """Types into the inputs of panes. Whoever calls holds the pane; all raise PaneGone, LaunchFailed."""

    def __init__(self, panes: TmuxPanes, changes: ChangeFeed) -> None:
        self.panes = panes
        self.changes = changes

    def type_text(self, wanted: WantedText, *, is_pasted: bool = False) -> str:
        """Paste a text, unless it is there, and press Enter; return why not. Raises HandoffStopped."""
        wanted = replace(wanted, is_resumed=is_pasted)
        try:
            why = ("" if is_pasted else self.paste_text(wanted)) or self.enter_text(wanted)
        except HandoffStopped:
            self.take_back(wanted)
            raise
        if why and not self.take_back(wanted):
            return f"{why}; nothing was sent, and what is there stays there"
        return why

    def paste_text(self, wanted: WantedText) -> str:
        """Paste a text into the empty input; return why not."""
        if why := wanted.check():
            return why
        if not wanted.is_input_empty():
            return describe_input(wanted.read())
        self.panes.paste(wanted.agent.pane, wanted.text, wanted.id, wanted.pid)
        return ""

    def enter_text(self, wanted: WantedText, gap: float = 0.0) -> str:
        """Press Enter once the input holds just the text, after `gap` seconds; return why not."""
        if self.await_change(wanted.is_pasted) and wanted.read().asks_about_paste:
            self._press(wanted, ("Escape",))
        if self.await_change(wanted.is_held):
            time.sleep(max(gap, get_control(wanted.agent).enter_gap))
        if why := wanted.check():
            return why
        if not wanted.is_held():
            return describe_input(wanted.read())
        self.panes.enter(wanted.agent.pane, wanted.id, wanted.pid)
        return ""

    def is_typed_now(self, wanted: WantedText, shown: ScreenState) -> bool:
        """Tell whether the unsent text in the input changes by itself: somebody types it."""
        return self.await_change(lambda: wanted.read().typed != shown.typed, STILL_SECONDS)

    def empty_input(self, wanted: WantedText, shown: ScreenState) -> str:
        """Remove unsent text from the input; return why that is not done.

        What the program itself does not put back has to be known whole.
        """
        control, words = get_control(wanted.agent), shown.typed or ""
        stands_for_more = control.pasted.search(words) or _ATTACHED.search(words)
        is_known = shown.is_whole and not stands_for_more and redact_screen(words) == words
        if control.own_keys:
            return f"{describe_input(shown)}, and {control.own_keys}"
        if control.stash_keys and shown.has_stash:
            return f"{describe_input(shown)}, and other text is set aside there"
        if not is_known and (wanted.ends_program or not control.stash_keys):
            return f"{describe_input(shown)}, which is not shown whole"
        self._press(wanted, control.stash_keys or control.clear_keys * (words.count("\n") + 1))
        if not self.await_change(wanted.is_input_empty):
            return f"{describe_input(wanted.read())}, which could not be removed"
        return ""

    def take_back(self, wanted: WantedText) -> bool:
        """Take a text out of an input that holds just that; return whether the input is as before."""
        control, leftover = get_control(wanted.agent), wanted.leftover
        if wanted.is_held():
            rows = (wanted.read().typed or "").count("\n") + 1
            self._press(wanted, control.clear_keys * rows)
            if not self.await_change(wanted.is_input_empty):
                return False
            self.panes.forget(wanted.agent.pane, wanted.id, wanted.pid)
        if not leftover or not wanted.is_input_empty():
            return not leftover and wanted.is_input_empty()
        pressed: list[PaneKey] = [PressedKey(key) for key in control.stash_keys]
        keys = pressed or [PastedText(leftover)]
        self.panes.type_keys(wanted.agent.pane, keys, wanted.pid)
        return self.await_change(lambda: wanted.read().typed == leftover)

    def _press(self, wanted: WantedText, keys: Sequence[str]) -> None:
        self.panes.press_keys(wanted.agent.pane, *keys, pid=wanted.pid)

    def await_change(self, condition: Callable[[], bool], seconds: float = SHOWN_SECONDS) -> bool:
        """Wait until a condition holds; return whether it does. Raises ServerClosing."""
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                return False
            if self.changes.closing.wait(POLL_SECONDS):
                raise ServerClosing
        return True


def describe_input(shown: ScreenState) -> str:
    """Describe in a sentence what is in an input where a text was to be typed."""
    if shown.typed is None:
        return NO_INPUT
    words = shorten_to_line(redact_screen(shown.typed), 80)
    return f"there is other text in its input: {words!r}" if words else "its input stayed empty"


def check_wanted(is_wanted: Callable[[], bool]) -> None:
    """Raise HandoffStopped where the text is no longer wanted."""
    if not is_wanted():
        raise HandoffStopped("The text is no longer wanted.")


def is_in_front(agent: FleetAgent) -> bool:
    """Whether typed text reaches an agent: not while the shell it was adopted in is in front."""
    if not (agent.adopted and agent.process and agent.pid):
        return True
    return has_terminal(agent.process, agent.pid)


def get_control(agent: FleetAgent) -> AgentControl:
    """Return the control of the agent's harness. Raises NotPossible."""
    return harnesses.require_control(agent.harness)
