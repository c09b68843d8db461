"""Secrets on another line than their name: YAML blocks, tables, manifests, SQL rows, diff
lines.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from tasuki.draft.redact import patterns as shapes
from tasuki.draft.redact.patterns import SecretSpan, compile_once

_BELOW = r"[ \t]{0,9}(?:\r?\n|\\n)[ \t]{0,40}(?P<v>[A-Za-z0-9/+]{40})(?![A-Za-z0-9/+])"

_MOST_LINES = 50  # lines of a block or a table that are read
_LONGEST = 4096  # characters of a line

# ---- diffs ---------------------------------------------------------------------------------------------------------

_ADDED = r"\+(?<=[\nn]\+)(?:(?<=\n\+)|(?<=\\n\+))"
_REMOVED = r"-(?<=[\nn]-)(?!-)(?:(?<=\n-)|(?<=\\n-))"
_NESTED = r"-(?=[ ]{2}|\t|[\]})\"'])"


def replace_diff_marks(text: str) -> str:
    """Return the text with a blank for the `+` and `-` that a diff's lines begin with.

    All else keeps its position. A diff has a hunk's head or two added lines: a value may begin
    with `+`, a list and a command's flags begin with `-`. Of any other text only those `-` are
    replaced that begin neither a list nor a flag.
    """
    if "\n" not in text and "\\n" not in text:
        return text
    has_added = "\n+" in text or "\\n+" in text
    if not has_added and "\n-" not in text and "\\n-" not in text:
        return text
    added = list(islice(compile_once(_ADDED).finditer(text), 2)) if has_added else []
    if len(added) < 2 and "@@ -" not in text:
        text = compile_once(r"\n" + _NESTED).sub("\n ", text)
        return compile_once(r"\\n" + _NESTED).sub(r"\\n ", text) if "\\n-" in text else text
    return compile_once(_REMOVED).sub(" ", compile_once(_ADDED).sub(" ", text))


# ---- blocks --------------------------------------------------------------------------------------------------------

_BLOCK = r"\\{0,8}[\"']?[ ]?:[ ]{1,9}[|>][+-]?\d?[ ]{0,9}(?:\r?\n|\\n)"
_INDENTED = r"[ \t]{1,80}(?P<v>[^\s\"'\\][^\n\"'\\]{3,4095})"


def read_block(text: str, end: int, kind: str) -> list[SecretSpan]:
    """Return the secret lines of YAML's `token: |`; `end` is after the name."""
    opening = compile_once(_BLOCK).match(text, end)
    spans: list[SecretSpan] = []
    for start, stop in _split_lines(text, opening.end()) if opening else ():
        found = compile_once(_INDENTED).match(text, start, stop)
        value = found["v"].rstrip() if found else ""
        if not found or not shapes.is_literal_secret(value, kind):
            break
        spans.append(
            SecretSpan(found.start("v"), found.start("v") + len(value), shapes.simplify_kind(kind))
        )
    return spans


def _split_lines(text: str, position: int, limit: int = _MOST_LINES) -> Iterator[tuple[int, int]]:
    """Yield start and end of the lines from `position` on, also if their break is escaped in JSON."""
    for _ in range(limit):
        stop = text.find("\n", position, position + _LONGEST)
        stop = stop if stop >= 0 else min(len(text), position + _LONGEST)
        escaped = text.find("\\n", position, stop)
        stop = escaped if escaped >= 0 else stop
        yield position, stop
        if stop >= len(text):
            break
        position = stop + (2 if escaped >= 0 else 1)


# ---- manifests -----------------------------------------------------------------------------------------------------

_KIND = r"kind\\{0,8}[\"']?:[ ]{0,9}\\{0,8}[\"']?$"
_DATA = r"[ \t]{0,20}\\{0,8}[\"']?(?P<name>data|stringData)\\{0,8}[\"']?:[ ]{0,9}\{?[ ]{0,9}$"
_ENTRY = r"[ \t]{0,40}\\{0,8}[\"']?[\w.-]{1,253}\\{0,8}[\"']?:[ \t]{0,9}(?P<v>[^\s][^\s\\]{3,8191})\\{0,8}"
_BASE64 = r"[A-Za-z0-9+/]{4,8192}={0,2}$"


def read_manifest(text: str, start: int, end: int) -> list[SecretSpan]:
    """Return the values in `data` and `stringData` of a Kubernetes manifest.

    `start` and `end` are those of the kind, `Secret`.
    """
    if not compile_once(_KIND).search(text, max(0, start - 24), start):
        return []
    first, last = _find_bounds(text, start, end)
    spans: list[SecretSpan] = []
    indent, section = -1, ""
    for position, stop in _split_lines(text, first, 200):
        if position >= last:
            break
        depth = len(text[position:stop]) - len(text[position:stop].lstrip(" "))
        if data := compile_once(_DATA).match(text, position, stop):
            indent, section = depth, data["name"]
        elif section and depth <= indent and position < stop:
            section = ""
        elif section and (found := compile_once(_ENTRY).match(text, position, stop)):
            spans += _judge_entry(found["v"], found.start("v"), section)
    return spans


