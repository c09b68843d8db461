"""Reads the dialogs of programs from their screens, and compares them with what a hook reported.

Dialogs of Claude Code, Codex and Gemini CLI end in numbered choices, one of them marked: a question,
then `❯ 1. Yes`, then `2. No`. A screen wraps and indents what it shows, and may cut it off.
"""

import re
import textwrap
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from msgspec import Struct
from msgspec.structs import replace

from tasuki.harness.questions import FIELD_END, DialogSubject, ScreenChoice, ScreenQuestion
from tasuki.patterns import compile_pattern
from tasuki.text_safety import count_same

MOST_BELOW = 5
"""Lines below the choices of a dialog: hints, an edge."""
MOST_CHOICES = 20

_CHOICE = compile_pattern(
    r"[│┃ \t\xa0]*(?P<mark>[❯›●>]?)\s*(?P<number>[1-9][0-9]?)\.\s+(?P<label>\S.*)"
)
_MARKED = compile_pattern(r" *❯ \S")
_CONFIRM = compile_pattern(r"\s*Enter to (?:confirm|select|continue)\b")
_BOX = compile_pattern(r"\[(?P<tick>[ x✓✔])\] (?P<label>.+)")
"""A choice of which several can be taken."""
_TEXT_CHOICE = compile_pattern(
    r"Type something|Type here|Tell Claude what to change|Enter a custom value"
)
"""A choice that opens a field for words of one's own."""
_RULE = compile_pattern(r"[─━╌┄▔▁═╭╮╰╯┌┐└┘\s]+")
_EDGES = "│┃ \t\xa0"
_NOT_LETTERS = compile_pattern(r"[\W_]+")
_LABEL_SPACE = compile_pattern(r"[\s\u2014\u2500-\u259f]+")
"""White space, lines and blocks of a box, and the dash between a label and its description."""
_GUTTER = compile_pattern(r" *│ ?")
"""What Claude Code puts before each row of a text that has several."""
_FIELD = compile_pattern(r"(?:\"(?P<odd>.+?)\"|(?P<key>[\w$-]+)): (?P<value>\".*\")")
_GEMINI_EDIT = compile_pattern(r"\? (?:WriteFile  Writing to |Edit  )")
_BLANKS = compile_pattern(r"[ \t]+")
_NUMBER = compile_pattern(r" *\d+ ")
"""The number of a line in a change of a file."""
_CUT = compile_pattern(
    r"[↑↓] [\d,]+ more lines?\b|\[… [\d,]+ lines?\]|^\W*(?:\.\.\.|…) .*\b[\d,]+ (?:more )?lines?\b|\b[\d,]+ lines? hidden\b"
)
"""What a program writes where a dialog has no room for all of it."""
_NOT_SHOWN = compile_pattern(
    r"(?:value(?: of [\d,]+ (?:formatted )?characters)?|parameter names?|contents|edit|content) cannot be shown in full"
    r"|cannot be (?:fully )?reviewed|is too large to (?:show|preview)|too much to show|was not previewed|could not be checked"
    r"|doesn't show all of what this edit changes|places not shown"
)
"""What Claude Code writes where it does not show what it asks about. An agent can write it, too, and no more than it."""


class DialogRows(Struct, frozen=True):
    """Where in the rows of a dialog its subject stands, and that subject without its frame."""

    start: int = 0
    end: int = 0
    subject: tuple[str, ...] = ()


# -- reading ---------------------------------------------------------------------------


def read_dialog(
    screen: str,
    top: re.Pattern[str],
    find_subject: Callable[[Sequence[str]], DialogRows],
    next_keys: tuple[str, ...] = (),
) -> ScreenQuestion | None:
    """Read the dialog with numbered choices at the end of a screen; None where there is none.

    `top` matches the line above a dialog. `find_subject` finds in the lines of one those of what it
    is about. A digit takes a choice. Where several can be taken, a digit ticks its box and
    `next_keys` go on; without these no choice is offered.
    """
    lines = screen.rstrip().splitlines()
    found = _find_choices(lines)
    if found is None:
        return None
    first, labels, marked = found
    start = next((n for n in range(first - 1, -1, -1) if top.match(lines[n])), None)
    above = lines[0 if start is None else start + 1 : first]
    rows = find_subject(above)
    around = (*above[: rows.start], *above[rows.end :])
    text, detail = _split_body(around)
    question = ScreenQuestion(
        text, detail, subject=rows.subject, above=around, below=tuple(lines[first:]),
        is_whole=start is not None,
    )  # fmt: skip
    if any(_BOX.match(label) for label in labels):
        boxes = _read_boxes(labels, marked) if next_keys else ()
        return replace(question, choices=boxes, next_keys=next_keys if boxes else ())
    choices, text_keys = _sort_choices(labels)
    return replace(question, choices=choices, text_keys=text_keys)


