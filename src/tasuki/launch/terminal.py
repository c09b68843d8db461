"""Start a successor in this terminal, with its first text typed in, and wait until it ends.

The program runs on its own pseudo-terminal; everything is passed on unchanged in both
directions. Once its screen shows that it is ready, the text is put into its input as one
bracketed paste, without Enter, as if the user had pasted it.
"""

import errno
import fcntl
import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import time
import tty
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, Self

from tasuki.errors import LaunchFailed
from tasuki.harness.protocol import LaunchPlan
from tasuki.launch.prepare import (
    LaunchResult,
    build_command,
    build_environment,
    write_planned_files,
)
from tasuki.patterns import compile_pattern
from tasuki.text_safety import clean_text

READY_SECONDS = 45.0
"""How long the program may take to become ready; later nothing is pasted."""
QUIET_SECONDS = 0.15
"""How long the output must pause after the program became ready."""
CHUNK = 65536

_MODE = compile_pattern(rb"\x1b\[\?([\d;]+)([hl])")
_KEYBOARD = compile_pattern(rb"\x1b\[([<>])[\d;]*u")
_LINE_MOVE = compile_pattern(rb"\x1b\[[\d;]*[ABEFHdf]")
_COLUMN_MOVE = compile_pattern(rb"\x1b\[[\d;]*[CG]")
_OTHER_SEQUENCE = compile_pattern(
    rb"\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b\[[0-?]*[ -/]*[@-~]|\x1b[()][0-9A-Za-z]|\x1b[=>78cM]"
)
_OFF_AT_THE_END = (b"1000", b"1002", b"1003", b"1004", b"1006", b"1049", b"2004")


_TerminalSettings = list[Any]
"""What termios.tcgetattr returns."""


class ProgramOutput:
    """What a program's output shows: the text on its screen, and the modes it set."""

    def __init__(self) -> None:
        self.tail = b""
        self.byte_count = 0
        self.modes: dict[bytes, bool] = {}
        self.keyboard = 0

    def add_data(self, data: bytes) -> None:
        """Add the next piece of output; sequences may be cut anywhere."""
        start = max(0, len(self.tail) - 32)
        previous_length = len(self.tail)
        self.tail += data
        for match in _MODE.finditer(self.tail, start):
            if match.end() > previous_length:
                for mode in match[1].split(b";"):
                    self.modes[mode] = match[2] == b"h"
        for match in _KEYBOARD.finditer(self.tail, start):
            if match.end() > previous_length:
                self.keyboard = max(0, self.keyboard + (1 if match[1] == b">" else -1))
        self.tail = self.tail[-CHUNK:]
        self.byte_count += len(data)

    @property
    def takes_pastes(self) -> bool:
        """Whether the program asked for pastes to be marked as such."""
        return self.modes.get(b"2004", False)

    def matches(self, ready: str) -> bool:
        """Tell whether the pattern is in the text; a jump to another line begins a new line."""
        text = _LINE_MOVE.sub(b"\n", self.tail)
        text = _OTHER_SEQUENCE.sub(b"", _COLUMN_MOVE.sub(b" ", text)).replace(b"\r", b"")
        return bool(re.search(ready, text.decode(errors="replace"), re.MULTILINE))

    def build_mode_reset(self) -> bytes:
        """Build the sequence that switches off the modes that the program left on."""
        left = [mode for mode in _OFF_AT_THE_END if self.modes.get(mode)]
        off = b"".join(b"\x1b[?" + mode + b"l" for mode in left) + b"\x1b[<u" * self.keyboard
        return off + (b"\x1b[?25h" if self.modes.get(b"25") is False else b"")


