"""The places where secrets stand that no name announces: issued tokens, key blocks, addresses, headers, commands."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterator
from itertools import islice
from typing import NamedTuple

from tasuki.draft import redact_patterns as shapes
from tasuki.draft.redact_patterns import compiled


class Span(NamedTuple):
    """Where a secret stands, in characters, and its kind."""

    start: int
    end: int
    kind: str


Finder = Callable[[str, int], Iterator[Span]]

_RUN = 20
_MOST_PARTS = 200  # separators in one run; text with more is no text that people or programs write
_NEEDLE = b"a" * _RUN
_RUN_CHARS = bytes(
    97 if chr(i).isascii() and (chr(i).isalnum() or chr(i) in "_-.~") else 32 for i in range(256)
)


_DIGITLESS = (
    r"hf_|(?<![A-Za-z0-9])A(?:KIA|SIA|BIA|CCA)[A-Z]{16}(?![A-Za-z0-9])"
    r"|gh[pousr]_|glpat-|xox[a-z]-|[sr]k_(?:live|test)_|GOCSPX-|hv[sbr]\.|gsk_|npm_|sk-ant-"
)
"""Shapes of which one in thirty has no digit."""


def tokens(text: str, narrow: bytes) -> Iterator[Span]:
    """Tokens of a known shape; `narrow` is the text with one byte for each character.

    Only runs of 20 or more token characters are looked at, which `bytes.find` skips to. Runs without a digit are passed
    over unless they begin as a shape does of which some have none.
    """
    mask, digit = narrow.translate(_RUN_CHARS), compiled(r"\d").search
    digitless = compiled(_DIGITLESS).search
    at = mask.find(_NEEDLE)
    while at >= 0:
        end = mask.find(b" ", at + _RUN)
        end = len(mask) if end < 0 else end
        if digit(text, at, end) or digitless(text, at, end):
            yield from _issued(text, at, end)
        at = mask.find(_NEEDLE, end)


def _issued(text: str, start: int, end: int) -> Iterator[Span]:
    """Tokens at the start of the run and behind each separator in it."""
    separators = compiled(r"[-_.~]+").finditer(text, start, end)
    inside = [found.end() for found in islice(separators, _MOST_PARTS)]
    for at in (start, *_after_escape(text, start), *inside):
        token = shapes.issued(text, at, end)
        if token:
            yield Span(*_widen(text, token[0], at, token[1]), token[0].replace("_", "-"))
            if token[0] == "aws_access_key":
                yield from _aws_secrets(text, at, token[1])


_FORTY = r"(?<![A-Za-z0-9/+=])[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+])"
_NEAR = 300  # characters between the two halves of an AWS key


def _aws_secrets(text: str, start: int, end: int) -> Iterator[Span]:
    """The secret half of an AWS key, which has no shape but its length, near the half that has one."""
    lines = compiled(r"\\[nrt]|%0[aA]")  # an escaped line break before a value is no part of it
    near = lines.sub(
        lambda found: " " * len(found.group()), text[max(0, start - _NEAR) : end + _NEAR]
    )
    for found in compiled(_FORTY).finditer(near):
        value = found.group()
        if shapes.is_random(value, often=10) and not compiled(shapes.HASH).match(value):
            at = max(0, start - _NEAR) + found.start()
            yield Span(at, at + len(value), "aws-secret-key")


_ESCAPE = r"(?<=\\)[nrt]|(?<=\\)u[0-9a-fA-F]{4}|(?<=%)[0-9A-Fa-f]{2}|(?<=\[)\d{0,2}m"


def _after_escape(text: str, at: int) -> tuple[int, ...]:
    """Where the run goes on behind an escaped newline, a percent escape or a terminal colour that it starts with."""
    found = compiled(_ESCAPE).match(text, at)
    return (found.end(),) if found else ()


def _widen(text: str, kind: str, start: int, end: int) -> tuple[int, int]:
    """Takes in what belongs to the token but is no token character: a bot's number, the rest of a base64 value."""
    if kind == "telegram_token":
        while start and (text[start - 1].isdigit() or text[start - 1] == ":"):
            start -= 1
    if kind in ("stripe_key", "service_token"):
        end = compiled(r"[\w+/=-]*").match(text, end).end()  # type: ignore[union-attr]
    return start, end


