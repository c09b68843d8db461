"""Find secrets without a name: issued tokens, key blocks, addresses, headers, commands."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterator
from functools import partial

from tasuki.draft.redact import patterns as shapes
from tasuki.draft.redact import private_keys
from tasuki.draft.redact.patterns import SecretSpan, compile_once

_SCHEME = r"(?i:(?P<scheme>[a-z][\w-]{1,20})[ ]+)?(?P<v>[A-Za-z0-9._~+/=:-]{8,4096})"


SecretFinder = Callable[[str, int], Iterator[SecretSpan]]

_URL = (
    r":(?:\\?/){2}(?:(?P<user>[^\s/@:?#\"'`<>\\]{0,128}):(?P<pw>(?!(?:\d{1,5}|port)/)[^\s\"'`<>\\]{1,256})@(?=[\w.\[{$-])"
    r"|(?:hooks\.slack\.com|hooks\.slack-gov\.com)(?:\\?/)(?:services|workflows|triggers)(?:\\?/)(?P<slack>[\w/\\-]{20,200})"
    r"|(?:\w+\.)?discord(?:app)?\.com(?:\\?/)api(?:\\?/)(?:v\d+(?:\\?/))?webhooks(?:\\?/)(?P<discord>\d{15,22}(?:\\?/)[\w-]{40,100})"
    r"|hooks\.zapier\.com(?:\\?/)hooks(?:\\?/)catch(?:\\?/)(?P<zapier>\d{3,12}(?:\\?/)\w{5,40})"
    r"|[\w.-]{1,100}\.webhook\.office\.com(?:\\?/)webhookb2(?:\\?/)(?P<teams>[^\s\"'`<>]{20,400}))"
)


def _find_url_secret(text: str, position: int) -> Iterator[SecretSpan]:
    """Yield a password in an address, or an address that is a secret itself: an incoming webhook."""
    found = compile_once(_URL).match(text, position)
    if not found:
        return
    if found["pw"] is None:
        kind = found.lastgroup or ""
        if any(map(str.isdigit, found[kind])):
            yield SecretSpan(*found.span(kind), f"{kind}-webhook")
    elif found["pw"].isalpha() and found["pw"].isupper():
        return  # the name of what belongs there
    elif not shapes.is_placeholder(found["pw"]) and found["pw"] != found["user"]:
        yield SecretSpan(*found.span("pw"), "url-password")


_BEARER = (
    r"(?i:bearer)(?:\s{1,9}|%20|\\?[\"']?\s{0,9}[:=]\s{0,9}\\?[\"']?)(?P<v>[^\s\"'\\`<>,;]{8,4096})"
)
_BASIC = r"(?i:basic)\s{1,9}(?P<v>[A-Za-z0-9+/_-]{8,1024}={0,2})"


def is_basic_auth(value: str) -> bool:
    """Return whether the value is base64 of `user:password`."""
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


def _find_cookies(text: str, position: int) -> Iterator[SecretSpan]:
    """Yield the values of session-like cookies in a Cookie or Set-Cookie header, and after a --cookie flag."""
    found = compile_once(_COOKIES).match(text, position)
    if found and "=" in found["v"]:
        yield from _find_cookie_values(text, *found.span("v"))


def _find_cookie_values(text: str, start: int, end: int) -> Iterator[SecretSpan]:
    for found in compile_once(_COOKIE).finditer(text, start, end):
        if shapes.is_bare_secret(found["v"]):
            yield SecretSpan(*found.span("v"), "cookie")


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
    "zip -": r"\s-P[ ]?" + _ARG,
    "sqlcmd": r"\s-P\s{0,9}" + _ARG,
    "snowsql": r"\s-p\s{1,9}" + _ARG,
    "smbclient": r"\s(?:-U|--user)[ =]?\\{0,8}[\"']?[^\s%\"'\\]{1,64}%" + _ARG,
    "sqlplus": r"\s[\w.]{1,64}/(?P<v>[^\s\"'\\|<>@/]{4,512})(?=@|\s|$)",
    "rabbitmqctl": r"\s(?:add_user|change_password)\s{1,9}\S{1,64}\s{1,9}" + _ARG,
    "mc alias set": r"\salias\sset\s{1,9}\S{1,64}\s{1,9}\S{1,200}\s{1,9}\S{1,128}\s{1,9}" + _ARG,
    "net use": r"\s(?:\w:|\*)?\s{0,9}\\{2,16}[^\s\\]{1,64}\\{1,8}\S{1,64}\s{1,9}(?!/)" + _ARG,
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
)  # programs whose flag means nothing else, so that a word counts as well
BY_NAME = ("sshpass", "htpasswd")  # already found as names, since `pass` is searched for
_WITHOUT_FLAG = ("sqlplus", "rabbitmqctl", "mc alias set", "net use")
_FLAG = r"-(?<=\s-)(-user|-auth|-proxy-user|[abknpuw])"
_PROGRAMS = {
    "p": ("mysql", "mariadb", "mongo", "7z", "zip -", "sqlcmd", "snowsql", "ssh-keygen", "login"), "n": ("ssh-keygen",),
    "u": ("curl", "lftp", "smbclient"), "-user": ("curl", "lftp", "smbclient"), "-proxy-user": ("curl",), "b": ("curl",),
    "a": ("http -", "redis-cli"), "-auth": ("http -",), "w": ("ldap",), "k": ("openssl",),
}  # fmt: skip
"""The programs of which a flag takes a password."""
_ECHO = r"(?:echo|printf)\s{1,9}(?:-\w+\s{1,9}|\\{0,8}[\"']?%s(?:\\+n)?\\{0,8}[\"']?\s{1,9}){0,2}\\{0,8}[\"']?(?:\w+:)?(?P<v>[^\s\"'\\|<>]{4,512})\\{0,8}[\"']?\s{0,9}\|"


def _find_command_end(text: str, position: int) -> int:
    """Return the end of the command that starts at `position`.

    It is the end of its line, with continued lines, at most 600 characters on.
    """
    end = position
    while True:
        end = text.find("\n", end, position + 600)
        if end < 0:
            return min(len(text), position + 600)
        if text[end - 1] != "\\":
            return end
        end += 1


def find_commands(text: str, lower: str) -> Iterator[SecretSpan]:
    """Yield passwords among the arguments of all commands; `lower` is the text in lower case.

    A flag that may be before one is looked for first, and then the program before that. The
    search continues at the end of a command, in a longer line after 200 characters, since
    arguments are looked for in 600.
    """
    following: dict[str, int] = {}
    for flag in compile_once(_FLAG).finditer(lower):
        start, end = max(0, flag.start() - 600), flag.start() + 1
        for name in _PROGRAMS[flag[1]]:
            position = lower.rfind(name, start, end)
            if position >= following.get(name, 0):
                following[name] = min(_find_command_end(text, position), position + 200)
                yield from find_command_secret(name, text, position)
    for name in _WITHOUT_FLAG:
        position = lower.find(name) if name in lower else -1
        while position >= 0:
            yield from find_command_secret(name, text, position)
            position = lower.find(name, min(_find_command_end(text, position), position + 200))


def find_command_secret(name: str, text: str, position: int) -> Iterator[SecretSpan]:
    """Yield a password among the arguments of a command that takes it without a telling name."""
    end = min(_find_command_end(text, position), position + (120 if name in BY_NAME else 600))
    for found in compile_once(_COMMANDS[name]).finditer(text, position, end):
        value = found["v"]
        plain = name in _PLAIN and not shapes.is_stand_in(value)
        is_file = value.lower().endswith(("file", "key"))
        if (plain and not is_file) or shapes.is_bare_secret(value, "password"):
            yield SecretSpan(*found.span("v"), "command-password")
    if name == "curl":
        cookies = compile_once(r"\s-b\s{0,9}\\{0,8}[\"']?(?P<v>[^\"'\n\\]{6,2048})")
        for found in cookies.finditer(text, position, end):
            yield from _find_cookie_values(text, *found.span("v"))


def find_piped_secret(text: str, position: int) -> Iterator[SecretSpan]:
    """Yield a password echoed into a command that reads it from standard input."""
    start = max(text.rfind("\n", 0, position) + 1, position - 400)
    for found in compile_once(_ECHO).finditer(text, start, position):
        if not shapes.is_placeholder(found["v"]):
            yield SecretSpan(*found.span("v"), "command-password")
    given = compile_once(r"[^\n]{0,100}<<<\s{0,9}" + _ARG).match(text, position)
    if given and not shapes.is_placeholder(given["v"]):
        yield SecretSpan(*given.span("v"), "command-password")


_IDENTIFIED = r"(?=%s)(?i:identified(?:\s+by|\s+with\s+[\w'\"]{1,40}\s+(?:by|as))\s{1,9}(?:password\s{1,9})?)\\{0,8}(?P<q>['\"])(?P<v>[^'\"\\\n]{4,256})"


_PGPASS = r":(?:\d{4,5}|\*):[\w*.-]{1,64}:[\w*.-]{1,64}:(?![a-z]{1,64}(?:\s|\\n|[\"'`]|$))(?P<v>[^\s:\"'`]{6,256})(?=\s|\\n|[\"'`]|$)"


def _find_pgpass(text: str, position: int) -> Iterator[SecretSpan]:
    """Yield the password in a line of `.pgpass`: host:port:database:user:password."""
    start = position if text[position] == ":" else max(0, position - 2)
    found = compile_once(_PGPASS).match(text, start)
    if found and not shapes.is_stand_in(found["v"]):
        before = max(0, position - 90), found.start()
        if not compile_once(r"\barn:[\w*:-]{1,80}$").search(text, *before):
            yield SecretSpan(*found.span("v"), "password")


_LOGIN = r"(?i:log-?[ ]?in|sign[ ]in)(?::|[ ](?:with|as))\s{1,9}[`*]{0,3}[\w.@+-]{1,64}[`*]{0,3}\s{1,9}/\s{1,9}[`*]{0,3}(?P<v>[^\s\"'`\\<>]{6,256})"


_FROM_LITERAL = r"--from-literal[= ]\\{0,8}[\"']?[\w.-]{1,128}=" + _ARG


_GIVEN = (
    r"(?i:log|sign)[ ]in(?:[ ](?:with|as)[ ][\w@.-]{1,40})?:(?:\s|\\n){1,9}"
    + _ARG
    + r"(?=[\"'`.,]?(?:\s|\\n|$))"
)
_USED = r"(?i)\buse[ ][`\"']?(?P<v>[!-~]{6,256}?)[`\"']?[ ]to[ ]$"


def _find_given(text: str, position: int) -> Iterator[SecretSpan]:
    """Yield the word after "use this to log in:", and before it in "use … to log in"."""
    found = compile_once(_GIVEN).match(text, position)
    found = found or compile_once(_USED).search(text, max(0, position - 300), position)
    value = found["v"].rstrip(".,;`") if found else ""
    if found and _is_password(value):
        yield SecretSpan(found.start("v"), found.start("v") + len(value), "password")


def _find_at_place(
    text: str, position: int, pattern: str, kind: str, judge: Callable[[str], bool], ends: str
) -> Iterator[SecretSpan]:
    found = compile_once(pattern).match(text, position)
    value = found["v"].rstrip(ends) if found and ends else found["v"] if found else ""
    if found and judge(value):
        yield SecretSpan(found.start("v"), found.start("v") + len(value), kind)


def _is_password(value: str) -> bool:
    return shapes.is_bare_secret(value, "password")


def _is_not_stand_in(value: str) -> bool:
    return not shapes.is_stand_in(value)


def _place(
    anchor: str, step: int, pattern: str, kind: str, judge: Callable[[str], bool], ends: str = ""
) -> tuple[str, int, SecretFinder]:
    """Build the row of what stands at a pattern; `ends` are characters behind a value."""
    finder = partial(_find_at_place, pattern=pattern, kind=kind, judge=judge, ends=ends)
    return anchor, step, finder


_SESSION_ID = (
    r"(?i:session_id)\\{0,8}[\"']?\s?[:=]\s?\\{0,8}[\"']?(?P<v>[A-Za-z0-9+/=%._]{24,4096})(?![\w-])"
)
_CRYPT = r":(?P<v>\$(?:apr1|[1567y]|2[abxy]|gy|argon2\w{0,2}|scrypt)\$[./A-Za-z0-9$=,+-]{20,400})"
_COOKIE_ROW = r"(?i:e)\t/[^\t\n]{0,200}\t(?i:true|false)\t\d{1,12}\t[\w.-]{0,40}(?:sess|sid|auth|token|jwt|csrf|xsrf|login|cookie)[\w.-]{0,40}\t(?P<v>[^\s]{8,4096})"
_WALLET = r"(?i)(?:mnemonic|phrase)\W{1,9}(?:(?:is|was|are)\W{1,4})?(?P<v>(?:[a-z]{3,8}[\s,]{1,3}){11}(?:(?:[a-z]{3,8}[\s,]{1,3}){3}){0,4}[a-z]{3,8})\b"
"""The twelve or more words that open a wallet."""

# What to search for, how far to move on before searching again, and the finder for the place.
ANCHORED: tuple[tuple[str, int, SecretFinder], ...] = (
    ("begin", 5, private_keys.find_armoured_key),
    ("-----end", 8, private_keys.find_key_end),
    ("private-lines:", 14, private_keys.find_putty_key),
    ('"kty', 4, private_keys.find_web_key),
    ("'kty", 4, private_keys.find_web_key),
    ("inverseq", 8, private_keys.find_xml_key),
    _place("login", 5, _LOGIN, "password", _is_password, "*.,;:)"),
    ("://", 3, _find_url_secret),
    (":\\/\\/", 5, _find_url_secret),
    _place("bearer", 6, _BEARER, "bearer", shapes.is_bare_secret, ".)}"),
    _place("basic", 5, _BASIC, "basic-auth", is_basic_auth),
    ("cookie", 6, _find_cookies),
    _place("sig=", 4, r"(?<![^\W_])(?i:sig)=(?P<v>[A-Za-z0-9%+/_-]{20,200}={0,2})", "sas-signature", bool),
    _place("signature=", 9, r"(?:(?<=(?i:x-amz-))|(?<=(?i:x-goog-)))(?i:signature)=(?P<v>[0-9A-Fa-f]{40,1100})(?![0-9A-Za-z])", "url-signature", bool),
    _place("_pat", 4, r"_PAT\\{0,8}[\"']?\s?[:=]\s?" + _ARG, "token", shapes.is_bare_secret),
    _place("identified", 10, _IDENTIFIED % "I", "password", _is_not_stand_in),
    _place("identified", 10, _IDENTIFIED % "i", "password", shapes.is_bare_secret),
    ("432:", 4, _find_pgpass),
    (":*:", 1, _find_pgpass),
    _place("--from-literal", 14, _FROM_LITERAL, "command-password", _is_password),
    ("sudo -s", 7, find_piped_secret),
    _place("convertto-securestring", 2, r"(?i:convertto-securestring)\s{1,9}(?:-String\s{1,9})?" + _ARG, "password", _is_password),
    _place("session_id", 2, _SESSION_ID, "cookie", shapes.is_weak_key_value),
    _place(":$", 2, _CRYPT, "password", bool),
    _place("e\t/", 2, _COOKIE_ROW, "cookie", _is_password),
    ("log in", 6, _find_given),
    ("sign in", 7, _find_given),
    _place("log in", 6, _LOGIN, "password", _is_password, "*.,;:)"),
    _place("sign in", 7, _LOGIN, "password", _is_password, "*.,;:)"),
    _place("mnemonic", 8, _WALLET, "password", str.islower),
    _place("phrase", 6, _WALLET, "password", str.islower),
)  # fmt: skip


def find_authorization(value: str, position: int, name: str) -> list[SecretSpan]:
    """Return the credentials of an Authorization header or a registry's `auth` field."""
    found = compile_once(_SCHEME).match(value)
    if not found:
        return []
    if name.strip("-_").lower() == "auth" and not is_basic_auth(found["v"]):
        return []
    scheme = (found["scheme"] or "").lower()
    if scheme.startswith("aws4") or not (
        is_basic_auth(found["v"]) or shapes.is_bare_secret(found["v"])
    ):
        return []
    return [SecretSpan(position + found.start("v"), position + found.end("v"), "authorization")]
