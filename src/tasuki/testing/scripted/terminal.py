"""The terminal of the scripted harness: what the user does at it, and its beginning and end."""

import os
import select
import signal
import sys
import termios
import threading
import time
import tty
from contextlib import suppress
from hashlib import sha256

from .identity import VERSION, Arguments
from .journal import Journal
from .keys import Keys
from .painting import write
from .program import Program
from .rules import Script

ESCAPE_SECONDS = 0.05
"""A lone Escape is one when nothing follows for so long."""
TWICE_SECONDS = 1.0
"""Within this time a second C-c ends the program."""


class Typist:
    """What the user does at the terminal."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.pressed = 0.0
        self.keys = Keys()

    def read(self, wake: int) -> None:
        """Read the terminal until it is gone. A byte from `wake` is the number of a signal."""
        while True:
            wait = ESCAPE_SECONDS if self.keys.waits else None
            ready = select.select([0, wake], [], [], wait)[0]
            if wake in ready:
                self._signalled(os.read(wake, 1)[0])
            if 0 in ready:
                try:
                    data = os.read(0, 1 << 16)
                except OSError:
                    data = b""
                if not data:
                    self.program.end("other", 129)
                events = self.keys.take(data)
            else:
                events = self.keys.flush() if not ready else []
            with self.program.lock:
                for kind, text in events:
                    self._take(kind, text)
                self.program.draw()

    def _signalled(self, number: int) -> None:
        if number != signal.SIGWINCH:
            self.program.end("other", 128 + number)

    def _take(self, kind: str, text: str) -> None:
        program = self.program
        program.view.hint = ""
        if kind != "key":
            if kind == "paste":
                program.journal.tell("paste", text=text)
            if program.view.dialog:
                program.answered.set()
            else:
                program.line.paste(text) if kind == "paste" else program.line.type(text)
        elif text == "enter":
            self._enter()
        elif text == "escape":
            self._break_off()
        elif text == "ctrl-c":
            self._ctrl_c()
        else:
            program.line.key(text)

    def _enter(self) -> None:
        program = self.program
        if program.view.dialog:
            program.answered.set()
            return
        text = program.line.text.strip("\n")
        if not text.strip():
            program.journal.tell("empty_enter")
        elif program.script.ignores_enter(text):
            program.journal.tell("enter_ignored", text=text)
        else:
            program.line.clear()
            program.submit(text)

    def _break_off(self) -> None:
        self.program.journal.tell("escape")
        if self.program.view.busy:
            self.program.broken.set()

    def _ctrl_c(self) -> None:
        program, now = self.program, time.monotonic()
        if program.view.busy:
            self._break_off()
        elif program.line.text:
            program.line.clear()
        elif now - self.pressed < TWICE_SECONDS:
            program.end("prompt_input_exit", 0)
        self.pressed = now
        program.view.hint = "Press Ctrl-C again to exit"


def main(words: list[str]) -> None:
    """Run until `/exit`, a signal or the end of the terminal."""
    arguments = Arguments(words)
    if arguments.get("--version"):
        print(f"{VERSION} (Claude Code)")
        return
    if not os.isatty(0):
        sys.exit("The scripted harness needs a terminal.")
    journal = Journal(os.environ.get("SCRIPTED_LOG", ""))
    before = termios.tcgetattr(0)
    tty.setraw(0)
    write(b"\x1b[?2004h\x1b[2J")
    program = Program(arguments, Script(os.environ.get("SCRIPTED_HARNESS", "")), journal)
    token = os.environ.get("TASUKI_AGENT_TOKEN", "")
    digest = sha256(token.encode()).hexdigest() if token else ""
    journal.tell("started", argv=words, cwd=program.cwd, token=digest, pane=os.environ.get("TMUX_PANE", ""))  # fmt: skip

    def leave() -> None:
        write(b"\x1b[?2004l\x1b[?25h\r\n")
        with suppress(termios.error):
            termios.tcsetattr(0, termios.TCSANOW, before)

    program.leave = leave
    program.file.tell(program.session)
    wake, waker = os.pipe()
    os.set_blocking(waker, False)
    signal.set_wakeup_fd(waker)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGWINCH):
        signal.signal(number, lambda number, frame: None)
    threading.Thread(target=program.serve, daemon=True).start()
    program.draw()
    Typist(program).read(wake)
