"""Private keys: armoured ones (PEM, OpenSSH, PGP) wherever they are quoted, PuTTY's, JSON Web Keys, XML and printed ones.

A key may be beside prose, on one line, in a list or a string, quoted, numbered, in a diff, and cut at
either end. What is replaced begins and ends with the key; the words around it stay.
"""

from __future__ import annotations

from collections.abc import Iterator

from tasuki.draft.redact import patterns as shapes
from tasuki.draft.redact.patterns import SecretSpan, compile_once

_BLANK = r"(?:[ +]|%20)"  # also in an address
_LABEL = rf"(?:[A-Z0-9]+{_BLANK}){{0,4}}(?:PRIVATE|SECRET){_BLANK}KEY(?:{_BLANK}BLOCK)?|OpenVPN Static key V1"
_BEGIN = rf"-{{4,5}} ?BEGIN{_BLANK}(?:{_LABEL}) ?-{{4,5}}"
_END = rf"-{{4,5}} ?END{_BLANK}(?:{_LABEL}) ?-{{4,5}}"
_ANY_MARK = r"-{4,5} ?(?:BEGIN|END)[ +%][A-Za-z0-9 +%]{1,60}-{4,5}"
_HEADER = (
    r"(?:\s|\\+[nrt]|[\"'`,>|#*+-]|\d{1,6}[→:|\t])*"
    r"(?:Proc-Type: ?4,ENCRYPTED|DEK-Info: ?[A-Z0-9-]{3,30}(?:,[0-9A-Fa-f]{8,64})?|(?:Version|Comment|Charset|Hash|Subject|MessageID|x-[\w-]{1,30}): ?(?:(?!\s{2}|[A-Za-z0-9+/=]{40})[^\n\\]){0,200})"
)
_RUN = r"(?:[A-Za-z0-9+/]|%2[BFbf])+(?:=|%3[Dd]){0,2}"
_GAP = r"(?:\s|%0[AD]|\\+[nrtu]|[\"'`,>|#*;.:→\\\[\]()+-]){0,80}"
"""What is between two lines of a key: its break, also an escaped one, and marks of a list, a quotation, a string, a diff."""
_LINE = 16  # characters of a line of a key at least, but for its last one
_LONGEST = 200_000  # characters of a key


def find_armoured_key(text: str, position: int) -> Iterator[SecretSpan]:
    """Yield the key at a mark of its beginning, whole or cut short; `position` is that of its `BEGIN`."""
    before = compile_once(r"-{4,5} ?$").search(text, max(0, position - 6), position)
    begin = compile_once(_BEGIN).match(text, before.start()) if before else None
    if not begin:
        return
    position = begin.start()
    mark = compile_once(_ANY_MARK).search(text, begin.end(), begin.end() + _LONGEST)
    if mark and compile_once(_END).match(text, mark.start()):
        inside = text[begin.end() : mark.start()]
        runs = [run for run in compile_once(_RUN).findall(inside) if len(run) >= _LINE]
        in_runs = len(inside) - len(compile_once(_RUN).sub("", inside))
        if any(map(_is_key_line, runs)) and sum(map(len, runs)) * 3 > in_runs:  # Mostly a key.
            yield SecretSpan(position, mark.end(), "private-key")
            return
    start = begin.end()
    while header := compile_once(_HEADER).match(text, start):
        start = header.end()
    end = extend_key(text, start)
    if end > start:
        yield SecretSpan(position, end, "private-key")


def _is_key_line(run: str) -> bool:
    is_long = len(run) >= 40 and not run.islower()
    return len(run) >= _LINE and (is_long or shapes.is_random(run, often=10))


