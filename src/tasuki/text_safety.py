"""Make text from threads safe to show and to send on.

What moves the cursor, ends a paste or is invisible is removed; in what somebody is to approve it is
made visible instead.
"""

import re
import unicodedata
from itertools import groupby

from tasuki.patterns import compile_pattern

_LINE_END = compile_pattern(r"\r\n?")
_CONTROL = compile_pattern(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_SEQUENCE = compile_pattern(
    r"\x1b\][^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"  # OSC: a title, a link, the clipboard
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"  # CSI: colours, the cursor, the end of a paste
)
_UNSEEN = (
    "\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u2060-\u2065\u206a-\u206f\u3164\ufdd0-\ufdef\ufeff\uffa0"
    "\ufff0-\ufffb\ufffe\uffff\U00016fe4\U0001bca0-\U0001bca3\U0001d159\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
    "\u202a-\u202e\u2066-\u2069"  # what turns the order of what is seen
)
"""Characters that a person does not see and a model reads.

Tags can spell out whole orders (Unicode 16, section 23.9).
"""
_JOINS = "\u200c\u200d\ufe00-\ufe0f"  # which emoji, Persian and Indian scripts need, one at a time
_PRIVATE = "[\U000f0000-\U000ffffd\U00100000-\U0010fffd]"
_MARKS = "\u061c\u200e\u200f"
"""Marks of direction that keyboards of Hebrew, Arabic and Persian write, one at a time.

Several in a row can spell a text.
"""
_CANDIDATE = compile_pattern(f"[{_UNSEEN}{_JOINS}\u2800\u2028\u2029]|{_PRIVATE}|[{_MARKS}]{{2}}")
_NOT_ASCII = compile_pattern(r"[^\x00-\x7f]+")
_SEEN = rf"[^\x00-\x7f{_UNSEEN}{_JOINS}]"
_NEVER_SEEN = compile_pattern(f"[{_UNSEEN}]|[{_MARKS}]{{2,}}")
_HIDDEN = compile_pattern(f"[{_MARKS}]")
_SPELLED = compile_pattern(rf"{_PRIVATE}(?:\s*{_PRIVATE}){{2,}}|(?<=\w){_PRIVATE}+(?=\w)")
"""Private-use characters in a row or between letters, which can spell a text.

An icon of a font is alone.
"""
_STRAY_JOIN = compile_pattern(
    rf"(?<!{_SEEN})(?<!{_SEEN}\ufe0f)\u200d|(?<!{_SEEN})\u200c|[\u200c\u200d](?![^\x00-\x7f])"
    r"|(?<![0-9#*])"
    rf"(?<!{_SEEN})[\ufe00-\ufe0f]|(?<!{_SEEN})[\ufe00-\ufe0f](?!\u20e3)"
)


def clean_text(text: str) -> str:
    """Return the text without invisible characters and controls other than newline and tab.

    Line ends become newlines. A lone surrogate, which cannot be sent to a terminal, becomes
    U+FFFD.
    """
    if "\r" in text:
        text = _LINE_END.sub("\n", text)
    text = remove_invisible(_CONTROL.sub("", text))
    return text.encode("utf-8", "replace").decode() if _has_surrogate(text) else text


def remove_invisible(text: str) -> str:
    """Return the text without characters that are invisible or change the order of what is seen.

    Those that join emoji and letters are kept between such, private-use characters of planes 15
    and 16 where no more than two are together: icons. A blank of braille becomes a space, the
    separators of lines and paragraphs a newline.
    """
    if text.isascii() or not _CANDIDATE.search(" ".join(_NOT_ASCII.findall(text))):
        return text
    text = text.replace("\u2028", "\n").replace("\u2029", "\n")
    text = _NEVER_SEEN.sub("", text.replace("\u2800", " "))
    return _STRAY_JOIN.sub("", _SPELLED.sub("", text))


def clean_for_display(text: str) -> str:
    """Clean a text, and also remove escape sequences and marks of direction: only for display.

    Text that is sent on goes through `clean_text`, which keeps every visible character.
    """
    if text.isascii():
        if text.isprintable():
            return text
        return clean_text(_SEQUENCE.sub("", text) if "\x1b" in text else text)
    if "\x1b" in text or "\x9b" in text:
        text = _SEQUENCE.sub("", text)
    text = clean_text(text)
    return _HIDDEN.sub("", text) if any(mark in text for mark in _MARKS) else text


_UNPRINTED = compile_pattern(r"[^\n\x20-\x7e]+")
_OWN_SIGNS = "\u27e8\u27e9\u2423\u21e5\u23ce"
_BARE = compile_pattern(f"[{_UNSEEN}{_JOINS}{_MARKS}{_OWN_SIGNS}\u2800\ufffc\U00013441\U00013442]")
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


def cut_middle(text: str, first: int, last: int, *, most_lines: int = 0) -> str:
    """Return a text with its beginning and its end, and how much was left out between them.

    At most so many first and last characters, and so many lines of each where that is given.
    """
    if len(text) <= first + last and not 0 < 2 * most_lines <= text.count("\n"):
        return text
    beginning, end = text[:first], text[-last:]
    if most_lines:
        beginning = "\n".join(beginning.split("\n")[:most_lines])
        end = "\n".join(end.split("\n")[-most_lines:])
    return f"{beginning}\n⟨{len(text) - len(beginning) - len(end):,} characters more⟩\n{end}"


def shorten_to_line(text: str, width: int) -> str:
    """Return the first words of a text on one line of at most `width` characters, for a list."""
    words = " ".join(clean_for_display(text[: width * 8]).split())
    return words if len(words) <= width else words[: width - 1].rstrip() + "…"


def _has_surrogate(text: str) -> bool:
    if text.isascii():
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def format_size(number: int) -> str:
    """Format bytes with their unit."""
    return f"{number:,} bytes" if number < 10_000 else f"{number / 1000:,.0f} kB"
