"""Search all threads: the index finds the places, the threads themselves give the text."""

from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from tasuki.errors import TasukiError
from tasuki.harness import registry as harnesses
from tasuki.harness.protocol import Harness, ThreadFile
from tasuki.threads.index import IndexedThread, IndexHit, ThreadIndex
from tasuki.threads.passages import Passage, find_matching_lines
from tasuki.threads.query import Query
from tasuki.threads.safe import EntryCleaner

RANGES = 6
"""Blocks of one thread whose entries are searched for matching lines."""


class ThreadSearchResult(Struct, frozen=True):
    """A thread that matches, with the matching lines. Secrets are redacted."""

    thread: IndexedThread
    score: float
    lines: tuple[Passage, ...] = ()
    problem: str = ""
    """Why there are no lines: the thread can no longer be read."""


def refresh_index(
    index: ThreadIndex,
    files: Sequence[tuple[Harness, ThreadFile]],
    report: Callable[[int], None] = lambda size: None,
) -> list[str]:
    """Update the index to all threads; return sentences about what could not be indexed."""
    updated = index.update_threads(files, report)
    if updated.busy:
        return ["Another tasuki is building the index; what it has so far was searched."]
    return updated.problems


def search_threads(index: ThreadIndex, query: Query, limit: int = 10) -> list[ThreadSearchResult]:
    """Return the best threads first. Reads only the threads that are shown."""
    cleaner = EntryCleaner()
    return [_build_result(hit, query, cleaner) for hit in index.search_index(query, limit)]


def _build_result(hit: IndexHit, query: Query, cleaner: EntryCleaner) -> ThreadSearchResult:
    thread = replace(
        hit.thread,
        id=cleaner.clean_line(hit.thread.id),
        cwd=cleaner.clean_line(hit.thread.cwd),
        updated=cleaner.clean_line(hit.thread.updated, 40),
        name=cleaner.clean_line(hit.thread.name, 120),
        first_words=cleaner.clean_line(hit.thread.first_words, 120),
    )
    if not hit.ranges:
        return ThreadSearchResult(thread, hit.score)
    try:
        entries = harnesses.get_harness(hit.thread.harness).read(Path(hit.thread.path)).entries
    except TasukiError as error:
        return ThreadSearchResult(thread, hit.score, problem=cleaner.clean_text(str(error)))
    ranges = hit.ranges[:RANGES]
    near = [e for e in entries if any(first <= e.ref <= last for first, last in ranges)]
    return ThreadSearchResult(
        thread, hit.score, tuple(find_matching_lines(near, query.words, cleaner.clean_entry))
    )