def extend_key(text: str, start: int) -> int:
    """Return the end of the lines of a key that continue at `start`, which is returned if there are none."""
    end, limit = start, min(len(text), start + _LONGEST)
    position = start
    while True:
        gap = compile_once(_GAP).match(text, position, limit)
        position = gap.end() if gap else position
        run = compile_once(_RUN).match(text, position, limit)
        if not run:
            return end
        if _is_key_line(run.group()):
            end = run.end()
        elif len(run.group()) <= 6 and run.group().isdigit():
            pass  # the number of a line
        else:  # What is left of a key is alone on a line of its own, or has `=` at its end.
            between, after = text[end : run.start()], text[run.end() : run.end() + 2]
            is_new = "\n" in between or "\\n" in between
            is_alone = after[:1] in ("", "\n", "\r", '"', "'", "`") or after == "\\n"
            is_rest = is_new and is_alone and any(map(str.isdigit, run.group()))
            is_rest = is_rest or text[run.end() - 1] == "="
            return run.end() if end > start and is_rest else end
        position = run.end()


def find_key_end(text: str, position: int) -> Iterator[SecretSpan]:
    """Yield the lines of a key before a mark of its end, where the mark of its beginning is cut off."""
    mark = compile_once(_END).match(text, position)
    if not mark:
        return
    start = position
    word_of_line = compile_once(r"(?:(?!\\n|%0[AD])[^\s])+")
    for word in reversed(list(word_of_line.finditer(text, max(0, position - 8000), position))):
        bare = word.group().removesuffix("\\").strip("\"'`,+>|#*-:→")
        line = compile_once(_RUN + "$").search(bare)
        run = line.group() if line else ""
        is_last = start == position and 4 <= len(run) < 80
        is_last = is_last and not (run.isalpha() or run.isdigit())
        if _is_key_line(run) or is_last:
            start = word.start() + word.group().index(run)
        elif bare and not bare.isdigit():
            break
    if start < position:
        yield SecretSpan(start, mark.end(), "private-key")


def find_putty_key(text: str, position: int) -> Iterator[SecretSpan]:
    """Yield the private lines of a PuTTY key, as many as it says there are."""
    head = compile_once(r"(?i:private-lines): ?\d{1,3}(?!\d)").match(text, position)
    if head and (end := extend_key(text, head.end())) > head.end():
        first = compile_once(_RUN + "$").search(text[head.end() : end])
        start = head.end() + len(compile_once(_GAP).match(text[head.end() : end]).group())  # type: ignore[union-attr]
        yield SecretSpan(start if first else head.end(), end, "private-key")


_MEMBER = r"\\{0,8}[\"']?\b(?:d|p|q|dp|dq|qi|k)\\{0,8}[\"']?\s{0,9}[:=]\s{0,9}\\{0,8}[\"']?(?P<v>[A-Za-z0-9+/_-]{20,1400})"


def find_web_key(text: str, position: int) -> Iterator[SecretSpan]:
    """Yield the private members of a JSON Web Key around its `kty`."""
    start = max(text.rfind("{", max(0, position - 6000), position), position - 6000, 0)
    end = text.find("}", position, position + 6000)
    for member in compile_once(_MEMBER).finditer(text, start, end if end >= 0 else position + 6000):
        if shapes.is_random(member["v"], often=10) and not shapes.is_dummy(member["v"]):
            yield SecretSpan(*member.span("v"), "private-key")


_XML = r"<(?:D|P|Q|DP|DQ|InverseQ)>\s{0,40}(?P<v>[A-Za-z0-9+/=\s]{16,1400}?)\s{0,40}</"


def find_xml_key(text: str, position: int) -> Iterator[SecretSpan]:
    """Yield the private elements of an XML key around its `InverseQ`."""
    for element in compile_once(_XML).finditer(text, max(0, position - 4000), position + 4000):
        yield SecretSpan(*element.span("v"), "private-key")


_PRINTED = r"(?:priv(?:ateExponent)?|prime[12]|exponent[12]|coefficient):(?:[\s>#*+|-]|\\n|\d{1,6}[→:\t]){1,40}(?P<v>[0-9a-fA-F]{2}(?::(?:[\s>#*+|-]|\\n|\d{1,6}[→:\t]){0,40}[0-9a-fA-F]{2}){7,600})"


def find_printed_key(text: str, position: int) -> Iterator[SecretSpan]:
    """Yield the private numbers that `openssl pkey -text` prints, after its head."""
    for number in compile_once(_PRINTED).finditer(text, position, position + 8000):
        yield SecretSpan(*number.span("v"), "private-key")