class Relay:
    """A program on its own pseudo-terminal, connected to this terminal."""

    def __init__(self, leader: int, master: int) -> None:
        self.leader = leader
        self.master = master
        self.output = ProgramOutput()
        self.to_program = bytearray()
        self.filled = False

    def run(self, text: str, ready: str) -> LaunchResult:
        """Pass everything on until the program ends. The terminal is restored in every case."""
        typing = _FirstTextTyper(self, clean_text(text), ready)
        before = termios.tcgetattr(0)
        try:
            with _handle_signals(self):
                self.resize()
                tty.setraw(0)
                status = self._pass_on(typing, before)
        finally:
            os.close(self.master)
            with suppress(OSError, termios.error):  # the terminal itself is gone
                os.write(1, self.output.build_mode_reset())
                termios.tcsetattr(0, termios.TCSADRAIN, before)
        code = _convert_exit_code(status)
        return LaunchResult("here", _find_device(), pid=self.leader, filled=self.filled, code=code)

    def resize(self) -> None:
        """Give the program the size of this terminal."""
        with suppress(OSError):
            size = fcntl.ioctl(0, termios.TIOCGWINSZ, b"\0" * 8)
            fcntl.ioctl(self.master, termios.TIOCSWINSZ, size)

    def _pass_on(self, typing: "_FirstTextTyper", before: _TerminalSettings) -> int:
        """Relay until the session leader ended and its output is read; return its wait status."""
        while True:
            ended, status = os.waitpid(self.leader, os.WNOHANG | os.WUNTRACED)
            if ended and os.WIFSTOPPED(status):
                self._suspend(before)
                continue
            if ended:
                while self._read_program():
                    pass
                return status
            self._move_data(typing.type_if_ready())

    def _move_data(self, patience: float) -> None:
        """Move what can be moved, waiting up to `patience` seconds for something."""
        writing = [self.master] if self.to_program else []
        readable, writable, _ = select.select([0, self.master], writing, [], patience)
        if self.master in readable and not self._read_program():
            time.sleep(0.01)  # The program closed its side and is about to end.
        if 0 in readable:
            typed = os.read(0, CHUNK)
            if not typed:
                raise SystemExit(128 + signal.SIGHUP)
            self.to_program += typed
        if writable:
            with suppress(BlockingIOError):
                del self.to_program[: os.write(self.master, self.to_program[:4096])]

    def _read_program(self) -> bool:
        """Show one piece of output; False where there is none."""
        if not select.select([self.master], [], [], 0)[0]:
            return False
        try:
            data = os.read(self.master, CHUNK)
        except OSError as error:
            if error.errno in (errno.EIO, errno.EAGAIN):
                return False
            raise
        self.output.add_data(data)
        left = data
        while left:
            left = left[os.write(1, left) :]
        return bool(data)

    def _suspend(self, before: _TerminalSettings) -> None:
        """Stop together with the program (Ctrl-Z), and go on together."""
        termios.tcsetattr(0, termios.TCSADRAIN, before)
        os.kill(0, signal.SIGTSTP)  # ignored where no shell could continue us
        tty.setraw(0)
        self.resize()
        os.kill(self.leader, signal.SIGCONT)


class _FirstTextTyper:
    """Types the text in when the program is ready, marks pastes, and pauses its output."""

    def __init__(self, relay: Relay, text: str, ready: str) -> None:
        self.relay, self.ready = relay, ready
        self.text = text.replace("\n", "\r").encode()
        self.deadline = time.monotonic() + READY_SECONDS
        self.seen_bytes = 0
        self.quiet_since = 0.0
        self.ready_since = 0.0
        self.checked_at = 0.0

    def type_if_ready(self) -> float:
        """Type the text if it is time; return the seconds to wait before the next check."""
        now = time.monotonic()
        if self.deadline and self._is_time(now):
            self.relay.to_program += b"\x1b[200~" + self.text + b"\x1b[201~"
            self.relay.filled, self.deadline = True, 0.0
        elif now > self.deadline:
            self.deadline = 0.0
        return 0.05 if self.deadline else 0.5

    def _is_time(self, now: float) -> bool:
        """Tell whether the program is ready, and quiet since then or busy for 1 s."""
        output = self.relay.output
        if output.byte_count != self.seen_bytes:
            self.seen_bytes, self.quiet_since = output.byte_count, now
        if not self.ready_since and now - self.checked_at > 0.05:
            self.checked_at = now
            ready = output.takes_pastes and (not self.ready or output.matches(self.ready))
            self.ready_since = now if ready else 0.0
        quiet = now - self.quiet_since >= QUIET_SECONDS
        return bool(self.ready_since) and (quiet or now - self.ready_since > 1.0)


def start_relay(argv: list[str], cwd: str, env: dict[str, str]) -> Relay:
    """Start a program on its own pseudo-terminal."""
    sys.stdout.flush()
    sys.stderr.flush()
    settings = termios.tcgetattr(0)
    size = fcntl.ioctl(0, termios.TIOCGWINSZ, b"\0" * 8)
    leader, master = pty.fork()
    if leader == 0:
        fcntl.ioctl(0, termios.TIOCSWINSZ, size)
        _run_as_leader(argv, cwd, env, settings)
    os.set_blocking(master, False)
    return Relay(leader, master)


def _run_as_leader(
    argv: list[str], cwd: str, env: dict[str, str], settings: _TerminalSettings
) -> None:
    """Lead the program's session as a shell would, so that Ctrl-Z can stop it. Never returns."""
    code = 126
    try:
        termios.tcsetattr(0, termios.TCSANOW, settings)
        signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        program = os.fork()
        if program == 0:
            os.setpgid(0, 0)
            os.tcsetpgrp(0, os.getpid())
            signal.signal(signal.SIGTTOU, signal.SIG_DFL)
            os.chdir(cwd)
            os.execve(argv[0], argv, env)
        with suppress(OSError):
            os.setpgid(program, program)
        while True:
            _, status = os.waitpid(program, os.WUNTRACED)
            if not os.WIFSTOPPED(status):
                code = _convert_exit_code(status)
                break
            os.kill(os.getpid(), signal.SIGSTOP)
            os.killpg(program, signal.SIGCONT)
    except OSError as error:
        os.write(2, f"{argv[0]} cannot be run in {cwd}: {error}\r\n".encode())
    finally:
        os._exit(code)


