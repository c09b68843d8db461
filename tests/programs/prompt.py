"""A small program with an input box, as coding agents have one, for tests of launching.

It marks pastes (DECSET 2004), shows `ready> ` after `DELAY` seconds, and writes every event as a
line of JSON to the file named in argv[1]: start, early (input before it was ready), paste, typed,
enter, size, suspended, end. `T_LATE` marks pastes before the delay, `T_UNMARKED` never.
Ctrl-C is told, `q` on an empty input ends it with status 7, Ctrl-Z stops it.
"""

import json
import os
import select
import signal
import sys
import termios
import time
import tty
from typing import Any, TextIO

PASTE, END = b"\x1b[200~", b"\x1b[201~"
MARKS_PASTES = b"\x1b[?2004h"
SCREEN = b"\x1b[?1049h\x1b[?25l\x1b[H\x1b[2Jwelcome\x1b[5;1H\x1b[1mready\x1b[0m> "


class Prompt:
    """The input box and what was typed into it."""

    def __init__(self, log: TextIO) -> None:
        self.log = log
        self.before = termios.tcgetattr(0)
        self.text = ""

    def tell(self, kind: str, **more: Any) -> None:
        """Write an event."""
        self.log.write(json.dumps({"kind": kind, **more}) + "\n")

    def take(self, data: bytes) -> bytes:
        """Take in what was typed; what is left is not complete."""
        while data:
            if data.startswith(PASTE):
                if END not in data:
                    break
                pasted, _, data = data[len(PASTE) :].partition(END)
                self.pasted(pasted.decode())
            elif PASTE.startswith(data):
                break
            else:
                self.key(data[:1])
                data = data[1:]
        return data

    def pasted(self, text: str) -> None:
        """A paste that was marked as one."""
        self.text += text
        self.tell("paste", text=text)
        os.write(1, f"[pasted {len(text.encode())}]".encode())

    def key(self, key: bytes) -> None:
        """One key."""
        if key == b"\r":
            self.tell("enter", text=self.text)
            os.write(1, b"[sent]")
            self.text = ""
        elif key == b"\x1a":
            self.suspend()
        elif key == b"k":
            os.kill(os.getpid(), signal.SIGKILL)
        elif key in (b"q", b"\x04") and not self.text:
            self.end()
        else:
            self.text += key.decode(errors="replace")
            self.tell("typed", key=key.decode(errors="replace"))
            os.write(1, b"." if key < b" " else key)

    def suspend(self) -> None:
        """Stop, as Ctrl-Z asks."""
        self.tell("suspended")
        termios.tcsetattr(0, termios.TCSADRAIN, self.before)
        if os.environ.get("T_ALONE"):
            os.kill(os.getpid(), signal.SIGSTOP)
        else:
            os.kill(0, signal.SIGTSTP)
        tty.setraw(0)
        self.tell("resumed")

    def end(self) -> None:
        """Leave the terminal as it was."""
        self.tell("end")
        os.write(1, b"\x1b[?2004l\x1b[?25h\x1b[?1049l")
        termios.tcsetattr(0, termios.TCSADRAIN, self.before)
        sys.exit(7)


def main() -> None:
    """Run until `q`, the end of the input, or Ctrl-D."""
    with open(sys.argv[1], "a", buffering=1) as log:
        prompt = Prompt(log)
        resized = lambda number, frame: prompt.tell("size", size=list(os.get_terminal_size(0)))  # noqa: E731
        signal.signal(signal.SIGWINCH, resized)
        tty.setraw(0)
        told = ("T_", "CLAUDE", "TERM", "TMUX")
        env = {name: value for name, value in os.environ.items() if name.startswith(told)}
        size = list(os.get_terminal_size(0))
        prompt.tell("start", argv=sys.argv[2:], cwd=os.getcwd(), env=env, size=size)
        if os.environ.get("T_LATE"):
            os.write(1, MARKS_PASTES)
        time.sleep(float(os.environ.get("T_DELAY", "0")))
        if select.select([0], [], [], 0)[0]:
            prompt.tell("early")
        if os.environ.get("T_DIE"):
            termios.tcsetattr(0, termios.TCSADRAIN, prompt.before)
            sys.exit(f"no such session\x1b[31m: {os.environ['T_DIE']}")
        if not os.environ.get("T_UNMARKED"):
            os.write(1, MARKS_PASTES)
        if not os.environ.get("T_NEVER"):
            os.write(1, SCREEN)
        data = b""
        while new := os.read(0, 65536):
            data = prompt.take(data + new)


main()
