"""A real tmux server of a test's own, as the terminal that programs run in."""

import os
import secrets
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from waiting import retry_until

from tasuki.launch.tmux.server import Tmux

PYTHON = sys.executable


class Terminal(Tmux):
    """A tmux server on its own socket with an environment of its own."""

    def __init__(self, home: Path, env: dict[str, str] | None = None) -> None:
        super().__init__(f"tasuki-test-{os.getpid()}-{secrets.token_hex(3)}")
        self.home = home
        self.env = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "LANG": "C.UTF-8",
            "TERM": "xterm-256color",
            "SHELL": "/bin/sh",
            "TMPDIR": os.environ.get("TMPDIR", "/tmp"),
            **(env or {}),
        }

    def open(self, command: Sequence[str], cwd: Path, width: int = 100, height: int = 30) -> str:
        """Run a command in a new session; its pane. The pane stays when the command ends."""
        words = ["env", "-i", *(f"{name}={value}" for name, value in self.env.items())]
        line = (
            "trap : INT; "
            + shlex.join([*words, *command])
            + '; printf "[ended %s]" $?; exec sleep 600'
        )
        size = ("-x", str(width), "-y", str(height))
        made = ("new-session", "-d", *size, "-P", "-F", "#{pane_id}", "/bin/sh", "-c", line)
        return self.run(made, cwd=str(cwd), env=self.env).strip()

    def shows(self, pane: str, text: str, seconds: float = 10.0) -> str:
        """The pane's screen once `text` is on it."""
        return (
            retry_until(lambda: text in (now := self.capture_screen(pane).text) and now, seconds)
            or ""
        )

    def keys(self, pane: str, *keys: str) -> None:
        """Press keys by their tmux names."""
        self.run(("send-keys", "-t", pane, *keys))

    def panes(self) -> list[str]:
        """All panes of the server."""
        listed = ("list-panes", "-a", "-F", "#{pane_id} #{window_name} #{pane_dead}")
        return self.run(listed).splitlines()

    def end(self) -> None:
        """End the server and what runs in it, and remove its socket."""
        command = [*self.base, "kill-server"]
        subprocess.run(command, env=self.env, check=False, capture_output=True)
        folder = Path(os.environ.get("TMUX_TMPDIR", "/tmp"))
        (folder / f"tmux-{os.getuid()}" / self.socket).unlink(missing_ok=True)
