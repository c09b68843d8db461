"""The panes of a fleet: opened once, looked at, typed into, closed. Needs tmux 3.2. Seen: 3.3a.

A pane carries marks that outlive whoever made them: the words of its start command say for which
agent it was opened, two options of its own say which text was pasted into it and submitted. After
a crash they tell what was done, so that nothing is done twice:

    find(tag): a pane        it was opened
    none, order file there   it was never started: open it
    none, order file gone    it was started, and is over
"""

import os
import re
import secrets
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from tasuki.draft.screen_redaction import redact_screen
from tasuki.errors import LaunchFailed, PaneGone
from tasuki.harness.control import Look
from tasuki.launch.control_mode import ControlMode, Unanswered
from tasuki.launch.pasting import PANE, Marks, Pasting, checked
from tasuki.launch.tmux import CHILD, EXITING, POLL_SECONDS, SESSION, Tmux

SIZE = ("-x", "200", "-y", "50")
"""Columns and lines of a window that nobody looks at."""
TAKEN_SECONDS = 45.0
"""How long a new pane may take to take its order; a busy machine starts Python slowly."""
_NO_SESSION = re.compile(
    "can't find session|no current target|no server running|error connecting to"
)
EXITING_SECONDS = 10.0
"""How long a window is asked for again where the tmux server is just exiting, with its last window."""
SURVEY_SECONDS = 0.25
AT_ONCE_SECONDS = 0.05
"""How long a program is given to end at once, before it counts as started."""
TAG = re.compile(r"[A-Za-z0-9_-]{1,64}")

_FORM = "\t".join(
    (
        "#{pane_id}",
        "#{pane_pid}",
        "#{pane_dead}",
        "#{pane_dead_status}",
        "#{pane_dead_signal}",
        "#{pane_in_mode}",
        "#{session_name}:#{window_index}",
        "#{s/[^ -~]/?/:pane_current_command}",
        "#{pane_start_command}",
        "#{pane_title}",
    )
)
"""tmux escapes control characters in all of them but the name of a process."""
_LOOK = "#{pane_id}\t#{pane_dead}\t#{pane_pid}\t#{pane_title}"


class Opened(Struct, frozen=True):
    """A pane that was opened. `window` is where: `tasuki:2`; `pid` is the program in it."""

    pane: str
    window: str
    pid: int


class PaneState(Struct, frozen=True):
    """What tmux says of one pane.

    `dead`: its program ended badly and the pane stands for its last words to be read; `status` is
    then its exit status, or 128 + the signal, and None where tmux does not know. `command` is the
    name of the program in the foreground, `start_command` what the pane was opened with.
    """

    pane: str
    pid: int
    dead: bool
    status: int | None
    in_mode: bool
    window: str
    command: str
    start_command: str
    title: str


class Survey(Struct, frozen=True):
    """The panes that are there. `running` is false where no tmux server is."""

    running: bool
    panes: dict[str, PaneState] = {}


