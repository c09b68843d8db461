"""Takes the operator to a pane: this terminal becomes tmux, or its tmux goes there."""

import os
import shlex
import sys

from tasuki.errors import LaunchFailed
from tasuki.launch.tmux import Tmux


def attach(pane: str, socket: str) -> None:
    """Show a pane in this terminal; inside the same tmux this client goes there, and the call returns.

    `socket` is the path of its tmux server's socket, empty for the default one. Raises PaneGone
    where the pane is not there, LaunchFailed outside of a terminal and inside another tmux server.
    """
    tmux, mine = Tmux(socket), os.environ.get("TMUX", "").partition(",")[0]
    there, shown = ("-t", pane), shlex.join(("tmux", *tmux.named, "attach", "-t", pane))
    look = (("select-window", *there), ("select-pane", *there))
    if mine:
        if socket and os.path.realpath(socket) != os.path.realpath(mine):
            raise LaunchFailed(
                f"The agent is in another tmux server than this terminal. Outside of it: {shown}"
            )
        Tmux().run(*look, ("switch-client", *there))  # $TMUX_PANE says whose client that is
        return
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise LaunchFailed(f"This is no terminal. In one: {shown}")
    tmux.run(*look)
    os.execvp("tmux", (*tmux.base, "attach-session", *there))
