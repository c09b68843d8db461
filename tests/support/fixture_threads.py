"""The captured threads in `fixtures/`, and the larger ones that a machine may have."""

import atexit
import gzip
import os
import sqlite3
from contextlib import closing
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from tree import FIXTURES

from tasuki.harness import registry
from tasuki.harness.protocol import Harness, ThreadFile
from tasuki.model import Entry, Thread
from tasuki_testing.forms import Form
from tasuki_testing.thread_formats import Clock, create_format

CORPUS = os.environ.get("TASUKI_CORPUS", "")
"""A folder of real threads: `<harness>/**/*.jsonl.gz`."""

HARNESSES = (
    "claude", "codex", "pi", "omp", "gemini", "gemini-json", "copilot", "opencode", "opencode-export", "aider", "specstory",
)  # fmt: skip
"""Harnesses, and the further formats of some: `opencode-export` is one of `opencode`."""

PATTERNS = {
    "gemini-json": "*.json", "opencode": "*.sql", "opencode-export": "*.json", "aider": "*.md",
    "specstory": "*.md",
}  # fmt: skip
"""Files of captured threads, where they are not `*.jsonl`."""

_NO_LINES = {
    14: "in Markdown every line is somebody's words",
    15: "no bytes are broken Markdown",
    16: "in Markdown half a line is a line",
}
LACKS: dict[str, dict[int, str]] = {
    "gemini-json": {
        10: "the older documents hold no summary of what was compacted",
        16: "the last line of a document is a bracket, which cannot be cut",
    },
    "opencode": {16: "a database is written in whole pages"},
    "opencode-export": {
        15: "one broken message makes the whole document unreadable",
        16: "a document that is cut off is none",
        27: "opencode goes on with threads in its database alone",
    },
    "aider": {
        **_NO_LINES,
        7: "aider records neither the output of a command nor its exit code",
        9: "aider has no todo lists",
        10: "a new chat has no summary of the one before",
        12: "aider has no sub-agents and no background commands",
    },
    "specstory": {15: _NO_LINES[15], 16: _NO_LINES[16]},
}
"""Contracts that a format cannot keep, and why."""


def adapter(name: str) -> Harness:
    """The adapter that reads a format."""
    return registry.get_harness(name.partition("-")[0])


def form(name: str) -> Form:
    """What the files of a format are made of."""
    return create_format(name, "", Clock()).form


def holder(path: Path) -> Path:
    """The file that holds a thread: the database, where it is named as if it lay below one."""
    return path.parent if path.parent.is_file() else path


def samples(name: str) -> list[Path]:
    """Captured threads of a format that hold a conversation."""
    files = sorted((FIXTURES / name.partition("-")[0]).rglob(PATTERNS.get(name, "*.jsonl")))
    files = [p for p in files if not p.name.startswith(("agent-", "unsent-"))]
    return [database(p) for p in files] if name == "opencode" else files


@cache
def database(path: Path) -> Path:
    """The thread of a database written down as SQL: `…/opencode.db/<id>`."""
    folder = TemporaryDirectory()
    atexit.register(folder.cleanup)
    file = Path(folder.name, "opencode.db")
    with closing(sqlite3.connect(file)) as db:
        db.executescript(path.read_text())
        ((id,),) = db.execute("SELECT id FROM session WHERE parent_id IS NULL")
    return file / id


def one(harness: str, pattern: str) -> Path:
    """The one captured thread whose path matches."""
    (found,) = (FIXTURES / harness).rglob(pattern)
    return found


def thread_file(path: Path) -> ThreadFile:
    """What a listing knows of a file."""
    stat = holder(path).stat()
    return ThreadFile(path=path, modified=stat.st_mtime, bytes=stat.st_size)


def corpus(harness: str) -> list[Path]:
    """Threads of a harness in the corpus, zipped; none where there is no corpus."""
    folder = {"claude": "claude-code"}.get(harness, harness)
    return sorted(Path(CORPUS, folder).rglob("*.gz")) if CORPUS else []


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
