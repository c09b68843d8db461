"""Speed and memory of the commands, side by side with other programs and with `json.loads`.

    python bench/run.py [--quick] [--peers] [--corpus DIR]... [--write]

Files are made once under `.cache/bench` (1.2 GB; 200 MB with --quick). Programs that are compared run
in turns within one session of one machine, once to warm up; each figure is the median of the runs after
that. `--peers` installs three pinned programs from PyPI that write a document to continue from, and
prints ratios with the bounds that are set for them. A cold run has no cache of what was read, a warm
one has it. With `--corpus` the threads are real ones, joined. `--write` puts the tables into
bench/README.md.
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
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

import real_threads
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


BIG, USUAL = 72_000_000, 3_200_000
LEFT_OUT = ("PYTHONDONTWRITEBYTECODE", "TASUKI_CACHE")
"""Variables that would change what is measured."""


class Figure(NamedTuple):
    """The median of some runs: wall and processor seconds, and the peak of resident memory in MB."""

    wall: float
    processor: float
    megabytes: float


class Bound(NamedTuple):
    """What is compared, cold or warm: a ratio or an amount, and the bound that is set for it."""

    what: str
    value: float
    bound: float
    unit: str = ""
    state: str = "cold"

    @property
    def cells(self) -> str:
        """The value and its bound for a table; bold where it is not kept."""
        digits = 2 if self.unit in ("", " s") else 0
        value = f"{self.value:.{digits}f}{self.unit}"
        return (
            f"{value if self.value <= self.bound else f'**{value}**'} | ≤ {self.bound:g}{self.unit}"
        )


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
        own = {k: v for k, v in os.environ.items() if k not in LEFT_OUT}
        self.env = {
            **own,
            "TASUKI_DATA": str(data),
            "TASUKI_CONFIG": "",
            "HOME": str(data),
            "LC_ALL": "C.UTF-8",
        }
        self.figures: dict[str, Figure] = {}
        self.bounds: list[Bound] = []

    def measure(self, contenders: Mapping[str, Sequence[str]], runs: int = 7, **env: str) -> None:
        """Run the contenders in turns; one whose name says that it is cold has no cache."""
        seen: dict[str, list[Figure]] = {name: [] for name in contenders}
        for number in range(runs + 1):
            for name, command in contenders.items():
                if ", cold" in name:
                    shutil.rmtree(self.data / "cache", ignore_errors=True)
                figure = run(command, self.data, {**self.env, **env})
                if number:
                    seen[name].append(figure)
        for name, figures in seen.items():
            self.keep(name, figures)

    def measure_review(self, size: str, thread: Path, bound: float, runs: int = 7) -> None:
        """Keep the time until a review shows the brief in a terminal."""
        what = f"{size}: the first frame of a review"
        for state in ("cold", "warm"):
            figures = []
            for _ in range(runs):
                if state == "cold":
                    shutil.rmtree(self.data / "cache", ignore_errors=True)
                time = _time_first_frame(thread, self.data, self.env)
                figures.append(Figure(time, 0.0, 0.0))
            self.keep(f"{what}, {state}", figures)
            wall = self.figures[f"{what}, {state}"].wall
            self.bounds.append(Bound(what, wall, bound, " s", state))

    def keep(self, name: str, figures: Sequence[Figure]) -> None:
        """Keep the medians under a name, and print them."""
        walls, processors, sizes = zip(*figures, strict=True)
        wall, processor = statistics.median(walls), statistics.median(processors)
        self.figures[name] = Figure(wall, processor, max(sizes))
        print(f"{name:<58} {wall:7.3f} s {processor:7.3f} s {max(sizes):6.0f} MB", flush=True)

    def compare(
        self, what: str, name: str, others: Sequence[str], bound: float, state: str = "cold"
    ) -> None:
        """Add the ratio of the processor time of a figure to the least of some others."""
        least = min(self.figures[other].processor for other in others)
        ratio = self.figures[name].processor / least
        self.bounds.append(Bound(what, ratio, bound, state=state))


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
        while b"Brief: " not in seen and time.perf_counter() - started < 30:
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
        bench.bounds.append(Bound(f"{name}, over python -c pass", over, bound, " ms"))


def take_turns(bench: Bench, size: str, thread: Path, peers: Path | None) -> list[str]:
    """Hand off a thread, cold and warm, in turns with `json.loads` and the peers; return their names."""
    home = CACHE / f"home-{thread.stem}"
    placed = home / ".claude/projects/-home-dev-proj/70mb0000-0000-4000-8000-000000000000.jsonl"
    placed.parent.mkdir(parents=True, exist_ok=True)
    placed.unlink(missing_ok=True)
    os.link(thread, placed)
    contenders = {
        f"tasuki handoff --print, {size}, cold": handoff_of(thread),
        f"tasuki handoff --print, {size}, warm": handoff_of(thread),
        f"json.loads of every line, {size}": loads_of(thread),
    }
    others = {}
    if peers:
        out = str(bench.data / "out.md")
        others = {
            f"claude-handoff, {size}": [str(peers / "claude-handoff"), str(thread), "-o", out, "--no-cache"],
            f"session-handover, {size}": [str(peers / "session-handover"), "make", "--last", "--out", out],
            f"baton-agents, {size}": [
                str(peers / "baton"), "move", "--from", "claude", "--to", "codex", "--session",
                placed.stem, "--dry-run", "-y",
            ],
        }  # fmt: skip
    bench.measure({**contenders, **others}, HOME=str(home))
    return list(others)


def measure_usual(bench: Bench, thread: Path, peers: Path | None) -> None:
    """A thread of usual size, and what is done with it besides a handoff."""
    size = "the usual thread"
    others = take_turns(bench, size, thread, peers)
    for state, fastest, one in (("cold", 2.0, 1.6), ("warm", 1.6, 1.25)):
        own = f"tasuki handoff --print, {size}, {state}"
        if others:
            bench.compare(f"{size}: to the fastest peer", own, others, fastest, state)
            bench.compare(f"{size}: to claude-handoff", own, others[:1], one, state)
    measure_rest(bench, size, thread, 0.3)
    bench.measure({"tasuki doctor": [TASUKI, "doctor"]}, 3)


def measure_large(bench: Bench, thread: Path, peers: Path | None) -> None:
    """A big thread."""
    size = "the mixture"
    others = take_turns(bench, size, thread, peers)
    bounds = (("cold", 1.35, 1.9, 65), ("warm", 0.7, 0.95, 60))
    for state, fastest, loads, megabytes in bounds:
        own = f"tasuki handoff --print, {size}, {state}"
        every = [f"json.loads of every line, {size}"]
        if others:
            bench.compare(f"{size}: to the fastest peer", own, others, fastest, state)
        bench.compare(f"{size}: to json.loads of every line", own, every, loads, state)
        memory = bench.figures[own].megabytes
        bench.bounds.append(Bound(f"{size}: peak memory", memory, megabytes, " MB", state))
    measure_rest(bench, size, thread, 0.6)


def measure_rest(bench: Bench, size: str, thread: Path, bound: float) -> None:
    """What is done with a thread besides a printed handoff."""
    bench.measure({f"tasuki read PATH#9, {size}": [TASUKI, "read", f"{thread}#9"]})
    bench.measure({f"the block at a compaction, {size}": block_of(thread)})
    bench.measure_review(size, thread, bound)


def measure_huge(bench: Bench) -> None:
    """A thread of 1 GB."""
    huge = threads.write(CACHE / "1gb.jsonl", 1_000_000_000)
    own, loads = "tasuki handoff --print, 1 GB, cold", "json.loads of every line, 1 GB"
    bench.measure({own: handoff_of(huge), loads: loads_of(huge)}, 3)
    bench.compare("1 GB, to json.loads of every line", own, [loads], 0.9)
    bench.bounds.append(Bound("1 GB: peak memory", bench.figures[own].megabytes, 200, " MB"))


def measure_many(bench: Bench, sources: Sequence[Path], peers: Path | None) -> None:
    """A thousand threads, and five thousand."""
    for count, bound in ((1000, 0.8), (5000, 0.7)):
        home = real_threads.link_threads(sources[0].parent / f"home-{count}", sources, count)
        own, other = f"tasuki threads --all, {count:,}", f"claude-handoff --list, {count:,}"
        contenders = {own: [TASUKI, "threads", "--all", "--limit", str(count)]}
        if peers:
            contenders[other] = [str(peers / "claude-handoff"), "--list", "--any"]
        bench.measure(contenders, HOME=str(home))
        if peers:
            bench.compare(f"{count:,} threads listed, to claude-handoff", own, [other], bound)
        if count == 1000:
            found = "tasuki find, its index up to date, 1,000"
            bench.measure({found: [TASUKI, "find", "ledger"]}, 3, HOME=str(home))


def format_bounds(bounds: Sequence[Bound]) -> list[str]:
    """The bounds as the lines of a table, with what is measured cold and warm in one."""
    cells = {(bound.what, bound.state): bound.cells for bound in bounds}
    rows = dict.fromkeys(bound.what for bound in bounds)
    lines = ["| compared | cold | bound | warm | bound |", "|---|---|---|---|---|"]
    empty = " | "
    return lines + [
        f"| {what} | {cells.get((what, 'cold'), empty)} | {cells.get((what, 'warm'), empty)} |"
        for what in rows
    ]


def format_figures(bench: Bench) -> str:
    """The figures and bounds as Markdown, with the machine they were measured on."""
    lines = ["| what | seconds | of a processor | MB |", "|---|---|---|---|"]
    for name, (wall, processor, size) in bench.figures.items():
        rest = f"{processor:.3f} | {size:.0f}" if size else " | "
        lines.append(f"| {name} | {wall:.3f} | {rest} |")
    lines += ["", *format_bounds(bench.bounds)]
    machine = f"{os.cpu_count()} cores, {platform.machine()}, {platform.system()}, Python {platform.python_version()}"
    pins = ", ".join(f"{name} {version}" for name, version in PEERS.items())
    return (
        "\n".join(lines)
        + f"\n\nMedians of the runs, on {machine}; {pins}: `scripts/bench --peers`.\n"
    )


def put(page: Path, mark: str, text: str) -> None:
    """Replace what stands between the marks of a page."""
    before, begin, rest = page.read_text(encoding="utf-8").partition(f"<!-- {mark} -->\n")
    _, end, after = rest.partition(f"<!-- /{mark} -->")
    page.write_text(f"{before}{begin}{text}{end}{after}", encoding="utf-8")


def list_threads(corpora: Sequence[Path]) -> tuple[Path, Path, list[Path]]:
    """The mixture, the usual thread, and forty or more for lists: made up, or out of real ones."""
    if corpora:
        real = real_threads.unpack_threads(corpora, CACHE / "corpus")
        usual = min(real, key=lambda path: abs(path.stat().st_size - USUAL))
        return real_threads.join_threads(real, CACHE / "real-mixture.jsonl", BIG), usual, real
    sizes = ((number, 150_000 + 60_000 * number) for number in range(40))
    made = [threads.write(CACHE / "made" / f"{n}.jsonl", size, seed=n) for n, size in sizes]
    mixture = threads.write(CACHE / "mixture.jsonl", BIG, seed=2)
    return mixture, threads.write(CACHE / "usual.jsonl", USUAL, seed=3), made


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="without the 1 GB file and the lists of threads"
    )
    parser.add_argument("--peers", action="store_true", help="also other programs from PyPI")
    parser.add_argument("--corpus", type=Path, action="append", default=[], help="real threads")
    parser.add_argument("--write", action="store_true", help="write the tables into the page")
    options = parser.parse_args()
    CACHE.mkdir(parents=True, exist_ok=True)
    if shutil.disk_usage(ROOT).free < 2e9 and not options.quick:
        raise SystemExit("The large files need 2 GB of free disk; run with --quick.")
    peers = install_peers() if options.peers else None
    with ProcessPoolExecutor(1) as apart:  # What it takes of memory is not measured in what is run.
        mixture, usual, many = apart.submit(list_threads, options.corpus).result()
    with tempfile.TemporaryDirectory() as data:
        bench = Bench(Path(data))
        measure_start(bench)
        measure_usual(bench, usual, peers)
        measure_large(bench, mixture, peers)
        if not options.quick:
            if not options.corpus:
                measure_huge(bench)
            measure_many(bench, many, peers)
    print("\n".join(format_bounds(bench.bounds)))
    if options.write:
        mark = "figures corpus" if options.corpus else "figures"
        put(ROOT / "bench" / "README.md", mark, format_figures(bench))


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    main()
