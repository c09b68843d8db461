"""Secrets that follow a name: assignments, fields, flags, config files and sentences."""

from __future__ import annotations

from collections.abc import Iterator

from tasuki.draft.redact import patterns as shapes
from tasuki.draft.redact.calls import find_element_secrets, find_literal_at, find_named_call
from tasuki.draft.redact.finders import (
    BY_NAME,
    find_authorization,
    find_command_secret,
    find_piped_secret,
)
from tasuki.draft.redact.lines import find_below, read_block, read_column, read_manifest
from tasuki.draft.redact.patterns import SecretSpan, compile_once
from tasuki.draft.redact.private_keys import find_printed_key, find_xml_key

_LEFT = r"[A-Za-z0-9_.\-\u00df-\u00ff]{0,64}"
_RIGHT = r"[A-Za-z0-9_\-\u00df-\u00ff]*(?:\.[A-Za-z0-9_\-\u00df-\u00ff]+)*"


_NEVER_AFTER = frozenset(");}/@#&$%")  # what follows a name that gets no value there


def find_named(text: str, lower: str) -> Iterator[SecretSpan]:
    """Yield values of everything in the text whose name says that it is secret.

    `lower` is the text in lower case, with `?` for every character beyond Latin-1.
    """
    seen: set[int] = set()
    left, right = compile_once(_LEFT), compile_once(_RIGHT)
    for stem in shapes.STEMS:
        if stem not in lower:
            continue
        position = lower.find(stem)
        while position >= 0:
            end = right.match(text, position).end()  # type: ignore[union-attr]
            if (
                text[end : end + 1] not in _NEVER_AFTER
                and end not in seen
                and shapes.may_end_name(text[position:end])
            ):
                seen.add(end)
                start = position - left.match(text[max(0, position - 64) : position][::-1]).end()  # type: ignore[union-attr]
                yield from _find_after_name(text, start, end)
            position = lower.find(stem, max(end, position + 1))
    yield from _find_foreign(text, lower)


def _find_foreign(text: str, lower: str) -> Iterator[SecretSpan]:
    """Yield values after words for a password in other scripts, plain or in JSON's escapes."""
    if "\\u" not in lower and text.isascii():
        return
    ends = [found.end() for found in compile_once(shapes.ESCAPED).finditer(lower)]
    for run in compile_once(r"\?\?\?*").finditer(lower) if not text.isascii() else ():
        ends += [found.end() for found in compile_once(shapes.FOREIGN).finditer(text, *run.span())]
    for end in ends:
        yield from _find_in_sentence(text, end, "password") or _find_assigned(
            text, end, end, "", "password"
        )


_RESOURCE = r"\barn:[\w*:${}./-]{1,150}:$|\b[A-Z]\w{1,20}(?:::\w{1,60}){1,2}::$"
"""Before a word that is a part of a resource's name, `arn:aws:secretsmanager:…:secret:` or `AWS::IAM::AccessKey`."""


def _find_after_name(text: str, start: int, end: int) -> list[SecretSpan]:
    if text[start - 1 : start] == "\\" and text[start] in "ntr":
        start += 1
    if text.startswith("[REDACTED:", max(0, start - 10)) or (
        text[start - 1 : start] == ":"
        and compile_once(_RESOURCE).search(text, max(0, start - 160), start)
    ):
        return []
    name = text[start:end]
    end += 7 if text.startswith("\\u00f1a", end) else 0
    if found := find_named_call(text, name, end):
        return found
    at_word = _find_at_word(text, start, end, name)
    if at_word is not None:
        return at_word
    if plural := shapes.find_plural_kind(name):
        found = find_element_secrets(text, end, plural)
        if found or shapes.find_secret_kind(name) != "credentials":
            return found
    if name.endswith("auth") and (pair := compile_once(_AUTH_PAIR).match(text, end)):
        return _judge_word(pair["v"], pair.start("v"), "password")
    kind = shapes.find_secret_kind(name) or _find_kind_of_key(text, start, end, name)
    if kind == "credentials":
        found_pair = compile_once(_PAIR).match(text, end)  # "credentials: admin / …"
        spans = (
            _judge_word(found_pair["v"], found_pair.start("v"), "password") if found_pair else []
        )
        return spans or _find_assigned(text, start, end, name, "weak-key")
    if not kind:
        return []
    if kind == "pass":  # also a verb and a verdict of tests, `PASS: TestLogin`
        is_name = compile_once(r"\\{0,8}[\"']?\s?[:=]|\sis\s").match(text, end)
        if not is_name or text.startswith("PASS:", start):
            return read_column(text, start, end, "password")
        kind = "password"
    return _find_value(text, start, end, name, kind)


