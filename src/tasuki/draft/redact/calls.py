"""Secrets in code without `name = value`: call arguments, list and mapping elements, `||`
fallbacks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

from tasuki.draft.redact import patterns as shapes
from tasuki.draft.redact.patterns import SecretSpan, compile_once

_QUOTED = r"\\{0,8}(?:\"(?P<v1>[^\"\\\n]{4,512})|'(?P<v2>[^'\\\n]{4,512})|`(?P<v3>[^`\\\n]{4,512}))"
_ARGUMENT = r"[({]\s{0,9}[bru@L]?" + _QUOTED + r"\\{0,8}[\"'`]\s{0,9}[,)}]"


_TYPED = (
    r"[^\s()]{0,20}[ ]?\)\.(?:type|fill|clear_and_type|send_?[kK]eys|setValue|set|enterText)\(\s{0,9}"
    + _QUOTED
)


_FALLBACK_OF = (
    r"[:=][^\S\n]{0,9}[\w.$\[\]\"'()\\]{1,80}[^\S\n]{1,9}(?:\|\||\?\?|or\b)\s{0,9}" + _QUOTED
)


_AFTER_OR = r"\\{0,8}[\"']?[\])]?[^\S\n]{0,9}(?:\|\||\?\?|\bor\b)\s{0,9}" + _QUOTED
_LITERALS_AT = {"argument": (_ARGUMENT,), "typed": (_TYPED,), "fallback": (_FALLBACK_OF, _AFTER_OR)}


def find_literal_at(text: str, position: int, kind: str, place: str) -> list[SecretSpan]:
    """Return the literal at a place, where one is there.

    argument: `set_password("…")`, `.withToken('…')`, C++'s `password{"…"}`, from the bracket on.
    typed: what a test of pages types, `get('#password').type('…')`, behind the name.
    fallback: `process.env.API_TOKEN || "…"`, behind the name.
    """
    tried = (compile_once(pattern).match(text, position) for pattern in _LITERALS_AT[place])
    found = next(filter(None, tried), None)
    return _judge_literal(found, kind) if found else []


_OPENING = (
    r"\\{0,8}[\"'`]?\]?(?:[ ]?:[ ]?[\w\[\], <>]{1,40}[ ]=|[^\S\n]{0,9}(?::=|=>|[:=]))\s{0,9}[\[{(]"
)
_ELEMENT = (
    r"(?:[\[{(,:]|=>|(?<=[\"'`])(?:\n|\\n))\s{0,40}(?:\\[nrt]\s{0,9}){0,4}[bru]?"
    + _QUOTED
    + r"(?=\\{0,8}[\"'`]\s{0,9}(?:\\[nrt]\s{0,9}){0,4}[,\]})]|[\"'`](?:\n|\\n))"
)
_OTHER_KEY = (
    r"(?i:id|name|user|arn|type|action|effect|resource|region|status|url|date)\\{0,8}[\"']?\s{0,9}$"
)
"""Before the `:` of a value that is about a secret in the same mapping."""
_BLOCK = 400  # characters of a list or mapping that are read


def find_element_secrets(text: str, position: int, kind: str) -> list[SecretSpan]:
    """Return the values of `tokens = ["…"]`, `secrets = {"a": "…"}`, `"password": {"value": "…"}`.

    `position` is after the name.
    """
    opening = compile_once(_OPENING).match(text, position)
    if not opening:
        return list(_find_section_secrets(text, position, kind))
    start = opening.end() - 1
    close = {"[": "]", "{": "}", "(": ")"}[text[start]]
    end = text.find(close, start, start + _BLOCK)
    end = start + _BLOCK if end < 0 else end + 1
    spans: list[SecretSpan] = []
    for found in compile_once(_ELEMENT).finditer(text, start, end):
        if not compile_once(_OTHER_KEY).search(text, max(start, found.start() - 40), found.start()):
            spans += _judge_literal(found, kind)
    return spans


_SECTION = r"\]?:?[^\S\n]{0,9}(?:\n|\\n)"
_ENTRY = r"[^\S\n]{0,40}[\w.-]{1,64}[^\S\n]{0,9}[:=][^\S\n]{0,9}\\{0,8}[\"']?(?P<v>[^\s\"'#\\]{8,512})\\{0,8}[\"']?[^\S\n]{0,9}(?:#[^\n]{0,200})?(?:\n|\\n|$)"


_ENTRIES = 100  # lines of a section that are read


def _find_section_secrets(text: str, position: int, kind: str) -> Iterator[SecretSpan]:
    """Yield random values in the lines of a section `[secrets]` or `secrets:`; `position` is after the name."""
    found = compile_once(_SECTION).match(text, position)
    entries = _ENTRIES if found and text[position] in "]:" else 0
    while entries and found and (found := compile_once(_ENTRY).match(text, found.end())):
        entries -= 1
        if shapes.is_bare_secret(found["v"]) and shapes.is_weak_key_value(found["v"]):
            yield SecretSpan(*found.span("v"), kind)


_ARGUMENTS = 300  # characters of a call that are read
_LITERALS = 5
_PIECE = r"\\{0,8}(?:\"(?P<v1>[^\"\n]*)\"|'(?P<v2>[^'\n]*)'|`(?P<v3>[^`\n]*)`)|[(\[{]|[)\]}]|,"


def _find_argument(text: str, position: int, number: int) -> tuple[int, int] | None:
    """Return start and end of the literal that is argument `number`, counted from 0. `position` is after the bracket."""
    depth = passed = 0
    for found in compile_once(_PIECE).finditer(text, position, position + _ARGUMENTS):
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


def find_calls(text: str, lower: str) -> Iterator[SecretSpan]:
    """Yield the secrets among the arguments of all calls without a telling name."""
    for name, number in CALLS.items() if "(" in lower else ():
        position = lower.find(name) if name in lower else -1
        while position >= 0:
            bracket = text.find("(", position, position + len(name) + 8)
            if bracket >= 0:
                yield from _find_call_secrets(text, bracket + 1, number)
            position = lower.find(name, position + len(name))


def find_named_call(text: str, name: str, end: int) -> list[SecretSpan]:
    """Return the secrets among the arguments of a call with a stem in its name; `end` is after the name."""
    call = compile_once(_NAMED).match(name) if text[end : end + 1] == "(" else None
    return list(_find_call_secrets(text, end + 1, 1 if call["second"] else None)) if call else []


def _find_call_secrets(text: str, start: int, number: int | None) -> Iterator[SecretSpan]:
    """Yield the password among the arguments of a call that takes one, and random literals.

    For example `login("bob", "…")`. `start` is after the bracket, `number` that of the argument.
    """
    place = _find_argument(text, start, number) if number is not None else None
    if place and shapes.is_bare_secret(text[slice(*place)], "password"):
        yield SecretSpan(*place, "password")
        return
    last = start + _ARGUMENTS
    found_ends = (text.find(")", start, last), text.find("\n", start, last))
    end = min((x for x in found_ends if x >= 0), default=last)
    literals = compile_once(_QUOTED + r"\\{0,8}[\"'`]").finditer(text, start, end + 1)
    for found in islice(literals, _LITERALS):
        for span in _judge_literal(found, "password"):
            value = text[span.start : span.end]
            if len(value) >= 8 and shapes.is_random(value):
                yield span


_COLUMNS = r"\((?P<names>[\w\s,\"'`.\\]{1,400})\)(?:\s|\\[nt]){0,9}$"
_ROW = r"(?:\s|,|\\[nt]){0,40}\("


def find_inserted_secrets(text: str, position: int) -> Iterator[SecretSpan]:
    """Yield the values of secret columns in an SQL insert.

    For example `INSERT INTO users (name, password) VALUES ('bob', '…')`.
    """
    row = compile_once(_ROW).match(text, position + len("values"))
    opening = text.rfind("(", max(0, position - 400), position) if row else -1
    columns = compile_once(_COLUMNS).match(text, opening, position) if opening >= 0 else None
    names = columns["names"].split(",") if columns else []
    kinds = [shapes.find_secret_kind(name.strip("\"'` \\")) for name in names]
    for _ in range(_ROWS if any(kinds) else 0):
        if not row:
            break
        position = row.end()
        for number, kind in enumerate(kinds):
            place = _find_argument(text, row.end(), number) if kind else None
            full_kind = kind.replace("pass", "password")
            if place and shapes.is_literal_secret(text[slice(*place)], full_kind):
                yield SecretSpan(*place, shapes.simplify_kind(kind))
            position = place[1] if place else position
        position = text.find(")", position, position + _ARGUMENTS)
        row = compile_once(_ROW).match(text, position + 1) if position >= 0 else None


_ROWS = 50  # rows of one statement that are read


CALLS: dict[str, int | None] = {
    "createcipheriv(": None, "fernet(": None, "jwt.": None, "aes.new(": None, "bot.run(": None, "compare_digest(": None,
    "timingsafeequal(": None, "boto3.client(": None, "login(": 1, "wifi.begin(": 1, "getconnection(": 2, "mysqli(": 2,
    "new pdo(": 2,
}  # fmt: skip
"""Calls without a telling name or arguments, and the number of the argument that is a password."""
_NAMED = r"(?i).*(?:(?P<second>basicauth|credentials\.basic|credentials?|usernamepasswordtoken)|createhmac|hmac\.new)$"
"""Calls with a stem in their name; the second argument of some is a password."""


def _judge_literal(found: re.Match[str], kind: str) -> list[SecretSpan]:
    """Return a span for a quoted value that is random or, as a password, hard."""
    group = next((name for name in ("v1", "v2", "v3") if found[name]), "")
    if not group:
        return []
    value = found[group]
    if shapes.is_stand_in(value) or " " in value or not shapes.is_quoted_secret(value, kind):
        return []
    peculiar = len(value) >= 12 and compile_once(r"(?=.*\d\D*\d)[\w+/=~!#%^&*-]+$").match(value)
    good = kind == "password" or shapes.is_random(value) or peculiar
    good = good and (shapes.is_hard(value) or shapes.is_plain_password(value, is_chain=True))
    return [SecretSpan(*found.span(group), kind)] if good else []
