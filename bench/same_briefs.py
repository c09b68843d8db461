"""Whether a change left every brief as it was, to the character.

    python bench/same_briefs.py CORPUS… --write FILE     before the change
    python bench/same_briefs.py CORPUS… --against FILE   after it: prints what differs, exits 1

A corpus is a file or folder of threads, which may be compressed by gzip. Of each thread a brief is
printed for three goals, the summary that takes the place of a harness's own, and the block that
restores what the last summary in the thread lost.
"""

from __future__ import annotations

import argparse
import difflib
import gzip
import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

GOALS = (
    "Continue where this left off: finish what is open",
    "Write the tests that are missing for what was changed last",
    "Explain to a reviewer why the failing command fails, and fix that",
)
SUFFIXES = (".json", ".jsonl", ".md", ".db")
_ID = re.compile(r"\b[0-9a-f]{8}\b|\b(?:aider|specstory)-[0-9a-f]+\b")
"""Ids of stored handoffs and those made from the path of a thread, which differ from run to run."""


def list_threads(paths: list[Path]) -> Iterator[Path]:
    """Yield the files that may be threads."""
    for path in paths:
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            name = file.name.removesuffix(".gz")
            if Path(name).suffix in SUFFIXES and file.stem.upper() != file.stem:
                yield file


def render(path: Path) -> dict[str, str]:
    """Return everything that is printed of one thread, by what it is."""
    with tempfile.TemporaryDirectory() as data:
        os.environ.update(TASUKI_DATA=data, TASUKI_CONFIG="", HOME=data, COLUMNS="100")
        thread = Path(data, path.name.removesuffix(".gz"))
        opened = (gzip.open if path.suffix == ".gz" else open)(path, "rb")
        with opened as packed, thread.open("wb") as file:
            shutil.copyfileobj(packed, file)
        os.utime(thread, (1.7e9, 1.7e9))
        from click.testing import CliRunner

        from tasuki.cli.main import cli

        printed = {}
        for goal in GOALS:
            words = ["handoff", "--from", str(thread), "--print", goal]
            result = CliRunner().invoke(cli, words)
            text = re.sub("✓ Context ready.*\n", "", result.output.replace(data, ""))
            printed[f"{path.name} | {goal}"] = f"{result.exit_code}\n{_ID.sub('ID', text)}"
        text = render_compaction(str(thread)).replace(data, "")
        printed[f"{path.name} | compaction"] = _ID.sub("ID", text)
        return printed


def render_compaction(file: str) -> str:
    """Return the summary of a thread, and the block for the last one that it holds."""
    from tasuki.compaction.block import build_block
    from tasuki.compaction.moment import find_last_compaction
    from tasuki.compaction.replacement import write_summary
    from tasuki.config.settings import load_with_sources
    from tasuki.errors import TasukiError
    from tasuki.threads import catalog

    try:
        harness, path = catalog.find_thread(file, Path("/"))
        compaction = find_last_compaction(catalog.read_whole_thread(harness, path))
        block = build_block(compaction).text if compaction else ""
        return write_summary(harness, path, load_with_sources(Path("/")), replay=True) + block
    except TasukiError as error:
        return str(error)


def render_all(paths: list[Path], jobs: int) -> dict[str, str]:
    """Render every thread, in several processes."""
    printed: dict[str, str] = {}
    with ProcessPoolExecutor(jobs) as pool:
        for found in pool.map(render, list_threads(paths)):
            printed.update(found)
    return printed


def list_differences(before: dict[str, str], after: dict[str, str]) -> Iterator[str]:
    """Yield a diff for each text that is not the same."""
    for key in sorted(before.keys() | after.keys()):
        old, new = before.get(key, ""), after.get(key, "")
        if old != new:
            lines = difflib.unified_diff(
                old.splitlines(), new.splitlines(), key, key, n=1, lineterm=""
            )
            yield "\n".join(lines)


def main() -> int:
    """Write what is printed now, or compare it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("corpus", nargs="+", type=Path)
    parser.add_argument("--write", type=Path, metavar="FILE")
    parser.add_argument("--against", type=Path, metavar="FILE")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    now = render_all(options.corpus, options.jobs)
    if options.write:
        options.write.write_text(json.dumps(now), "utf-8")
        print(f"{len(now)} texts of {len(now) // (len(GOALS) + 1)} threads.")
        return 0
    differences = list(list_differences(json.loads(options.against.read_text("utf-8")), now))
    print("\n".join(differences))
    print(f"{len(differences)} of {len(now)} texts differ.", file=sys.stderr)
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
