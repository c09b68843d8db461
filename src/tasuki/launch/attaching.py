"""Takes the operator to a pane: this terminal becomes tmux, or its tmux goes there."""

import os
import sys

from tasuki.errors import LaunchFailed
from tasuki.launch.tmux import Tmux


def attach(pane: str, socket: str = "") -> None:
    """Show a pane in this terminal; inside tmux this client goes there, and the call returns.

    Raises PaneGone where it is not there, LaunchFailed outside of a terminal.
    """
    tmux = Tmux(socket)
    there = ("-t", pane)
    look = (("select-window", *there), ("select-pane", *there))
    if tmux.inside:
        tmux.run(*look, ("switch-client", *there))
        return
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise LaunchFailed(
            "This is no terminal. In one: " + " ".join((*tmux.base, "attach", *there))
        )
    tmux.run(*look)
    os.execvp("tmux", (*tmux.base, "attach-session", *there))
