"""Finds secrets in text and replaces each with a mark, `[REDACTED:kind]`.

A secret is known by the shape its issuer gave it, by the name or the words before its value, or by the command it is
passed to. What is caught and what is left alone, with figures: docs/redaction.md.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from typing import Any

from tasuki.draft import redact_patterns as shapes
from tasuki.draft.redact_calls import CALLS, call, find_inserted
from tasuki.draft.redact_finders import ANCHORED, Span, find_commands, tokens
from tasuki.draft.redact_lines import blank_marks
from tasuki.draft.redact_names import named

MARK = re.compile(r"\[REDACTED:[a-z0-9-]+\]")
_MAX_REMEMBERED = 512
_MAX_PASSES = 4

__all__ = ["MARK", "Redactor", "Span", "find", "redact"]


class Redactor:
    """Redacts the texts of one handoff, and remembers what it found from one text to the next.

    `counts` maps each kind to the number of values replaced so far. A value of 8 characters or more that was found once
    is redacted in later texts also where nothing around it tells that it is a secret.
    """

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self._remembered: dict[str, str] = {}

    def find(self, text: str) -> list[Span]:
        """The secrets in the text, in order and without overlap; alters and remembers nothing."""
        return _settle(text, [*_detect(text), *_recall(text, self._remembered)])

    def redact(self, text: str) -> str:
        """The text with a mark in place of each secret. Redacting the result again changes nothing."""
        for _ in range(_MAX_PASSES):
            spans = self._learn(text, self.find(text))
            if not spans:
                break
            text = self._replace(text, spans)
        return text

    def redact_data(self, value: Any) -> Any:
        """The same value with every text in it redacted: str, list, tuple and dict, to any depth.

        Keys stay as they are. A text under a key that names a secret is replaced whole, unless it is a placeholder.
        """
        if isinstance(value, str):
            return self.redact(value)
        if isinstance(value, dict):
            return {key: self._field(key, item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            items = [self.redact_data(item) for item in value]
            return items if isinstance(value, list) else tuple(items)
        return value

    def _field(self, key: object, value: Any) -> Any:
        kind = shapes.secret_name(key) if isinstance(key, str) else ""
        named = kind not in ("", "weak-key") and isinstance(value, str)
        if not named or shapes.is_placeholder(value) or MARK.search(value):
            return self.redact_data(value)
        return self._replace(value, self._learn(value, [Span(0, len(value), kind)]))

    def _learn(self, text: str, spans: list[Span]) -> list[Span]:
        """Remembers the values of the spans, and adds the places where those stand elsewhere in the text."""
        known = len(self._remembered)
        for span in spans:
            value = text[span.start : span.end]
            if len(self._remembered) < _MAX_REMEMBERED and shapes.is_memorable(value):
                self._remembered.setdefault(value, span.kind)
        new = dict(list(self._remembered.items())[known:])
        return _settle(text, [*spans, *_recall(text, new)]) if new else spans

    def _replace(self, text: str, spans: list[Span]) -> str:
        parts, at = [], 0
        for start, end, kind in spans:
            parts += [text[at:start], f"[REDACTED:{kind}]"]
            self.counts[kind] = self.counts.get(kind, 0) + 1
            at = end
        return "".join([*parts, text[at:]])


def redact(text: str) -> tuple[str, dict[str, int]]:
    """The text with its secrets replaced by marks, and how many of each kind there were."""
    redactor = Redactor()
    return redactor.redact(text), redactor.counts


def find(text: str) -> list[Span]:
    """The secrets in the text, for a caller that warns and alters nothing."""
    return Redactor().find(text)


def without_tokens(text: str) -> str:
    """The text without the tokens whose shape alone gives them away, and without private keys; the fast part of redaction."""
    lower = text.lower()
    spans = list(tokens(text, text.encode("latin-1", "replace")))
    for anchor, step, finder in ANCHORED[:1]:
        at = lower.find(anchor)
        while at >= 0:
            spans += finder(text, at)
            at = lower.find(anchor, at + step)
    parts, at = [], 0
    for start, end, _ in _settle(text, spans):
        parts.append(text[at:start])
        at = end
    return " ".join([*parts, text[at:]])


def _settle(text: str, spans: list[Span]) -> list[Span]:
    """Spans in order; overlapping ones joined under the kind of the first; none that touches a mark."""
    if spans and "[REDACTED:" in text:
        marks = [m.span() for m in MARK.finditer(text)]
        starts = [start for start, _ in marks]
        spans = [s for s in spans if not _touches(marks, bisect_left(starts, s.end), s.start)]
    settled: list[Span] = []
    for span in sorted(spans, key=lambda s: (s.start, -s.end)):
        if not settled or span.start >= settled[-1].end:
            settled.append(span)
        elif span.end > settled[-1].end:
            settled[-1] = Span(settled[-1].start, span.end, settled[-1].kind)
    return settled


def _touches(marks: list[tuple[int, int]], following: int, start: int) -> bool:
    """Whether the last mark before the one numbered `following` reaches beyond `start`."""
    return following > 0 and marks[following - 1][1] > start


def _recall(text: str, remembered: dict[str, str]) -> Iterator[Span]:
    for value, kind in remembered.items():
        at = text.find(value)
        while at >= 0:
            end = at + len(value)
            if not (
                (text[at - 1 : at].isalnum() and value[0].isalnum())
                or text[end : end + 1].isalnum()
            ):
                yield Span(at, end, kind)
            at = text.find(value, end)


def _detect(text: str) -> Iterator[Span]:
    """Every secret that the text alone gives away; spans may overlap and come in any order."""
    text = blank_marks(text)
    narrow = text.encode("latin-1", "replace")
    lower = narrow.lower().decode("latin-1")
    yield from tokens(text, narrow)
    for anchor, step, finder in (*ANCHORED, ("values", 6, find_inserted)):
        if anchor not in lower:  # faster than `find`, and the usual case
            continue
        at = lower.find(anchor)
        while at >= 0:
            yield from finder(text, at)
            at = lower.find(anchor, at + step)
    yield from find_commands(text, lower)
    for name in CALLS if "(" in lower else ():
        if name not in lower:
            continue
        at = lower.find(name)
        while at >= 0:
            yield from call(text, name, at)
            at = lower.find(name, at + len(name))
    yield from named(text, lower)
