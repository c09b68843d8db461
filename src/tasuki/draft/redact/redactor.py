"""Find secrets in text and replace each with a mark, `[REDACTED:kind]`.

A secret is recognised by the shape its issuer gave it, by the name or the words before its
value, or by the command it is passed to. docs/redaction.md says what is caught and what is
left alone, with figures.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from tasuki.draft.redact import patterns as shapes
from tasuki.draft.redact.calls import find_calls, find_inserted_secrets
from tasuki.draft.redact.finders import ANCHORED, find_commands
from tasuki.draft.redact.issuers import find_tokens
from tasuki.draft.redact.lines import replace_diff_marks
from tasuki.draft.redact.names import find_named
from tasuki.draft.redact.patterns import SecretSpan
from tasuki.patterns import compile_pattern

MARK = compile_pattern(r"\[REDACTED:[a-z0-9-]+\]")
_MAX_REMEMBERED = 512
_MAX_LINE = 400
_MAX_LINES = 8192
_MAX_PASSES = 4

__all__ = ["MARK", "Redactor", "SecretSpan", "find", "redact"]


class Redactor:
    """Redacts the texts of one handoff, and remembers what it found from one text to the next.

    `counts` maps each kind to the number of values replaced so far. A value of 8 characters or
    more that was found once is also redacted in later texts where its context does not show
    that it is a secret.
    """

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self._remembered: dict[str, str] = {}

    def find_secrets(self, text: str) -> list[SecretSpan]:
        """The secrets in the text, in order and without overlap; change and remember nothing."""
        detect = _detect_in_line if len(text) <= _MAX_LINE else _detect_secrets
        return _settle_spans(text, [*detect(text), *_find_remembered(text, self._remembered)])

    def find_everywhere(self, text: str) -> list[SecretSpan]:
        """The secrets in the text, and where else their values stand in it; remember the values."""
        return self._learn_values(text, self.find_secrets(text))

    def redact(self, text: str) -> str:
        """The text with a mark in place of each secret. Redacting the result changes nothing."""
        for _ in range(_MAX_PASSES):
            spans = self.find_everywhere(text)
            if not spans:
                break
            text = self._replace_spans(text, spans)
        return text

    def redact_data(self, value: Any) -> Any:
        """Return the value with every text in it redacted: str, list, tuple and dict, to any depth.

        Keys stay as they are. A text under a key that names a secret is replaced whole, unless it
        is a placeholder.
        """
        if isinstance(value, str):
            return self.redact(value)
        if isinstance(value, dict):
            return {key: self._redact_field(key, item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            items = [self.redact_data(item) for item in value]
            return items if isinstance(value, list) else tuple(items)
        return value

    def _redact_field(self, key: object, value: Any) -> Any:
        kind = shapes.find_secret_kind(key) if isinstance(key, str) else ""
        named = kind not in ("", "weak-key") and isinstance(value, str)
        if not named or shapes.is_placeholder(value) or MARK.search(value):
            return self.redact_data(value)
        return self._replace_spans(
            value, self._learn_values(value, [SecretSpan(0, len(value), kind)])
        )

    def _learn_values(self, text: str, spans: list[SecretSpan]) -> list[SecretSpan]:
        """Remember the values of the spans, and add other places in the text where they occur."""
        known = len(self._remembered)
        for span in spans:
            value = text[span.start : span.end]
            if len(self._remembered) < _MAX_REMEMBERED and shapes.is_memorable(value):
                self._remembered.setdefault(value, span.kind)
        new = dict(list(self._remembered.items())[known:])
        return _settle_spans(text, [*spans, *_find_remembered(text, new)]) if new else spans

    def _replace_spans(self, text: str, spans: list[SecretSpan]) -> str:
        parts, position = [], 0
        for start, end, kind in spans:
            parts += [text[position:start], f"[REDACTED:{kind}]"]
            self.counts[kind] = self.counts.get(kind, 0) + 1
            position = end
        return "".join([*parts, text[position:]])


def redact(text: str) -> tuple[str, dict[str, int]]:
    """Return the text with its secrets replaced by marks, and the number of each kind."""
    redactor = Redactor()
    return redactor.redact(text), redactor.counts


def find(text: str) -> list[SecretSpan]:
    """Return the secrets in the text, for a caller that warns and changes nothing."""
    return Redactor().find_secrets(text)


def strip_tokens(text: str) -> str:
    """Return the text without tokens recognised by shape alone and without private keys.

    This is the fast part of redaction.
    """
    lower = text.lower()
    spans = list(find_tokens(text, text.encode("latin-1", "replace")))
    for anchor, step, finder in ANCHORED[:1]:
        position = lower.find(anchor)
        while position >= 0:
            spans += finder(text, position)
            position = lower.find(anchor, position + step)
    parts, position = [], 0
    for start, end, _ in _settle_spans(text, spans):
        parts.append(text[position:start])
        position = end
    return " ".join([*parts, text[position:]])


def _settle_spans(text: str, spans: list[SecretSpan]) -> list[SecretSpan]:
    """Return spans in order, with overlapping ones joined under the kind of the first.

    Spans that touch a mark are dropped.
    """
    if spans and "[REDACTED:" in text:
        marks = [m.span() for m in MARK.finditer(text)]
        starts = [start for start, _ in marks]
        spans = [
            s for s in spans if not _is_touching_mark(marks, bisect_left(starts, s.end), s.start)
        ]
    settled: list[SecretSpan] = []
    for span in sorted(spans, key=lambda s: (s.start, -s.end)):
        if not settled or span.start >= settled[-1].end:
            settled.append(span)
        elif span.end > settled[-1].end:
            settled[-1] = SecretSpan(settled[-1].start, span.end, settled[-1].kind)
    return settled


def _is_touching_mark(marks: list[tuple[int, int]], following: int, start: int) -> bool:
    """Return whether the last mark before the one numbered `following` reaches beyond `start`."""
    return following > 0 and marks[following - 1][1] > start


def _find_remembered(text: str, remembered: dict[str, str]) -> Iterator[SecretSpan]:
    for value, kind in remembered.items():
        position = text.find(value)
        while position >= 0:
            end = position + len(value)
            if not (
                (text[position - 1 : position].isalnum() and value[0].isalnum())
                or text[end : end + 1].isalnum()
            ):
                yield SecretSpan(position, end, kind)
            position = text.find(value, end)


@lru_cache(_MAX_LINES)
def _detect_in_line(text: str) -> tuple[SecretSpan, ...]:
    """What `_detect_secrets` yields for a short text: the pages of a fleet show the same ones again and again."""
    return tuple(_detect_secrets(text))


def _detect_secrets(text: str) -> Iterator[SecretSpan]:
    """Yield every secret recognisable in the text alone; spans may overlap and come in any order."""
    text = replace_diff_marks(text)
    narrow = text.encode("latin-1", "replace")
    lower = narrow.lower().decode("latin-1")
    yield from find_tokens(text, narrow)
    for anchor, step, finder in (*ANCHORED, ("values", 6, find_inserted_secrets)):
        if anchor not in lower:  # faster than `find`, and the usual case
            continue
        position = lower.find(anchor)
        while position >= 0:
            yield from finder(text, position)
            position = lower.find(anchor, position + step)
    yield from find_commands(text, lower)
    yield from find_calls(text, lower)
    yield from find_named(text, lower)