def read_menu(screen: str, top: re.Pattern[str]) -> ScreenQuestion | None:
    """Read the dialog at the end of a screen whose choices have no numbers; None where there is none.

    Arrows move the mark from one choice to the next, Enter takes it; a line below says so.
    """
    lines = screen.rstrip().splitlines()
    marked = next((n for n in range(len(lines) - 1, -1, -1) if _MARKED.match(lines[n])), None)
    if marked is None or len(lines) - marked > MOST_CHOICES:
        return None
    place = lines[marked].index("❯")
    is_choice = compile_pattern(rf" {{{place}}}[ ❯] \S.*").fullmatch
    first = last = marked
    while first and is_choice(lines[first - 1]):
        first -= 1
    while last + 1 < len(lines) and is_choice(lines[last + 1]):
        last += 1
    start = next((n for n in range(first - 1, -1, -1) if top.match(lines[n])), None)
    below = " ".join(lines[last + 1 :])
    if first == last or start is None or not _CONFIRM.match(below):
        return None
    above = tuple(lines[start + 1 : first])
    text, detail = _split_body(above)
    choices = tuple(
        ScreenChoice(str(n - first + 1), lines[n][place + 2 :].strip(), _move_mark(n - marked))
        for n in range(first, last + 1)
    )
    return ScreenQuestion(text, detail, choices, above=above, below=tuple(lines[first:]))


def _move_mark(rows: int) -> tuple[str, ...]:
    """Return the keys that take the choice so many rows below the marked one."""
    return (*("Down" if rows > 0 else "Up",) * abs(rows), "Enter")


def begin_at_title(
    seen: ScreenQuestion | None, title: re.Pattern[str], first: re.Pattern[str]
) -> ScreenQuestion | None:
    """Return a program's own dialog, by its title and its first choice, from that title on.

    All of it is on the screen then, and nothing of an agent's is in it; arrows and Enter take a
    choice. Others are returned as they are.
    """
    if seen is None or not seen.choices or not first.match(seen.choices[0].label):
        return seen
    start = next((n for n, row in enumerate(seen.above) if title.match(row.strip(_EDGES))), None)
    if start is None:
        return seen
    above = seen.above[start:]
    text, detail = _split_body(above)
    marks = [match["mark"] for row in seen.below if (match := _CHOICE.fullmatch(row))]
    marked = next((n for n, mark in enumerate(marks) if mark), 0)
    choices = tuple(
        replace(choice, keys=_move_mark(n - marked)) for n, choice in enumerate(seen.choices)
    )
    return replace(seen, choices=choices, text=text, detail=detail, above=above,
                   is_whole=True, is_faithful=True)  # fmt: skip


def _find_choices(lines: Sequence[str]) -> tuple[int, list[str], int] | None:
    """Find the last numbered choices: the line of the first one, the labels, which is marked.

    Their numbers stand in one column, in which no row of a label does.
    """
    matches = {n: match for n, line in enumerate(lines) if (match := _CHOICE.fullmatch(line))}
    if not matches:
        return None
    last = max(matches)
    wanted, column = int(matches[last]["number"]), matches[last].start("number")
    if not 2 <= wanted <= MOST_CHOICES:
        return None
    places: list[int] = []
    for number in range(last, -1, -1):
        match = matches.get(number)
        if match and int(match["number"]) == wanted and match.start("number") == column:
            places.insert(0, number)
            wanted -= 1
            if not wanted:
                break
    marked = [number for number, place in enumerate(places) if matches[place]["mark"]]
    if wanted or len(marked) != 1:
        return None
    labels = [
        _join_label(matches[place], lines[place + 1 : end])
        for place, end in zip(places, [*places[1:], len(lines)], strict=True)
    ]
    below = [line for line in lines[last + 1 :] if not _RULE.fullmatch(line.strip(_EDGES) or " ")]
    return (places[0], labels, marked[0]) if len(below) <= MOST_BELOW else None


