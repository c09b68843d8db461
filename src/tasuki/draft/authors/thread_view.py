"""The part of a thread in a request: the bounded, compaction-aware view of the branch.

Entries since the last compaction are included whole, the newest first. What is older, or
does not fit, is included as the summary that the agent itself worked from and as ranked
excerpts.
"""

import re
import secrets
from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

from tasuki.draft.authors.author import AuthorTask
from tasuki.draft.brief import clean_line as on_one_line
from tasuki.draft.rank.relevance import select_best
from tasuki.draft.text.entries import format_entry
from tasuki.draft.text.split import shorten
from tasuki.harness.reading.jsonl import clip
from tasuki.model import Entry
from tasuki.patterns import compile_pattern
from tasuki.text_safety import clean_text

RESULT_LIMITS = (16_000, 8_000, 4_000, 2_400, 1_600)
"""Characters of one tool call with its result: the most with which all entries fit, else the fewest."""
MAX_MESSAGE = 12_000
"""Characters of one message."""
MAX_SUMMARY = 16_000
EXCERPT_SHARE = 0.3
"""Share of the room for excerpts of older entries, if not all entries fit whole."""
MAX_LISTED = 160
"""Entries in the list that an agent gets, the newest of those with words."""


_REMINDER = compile_pattern(r"<system-reminder>.*?</system-reminder>\s*", re.DOTALL)
"""What a program says to its agent inside results, again and again."""


class RequestView(Struct, frozen=True):
    """A thread as a request contains it. Entries from `first` on are whole."""

    text: str
    first: int
    whole: bool


def build_view(task: AuthorTask, room: int) -> RequestView:
    """Return as much of a thread as fits into `room` characters. Secrets and control characters are removed."""
    entries = task.thread.entries
    # What the agent had in view at the end, with what the last compaction kept.
    last = next((e for e in reversed(entries) if e.kind == "compaction"), None)
    kept_from = last.kept_from if last else 0
    since = [e for e in entries if not e.compacted or (kept_from and e.ref >= kept_from)]
    for limit in RESULT_LIMITS:
        newest, size = _collect_newest(since, room, limit, task.clean)
        if len(newest) == len(since):
            break
    whole = len(newest) == len(entries)
    if not whole and len(newest) < len(since):  # Older ones get their part of the room.
        while len(newest) > 1 and size > room * (1 - EXCERPT_SHARE):
            size -= len(newest.pop()[1]) + 1
    first = newest[-1][0] if newest else 1
    older = [] if whole else list(_list_older(task, first, room - size))
    text = "\n".join([*older, *(text for _, text in reversed(newest))])
    return RequestView(text=text, first=first, whole=whole)


def _collect_newest(
    entries: Sequence[Entry], room: int, limit: int, clean: Callable[[str], str]
) -> tuple[list[tuple[int, str]], int]:
    """Return ref and text of the newest entries that fit, newest first, and their size."""
    collected: list[tuple[int, str]] = []
    size = 0
    for entry in reversed(entries):
        text = clean(_format_entry(entry, limit))
        if not collected:  # The newest one is always included, without its middle if necessary.
            text = clip(text, max(200, room - 80))
        if size + len(text) + 1 > room and collected:
            break
        collected.append((entry.ref, text))
        size += len(text) + 1
    return collected, size


def _format_entry(entry: Entry, result_limit: int) -> str:
    if entry.kind == "tool":
        body = clip(_REMINDER.sub("", format_entry(entry)), result_limit)
        return f"[#{entry.ref} tool] {clean_text(body)}"
    is_typed = entry.kind != "user" or entry.origin == "typed"
    speaker = entry.kind if is_typed else f"user, {entry.origin}"
    limit = MAX_SUMMARY if entry.kind == "compaction" else MAX_MESSAGE
    return f"[#{entry.ref} {speaker}] {clean_text(clip(entry.text, limit))}"


def _list_older(task: AuthorTask, first: int, room: int) -> Iterator[str]:
    """Yield sentences of entries before `first` that speak of the goal, in thread order."""
    earlier = [s for s in task.open_statements if s.ref < first]
    chosen = select_best(((task.relevance.score_statement(s), s) for s in earlier), 120)
    lines = []
    for statement in chosen:
        speaker = "user" if statement.by_user else "assistant"
        line = task.clean(f"[#{statement.ref} {speaker}, excerpt] {clean_text(statement.text)}")
        if len(line) + 1 > room:
            break
        room -= len(line) + 1
        lines.append((statement.ref, line))
    yield from (line for _, line in sorted(lines))


def format_entry_list(entries: Sequence[Entry], clean: Callable[[str], str]) -> str:
    """Return a line for each entry with words, or with a call that did something, so that an agent can cite it."""
    heads: list[tuple[Entry, str]] = []
    for entry in entries:
        call, head = entry.tool, ""
        if call and call.changes:
            head = f"edited {', '.join(dict.fromkeys(c.path for c in call.changes))}"
        elif call and call.kind == "shell":
            head = call.command
        elif call is None and entry.kind in ("user", "assistant") and len(entry.text.strip()) > 20:
            head = entry.text
        heads += [(entry, head)] if head else []
    lines = [
        f"#{e.ref} {e.kind}: {shorten(on_one_line(h[:400]), 90)}" for e, h in heads[-MAX_LISTED:]
    ]
    return clean("\n".join(lines)) or "(none)"


def create_fence(*texts: str) -> str:
    """Return the name of a fence that occurs in none of some texts and cannot be guessed."""
    while True:
        name = f"thread-{secrets.token_hex(6)}"
        if not any(name in text for text in texts):
            return name
