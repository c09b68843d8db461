"""Search all threads and stored handoffs, and choose the handoffs that may be deleted.

The index finds the places in threads; the threads themselves give the text.
"""

import contextlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from tasuki.errors import TasukiError
from tasuki.harness.protocol import Harness, ThreadFile
from tasuki.model import Handoff, Thread
from tasuki.threads.blocks import IndexedThread, IndexHit
from tasuki.threads.catalog import describe_copy, get_reader
from tasuki.threads.index import ThreadIndex
from tasuki.threads.passages import EntryCleaner, Passage, find_matching_lines
from tasuki.threads.query import Query, parse_query, split_tokens
from tasuki.vault import Vault
from tasuki.vault.lineage import build_lineage

RANGES = 6
"""Blocks of one thread whose entries are searched for matching lines."""


class ThreadSearchResult(Struct, frozen=True):
    """A thread that matches, with the matching lines. Secrets are redacted."""

    thread: IndexedThread
    score: float
    lines: tuple[Passage, ...] = ()
    problem: str = ""
    """Why there are no lines: the thread can no longer be read."""
    note: str = ""
    """A sentence where the lines are from the thread's kept copy."""


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
    """Return the best threads first. Reads only those that are shown, and that no update just read."""
    cleaner, known = EntryCleaner(), index.just_read
    return [_build_result(hit, query, cleaner, known) for hit in index.search_index(query, limit)]


def _build_result(
    hit: IndexHit, query: Query, cleaner: EntryCleaner, known: Mapping[str, Thread]
) -> ThreadSearchResult:
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
        path = Path(hit.thread.path)
        harness = get_reader(hit.thread.harness, path)
        entries = (known.get(hit.thread.path) or harness.read(path)).readable
    except TasukiError as error:
        return ThreadSearchResult(thread, hit.score, problem=cleaner.clean_text(str(error)))
    ranges = hit.ranges[:RANGES]
    near = [e for e in entries if any(first <= e.ref <= last for first, last in ranges)]
    return ThreadSearchResult(
        thread,
        hit.score,
        tuple(find_matching_lines(near, query.words, cleaner, entries)),
        note=describe_copy(harness, path),
    )


DAY = 86_400.0
LINES = 3
"""The number of lines of one brief that are shown."""


T = TypeVar("T")
Candidate = tuple[T, str, str, str]
"""Something to search, when it was created (ISO 8601), its goal and its whole text."""


def list_candidates(vault: Vault) -> Iterator[Candidate[Handoff]]:
    """Yield the handoffs of the vault, to be searched."""
    for handoff in vault.list_handoffs():
        text = handoff.goal.text
        with contextlib.suppress(TasukiError):
            text = vault.load_brief(handoff.id)
        yield handoff, handoff.created, handoff.goal.text, text


def rank_candidates(
    candidates: Iterable[Candidate[T]], words: str, limit: int
) -> list[tuple[T, Sequence[str]]]:
    """Return the candidates that hold most of the words, each with the matching lines.

    The newest is first among equals.
    """
    wanted = [" ".join(parts) for word in parse_query(words).words if (parts := split_tokens(word))]
    matches: list[tuple[float, str, T, Sequence[str]]] = []
    for candidate, created, goal, text in candidates:
        lines = [(line, " ".join(split_tokens(line))) for line in text.splitlines()]
        hits = [w for w in wanted if any(w in low for _, low in lines)]
        if not hits:
            continue
        ranked = sorted(lines, key=lambda pair: -sum(w in pair[1] for w in hits))
        matching_lines = [
            line.strip() for line, low in ranked[:LINES] if any(w in low for w in hits)
        ]
        in_goal = sum(w in " ".join(split_tokens(goal)) for w in hits)
        matches.append((len(hits) + 0.5 * in_goal, created, candidate, matching_lines))
    matches.sort(key=lambda row: row[1], reverse=True)
    matches.sort(key=lambda row: -row[0])
    return [(one, lines) for _, _, one, lines in matches[:limit]]


def find_prunable(
    vault: Vault,
    *,
    days: int,
    keep: int,
    only_drafts: bool,
    now: float,
    needed: Collection[str] = (),
) -> list[Handoff]:
    """Find handoffs that may be deleted, oldest first; `now` is in seconds since the epoch.

    The ancestors of a kept handoff are kept, and so is what is uncertain, has no date, or is
    `needed` (ids): a handoff of the fleet in progress, or one whose successor works. As long as
    a handoff cannot be read (`vault.problems`), none is deleted: it may descend from any.
    """
    whole = build_lineage(vault, printed=True)
    if vault.problems:  # What cannot be read may descend from any of them.
        return []
    newest = [node for node in reversed(whole.nodes.values()) if node.handoff]
    spared = _STARTED if only_drafts else ("uncertain",)
    deletable: dict[str, Handoff] = {}
    for node in newest[keep:]:
        with contextlib.suppress(ValueError, OverflowError):  # One without a date stays.
            if (
                node.handoff
                and datetime.fromisoformat(node.handoff.created).timestamp() <= now - days * DAY
                and node.state not in spared
                and node.id not in needed
            ):
                deletable[node.id] = node.handoff
    for node in newest:
        if node.id not in deletable:
            for ancestor in whole.list_chain(node.id):
                deletable.pop(ancestor, None)
    return sorted(deletable.values(), key=lambda handoff: handoff.created)


_STARTED = ("started", "delivered", "acknowledged", "uncertain", "failed")