def _join_label(match: re.Match[str], below: Sequence[str]) -> str:
    """Join a label with the rows below that continue it: they begin where it does, or further right."""
    words = [match["label"].rstrip(_EDGES)]
    for line in below:
        row = line.strip(_EDGES)
        if not row or _RULE.fullmatch(row) or line.index(row) < match.start("label"):
            break
        words.append(row)
    return " ".join(" ".join(words).split())


def _sort_choices(
    labels: Sequence[str],
) -> tuple[tuple[ScreenChoice, ...], tuple[str, ...] | None]:
    """Sort the choices: those that are taken by a key, and the keys of the one that takes words."""
    keyed = [ScreenChoice(str(n), label, (str(n),)) for n, label in enumerate(labels[:9], 1)]
    worded = [choice for choice in keyed if _TEXT_CHOICE.match(choice.label)]
    choices = tuple(choice for choice in keyed if choice not in worded)
    return choices, worded[-1].keys if worded else None


def _read_boxes(labels: Sequence[str], marked: int) -> tuple[ScreenChoice, ...]:
    """Read the choices with boxes; none where digits would be typed into a field of its own."""
    found = {number: _BOX.match(label) for number, label in enumerate(labels, 1)}
    boxes = {n: box for n, box in found.items() if box and not _TEXT_CHOICE.match(box["label"])}
    if marked + 1 not in boxes or max(boxes) > 9:
        return ()
    return tuple(
        ScreenChoice(str(number), box["label"], (str(number),), box["tick"] != " ")
        for number, box in boxes.items()
    )


def _split_body(lines: Sequence[str]) -> tuple[str, str]:
    """Split what stands above the choices: the sentence that asks, and the rest as it is drawn."""
    body = [
        "" if _RULE.fullmatch(line) else line.rstrip(_EDGES).removeprefix("│") for line in lines
    ]
    asking = [n for n, line in enumerate(body) if line.endswith("?")]
    asking = asking or [n for n, line in enumerate(body) if "? " in line]
    filled = [n for n, line in enumerate(body) if line]
    if not filled:
        return "", ""
    place = asking[-1] if asking else filled[-1]
    rest = "\n".join(line for n, line in enumerate(body) if n != place)
    return body[place].strip(_EDGES), textwrap.dedent(rest).strip("\n")


def join_subject(rows: Sequence[str]) -> str:
    """Join the rows of a subject as they are drawn, without what is before each of them."""
    return textwrap.dedent("\n".join(_strip_gutter(rows)))


# -- comparing -------------------------------------------------------------------------


def is_subject(subject: DialogSubject, seen: ScreenQuestion) -> bool:
    """Whether a dialog is about exactly this: all of it, and nothing else.

    White space counts only within the rows of a command: a screen breaks them anywhere.
    """
    above = [
        row for row in (row.strip(_EDGES) for row in seen.above) if not _RULE.fullmatch(row or " ")
    ]
    if subject.headings and not (above and above[0].startswith(subject.headings)):
        return False
    if subject.kind == "command":
        return _is_command(subject, _strip_gutter(seen.subject))
    if subject.kind == "fields":
        is_tool = _list_letters(subject.place).lower() in _list_letters("".join(above)).lower()
        is_same = _strip_space(_join_fields(seen.subject)) == _strip_space(subject.text)
        return bool(subject.text or subject.place) and is_tool and is_same
    if subject.kind == "change":
        return _is_place(subject.place, above) and _is_change(subject, seen.subject)
    if subject.kind == "plan":
        return _list_letters("".join(seen.subject)) == _list_letters(subject.text)
    offered = {strip_label(choice.label) for choice in seen.choices}
    is_asked = _strip_space("".join(above[1:])) == _strip_space(subject.text)
    return is_asked and not seen.subject and offered.issuperset(map(strip_label, subject.labels))


def find_cut(rows: Iterable[str]) -> str:
    """Return what a program writes where a dialog has no room for all of it; empty for nothing."""
    return next((row.strip(_EDGES) for row in rows if _CUT.search(row)), "")


def find_excuse(rows: Iterable[str]) -> str:
    """Return the words by which a program does not show what it asks about; empty for none."""
    return next((found[0] for row in rows if (found := _NOT_SHOWN.search(row))), "")


def strip_label(label: str) -> str:
    """Return a label by which it is compared: a screen runs it into its description."""
    return _LABEL_SPACE.sub("", label)


def _strip_space(text: str) -> str:
    return "".join(text.split())


def _list_letters(text: str) -> str:
    return _NOT_LETTERS.sub("", text)


