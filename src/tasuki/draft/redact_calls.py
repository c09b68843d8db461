"""Secrets in code that no `name = value` shows: arguments of calls, elements of lists and mappings, values after `||`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

from tasuki.draft import redact_patterns as shapes
from tasuki.draft.redact_finders import Span
from tasuki.draft.redact_patterns import compiled

_QUOTED = r"\\{0,8}(?:\"(?P<v1>[^\"\\\n]{4,512})|'(?P<v2>[^'\\\n]{4,512})|`(?P<v3>[^`\\\n]{4,512}))"
_ARGUMENT = r"[({]\s{0,9}[bru@L]?" + _QUOTED + r"\\{0,8}[\"'`]\s{0,9}[,)}]"


def argument(text: str, at: int, kind: str) -> list[Span]:
    """The literal in `set_password("…")`, `.withToken('…')` and C++'s `password{"…"}`; `at` is the bracket."""
    found = compiled(_ARGUMENT).match(text, at)
    return _literal(found, kind) if found else []


_FALLBACK_OF = (
    r"[:=][^\S\n]{0,9}[\w.$\[\]\"'()\\]{1,80}[^\S\n]{1,9}(?:\|\||\?\?|or\b)\s{0,9}" + _QUOTED
)


def fallback(text: str, at: int, kind: str) -> list[Span]:
    """The literal in `process.env.API_TOKEN || "…"`; `at` is behind the name."""
    found = compiled(_FALLBACK_OF).match(text, at) or compiled(_AFTER_OR).match(text, at)
    return _literal(found, kind) if found else []


_AFTER_OR = r"\\{0,8}[\"']?[\])]?[^\S\n]{0,9}(?:\|\||\?\?|\bor\b)\s{0,9}" + _QUOTED
_OPENING = (
    r"\\{0,8}[\"'`]?\]?(?:[ ]?:[ ]?[\w\[\], <>]{1,40}[ ]=|[^\S\n]{0,9}(?::=|=>|[:=]))\s{0,9}[\[{(]"
)
_ELEMENT = (
    r"(?:[\[{(,:]|=>|(?<=[\"'`])(?:\n|\\n))\s{0,40}(?:\\[nrt]\s{0,9}){0,4}[bru]?"
    + _QUOTED
    + r"(?=\\{0,8}[\"'`]\s{0,9}(?:\\[nrt]\s{0,9}){0,4}[,\]})]|[\"'`](?:\n|\\n))"
)
_BLOCK = 400  # characters of a list or mapping that are looked at


def elements(text: str, at: int, kind: str) -> list[Span]:
    """The values of `tokens = ["…"]`, `secrets = {"a": "…"}`, `"password": {"value": "…"}`; `at` is behind the name."""
    opening = compiled(_OPENING).match(text, at)
    if not opening:
        return _entries(text, at, kind)
    start = opening.end() - 1
    close = {"[": "]", "{": "}", "(": ")"}[text[start]]
    end = text.find(close, start, start + _BLOCK)
    end = start + _BLOCK if end < 0 else end + 1
    spans: list[Span] = []
    for found in compiled(_ELEMENT).finditer(text, start, end):
        spans += _literal(found, kind)
    return spans


_SECTION = r"\]?:?[^\S\n]{0,9}(?:\n|\\n)"
_ENTRY = r"[^\S\n]{0,40}[\w.-]{1,64}[^\S\n]{0,9}[:=][^\S\n]{0,9}\\{0,8}[\"']?(?P<v>[^\s\"'#\\]{8,512})\\{0,8}[\"']?[^\S\n]{0,9}(?:#[^\n]{0,200})?(?:\n|\\n|$)"


_ENTRIES = 100  # lines of a section that are looked at


def _entries(text: str, at: int, kind: str) -> list[Span]:
    """Random values in the lines of a section `[secrets]` or `secrets:`; `at` is behind the name."""
    section = compiled(_SECTION).match(text, at)
    if not section or text[at] not in "]:":
        return []
    spans: list[Span] = []
    at = section.end()
    for _ in range(_ENTRIES):
        found = compiled(_ENTRY).match(text, at)
        if not found:
            break
        value = found["v"]
        if shapes.is_bare_secret(value) and shapes.is_weak_key_value(value):
            spans.append(Span(*found.span("v"), kind))
        at = found.end()
    return spans


_ARGUMENTS = 300  # characters of a call that are looked at
_LITERALS = 5
_PIECE = r"\\{0,8}(?:\"(?P<v1>[^\"\n]*)\"|'(?P<v2>[^'\n]*)'|`(?P<v3>[^`\n]*)`)|[(\[{]|[)\]}]|,"


