"""Where the time of a printed handoff goes: by step, and by the function that was running.

    python bench/handoff_profile.py [THREAD] [--runs N] [--write]

A clock interrupts the program twice a millisecond, and the functions that run then are counted: unlike
a tracing profiler this slows all of them alike. Without THREAD it is one of 72 MB under `.cache/bench`.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from types import FrameType

import run
import threads

PAGE = run.ROOT / "bench" / "README.md"
INTERVAL = 0.0005
"""Seconds between two looks."""
STEPS = (
    ("the modules are loaded", "<frozen importlib._bootstrap>:_find_and_load"),
    ("the thread is read", "harness/claude/read.py:ClaudeReader.read"),
    ("facts: what the user said", "draft/facts/statements.py:extract_user_statements"),
    ("facts: what the agent said", "draft/facts/statements.py:extract_assistant_statements"),
    ("facts: all of them", "draft/facts/derive.py:read_facts"),
    ("the draft: what the goal is about", "draft/rank/relevance.py:Relevance.__init__"),
    ("the draft: excerpts of the messages", "draft/rank/excerpts.py:ExcerptPicker.pick_blocks"),
    ("the draft: all of it", "draft/authors/offline.py:write_offline_draft"),
    ("the checks", "draft/claims/checker.py:DraftChecker.check_draft"),
    ("redaction, citations, the budget", "draft/assemble.py:fit_draft"),
    ("the vault", "vault/store.py:Vault.save"),
)
"""Steps, and the function that each of them is."""


def name_of(frame: FrameType) -> str:
    """A function by its file within the package, and its name."""
    code = frame.f_code
    return f"{code.co_filename.rpartition('/src/tasuki/')[2]}:{code.co_qualname}"


def watch(thread: str) -> None:
    """Print a brief and, as JSON on standard error, how often each function was seen."""
    running: Counter[str] = Counter()
    inside: Counter[str] = Counter()

    def look(_number: int, frame: FrameType | None) -> None:
        seen = set[str]()
        running[name_of(frame) if frame else "?"] += 1
        while frame is not None:
            seen.add(name_of(frame))
            frame = frame.f_back
        inside.update(seen)

    signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, INTERVAL, INTERVAL)
    sys.argv = ["tasuki", *run.handoff_of(Path(thread))[1:]]
    from tasuki.cli.main import main

    try:
        main()
    except SystemExit:
        signal.setitimer(signal.ITIMER_REAL, 0)
    os.write(2, f"\n{json.dumps([running, inside])}".encode())


def measure(thread: Path, runs: int) -> tuple[float, Counter[str], Counter[str]]:
    """Milliseconds of a run without looks, those of each function alone, and with what it calls."""
    running: Counter[str] = Counter()
    inside: Counter[str] = Counter()
    whole = []
    with tempfile.TemporaryDirectory() as data:
        env = {
            **{k: v for k, v in os.environ.items() if k not in run.LEFT_OUT},
            "TASUKI_DATA": data,
            "TASUKI_CONFIG": "",
        }
        for number in range(runs + 1):  # The first one compiles.
            shutil.rmtree(Path(data) / "cache", ignore_errors=True)
            began = time.perf_counter()
            subprocess.run(run.handoff_of(thread), env=env, capture_output=True, check=True)
            whole.append(time.perf_counter() - began)
            shutil.rmtree(Path(data) / "cache", ignore_errors=True)
            watched = subprocess.run(
                [run.PYTHON, __file__, "--watch", str(thread)], env=env, capture_output=True
            )
            one, other = json.loads(watched.stderr.rpartition(b"\n")[2])
            if number:
                running.update(one)
                inside.update(other)
    looks = sum(running.values()) / runs
    unit = 1000 * min(whole) / looks / runs
    scale = {name: count * unit for name, count in running.items()}, {name: count * unit for name, count in inside.items()}  # fmt: skip
    return 1000 * min(whole), Counter(scale[0]), Counter(scale[1])


def format_profile(thread: Path, whole: float, running: Counter[str], inside: Counter[str]) -> str:
    """The profile as Markdown."""
    size = thread.stat().st_size / 1e6
    lines = [f"| step, of {whole:.0f} ms for {size:.1f} MB | ms |", "|---|---|"]
    lines += [f"| {title} | {inside[name]:.0f} |" for title, name in STEPS]
    lines += ["", "| function, without what it calls | ms |", "|---|---|"]
    own = [(name, ms) for name, ms in running.most_common() if "/" in name and name[0] not in "/<"]
    lines += [f"| `{name}` | {ms:.0f} |" for name, ms in own[:16]]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, print, and write where that is wanted."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("thread", nargs="?", type=Path)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--write", action="store_true", help="write the tables into the page")
    parser.add_argument("--watch", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.watch:
        watch(str(options.thread))
        return
    thread = options.thread or threads.write(run.CACHE / "mixture.jsonl", run.BIG, seed=2)
    text = format_profile(thread, *measure(thread, options.runs))
    print(text)
    if options.write:
        page = PAGE.read_text("utf-8")
        head, _, rest = page.partition("<!-- profile -->\n")
        tail = rest.partition("<!-- /profile -->")[2]
        PAGE.write_text(f"{head}<!-- profile -->\n{text}<!-- /profile -->{tail}", "utf-8")


if __name__ == "__main__":
    main()
