"""Calls of tools inside JavaScript, as models write it: `await tools.exec_command({…})`, `await Bash({…})`.

Only what the text itself states is read: literals, constants of literals, and their elements in
a loop. A call whose arguments are computed is there without them.
"""

import re
from collections.abc import Iterator
from itertools import islice
from typing import Any

from tasuki.harness.reading.jsonl import TEXT, UNDECODABLE
from tasuki.patterns import compile_pattern

_TOKEN = compile_pattern(
    r"(?s)(?:\s++|//[^\n]*+|/\*.*?\*/)*+("
    r"""[A-Za-z_$][\w$]*+|"(?:[^"\\]++|\\.)*+"|'(?:[^'\\]++|\\.)*+'|`(?:[^`\\]++|\\.)*+`"""
    r"|(?:(?<=[(,=:\[!&|?{};+])|(?<=[(,=:\[!&|?{};+] ))/(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\n\[])+/[a-z]*"
    r"|\d[\d_]*(?:\.\d+)?|=>|\.\.\.|.|\Z)"
)
"""A token, behind blanks and comments."""
_HOLE = compile_pattern(r"(?<!\\)\$\{\s*([^{}]*?)\s*\}")
_ESCAPE = compile_pattern(
    r"(?s)\\(?:u\{([0-9a-fA-F]+)\}|u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|(\r\n|.))"
)
_ESCAPES = {
    "n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "v": "\v", "0": "\0", "\n": "", "\r\n": "",
}  # fmt: skip
_WORDS = {"true": True, "false": False, "null": None, "undefined": None}
_OPENING, _CLOSING = "([{", ")]}"
_BARE = frozenset(("Bash", "PowerShell", "Read", "Write", "Edit", "Grep", "Glob"))
"""Tools of Claude Code, which its scripts call by their names alone."""
_COMPUTED = object()
"""Stands for a value that the text does not state."""
ScriptCall = tuple[str, Any]
"""The tool of a call, and what it is given; None where that is computed."""
MOST_CALLS = 200
MOST_DEPTH = 40
MOST_AHEAD = 10
"""Tokens behind the one that is read at which anything looks; behind the last ones are empty ones."""


class _NotLiteral(Exception):
    """The text at a place states no value."""


def list_script_calls(text: str) -> list[ScriptCall]:
    """List the calls of a script in the order of its text."""
    script = _Script(text)
    return list(islice(script.list_calls(0, script.size), MOST_CALLS))