def _find_argument(text: str, at: int, number: int) -> tuple[int, int] | None:
    """Start and end of the literal that is the argument of this number, from 0 on; `at` is behind the bracket."""
    depth = passed = 0
    for found in compiled(_PIECE).finditer(text, at, at + _ARGUMENTS):
        piece = found.group()
        if found.lastgroup:
            if depth == 0 and passed == number:
                start, end = found.span(found.lastgroup)
                return start, start + len(text[start:end].rstrip("\\"))
        elif piece == ",":
            passed += depth == 0
            if passed > number:
                return None
        else:
            depth += 1 if piece in "([{" else -1
            if depth < 0:
                return None
    return None


def call(text: str, name: str, at: int) -> Iterator[Span]:
    """The password among the arguments of a call that is given one, and random literals: `login("bob", "…")`."""
    start = at + len(name)
    number = CALLS[name]
    place = _find_argument(text, start, number) if number is not None else None
    if place and shapes.is_bare_secret(text[slice(*place)], "password"):
        yield Span(*place, "password")
        return
    last = start + _ARGUMENTS
    found_ends = (text.find(")", start, last), text.find("\n", start, last))
    end = min((x for x in found_ends if x >= 0), default=last)
    literals = compiled(_QUOTED + r"\\{0,8}[\"'`]").finditer(text, start, end + 1)
    for found in islice(literals, _LITERALS):
        for span in _literal(found, "password"):
            value = text[span.start : span.end]
            if len(value) >= 8 and shapes.is_random(value):
                yield span


_COLUMNS = r"\((?P<names>[\w\s,\"'`.\\]{1,400})\)(?:\s|\\[nt]){0,9}$"
_ROW = r"(?:\s|,|\\[nt]){0,40}\("


def find_inserted(text: str, at: int) -> Iterator[Span]:
    """The values of secret columns in SQL's `INSERT INTO users (name, password) VALUES ('bob', '…')`."""
    row = compiled(_ROW).match(text, at + len("values"))
    opening = text.rfind("(", max(0, at - 400), at) if row else -1
    columns = compiled(_COLUMNS).match(text, opening, at) if opening >= 0 else None
    kinds = (
        [shapes.secret_name(name.strip("\"'` \\")) for name in columns["names"].split(",")]
        if columns
        else []
    )
    if not any(kinds):
        return
    for _ in range(_ROWS):
        if not row:
            break
        at = row.end()
        for number, kind in enumerate(kinds):
            place = _find_argument(text, row.end(), number) if kind else None
            if place and shapes.is_literal_secret(
                text[slice(*place)], kind.replace("pass", "password")
            ):
                yield Span(*place, shapes.plain_kind(kind))
            at = place[1] if place else at
        at = text.find(")", at, at + _ARGUMENTS)
        row = compiled(_ROW).match(text, at + 1) if at >= 0 else None


_ROWS = 50  # rows of one statement that are looked at


CALLS: dict[str, int | None] = {
    "basicauth(": 1, "credentials.basic(": 1, "credential(": 1, "login(": 1, "createhmac(": None, "createcipheriv(": None,
    "jwt.sign(": None, "jwt.verify(": None, "jwt.encode(": None, "jwt.decode(": None, "hmac.new(": None, "fernet(": None,
    "aes.new(": None, "bot.run(": None, "compare_digest(": None, "wifi.begin(": 1, "timingsafeequal(": None,
    "boto3.client(": None, "credentials(": 1, "getconnection(": 2, "mysqli(": 2, "new pdo(": 2,
    "usernamepasswordtoken(": 1,
}  # fmt: skip
"""Calls whose name or arguments tell of no secret in words, and the number of the argument that is a password."""


def _literal(found: re.Match[str], kind: str) -> list[Span]:
    """A span for a quoted value that is random or, as a password, hard."""
    group = next((name for name in ("v1", "v2", "v3") if found[name]), "")
    if not group:
        return []
    value = found[group]
    if shapes.is_placeholder(value) or shapes.is_reference(value):
        return []
    if " " in value or not shapes.is_quoted_secret(value, kind):
        return []
    peculiar = len(value) >= 12 and compiled(r"(?=.*\d\D*\d)[\w+/=~!#%^&*-]+$").match(value)
    good = kind == "password" or shapes.is_random(value) or peculiar
    return [Span(*found.span(group), kind)] if good and shapes.is_hard(value) else []
