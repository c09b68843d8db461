"""Make text from threads safe to show and to send on, and lines that fit a terminal.

What moves the cursor, ends a paste or is invisible is removed. What somebody is to approve goes
through `tasuki.hidden_text` instead.
"""

from collections.abc import Sequence
from functools import cache
from itertools import accumulate

from tasuki.patterns import compile_pattern

_LINE_END = compile_pattern(r"\r\n?")
_CONTROL = compile_pattern(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_COMMAND = compile_pattern(r"\x1b\][^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?")
"""OSC: a title, a link, the clipboard, with words in it."""
_SEQUENCE = compile_pattern(r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?")
"""CSI: colours, the cursor, the end of a paste."""
UNSEEN = (
    "\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u2060-\u2065\u206a-\u206f\u3164\ufdd0-\ufdef\ufeff\uffa0"
    "\ufff0-\ufffb\ufffe\uffff\U00016fe4\U0001bca0-\U0001bca3\U0001d159\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
    "\u202a-\u202e\u2066-\u2069"  # what turns the order of what is seen
)
"""Characters that a person does not see and a model reads.

Tags can spell out whole orders (Unicode 16, section 23.9).
"""
JOINS = "\u200c\u200d\ufe00-\ufe0f"  # which emoji, Persian and Indian scripts need, one at a time
_PRIVATE = "[\U000f0000-\U000ffffd\U00100000-\U0010fffd]"
MARKS = "\u061c\u200e\u200f"
"""Marks of direction that keyboards of Hebrew, Arabic and Persian write, one at a time.

Several in a row can spell a text.
"""
_CANDIDATE = compile_pattern(f"[{UNSEEN}{JOINS}\u2800\u2028\u2029]|{_PRIVATE}|[{MARKS}]{{2}}")
_NOT_ASCII = compile_pattern(r"[^\x00-\x7f]+")
_SEEN = rf"[^\x00-\x7f{UNSEEN}{JOINS}]"
_NEVER_SEEN = compile_pattern(f"[{UNSEEN}]|[{MARKS}]{{2,}}")
_HIDDEN = compile_pattern(f"[{MARKS}]")
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
    """Return the text without colours, invisible characters, and controls other than newline and tab.

    Line ends become newlines. A lone surrogate, which cannot be sent to a terminal, becomes
    a question mark.
    """
    if text.isascii() and text.isprintable():
        return text
    if "\x1b" in text or "\x9b" in text:
        text = _SEQUENCE.sub("", text)
    if "\r" in text:
        text = _LINE_END.sub("\n", text)
    text = remove_invisible(_CONTROL.sub("", text))
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


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
    """Clean a text, and also remove a terminal's commands and marks of direction: only for display.

    Text that is sent on goes through `clean_text`, which keeps every visible character.
    """
    text = clean_text(_COMMAND.sub("", text) if "\x1b" in text else text)
    if text.isascii():
        return text
    return _HIDDEN.sub("", text) if any(mark in text for mark in MARKS) else text


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


def shorten_to_line(text: str, width: int = 200) -> str:
    """Return the first words of a text on one line of at most `width` characters, for a list."""
    words = " ".join(clean_for_display(text[: width * 8]).split())
    return words if len(words) <= width else words[: width - 1].rstrip() + "…"


_WORD_ENDS = "\n \t\"'`,;()[]{}<>"
_LONGEST_WORD = 4_096


def cut_ends(text: str, head: int, tail: int) -> tuple[str, str]:
    """Return the beginning and the end of a text, of at most so many characters, cut between words.

    Half a secret could not be recognised. A word of thousands of characters is cut.
    """
    before, after = head, max(len(text) - tail, head)
    limit = max(0, head - min(_LONGEST_WORD, head // 2))
    if text[before - 1 : before] not in _WORD_ENDS and text[before] not in _WORD_ENDS:
        found = max(text.rfind(mark, limit, before) for mark in _WORD_ENDS)
        before = found + 1 if found >= 0 else before
    limit = after + min(_LONGEST_WORD, tail // 2)
    if text[after - 1] not in _WORD_ENDS and text[after : after + 1] not in _WORD_ENDS:
        places = (text.find(mark, after, limit) for mark in _WORD_ENDS)
        after = min((place for place in places if place >= 0), default=after)
    return text[:before], text[after:]


def cut_text(text: str, most: int) -> str:
    """Return the beginning of a text, of at most so many characters, cut between words."""
    return text if len(text) <= most else cut_ends(text, most, 0)[0]


_BEYOND_ASCII = compile_pattern(r"[^\x00-\x7f]")


def count_columns(text: str) -> int:
    """Return how many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    return len(text) + sum(map(_count_more, _BEYOND_ASCII.findall(text)))


@cache
def _count_more(letter: str) -> int:
    """Return how many columns more than one a character outside of ASCII takes."""
    from unicodedata import combining, east_asian_width

    if combining(letter) or letter in "\u200d\ufe0f":
        return -1
    return int(east_asian_width(letter) in "WF")


def format_size(number: int) -> str:
    """Format bytes with their unit."""
    return f"{number:,} bytes" if number < 10_000 else f"{number / 1000:,.0f} kB"


def format_plural(number: int, word: str, several: str = "") -> str:
    """Format a number and its thing: `1 fork`, `3 forks`, `2 entries`."""
    return f"{number:,} {word if number == 1 else several or word + 's'}"


# -- lines of lists ------------------------------------------------------------------

_PIECE = compile_pattern(r"\s+|[⺀-鿿가-힯豈-﫿！-｠]|[^\s⺀-鿿가-힯豈-﫿！-｠]+")
"""Blanks, a character that a line may end after, or a word."""
LEAST_ROOM = 24
"""Columns that the words of a row need beside its cells; with fewer they are below."""
INDENT = "    "


def cut_line(text: str, width: int) -> str:
    """Cut a line at a width, between words where one ends in its second half."""
    text = text.rstrip()
    if count_columns(text) <= width:
        return text
    end = max(width - 1, 0)
    if not text.isascii():
        end = sum(columns < width for columns in accumulate(map(count_columns, text)))
    ends = (piece.end() for piece in _PIECE.finditer(text, 0, end + 1) if piece.end() <= end)
    words = text[: max(ends, default=0)].rstrip()
    kept = words if 2 * count_columns(words) >= width else text[:end].rstrip()
    return f"{kept}…"


def wrap_text(text: str, width: int, first: str = "", rest: str = "") -> list[str]:
    """Wrap a text into lines; words stay whole, and so does a command of tasuki at the end."""
    lines, line, is_begun = list[str](), first, False
    words, colon, command = text.strip().rpartition(": tasuki ")
    if colon and count_columns(rest) + len("tasuki ") + count_columns(command) <= width:
        pieces = [*_PIECE.findall(f"{words}:"), " ", f"tasuki {command}"]
    else:
        pieces = _PIECE.findall(text.strip())
    for piece in pieces:
        is_full = count_columns(line) + count_columns(piece) > width
        if is_begun and is_full and not piece.isspace():
            lines.append(line.rstrip())
            line, is_begun = rest, False
        if is_begun or not piece.isspace():
            line, is_begun = line + (" " if "\n" in piece else piece), True
    return [*lines, line.rstrip()] if is_begun else lines


def pad(cell: str, width: int, *, right: bool = False) -> str:
    """Pad a cell to a width in columns."""
    blanks = " " * (width - count_columns(cell))
    return blanks + cell if right else cell + blanks


def format_row(
    cells: Sequence[str], words: str, width: int, rest: str = "", *, is_below: bool = False
) -> str:
    """Format a row of a list: cells, and words that are cut at the edge of the terminal.

    Where there is too little room for the words, or with `is_below`, they are on a line of their
    own, and so are cells that do not fit. `rest` is what each further line begins with.
    """
    head = "  ".join(cells)
    room = width - count_columns(head) - 2
    if words and not is_below and room >= min(LEAST_ROOM, count_columns(words)):
        return f"{head}  {cut_line(words, room)}"
    head = head.rstrip()
    lines = [head]
    if count_columns(head) > width:
        first = head[: len(head) - len(head.lstrip())]
        compact = "  ".join(" ".join(cell.split()) for cell in cells if cell.strip())
        lines = wrap_text(compact, width, first, rest + INDENT)
    below = rest + INDENT
    if words:
        lines.append(below + cut_line(words, width - count_columns(below)))
    return "\n".join(lines)


def count_same(one: str, other: str) -> int:
    """Count with how many characters two texts begin in the same way."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (x, y) in pairs if x != y), min(len(one), len(other)))