class _Script:
    """The tokens of a script, and the values of its constants as far as they are literals."""

    def __init__(self, text: str) -> None:
        self.tokens: list[str] = [t for t in _TOKEN.findall(text) if t]
        self.size = len(self.tokens)
        self.has_loops = not {"for", "map", "forEach"}.isdisjoint(self.tokens)
        self.tokens += [""] * MOST_AHEAD
        self.values: dict[str, Any] = {}
        self.depth = 0

    def list_calls(self, at: int, end: int) -> Iterator[ScriptCall]:
        """Yield the calls between two places."""
        tokens, has_loops = self.tokens, self.has_loops
        while at < end:
            word = tokens[at]
            if word == "tools" and tokens[at + 1] == "." and tokens[at + 3] == "(":
                value, after = self._try_value(at + 4)
                yield tokens[at + 2], None if value is _COMPUTED else value
                at = after
            elif word in _BARE and tokens[at + 1] == "(" and tokens[at - 1] != ".":
                value, after = self._try_value(at + 2)
                yield word, None if value is _COMPUTED else value
                at = after
            elif has_loops and (loop := self._find_loop(at)):
                names, values, start = loop
                at = self._find_end(start)
                yield from self._repeat(names, values, start, at)
            elif word in {"const", "let", "var"} and tokens[at + 2] == "=":
                value, after = self._try_value(at + 3)
                self.values[tokens[at + 1]] = value
                at = after
            else:
                at += 1

    def _find_loop(self, at: int) -> tuple[list[str], Any, int] | None:
        """Return the names, the values and the body of a loop that begins at a place."""
        if self.tokens[at] == "for" and self.tokens[at + 1] == "(":
            names, after = self._read_names(at + 3)
            if self.tokens[after] != "of":
                return None
            values, _ = self._try_value(after + 1)
            return names, values, self._find_end(after + 1) + 1
        if self.tokens[at][0] != "[" and self.tokens[at + 1] != ".":
            return None
        try:
            values, after = self._read_operand(at, 0)
        except _NotLiteral:
            values, after = _COMPUTED, at + 1
        if self.tokens[after] != "." or self.tokens[after + 1] not in ("map", "forEach"):
            return None
        after += 3 + (self.tokens[after + 3] == "async")
        names, after = self._read_names(after + (self.tokens[after] == "("))
        while self.tokens[after] not in ("=>", "(", "{", ""):
            after += 1
        return (names, values, after + 1) if self.tokens[after] == "=>" else None

    def _read_names(self, at: int) -> tuple[list[str], int]:
        """Read the name that each value gets, or the names of its parts."""
        if self.tokens[at] != "[":
            return [self.tokens[at]], at + 1
        end = next((n for n in range(at, self.size) if self.tokens[n] == "]"), at)
        return [name for name in self.tokens[at + 1 : end] if name != ","], end + 1

    def _repeat(self, names: list[str], values: Any, at: int, end: int) -> Iterator[ScriptCall]:
        """Yield the calls of a loop, once for each value that it goes through."""
        self.depth += 1
        for value in values if isinstance(values, list) and self.depth < 4 else (_COMPUTED,):
            parts: list[Any] = value if len(names) > 1 and isinstance(value, list) else [value]
            self.values |= dict.fromkeys(names, _COMPUTED) | dict(zip(names, parts, strict=False))
            yield from self.list_calls(at, end)
        self.values |= dict.fromkeys(names, _COMPUTED)
        self.depth -= 1

    # -- values ------------------------------------------------------------------------

    def _try_value(self, at: int) -> tuple[Any, int]:
        """Read a value; return where to go on, which is the same place if it is computed."""
        try:
            return self._read_value(at, 0)
        except _NotLiteral:
            return _COMPUTED, at

    def _read_value(self, at: int, depth: int) -> tuple[Any, int]:
        value, at = self._read_operand(at, depth)
        while (following := self.tokens[at]) in {"+", "."}:
            if following == "+" and isinstance(value, str):
                more, at = self._read_operand(at + 1, depth)
                value += str(more)
            elif self.tokens[at : at + 3] == [".", "join", "("] and isinstance(value, list):
                joint, at = self._read_operand(at + 3, depth)
                value, at = str(joint).join(map(str, value)), at + 1
            elif self.tokens[at : at + 4] == [".", "trim", "(", ")"] and isinstance(value, str):
                value, at = value.strip(), at + 4
            else:
                raise _NotLiteral
        if following in {"?", "(", "[", "*", "/", "-", "&", "|", "<", ">", "="}:
            raise _NotLiteral
        return value, at

    def _read_operand(self, at: int, depth: int) -> tuple[Any, int]:
        tokens = self.tokens
        word = tokens[at]
        if not word or depth > MOST_DEPTH:
            raise _NotLiteral
        if word[0] in "\"'" and len(word) > 1:
            return _unescape(word[1:-1]), at + 1
        if word[0] == "`" and len(word) > 1:
            return self._fill_template(word[1:-1]), at + 1
        if (
            word == "String"
            and tokens[at + 1 : at + 3] == [".", "raw"]
            and tokens[at + 3][:1] == "`"
        ):
            return tokens[at + 3][1:-1], at + 4
        if word == "[":
            return self._read_list(at + 1, depth)
        if word == "{":
            return self._read_object(at + 1, depth)
        if word[0].isdecimal():
            number = word.replace("_", "")
            return (float(number) if "." in number else int(number)), at + 1
        value = _WORDS[word] if word in _WORDS else self.values.get(word, _COMPUTED)
        if value is _COMPUTED:
            raise _NotLiteral
        return value, at + 1

    def _fill_template(self, text: str) -> str:
        parts = _HOLE.split(text)
        values = [self.values.get(name, _COMPUTED) for name in parts[1::2]]
        if any(value is _COMPUTED for value in values):
            raise _NotLiteral
        parts[1::2] = map(str, values)
        return "".join(p if n % 2 else _unescape(p) for n, p in enumerate(parts))

    def _read_list(self, at: int, depth: int) -> tuple[list[Any], int]:
        values: list[Any] = []
        while self.tokens[at] != "]":
            value, at = self._read_value(at, depth + 1)
            values.append(value)
            at = self._skip_comma(at, "]")
        return values, at + 1

    def _read_object(self, at: int, depth: int) -> tuple[dict[str, Any], int]:
        """Read an object; a field whose value is computed is left out."""
        values: dict[str, Any] = {}
        tokens = self.tokens
        while (name := tokens[at]) not in ("}", ""):
            start, is_short = at + 2, tokens[at + 1] != ":"
            try:
                value, at = self._read_value(at if is_short else start, depth + 1)
                values[name if name[0] not in "\"'" else _unescape(name[1:-1])] = value
            except _NotLiteral:
                at = self._find_end(at if is_short else start)
            at = self._skip_comma(at, "}")
        return values, at + 1

    def _skip_comma(self, at: int, closing: str) -> int:
        if (word := self.tokens[at]) != "," and word != closing:
            raise _NotLiteral
        return at + (word == ",")

    def _find_end(self, at: int) -> int:
        """Return where the expression or block that begins at a place ends: at a comma or bracket."""
        depth = 0
        for place in range(at, self.size):
            word = self.tokens[place]
            if word in _CLOSING:
                depth -= 1
                if depth < 0 or (depth == 0 and word == "}"):
                    return place + (depth == 0)
            elif word in _OPENING:
                depth += 1
            elif depth == 0 and word in ",;":
                return place
        return self.size


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    try:  # Most texts are JSON's, too.
        return TEXT.decode(f'"{text}"')
    except UNDECODABLE:
        return _ESCAPE.sub(_replace_escape, text)


def _replace_escape(match: re.Match[str]) -> str:
    code = match[1] or match[2] or match[3]
    if not code:
        return _ESCAPES.get(match[4], match[4])
    number = int(code, 16)
    return chr(number) if number < 0x110000 else ""
