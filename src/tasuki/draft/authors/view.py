"""What of a thread goes into a request: the bounded, compaction-aware view of the branch.

Entries since the last compaction go in whole, the newest first of all; what lies before, or does
not fit, goes in as the summary that the agent itself worked from and as ranked excerpts.
"""

import secrets
from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

from tasuki.draft.authors.task import Task
from tasuki.draft.brief import plain as on_one_line
from tasuki.draft.entries import readable
from tasuki.draft.rank import best
from tasuki.draft.text import shorten
from tasuki.harness.jsonl import clip
from tasuki.model import Entry
from tasuki.plain import plain

RESULT = 1_600
"""Characters of one tool call with its result."""
WORDS = 12_000
"""Characters of one message."""
SUMMARY = 16_000
EXCERPTS = 0.3
"""Share of the room that excerpts of older entries get where not all goes in whole."""
LISTED = 160
"""Entries in the list of entries that an agent gets, the newest of those that say something."""


class View(Struct, frozen=True):
    """A thread as a request holds it. Entries from `first` on are whole."""

    text: str
    first: int
    whole: bool


def view(task: Task, room: int) -> View:
    """As much of a thread as goes into `room` characters, secrets and control characters removed."""
    entries = task.thread.entries
    since = _in_view(entries)
    kept, size = _newest(since, room, task.clean)
    whole = len(kept) == len(entries)
    if not whole and len(kept) < len(since):  # Older ones get their part of the room.
        while len(kept) > 1 and size > room * (1 - EXCERPTS):
            size -= len(kept.pop()[1]) + 1
    first = kept[-1][0] if kept else 1
    older = [] if whole else list(_older(task, first, room - size))
    text = "\n".join([*older, *(text for _, text in reversed(kept))])
    return View(text=text, first=first, whole=whole)


def _in_view(entries: Sequence[Entry]) -> list[Entry]:
    """What the agent itself had in view at the end: since the last compaction, and what that kept."""
    last = next((e for e in reversed(entries) if e.kind == "compaction"), None)
    kept = last.kept_from if last else 0
    return [e for e in entries if not e.compacted or (kept and e.ref >= kept)]


def _newest(
    entries: Sequence[Entry], room: int, clean: Callable[[str], str]
) -> tuple[list[tuple[int, str]], int]:
    """Ref and text of the newest entries that go into a room, newest first, and their size."""
    kept: list[tuple[int, str]] = []
    size = 0
    for entry in reversed(entries):
        text = clean(_entry(entry))
        if not kept:  # The newest one goes in, its middle left out where it must be.
            text = clip(text, max(200, room - 80))
        if size + len(text) + 1 > room and kept:
            break
        kept.append((entry.ref, text))
        size += len(text) + 1
    return kept, size


def _entry(entry: Entry) -> str:
    """One entry as a request shows it."""
    if entry.kind == "tool":
        body = clip(readable(entry), RESULT)
        return f"[#{entry.ref} tool] {plain(body)}"
    who = entry.kind if entry.kind != "user" or entry.origin == "typed" else f"user, {entry.origin}"
    limit = SUMMARY if entry.kind == "compaction" else WORDS
    return f"[#{entry.ref} {who}] {plain(clip(entry.text, limit))}"


def _older(task: Task, first: int, room: int) -> Iterator[str]:
    """Sentences of entries before `first`, those that speak of the goal, in the order of the thread."""
    said = [s for s in task.stated if s.ref < first]
    chosen = best(((task.relevance.statement(s), s) for s in said), 120)
    lines = []
    for statement in chosen:
        who = "user" if statement.by_user else "assistant"
        line = task.clean(f"[#{statement.ref} {who}, excerpt] {plain(statement.text)}")
        if len(line) + 1 > room:
            break
        room -= len(line) + 1
        lines.append((statement.ref, line))
    yield from (line for _, line in sorted(lines))


def entry_list(entries: Sequence[Entry], clean: Callable[[str], str]) -> str:
    """A line for each entry that says something, so that an agent can name it by number."""
    said = [e for e in entries if e.kind in ("user", "assistant") and len(e.text.strip()) > 20]
    lines = [f"#{e.ref} {e.kind}: {shorten(on_one_line(e.text[:400]), 90)}" for e in said[-LISTED:]]
    return clean("\n".join(lines)) or "(none)"


def fence(*texts: str) -> str:
    """The name of a fence that occurs in none of some texts, and that nobody could foresee."""
    while True:
        name = f"thread-{secrets.token_hex(6)}"
        if not any(name in text for text in texts):
            return name
