"""Whole records in a damaged line of JSON Lines: glued ones, one behind a cut one, among NULs."""

from typing import NamedTuple

import msgspec

from tasuki.patterns import compile_pattern

_PLACE = compile_pattern(r"\(byte (\d+)\)")
_SPACE = compile_pattern(rb"\s*")
_BEGINS = compile_pattern(rb'\{"(\$\w+|parentUuid|type|timestamp|id|sessionId|uuid)":')
SHORT_RECORD = 600
MOST_TRIES, TRIED_BYTES = 200, 64 << 20
"""Places of a line at which a record behind a cut one is looked for, and the bytes read for that."""


def may_be_damaged(line: bytes, start: int = 0) -> bool:
    """Tell whether a line that is not decoded may be cut, or hold another record behind `start`.

    Another one begins with the same key, or is a short one at the end.
    """
    if line[-1:] == b"\n" and line[-2:] != b"}\n":
        return True
    key = line[: line.find(b":", 0, 40) + 1]
    tail = max(start, len(line) - SHORT_RECORD)
    return line.find(key, start + 1) > 0 or line.find(b'}{"', tail) >= 0


class SplitLine(NamedTuple):
    """The whole records of a line, and what is left of one that is cut off."""

    records: list[bytes]
    is_lossy: bool = False
    rest: bytes = b""
    """The beginning of a record that may go on in the next line."""


def split_records(line: bytes) -> SplitLine:
    """Split a line whose bytes are valid text into its whole records.

    One value is decoded after the other; behind a cut one, the next that reaches the end of the line,
    or the beginning of another.
    """
    text = line.replace(b"\0", b"").strip(b"\r\n")
    records: list[bytes] = []
    position, is_lossy, rest = 0, False, b""
    while position < len(text):
        end, failed_at = _find_end(text, position)
        if end and text.startswith(b"{", position):
            records.append(text[position:end] + b"\n")
            position = _SPACE.match(text, end).end()  # type: ignore[union-attr]
            continue
        is_lossy = True
        behind = _find_next_record(text, position, failed_at)
        if not behind and failed_at < 0 and text[position : position + 1] == b"{":
            rest = text[position:]
        position = behind or len(text)
    return SplitLine(records, is_lossy, rest)


def _find_end(text: bytes, start: int) -> tuple[int, int]:
    """Find where the value that begins at `start` ends; 0 and the place of the fault for none.

    The place is -1 where the text ends too early.
    """
    try:
        msgspec.json.decode(memoryview(text)[start:])
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        place = _PLACE.search(str(error))
        at = start + int(place[1]) if place else -1
        return (at - 1, 0) if place and "trailing" in str(error) else (0, at)
    return len(text), 0


def _find_next_record(text: bytes, cut: int, failed_at: int) -> int:
    """Find where the next whole record begins behind one that is cut off; 0 for none."""
    near = text.rfind(b'{"', cut + 1, failed_at + 3) if failed_at > cut else -1
    if near >= failed_at - 3 and near > cut and _is_record(text, near, b""):
        return near
    tries = min(MOST_TRIES, TRIED_BYTES // len(text))
    for match, _ in zip(_BEGINS.finditer(text, cut + 1), range(tries), strict=False):
        mark = b"" if match[1].startswith(b"$") else b'"timestamp"'
        if _is_record(text, match.start(), mark):
            return match.start()
    return 0


def _is_record(text: bytes, start: int, mark: bytes) -> bool:
    """Return whether a whole record with a mark begins here, and another one or nothing follows it."""
    end, _ = _find_end(text, start)
    return bool(end) and text[end : end + 1] in (b"", b"{") and text.find(mark, start, end) >= 0
