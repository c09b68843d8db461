"""The panes of a fleet: opened once, read, typed into, closed. Needs tmux 3.2. Seen: 3.3a.

A pane carries marks that outlive the process that made them. The words of its start command
name the agent for which it was opened, two options of its own name the text that was pasted
into it and submitted. After a crash they show what was done, so that nothing is done twice:

    find(tag): a pane        it was opened
    none, order file there   it was never started: open it
    none, order file gone    it was started, and has ended
"""

import os
import re
import secrets
import shlex
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from tasuki.draft.redact.screen import redact_screen
from tasuki.errors import LaunchFailed, PaneGone
from tasuki.harness.protocol import Screenshot
from tasuki.launch.tmux.control_mode import ControlMode, TmuxUnanswered
from tasuki.launch.tmux.paste import PANE, PaneInput, check_pane
from tasuki.launch.tmux.server import CHILD, EXITING, KEEP_SESSION, POLL_SECONDS, SESSION, Tmux
from tasuki.launch.tmux.terminal import TerminalCapture, parse_rows, separate_dim
from tasuki.patterns import compile_pattern

SIZE = ("-x", "200", "-y", "50")
"""Columns and lines of a window without a client."""
TAKEN_SECONDS = 45.0
"""How long a new pane may take to read its order; a busy machine starts Python slowly."""
_NO_SESSION = compile_pattern(
    "can't find session|no current target|no server running|error connecting to"
)
EXITING_SECONDS = 10.0
"""How long to ask again for a window while the tmux server exits with its last window."""
SURVEY_SECONDS = 0.25
AT_ONCE_SECONDS = 0.05
"""How long a program may take to end at once, before it counts as started."""
TAG = compile_pattern(r"[A-Za-z0-9_-]{1,64}")

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
_SHAPE = (
    "#{pane_id}\t#{pane_dead}\t#{pane_pid}\t#{pane_width}\t#{pane_height}\t#{cursor_flag}\t"
    "#{cursor_x}\t#{cursor_y}\t#{history_size}"
)


class OpenedPane(Struct, frozen=True):
    """A pane that was opened. `window` is its place: `tasuki:2`; `pid` is the program in it."""

    pane: str
    window: str
    pid: int


