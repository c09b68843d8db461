"""How calls ended by the words of their results, for tools of which only these show it."""

import re
from functools import lru_cache
from typing import NamedTuple

import msgspec
from msgspec import Struct

from tasuki.harness.reading.jsonl import decode_part
from tasuki.harness.tool_table.tools import find_tool
from tasuki.model import ToolKind, ToolStatus
from tasuki.patterns import compile_pattern

_WORDED = frozenset(
    "exec repl eval execcommand shellcommand localshell unifiedexec applypatch writestdin".split()
)
"""Tools of Codex, wherever a converter put them, and those that run a script."""
_EXIT = compile_pattern(
    r"E(?<![\s\S]E)(?:rror: E)?xit(?:ed with)? code:? (-?\d+)"
    r"|P(?<!\wP)rocess exited with code (-?\d+)|C(?<!\wC)ommand exited with code (-?\d+)"
)
_STATE = compile_pattern(
    r"^(?:Process exited with code|Exit code:) (-?\d+)$|^Process running with session ID (\S+)$",
    re.MULTILINE,
)
_BODY = "\nOutput:\n"
_HEADED = ("Wall time: ", "Script completed\n", "Script failed\n")
_CUT = compile_pattern(r"\AWarning: truncated output \([^\n]*\nTotal output lines: \d+\n\n(?=\{)")
_CUT_FIELD = compile_pattern(r'"exit_code":(-?\d+)|"session_id":(\d+)')
_OBJECT = compile_pattern(
    r'\{(?:"(?:chunk_id|wall_time_seconds|exit_code|session_id|original_token_count|output)":'
    r'(?:"(?:[^"\\\n]++|\\.)*+"|-?[\d.]+|null)(?:,|(?=\})))+\}(?=\n|\Z)'
)
"""A result that a script printed, behind a heading or beside its output."""
_SESSION = compile_pattern(r"\bSESSION_ID\W{1,3}(\d+)", re.IGNORECASE)
_FAILED = compile_pattern(r"\A[\w :]{0,60}\bfailed\b")
_REFUSED = compile_pattern(r"\A[\w ]{0,40}rejected by (?:the )?user")


class _ShellMetadata(Struct, frozen=True):
    exit_code: int | None = None


class _ShellResult(Struct):
    """The result of a command as an object: of older versions, and of calls in scripts."""

    output: str | None = None
    metadata: _ShellMetadata = _ShellMetadata()
    exit_code: int | None = None
    session_id: int | str | None = None

    def read(self, rest: str) -> "WordedResult":
        """Return what it says; the output is the rest of the text, where it has none."""
        code = self.metadata.exit_code if self.exit_code is None else self.exit_code
        output = rest if self.output is None else self.output
        return WordedResult(code, output, str(self.session_id or ""))


_SHELL_RESULT = msgspec.json.Decoder(_ShellResult)


class WordedResult(NamedTuple):
    """What the words of a result say beside the output of a command."""

    code: int | None
    output: str
    session: str = ""
    """The session, shell or process in which the command goes on."""
    ended: str = ""
    """The one that ended."""


@lru_cache(maxsize=4096)
def is_worded(name: str) -> bool:
    """Return whether only the words of a tool's results show how its calls ended."""
    return "__" in name or find_tool(name).plain in _WORDED


def parse_result(text: str) -> WordedResult:
    """Parse a result: exit code, output without the program's header, id of a running session."""
    if cut := _CUT.match(text):
        text = text[cut.end() :]
    for start in (0, text.find("\n", 0, 80) + 1, text.rfind("\n") + 1):
        printed = _OBJECT.match(text, start)
        if printed and (result := decode_part(_SHELL_RESULT, printed[0], None)):
            return result.read(text[:start] + text[printed.end() + 1 :])
    if text.startswith("{"):
        result = decode_part(_SHELL_RESULT, text, None)
        if result and result.output is not None:
            return result.read("")
        field = _CUT_FIELD.search(text[:300]) if cut else None
        code = int(field[1]) if field and field[1] else None
        return WordedResult(code, text, (field and field[2]) or "")
    head, mark, output = text.partition(_BODY)
    match = _STATE.search(head, max(len(head) - 200, 0)) if mark else _STATE.match(text)
    if match:
        return WordedResult(int(match[1]) if match[1] else None, output, match[2] or "")
    if output and text.startswith(_HEADED):
        is_json = output.lstrip().startswith("{")
        return parse_result(output.lstrip("\n")) if is_json else WordedResult(None, output)
    session = _SESSION.search(text[-60:])
    return WordedResult(parse_exit_code(text), text, session[1] if session else "")


def find_status(kind: ToolKind, code: int | None, output: str) -> ToolStatus:
    """Find how a call ended, by its exit code or the words of its result."""
    if code is not None:
        return "error" if code else "ok"
    if output.startswith(("aborted", "Timed out")):
        return "aborted"
    if _REFUSED.match(output):
        return "refused"
    if _FAILED.match(output):
        return "error"
    return "unknown" if kind == "shell" else "ok"


def parse_exit_code(output: str) -> int | None:
    """Parse the exit code that a program wrote around a command's output; None without one."""
    match = _EXIT.search(output[:400]) or _EXIT.search(output[-200:])
    return int(next(g for g in match.groups() if g is not None)) if match else None
