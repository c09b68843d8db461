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
    first = max(0, start - 4000, *(text.rfind(m, max(0, start - 4000), start) for m in _DIVIDERS))
    dividers = (text.find(mark, end, end + 8000) for mark in _DIVIDERS)
    last = min((place for place in dividers if place >= 0), default=end + 8000)
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
            value = found["v"].strip("\"',\\")
            is_base64 = len(value) % 4 == 0 and compile_once(_BASE64).match(value) is not None
            if (
                is_base64 and not shapes.is_placeholder(value)
                if section == "data"
                else shapes.is_bare_secret(value, "password")
            ):
                start = found.start("v") + found["v"].index(value)
                spans.append(SecretSpan(start, start + len(value), "secret"))
    return spans


_DIVIDERS = ("\n---", "\\n---", "Secret")
"""What ends one manifest; the next of the same kind does too, so that no line is read many times."""


# ---- tables --------------------------------------------------------------------------------------------------------

_BEFORE_CELL = r"(?:^|[,|\t\n]|\\[nt])[ \t]{0,40}\\{0,8}[\"'`*]{0,3}$"
_AFTER_CELL = r"\\{0,8}[\"'`*]{0,3}[ \t]{0,40}(?:[,|\t]|\r?\n|\\[nt])"
_HEADING = r"[\w \"'`*.#/\\+-]{0,40}$"
_RULE = r"[\s|:=+-]{3,}$"
_WIDEST = 400  # characters of a table's head


def read_column(text: str, start: int, end: int, kind: str) -> list[SecretSpan]:
    """Return the values below a heading, in CSV or in a table with bars or tabs. `start` and `end` are those of the heading."""
    before = text[max(0, start - 44) : start]
    if not (
        compile_once(_AFTER_CELL).match(text, end) and compile_once(_BEFORE_CELL).search(before)
    ):
        return []
    marks = ((text.rfind(m, max(0, start - _WIDEST), start), m) for m in ("\n", "\\n", ': "', ':"'))
    top = max((place + len(mark) for place, mark in marks if place >= 0), default=-1)
    if top < 0 and start > _WIDEST:
        return []
    top = max(top, 0)
    lines = _split_lines(text, top)
    head = text[slice(*next(lines))]
    separator = next((mark for mark in ("|", "\t", "\\t", ",") if mark in head), "")
    headings = head.strip("| \t\r").split(separator) if separator and len(head) <= _WIDEST else []
    if not len(headings) > 1 or not all(
        cell and compile_once(_HEADING).match(cell) and len(cell.split()) <= 4 for cell in headings
    ):
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
        value = cells[number].strip(" \t\r\"'`*\\").partition('"')[0]
        position += cells[number].index(value) if value else 0
        is_strong = kind == "password" or shapes.is_weak_key_value(value)
        is_password = "password" if kind == "password" else ""
        if is_strong and " " not in value and shapes.is_bare_secret(value, is_password):
            end_of_cell = position + len(value)
            spans.append(SecretSpan(position, end_of_cell, shapes.simplify_kind(kind)))
    return spans


def find_below(text: str, start: int, end: int, kind: str) -> list[SecretSpan]:
    """Return AWS's secret on the line under the words for it."""
    if kind != "key" or not text[max(0, start - 14) : start].lower().endswith("secret access "):
        return []
    found = compile_once(_BELOW).match(text, end)
    value = found["v"] if found else ""
    is_secret = shapes.is_random(value, often=10) and not compile_once(shapes.HASH).match(value)
    return [SecretSpan(*found.span("v"), "aws-secret-key")] if found and is_secret else []