class PaneState(Struct, frozen=True):
    """What tmux reports about one pane.

    `dead`: its program ended badly and the pane is kept so that its last words can be read;
    `status` is then its exit status, or 128 + the signal, and None where tmux does not know.
    `command` is the name of the program in the foreground, `start_command` the command the pane
    was opened with.
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


class PaneSurvey(Struct, frozen=True):
    """The existing panes. `running` is false where there is no tmux server."""

    running: bool
    panes: dict[str, PaneState] = {}


class TmuxPanes(PaneInput):
    """The panes of one tmux server. `folder` holds the locks.

    With `stays`, a client of tmux is kept for questions; `close_client` ends it.
    """

    _socket_path = ""

    def __init__(self, tmux: Tmux, folder: Path, *, stays: bool = False) -> None:
        super().__init__(tmux, folder)
        env = {k: v for k, v in os.environ.items() if k not in ("TMUX", "TMUX_PANE")}
        self._control = ControlMode(tmux.base, SESSION, env) if stays else None

    def close_client(self) -> None:
        """End the client that was kept."""
        if self._control:
            self._control.close()

    def _run(self, *commands: Sequence[str]) -> str:
        """Run commands that do no harm when they are repeated; return what they print.

        Raises what `Tmux.run` raises.
        """
        if self._control:
            with suppress(TmuxUnanswered):
                # There are no single quotes in any.
                quoted = (" ".join(f"'{word}'" for word in command) for command in commands)
                return self._control.ask(*quoted)
        return self.tmux.run(*commands)

    def open(self, order_file: Path, name: str, tag: str, cwd: str) -> OpenedPane:
        """Open a background window that carries out an order, and wait until it has the order.

        The order file holds `{"argv", "cwd", "env"}`, the program with its whole path; the new
        window removes it. However many windows are opened for one file, only one becomes the
        program and the others close: that one is returned. Call it after `find(tag)` gave None.
        Raises LaunchFailed where the order was not taken (it still exists then, and nothing was
        started), PaneGone where the program was started and has ended.
        """
        if not TAG.fullmatch(tag):
            raise LaunchFailed(
                f"{tag!r} is not a tag of a pane: use only letters, digits, - and _."
            )
        self._make_window(tag, _build_label(name), order_file, cwd)
        self._await_order_taken(order_file, tag)
        time.sleep(AT_ONCE_SECONDS)
        if opened_pane := self.find(tag):
            return opened_pane
        raise PaneGone(f"What was started in a tmux window for {tag} ended at once without output.")

    def find(self, tag: str) -> OpenedPane | None:
        """Find the pane that was opened for a tag, one with a living program first; or None."""
        tagged = self._find_tagged(tag)
        deadline = time.monotonic() + TAKEN_SECONDS
        while sum(not state.dead for state in tagged) > 1 and time.monotonic() < deadline:
            time.sleep(0.05)  # Only one of them gets the order, the others are about to close.
            tagged = self._find_tagged(tag)
        return OpenedPane(tagged[0].pane, tagged[0].window, tagged[0].pid) if tagged else None

    def read_status(self, panes: Sequence[str] = ()) -> PaneSurvey:
        """Read the states of some panes, or of all; missing ones are left out.

        One call. tmux 3.3a may miss the end of a program, and then neither closes its window nor
        knows its status until another one ends: where that shows, one is run for it.
        """
        try:
            states = self._list_panes()
            if any(state.dead and state.status is None for state in states.values()):
                self.tmux.run(("run-shell", "true"))
                states = self._list_panes()
        except PaneGone:
            return PaneSurvey(running=False)
        return PaneSurvey(True, {id: states[id] for id in panes or states if id in states})

    def _list_panes(self) -> dict[str, PaneState]:
        lines = self._run(("list-panes", "-a", "-F", _FORM)).splitlines()
        return {state.pane: state for state in map(_parse_state, lines) if state}

    def capture_screen(self, pane: str) -> Screenshot:
        """Capture the screen of a pane as plain text, once without what is dim, its title and process.

        One call. Raises PaneGone where the pane is gone or its program has ended.
        """
        out = self._run(
            ("capture-pane", "-p", "-J", "-e", "-t", check_pane(pane)),
            ("display-message", "-p", "-t", pane, _LOOK),
        )
        text, _, last = out.removesuffix("\n").rpartition("\n")
        pane_id, dead, pid, title = (*last.split("\t", 3), "", "", "")[:4]
        if pane_id != pane or dead == "1":
            raise PaneGone(f"The agent's tmux pane {pane} is gone, or its program has ended.")
        plain, solid = separate_dim(text)
        return Screenshot(plain, title, int(pid), solid=solid)

    def capture_terminal(self, pane: str, above: int) -> TerminalCapture:
        """Capture the screen of a pane with its styles, and at most `above` rows above it.

        One call. Raises PaneGone where the pane is gone or its program has ended.
        """
        mark = f"joined-{secrets.token_hex(8)}"
        capture = ("capture-pane", "-p", "-S", str(-above), "-t", check_pane(pane))
        out = self._run(
            (*capture, "-e", "-N"), ("display-message", "-p", "-t", pane, mark),
            (*capture, "-J"), ("display-message", "-p", "-t", pane, _SHAPE),
        )  # fmt: skip
        text, _, last = out.removesuffix("\n").rpartition("\n")
        pane_id, dead, *numbers = last.split("\t")
        if pane_id != pane or dead == "1" or len(numbers) != 7:
            raise PaneGone(f"The agent's tmux pane {pane} is gone, or its program has ended.")
        pid, columns, height, cursor, x, y, history = map(int, numbers)
        coloured, _, joined = text.partition(f"\n{mark}\n")
        rows = parse_rows(coloured, joined)
        screen = max(0, len(rows) - height)
        return TerminalCapture(
            tuple(rows[:screen]), tuple(rows[screen:]), columns, (x, y) if cursor else None, history, pid
        )  # fmt: skip

    def read_last_lines(self, pane: str, lines: int = 12) -> str:
        """Return the last lines that a pane shows, for people and without secrets.

        They are empty where the pane is gone.
        """
        with suppress(PaneGone):
            return redact_screen(
                self.tmux.capture_screen(check_pane(pane), above=lines).get_last_lines(lines)
            )
        return ""

    def find_socket_path(self) -> str:
        """Find the socket of this tmux server, as programs in its panes have it.

        It is empty while no server runs.
        """
        if not self._socket_path:
            with suppress(LaunchFailed):
                self._socket_path = self.tmux.run(
                    ("display-message", "-p", "#{socket_path}")
                ).strip()
        return self._socket_path

    def close(self, pane: str, pid: int = 0) -> None:
        """Close a pane, and end what runs in it; one that is already gone is fine.

        With `pid`, close it only if that is still its process.
        """
        condition = f"#{{||:{int(not pid)},#{{==:#{{pane_pid}},{pid}}}}}"
        with suppress(PaneGone):
            kill = f"kill-pane -t {check_pane(pane)}"
            self.tmux.run(("if-shell", "-F", "-t", pane, condition, kill))

    def _find_tagged(self, tag: str) -> list[PaneState]:
        states = self.read_status().panes.values()
        tagged = [s for s in states if s.start_command.split()[-1:] == [tag]]
        return sorted(tagged, key=lambda state: state.dead)

    def _make_window(self, tag: str, label: str, order_file: Path, cwd: str) -> None:
        """Make one window, which keeps a program's last words before that program can run."""
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
                made = (window,) if has_session else (session, KEEP_SESSION)
                self.tmux.run(*made, *after, cwd=cwd)
            except LaunchFailed as error:
                if time.monotonic() > deadline:
                    raise
                is_doubled = "duplicate session" in str(error)  # It was created in the meantime.
                if is_doubled or _NO_SESSION.search(str(error)):
                    has_session = is_doubled
                elif not (EXITING.search(str(error)) and order_file.exists()):
                    raise
                time.sleep(POLL_SECONDS)
            else:
                return

    def _await_order_taken(self, order_file: Path, tag: str) -> None:
        """Wait until a window has taken an order; LaunchFailed where none will."""
        deadline = time.monotonic() + TAKEN_SECONDS
        look_again = time.monotonic() + SURVEY_SECONDS
        while order_file.exists():
            time.sleep(0.005)
            if (now := time.monotonic()) < look_again:
                continue
            look_again = now + SURVEY_SECONDS
            tagged = self._find_tagged(tag)
            if now <= deadline and tagged and not tagged[0].dead:
                continue
            last_words = "".join(f"\n{self.read_last_lines(state.pane)}" for state in tagged)
            for state in tagged:
                self.close(state.pane)
            if order_file.exists():  # Otherwise it was taken just now.
                why, mend = self.tmux.find_obstacle()
                why = f"{why} Switch it off: {mend}. " if why else ""
                raise LaunchFailed(
                    f"{why}A new tmux window did not open; nothing was started.{last_words}"
                )


