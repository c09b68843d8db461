"""Whether characters stand in a text, whole: what is claimed to the letter, and how it is looked for."""

import re
from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec import Struct

from tasuki.draft.redact import MARK
from tasuki.draft.text import one_line
from tasuki.plain import shown

ClaimKind = Literal["path", "command", "quote", "value"]
WINDOW = 400
"""Characters between two parts of what is given with a part left out."""
OF_A_QUOTE = 4_000
"""The same in words of somebody."""
ATTEMPTS = 500
"""Places at which the first part of it is tried."""
_NUMBER = re.compile(r"\d[\d.,]*")
_HASH = re.compile(r"(?=[a-f]*\d)[0-9a-f]{7,40}")
_LEFT_OUT = re.compile(rf"{MARK.pattern}|…|\[\.\.\.\]|(?<![\w./])\.\.\.(?![\w./])|(?<=\w/)\.\.\.$")
_LEAST = 5
"""Letters and digits that must be left of what is given with a part left out."""

_HIDDEN = re.compile("[\u00ad\u200b-\u200f\u2060-\u2064\u202a-\u202e\u2066-\u2069\ufeff]")


class Claim(Struct, frozen=True):
    """Characters that a sentence says stand in the thread."""

    kind: ClaimKind
    text: str


def visible(text: str) -> str:
    """A text on one line without what nobody sees: escape sequences, zero-width and direction marks."""
    return one_line(_HIDDEN.sub("", shown(text)))


def stands_in(claim: str, text: str) -> bool:
    """Whether a text holds a claim, white space aside, and not merely as a part of a longer name."""
    return stands(claim, one_line(text))


def stands(claim: str, folded: str, window: int = WINDOW) -> bool:
    """The same for a text whose lines are folded; those of several entries are apart by newlines.

    `window` are the characters that may be left out where a claim says that something is.
    """
    wanted = one_line(claim)
    if _NUMBER.fullmatch(wanted):
        return any(_has_number(form, folded) for form in {wanted, wanted.replace(",", "")})
    if any(True for _ in _whole(wanted, folded)):
        return True
    if wanted.endswith("()"):
        return any(True for _ in _whole(wanted[:-2], folded))
    if _LEFT_OUT.search(wanted):
        return _in_order(wanted, folded, window)
    return "*" in wanted and " " not in wanted and _matches(wanted, folded)


def _whole(wanted: str, hay: str, *, open_end: bool = False) -> Iterator[int]:
    """Where a text stands and is no part of a longer name; a hash may be the beginning of one."""
    open_end = open_end or bool(_HASH.fullmatch(wanted))
    at = hay.find(wanted) if wanted else -1
    while at >= 0:
        end = at + len(wanted)
        inside_left = at > 0 and _is_word(wanted[0]) and _is_word(hay[at - 1])
        inside_right = _is_word(wanted[-1]) and _is_word(hay[end : end + 1])
        if not inside_left and (open_end or not inside_right):
            yield at
        at = hay.find(wanted, at + 1)


def _has_number(wanted: str, hay: str) -> bool:
    """Whether a number stands in a text, perhaps behind a `v` or before a unit."""
    at = hay.find(wanted)
    while at >= 0:
        end = at + len(wanted)
        left, right = hay[max(0, at - 2) : at], hay[end : end + 2]
        inside = left[-1:].isalpha() and right[:1].isalpha()
        goes_on = _goes_on(right) if wanted.isdigit() else right[:1].isdigit()
        if not (inside or goes_on or _goes_on(left[::-1])):
            return True
        at = hay.find(wanted, at + 1)
    return False


def _goes_on(beside: str) -> bool:
    """Whether a number goes on in the two characters beside it, the nearer one first."""
    return beside[:1].isdigit() or (beside[:1] in (".", ",") and beside[1:].isdigit())


def _in_order(wanted: str, hay: str, window: int) -> bool:
    """Whether the parts of a text that says where it leaves something out stand one after the other."""
    parts = [part.strip() for part in _LEFT_OUT.split(wanted)]
    open_end = not parts[-1]
    parts = [part for part in parts if part]
    if sum(map(str.isalnum, "".join(parts))) < _LEAST:
        return False
    for n, at in enumerate(_whole(parts[0], hay, open_end=len(parts) == 1 and open_end)):
        if n >= ATTEMPTS:
            return False
        if _follow(parts[1:], hay, at + len(parts[0]), window):
            return True
    return False


def _follow(parts: Sequence[str], hay: str, at: int, window: int) -> bool:
    for part in parts:
        found = hay.find(part, at, at + window + len(part))
        if found < 0 or "\n" in hay[at:found]:
            return False
        at = found + len(part)
    return True


def _matches(wanted: str, hay: str) -> bool:
    """Whether a name in which a `*` stands for anything occurs: `tests/test_*.py`."""
    if sum(map(str.isalnum, wanted)) < _LEAST:
        return False
    shape = r"[^\s/]{0,80}".join(re.escape(part) for part in re.split(r"\*+", wanted))
    return bool(re.search(rf"(?<!\w){shape}(?!\w)", hay))


def _is_word(character: str) -> bool:
    return character.isascii() and (character.isalnum() or character == "_")
