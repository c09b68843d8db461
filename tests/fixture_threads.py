"""The captured threads in `fixtures/`, and the larger ones that a machine may have."""

import gzip
import os
from pathlib import Path

from tasuki.harness.protocol import ThreadFile
from tasuki.model import Entry, Thread

FIXTURES = Path(__file__).parent / "fixtures"
CORPUS = os.environ.get("TASUKI_CORPUS", "")
"""A folder of real threads: `<harness>/**/*.jsonl.gz`."""

HARNESSES = ("claude", "codex", "pi", "omp")


def samples(harness: str) -> list[Path]:
    """Captured threads of a harness that hold a conversation."""
    files = sorted((FIXTURES / harness).rglob("*.jsonl"))
    return [p for p in files if not p.name.startswith(("agent-", "unsent-"))]


def one(harness: str, pattern: str) -> Path:
    """The one captured thread whose path matches."""
    (found,) = (FIXTURES / harness).rglob(pattern)
    return found


def thread_file(path: Path) -> ThreadFile:
    """What a listing knows of a file."""
    stat = path.stat()
    return ThreadFile(path=path, modified=stat.st_mtime, bytes=stat.st_size)


def corpus(harness: str) -> list[Path]:
    """Threads of a harness in the corpus, zipped; none where there is no corpus."""
    folder = {"claude": "claude-code"}.get(harness, harness)
    return sorted(Path(CORPUS, folder).rglob("*.jsonl.gz")) if CORPUS else []


def unzipped(path: Path, folder: Path) -> Path:
    """A copy that can be read."""
    target = folder / path.name.removesuffix(".gz")
    target.write_bytes(gzip.decompress(path.read_bytes()))
    return target


def said(thread: Thread, kind: str = "user") -> list[tuple[int, str, str]]:
    """Ref, origin and text of the entries of one kind."""
    return [(e.ref, e.origin, e.text) for e in thread.entries if e.kind == kind]


def calls(thread: Thread) -> list[tuple[int, str, str, str, int | None]]:
    """Ref, tool, command or path, status and exit code of all calls."""
    return [
        (e.ref, e.tool.name, e.tool.command or ", ".join(e.tool.paths), e.tool.status, e.tool.exit_code)
        for e in thread.entries
        if e.tool
    ]  # fmt: skip


def by_ref(thread: Thread, ref: int) -> Entry:
    """One entry."""
    return next(e for e in thread.entries if e.ref == ref)
