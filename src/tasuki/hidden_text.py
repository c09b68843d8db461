"""Make visible what a person would not see in a text that is to be approved, or would misread."""

import re
import unicodedata
from itertools import groupby

from tasuki.patterns import compile_pattern
from tasuki.text_safety import JOINS, MARKS, UNSEEN

_UNPRINTED = compile_pattern(r"[^\n\x20-\x7e]+")
_OWN_SIGNS = "\u27e8\u27e9\u2423\u21e5\u23ce"
_BARE = compile_pattern(f"[{UNSEEN}{JOINS}{MARKS}{_OWN_SIGNS}\u2800\ufffc\U00013441\U00013442]")
_LOOKALIKES = frozenset(
    "\u2018\u2019\u201a\u201b\u2032\u02b9\u02bc\u02c8\u02cb\u201c\u201d\u201e\u201f\u2033"  # quotes
    "\u2044\u2215\u29f8\u2236\ua789\u2223\u01c0\u01c3\u2010\u2011\u2212"  # slash, colon, pipe, minus
)
_TWINS = ("GREEK", "CYRILLIC", "ARMENIAN", "CHEROKEE", "COPTIC", "LISU")
"""Scripts some of whose letters look like those of ASCII."""
_BLANKS = compile_pattern(r"\A +| +(?=\n|\Z)| {16,}")
_EMPTY_LINES = compile_pattern(r"\A\n+|(?<=\n)\n+\Z|(?<=\n)\n{2,}")


def show_hidden(text: str, *, is_command: bool = False) -> str:
    """Return a text with a sign for all that a person would not see in it.

    `⟨U+200B⟩` is a character without a shape of its own, `⟨14,000 blanks⟩` and `⟨69 empty lines⟩` are
    runs, `␣` is a blank at the end of a line, `⇥` a tab. A character that is such a sign is shown by
    its number, so that it is never taken for ours. In a command so is what looks like ASCII.
    """

    def name_characters(found: "re.Match[str]") -> str:
        sides = text[found.start() - 1 : found.start()], text[found.end() : found.end() + 1]
        has_twins = is_command and any(map(str.isalnum, sides))
        return _name_characters(found[0], is_command, has_twins)

    shown = _UNPRINTED.sub(name_characters, text)
    shown = _BLANKS.sub(lambda found: _name_run("␣", "blanks", len(found[0])), shown)
    return _EMPTY_LINES.sub(lambda found: _name_run("", "empty lines", len(found[0])) + "\n", shown)


def is_hidden(character: str) -> bool:
    """Whether a character has no shape of its own, or is one of our signs."""
    kind = unicodedata.category(character)
    odd = kind[0] == "C" or kind in ("Zl", "Zp", "Me") or (kind == "Zs" and character != " ")
    return odd or bool(_BARE.match(character))


def _is_lookalike(character: str) -> bool:
    """Whether a character looks like ASCII, and is none."""
    return character in _LOOKALIKES or unicodedata.normalize("NFKC", character).isascii()


def _name_characters(run: str, is_command: bool, has_twins: bool) -> str:
    """Name the hidden ones among characters that are none of ASCII's."""
    parts = []
    marks = 2  # on one letter there are so many at most; on one of ASCII's, none
    for character, same in groupby(run):
        count = len(list(same))
        marks = marks + count if unicodedata.category(character) in ("Mn", "Mc") else 0
        is_twin = has_twins and unicodedata.name(character, "").startswith(_TWINS)
        if character == "\t":
            parts.append(_name_run("⇥", "tabs", count))
        elif (
            is_hidden(character)
            or marks > 2
            or is_twin
            or (is_command and _is_lookalike(character))
        ):
            number = f"U+{ord(character):04X}"
            parts.append(_name_run(f"⟨{number}⟩", number, count))
        else:
            parts.append(character * count)
    return "".join(parts)


def _name_run(sign: str, name: str, count: int) -> str:
    """Name a run of one character: by its sign where there are few, else by their number."""
    if sign and count < 4:
        return sign * count
    return f"⟨{count:,} {name if count > 1 else name.removesuffix('s')}⟩"