def _find_at_word(text: str, start: int, end: int, name: str) -> list[SecretSpan] | None:
    """Return secrets at a command, a manifest's kind or a standard-input flag. Return None at any other word."""
    if (program := name.lstrip("-+")) in BY_NAME:
        return list(find_command_secret(program, text, end))
    if name == "RSAKeyValue":
        return list(find_xml_key(text, end))
    if name.lower() == "private-key" and text.startswith(": (", end):
        return list(find_printed_key(text, end))
    if name == "Secret":
        return read_manifest(text, start, end) or None
    if name.lower() in ("chpasswd", "--password-stdin", "--with-token", "--passphrase-fd"):
        return list(find_piped_secret(text, start))
    return None


def _find_kind_of_key(text: str, start: int, end: int, name: str) -> str:
    """Return the kind of "API key" and the like, and of a `key` whose value is bytes, or long and random.

    Those are a key's own, not a name to look something up by.
    """
    if name.lower() != "key":
        return ""
    if text[start - 1 : start] == " " and compile_once(_OWNER).search(
        text[max(0, start - 11) : start]
    ):
        return "key"
    return "weak-key" if compile_once(f"{_BYTES}|{_ALONE}").match(text, end) else ""


def _find_value(text: str, start: int, end: int, name: str, kind: str) -> list[SecretSpan]:
    """Return the value that a name of this kind gets, in any notation."""
    if text[end : end + 1] in ("(", "{"):
        return find_literal_at(text, end, kind, "argument")
    found = _find_assigned(text, start, end, name, kind) or _find_reversed(text, start, kind)
    found = (
        found
        or find_element_secrets(text, end, kind)
        or find_literal_at(text, end, kind, "fallback")
    )
    found = found or read_block(text, end, kind) or read_column(text, start, end, kind)
    found = found or find_below(text, start, end, kind) or find_literal_at(text, end, kind, "typed")
    if not found and kind != "weak-key":
        found = _find_in_sentence(text, end, kind) or _find_spaced(text, start, end, name, kind)
    return found


_AUTH_PAIR = r"\s{0,9}[:=]\s{0,9}[(\[]\\{0,8}[\"'][^\"'\\\n]{1,64}\\{0,8}[\"'],\s{0,9}\\{0,8}[\"'](?P<v>[^\s\"'\\]{4,256})"
_REVERSED = r"(?P<v>[!-~]{6,256})[`\"']?\s(?:is|was)\s(?:the|my|our|your|its)\s(?:\w{1,20}\s)?$"


def _find_reversed(text: str, start: int, kind: str) -> list[SecretSpan]:
    """Return the value in "… is the password"."""
    position = max(0, start - 300)
    is_after = compile_once(r".*\b(?:is|was)\b").match(text, max(position, start - 36), start)
    if text[start - 1 : start] != " " or not is_after:
        return []
    found = compile_once(_REVERSED).search(text, position, start)
    word = found["v"].lstrip("`\"'") if found else ""
    return _judge_word(word, found.end("v") - len(word), kind) if found else []


_OWNER = r"(?i:api|secret|access|private|account|license|encryption|signing|master|auth|admin|webhook|hmac|session|cookie|storage|shared|pragma)[ ]$"


