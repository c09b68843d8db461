"""A program in this terminal, with its first text typed in for it.

The program runs on a pseudo-terminal of its own; everything is passed on unchanged in both
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
import sys
import termios
import time
import tty
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

from msgspec import Struct

from tasuki.plain import plain

READY_SECONDS = 45.0
"""How long the program may take to become ready; later nothing is pasted."""
QUIET_SECONDS = 0.15
"""How long the output must pause after the program became ready."""
SUBMIT_SECONDS = 0.5
"""Pause between a paste and Enter: completion menus of some programs swallow a faster one."""
CHUNK = 65536

_PASTE_MODE = re.compile(rb"\x1b\[\?(?:[\d;]*;)?2004([hl])")
_MODE = re.compile(rb"\x1b\[\?([\d;]+)([hl])")
_KEYBOARD = re.compile(rb"\x1b\[([<>])[\d;]*u")
_LINE_MOVE = re.compile(rb"\x1b\[[\d;]*[ABEFHdf]")
_COLUMN_MOVE = re.compile(rb"\x1b\[[\d;]*[CG]")
_OTHER_SEQUENCE = re.compile(
    rb"\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b\[[0-?]*[ -/]*[@-~]|\x1b[()][0-9A-Za-z]|\x1b[=>78cM]"
)
_OFF_AT_THE_END = (b"1000", b"1002", b"1003", b"1004", b"1006", b"1049", b"2004")


_Settings = list[Any]
"""What termios.tcgetattr gives."""


class Ended(Struct, frozen=True):
    """How a relayed program ended; `filled` tells whether its first text was typed in."""

    pid: int
    code: int
    filled: bool


class Output:
    """What can be told from a program's output: the text on its screen, and the modes it set."""

    def __init__(self) -> None:
        self.tail = b""
        self.taken = 0
        self.modes: dict[bytes, bool] = {}
        self.keyboard = 0

    def take(self, data: bytes) -> None:
        """Take in the next piece of output; sequences may be cut anywhere."""
        start = max(0, len(self.tail) - 32)
        known = len(self.tail)
        self.tail += data
        for found in _MODE.finditer(self.tail, start):
            if found.end() > known:
                for mode in found[1].split(b";"):
                    self.modes[mode] = found[2] == b"h"
        for found in _KEYBOARD.finditer(self.tail, start):
            if found.end() > known:
                self.keyboard = max(0, self.keyboard + (1 if found[1] == b">" else -1))
        self.tail = self.tail[-CHUNK:]
        self.taken += len(data)

    @property
    def takes_pastes(self) -> bool:
        """Whether the program asked for pastes to be marked as such."""
        return self.modes.get(b"2004", False)

    def shows(self, ready: str) -> bool:
        """Whether the pattern is found in the text; a jump to another line begins a new line."""
        text = _LINE_MOVE.sub(b"\n", self.tail)
        text = _OTHER_SEQUENCE.sub(b"", _COLUMN_MOVE.sub(b" ", text)).replace(b"\r", b"")
        return bool(re.search(ready, text.decode(errors="replace"), re.MULTILINE))

    def undo(self) -> bytes:
        """What switches off the modes that the program left on."""
        left = [mode for mode in _OFF_AT_THE_END if self.modes.get(mode)]
        off = b"".join(b"\x1b[?" + mode + b"l" for mode in left) + b"\x1b[<u" * self.keyboard
        return off + (b"\x1b[?25h" if self.modes.get(b"25") is False else b"")


class Relay:
    """A program on its own pseudo-terminal, and this terminal in front of it."""

    def __init__(self, leader: int, master: int) -> None:
        self.leader = leader
        self.master = master
        self.output = Output()
        self.to_program = bytearray()
        self.filled = False

    def run(self, text: str, ready: str, submit: bool) -> Ended:
        """Pass everything on until the program ends. The terminal is put back on every way out."""
        typing = _Typing(self, plain(text), ready, submit)
        before = termios.tcgetattr(0)
        try:
            with _signals(self):
                self.resize()
                tty.setraw(0)
                status = self._pass_on(typing, before)
        finally:
            os.close(self.master)
            with suppress(OSError, termios.error):  # the terminal itself is gone
                os.write(1, self.output.undo())
                termios.tcsetattr(0, termios.TCSADRAIN, before)
        return Ended(self.leader, _exit_code(status), self.filled)

    def resize(self) -> None:
        """Give the program the size of this terminal."""
        with suppress(OSError):
            size = fcntl.ioctl(0, termios.TIOCGWINSZ, b"\0" * 8)
            fcntl.ioctl(self.master, termios.TIOCSWINSZ, size)

    def _pass_on(self, typing: "_Typing", before: _Settings) -> int:
        """Relay until the session leader ended and its output is read; its wait status."""
        while True:
            ended, status = os.waitpid(self.leader, os.WNOHANG | os.WUNTRACED)
            if ended and os.WIFSTOPPED(status):
                self._suspend(before)
                continue
            if ended:
                while self._read_program(0):
                    pass
                return status
            typing.step()
            self._turn(typing.patience)

    def _turn(self, patience: float) -> None:
        """Move what can be moved, waiting up to `patience` seconds for something."""
        writing = [self.master] if self.to_program else []
        readable, writable, _ = select.select([0, self.master], writing, [], patience)
        if self.master in readable and not self._read_program(0):
            time.sleep(0.01)  # the program closed its side and is about to end
        if 0 in readable:
            typed = os.read(0, CHUNK)
            if not typed:
                raise SystemExit(128 + signal.SIGHUP)
            self.to_program += typed
        if writable:
            with suppress(BlockingIOError):
                del self.to_program[: os.write(self.master, self.to_program[:4096])]

    def _read_program(self, patience: float) -> bool:
        """Show one piece of output; False where there is none."""
        if not select.select([self.master], [], [], patience)[0]:
            return False
        try:
            data = os.read(self.master, CHUNK)
        except OSError as error:
            if error.errno in (errno.EIO, errno.EAGAIN):
                return False
            raise
        self.output.take(data)
        _write_all(1, data)
        return bool(data)

    def _suspend(self, before: _Settings) -> None:
        """The program was stopped (Ctrl-Z): stop too, and go on together."""
        termios.tcsetattr(0, termios.TCSADRAIN, before)
        os.kill(0, signal.SIGTSTP)  # ignored where no shell could continue us
        tty.setraw(0)
        self.resize()
        os.kill(self.leader, signal.SIGCONT)


