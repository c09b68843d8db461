"""Start a successor in tmux. No other module runs tmux. Seen: tmux 3.3a; 3.0 is needed."""

import errno
import json
import os
import re
import secrets
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from msgspec import Struct, structs

from tasuki.errors import LaunchFailed, PaneGone
from tasuki.harness.protocol import LaunchPlan
from tasuki.launch.prepare import (
    LaunchResult,
    build_command,
    build_environment,
    write_planned_files,
)
from tasuki.patterns import compile_pattern
from tasuki.text_safety import clean_for_display, clean_text

SESSION = "tasuki"
"""The session that is created outside tmux."""
KEEP_SESSION = ("set-option", "-t", f"={SESSION}:", "destroy-unattached", "off")
"""Keeps the created session where the user's settings end those that no terminal shows."""
STATUS_SECONDS = 3.0
READY_SECONDS = 45.0
"""How long the program may take to become ready for a paste."""
GRACE_SECONDS = 2.0
"""How long a program without a paste is watched for dying at once."""
SETTLED_SECONDS = 0.3
"""How long the screen must not change before it counts as settled."""
POLL_SECONDS = 0.05

CHILD = Path(__file__).with_name("child.py")
_GONE = compile_pattern(
    "can't find pane|no server running|error connecting to|server exited|lost server|no current target"
)
EXITING = compile_pattern("server exited|lost server")
"""What tmux says where its server ends during a command. The next command starts a new server."""


class PaneScreen(Struct, frozen=True):
    """What a pane shows, and whether its program ended."""

    text: str
    dead: bool = False
    status: str = ""

    def get_last_lines(self, count: int = 12) -> str:
        """Return the last lines that are neither empty nor tmux's own, safe for a terminal."""
        lines = [
            line.rstrip() for line in clean_for_display(self.text).splitlines() if line.strip()
        ]
        if self.dead and lines and lines[-1].startswith("Pane is dead"):
            lines.pop()
        return "\n".join(lines[-count:])


