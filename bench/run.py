"""Speed and memory of the commands, side by side with reading the same file with `json.loads`.

    python bench/run.py [--quick] [--peers] [--write]

Files are made once under `.cache/bench` (1.1 GB; 80 MB with --quick). Each figure is the best of
the runs, in one session of one machine. `--write` puts the table into bench/README.md and README.md.
"""

import argparse
import os
import platform
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import threads

ROOT = Path(__file__).parent.parent
CACHE = ROOT / ".cache" / "bench"
GOAL = "make the retry of the upload client configurable and cover the timeout path with a test"
TASUKI = [str(ROOT / ".venv" / "bin" / "tasuki")]
JSON_LOADS = "import json,sys\nfor line in open(sys.argv[1],'rb'): json.loads(line)"


def measured(command: list[str], cwd: Path, env: dict[str, str], runs: int) -> tuple[float, float]:
    """Best wall time in seconds and the peak resident memory in MB of a command."""
    best, peak = 9e9, 0.0
    for _ in range(runs):
        started = time.perf_counter()
        process = subprocess.Popen(
            command, cwd=cwd, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        _, status, usage = os.wait4(process.pid, 0)
        took = time.perf_counter() - started
        if status:
            raise SystemExit(
                f"{command} failed: {process.stderr.read().decode() if process.stderr else ''}"
            )
        if process.stderr:
            process.stderr.close()
        process.returncode = 0
        best, peak = (
            min(best, took),
            max(peak, usage.ru_maxrss / (1024 if sys.platform != "darwin" else 1 << 20)),
        )
    return best, peak


PEERS = {"claude-handoff": "0.20.0", "cc2md": "1.0"}
"""Programs from PyPI that write something to go on from out of the same file, pinned."""


def peers(thread: Path, folder: Path) -> list[tuple[str, list[str]]]:
    """Commands of the peers, installed beside the bench files; none without --peers."""
    if "--peers" not in sys.argv:
        return []
    home = CACHE / "peers"
    if not (home / "bin" / "cc2md").exists():
        subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
        wanted = [f"{name}=={version}" for name, version in PEERS.items()]
        subprocess.run([str(home / "bin" / "pip"), "install", "-q", *wanted], check=True)
    out = str(folder / "out.md")
    return [
        (
            "claude-handoff 0.20.0",
            [str(home / "bin" / "claude-handoff"), str(thread), "-o", out, "--no-cache"],
        ),
        ("cc2md 1.0", [str(home / "bin" / "cc2md"), str(thread), "--output", out]),
    ]


def home_with_threads(folder: Path, count: int, size: int) -> Path:
    """A home folder with many threads of one project, made once."""
    projects = folder / ".claude" / "projects" / "-home-dev-proj"
    for n in range(count):
        threads.write(projects / f"{n:08x}-0000-4000-8000-000000000000.jsonl", size, seed=n % 7)
    return folder


def rows(quick: bool) -> list[tuple[str, str, float, float]]:
    """What was measured: name, bound, seconds, MB."""
    found = []
    with tempfile.TemporaryDirectory() as data:
        own = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        env = {
            **own,
            "TASUKI_DATA": data,
            "TASUKI_CONFIG": "/nonexistent/config.toml",
            "HOME": data,
        }

        def add(name: str, bound: str, command: list[str], runs: int = 5, **more: str) -> None:
            seconds, megabytes = measured(command, Path(data), {**env, **more}, runs)
            found.append((name, bound, seconds, megabytes))
            print(f"{name:<58} {seconds:7.3f} s {megabytes:7.0f} MB   {bound}", flush=True)

        add("python -c pass", "", [sys.executable, "-c", "pass"])
        add("tasuki --version", "≤ 0.08 s", [*TASUKI, "--version"], 10)
        middle = threads.write(CACHE / "70mb.jsonl", 70_000_000)
        add(
            "json.loads of every line of 70 MB", "", [sys.executable, "-c", JSON_LOADS, str(middle)]
        )
        add(
            "tasuki handoff --print, 70 MB",
            "≤ 0.35 s, ≤ 120 MB",
            [*TASUKI, "handoff", "--print", "--from", str(middle), GOAL],
        )
        for name, command in peers(middle, Path(data)):
            add(f"{name}, 70 MB", "", command, 3)
        if not quick:
            large = threads.write(CACHE / "1gb.jsonl", 1_000_000_000)
            add(
                "json.loads of every line of 1 GB",
                "",
                [sys.executable, "-c", JSON_LOADS, str(large)],
                2,
            )
            add(
                "tasuki handoff --print, 1 GB",
                "≤ 3 s, ≤ 300 MB",
                [*TASUKI, "handoff", "--print", "--from", str(large), GOAL],
                3,
            )
            home = home_with_threads(CACHE / "home", 1000, 1_000_000)
            add(
                "tasuki threads --all, 1,000 of 1 MB",
                "≤ 0.2 s",
                [*TASUKI, "threads", "--all", "--limit", "1000"],
                HOME=str(home),
            )
    return found


def table(found: list[tuple[str, str, float, float]]) -> str:
    """The rows as Markdown, with the machine they were measured on."""
    lines = ["| what | seconds | MB | bound |", "|---|---|---|---|"]
    lines += [
        f"| {name} | {seconds:.3f} | {megabytes:.0f} | {bound} |"
        for name, bound, seconds, megabytes in found
    ]
    machine = f"{os.cpu_count()} cores, {platform.machine()}, {platform.system()}, Python {platform.python_version()}"
    return "\n".join(lines) + f"\n\nBest of the runs, on {machine}: `scripts/bench`.\n"


def put(page: Path, text: str) -> None:
    """Replace what stands between the marks of a page."""
    before, begin, rest = page.read_text(encoding="utf-8").partition("<!-- figures -->\n")
    _, end, after = rest.partition("<!-- /figures -->")
    page.write_text(f"{before}{begin}{text}{end}{after}", encoding="utf-8")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="without the 1 GB file and the 1,000 threads"
    )
    parser.add_argument("--peers", action="store_true", help="also other programs from PyPI")
    parser.add_argument("--write", action="store_true", help="write the table into the pages")
    options = parser.parse_args()
    if shutil.disk_usage(ROOT).free < 3e9 and not options.quick:
        raise SystemExit("The large files need 3 GB of free disk; run with --quick.")
    found = rows(options.quick)
    if options.write:
        for page in (ROOT / "bench" / "README.md", ROOT / "README.md"):
            put(page, table(found))


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    main()
