"""Redact texts that quote a thread, each as the part of whole entries that it is.

A sentence, a line or the end of an output does not show that a word in it is a password: the name
was before it. So the entries that a text rests on are redacted whole first, and what is secret in
them is hidden in the text too, though it be a plain word, or cut in half.
"""

from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import islice
from typing import NamedTuple

from tasuki.draft.redact import patterns as shapes
from tasuki.draft.redact.answers import find_given_secrets
from tasuki.draft.redact.patterns import SecretSpan, compile_once
from tasuki.draft.redact.redactor import Redactor, find_unusual_words
from tasuki.draft.text.entries import format_entry
from tasuki.model import Entry, Thread
from tasuki.text_safety import clean_for_display

MOST_WORDS, MOST_ENTRIES = 20, 3
"""Words of a document that are looked for in the thread, and entries with one that are read."""
HUGE = 3_000
"""Entries of a thread beyond which outputs are not searched for the words of a document."""
_REFERENCE = r"#(\d{1,7})"
_NEAR = 4
"""Characters on either side of a plain word that show that it is the same place."""
_EDGES = ("", '"', "“", "”", "'", "`", "…", "\n")


class PlainSecret(NamedTuple):
    """A secret that is too plain to be one everywhere, with what is before and after it."""

    value: str
    kind: str
    before: str
    after: str

    def find_in(self, text: str) -> Iterator[SecretSpan]:
        """Yield where it is in a text, at its own place in the entry or at the text's edge."""
        start = text.find(self.value)
        while start >= 0:
            end = start + len(self.value)
            is_begun = text[:start].endswith(self.before) or text[start - 1 : start] in _EDGES
            if is_begun and (text.startswith(self.after, end) or text[end : end + 1] in _EDGES):
                yield SecretSpan(start, end, self.kind)
            start = text.find(self.value, end)


class QuoteRedactor(Redactor):
    """Redacts the texts that are made from one thread. Only entries that are quoted are read."""

    def __init__(self, thread: Thread | None = None, given: Iterable[str] | None = None) -> None:
        super().__init__()
        self.open_entries(thread.entries if thread else (), given)

    def open_entries(self, entries: Iterable[Entry], given: Iterable[str] | None = None) -> None:
        """Take these as the entries that texts are part of; what was found before stays known.

        `given` is what `find_given_secrets` yields for them.
        """
        self._entries = {entry.ref: entry for entry in entries}
        self.learn_values(find_given_secrets(self._entries.values()) if given is None else given)
        self._redacted: dict[int, str] = {}
        self._plain: dict[int, list[PlainSecret]] = {}
        self.__dict__.pop("_texts", None)

    @cached_property
    def _texts(self) -> list[tuple[int, str]]:
        """The entries as texts, the newest first; of a huge thread only what was said."""
        entries = [
            e for e in self._entries.values() if e.tool is None or len(self._entries) <= HUGE
        ]
        texts = ((entry.ref, format_entry(entry)) for entry in reversed(entries))
        return [(ref, clean_for_display(text) if "\x1b" in text else text) for ref, text in texts]

    def redact_entry(self, ref: int) -> str:
        """Return the whole entry of a ref as text, redacted; '' if there is none."""
        if ref not in self._redacted:
            entry = self._entries.get(ref)
            text = clean_for_display(format_entry(entry)) if entry else ""
            self._plain[ref] = [
                PlainSecret(value, kind, text[:start][-_NEAR:], text[end : end + _NEAR])
                for start, end, kind in self.find_secrets(text)
                if not shapes.is_memorable(value := text[start:end]) and len(value) <= 64
            ]
            self._redacted[ref] = self.redact(text)
        return self._redacted[ref]

    def redact_quote(self, text: str, refs: Iterable[int] = ()) -> str:
        """Return a text for display without secrets, as part of the entries that it cites.

        These are `refs` and what the text itself names, `#12`.
        """
        return self.redact_cited(clean_for_display(text), refs)

    def redact_cited(self, text: str, refs: Iterable[int] = ()) -> str:
        """Return the same of a text that is sent on, with every other character."""
        spans: list[SecretSpan] = []
        for ref in dict.fromkeys((*refs, *map(int, compile_once(_REFERENCE).findall(text)))):
            self.redact_entry(ref)
            spans += (span for plain in self._plain[ref] for span in plain.find_in(text))
        return self.redact(self.hide_spans(text, spans) if spans else text)

    def redact_document(self, text: str) -> str:
        """Return a text that somebody wrote about the thread, without the secrets it repeats."""
        self.learn_document(text)
        return self.redact_cited(text)

    def learn_document(self, text: str) -> None:
        """Read the entries that hold the unusual words of a text, which cites nothing itself."""
        for word in islice(find_unusual_words(text), MOST_WORDS):
            found = (ref for ref, entry in self._texts if word in entry)
            for ref in islice(found, MOST_ENTRIES):
                self.redact_entry(ref)