_BYTES = r"(?:[ ]?:[ ]?&?\[u8(?:;[ ]?\d{1,3})?\])?[ ]{0,9}:?=[ ]{0,9}(?:\[\]byte\(|[bB])(?=\\{0,8}[\"'`])"


_ALONE = r"\\{0,8}[\"']?[ ]?[:=][ ]?\\{0,8}[\"']?(?!MII|AAAA)(?=[^a-z]{0,80}[a-z])(?=[^A-Z]{0,80}[A-Z])[A-Za-z0-9+/_]{32,90}={0,2}(?![\w.:/-])"


# ---- name = value --------------------------------------------------------------------------------------------------

_VALUE = (
    r"(?:[bruBRU@L]?(?:(?:SecretStr|Some|String(?:::from)?|Buffer\.from|JSON\.stringify|str|bytes|Secret|Field|\[\]byte|new \w{1,30})\((?:default=)?)?"
    r"(?P<q>\\{0,8}(?:\"(?P<v1>[^\"\\\n]{1,1024})|'(?P<v2>[^'\\\n]{1,1024})|`(?P<v3>[^`\\\n]{1,1024})|%[qQ][({\[](?P<v4>[^\s(){}\[\]\\]{1,512})))"
    r"|(?P<bare>[^\s\"'`\\]{4,1024}))"
)
_ASSIGN = (
    r"(?P<close>\\{0,8}[\"'`]?\]?|\*\*|\[\d{0,5}\])(?:[ \t]?(?:\([^()\n]{1,40}\)|\[(?:None|\*+\w{0,4})\]))?[?!]?"
    r"(?P<op>:[ ]{0,9}(?:&?\[u8(?:;[ ]?\d{1,3})?\]|&?(?:'\w{1,9}[ ])?[A-Za-z][\w.<>|\[\] ?]{0,40}?)[ ]=(?![=>])|[ ]\{[ ]get;[a-z; ]{0,40}\}[ ]=|[ ](?:As[ ])?\*{0,2}\w{1,20}[ ]:?=(?=[ ]?\\{0,8}[\"'`])|[ \t]{0,40}(?:<<<|:=|=>|={1,3}|[!?:+]=|:(?!:)|：|>|,|\|))"
    r"(?P<gap>\*{0,2}[ \t]{0,40})" + _VALUE
)


def _find_assigned(text: str, start: int, end: int, name: str, kind: str) -> list[SecretSpan]:
    """Return the value in `name = value`: in shell, YAML, JSON, XML, code, a header, a query, a table."""
    found = compile_once(_ASSIGN).match(text, end)
    if not found:
        return []
    op = found["op"].strip()
    if not _is_assignment(text, start, found["close"], op, found["q"]):
        return []
    if found["q"]:
        group = next(g for g in ("v1", "v2", "v3", "v4") if found[g])
        is_clear = group != "v3" and not name.lower().endswith("pass")
        return _judge_literal(found[group], found.start(group), name, kind, is_clear=is_clear)
    bare, place = found["bare"], found.start("bare")
    compact = found["op"] in ("=", ":") and not found["gap"]
    is_element = found["op"] == ">" and text.startswith("</", place + len(bare.partition("<")[0]))
    if is_element or (found["op"] == "=" and compact and text.startswith("--", start)):
        value = _cut_value(bare, shell=False, query=False)
        if spans := _judge_literal(value, place, name, kind, is_clear=True):
            return spans
    query, loose = text[start - 1 : start] in ("?", "&"), compact or op != "="
    return _judge_bare(text, place, bare, name, kind, compact=compact, loose=loose, query=query)


_LISTED = r"[\"'`],(?:\s|\\n){0,60}\\{0,8}[\"'`]$"
"""Before a word that is one of a list of words in quotes, not the name of what follows."""


