"""Find secrets in text and replace each with a mark, `[REDACTED:kind]`.

A secret is recognised by the shape its issuer gave it, by the name or the words before its
value, or by the command it is passed to. workshop/redaction.md says what is caught and what is
left alone, with figures.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from tasuki.draft.redact import patterns as shapes
from tasuki.draft.redact.calls import find_calls, find_inserted_secrets
from tasuki.draft.redact.finders import ANCHORED, find_commands
from tasuki.draft.redact.issuers import find_tokens
from tasuki.draft.redact.lines import replace_diff_marks
from tasuki.draft.redact.names import find_named
from tasuki.draft.redact.patterns import SecretSpan, compile_once
from tasuki.patterns import compile_pattern
from tasuki.text_safety import clean_for_display, shorten_to_line

MARK = compile_pattern(r"\[REDACTED:[a-z0-9-]+\]")
_MAX_REMEMBERED = 512
_MAX_LINE = 400
_MAX_LINES = 8192
_MAX_PASSES = 4
_PIECE = 8
"""Characters of a piece of a secret at least, the issuer's public prefix apart."""
BEYOND = 4_096
"""Characters that are read beyond what is shown, so that a secret at the cut is recognised."""

__all__ = ["MARK", "Redactor", "SecretSpan", "find", "redact"]


class Redactor:
    """Redacts the texts of one handoff, and remembers what it found from one text to the next.

    `counts` maps each kind to the number of values replaced so far. A value of 8 characters or
    more that was found once is also redacted in later texts where its context does not show
    that it is a secret, and so is a piece of it that a cut has left.
    """

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self._remembered = KnownSecrets()

    def find_secrets(self, text: str) -> list[SecretSpan]:
        """The secrets in the text, in order and without overlap; change and remember nothing."""
        read = _read_text(text)
        return read.move_spans(self._find_in_read(read.text)) if read else self._find_in_read(text)

    def find_everywhere(self, text: str) -> list[SecretSpan]:
        """The secrets in the text, and where else their values stand in it; remember the values."""
        if read := _read_text(text):
            return read.move_spans(self._learn_values(read.text, self._find_in_read(read.text)))
        return self._learn_values(text, self._find_in_read(text))

    def _find_in_read(self, text: str) -> list[SecretSpan]:
        detect = _detect_in_line if len(text) <= _MAX_LINE else _detect_in_text
        return _settle_spans(text, [*detect(text), *self._remembered.find_in(text)])

    def learn_values(self, values: Iterable[str]) -> None:
        """Remember words that are passwords by what was said before them, however plain they are."""
        for value in values:
            self._remembered.add(value, "password")

    def redact(self, text: str) -> str:
        """The text with a mark in place of each secret. Redacting the result changes nothing."""
        for _ in range(_MAX_PASSES):
            spans = self.find_everywhere(text)
            if not spans:
                break
            text = self._replace_spans(text, spans)
        return text

    def redact_line(self, text: str, width: int) -> str:
        """The first words of the text on one line of at most `width` characters, for a list. It is redacted before it is cut."""
        text = clean_for_display(text[: 8 * width + BEYOND])
        return shorten_to_line(self.redact(text), width)

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
        spans = self._learn_values(value, [SecretSpan(0, len(value), kind)])
        return self._replace_spans(value, spans)

    def _learn_values(self, text: str, spans: list[SecretSpan]) -> list[SecretSpan]:
        """Remember the values of the spans, and add other places in the text where they occur."""
        new = KnownSecrets()
        for span in spans:
            values = [text[span.start : span.end]]
            if span.kind == "private-key" and not values[0].isalnum():  # Its lines.
                values = compile_once(r"[A-Za-z0-9+/=]{16,}").findall(values[0])[:100]
            for value in values:
                if shapes.is_memorable(value) and self._remembered.add(value, span.kind):
                    new.add(value, span.kind)
        return _settle_spans(text, [*spans, *new.find_in(text)]) if new.kinds else spans

    def hide_known(self, text: str) -> str:
        """The text without the values that were found so far, and their pieces; nothing is searched for."""
        return self.hide_spans(text, list(self._remembered.find_in(text)))

    def hide_spans(self, text: str, spans: list[SecretSpan]) -> str:
        """The text with a mark in place of each span that does not touch a mark."""
        return self._replace_spans(text, _settle_spans(text, spans))

    def _replace_spans(self, text: str, spans: list[SecretSpan]) -> str:
        parts, position = [], 0
        for start, end, kind in spans:
            parts += [text[position:start], f"[REDACTED:{kind}]"]
            self.counts[kind] = self.counts.get(kind, 0) + 1
            position = end
        return "".join([*parts, text[position:]])


