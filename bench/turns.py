"""What a turn of Claude Code costs with tasuki and without, the real program on a scripted model: bench/turns.py [TURNS].

Prints a table of milliseconds for each turn but the first. Claude Code records how long its hooks took; the system knows
what the processes used that it started and waited for: its hooks, its status line, its own git.
"""

import contextlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SOURCES = os.environ.get("PYTHONPATH", str(ROOT / "src"))
sys.path[:0] = [str(ROOT / n) for n in ("tests/e2e", "src", "workshop", "tests", "tests/support")]

import pytest  # noqa: E402
from agents import PROGRAMS  # noqa: E402
from conftest import World  # noqa: E402
from fakes.model_server import ModelServer, ModelStep  # noqa: E402
from inside import opened, tasuki, typed  # noqa: E402
from serve_command import Server  # noqa: E402
from waiting import retry_until  # noqa: E402

KINDS = {"without": "", "install claude --keep": "--keep", "the same, and a server": "--keep --fleet"}  # fmt: skip
HEAD = "| tasuki | hooks at the end | from prompt to end | processor |\n|---|---|---|---|"


@contextlib.contextmanager
def build_world(folder: Path, options: str) -> Iterator[World]:
    """A home with Claude Code and tasuki's parts, none without options."""
    with pytest.MonkeyPatch.context() as patch, ModelServer([], ModelStep("Done.")) as model:
        world, server = World(folder, model, patch), Server(folder)
        PROGRAMS["claude"].prepare(world)
        world.set(TASUKI_DATA=str(server.data), PYTHONPATH=SOURCES)
        server.env["PYTHONPATH"] = SOURCES
        try:
            _ = options and tasuki(world, "install", "claude", "--yes", *options.split())
            _ = "--fleet" in options and server.start_program()
            yield world
        finally:
            world.terminal.end()
            for program in server.started:
                program.terminate()
                program.wait()


def measure_turns(world: World, count: int) -> list[float]:
    """Have a first turn and so many more; the figures of a row."""
    world.shows(pane := opened(world, ["claude"]), "❯")
    used = []
    for number in range(count + 1):
        world.until_quiet(pane)
        typed(world, pane, f"turn {number}")
        retry_until(lambda n=number: len(list_rows(world, "turn_duration")) > n, 20)
        time.sleep(1.5)  # The status line comes after the end.
        (session,) = world.home.glob(".claude/sessions/[0-9]*.json")
        fields = Path(f"/proc/{session.stem}/stat").read_text().rpartition(")")[2].split()
        used.append(sum(map(int, fields[13:15])) * 1e3 / os.sysconf("SC_CLK_TCK"))
    ends = [row["hookInfos"] for row in list_rows(world, "stop_hook_summary")[1:]]
    hooks = [max(info["durationMs"] for info in infos) for infos in ends]
    rows = zip(*(list_rows(world, kind)[1:] for kind in ("user", "turn_duration")), strict=True)
    times = [[datetime.fromisoformat(row["timestamp"]) for row in pair] for pair in rows]
    took = [1e3 * (end - start).total_seconds() for start, end in times]
    return [median(hooks or [0]), median(took), (used[-1] - used[0]) / count]


def list_rows(world: World, kind: str) -> list[dict[str, Any]]:
    """The rows of a type or subtype in its only thread."""
    texts = (path.read_text() for path in world.home.glob(".claude/projects/*/*.jsonl"))
    rows = [json.loads(line) for text in texts for line in text.splitlines()]
    return [row for row in rows if kind in (row["type"], row.get("subtype"))]


if __name__ == "__main__":
    print(HEAD)
    for title, options in KINDS.items():
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
            with build_world(Path(name), options) as world:
                row = measure_turns(world, int(sys.argv[1]) if sys.argv[1:] else 9)
        print(f"| {title} | {' | '.join(f'{cell:.0f}' for cell in row)} |", flush=True)