def _convert_exit_code(status: int) -> int:
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


@contextmanager
def _handle_signals(relay: Relay) -> Iterator[None]:
    """Pass a new window size on; a signal to end ends the relay, and with it the program."""

    def on_resize(number: int, frame: FrameType | None) -> None:
        relay.resize()

    def on_end(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    wanted = {signal.SIGWINCH: on_resize, signal.SIGTERM: on_end, signal.SIGHUP: on_end}
    before = {number: signal.signal(number, handler) for number, handler in wanted.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


LEFT_ON = (
    "\x1b[?25h\x1b[?2004l\x1b[?1004l\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[<u\x1b[0m"
)
"""Switches off what a killed program leaves on: paste marks, mouse, keyboard modes.

It also shows the cursor.
"""


def start_here(plan: LaunchPlan) -> LaunchResult:
    """Run a successor in the foreground of this terminal; return when it has ended.

    A plan with a first text to paste goes through a relay, which types it in once the program
    is ready. Ctrl-C belongs to the program while it runs. The terminal is restored afterwards.
    Raises LaunchFailed where there is no terminal, HarnessMissing where there is no program.
    """
    if not (sys.__stdin__ and sys.__stdout__ and os.isatty(0) and os.isatty(1)):
        raise LaunchFailed(
            f"There is no terminal here for {plan.argv[0]}. Start it in tmux "
            "(--tmux), or print the brief (--print)."
        )
    argv, env = build_command(plan), build_environment(plan)
    if plan.paste:
        with write_planned_files(plan):
            relay = start_relay(argv, plan.cwd, env)
        return relay.run(plan.paste, plan.ready)
    before = termios.tcgetattr(0)
    try:
        with write_planned_files(plan):
            foreground = _ForegroundProgram(argv, plan.cwd, env)
        with foreground:
            code = foreground.wait()
    finally:
        termios.tcsetattr(0, termios.TCSADRAIN, before)
    if code > 128:
        print(LEFT_ON, end="", flush=True)
    return LaunchResult("here", _find_device(), pid=foreground.program.pid, code=code)


class _ForegroundProgram:
    """A program that shares this terminal: its keys are its own, its stops are ours too."""

    def __init__(self, argv: list[str], cwd: str, env: dict[str, str]) -> None:
        """Start the program. Raises LaunchFailed.

        Ctrl-C and Ctrl-\\ reach it by the terminal from its first moment, and an order to end is
        passed on.
        """
        self.continued = False
        self.is_started = False
        self.ordered = 0
        """An order to end that came while the program was being started."""
        wanted = {
            signal.SIGINT: self._ignore_signal,  # not SIG_IGN: the program would inherit that
            signal.SIGQUIT: self._ignore_signal,
            signal.SIGTERM: self._pass_on,
            signal.SIGCONT: self._continue,
        }
        self.before: dict[int, Any] = {
            number: signal.signal(number, act) for number, act in wanted.items()
        }
        try:
            self.program = subprocess.Popen(argv, cwd=cwd, env=env)
        except BaseException as error:
            self.__exit__()
            if self.ordered:
                os.kill(os.getpid(), self.ordered)
            if isinstance(error, OSError):
                raise LaunchFailed(f"{argv[0]} cannot be run: {error.strerror}.") from error
            raise
        self.is_started = True
        if self.ordered:
            self.program.send_signal(self.ordered)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for number, old in self.before.items():
            signal.signal(number, old)

    def wait(self) -> int:
        """Return the exit status of the program.

        Where it alone stops itself (Ctrl-Z) tasuki stops too.
        """
        while True:
            self.continued = False
            _, status = os.waitpid(self.program.pid, os.WUNTRACED)
            if not os.WIFSTOPPED(status):
                break
            if not self.continued:  # Else the whole group was stopped and has been continued since.
                os.kill(0, signal.SIGTSTP)  # ignored where no shell could continue us
            os.kill(self.program.pid, signal.SIGCONT)
        self.program.returncode = os.waitstatus_to_exitcode(status)
        return _convert_exit_code(status)

    def _ignore_signal(self, number: int, frame: FrameType | None) -> None:
        """Leave the signal to the program."""

    def _pass_on(self, number: int, frame: FrameType | None) -> None:
        if self.is_started:
            self.program.send_signal(number)
        else:
            self.ordered = number

    def _continue(self, number: int, frame: FrameType | None) -> None:
        self.continued = True


def _find_device() -> str:
    try:
        return os.ttyname(0)
    except OSError:
        return ""
