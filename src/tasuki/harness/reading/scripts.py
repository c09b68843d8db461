"""Calls of tools inside JavaScript, as models write it in code mode: `await tools.exec_command({…})`.

Only what the text itself states is read: literals, constants of literals, and their elements in
a loop. A call whose arguments are computed is there without them.
"""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from tasuki.patterns import compile_pattern

_SKIPPED = compile_pattern(r"(?:\s+|//[^\n]*|/\*.*?\*/)+", re.DOTALL)
_NAME = compile_pattern(r"[A-Za-z_$][\w$]*")
_NUMBER = compile_pattern(r"-?\d[\d_]*(?:\.\d+)?")
_DECLARED = compile_pattern(r"(?:const|let|var)\s+([A-Za-z_$][\w$]*)\s*=(?!=)")
_CALL = compile_pattern(
    r"tools(?:\?\.|\.)([A-Za-z_$][\w$]*)\s*\(|tools\[\s*[\"']([\w$.]+)[\"']\s*\]\s*\("
)
_PARAMETERS = r"([A-Za-z_$][\w$]*|\[[\w$\s,]*\])"
_MAP = compile_pattern(
    r"\s*\.(?:map|forEach)\(\s*(?:async\s*)?\(?\s*" + _PARAMETERS + r"[^()=]*\)?\s*=>"
)
_LOOP = compile_pattern(r"for\s*\(\s*(?:const|let|var)\s+" + _PARAMETERS + r"\s+of\s+")
_ESCAPE = compile_pattern(
    r"\\(?:u\{([0-9a-fA-F]+)\}|u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|(\r\n|.))", re.DOTALL
)
_ESCAPES = {
    "n": "\n",
    "t": "\t",
    "r": "\r",
    "b": "\b",
    "f": "\f",
    "v": "\v",
    "0": "\0",
    "\n": "",
    "\r\n": "",
}
_WORDS = {"true": True, "false": False, "null": None, "undefined": None}
_CLOSING = {"(": ")", "[": "]", "{": "}"}
MOST_CALLS = 200
MOST_DEPTH = 40


class ScriptCall(NamedTuple):
    """One call: its tool, and what it is given; None where that is computed."""

    name: str
    given: Any


class _NotLiteral(Exception):
    """The text at a place states no value."""


def list_script_calls(text: str) -> list[ScriptCall]:
    """List the calls of a script in the order of its text."""
    calls = []
    for call in _Script(text).list_calls(0, len(text)):
        calls.append(call)
        if len(calls) == MOST_CALLS:
            break
    return calls


