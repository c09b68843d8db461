"""Threads long enough to be cut, in every format, for the tests of the continuation benchmark."""

import time
from pathlib import Path

from tasuki_testing.builder import ThreadBuilder

CWD = "/home/dev/proj"
WHOLE_PATHS = ("claude", "gemini", "gemini-json", "copilot", "opencode", "opencode-export")
"""Formats whose file tools are given whole paths."""
PARTS = ("client", "server", "queue", "retry", "parser", "store", "config")


def long_thread(
    harness: str, seed: int = 0, compact: tuple[int, ...] = (), turns: int = 7, cwd: str = CWD
) -> ThreadBuilder:
    """Seven prompts with seven calls behind each; a compaction before the prompts in `compact`.

    Files and commands come again in later turns, with new code each time.
    """
    builder = ThreadBuilder(harness, cwd, seed)

    def path(name: str) -> str:
        return f"{cwd}/{name}" if harness in WHOLE_PATHS else name

    for turn in range(turns):
        part, other = PARTS[turn % len(PARTS)], PARTS[(turn + 3) % len(PARTS)]
        if turn in compact:
            builder.compaction(summary(turn))
        builder.user(f"Turn {turn}: please go on with the work on the module, step {turn}")
        builder.assistant(f"I look at the `{part}_loop` and the {other} first, then I test it.")
        builder.read(path(f"src/app/{part}.py"), f"def {part}_loop(maxAttempts={turn}): ...\n")
        builder.read(path(f"src/app/{other}.py"), f"def {other}_loop(): return {part}Total\n")
        builder.shell("pytest -q tests/app", f"{turn} failed: {part}_loop\n", 1)
        old, new = f"{part}_loop(maxAttempts={turn})", f"{part}_loop(maxAttempts={turn + 1})"
        builder.edit(path(f"src/app/{part}.py"), old, new)
        builder.edit(
            path("src/app/shared.py"), f"limitOf{turn} = 1", f"limitOf{turn} = {other}Total"
        )
        builder.shell("pytest -q tests/app", "12 passed\n")
        builder.shell(f"ruff check src/app/{part}.py && git status", "All checks passed!\n")
        builder.assistant(f"Done with {part}: `{part}_loop` takes maxAttempts now.")
    return builder


def summary(turn: int) -> str:
    """What the harness might put in place of the thread."""
    return (
        f"The user wants the module finished; step {turn} comes next. Files: src/app/shared.py, "
        f"src/app/{PARTS[turn % len(PARTS)]}.py. Tests run with `pytest -q tests/app`. "
        "The loops take maxAttempts, and the limits are in src/app/shared.py, which everything uses."
    )


def written(folder: Path, harness: str, seed: int = 0, compact: tuple[int, ...] = ()) -> Path:
    """Such a thread on disk, as its harness would name it."""
    return long_thread(harness, seed, compact).write(folder)


def sleeping(path: Path) -> None:
    """Work that takes ten minutes, and leaves a file when it begins."""
    path.touch()
    time.sleep(600)
