"""Text from threads made safe to look at and to send on: what moves the cursor, ends a paste or cannot be seen goes."""

import re

_LINE_END = re.compile(r"\r\n?")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_SEQUENCE = re.compile(
    r"\x1b\][^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"  # OSC: a title, a link, the clipboard
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"  # CSI: colours, the cursor, the end of a paste
)
_UNSEEN = (
    "\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u2060-\u2065\u206a-\u206f\u3164\ufdd0-\ufdef\ufeff\uffa0"
    "\ufff0-\ufffb\ufffe\uffff\U00016fe4\U0001bca0-\U0001bca3\U0001d159\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
    "\u202a-\u202e\u2066-\u2069"  # what turns the order of what is seen
)
"""Characters that no reader sees and a model reads: tags spell out whole orders (Unicode 16, section 23.9)."""
_JOINS = "\u200c\u200d\ufe00-\ufe0f"  # which emoji, Persian and Indian scripts need, one at a time
_PRIVATE = "[\U000f0000-\U000ffffd\U00100000-\U0010fffd]"
_MARKS = "\u061c\u200e\u200f"
"""Marks of direction that keyboards of Hebrew, Arabic and Persian write, one at a time; a row of them spells."""
_CANDIDATE = re.compile(f"[{_UNSEEN}{_JOINS}\u2800\u2028\u2029]|{_PRIVATE}|[{_MARKS}]{{2}}")
_SEEN = rf"[^\x00-\x7f{_UNSEEN}{_JOINS}]"
_NEVER_SEEN = re.compile(f"[{_UNSEEN}]|[{_MARKS}]{{2,}}")
_HIDDEN = re.compile(f"[{_MARKS}]")
_SPELLED = re.compile(rf"{_PRIVATE}(?:\s*{_PRIVATE}){{2,}}|(?<=\w){_PRIVATE}+(?=\w)")
"""Private-use characters in a row or between letters, which spell; an icon of a font stands alone."""
_STRAY_JOIN = re.compile(
    rf"(?<!{_SEEN})(?<!{_SEEN}\ufe0f)\u200d|(?<!{_SEEN})\u200c|[\u200c\u200d](?![^\x00-\x7f])"
    r"|(?<![0-9#*])"
    rf"(?<!{_SEEN})[\ufe00-\ufe0f]|(?<!{_SEEN})[\ufe00-\ufe0f](?!\u20e3)"
)


def plain(text: str) -> str:
    """The text without invisible characters and controls other than newline and tab; line ends become newlines.

    A lone surrogate, which no terminal can be sent, becomes U+FFFD.
    """
    text = visible(_CONTROL.sub("", _LINE_END.sub("\n", text)))
    return text.encode("utf-8", "replace").decode() if _has_surrogate(text) else text


def visible(text: str) -> str:
    """The text without characters that cannot be seen or that turn the order of what is seen.

    Those that join emoji and letters stay between such, private-use characters of planes 15 and 16
    where no more than two stand together: icons. A blank of braille becomes a space, the separators
    of lines and paragraphs a newline.
    """
    if text.isascii() or not _CANDIDATE.search(text):
        return text
    text = text.replace("\u2028", "\n").replace("\u2029", "\n")
    text = _NEVER_SEEN.sub("", text.replace("\u2800", " "))
    return _STRAY_JOIN.sub("", _SPELLED.sub("", text))


def shown(text: str) -> str:
    """`plain`, and without whole escape sequences and marks of direction: for looking at alone.

    Text that is sent on goes through `plain`, which keeps every visible character.
    """
    return _HIDDEN.sub("", plain(_SEQUENCE.sub("", text)))


def one_line(text: str, width: int) -> str:
    """The first words of a text on one line of at most `width` characters, for a list."""
    words = " ".join(shown(text[: width * 8]).split())
    return words if len(words) <= width else words[: width - 1].rstrip() + "…"


def _has_surrogate(text: str) -> bool:
    return any("\ud800" <= character <= "\udfff" for character in text) if text else False
