"""Speed and memory of the commands, side by side with other programs and with `json.loads`.

    python bench/run.py [--quick] [--peers] [--write]

Files are made once under `.cache/bench` (2.1 GB; 80 MB with --quick). Programs that are compared run
in turns within one session of one machine; each figure is the best of the runs. `--peers` installs
three pinned programs from PyPI that write a document to continue from, and prints ratios with the
bounds that are set for them. `--write` puts the tables into bench/README.md and README.md.
"""

import argparse
import fcntl
import json
import os
import platform
import pty
import resource
import select
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import threads

ROOT = Path(__file__).parent.parent
CACHE = ROOT / ".cache" / "bench"
GOAL = "make the retry of the upload client configurable and cover the timeout path with a test"
PYTHON = str(ROOT / ".venv" / "bin" / "python")
TASUKI = str(ROOT / ".venv" / "bin" / "tasuki")
JSON_LOADS = "import json,sys\nfor line in open(sys.argv[1],'rb'): json.loads(line)"
HANDOFF_MODULES = "import tasuki.cli.main, tasuki.cli.handoff.run, tasuki.harness.claude.read"
THREADS_MODULES = "import tasuki.cli.main, tasuki.cli.thread_list, tasuki.threads.catalog"
PEERS = {"claude-handoff": "0.20.0", "session-handover": "0.5.0", "baton-agents": "0.1.0"}
"""Programs from PyPI that write something to continue from out of the same file, pinned."""


class Figure(NamedTuple):
    """The best of some runs: wall and processor seconds, and the peak of resident memory in MB."""

    wall: float
    processor: float
    megabytes: float


class Ratio(NamedTuple):
    """What is compared, as a ratio or a difference, and the bound that is set for it."""

    what: str
    value: float
    bound: float
    unit: str = ""

    @property
    def text(self) -> str:
        """The value and its bound for a table."""
        digits = 0 if self.unit else 2
        value, bound = f"{self.value:.{digits}f}{self.unit}", f"{self.bound:g}{self.unit}"
        return f"| {self.what} | {value} | ≤ {bound} | {'yes' if self.value <= self.bound else '**no**'} |"


def run(command: Sequence[str], cwd: Path, env: Mapping[str, str]) -> Figure:
    """Run a command once. Raises SystemExit where it fails."""
    started = time.perf_counter()
    process = subprocess.Popen(
        command, cwd=cwd, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    error = process.stderr.read() if process.stderr else b""
    _, status, usage = os.wait4(process.pid, 0)
    took = time.perf_counter() - started
    process.returncode = status
    if status:
        raise SystemExit(f"{' '.join(command)} failed: {error.decode()}")
    size = usage.ru_maxrss / (1024 if sys.platform != "darwin" else 1 << 20)
    return Figure(took, usage.ru_utime + usage.ru_stime, size)


class Bench:
    """The figures of one session, by their names, in the order in which they were measured."""

    def __init__(self, data: Path) -> None:
        self.data = data
        own = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        self.env = {
            **own,
            "TASUKI_DATA": str(data),
            "TASUKI_CONFIG": "",
            "HOME": str(data),
            "LC_ALL": "C.UTF-8",
        }
        self.figures: dict[str, Figure] = {}
        self.ratios: list[Ratio] = []

    def measure(self, contenders: Mapping[str, Sequence[str]], runs: int = 5, **env: str) -> None:
        """Run the contenders in turns, and keep the best of each."""
        for _ in range(runs):
            for name, command in contenders.items():
                figure = run(command, self.data, {**self.env, **env})
                best = self.figures.get(name, figure)
                self.figures[name] = Figure(
                    *map(min, best[:2], figure[:2]), max(best[2], figure[2])
                )
        for name in contenders:
            wall, processor, size = self.figures[name]
            print(f"{name:<58} {wall:7.3f} s {processor:7.3f} s {size:6.0f} MB", flush=True)

    def measure_review(self, name: str, thread: Path, runs: int = 3) -> None:
        """Keep the time until a review shows the brief in a terminal."""
        best = min(_time_first_frame(thread, self.data, self.env) for _ in range(runs))
        self.figures[name] = Figure(best, 0.0, 0.0)
        print(f"{name:<58} {best:7.3f} s", flush=True)

    def compare(
        self, what: str, name: str, others: Sequence[str], bound: float, *, by: str = "wall"
    ) -> None:
        """Add the ratio of a figure to the least of some others."""
        least = min(getattr(self.figures[other], by) for other in others)
        self.ratios.append(Ratio(what, getattr(self.figures[name], by) / least, bound))


def _time_first_frame(thread: Path, folder: Path, env: Mapping[str, str]) -> float:
    """Start a review in a terminal of its own; return the seconds until it shows the brief."""
    started = time.perf_counter()
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(folder)
        shown = {**env, "TERM": "xterm-256color"}
        os.execve(TASUKI, [TASUKI, "handoff", "--from", str(thread), "--to", "claude", GOAL], shown)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
    seen = b""
    try:
        while b"Handoff Context" not in seen and time.perf_counter() - started < 30:
            if select.select([terminal], [], [], 1.0)[0]:
                seen += os.read(terminal, 1 << 16)
        return time.perf_counter() - started
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
        os.close(terminal)


def install_peers() -> Path:
    """Install the peers beside the bench files; return the folder of their commands."""
    home = CACHE / "peers"
    wanted = [f"{name}=={version}" for name, version in PEERS.items()]
    marker = home / "installed"
    if not marker.exists() or marker.read_text() != str(wanted):
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(home)], check=True)
        subprocess.run([str(home / "bin" / "pip"), "install", "-q", *wanted], check=True)
        marker.write_text(str(wanted))
    return home / "bin"


