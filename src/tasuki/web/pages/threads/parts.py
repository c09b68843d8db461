"""The part of a thread that a page shows: which entries, where they are, what is searched in them."""

import threading
import unicodedata
from collections import Counter, OrderedDict
from collections.abc import Iterator, Sequence
from itertools import groupby

from msgspec import Struct

from tasuki.draft.text.entries import format_entry
from tasuki.model import Entry, Thread
from tasuki.patterns import compile_pattern
from tasuki.threads.passages import EntryCleaner
from tasuki.web.pages.threads.view import ShownEntry, show_entry
from tasuki.web.views.templates import format_calendar_day, parse_moment

ENTRIES_PER_PAGE = 100
"""Entries of one page."""
MOST_ENTRIES = 300
"""Most entries of a page that begins at a moment, or at an entry that the reader chose."""
FEWEST_AT_END = 20
"""With fewer entries the last page also shows those of the page before it."""
FOLDED_FROM = 8
"""Tool calls in a row from which they are folded into one line."""


class PartQuery(Struct, frozen=True):
    """Which part of a thread is wanted; the newest where nothing is given.

    Times are seconds since 1970. `entry`: the page that has it. `start`: from this entry on.
    `at`: the page of the first entry after a moment. `since`: all from a moment on.
    """

    entry: int = 0
    start: int = 0
    at: float | None = None
    since: float | None = None
    find: str = ""
    prompts: bool = False
    """Only what the user wrote."""


class ToolCallRun(Struct, frozen=True, tag="calls"):
    """Tool calls that are folded into one line: `31 Read, 9 Edit`."""

    entries: tuple[ShownEntry, ...]
    counts: str
    open: bool = False


class ThreadMatches(Struct, frozen=True):
    """The entries in which what is searched occurs. Refs are 0 where there is none."""

    count: int = 0
    number: int = 0
    """Which of them is the current one, from 1; 0 for none."""
    before: int = 0
    after: int = 0


class ThreadPart(Struct, frozen=True):
    """Some entries of a thread, and the first refs of the parts around them; 0 for none."""

    items: tuple[ShownEntry | ToolCallRun, ...]
    first: int
    last: int
    before: int
    after: int
    number: int
    """Which part it is, from 1; 0 where it begins elsewhere than a part."""
    of: int
    target: int = 0
    """The entry that the reader asked for."""
    newest: int = 0
    """The last entry of the whole thread."""
    last_prompt: int = 0
    matches: ThreadMatches = ThreadMatches()
    begins: float | None = None
    ends: float | None = None
    """When the thread begins and ends; None where its harness writes no times."""