def _is_assignment(text: str, start: int, close: str, op: str, quoted: str | None) -> bool:
    if op == ",":
        is_listed = compile_once(_LISTED).search(text, max(0, start - 72), start)
        is_value = text[max(0, start - 12) : start].rstrip("\"'` \\").endswith((":", "="))
        is_tuple = text[start - 1 : start] == "{" or (close.strip("\\]") and not is_value)
        return bool(is_tuple) and quoted is not None and not is_listed
    if op == ">":
        key = compile_once(r"(?:key|name|id)=\\{0,8}[\"']$")
        attribute = key.search(text, max(0, start - 16), start)
        return bool(close and attribute) or (text[start - 1 : start] in ("<", ":") and not close)
    return op not in ("==", "===", "!=") or quoted is not None


def _judge_literal(
    value: str, position: int, name: str, kind: str, *, is_clear: bool = False
) -> list[SecretSpan]:
    """Return a span for a quoted value, if it is a secret; of a clear name that may be a plain word."""
    if kind == "authorization" and not shapes.is_stand_in(value):
        return find_authorization(value, position, name)
    good = shapes.is_literal_secret(value, kind) and not (name.lower() == "pass" and " " in value)
    good = good or (
        is_clear
        and kind == "password"
        and shapes.is_plain_password(value)
        and not shapes.is_stand_in(value)
    )
    return [SecretSpan(position, position + len(value), shapes.simplify_kind(kind))] if good else []


def _judge_bare(
    text: str,
    position: int,
    value: str,
    name: str,
    kind: str,
    *,
    compact: bool,
    loose: bool,
    query: bool,
) -> list[SecretSpan]:
    """Return a span for a value without quotes.

    `compact` is `NAME=value`, where a plain word counts as well; `loose` is any notation but
    the code's `name = value`.
    """
    if kind == "authorization":
        line = text[position : text.find("\n", position) % (len(text) + 1)][:2048]
        return find_authorization(line, position, name)
    if shapes.is_run_on(value):
        return []
    shell = compact and name.isupper()
    value = _cut_value(value, shell=shell, query=query)
    end = position + len(value)
    if text[end : end + 1] in ("(", "[") or shapes.is_stand_in(value):
        return []
    if kind == "weak-key":
        good = shapes.is_weak_key_value(value)
    elif shell:
        is_chain = kind != "password" and not value.isalpha()
        good = shapes.is_plain_password(value, is_chain=is_chain)
    else:
        is_plain = kind == "password" and loose
        good = is_plain and shapes.is_plain_password(value, is_chain=True)
    if kind != "weak-key":
        good = good or shapes.is_hard(value, kind if loose else "")
    return [SecretSpan(position, end, shapes.simplify_kind(kind))] if good else []


_AMPERSAND = r"&(?:\w+=|(?:quot|apos|[lr][ds]quo|[lg]t|nbsp|#\d{2,4})\b)"
"""Before the next parameter of an address, or a character as HTML writes it."""


def _cut_value(value: str, *, shell: bool, query: bool) -> str:
    """Return the value without what follows it on the line. That is separators, closing brackets, the next parameter."""
    if query:
        return compile_once(r"[^&#,;<>(){}\[\]|]*").match(value).group()  # type: ignore[union-attr]
    stop = r"&&|\|\||;\w|[<>]" if shell else r"[,;<>(){}\[\]|]"
    found = compile_once(f"{stop}|{_AMPERSAND}").search(value)
    return (value[: found.start()] if found else value).rstrip(".,;:)]}")


# ---- sentences -----------------------------------------------------------------------------------------------------

_SENTENCE = (
    r"(?:\*\*)?(?:\s{1,9}(?:for|FOR|of|to|on|in|at|from|für|f\\u00fcr|pour|para|de|del|von|zum|auf)\s[^\n.:;,=|`\"']{1,60}?|\s{0,9}\([^()\n]{1,40}\))?"
    r"(?:\s{1,9}(?:is|was|are|will\sbe|should\sbe|now|ist|lautet|war|est|es|é|è|\\u00e[89]|to|as|equals)(?:\s{1,9}(?:now|still|currently|just|actually))?(?=[\s:])\s{0,9}:?|\s{0,9}[:：=]|(?P<dash>\s[-–—]\s)|は|是|为|為|는|은|\\u(?:306f|662f|4e3a|ff1a|b294))"
    r"(?:\s|\\n){0,9}\*{0,2}(?:\\{0,8}[\"'`“‘«「](?P<quoted>[^\"'`”’»」\\\n]{4,200})|(?P<bare>[!-~\u00c0-\u024f\u0370-\u052f]{4,512}))"
)


