"""Searching all threads: the index says where, the threads themselves say what."""

from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from tasuki import harness as harnesses
from tasuki.errors import TasukiError
from tasuki.harness.protocol import Harness, ThreadFile
from tasuki.model import Entry
from tasuki.threads.index import Hit, Index, Indexed
from tasuki.threads.passages import Passage, matching_lines
from tasuki.threads.query import Query
from tasuki.threads.safe import Cleaner

RANGES = 6
"""Blocks of one thread whose entries are looked at for matching lines."""


class Found(Struct, frozen=True):
    """A thread that matches, with the lines that do. Secrets are redacted."""

    thread: Indexed
    score: float
    lines: tuple[Passage, ...] = ()
    problem: str = ""
    """Why there are no lines: the thread cannot be read any more."""


def refresh(
    index: Index,
    files: Sequence[tuple[Harness, ThreadFile]],
    report: Callable[[int], None] = lambda size: None,
) -> list[str]:
    """Bring the index in step with all threads; sentences about what could not be taken in."""
    updated = index.update(files, report)
    if updated.busy:
        return ["Another tasuki is building the index; what it has so far was searched."]
    return updated.problems


def search(index: Index, query: Query, limit: int = 10) -> list[Found]:
    """The best threads first. Reads the threads that are shown, and no others."""
    cleaner = Cleaner()
    return [_found(hit, query, cleaner) for hit in index.search(query, limit)]


def _found(hit: Hit, query: Query, cleaner: Cleaner) -> Found:
    thread = replace(
        hit.thread,
        id=cleaner.line(hit.thread.id),
        cwd=cleaner.line(hit.thread.cwd),
        updated=cleaner.line(hit.thread.updated, 40),
        name=cleaner.line(hit.thread.name, 120),
        first_words=cleaner.line(hit.thread.first_words, 120),
    )
    if not hit.ranges:
        return Found(thread, hit.score)
    try:
        entries = harnesses.get(hit.thread.harness).read(Path(hit.thread.path)).entries
    except TasukiError as error:
        return Found(thread, hit.score, problem=cleaner.text(str(error)))
    near = _within(entries, hit.ranges[:RANGES])
    return Found(thread, hit.score, tuple(matching_lines(near, query.words, cleaner.entry)))


def _within(entries: Sequence[Entry], ranges: Sequence[tuple[int, int]]) -> list[Entry]:
    return [e for e in entries if any(first <= e.ref <= last for first, last in ranges)]