def build_part(thread: Thread, query: PartQuery, cleaner: EntryCleaner) -> ThreadPart:
    """Build the part of a thread that is asked for; an entry that is not there is the next one."""
    entries = tuple(e for e in thread.entries if e.is_by_hand) if query.prompts else thread.entries
    refs = {entry.ref for entry in entries}
    found = SEARCHED_TEXTS.find_matches(thread, split_terms(query.find))
    matching = [ref for ref in found if ref in refs]
    target = _find_target(entries, query, matching)
    start, stop, number = _find_range(entries, query, target)
    cleaner.learn_entries(entries[start:stop], thread.entries)
    shown = [show_entry(thread, entry, cleaner) for entry in entries[start:stop]]
    return ThreadPart(
        items=tuple(_fold_calls(shown, target)),
        first=shown[0].ref if shown else 0,
        last=shown[-1].ref if shown else 0,
        before=entries[max(0, start - ENTRIES_PER_PAGE)].ref if start else 0,
        after=entries[stop].ref if stop < len(entries) else 0,
        number=number,
        of=max((len(entries) + ENTRIES_PER_PAGE - 1) // ENTRIES_PER_PAGE, 1),
        target=target,
        newest=thread.entries[-1].ref if thread.entries else 0,
        last_prompt=next((e.ref for e in reversed(thread.entries) if e.is_by_hand), 0),
        matches=_place_match(matching, target),
        begins=next((m for e in entries[:20] if (m := parse_moment(e.at)) is not None), None),
        ends=next((m for e in entries[:-21:-1] if (m := parse_moment(e.at)) is not None), None),
    )


def _find_target(entries: Sequence[Entry], query: PartQuery, matching: Sequence[int]) -> int:
    """Find the entry that is asked for; with words and nothing else, the last that has them."""
    if query.at is not None and entries:
        index = min(find_since(entries, query.at), len(entries) - 1)
        return entries[index].ref
    is_search = query.find and not query.entry and not query.start and query.since is None
    return matching[-1] if is_search and matching else query.entry


def _find_range(entries: Sequence[Entry], query: PartQuery, target: int) -> tuple[int, int, int]:
    """Find the first index of the part, the one after its last, and its number."""
    count = len(entries)
    if query.since is not None and not target:
        start = find_since(entries, query.since)
        return start, min(start + MOST_ENTRIES, count), 0
    if query.start and not target:
        start = _find_index(entries, query.start)
        return start, min(start + MOST_ENTRIES, count), 0
    index = _find_index(entries, target) if target else count - 1
    number = max(0, index) // ENTRIES_PER_PAGE
    start = number * ENTRIES_PER_PAGE
    if number and count - start < FEWEST_AT_END:
        return start - ENTRIES_PER_PAGE, count, 0
    return start, min(start + ENTRIES_PER_PAGE, count), number + 1


def _find_index(entries: Sequence[Entry], ref: int) -> int:
    return next((n for n, e in enumerate(entries) if e.ref >= ref), max(len(entries) - 1, 0))


def find_since(entries: Sequence[Entry], moment: float) -> int:
    """Find the index of the first entry at or after a moment; their number where there is none.

    Entries without a time belong to the ones before them.
    """
    first = len(entries)
    for index in range(len(entries) - 1, -1, -1):
        written = parse_moment(entries[index].at)
        if written is not None and written < moment:
            break
        if written is not None:
            first = index
    return first


def _place_match(matching: Sequence[int], target: int) -> ThreadMatches:
    return ThreadMatches(
        count=len(matching),
        number=matching.index(target) + 1 if target in matching else 0,
        before=next((ref for ref in reversed(matching) if ref < target), 0),
        after=next((ref for ref in matching if ref > target), 0),
    )


# -- tool calls in a row, days ---------------------------------------------------------


def _fold_calls(
    shown_entries: Sequence[ShownEntry], entry: int
) -> Iterator[ShownEntry | ToolCallRun]:
    """Fold tool calls in a row; those of two days stay apart."""
    kinds = groupby(shown_entries, lambda x: (x.kind == "tool", format_calendar_day(x.moment)))
    for (is_tool, _), group in kinds:
        run = list(group)
        if not is_tool or len(run) < FOLDED_FROM:
            yield from run
            continue
        names = Counter(one.name for one in run).most_common(5)
        counts = ", ".join(f"{n} {name}" for name, n in names)
        yield ToolCallRun(tuple(run), counts, any(one.ref == entry for one in run))


def mark_days(
    items: Sequence[ShownEntry | ToolCallRun],
) -> Iterator[tuple[str, float | None, ShownEntry | ToolCallRun]]:
    """Yield each item with the day that begins with it, empty for the same one, and its moment."""
    day = ""
    for item in items:
        moment = item.entries[0].moment if isinstance(item, ToolCallRun) else item.moment
        its_day = format_calendar_day(moment)
        yield its_day if its_day != day else "", moment, item
        day = its_day or day


# -- search: in what a reader sees, so that no guess of a secret is confirmed ----------

MOST_WORDS = 12
MOST_KEPT = 2
"""Threads whose texts are kept for the next search: to clean them takes longer than to search."""
_TERM = compile_pattern(r'"([^"]+)"|(\S+)')
_ACCENTS = {
    code: unicodedata.normalize("NFKD", chr(code))[0]
    for code in (*range(0xC0, 0x250), *range(0x1E00, 0x1F00))
}


def split_terms(text: str) -> list[str]:
    """Split what is searched in a thread: words, and "several of them" in quotes."""
    terms = [quoted or word for quoted, word in _TERM.findall(text)]
    return [unicodedata.normalize("NFC", term) for term in terms[:MOST_WORDS]]


def _fold(text: str) -> str:
    """Return a text, or what is searched in it, without case and accents."""
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFC", text).translate(_ACCENTS).casefold()


class SearchedTexts:
    """The texts of threads as they are shown, without case and accents. Used from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._threads: OrderedDict[str, _CleanedThread] = OrderedDict()

    def find_matches(self, thread: Thread, terms: Sequence[str]) -> list[int]:
        """Find the refs of the entries that have all terms, wherever in them.

        Secrets are not found; the marks in their place are.
        """
        if not terms:
            return []
        with self._lock:
            cleaned = self._threads.setdefault(thread.path, _CleanedThread())
            self._threads.move_to_end(thread.path)
            while len(self._threads) > MOST_KEPT:
                self._threads.popitem(last=False)
        wanted = [_fold(term) for term in terms]
        texts = zip(thread.entries, cleaned.list_texts(thread.entries), strict=True)
        return [entry.ref for entry, text in texts if all(term in text for term in wanted)]


class _CleanedThread:
    """The texts of one thread; of one that grew only the new ones are cleaned."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cleaner = EntryCleaner()
        self._entries: list[Entry] = []
        self._texts: list[str] = []

    def list_texts(self, entries: Sequence[Entry]) -> list[str]:
        """List the texts of these entries."""
        with self._lock:
            pairs = enumerate(zip(entries, self._entries, strict=False))
            known = min(len(entries), len(self._entries))
            same = next((number for number, (new, old) in pairs if new is not old), known)
            new = list(entries[same:])
            self._entries[same:] = new
            if new:
                self._cleaner.learn_entries((), self._entries)
            self._texts[same:] = [self._fold_text(entry) for entry in new]
            return list(self._texts)

    def _fold_text(self, entry: Entry) -> str:
        text = entry.text if entry.tool is None else format_entry(entry)
        return _fold(self._cleaner.clean_text(text))


SEARCHED_TEXTS = SearchedTexts()
