"""What a turn of Claude Code costs with tasuki and without, the real program on a scripted model: bench/turns.py [TURNS].

Milliseconds for each turn but the first: as Claude Code records them, and of a processor by what it starts and awaits.
"""

import argparse
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

FOLDERS = [str(Path(__file__).parents[1] / name) for name in ("src", "tests/e2e", "workshop", "tests", "tests/support")]  # fmt: skip
SOURCES = os.environ.get("PYTHONPATH", FOLDERS[0])
sys.path[:0] = FOLDERS

import pytest  # noqa: E402
from agents import PROGRAMS  # noqa: E402
from conftest import World  # noqa: E402
from fakes.model_server import ModelServer, ModelStep  # noqa: E402
from inside import opened, tasuki, typed  # noqa: E402
from serve_command import Server  # noqa: E402
from waiting import retry_until  # noqa: E402


@contextlib.contextmanager
def build_world(options: str) -> Iterator[World]:
    """A home with Claude Code and tasuki's parts, none without options."""
    model, context = ModelServer([], ModelStep("Done.")), pytest.MonkeyPatch.context()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name, context as patch, model:
        world, server = World(Path(name), model, patch), Server(Path(name))
        PROGRAMS["claude"].prepare(world)
        world.set(TASUKI_DATA=str(server.data), PYTHONPATH=SOURCES)
        server.env["PYTHONPATH"] = SOURCES
        try:
            if options:
                tasuki(world, "install", "claude", "--yes", *options.split())
            if "--fleet" in options:
                server.start_program()
            yield world
        finally:
            world.terminal.end()
            server.end()


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
    hooks = [max(i["durationMs"] for i in r["hookInfos"]) for r in list_rows(world, "stop_hook_summary")[1:]]  # fmt: skip
    asked, ended = ([datetime.fromisoformat(r["timestamp"]) for r in list_rows(world, k)[1:]] for k in ("user", "turn_duration"))  # fmt: skip
    took = median(end - start for start, end in zip(asked, ended, strict=True)).total_seconds()
    return [median(hooks or [0]), 1e3 * took, (used[-1] - used[0]) / count]


def list_rows(world: World, kind: str) -> list[dict]:
    """The rows of a type or subtype in its only thread."""
    text = "".join(path.read_text() for path in world.home.glob(".claude/projects/*/*.jsonl"))
    return [r for r in map(json.loads, text.splitlines()) if kind in (r["type"], r.get("subtype"))]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("turns", nargs="?", type=int, default=9)
    count = parser.parse_args().turns
    print("| tasuki | hooks at the end | from prompt to end | processor |\n|---|---|---|---|")
    for options in ("", "--keep", "--keep --fleet"):
        with build_world(options) as world:
            row = [f"{cell:.0f}" for cell in measure_turns(world, count)]
        print("|", " | ".join([options, *row]), "|", flush=True)