_KEY_BLOCK = (
    r"-----BEGIN (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----"
    r"(?P<v>(?:(?!-----)[A-Za-z0-9+/=\s\\:,.()>|-]){16,200000})(?:-----END [A-Z0-9 ]{1,40}-----)?"
)


def _key_block(text: str, at: int) -> Iterator[Span]:
    """A private key in PEM or PGP armour, whole, cut short, or on one line with escaped newlines."""
    found = compiled(_KEY_BLOCK).match(text, at)
    if found and any(len(run) >= 16 for run in re.split(r"[^A-Za-z0-9+/=]+", found["v"][:600])):
        yield Span(at, at + len(found.group().rstrip()), "private-key")


_URL = (
    r":(?:\\?/){2}(?:(?P<user>[^\s/@:?#\"'`<>\\]{0,128}):(?P<pw>(?!\d{1,5}/)[^\s\"'`<>\\]{1,256})@(?=[\w.\[{$-])"
    r"|(?:hooks\.slack\.com|hooks\.slack-gov\.com)(?:\\?/)(?:services|workflows|triggers)(?:\\?/)(?P<slack>[\w/\\-]{20,200})"
    r"|(?:\w+\.)?discord(?:app)?\.com(?:\\?/)api(?:\\?/)(?:v\d+(?:\\?/))?webhooks(?:\\?/)(?P<discord>\d{15,22}(?:\\?/)[\w-]{40,100})"
    r"|[\w.-]{1,100}\.webhook\.office\.com(?:\\?/)webhookb2(?:\\?/)(?P<teams>[^\s\"'`<>]{20,400}))"
)


def _url(text: str, at: int) -> Iterator[Span]:
    """A password in an address, or an address that is itself the secret: an incoming webhook."""
    found = compiled(_URL).match(text, at)
    if not found:
        return
    if found["pw"] is None:
        kind = found.lastgroup or ""
        yield Span(*found.span(kind), f"{kind}-webhook")
    elif not shapes.is_placeholder(found["pw"]) and found["pw"] != found["user"]:
        yield Span(*found.span("pw"), "url-password")


_BEARER = (
    r"(?i:bearer)(?:\s{1,9}|%20|\\?[\"']?\s{0,9}[:=]\s{0,9}\\?[\"']?)(?P<v>[^\s\"'\\`<>,;]{8,4096})"
)
_BASIC = r"(?i:basic)\s{1,9}(?P<v>[A-Za-z0-9+/_-]{8,1024}={0,2})"


def _bearer(text: str, at: int) -> Iterator[Span]:
    found = compiled(_BEARER).match(text, at)
    if found and shapes.is_bare_secret(found["v"].rstrip(".)}")):
        yield Span(found.start("v"), found.start("v") + len(found["v"].rstrip(".)}")), "bearer")


def _basic(text: str, at: int) -> Iterator[Span]:
    found = compiled(_BASIC).match(text, at)
    if found and is_basic(found["v"]):
        yield Span(*found.span("v"), "basic-auth")


def is_basic(value: str) -> bool:
    """Whether the value is base64 of `user:password`."""
    try:
        plain = base64.b64decode(value + "=" * (-len(value) % 4), validate=True).decode()
    except (binascii.Error, ValueError):
        return False
    return ":" in plain and plain.isprintable()


_COOKIES = r"(?i:cookies?)\\{0,8}[\"']?(?:\s{0,9}[:=,]\s{0,9}|\s{1,9})\\{0,8}[\"']?(?P<v>[^\n\r\"'\\]{6,2048})"
_COOKIE = (
    r"(?i:\b[\w.-]{0,32}(?:sess|sid|auth|token|jwt|csrf|xsrf|remember|secret|identity|login|aspx|clearance|__host)[\w.-]{0,32})"
    r"=(?P<v>[^\s;,\"'\\]{8,4096})"
)


def _cookies(text: str, at: int) -> Iterator[Span]:
    """The values of session-like cookies in a Cookie or Set-Cookie header, or behind a --cookie flag."""
    found = compiled(_COOKIES).match(text, at)
    if found and "=" in found["v"]:
        yield from _cookie_values(text, *found.span("v"))


