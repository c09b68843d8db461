"""Searches within a thread: in what a reader sees of it, so that no guess of a secret is confirmed."""

import threading
import unicodedata
from collections import OrderedDict
from collections.abc import Sequence

from tasuki.draft.text.entries import format_entry
from tasuki.model import Entry, Thread
from tasuki.patterns import compile_pattern
from tasuki.threads.passages import EntryCleaner

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
