"""Text from threads made safe for a terminal: what would move the cursor or end a paste goes."""

import re

_LINE_END = re.compile(r"\r\n?")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_SEQUENCE = re.compile(
    r"\x1b\][^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"  # OSC: a title, a link, the clipboard
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"  # CSI: colours, the cursor, the end of a paste
)
_HIDDEN = re.compile(r"[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]")


def plain(text: str) -> str:
    """The text without control characters other than newline and tab; line ends become newlines.

    A lone surrogate, which no terminal can be sent, becomes U+FFFD.
    """
    text = _CONTROL.sub("", _LINE_END.sub("\n", text))
    return text.encode("utf-8", "replace").decode() if _has_surrogate(text) else text


def shown(text: str) -> str:
    """`plain`, and without whole escape sequences and direction marks: for looking at alone.

    Text that is sent on goes through `plain`, which keeps every visible character.
    """
    return _HIDDEN.sub("", plain(_SEQUENCE.sub("", text)))


def one_line(text: str, width: int) -> str:
    """The first words of a text on one line of at most `width` characters, for a list."""
    words = " ".join(shown(text[: width * 8]).split())
    return words if len(words) <= width else words[: width - 1].rstrip() + "…"


def _has_surrogate(text: str) -> bool:
    return any("\ud800" <= character <= "\udfff" for character in text) if text else False