def _cookie_values(text: str, start: int, end: int) -> Iterator[Span]:
    for found in compiled(_COOKIE).finditer(text, start, end):
        if shapes.is_bare_secret(found["v"]):
            yield Span(*found.span("v"), "cookie")


_SIGNATURE = r"(?i:sig)=(?P<v>[A-Za-z0-9%+/_-]{20,200}={0,2})"


def _signature(text: str, at: int) -> Iterator[Span]:
    found = compiled(_SIGNATURE).match(text, at)
    if found and not text[at - 1 : at].isalnum():
        yield Span(*found.span("v"), "sas-signature")


_ARG = r"\\{0,8}[\"']?(?P<v>[^\s\"'\\|<>]{4,512})"
_COMMANDS = {
    "curl": r"\s(?:-u|--user|-U|--proxy-user)[ =]?\s{0,9}\\{0,8}[\"']?[^\s:\"'\\]{0,128}:(?P<v>[^\s\"'\\|<>]{4,512})",
    "mysql": r"\s-p" + _ARG,
    "mariadb": r"\s-p" + _ARG,
    "mongo": r"\s-p[ =]?" + _ARG,
    "7z": r"\s-p" + _ARG,
    "lftp": r"\s(?:-u|--user)\s{1,9}\\{0,8}[\"']?[^\s,\"'\\]{1,64}," + _ARG,
    "ldap": r"\s-w\s{1,9}" + _ARG,
    "ssh-keygen": r"\s-[NP]\s{1,9}" + _ARG,
    "http -": r"\s(?:-a|--auth)[ =]\\{0,8}[\"']?[^\s:\"'\\]{1,128}:" + _ARG,
    "redis-cli": r"\s-a\s{1,9}" + _ARG,
    "login": r"\s-p[ =]" + _ARG,
    "openssl": r"\s-k\s{1,9}" + _ARG,
    "sshpass": r"\s-p\s{0,9}" + _ARG,
    "htpasswd": r"\s-(?=\w*b)(?:\w*n\w*\s{1,9}|\w+\s{1,9}(?:-\S+\s{1,9}){0,4}\S+\s{1,9})\S+\s{1,9}"
    + _ARG,
}
_PLAIN = (
    "curl",
    "mysql",
    "mariadb",
    "redis-cli",
    "openssl",
    "sshpass",
    "htpasswd",
)  # whose flag means nothing else: a word counts as well
BY_NAME = ("sshpass", "htpasswd")  # found as names already, since `pass` is searched for
_SEARCHED = tuple(name for name in _COMMANDS if name not in BY_NAME)
_ECHO = r"(?:echo|printf)\s{1,9}(?:-\w+\s{1,9}|\\{0,8}[\"']?%s(?:\\+n)?\\{0,8}[\"']?\s{1,9}){0,2}\\{0,8}[\"']?(?:\w+:)?(?P<v>[^\s\"'\\|<>]{4,512})\\{0,8}[\"']?\s{0,9}\|"


def _line_after(text: str, at: int) -> int:
    """End of the command that starts at `at`: of its line, with continued lines, and not behind 600 characters."""
    end = at
    while True:
        end = text.find("\n", end, at + 600)
        if end < 0:
            return min(len(text), at + 600)
        if text[end - 1] != "\\":
            return end
        end += 1


def find_commands(text: str, lower: str) -> Iterator[Span]:
    """Passwords among the arguments of all commands; `lower` is the text in lower case.

    A command is searched for again from the end of its line on. In a longer line it is from 200 characters on, since
    arguments are looked for in 600.
    """
    for name in _SEARCHED:
        if name not in lower:
            continue
        at = lower.find(name)
        while at >= 0:
            yield from command(name, text, at)
            at = lower.find(name, min(_line_after(text, at), at + 200))


def command(name: str, text: str, at: int) -> Iterator[Span]:
    """A password among the arguments of a command that takes it without a telling name."""
    end = min(_line_after(text, at), at + (120 if name in BY_NAME else 600))
    for found in compiled(_COMMANDS[name]).finditer(text, at, end):
        value = found["v"]
        plain = (
            name in _PLAIN and not shapes.is_placeholder(value) and not shapes.is_reference(value)
        )
        if plain or shapes.is_bare_secret(value, "password"):
            yield Span(*found.span("v"), "command-password")
    if name == "login":
        yield from _find_login(text, at)
    if name == "curl":
        for found in compiled(r"\s-b\s{0,9}\\{0,8}[\"']?(?P<v>[^\"'\n\\]{6,2048})").finditer(
            text, at, end
        ):
            yield from _cookie_values(text, *found.span("v"))


