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
    r"(?:[\[{(,:]|=>)\s{0,9}(?:\\[nrt]\s{0,9}){0,4}[bru]?"
    + _QUOTED
    + r"(?=\\{0,8}[\"'`]\s{0,9}(?:\\[nrt]\s{0,9}){0,4}[,\]})])"
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


def _entries(text: str, at: int, kind: str) -> list[Span]:
    """Random values in the lines of a section `[secrets]` or `secrets:`; `at` is behind the name."""
    section = compiled(_SECTION).match(text, at)
    if not section or text[at] not in "]:":
        return []
    spans: list[Span] = []
    at = section.end()
    while (found := compiled(_ENTRY).match(text, at)) and len(spans) < 50:
        value = found["v"]
        if shapes.is_bare_secret(value) and shapes.is_weak_key_value(value):
            spans.append(Span(*found.span("v"), kind))
        at = found.end()
    return spans


_ARGUMENTS = 300  # characters of a call that are looked at
_LITERALS = 5


def call(text: str, at: int) -> Iterator[Span]:
    """Random literals among the arguments of a call that is given a password or a key: `login("bob", "…")`."""
    start = text.find("(", at) + 1
    last = start + _ARGUMENTS
    found_ends = (text.find(")", start, last), text.find("\n", start, last))
    end = min((x for x in found_ends if x >= 0), default=last)
    literals = compiled(_QUOTED + r"\\{0,8}[\"'`]").finditer(text, start, end + 1)
    for found in islice(literals, _LITERALS):
        for span in _literal(found, "password"):
            value = text[span.start : span.end]
            if len(value) >= 8 and shapes.is_random(value):
                yield span


CALLS = (
    "basicauth(", "credentials.basic(", "credential(", "login(", "createhmac(", "createcipheriv(", "jwt.sign(",
    "jwt.verify(", "jwt.encode(", "jwt.decode(", "hmac.new(", "fernet(", "aes.new(", "bot.run(", "compare_digest(",
    "wifi.begin(", "timingsafeequal(", "boto3.client(", "credentials(",
)  # fmt: skip
"""Calls whose name or arguments tell of no secret in words."""


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
