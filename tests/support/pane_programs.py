"""A program with an input box in the panes of a fleet, and what it tells of what reached it."""

import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from terminals import Terminal
from tree import PROGRAMS
from waiting import retry_until

from tasuki.launch.tmux.panes import OpenedPane, TmuxPanes
from tasuki.launch.tmux.paste import PaneMarks

PROGRAM = str(PROGRAMS / "prompt.py")


@contextmanager
def own_server(folder: Path, patch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    """A tmux server of a test's own, outside of the one that the tests may run in."""
    for name in ("TMUX", "TMUX_PANE"):
        patch.delenv(name, raising=False)
    made = Terminal(folder)
    yield made
    made.end()


def events(log: Path, kind: str) -> list[dict[str, Any]]:
    """What the program told, of one kind."""
    written = log.read_text().rpartition("\n")[0] if log.exists() else ""
    lines = written.splitlines()  # the last one may be half written
    return [event for event in map(json.loads, lines) if event["kind"] == kind]


def ordered(folder: Path, argv: Sequence[str], name: str = "1", **env: str) -> Path:
    """An order file."""
    order = folder / f"{name} $(x) #(touch z) #{{pane_id}}.json"
    content = {"argv": list(argv), "cwd": str(folder), "env": {**os.environ, **env}}
    order.write_text(json.dumps(content))
    order.chmod(0o600)
    return order


def prompt(panes: TmuxPanes, log: Path, tag: str = "agent-1", **env: str) -> OpenedPane:
    """A pane with the program, once it takes input."""
    order = ordered(log.parent, (sys.executable, PROGRAM, str(log)), tag, **env)
    opened = panes.open(order, "a window", tag, str(log.parent))
    retry_until(lambda: "ready>" in panes.capture_screen(opened.pane).text)
    return opened


def texts(log: Path, kind: str) -> list[str]:
    """The texts of the events of one kind."""
    return [event["text"] for event in events(log, kind)]


def submit(panes: TmuxPanes, pane: str, text: str, id: str, gap: float, pid: int = 0) -> PaneMarks:
    """Paste and press Enter alone in the pane, from where an attempt stopped."""
    with panes.lock(pane):
        marks = panes.read_marks(pane, pid)
        if marks.paste != id:
            marks = panes.paste(pane, text, id, pid)
        if marks.enter != id:
            time.sleep(gap)
            marks = panes.enter(pane, id, pid)
        return marks