_ASKED = (
    r"[^\n?？\"`]{0,60}[?？](?:\",[ ]the[ ]user[ ]answered[ ]|\\{0,8}\"=|(?:\s|\\n){1,9}(?:[>❯›][ ])?)"
    r"(?:\\{0,8}[\"'`](?P<quoted>[^\"'`\\\n]{4,200})[\"'`\\]|(?P<bare>[!-~\u00c0-\u024f\u0370-\u052f]{4,512})(?=[ ]{0,9}(?:\n|\\n|[\"']|$)))"
)
"""After a name in a question: what is alone on the line below, or the answer in a thread's words."""


def _find_in_sentence(text: str, end: int, kind: str) -> list[SecretSpan]:
    """Return the value in "the password for staging is …", in a few languages."""
    if text[end : end + 1] in ('"', "'"):
        return []
    found = compile_once(_SENTENCE).match(text, end) or compile_once(_ASKED).match(text, end)
    if not found:
        return []
    if found["quoted"]:
        is_answer = "dash" not in found.groupdict()
        return _judge_literal(found["quoted"], found.start("quoted"), "", kind, is_clear=is_answer)
    if found.groupdict().get("dash") and not shapes.is_random(found["bare"]):
        return []
    return _judge_word(found["bare"], found.start("bare"), kind)


def _judge_word(value: str, position: int, kind: str) -> list[SecretSpan]:
    """Return a span for a bare word of a sentence, without the punctuation that follows it."""
    if shapes.is_run_on(value):
        return []
    word = compile_once(r"[^\"'`<>\\]*").match(value).group()  # type: ignore[union-attr]
    cut = _cut_value(word, shell=False, query=False)
    called, value = word[len(cut) : len(cut) + 1] in ("(", "["), cut.rstrip("!?*")
    good = shapes.is_bare_secret(value, kind) or (
        kind == "password" and shapes.is_plain_password(value, is_chain=True)
    )
    return [SecretSpan(position, position + len(value), kind)] if good and not called else []


_PAIR = r"\\{0,8}[\"'`]?(?:\s{0,9}(?:are|is|:|=)\s{0,9}|[ \t]{0,9})[\"'`]?(?!(?:None|null|nil|undefined|[Tt]rue|[Ff]alse)\b)[\w.@+-]{1,64}[\"'`]?(?:\s{0,9}[/:]\s{0,9}|\s{0,9},\s{1,9}|\s{1,9}and\s{1,9})(?:\\{0,8}[\"'`])?(?P<v>(?![A-Za-z_]\w*=[^=\s])[^\s\"'`\\<>]{6,256})"


# ---- name, space, value --------------------------------------------------------------------------------------------

_SPACED = r"[ \t]{1,40}(?:--?(?:body|value|b|v)[ =])?(?:\\{0,8}[\"'`](?P<quoted>[^\"'`\\\n]{4,512})|(?P<bare>[^\s\"'`\\<>|;]{4,512}))"
_SETTER = r"(?i:(?:\b|\\n)login\s{1,9}\S{1,128}\s{1,9}|(?:\b|\\n)(?:set|env|setx|put|config|set_header|add_header|proxy_set_header|header)\s{1,9}(?:-\w+\s{1,9}){0,3}(?://\S{1,100}:)?)$"
_MACHINE = r"(?:(?:\b|\\n)machine\s{1,9}(?:\S{0,99}[.:\d]\S{0,99}|localhost)|(?:(?<![^\n])|\\n)default)\s{1,9}login\s{1,9}\S{1,128}\s{1,40}$"
_NEXT_LINE = (
    r"\\{0,8}[\"']?(?:\s|,|\\n){1,40}\\{0,8}[\"']?value\\{0,8}[\"']?\s{0,9}[:=]\s{0,9}" + _VALUE
)