def piped(text: str, at: int) -> Iterator[Span]:
    """A password echoed into a command that reads it from standard input."""
    start = max(text.rfind("\n", 0, at) + 1, at - 400)
    for found in compiled(_ECHO).finditer(text, start, at):
        if not shapes.is_placeholder(found["v"]):
            yield Span(*found.span("v"), "command-password")
    given = compiled(r"[^\n]{0,100}<<<\s{0,9}" + _ARG).match(text, at)
    if given and not shapes.is_placeholder(given["v"]):
        yield Span(*given.span("v"), "command-password")


def _access_token(text: str, at: int) -> Iterator[Span]:
    """The value of a variable such as GITHUB_PAT."""
    found = compiled(r"_PAT\\{0,8}[\"']?\s?[:=]\s?" + _ARG).match(text, at)
    if found and shapes.is_bare_secret(found["v"]):
        yield Span(*found.span("v"), "token")


_IDENTIFIED = r"(?i:identified(?:\s+with\s+[\w'\"]{1,40})?\s+(?:by|as)\s{1,9}(?:password\s{1,9})?)\\{0,8}(?P<q>['\"])(?P<v>[^'\"\\\n]{4,256})"


def _identified(text: str, at: int) -> Iterator[Span]:
    """The password in SQL's `IDENTIFIED BY '…'`."""
    found = compiled(_IDENTIFIED).match(text, at)
    if found and not shapes.is_placeholder(found["v"]) and not shapes.is_reference(found["v"]):
        yield Span(*found.span("v"), "password")


_PGPASS = r":(?:\d{4,5}|\*):[\w*.-]{1,64}:[\w*.-]{1,64}:(?![a-z]{1,64}(?:\s|\\n|[\"'`]|$))(?P<v>[^\s:\"'`]{6,256})(?=\s|\\n|[\"'`]|$)"


def _pgpass(text: str, at: int) -> Iterator[Span]:
    """The password in a line of `.pgpass`: host:port:database:user:password."""
    found = compiled(_PGPASS).match(text, at if text[at] == ":" else max(0, at - 2))
    if found and not shapes.is_placeholder(found["v"]) and not shapes.is_reference(found["v"]):
        yield Span(*found.span("v"), "password")


_LOGIN = r"(?i:login):\s{1,9}[`*]{0,3}[\w.@+-]{1,64}[`*]{0,3}\s{1,9}/\s{1,9}[`*]{0,3}(?P<v>[^\s\"'`\\<>]{6,256})"


def _find_login(text: str, at: int) -> Iterator[Span]:
    """The second half of "Login: admin / …"."""
    found = compiled(_LOGIN).match(text, at)
    value = found["v"].rstrip("*.,;:)") if found else ""
    if found and shapes.is_bare_secret(value, "password"):
        yield Span(found.start("v"), found.start("v") + len(value), "password")


_FROM_LITERAL = r"--from-literal[= ]\\{0,8}[\"']?[\w.-]{1,128}=" + _ARG


def _find_literal(text: str, at: int) -> Iterator[Span]:
    """The value in `kubectl create secret generic x --from-literal=db=…`."""
    found = compiled(_FROM_LITERAL).match(text, at)
    if found and shapes.is_bare_secret(found["v"], "password"):
        yield Span(*found.span("v"), "command-password")


# What to search for, how far to go on from there before searching again, and who looks at the place.
ANCHORED: tuple[tuple[str, int, Finder], ...] = (
    ("-----begin", 10, _key_block),
    ("://", 3, _url),
    (":\\/\\/", 5, _url),
    ("bearer", 6, _bearer),
    ("basic", 5, _basic),
    ("cookie", 6, _cookies),
    ("sig=", 4, _signature),
    ("_pat", 4, _access_token),
    ("identified", 10, _identified),
    ("432:", 4, _pgpass),
    (":*:", 1, _pgpass),
    ("--from-literal", 14, _find_literal),
    ("sudo -s", 7, piped),
)
