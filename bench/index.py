"""The thread index: building, searching, taking in one changed thread.

    .venv/bin/python bench/index.py [--corpus DIR] [--megabytes 1000] [--write]

Without a corpus the threads are made up (`bench/threads.py`) and 1 MB each; with one, its threads
are taken over and over under other names until the size is reached. Queries are the best of 20,
and say how many threads matched. `--write` puts the table into bench/README.md.
"""

import argparse
import gc
import gzip
import json
import os
import platform
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

import threads

from tasuki.harness import registry as harnesses
from tasuki.harness.protocol import Harness, ThreadFile
from tasuki.threads.index import ThreadIndex
from tasuki.threads.query import parse_query

ROOT = Path(__file__).parent.parent
CACHE = ROOT / ".cache" / "bench"
QUERIES = {
    "one common word": "test",
    "two words": "retry timeout",
    "three words": "upload client failed",
    "a phrase and a file": '"exit code" file:*.py',
    "a rare word": "idempotency",
    "a beginning of a word": "configur",
    "words that never stand together": "zebra timeout crossing",
}


def made_up(folder: Path, megabytes: int) -> list[Path]:
    """Threads of 1 MB each, made once."""
    return [
        threads.write(folder / f"{n:08x}-0000-4000-8000-000000000000.jsonl", 1_000_000, seed=n % 7)
        for n in range(megabytes)
    ]


def from_corpus(corpus: Path, folder: Path, megabytes: int) -> list[Path]:
    """The threads of a corpus, unzipped, linked under new names until there are enough."""
    folder.mkdir(parents=True, exist_ok=True)
    first = []
    for packed in sorted(corpus.rglob("*.jsonl.gz")):
        path = folder / f"0-{packed.name.removesuffix('.gz')}"
        if not path.exists():
            path.write_bytes(gzip.decompress(packed.read_bytes()))
        first.append(path)
    found, size, turn = [], 0, 0
    while size < megabytes * 1_000_000:
        for path in first:
            linked = folder / f"{turn}-{path.name[2:]}"
            if not linked.exists():
                os.link(path, linked)
            found.append(linked)
            size += path.stat().st_size
        turn += 1
    return found


def listed(paths: list[Path]) -> list[tuple[Harness, ThreadFile]]:
    """The threads as a listing gives them."""
    found = []
    for path in paths:
        stat = path.stat()
        found.append(
            (harnesses.detect_harness(path), ThreadFile(path, stat.st_mtime, stat.st_size))
        )
    return found


def rows(paths: list[Path], folder: Path) -> list[tuple[str, str, str]]:
    """What was measured: name, figure, bound."""
    found: list[tuple[str, str, str]] = []

    def add(name: str, figure: str, bound: str = "") -> None:
        found.append((name, figure, bound))
        print(f"{name:<58} {figure:>22}   {bound}", flush=True)

    files = listed(paths)
    megabytes = sum(file.bytes for _, file in files) / 1e6
    started = time.perf_counter()
    for path in paths[:60]:
        for line in path.open("rb"):
            json.loads(line)
    yardstick = sum(p.stat().st_size for p in paths[:60]) / 1e6 / (time.perf_counter() - started)
    add("json.loads of every line", f"{yardstick:.0f} MB/s")
    with ThreadIndex(folder / "index.db") as index:
        started = time.perf_counter()
        index.update_threads(files)
        seconds = time.perf_counter() - started
        add(
            f"building: {megabytes:.0f} MB, {len(files)} threads",
            f"{seconds:.1f} s, {megabytes / seconds:.0f} MB/s",
            "≥ 30 MB/s",
        )
        index._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        add("size of the index", f"{(folder / 'index.db').stat().st_size / 1e6:.0f} MB")
        add("nothing changed", f"{best(lambda: index.update_threads(files)) * 1e3:.1f} ms")
        for name, words in QUERIES.items():
            query = parse_query(words)
            seconds = best(lambda query=query: index.search_index(query), 20)
            add(
                f"query, {name}",
                f"{seconds * 1e3:.1f} ms ({len(index.search_index(query))} found)",
                "≤ 10 ms",
            )
        changed = sorted(files, key=lambda pair: pair[1].bytes)[len(files) // 2][1].path
        copy = folder / changed.name
        shutil.copy(changed, copy)
        rest = [pair for pair in files if pair[1].path != changed]
        index.update_threads([*rest, *listed([copy])])
        times = []
        lines = changed.read_bytes().splitlines(keepends=True)
        for n in range(5):
            with copy.open("ab") as file:
                file.writelines(lines[-4:])
            os.utime(copy, (2_000_000_000 + n, 2_000_000_000 + n))
            now = [*rest, *listed([copy])]
            started = time.perf_counter()
            index.update_threads(now)
            times.append(time.perf_counter() - started)
        add(
            f"one changed thread of {copy.stat().st_size / 1e6:.1f} MB",
            f"{statistics.median(times) * 1e3:.0f} ms",
            "≤ 50 ms",
        )
    return found


def best(function: object, runs: int = 5) -> float:
    """The shortest of some runs, in seconds."""
    times = []
    for _ in range(runs):
        started = time.perf_counter()
        function()  # type: ignore[operator]
        times.append(time.perf_counter() - started)
    return min(times)


def table(found: list[tuple[str, str, str]], what: str) -> str:
    """The rows as Markdown, with the machine they were measured on."""
    lines = ["| what | figure | bound |", "|---|---|---|"]
    lines += [f"| {name} | {figure} | {bound} |" for name, figure, bound in found]
    machine = f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}"
    return "\n".join(lines) + f"\n\n{what}, on {machine}: `.venv/bin/python bench/index.py`.\n"


def main() -> None:
    """Measure, and write the table where asked to."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--corpus", type=Path)
    parser.add_argument("--megabytes", type=int, default=1000)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    gc.disable()
    if given.corpus:
        paths = from_corpus(given.corpus, CACHE / "corpus", given.megabytes)
        what = "Real threads, each many times over"
    else:
        paths = made_up(CACHE / "home" / ".claude" / "projects" / "-home-dev-proj", given.megabytes)
        what = "Made-up threads of 1 MB"
    with tempfile.TemporaryDirectory(dir=CACHE) as folder:
        text = table(rows(paths, Path(folder)), what)
    if given.write:
        page = ROOT / "bench" / "README.md"
        whole = page.read_text(encoding="utf-8")
        mark = "corpus" if given.corpus else "made-up"
        begin, end = f"<!-- index {mark} -->\n", f"<!-- /index {mark} -->"
        before, _, rest = whole.partition(begin)
        page.write_text(f"{before}{begin}{text}{end}{rest.partition(end)[2]}", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
