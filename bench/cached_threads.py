"""Whether a thread that comes from its cache is the thread that its file holds, whatever happened to the file.

    python bench/cached_threads.py CORPUS… [--cuts 2000] [--briefs] [--seed 1]

A corpus is a file or folder of threads of harnesses that append to files; they may be compressed by
gzip. Each trial takes a beginning of a thread, reads it through the cache, changes the file (more
of it is appended, it is cut, rewritten, replaced, damaged, changed in its middle), reads it through the cache and
without it, and compares both: the threads, the facts, and with `--briefs` the printed briefs.
"""

import argparse
import gzip
import os
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import same_briefs

GOAL = "make the retry of the upload client configurable"
Change = Callable[[random.Random, Path, bytes, int], None]


def append(chance: random.Random, path: Path, whole: bytes, end: int) -> None:
    """Append what comes next, up to a place that may be within a line."""
    with path.open("ab") as file:
        file.write(whole[end : chance.randint(end, len(whole))])


def append_lines(chance: random.Random, path: Path, whole: bytes, end: int) -> None:
    """Append what comes next, up to the end of a line."""
    with path.open("ab") as file:
        file.write(whole[end : whole.find(b"\n", chance.randint(end, len(whole))) + 1])


def cut(chance: random.Random, path: Path, whole: bytes, end: int) -> None:
    """Cut the file, perhaps within a line."""
    os.truncate(path, chance.randint(0, end))


def rewrite(chance: random.Random, path: Path, whole: bytes, end: int) -> None:
    """Write another part of the thread into the same file."""
    start = whole.find(b"\n", chance.randint(0, len(whole) // 2)) + 1
    path.write_bytes(whole[start : start + chance.randint(1, len(whole))])


def replace(chance: random.Random, path: Path, whole: bytes, end: int) -> None:
    """Replace the file by one of the same size and the same time, in which some bytes are others."""
    change_middle(chance, path, whole, end)
    new = path.with_name("new")
    new.write_bytes(path.read_bytes())
    os.utime(new, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns))
    new.replace(path)


def change_middle(chance: random.Random, path: Path, whole: bytes, end: int) -> None:
    """Change some letters in the middle, and append what comes next."""
    data = bytearray(path.read_bytes())
    for _ in range(5):
        at = chance.randrange(max(len(data), 1))
        if data[at : at + 1].isalpha():
            data[at] ^= 0x20
    path.write_bytes(bytes(data) + whole[end : chance.choice((end, len(whole)))])


def leave(chance: random.Random, path: Path, whole: bytes, end: int) -> None:
    """Leave the file as it is."""


def damage(chance: random.Random, path: Path, whole: bytes, end: int) -> None:
    """Damage the cache itself: a bit, or its end."""
    for file in Path(os.environ["TASUKI_DATA"], "cache").glob("*"):
        data = bytearray(file.read_bytes())
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        file.write_bytes(data[: chance.choice((len(data), chance.randrange(len(data))))])


CHANGES: tuple[Change, ...] = (append, append, append_lines, append_lines, cut, rewrite, replace, change_middle, leave, damage)  # fmt: skip


def describe(value: Any) -> Any:
    """Return a thread or facts as plain values; what a call leaves in the file is read."""
    from msgspec import Struct

    if isinstance(value, Struct):
        names = [n for n in value.__struct_fields__ if n not in ("file", "place", "memo")]
        return [describe(getattr(value, name)) for name in names]
    if isinstance(value, list | tuple):
        return [describe(one) for one in value]
    if isinstance(value, dict):
        return {str(key): describe(one) for key, one in value.items()}
    if type(value).__name__ == "CommandRun":
        return [value.ref, value.command, value.folder, describe(value.judgement), value.output]
    return value


def read_both(path: Path, *, briefs: bool) -> tuple[Any, Any]:
    """Return what is read through the cache, and what is read without it."""
    from tasuki.config.settings import LoadedSettings, Settings
    from tasuki.draft.facts.derive import derive_facts, read_facts
    from tasuki.draft.pipeline import make_handoff
    from tasuki.errors import TasukiError
    from tasuki.harness.reading.cache import CachedThread
    from tasuki.model import Goal
    from tasuki.threads import catalog

    def read(is_kept: bool) -> Any:
        try:
            harness, found = catalog.find_thread(str(path), Path("/"))
            if briefs:
                loaded = LoadedSettings(Settings(cache=is_kept))
                made = make_handoff(harness, found, Goal(GOAL), loaded, handoff_id="x", to="")
                made.cached.save()
                return made.context
            cached = CachedThread(harness, found, is_kept=is_kept)
            known = cached.derive("facts", read_facts)
            cached.save()
            return describe([cached.thread, derive_facts(cached.thread, None, GOAL, known)])
        except TasukiError as error:
            return str(error)

    return read(True), read(False)


def main() -> int:
    """Try, print what differs, exit 1 if anything does."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("corpus", nargs="+", type=Path)
    parser.add_argument("--cuts", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--briefs", action="store_true", help="compare the briefs")
    options = parser.parse_args()
    files = [f for f in same_briefs.list_threads(options.corpus) if ".jsonl" in f.name]
    chance, wrong, tried = random.Random(options.seed), 0, Counter[str]()
    for number in range(options.cuts):
        source = chance.choice(files)
        whole = (gzip.decompress if source.suffix == ".gz" else bytes)(source.read_bytes())
        with tempfile.TemporaryDirectory() as folder:
            os.environ.update(TASUKI_DATA=folder, TASUKI_CONFIG="", HOME=folder)
            path = Path(folder, source.name.removesuffix(".gz"))
            end = chance.randint(1, len(whole))
            end = end if chance.random() < 0.3 else whole.find(b"\n", end) + 1 or len(whole)
            path.write_bytes(whole[:end])
            steps = [leave.__name__]
            for change in (leave, *chance.choices(CHANGES, k=2)):
                change(chance, path, whole, min(end, path.stat().st_size))
                steps.append(change.__name__)
                cached, plain = read_both(path, briefs=options.briefs)
                tried[change.__name__] += 1
                if cached != plain:
                    wrong += 1
                    print(
                        f"{number}: {source.name} differs after {', '.join(steps)} at {end}",
                        flush=True,
                    )
                    break
                end = path.stat().st_size
    print(", ".join(f"{name} {count}" for name, count in tried.items()))
    print(f"{wrong} of {options.cuts} differ.", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