_DIVIDERS = ("\n---", "\\n---", "Secret")
"""What ends one manifest; the next of the same kind does too, so that no line is read many
times.
"""


def _find_bounds(text: str, start: int, end: int) -> tuple[int, int]:
    """Return start and end of the manifest around a place."""
    low, high = max(0, start - 4000), end + 8000
    first = max(text.rfind(mark, low, start) for mark in _DIVIDERS)
    last = (text.find(mark, end, high) for mark in _DIVIDERS)
    return max(first, low), min((position for position in last if position >= 0), default=high)


def _judge_entry(value: str, position: int, section: str) -> list[SecretSpan]:
    """Return a span for a value in a manifest's `data`, which is base64, or `stringData`."""
    bare = value.strip("\"',\\")
    position += value.index(bare)
    if section == "data":
        good = len(bare) % 4 == 0 and compile_once(_BASE64).match(bare) is not None
        good = good and not shapes.is_placeholder(bare)
    else:
        good = shapes.is_bare_secret(bare, "password")
    return [SecretSpan(position, position + len(bare), "secret")] if good else []


# ---- tables --------------------------------------------------------------------------------------------------------

_BEFORE_CELL = r"(?:^|[,|\t\n]|\\[nt])[ \t]{0,40}\\{0,8}[\"'`*]{0,3}$"
_AFTER_CELL = r"\\{0,8}[\"'`*]{0,3}[ \t]{0,40}(?:[,|\t]|\r?\n|\\[nt])"
_HEADING = r"[\w \"'`*.#/\\+-]{0,40}$"
_RULE = r"[\s|:=+-]{3,}$"
_WIDEST = 400  # characters of a table's head


def read_column(text: str, start: int, end: int, kind: str) -> list[SecretSpan]:
    """Return the values below a heading, in CSV or in a table with bars or tabs.

    `start` and `end` are those of the heading.
    """
    if not compile_once(_AFTER_CELL).match(text, end) or not compile_once(_BEFORE_CELL).search(
        text[max(0, start - 44) : start]
    ):
        return []
    top = max(*(_find_after(text, mark, start) for mark in ("\n", "\\n", ': "', ':"')))
    if top < 0:
        if start > _WIDEST:
            return []
        top = 0
    lines = _split_lines(text, top)
    head = text[slice(*next(lines))]
    separator = next((mark for mark in ("|", "\t", "\\t", ",") if mark in head), "")
    if not separator or not _is_head(head, separator):
        return []
    number, width = head[: start - top].count(separator), head.count(separator)
    spans: list[SecretSpan] = []
    for position, stop in lines:
        row = text[position:stop]
        if compile_once(_RULE).match(row):
            continue
        if row.count(separator) != width or text[start:end] in row:
            break
        cells = row.split(separator)
        position += sum(len(cell) + len(separator) for cell in cells[:number])
        spans += _judge_cell(cells[number], position, kind)
    return spans


def _find_after(text: str, mark: str, start: int) -> int:
    position = text.rfind(mark, max(0, start - _WIDEST), start)
    return position + len(mark) if position >= 0 else -1


def _is_head(head: str, separator: str) -> bool:
    """Return whether a line is the head of a table: a few words in each cell, and no code."""
    cells = head.strip("| \t\r").split(separator)
    return (
        all(cells)
        and len(cells) > 1
        and len(head) <= _WIDEST
        and all(compile_once(_HEADING).match(cell) and len(cell.split()) <= 4 for cell in cells)
    )


def _judge_cell(cell: str, position: int, kind: str) -> list[SecretSpan]:
    """Return a span for a cell that is a secret; `position` is the start of the cell."""
    value = cell.strip(" \t\r\"'`*\\").partition('"')[0]
    position += cell.index(value) if value else 0
    if kind == "password":
        good = shapes.is_bare_secret(value, kind)
    else:
        good = shapes.is_weak_key_value(value) and shapes.is_bare_secret(value)
    return (
        [SecretSpan(position, position + len(value), shapes.simplify_kind(kind))]
        if good and " " not in value
        else []
    )


def find_below(text: str, start: int, end: int, kind: str) -> list[SecretSpan]:
    """Return AWS's secret on the line under the words for it."""
    if kind != "key" or not text[max(0, start - 14) : start].lower().endswith("secret access "):
        return []
    found = compile_once(_BELOW).match(text, end)
    if (
        not found
        or not shapes.is_random(found["v"], often=10)
        or compile_once(shapes.HASH).match(found["v"])
    ):
        return []
    return [SecretSpan(*found.span("v"), "aws-secret-key")]