class Tmux:
    """One tmux server: that of `$TMUX` or the default one.

    With `socket`, it is that of `-L`, or of `-S` for a path.
    """

    def __init__(self, socket: str = "") -> None:
        self.socket = socket
        flag = "-S" if os.sep in socket else "-L"
        self.socket_flags = (flag, socket) if socket else ()
        """The flags that name it; none for the default one."""
        self.base = ("tmux", "-u", *self.socket_flags)

    @property
    def is_inside(self) -> bool:
        """Whether this process itself runs in a pane of this server."""
        return bool(os.environ.get("TMUX")) and not self.socket

    def run(
        self,
        *commands: Sequence[str],
        text: str | None = None,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
    ) -> str:
        """Run tmux commands in one call, `text` on their standard input; return what they print.

        Raises LaunchFailed where tmux is missing, does not answer in 10 s, or refuses; PaneGone
        where a pane, or the whole server, does not exist.
        """
        if not shutil.which("tmux"):
            raise LaunchFailed(
                "tmux is not installed. Install it (apt install tmux, brew install tmux), "
                "or omit --tmux to start the successor in this terminal."
            )
        try:
            done = subprocess.run(
                [*self.base, *_join_commands(commands)],
                input=(text or "").encode("utf-8", "replace"),
                capture_output=True,
                cwd=cwd,
                env=self._build_environment(env),
                timeout=10,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise LaunchFailed(f"tmux did not answer in 10 s ({commands[0][0]}).") from error
        except OSError as error:
            raise LaunchFailed(f"tmux cannot be run in {cwd}: {error.strerror}.") from error
        if done.returncode:
            message = clean_for_display(done.stderr.decode(errors="replace")).strip()
            failure = PaneGone if _GONE.search(message) else LaunchFailed
            raise failure(f"tmux {commands[0][0]} failed: {message or done.returncode}")
        return done.stdout.decode(errors="replace")

    def has_session(self, name: str) -> bool:
        """Tell whether a session of exactly this name exists."""
        try:
            self.run(("has-session", "-t", f"={name}"))
        except LaunchFailed:
            if not shutil.which("tmux"):
                raise
            return False
        return True

    def open_window(
        self, name: str, argv: Sequence[str], cwd: str, env: dict[str, str]
    ) -> LaunchResult:
        """Open a window that runs `argv`: next to this one inside tmux, else in `SESSION`."""
        # `-c` and `-n` expand formats, `#(…)` among them: the folder is that of the client.
        label = re.sub(r"[^\w .-]", "", name)[:40] or "tasuki"
        columns, lines = shutil.get_terminal_size((120, 40))
        size = ("-x", str(columns), "-y", str(lines))
        form = ("-P", "-F", "#{pane_id}\t#{session_name}:#{window_index}\t#{pane_pid}")
        session = ("new-session", "-d", "-s", SESSION, *size, "-n", label, *form, *argv)  # fmt: skip
        creation: tuple[Sequence[str], ...] = (session, KEEP_SESSION)
        if self.is_inside or self.has_session(SESSION):
            place = () if self.is_inside else ("-t", f"={SESSION}:")
            creation = (("new-window", *place, "-n", label, *form, *argv),)
        try:
            output = self.run(*creation, cwd=cwd, env=env)
        except PaneGone as error:
            if self.is_inside or not EXITING.search(str(error)):
                raise
            output = self.run(session, KEEP_SESSION, cwd=cwd, env=env)
        pane, target, pid = output.strip().split("\t")
        attach = () if self.is_inside else ("tmux", *self.socket_flags, "attach", "-t", target)
        return LaunchResult("tmux", target=target, pane=pane, pid=int(pid), attach=attach)

    def find_obstacle(self) -> tuple[str, str]:
        """Find a setting of the user's tmux that ends agents: a sentence, and what mends it; or none."""
        with suppress(LaunchFailed):
            shown = self.run(("start-server",), ("show-options", "-s", "exit-unattached"))
            if shown.split()[-1:] == ["on"]:
                return (
                    "tmux ends with all its agents once no terminal shows it: its option exit-unattached is on.",
                    "tmux set-option -s exit-unattached off, and in ~/.tmux.conf",
                )
        return "", ""

    def capture_screen(self, pane: str, above: int = 0) -> PaneScreen:
        """Capture what a pane shows now, and `above` lines before it.

        Raises LaunchFailed where the pane is gone.
        """
        state = "#{pane_dead} #{pane_dead_status}"
        capture = ("capture-pane", "-p", "-J", "-S", str(-above), "-t", pane)
        out = self.run(capture, ("display-message", "-p", "-t", pane, state))
        text, _, last = out.rstrip("\n").rpartition("\n")
        dead, _, status = last.partition(" ")
        return PaneScreen(text, dead == "1", status)

    def paste(self, pane: str, text: str) -> None:
        """Put a text into the input of a pane as one bracketed paste, without Enter.

        Control characters other than newline and tab are removed first: one of them could end
        the paste and press keys of its own.
        """
        buffer = f"tasuki-{secrets.token_hex(4)}"
        self.run(
            ("load-buffer", "-b", buffer, "-"),
            ("paste-buffer", "-p", "-d", "-b", buffer, "-t", pane),
            text=clean_text(text),
        )

    def copy_text(self, text: str) -> None:
        """Put a text into tmux's paste buffer and, where it allows that, the clipboard."""
        self.run(("load-buffer", "-w", "-"), text=text)

    def _build_environment(self, env: dict[str, str] | None) -> dict[str, str]:
        clean = dict(os.environ if env is None else env)
        if self.socket:  # A pane id of another server would be looked up in this one.
            clean.pop("TMUX", None)
            clean.pop("TMUX_PANE", None)
        return clean


def start_in_tmux(
    plan: LaunchPlan, name: str = "", socket: str = "", brief: str = ""
) -> LaunchResult:
    """Start a successor in a new tmux window and fill in its first text.

    Inside tmux the window opens next to this one; elsewhere in the session `tasuki`, which is
    created where needed. `brief` is the path of the stored brief, named where nothing could be
    pasted. Raises HarnessMissing or LaunchFailed.
    """
    tmux = Tmux(socket)
    with _prepare_order(plan) as (child, env, write_order):
        launched = tmux.open_window(name, child, plan.cwd, env)
        with _close_pane_on(BaseException, tmux, launched.pane):
            tmux.run(("set-option", "-p", "-t", launched.pane, "remain-on-exit", "on"))
            deadline = time.monotonic() + READY_SECONDS
            while not write_order():
                screen = tmux.capture_screen(launched.pane)
                if screen.dead or time.monotonic() > deadline:
                    raise LaunchFailed(
                        f"The new tmux window did not open: {screen.get_last_lines()}"
                    )
                time.sleep(POLL_SECONDS / 5)
    try:
        with _close_pane_on((KeyboardInterrupt, SystemExit), tmux, launched.pane):
            filled = _watch_start(tmux, launched.pane, plan, brief)
    except (KeyboardInterrupt, SystemExit):
        for file in plan.files:
            Path(file.path).unlink(missing_ok=True)
        raise
    finally:
        with suppress(LaunchFailed):  # the pane is gone
            tmux.run(("set-option", "-p", "-u", "-t", launched.pane, "remain-on-exit"))
    back = _show_way_back(tmux) if tmux.is_inside else ""
    return structs.replace(launched, filled=filled, back=back)


SHOWN_MILLISECONDS = 4000


def _show_way_back(tmux: Tmux) -> str:
    """Say on tmux's own line how to come back to this window; return it in more words."""
    pane = os.environ.get("TMUX_PANE", "")
    form = "#{prefix}\t#{session_name}:#{window_index}"
    try:
        output = tmux.run(("display-message", "-p", *(("-t", pane) if pane else ()), form))
        prefix, _, window = output.rstrip("\n").partition("\t")
        notice = f"tasuki: back to the window before this one: {prefix} l"
        tmux.run(("display-message", "-d", str(SHOWN_MILLISECONDS), notice))
    except LaunchFailed:  # The window is gone, or this tmux is older than 3.2.
        return ""
    return f"{prefix} l, or tmux select-window -t {shlex.quote(window)}"


def start_in_popup(plan: LaunchPlan) -> None:
    """Run a program in a popup over the current tmux client; return once the program runs.

    Raises HarnessMissing or LaunchFailed. tmux 3.2 is needed.
    """
    tmux = Tmux()
    with _prepare_order(plan) as (child, env, write_order):
        words = [*tmux.base, "display-popup", "-E", "-w", "90%", "-h", "90%", *child]
        popup = subprocess.Popen(  # it waits until the popup is closed
            words,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        deadline = time.monotonic() + STATUS_SECONDS
        while not write_order():
            if popup.poll() is not None or time.monotonic() > deadline:
                popup.kill()
                output = popup.stderr.read() if popup.stderr else b""
                message = clean_for_display(output.decode(errors="replace")).strip()
                raise LaunchFailed(
                    f"tmux did not open a popup: {message or 'it was closed, or did not open'}"
                )
            time.sleep(POLL_SECONDS / 5)


@contextmanager
def _prepare_order(
    plan: LaunchPlan,
) -> Iterator[tuple[tuple[str, ...], dict[str, str], Callable[[], bool]]]:
    """Write a plan's files; yield a command that becomes its program once it has its order.

    With it come the environment, and what gives the order: False where the command does not wait
    for it yet.
    """
    argv, env = build_command(plan), build_environment(plan)
    order = json.dumps({"argv": argv, "cwd": plan.cwd, "env": env}).encode()
    with write_planned_files(plan), tempfile.TemporaryDirectory(prefix="tasuki-") as folder:
        pipe = os.path.join(folder, "order")
        os.mkfifo(pipe, 0o600)
        child = (sys.executable, "-I", "-S", str(CHILD), pipe)
        yield child, env, partial(_write_order, pipe, order)


def _write_order(pipe: str, order: bytes) -> bool:
    """Write an order into a pipe; False where no process reads it yet."""
    try:
        number = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
    except OSError as error:
        if error.errno != errno.ENXIO:
            raise
        return False
    os.set_blocking(number, True)
    with os.fdopen(number, "wb") as stream:
        stream.write(order)
    return True


@contextmanager
def _close_pane_on(
    kinds: type[BaseException] | tuple[type[BaseException], ...], tmux: Tmux, pane: str
) -> Iterator[None]:
    """Close the pane if the body is interrupted."""
    try:
        yield
    except kinds:
        with suppress(LaunchFailed):
            tmux.run(("kill-pane", "-t", pane))
        raise


def _join_commands(commands: Sequence[Sequence[str]]) -> list[str]:
    """Join several commands for one call; a `;` at an argument's end is escaped."""
    words: list[str] = []
    for number, parts in enumerate(commands):
        words += [";"] if number else []
        words += [part[:-1] + "\\;" if part.endswith(";") else part for part in parts]
    return words


def _watch_start(tmux: Tmux, pane: str, plan: LaunchPlan, brief: str) -> bool:
    """Watch the program start; return whether the plan's text is in its input.

    A program without a text is watched for ending at once.
    """
    deadline = time.monotonic() + (READY_SECONDS if plan.paste else GRACE_SECONDS)
    while time.monotonic() < deadline:
        screen = _require_alive(tmux, pane, plan)
        is_ready = plan.ready and re.search(plan.ready, screen.text, re.MULTILINE)
        if is_ready or (plan.paste and not plan.ready and screen.text.strip()):
            break
        time.sleep(POLL_SECONDS)
    else:
        if plan.paste:
            where = f"The brief is in {brief}: " if brief else ""
            raise LaunchFailed(
                f"{plan.argv[0]} runs in the tmux pane {pane}, but was not ready for text within "
                f"{READY_SECONDS:.0f} s, so nothing was pasted. {where}paste it there yourself. Its "
                f"screen shows:\n{screen.get_last_lines(6)}"
            )
    if not plan.paste:
        return False
    before = wait_until_settled(tmux, pane, 1.0)
    tmux.paste(pane, plan.paste)
    return wait_until_settled(tmux, pane, 3.0, before) != before


def _require_alive(tmux: Tmux, pane: str, plan: LaunchPlan) -> PaneScreen:
    screen = tmux.capture_screen(pane)
    if screen.dead:
        # tmux 3.3a may miss the end of a program until another one ends: one is run for it.
        deadline = time.monotonic() + STATUS_SECONDS
        while not screen.status and time.monotonic() < deadline:
            tmux.run(("run-shell", "true"))
            time.sleep(0.03)
            screen = tmux.capture_screen(pane)
        last_lines = tmux.capture_screen(pane, above=20).get_last_lines() or "(nothing)"
        tmux.run(("kill-pane", "-t", pane))
        raise LaunchFailed(
            f"{shlex.quote(plan.argv[0])} ended at once with status {screen.status or '?'}. Its "
            f"output:\n{last_lines}"
        )
    return screen


def wait_until_settled(tmux: Tmux, pane: str, limit: float, before: str | None = None) -> str:
    """Return the screen once it no longer changes.

    With `before`, return it once it no longer changes and differs from that.
    """
    deadline = time.monotonic() + limit
    text, since = tmux.capture_screen(pane).text, time.monotonic()
    while (now := time.monotonic()) < deadline:
        if now - since >= SETTLED_SECONDS and text != before:
            break
        time.sleep(POLL_SECONDS)
        if (new := tmux.capture_screen(pane).text) != text:
            text, since = new, time.monotonic()
    return text
