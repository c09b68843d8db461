"""Records `docs/review.svg`: the real review screen on the bundled thread, in a real terminal (tmux).

.venv/bin/python scripts/record.py
"""

import io
import os
import re
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).parent.parent
GOAL = "Make retries configurable and cover the 429 path with a test"
WIDTH, HEIGHT = 132, 34
SOCKET = f"tasuki-record-{os.getpid()}"


def tmux(*arguments: str) -> str:
    """One command of a tmux server of our own."""
    command = ("tmux", "-L", SOCKET, "-f", "/dev/null", *arguments)
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def until(text: str) -> None:
    """Wait until the screen shows a text."""
    deadline = time.monotonic() + 20
    while text not in tmux("capture-pane", "-p"):
        if time.monotonic() > deadline:
            raise SystemExit(f"The screen never showed {text!r}.")
        time.sleep(0.1)


def main() -> None:
    """Open the review, move to a line with references, and save what the terminal shows."""
    if not shutil.which("tmux"):
        raise SystemExit("tmux is needed to record a real terminal.")
    with tempfile.TemporaryDirectory() as folder:
        environment = [
            "env",
            f"HOME={folder}",
            f"TASUKI_DATA={folder}/data",
            "COLORTERM=truecolor",
            "LANG=C.UTF-8",
        ]
        command = [
            *environment,
            str(ROOT / ".venv/bin/tasuki"),
            "handoff",
            "--from",
            "demo/thread.jsonl",
            GOAL,
        ]
        size = ("-x", str(WIDTH), "-y", str(HEIGHT))
        tmux("new-session", "-d", *size, "-c", str(ROOT), *command)
        try:
            until("^S start")
            for _ in range(40):
                tmux("send-keys", "Down")
                time.sleep(0.15)
                if " assistant  20" in tmux("capture-pane", "-p"):
                    break
            screen = tmux("capture-pane", "-p", "-e", "-N")
        finally:
            tmux("kill-server")
    console = Console(
        record=True,
        width=WIDTH,
        file=io.StringIO(),
        force_terminal=True,
        color_system="truecolor",
    )
    console.print(Text.from_ansi(screen.rstrip("\n")), soft_wrap=True)
    svg = console.export_svg(title="tasuki handoff")
    svg = re.sub(r"@font-face\s*\{.*?\}|<!--.*?-->", "", svg, flags=re.DOTALL)  # asks no other host
    (ROOT / "docs" / "review.svg").write_text(svg, encoding="utf-8")


if __name__ == "__main__":
    main()