class Panes(Pasting):
    """The panes of one tmux server. `folder` holds the locks.

    `stays`: a client of tmux is kept to ask questions with; `leave` ends it.
    """

    _socket_path = ""

    def __init__(self, tmux: Tmux, folder: Path, *, stays: bool = False) -> None:
        super().__init__(tmux, folder)
        env = {k: v for k, v in os.environ.items() if k not in ("TMUX", "TMUX_PANE")}
        self._control = ControlMode(tmux.base, SESSION, env) if stays else None

    def leave(self) -> None:
        """End what was kept."""
        if self._control:
            self._control.close()

    def _run(self, *commands: Sequence[str]) -> str:
        """Run commands that do no harm when they are given again; what they print. Raises what `Tmux.run` raises."""
        if self._control:
            with suppress(Unanswered):
                return self._control.ask(*map(_line, commands))
        return self.tmux.run(*commands)

    def open(self, order_file: Path, name: str, tag: str, cwd: str) -> Opened:
        """Open a window in the background that carries out an order, and wait until it has it.

        The order file holds `{"argv", "cwd", "env"}`, the program with its whole path; the new
        window takes it away. However many windows are opened for one file, only one becomes the
        program and the others close: what is returned is that one. Call it after `find(tag)` gave
        None. Raises LaunchFailed where the order was not taken (it is still there then, and
        nothing was started), PaneGone where the program was started and is over.
        """
        if not TAG.fullmatch(tag):
            raise LaunchFailed(f"{tag!r} is no tag of a pane: letters, digits, - and _ alone.")
        self._make(tag, _label(name), order_file, cwd)
        self._await_taken(order_file, tag)
        time.sleep(AT_ONCE_SECONDS)
        if found := self.find(tag):
            return found
        raise PaneGone(
            f"What was started in a tmux window for {tag} ended at once, and said nothing."
        )

    def find(self, tag: str) -> Opened | None:
        """The pane that was opened for a tag, one with a living program first; None for none."""
        found = self._tagged(tag)
        deadline = time.monotonic() + TAKEN_SECONDS
        while sum(not state.dead for state in found) > 1 and time.monotonic() < deadline:
            time.sleep(0.05)  # only one of them gets the order, the others are about to close
            found = self._tagged(tag)
        return Opened(found[0].pane, found[0].window, found[0].pid) if found else None

    def status(self, panes: Sequence[str] = ()) -> Survey:
        """What tmux says of some panes, or of all; one that is not there is left out.

        One call. tmux 3.3a may miss the end of a program, and then neither closes its window nor
        knows its status until another one ends: where that shows, one is run for it.
        """
        try:
            states = self._listed()
            if any(state.dead and state.status is None for state in states.values()):
                self.tmux.run(("run-shell", "true"))
                states = self._listed()
        except PaneGone:
            return Survey(running=False)
        return Survey(True, {id: states[id] for id in panes or states if id in states})

    def _listed(self) -> dict[str, PaneState]:
        lines = self._run(("list-panes", "-a", "-F", _FORM)).splitlines()
        return {state.pane: state for state in map(_state, lines) if state}

    def look(self, pane: str, above: int = 0) -> Look:
        """The screen of a pane as plain text, its title and process, and the lines above, in one call.

        Raises PaneGone where the pane is gone or its program has ended.
        """
        mark = f"above-{secrets.token_hex(8)}"
        over = (
            ("capture-pane", "-p", "-J", "-S", str(-above), "-E", "-1", "-t", checked(pane)),
            ("display-message", "-p", "-t", pane, mark),
        )
        out = self._run(
            *(over if above else ()),
            ("capture-pane", "-p", "-J", "-t", checked(pane)),
            ("display-message", "-p", "-t", pane, _LOOK),
        )
        lines_above = ""
        if above:
            lines_above, _, out = out.partition(f"{mark}\n")
        text, _, last = out.removesuffix("\n").rpartition("\n")
        found, dead, pid, title = (*last.split("\t", 3), "", "", "")[:4]
        if found != pane or dead == "1":
            raise PaneGone(f"The agent's tmux pane {pane} is gone, or its program has ended.")
        return Look(text, title, int(pid), above=lines_above)

    def last_words(self, pane: str, lines: int = 12) -> str:
        """The last lines that a pane shows, for people and without secrets; empty where it is gone."""
        with suppress(PaneGone):
            return redact_screen(self.tmux.screen(checked(pane), above=lines).last_lines(lines))
        return ""

    def socket_path(self) -> str:
        """The socket of this tmux server, as programs in its panes have it; empty while none runs."""
        if not self._socket_path:
            with suppress(LaunchFailed):
                self._socket_path = self.tmux.run(
                    ("display-message", "-p", "#{socket_path}")
                ).strip()
        return self._socket_path

    def close(self, pane: str, pid: int = 0) -> None:
        """Close a pane, and end what runs in it; one that is gone already is fine.

        With `pid` only if that is still its process.
        """
        condition = f"#{{||:{int(not pid)},#{{==:#{{pane_pid}},{pid}}}}}"
        with suppress(PaneGone):
            kill = f"kill-pane -t {checked(pane)}"
            self.tmux.run(("if-shell", "-F", "-t", pane, condition, kill))

    def _tagged(self, tag: str) -> list[PaneState]:
        states = self.status().panes.values()
        found = [s for s in states if s.start_command.split()[-1:] == [tag]]
        return sorted(found, key=lambda state: state.dead)

    def _make(self, tag: str, label: str, order_file: Path, cwd: str) -> None:
        """One window. It gets its name, and keeps a program's last words, before that can run."""
        child = (sys.executable, "-I", "-S", str(CHILD), "--order", str(order_file), tag)
        target = f"={SESSION}:={tag}"
        after = (
            ("set-option", "-p", "-t", target, "remain-on-exit", "failed"),
            ("rename-window", "-t", target, label),
        )
        window = ("new-window", "-d", "-t", f"={SESSION}:", "-n", tag, *child)
        session = ("new-session", "-d", "-s", SESSION, *SIZE, "-n", tag, *child)
        deadline = time.monotonic() + EXITING_SECONDS
        has_session = True
        while True:
            try:
                self.tmux.run(window if has_session else session, *after, cwd=cwd)
            except LaunchFailed as error:
                if time.monotonic() > deadline:
                    raise
                is_doubled = "duplicate session" in str(error)  # somebody has made it meanwhile
                if is_doubled or _NO_SESSION.search(str(error)):
                    has_session = is_doubled
                elif not (EXITING.search(str(error)) and order_file.exists()):
                    raise
                time.sleep(POLL_SECONDS)
            else:
                return

    def _await_taken(self, order_file: Path, tag: str) -> None:
        """Wait until a window has taken an order; LaunchFailed where none will."""
        deadline = time.monotonic() + TAKEN_SECONDS
        look_again = time.monotonic() + SURVEY_SECONDS
        while order_file.exists():
            time.sleep(0.005)
            if (now := time.monotonic()) < look_again:
                continue
            look_again = now + SURVEY_SECONDS
            standing = self._tagged(tag)
            if now > deadline or not standing or standing[0].dead:
                self._give_up(order_file, standing)

    def _give_up(self, order_file: Path, standing: list[PaneState]) -> None:
        said = "".join(f"\n{self.last_words(state.pane)}" for state in standing)
        for state in standing:
            self.close(state.pane)
        if order_file.exists():  # else it was taken just now
            raise LaunchFailed(f"A new tmux window did not come up, nothing was started.{said}")


def _line(command: Sequence[str]) -> str:
    """A command as control mode reads it; there are no single quotes in any."""
    return " ".join(f"'{word}'" for word in command)


def _label(name: str) -> str:
    """A window's name: `rename-window` expands formats, and takes a leading `-` for an option."""
    return re.sub(r"[^\w .-]", "", name).lstrip("- ")[:40] or "tasuki"


def _state(line: str) -> PaneState | None:
    parts = line.split("\t", 9)
    if len(parts) != 10 or not PANE.fullmatch(parts[0]):
        return None
    id, pid, dead, status, signal, in_mode, window, command, start_command, title = parts
    code = int(status) if status else 128 + int(signal) if signal else None
    return PaneState(
        id, int(pid or 0), dead == "1", code, in_mode not in ("", "0"), window, command, start_command, title,
    )  # fmt: skip


__all__ = ["Marks", "Opened", "PaneGone", "PaneState", "Panes", "Survey"]
