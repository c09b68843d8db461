"""A small program with an input box, as coding agents have one, for tests of launching.

It marks pastes (DECSET 2004), shows `ready> ` after `DELAY` seconds, and writes every event as a
line of JSON to the file named in argv[1]: start, paste, typed, enter, size, suspended, end.
Ctrl-C is told, `q` on an empty input ends it with status 7, Ctrl-Z stops it.
"""

import json
import os
import shutil
import signal
import sys
import termios
import time
import tty
from typing import Any


def main() -> None:
    """Run until `q`, the end of the input, or Ctrl-D."""
    log = open(sys.argv[1], "a", buffering=1)  # noqa: SIM115

    def tell(kind: str, **more: Any) -> None:
        log.write(json.dumps({"kind": kind, **more}) + "\n")

    def sized(number: int, frame: Any) -> None:
        tell("size", size=list(shutil.get_terminal_size()))

    signal.signal(signal.SIGWINCH, sized)
    before = termios.tcgetattr(0)
    tty.setraw(0)
    env = {k: v for k, v in os.environ.items() if k.startswith(("T_", "CLAUDE", "TERM", "TMUX"))}
    size = list(os.get_terminal_size(0))
    tell("start", argv=sys.argv[2:], cwd=os.getcwd(), env=env, size=size)
    time.sleep(float(os.environ.get("T_DELAY", "0")))
    if os.environ.get("T_DIE"):
        termios.tcsetattr(0, termios.TCSADRAIN, before)
        sys.exit(f"no such session\x1b[31m: {os.environ['T_DIE']}")
    if not os.environ.get("T_NEVER"):
        os.write(
            1, b"\x1b[?1049h\x1b[?2004h\x1b[?25l\x1b[H\x1b[2Jwelcome\x1b[5;1H\x1b[1mready\x1b[0m> "
        )
    data = b""
    text = ""
    while True:
        new = os.read(0, 65536)
        if not new:
            break
        data += new
        while data:
            if data.startswith(b"\x1b[200~"):
                if b"\x1b[201~" not in data:
                    break
                pasted, _, data = data[6:].partition(b"\x1b[201~")
                text += pasted.decode()
                tell("paste", text=pasted.decode())
                os.write(1, f"[pasted {len(pasted)}]".encode())
                continue
            if data.startswith(b"\x1b") and len(data) < 6 and b"\x1b[200~".startswith(data):
                break
            key, data = data[:1], data[1:]
            if key == b"\r":
                tell("enter", text=text)
                os.write(1, b"[sent]")
                text = ""
            elif key == b"\x1a":
                tell("suspended")
                termios.tcsetattr(0, termios.TCSADRAIN, before)
                os.kill(0, signal.SIGTSTP)
                tty.setraw(0)
                tell("resumed")
                os.write(1, b"[resumed]")
            elif key == b"k":
                os.kill(os.getpid(), signal.SIGKILL)
            elif key in (b"q", b"\x04") and not text:
                tell("end")
                os.write(1, b"\x1b[?2004l\x1b[?25h\x1b[?1049l")
                termios.tcsetattr(0, termios.TCSADRAIN, before)
                sys.exit(7)
            else:
                text += key.decode(errors="replace")
                tell("typed", key=key.decode(errors="replace"))
                os.write(1, b"." if key < b" " else key)


main()