class _Typing:
    """When to type the text in: the program is ready, marks pastes, and pauses its output."""

    def __init__(self, relay: Relay, text: str, ready: str, submit: bool) -> None:
        self.relay, self.ready, self.submit = relay, ready, submit
        self.text = text.replace("\n", "\r").encode()
        self.deadline = time.monotonic() + READY_SECONDS
        self.seen = 0
        self.quiet_since = 0.0
        self.ready_since = 0.0
        self.looked = 0.0
        self.enter_at = 0.0

    @property
    def patience(self) -> float:
        """Seconds to wait for input or output before the next look."""
        return 0.05 if self.deadline or self.enter_at else 0.5

    def step(self) -> None:
        """Type the text, or Enter after it, if it is time."""
        now = time.monotonic()
        if self.enter_at and now >= self.enter_at:
            self.relay.to_program += b"\r"
            self.enter_at = 0.0
        if not self.deadline:
            return
        if self._is_time(now):
            self.relay.to_program += b"\x1b[200~" + self.text + b"\x1b[201~"
            self.relay.filled, self.deadline = True, 0.0
            self.enter_at = now + SUBMIT_SECONDS if self.submit else 0.0
        elif now > self.deadline:
            self.deadline = 0.0

    def _is_time(self, now: float) -> bool:
        """Ready, and quiet since then; a program that never is quiet is waited for 1 s."""
        output = self.relay.output
        if output.taken != self.seen:
            self.seen, self.quiet_since = output.taken, now
        if not self.ready_since and now - self.looked > 0.05:
            self.looked = now
            ready = output.takes_pastes and (not self.ready or output.shows(self.ready))
            self.ready_since = now if ready else 0.0
        quiet = now - self.quiet_since >= QUIET_SECONDS
        return bool(self.ready_since) and (quiet or now - self.ready_since > 1.0)


def relay(argv: list[str], cwd: str, env: dict[str, str]) -> Relay:
    """Start a program on a pseudo-terminal of its own."""
    sys.stdout.flush()
    sys.stderr.flush()
    settings = termios.tcgetattr(0)
    size = fcntl.ioctl(0, termios.TIOCGWINSZ, b"\0" * 8)
    leader, master = pty.fork()
    if leader == 0:
        fcntl.ioctl(0, termios.TIOCSWINSZ, size)
        _lead(argv, cwd, env, settings)
    os.set_blocking(master, False)
    return Relay(leader, master)


def _lead(argv: list[str], cwd: str, env: dict[str, str], settings: _Settings) -> None:
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
        code = _wait_as_leader(program)
    except OSError as error:
        os.write(2, f"{argv[0]} cannot be run in {cwd}: {error}\r\n".encode())
    finally:
        os._exit(code)


def _wait_as_leader(program: int) -> int:
    while True:
        _, status = os.waitpid(program, os.WUNTRACED)
        if not os.WIFSTOPPED(status):
            return _exit_code(status)
        os.kill(os.getpid(), signal.SIGSTOP)
        os.killpg(program, signal.SIGCONT)


def _exit_code(status: int) -> int:
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


@contextmanager
def _signals(relay: Relay) -> Iterator[None]:
    """A new window size is passed on; an order to end ends the relay, and so the program."""

    def resized(number: int, frame: FrameType | None) -> None:
        relay.resize()

    def ended(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    wanted = {signal.SIGWINCH: resized, signal.SIGTERM: ended, signal.SIGHUP: ended}
    before = {number: signal.signal(number, handler) for number, handler in wanted.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _write_all(file: int, data: bytes) -> None:
    while data:
        data = data[os.write(file, data) :]