class _Script:
    """A script, and the values of its constants as far as they are literals."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.values: dict[str, Any] = {}
        self.depth = 0

    def list_calls(self, at: int, end: int) -> Iterator[ScriptCall]:
        """Yield the calls between two places."""
        text = self.text
        while at < end:
            at = self._skip_blank(at)
            if at >= end:
                return
            if match := _CALL.match(text, at):
                given, at = self._read_argument(match.end())
                yield ScriptCall(match[1] or match[2], given)
            elif loop := self._find_loop(at):
                names, values, start = loop
                at = self._find_end(start)
                yield from self._repeat(names, values, start, at)
            elif match := _DECLARED.match(text, at):
                at = self._declare(match[1], self._skip_blank(match.end()))
            elif match := _NAME.match(text, at):
                at = match.end()
            elif text[at] in "\"'`":
                at = self._skip_text(at)
            elif text[at] == "/" and (regex := self._skip_regex(at)):
                at = regex
            else:
                at += 1

    def _find_loop(self, at: int) -> tuple[list[str], Any, int] | None:
        """Return the names, the values and the body of a loop that begins at a place."""
        head, values = _LOOP.match(self.text, at), None
        start = head.end() if head else at
        name = _NAME.match(self.text, start)
        try:
            values, after = self._read_operand(start, 0)
        except _NotLiteral:
            after = name.end() if name else self._find_end(start)
        if head:
            return _NAME.findall(head[1]), values, self._skip_blank(after) + 1
        loop = _MAP.match(self.text, after) if name or self.text[at] == "[" else None
        return (_NAME.findall(loop[1]), values, loop.end()) if loop else None

    def _repeat(self, names: list[str], values: Any, at: int, end: int) -> Iterator[ScriptCall]:
        """Yield the calls of a loop, once for each value that it goes through."""
        self.depth += 1
        for value in values if isinstance(values, list) and self.depth < 4 else (_NotLiteral,):
            elements: list[Any] = value if len(names) > 1 and isinstance(value, list) else [value]
            self.values |= dict.fromkeys(names, _NotLiteral) | dict(
                zip(names, elements, strict=False)
            )
            yield from self.list_calls(at, end)
        for name in names:
            self.values.pop(name, None)
        self.depth -= 1

    def _declare(self, name: str, at: int) -> int:
        """Keep the value of a constant; return where to go on, before it if it is computed."""
        try:
            value, end = self._read_value(at)
        except _NotLiteral:
            return at
        self.values[name] = value
        return end

    def _read_argument(self, at: int) -> tuple[Any, int]:
        try:
            value, end = self._read_value(self._skip_blank(at))
            return value, end
        except _NotLiteral:
            return None, at

    # -- values ------------------------------------------------------------------------

    def _read_value(self, at: int, depth: int = 0) -> tuple[Any, int]:
        value, at = self._read_operand(self._skip_blank(at), depth)
        while True:
            after = self._skip_blank(at)
            if self.text.startswith(".join(", after) and isinstance(value, list):
                joint, at = self._read_operand(self._skip_blank(after + 6), depth)
                value = str(joint).join(map(str, value))
                at = self._skip_blank(at) + 1
            elif self.text.startswith(".trim()", after) and isinstance(value, str):
                value, at = value.strip(), after + 7
            elif self.text[after : after + 1] == "+" and isinstance(value, str):
                more, at = self._read_operand(self._skip_blank(after + 1), depth)
                value += str(more)
            elif (
                self.text[after : after + 1] in (",", ")", "]", "}", ";", "")
                or "\n" in self.text[at:after]
            ):
                return value, at
            else:
                raise _NotLiteral

    def _read_operand(self, at: int, depth: int) -> tuple[Any, int]:
        first = self.text[at : at + 1]
        if depth > MOST_DEPTH:
            raise _NotLiteral
        if first and first in "\"'":
            end = self._skip_text(at)
            return _unescape(self.text[at + 1 : end - 1]), end
        if first == "`" or self.text.startswith("String.raw`", at):
            return self._read_template(self.text.index("`", at), is_raw=first != "`")
        if first == "[":
            return self._read_list(at + 1, depth)
        if first == "{":
            return self._read_object(at + 1, depth)
        if match := _NUMBER.match(self.text, at):
            number = match[0].replace("_", "")
            return (float(number) if "." in number else int(number)), match.end()
        name = _NAME.match(self.text, at)
        if name and name[0] in _WORDS:
            return _WORDS[name[0]], name.end()
        if name and self.values.get(name[0], _NotLiteral) is not _NotLiteral:
            return self.values[name[0]], name.end()
        raise _NotLiteral

    def _read_template(self, at: int, *, is_raw: bool) -> tuple[str, int]:
        end = self._skip_text(at)
        parts, position = [], at + 1
        body_end = end - 1
        while (start := self.text.find("${", position, body_end)) >= 0 and not is_raw:
            if self.text[start - 1] == "\\":
                parts.append(_unescape(self.text[position : start + 2]))
                position = start + 2
                continue
            value, after = self._read_operand(self._skip_blank(start + 2), 0)
            if self.text[after : after + 1] != "}":
                raise _NotLiteral
            parts += [_unescape(self.text[position:start]), str(value)]
            position = after + 1
        rest = self.text[position:body_end]
        return "".join((*parts, rest if is_raw else _unescape(rest))), end

    def _read_list(self, at: int, depth: int) -> tuple[list[Any], int]:
        values: list[Any] = []
        while self.text[(at := self._skip_blank(at)) : at + 1] != "]":
            value, at = self._read_value(at, depth + 1)
            values.append(value)
            at = self._skip_comma(at, "]")
        return values, at + 1

    def _read_object(self, at: int, depth: int) -> tuple[dict[str, Any], int]:
        """Read an object; a field whose value is computed is left out."""
        values: dict[str, Any] = {}
        while self.text[(at := self._skip_blank(at)) : at + 1] != "}":
            if self.text.startswith("...", at):
                at = self._find_end(at)
            elif self.text[at : at + 1] in ('"', "'"):
                start, at = at, self._skip_text(at)
                at = self._read_field(values, _unescape(self.text[start + 1 : at - 1]), at, depth)
            elif name := _NAME.match(self.text, at):
                at = self._read_field(values, name[0], name.end(), depth)
            else:
                raise _NotLiteral
            at = self._skip_comma(at, "}")
        return values, at + 1

    def _read_field(self, values: dict[str, Any], name: str, at: int, depth: int) -> int:
        after = self._skip_blank(at)
        is_short = self.text[after : after + 1] in (",", "}")
        try:
            if is_short:
                values[name], _ = self._read_operand(self._skip_blank(at - len(name)), depth)
            elif self.text[after : after + 1] == ":":
                values[name], at = self._read_value(after + 1, depth + 1)
            else:
                raise _NotLiteral
        except _NotLiteral:
            return at if is_short else self._find_end(after + 1)
        return at

    def _skip_comma(self, at: int, closing: str) -> int:
        at = self._skip_blank(at)
        if self.text[at : at + 1] == ",":
            return at + 1
        if self.text[at : at + 1] != closing:
            raise _NotLiteral
        return at

    # -- what is passed over -----------------------------------------------------------

    def _skip_blank(self, at: int) -> int:
        match = _SKIPPED.match(self.text, at)
        return match.end() if match else at

    def _skip_text(self, at: int) -> int:
        """Return the place after a text in quotes; the end of one that has no end."""
        quote, at = self.text[at], at + 1
        while at < len(self.text) and self.text[at] != quote:
            if quote == "`" and self.text.startswith("${", at):
                at = self._find_end(at + 2)
            at += 2 if self.text[at : at + 1] == "\\" else 1
        return at + 1

    def _skip_regex(self, at: int) -> int:
        before = self.text[max(0, at - 80) : at].rstrip()[-1:]
        if before and before not in "(,=:[!&|?{};+":
            return 0
        match = _REGEX.match(self.text, at)
        return match.end() if match else 0

    def _find_end(self, at: int) -> int:
        """Return where the expression or block that begins at a place ends: at a comma or bracket."""
        open_brackets: list[str] = []
        while at < len(self.text):
            char = self.text[at]
            if char in "\"'`":
                at = self._skip_text(at)
                continue
            if open_brackets and char == open_brackets[-1]:
                open_brackets.pop()
                if char == "}" and not open_brackets:
                    return at + 1
            elif char in _CLOSING:
                open_brackets.append(_CLOSING[char])
            elif not open_brackets and char in ",)]};":
                return at
            at += 1
        return at


_REGEX = compile_pattern(r"/(?![*/])(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\n\[])+/[a-z]*")


def _unescape(text: str) -> str:
    return _ESCAPE.sub(_replace_escape, text) if "\\" in text else text


def _replace_escape(match: re.Match[str]) -> str:
    code = match[1] or match[2] or match[3]
    if not code:
        return _ESCAPES.get(match[4], match[4])
    number = int(code, 16)
    return chr(number) if number < 0x110000 else ""
