"""The terminal of the scripted harness: the user's input, and its beginning and end."""

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

from fakes.scripted.identity import VERSION, ProgramArguments
from fakes.scripted.journal import ProgramJournal
from fakes.scripted.keys import KeyReader
from fakes.scripted.program import ScriptedProgram
from fakes.scripted.rules import ScriptFile
from fakes.scripted.screen import write_all

ESCAPE_SECONDS = 0.05
"""An Escape counts as a lone one if nothing follows for this time."""
EXIT_SECONDS = 1.0
"""Within this time a second C-c ends the program."""


class TerminalReader:
    """What the user does at the terminal."""

    def __init__(self, program: ScriptedProgram) -> None:
        self.program = program
        self.pressed = 0.0
        self.keys = KeyReader()

    def read_input(self, wake: int) -> None:
        """Read the terminal until it is gone. A byte from `wake` is the number of a signal."""
        while True:
            wait = ESCAPE_SECONDS if self.keys.is_waiting else None
            ready = select.select([0, wake], [], [], wait)[0]
            if wake in ready:
                self._handle_signal(os.read(wake, 1)[0])
            if 0 in ready:
                try:
                    data = os.read(0, 1 << 16)
                except OSError:
                    data = b""
                if not data:
                    self.program.end_program("other", 129)
                events = self.keys.read_events(data)
            else:
                events = self.keys.flush() if not ready else []
            with self.program.lock:
                for kind, text in events:
                    self._handle_event(kind, text)
                self.program.draw()

    def _handle_signal(self, number: int) -> None:
        if number != signal.SIGWINCH:
            self.program.end_program("other", 128 + number)

    def _handle_event(self, kind: str, text: str) -> None:
        program = self.program
        program.view.hint = ""
        if kind != "key":
            if kind == "paste":
                program.journal.log_event("paste", text=text)
            if program.view.dialog:
                program.journal.log_event("answered", text=text)
                if not program.view.what or text in ("1", "2", "3"):
                    program.answered.set()
            else:
                program.line.paste_text(text) if kind == "paste" else program.line.type_text(text)
        elif text == "enter":
            self._press_enter()
        elif text == "escape":
            self._interrupt_turn()
        elif text == "ctrl-c":
            self._press_ctrl_c()
        else:
            program.line.press_key(text)

    def _press_enter(self) -> None:
        program = self.program
        if program.view.dialog:
            program.answered.set()
            return
        text = program.line.text.strip("\n")
        if not text.strip():
            program.journal.log_event("empty_enter")
        elif program.script.should_ignore_enter(text):
            program.journal.log_event("enter_ignored", text=text)
        else:
            program.line.clear()
            program.submit(text)

    def _interrupt_turn(self) -> None:
        self.program.journal.log_event("escape")
        if self.program.view.busy:
            self.program.broken.set()

    def _press_ctrl_c(self) -> None:
        program, now = self.program, time.monotonic()
        if program.view.busy:
            self._interrupt_turn()
        elif program.line.text:
            program.line.clear()
        elif now - self.pressed < EXIT_SECONDS:
            program.end_program("prompt_input_exit", 0)
        self.pressed = now
        program.view.hint = "Press Ctrl-C again to exit"


def main(words: list[str]) -> None:
    """Run until `/exit`, a signal or the end of the terminal."""
    arguments = ProgramArguments(words)
    if arguments.get_option("--version"):
        print(f"{VERSION} (Claude Code)")
        return
    if not os.isatty(0):
        sys.exit("The scripted harness needs a terminal.")
    journal = ProgramJournal(os.environ.get("SCRIPTED_LOG", ""))
    before = termios.tcgetattr(0)
    tty.setraw(0)
    write_all(b"\x1b[?2004h\x1b[2J")
    program = ScriptedProgram(
        arguments, ScriptFile(os.environ.get("SCRIPTED_HARNESS", "")), journal
    )
    token = os.environ.get("TASUKI_AGENT_TOKEN", "")
    digest = sha256(token.encode()).hexdigest() if token else ""
    journal.log_event("started", argv=words, cwd=program.cwd, token=digest, pane=os.environ.get("TMUX_PANE", ""))  # fmt: skip

    def restore_terminal() -> None:
        write_all(b"\x1b[?2004l\x1b[?25h\r\n")
        with suppress(termios.error):
            termios.tcsetattr(0, termios.TCSANOW, before)

    program.leave = restore_terminal
    program.file.write_status(program.session)
    wake, waker = os.pipe()
    os.set_blocking(waker, False)
    signal.set_wakeup_fd(waker)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGWINCH):
        signal.signal(number, lambda number, frame: None)
    threading.Thread(target=program.serve, daemon=True).start()
    program.draw()
    TerminalReader(program).read_input(wake)