def _is_place(place: str, rows: Sequence[str]) -> bool:
    """Whether a row names this file: by itself, or in Gemini CLI behind what is done with it."""
    edited = (_GEMINI_EDIT.sub("", row, count=1) for row in rows if _GEMINI_EDIT.match(row))
    return place in rows or any(f"{name}: ".startswith(f"{place}: ") for name in edited)


def _strip_gutter(rows: Sequence[str]) -> list[str]:
    has_gutter = all(_GUTTER.match(row) for row in rows if row.strip())
    return [_GUTTER.sub("", row, count=1) if has_gutter else row for row in rows]


def _is_command(subject: DialogSubject, rows: Sequence[str]) -> bool:
    """Whether these rows are a command: a break between two is one of its own, a blank, or nothing."""
    text, place = "\n".join(_trim_rows(subject.text.split("\n"))), 0
    for number, row in enumerate(_trim_rows(rows)):
        place += number > 0 and text.startswith((" ", "\n"), place)
        if not text.startswith(row, place):
            return False
        place += len(row)
    return place == len(text) > 0


def _trim_rows(rows: Sequence[str]) -> list[str]:
    """Return rows without blanks at their ends, one for several, and without empty ones at the end."""
    trimmed = [_BLANKS.sub(" ", row).strip(" ") for row in rows]
    while trimmed and not trimmed[-1]:
        trimmed.pop()
    return trimmed


def _join_fields(rows: Sequence[str]) -> str:
    """Join the rows of fields: each begins in a row without a gutter, a short text of one is quoted."""
    fields: list[str] = []
    for row in rows:
        if gutter := _GUTTER.match(row):
            fields[-1:] = ["".join((*fields[-1:], row[gutter.end() :]))]
        elif row.strip():
            fields.append(_unquote_field(row.strip()))
    return FIELD_END.join(fields)


def _unquote_field(row: str) -> str:
    import json

    if field := _FIELD.fullmatch(row):
        with suppress(ValueError):
            return f"{field['odd'] or field['key']}: {json.loads(field['value'])}"
    return row


def _is_change(subject: DialogSubject, rows: Sequence[str]) -> bool:
    """Whether the rows of a diff change nothing but what becomes this text, and what was before it."""
    new, old = _strip_space(subject.text), _strip_space(subject.before or "")
    first = _NUMBER.match(rows[0]) if rows else None
    if first is None:
        return False
    if not old and _strip_space("".join(row[first.end() :] for row in rows)) == new:
        return True  # a new file, which is shown without signs
    hunks = _read_hunks(rows)
    if len(hunks) == 1 and subject.before is not None and _is_replaced(*hunks[0], new, old):
        return True
    if len(hunks) > 1 and subject.before is not None:
        hunks = _drop_ends(hunks)
    has_old = subject.before is None or _has_in_order(old, [before for _, before in hunks])
    return has_old and _has_in_order(new, [after for after, _ in hunks])


def _read_hunks(rows: Sequence[str]) -> list[tuple[str, str]]:
    """Read the parts of a diff: each as it becomes and as it was, with the lines around."""
    hunks = [("", "")]
    width, sign = 0, ""
    for row in rows:
        number = _NUMBER.match(row)
        width = number.end() if number else width
        if row.strip() == "...":
            hunks.append(("", ""))
        elif not row.lstrip().startswith("\\ No newline"):
            has_sign = row[width : width + 1] in ("+", "-", " ")
            sign = row[width] if has_sign else "" if number else sign
            text = _strip_space(row[width + has_sign :])
            after, before = hunks[-1]
            hunks[-1] = after + text * (sign != "-"), before + text * (sign != "+")
    return hunks


def _drop_ends(hunks: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the parts of a diff without what is the same before the first and behind the last change."""
    first, *inner, last = hunks
    start = count_same(*first)
    end = count_same(last[0][::-1], last[1][::-1])
    after, before = (text[: len(text) - end] for text in last)
    return [(first[0][start:], first[1][start:]), *inner, (after, before)]


def _is_replaced(after: str, before: str, new: str, old: str) -> bool:
    """Whether a text differs from what it was in one place alone, where the new stands for the old."""
    return any(
        after.startswith(new, start) and before == after[:start] + old + after[start + len(new) :]
        for start in range(len(after) - len(new) + 1)
    )


def _has_in_order(text: str, parts: Iterable[str]) -> bool:
    place = 0
    for part in parts:
        found = text.find(part, place)
        if found < 0:
            return False
        place = found + len(part)
    return True