class KnownSecrets:
    """Values that are secret wherever they occur, whole or in pieces."""

    def __init__(self) -> None:
        self.kinds: dict[str, str] = {}
        self._pieces: set[str] = set()
        """The characters at every place of every value, as many as a piece has."""

    def add(self, value: str, kind: str) -> bool:
        """Add a value; return whether it was new."""
        if value in self.kinds or len(self.kinds) >= _MAX_REMEMBERED:
            return False
        self.kinds[value] = kind
        self._pieces.update(value[n : n + _PIECE] for n in range(len(value) - _PIECE + 1))
        return True

    def find_in(self, text: str) -> Iterator[SecretSpan]:
        """Yield where the values occur, and words that are a piece of one."""
        for value, kind in self.kinds.items():
            position = text.find(value)
            while position >= 0:
                end = position + len(value)
                is_inside = text[position - 1 : position].isalnum() and value[0].isalnum()
                if not is_inside and not text[end : end + 1].isalnum():
                    yield SecretSpan(position, end, kind)
                position = text.find(value, end)
        if self._pieces:
            yield from self._find_pieces(text)

    def _find_pieces(self, text: str) -> Iterator[SecretSpan]:
        for found in compile_once(_WORD).finditer(text):
            word = found.group().rstrip(".:!?-")
            if word[:_PIECE] not in self._pieces or word in self.kinds:
                continue
            public = compile_once(_PUBLIC).match(word)
            private = word[public.end() :] if public else word
            whole = next((value for value in self.kinds if word in value), "")
            piece = private if whole.startswith(word) else word
            is_telling = shapes.is_memorable(piece) or shapes.is_random(piece)
            if whole and len(piece) >= _PIECE and is_telling:
                yield SecretSpan(found.start(), found.start() + len(word), self.kinds[whole])


_WORD = rf"[A-Za-z0-9_.+/~%!@#$^&*?-]{{{_PIECE},}}={{0,2}}"
_PUBLIC = r"[A-Za-z0-9]{1,12}(?:[-_.][a-z0-9]{1,8}){0,2}[-_.]"
"""What an issuer puts before a token, which is no secret."""


_UNUSUAL = r"[A-Za-z0-9_.+~%!@$^&*?-]{8,512}"
_MIXED = r"[A-Za-z].*\d|\d.*[A-Za-z]"
_ID = rf"{shapes.HASH}|{shapes.UUID}|\W*[0-9a-f]{{7,}}(?:\W|$)"


def find_unusual_words(text: str) -> Iterator[str]:
    """Yield the words of a text, each once, that would be secrets after a name: no hashes, ids and paths."""
    for word in dict.fromkeys(compile_once(_UNUSUAL).findall(text)):
        may_be = compile_once(_MIXED).search(word) and not compile_once(_ID).match(word)
        if may_be and shapes.is_bare_secret(word.rstrip(".,:;!?"), "password"):
            yield word


def redact(text: str) -> tuple[str, dict[str, int]]:
    """Return the text with its secrets replaced by marks, and the number of each kind."""
    redactor = Redactor()
    return redactor.redact(text), redactor.counts


def find(text: str) -> list[SecretSpan]:
    """Return the secrets in the text, for a caller that warns and changes nothing."""
    return Redactor().find_secrets(text)


def _settle_spans(text: str, spans: list[SecretSpan]) -> list[SecretSpan]:
    """Return spans in order, with overlapping ones joined under the kind of the first. Spans that touch a mark are dropped."""
    if spans and "[REDACTED:" in text:
        marks = [m.span() for m in MARK.finditer(text)]
        starts = [start for start, _ in marks]
        before = ((span, bisect_left(starts, span.end)) for span in spans)
        spans = [span for span, n in before if not n or marks[n - 1][1] <= span.start]
    settled: list[SecretSpan] = []
    for span in sorted(spans, key=lambda s: (s.start, -s.end)):
        if not settled or span.start >= settled[-1].end:
            settled.append(span)
        elif span.end > settled[-1].end:
            settled[-1] = SecretSpan(settled[-1].start, span.end, settled[-1].kind)
    return settled


_UNREAD = {
    "\x1b": r"\x1b(?:\][^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?|\[[0-?]*[ -/]*[@-~]?)",
    "\\u001b[": r"\\u001b\[[\d;]*[A-Za-z]",
    "**": r"\*\*(?<=\w\*\*)(?=\w)",
    '" +': r'" (?<=\w" )\+\s{0,80}"(?=\w)', "' + '": r"' (?<=\w' )\+ '(?=\w)",
}  # fmt: skip
"""What may stand within a word and is no part of it, and what to look for first: colours, also as
escapes of a string, bold print, a `+` between literals.
"""


class ReadText(NamedTuple):
    """A text without what is `_UNREAD`, and after which of its characters how much was left out in all."""

    text: str
    ends: list[int]
    shifts: list[int]

    def move_spans(self, spans: Iterable[SecretSpan]) -> list[SecretSpan]:
        """Return spans of this text as those of the whole text."""
        return [
            SecretSpan(self._find_place(start), self._find_place(end - 1) + 1, kind)
            for start, end, kind in spans
        ]

    def _find_place(self, position: int) -> int:
        number = bisect_right(self.ends, position)
        return position + (self.shifts[number - 1] if number else 0)


def _read_text(text: str) -> ReadText | None:
    """Return a text as a reader sees it, None if that is the text itself."""
    found = [
        place.span()
        for mark, pattern in _UNREAD.items()
        if mark in text
        for place in compile_once(pattern).finditer(text)
    ]
    parts, ends, shifts, position = [], list[int](), list[int](), 0
    for start, end in sorted(found):
        if start >= position:
            parts.append(text[position:start])
            ends.append(start - (shifts[-1] if shifts else 0))
            shifts.append(end - ends[-1])
            position = end
    return ReadText("".join([*parts, text[position:]]), ends, shifts) if found else None


@lru_cache(_MAX_LINES)
def _detect_in_line(text: str) -> tuple[SecretSpan, ...]:
    """What `_detect_secrets` yields for a short text: the pages of a fleet show the same ones again and again."""
    return tuple(_detect_secrets(text))


@lru_cache(4)
def _detect_in_text(text: str) -> tuple[SecretSpan, ...]:
    """What `_detect_secrets` yields for a long text, which is often searched twice in a row."""
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
