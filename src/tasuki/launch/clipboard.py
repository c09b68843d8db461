"""Put a text on the clipboard, with whatever this machine has."""

import base64
import os
import shutil
import subprocess
import sys
from contextlib import suppress

from tasuki.errors import LaunchFailed

MAX_SEQUENCE = 100_000
"""Bytes of an OSC 52 sequence; terminals drop longer ones silently."""
SECONDS = 3.0


def copy_text(text: str) -> str:
    """Copy a text; return the name of the way that was used, for the user.

    Tried in order: wl-copy, xclip, xsel where there is a display, pbcopy on macOS, the buffer
    of tmux inside tmux, and the terminal itself (OSC 52, which nothing confirms). Raises
    LaunchFailed.
    """
    data = text.encode("utf-8", "replace")
    has_display, is_mac = os.environ.get("DISPLAY"), sys.platform == "darwin"
    programs = {
        ("wl-copy", "--type", "text/plain;charset=utf-8"): os.environ.get("WAYLAND_DISPLAY"),
        ("xclip", "-selection", "clipboard"): has_display,
        ("xsel", "--input", "--clipboard"): has_display,
        ("pbcopy",): is_mac,
    }
    for command, is_usable in programs.items():
        if is_usable and _run_program(command, data):
            return command[0]
    if os.environ.get("TMUX"):
        from tasuki.launch.tmux.server import Tmux

        with suppress(LaunchFailed):
            Tmux().copy_text(text)
            return "tmux"
    if _copy_by_terminal(data):
        return "the terminal (OSC 52)"
    raise LaunchFailed(
        "No program here can copy to the clipboard. Install wl-clipboard or xclip, or redirect the "
        "brief into a file: --print > brief.md"
    )


def _run_program(command: tuple[str, ...], data: bytes) -> bool:
    """Tell whether the program took the text. Its output is not read: xclip holds it open."""
    if not shutil.which(command[0]):
        return False
    try:
        done = subprocess.run(
            command,
            input=data,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def _copy_by_terminal(data: bytes) -> bool:
    sequence = b"\x1b]52;c;" + base64.b64encode(data) + b"\x07"
    if len(sequence) > MAX_SEQUENCE or os.environ.get("TERM", "dumb") in ("dumb", "linux"):
        return False
    with suppress(OSError), open("/dev/tty", "wb", buffering=0) as terminal:
        terminal.write(sequence)
        return True
    return False