def home_with_threads(folder: Path, count: int, size: int) -> Path:
    """A home folder with many threads of one project, made once."""
    projects = folder / ".claude" / "projects" / "-home-dev-proj"
    for n in range(count):
        threads.write(projects / f"{n:08x}-0000-4000-8000-000000000000.jsonl", size, seed=n % 7)
    return folder


def handoff_of(thread: Path) -> list[str]:
    """The command that prints a brief of a thread."""
    return [TASUKI, "handoff", "--print", "--from", str(thread), GOAL]


def loads_of(thread: Path) -> list[str]:
    """The command that decodes every line of a thread, and keeps nothing."""
    return [PYTHON, "-c", JSON_LOADS, str(thread)]


def block_of(thread: Path) -> list[str]:
    """The command that makes the block at a compaction, as the hook of Claude Code runs it.

    Each run is a session of its own: a compaction gets one block.
    """
    payload = {"hook_event_name": "SessionStart", "source": "compact", "session_id": "SESSION",
               "transcript_path": str(thread), "cwd": str(thread.parent)}  # fmt: skip
    told = json.dumps(payload).replace("SESSION", "'$$'")
    return ["sh", "-c", f"printf %s '{told}' | {TASUKI} hook claude"]


def measure_start(bench: Bench) -> None:
    """What happens before a command begins its work."""
    bench.measure(
        {
            "python -c pass": [PYTHON, "-c", "pass"],
            "tasuki --version": [TASUKI, "--version"],
            "modules of tasuki handoff": [PYTHON, "-c", HANDOFF_MODULES],
            "modules of tasuki threads": [PYTHON, "-c", THREADS_MODULES],
        },
        10,
    )
    floor = bench.figures["python -c pass"].wall
    for name, bound in (("tasuki --version", 45), ("modules of tasuki handoff", 90), ("modules of tasuki threads", 90)):  # fmt: skip
        over = (bench.figures[name].wall - floor) * 1000
        bench.ratios.append(Ratio(f"{name}, over python -c pass", over, bound, " ms"))


def measure_usual(bench: Bench, peers: Path | None) -> None:
    """A thread of usual size, and what is done with it besides a handoff."""
    small = threads.write(CACHE / "3mb.jsonl", 3_500_000)
    out = str(bench.data / "out.md")
    contenders = {"tasuki handoff --print, 3.5 MB": handoff_of(small)}
    if peers:
        contenders["claude-handoff, 3.5 MB"] = [str(peers / "claude-handoff"), str(small), "-o", out, "--no-cache"]  # fmt: skip
    bench.measure(contenders, 10)
    if peers:
        bench.compare(
            "3.5 MB: processor time, to claude-handoff", "tasuki handoff --print, 3.5 MB",
            ["claude-handoff, 3.5 MB"], 1.3, by="processor",
        )  # fmt: skip
    bench.measure({"tasuki read PATH#9, 3.5 MB": [TASUKI, "read", f"{small}#9"]})
    bench.measure({"the block at a compaction, 3.5 MB": block_of(small)})
    bench.measure({"tasuki doctor": [TASUKI, "doctor"]}, 3)
    bench.measure_review("the first frame of a review, 3.5 MB", small)