def _build_label(name: str) -> str:
    """Build a window's name: tmux expands formats, and takes a leading `-` for an option."""
    return re.sub(r"[^\w .-]", "", name).lstrip("- ")[:40] or "tasuki"


def _parse_state(line: str) -> PaneState | None:
    parts = line.split("\t", 9)
    if len(parts) != 10 or not PANE.fullmatch(parts[0]):
        return None
    id, pid, dead, status, signal, in_mode, *names = parts
    code = int(status) if status else 128 + int(signal) if signal else None
    return PaneState(id, int(pid or 0), dead == "1", code, in_mode not in ("", "0"), *names)


def attach(pane: str, socket: str) -> None:
    """Show a pane in this terminal.

    Inside the same tmux this client goes there, and the call returns. `socket` is the path of
    its tmux server's socket, empty for the default one. Raises PaneGone where the pane does not
    exist, LaunchFailed outside of a terminal and inside another tmux server.
    """
    tmux, own_socket = Tmux(socket), os.environ.get("TMUX", "").partition(",")[0]
    target, command = ("-t", pane), shlex.join(("tmux", *tmux.socket_flags, "attach", "-t", pane))
    selection = (("select-window", *target), ("select-pane", *target))
    if own_socket:
        if socket and os.path.realpath(socket) != os.path.realpath(own_socket):
            raise LaunchFailed(
                f"The agent is in another tmux server than this terminal. Outside of it: {command}"
            )
        Tmux().run(*selection, ("switch-client", *target))  # $TMUX_PANE identifies the client
        return
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise LaunchFailed(f"This is not a terminal. In one: {command}")
    tmux.run(*selection)
    os.execvp("tmux", (*tmux.base, "attach-session", *target))