_TAGGED = r"\\{0,8}[\"']\s{0,9}>(?:\s|\\[nt]){0,60}<value>" + _VALUE
_ELEMENT_BELOW = r"\s{0,20}</(?:name|key)>(?:\s|\\[nt]){0,60}<(?:value|string)>" + _VALUE
_OPTION = r"\\{0,8}[\"'],[^()]{0,200}?\bdefault\s{0,9}[:=]\s{0,9}" + _VALUE
_DEFAULT = r"\\{0,8}[\"']\s{0,9}\{[^{}]{0,200}?default\s{0,9}=\s{0,9}" + _VALUE


def _find_spaced(text: str, start: int, end: int, name: str, kind: str) -> list[SecretSpan]:
    """Return the value after a name and a blank.

    The name is a flag, `ENV NAME`, `set name`, .netrc's `password`, SQL's PASSWORD, or a
    manifest's `name:`.
    """
    before = text[max(0, start - 160) : start]
    if before.endswith((": ", '"', "'", ">")):
        return _find_next_line(text, before, end, name, kind)
    found = compile_once(_SPACED).match(text, end)
    if not found:
        return []
    if value := found["quoted"]:
        is_hard = shapes.is_hard(value) or shapes.is_phrase(value)
        is_hard = is_hard and not before.lower().endswith("unexpected ")
        return _judge_literal(value, found.start("quoted"), name, kind) if is_hard else []
    if compile_once(_MACHINE).search(before) and not shapes.is_placeholder(found["bare"]):
        return [SecretSpan(*found.span("bare"), kind)]
    spans = _judge_word(found["bare"], found.start("bare"), kind)
    return spans if spans and _is_value(before, name, kind, found["bare"]) else []


def _is_value(before: str, name: str, kind: str, value: str) -> bool:
    """Return whether a word after a name is its value. It is after a flag, a setter or a login, or random beyond doubt."""
    if name.startswith("-") or name.lower() in ("requirepass", "masterauth", "bindpw", "rootpw"):
        return True
    if shapes.is_random(value) if kind == "password" else shapes.is_weak_key_value(value):
        return True
    if compile_once(_SETTER).search(before):
        return True
    # A digit and a symbol or an inner capital, unlike words of prose.
    mixed = compile_once(r"(?=\D*\d)(?:\w+[!#$%&*?@^+]|.*[a-z0-9][A-Z])").match(value)
    return kind == "password" and bool(mixed and compile_once(_WITH).search(before))


_WITH = r"(?i:\b(?:with|using|and|as \S{1,64},?)\s(?:the\s)?)$"


def _find_next_line(text: str, before: str, end: int, name: str, kind: str) -> list[SecretSpan]:
    """Return the value of a manifest's `- name: DB_PASSWORD` / `value: …`."""
    if compile_once(r"(?i:name|key)\\{0,8}[\"']?\s{0,9}[:=]\s{0,9}\\{0,8}[\"']?$").search(before):
        found = compile_once(_NEXT_LINE).match(text, end)
        found = found or compile_once(_TAGGED).match(text, end)
    elif compile_once(r"<(?:name|key)>\s{0,20}$").search(before):
        found = compile_once(_ELEMENT_BELOW).match(text, end)
    elif compile_once(r"variable\s\\{0,8}[\"']$").search(before):
        found = compile_once(_DEFAULT).match(text, end)
    elif compile_once(r"(?:argument|option)\([^()]{0,60}\\{0,8}[\"']$").search(before):
        found = compile_once(_OPTION).match(text, end)
    else:
        return []
    if not found:
        return []
    group = next(g for g in ("v1", "v2", "v3", "v4", "bare") if found[g])
    if group == "bare":
        value, at = found[group], found.start(group)
        return _judge_bare(text, at, value, name, kind, compact=False, loose=True, query=False)
    return _judge_literal(found[group], found.start(group), name, kind, is_clear=group != "v3")