def measure_large(bench: Bench, peers: Path | None) -> None:
    """A thread of 70 MB."""
    large = threads.write(CACHE / "70mb.jsonl", 70_000_000)
    out = str(bench.data / "out.md")
    own, loads = "tasuki handoff --print, 70 MB", "json.loads of every line of 70 MB"
    contenders = {own: handoff_of(large), loads: loads_of(large)}
    env = {}
    if peers:
        home = CACHE / "one"
        placed = home / ".claude/projects/-home-dev-proj/70mb0000-0000-4000-8000-000000000000.jsonl"
        placed.parent.mkdir(parents=True, exist_ok=True)
        placed.unlink(missing_ok=True)
        os.link(large, placed)
        env = {"HOME": str(home)}
        contenders |= {
            "claude-handoff, 70 MB": [str(peers / "claude-handoff"), str(large), "-o", out, "--no-cache"],
            "session-handover, 70 MB": [str(peers / "session-handover"), "make", "--last", "--out", out],
            "baton-agents, 70 MB": [
                str(peers / "baton"), "move", "--from", "claude", "--to", "codex", "--session",
                placed.stem, "--dry-run", "-y",
            ],
        }  # fmt: skip
    bench.measure(contenders, **env)
    others = [name for name in contenders if name not in (own, loads)]
    if others:
        bench.compare("70 MB, to the fastest of them", own, others, 0.8)
    bench.compare("70 MB, to json.loads of every line", own, [loads], 1.1)
    bench.measure({"the block at a compaction, 70 MB": block_of(large)})
    bench.measure_review("the first frame of a review, 70 MB", large)


def measure_huge(bench: Bench) -> None:
    """A thread of 1 GB."""
    huge = threads.write(CACHE / "1gb.jsonl", 1_000_000_000)
    own, loads = "tasuki handoff --print, 1 GB", "json.loads of every line of 1 GB"
    bench.measure({own: handoff_of(huge), loads: loads_of(huge)}, 3)
    bench.compare("1 GB, to json.loads of every line", own, [loads], 0.9)
    bench.ratios.append(Ratio("1 GB: peak memory", bench.figures[own].megabytes, 200, " MB"))


def measure_many(bench: Bench, peers: Path | None) -> None:
    """A thousand threads of 1 MB."""
    home = home_with_threads(CACHE / "home", 1000, 1_000_000)
    own, other = "tasuki threads --all, 1,000 of 1 MB", "claude-handoff --list, 1,000 of 1 MB"
    contenders = {own: [TASUKI, "threads", "--all", "--limit", "1000"]}
    if peers:
        contenders[other] = [str(peers / "claude-handoff"), "--list", "--any"]
    bench.measure(contenders, 10, HOME=str(home))
    if peers:
        bench.compare("1,000 threads listed, to claude-handoff", own, [other], 1.0)
    found = "tasuki find, its index up to date, 1,000 of 1 MB"
    bench.measure({found: [TASUKI, "find", "ledger"]}, 3, HOME=str(home))


def format_figures(bench: Bench) -> str:
    """The figures and ratios as Markdown, with the machine they were measured on."""
    lines = ["| what | seconds | of a processor | MB |", "|---|---|---|---|"]
    for name, (wall, processor, size) in bench.figures.items():
        rest = f"{processor:.3f} | {size:.0f}" if size else " | "
        lines.append(f"| {name} | {wall:.3f} | {rest} |")
    lines += ["", "| compared | measured | bound | kept |", "|---|---|---|---|"]
    lines += [ratio.text for ratio in bench.ratios]
    machine = f"{os.cpu_count()} cores, {platform.machine()}, {platform.system()}, Python {platform.python_version()}"
    pins = ", ".join(f"{name} {version}" for name, version in PEERS.items())
    return (
        "\n".join(lines) + f"\n\nBest of the runs, on {machine}; {pins}: `scripts/bench --peers`.\n"
    )


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
    parser.add_argument("--write", action="store_true", help="write the tables into the pages")
    options = parser.parse_args()
    CACHE.mkdir(parents=True, exist_ok=True)
    if shutil.disk_usage(ROOT).free < 3e9 and not options.quick:
        raise SystemExit("The large files need 3 GB of free disk; run with --quick.")
    peers = install_peers() if options.peers else None
    with tempfile.TemporaryDirectory() as data:
        bench = Bench(Path(data))
        measure_start(bench)
        measure_usual(bench, peers)
        measure_large(bench, peers)
        if not options.quick:
            measure_huge(bench)
            measure_many(bench, peers)
    for ratio in bench.ratios:
        print(ratio.text)
    if options.write:
        for page in (ROOT / "bench" / "README.md",):
            put(page, format_figures(bench))


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    main()
