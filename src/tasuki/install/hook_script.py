"""The script by which hooks of a fleet report to tasuki's server, small and quick.

The file `address` remains after a server was killed, and another program may use its port
by then. So its second line names the server's process (`web/security/single_server.py`): nothing is sent
unless that process lives, and an answer counts only with status 200 and the proof of the
third line in its header `X-Tasuki`. A server in another PID namespace (a container) cannot
be looked up: there the event is sent, and the proof alone decides whether it was accepted.
Every other event is kept in the spool.

Where a server does not answer in time, the next hooks keep their events without asking it.
One of them asks again after `REST_SECONDS`, and a server that works removes the file that
marks it hung.

Of a status line, which is sent every few seconds, the spool keeps the newest of each
session. The last tenth of the spool is for starts, ends of turns and ends of sessions: the
loss of other events is not worth that of these.
"""

import os
import shlex
import subprocess
from contextlib import suppress
from pathlib import Path

from tasuki.files import replace_file

NAME = "hook.sh"
MOST_FILES = 10_000
"""Events that are kept while no server answers; later ones are counted and dropped."""
MOST_SPOOLED = 64 << 20
"""Bytes that they take on the disk."""
MOST_BYTES = 1 << 20
"""Bytes of a payload; a larger one (a whole file in a tool's result) is not sent."""
REST_SECONDS = 5
"""How long hooks keep their events without asking after a request timed out.

Then one of them tries again.
"""
HUNG = "hung"
"""The file that marks a hung server.

It holds the server's process, when that began, and the time in seconds.
"""

SCRIPT = Path(__file__).with_name("hook.sh")


def build_hook_script(folder: Path) -> str:
    """Return the text of the script for one folder of a server's own files."""
    most, many = MOST_SPOOLED >> 10, MOST_SPOOLED * 9 // 10
    bounds = {
        "@FILES@": MOST_FILES, "@MANY@": MOST_FILES * 9 // 10, "@LARGEST@": most, "@LARGE@": many >> 10,
        "@REST@": REST_SECONDS, "@FEW@": many // MOST_BYTES, "@MOST@": MOST_BYTES, "@OVER@": MOST_BYTES + 1,
    }  # fmt: skip
    text = SCRIPT.read_text("utf-8")
    for name, value in {**bounds, "@FOLDER@": shlex.quote(str(folder))}.items():
        text = text.replace(name, str(value))
    return text


def get_script_path(folder: Path) -> Path:
    """Return the path of the script."""
    return folder / NAME


def write_hook_script(folder: Path) -> Path:
    """Write the script, or update it, and return its path. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    path, text = get_script_path(folder), build_hook_script(folder)
    if not path.exists() or path.read_text("utf-8") != text:
        replace_file(path, text.encode(), 0o700, synced=False)
    return path


def remove_hook_script(folder: Path) -> None:
    """Remove the script and its folder, where no server ever used that."""
    with suppress(OSError):
        if os.listdir(folder) == [NAME]:
            get_script_path(folder).unlink()
            folder.rmdir()


def send_status(folder: Path, harness: str, payload: bytes) -> None:
    """Pass a status line's payload to the script in its own process, without waiting."""
    path, none = get_script_path(folder), subprocess.DEVNULL
    if not path.exists():
        return
    with suppress(OSError):
        script = subprocess.Popen(
            ("sh", str(path), harness, "status"),
            stdin=subprocess.PIPE, stdout=none, stderr=none, start_new_session=True,
        )  # fmt: skip
        assert script.stdin
        script.stdin.write(payload)  # the script reads it before it does anything else
        script.stdin.close()
