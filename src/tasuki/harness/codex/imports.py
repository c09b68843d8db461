"""Threads that Codex imported (0.140 on): the calls of the other program as text, and the original.

[external_agent_tool_call: Bash]
command: pytest -q
[/external_agent_tool_call]
[external_agent_tool_result: error]
…
[/external_agent_tool_result]
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import Struct

from tasuki.harness.reading.jsonl import UNDECODABLE
from tasuki.harness.tool_table import tools
from tasuki.patterns import compile_pattern

_ENVELOPE = compile_pattern(
    r"(?s)\[external_agent_tool_(?:call: ([^\]\n]+)|result(: error)?)\]\n(.*?)"
    r"(?:\n?\[/external_agent_tool_(?:call|result)\]|\Z)"
)
_FIELD = compile_pattern(r"(?s)\A(\w+): (.*)\Z")
_REGISTER = "external_agent_session_imports.json"


class ImportedPiece(NamedTuple):
    """A text of the assistant, a call (with its tool's `name`) or a result (`is_result`)."""

    text: str
    name: str = ""
    is_result: bool = False
    is_error: bool = False

    def read_input(self) -> tools.ToolInput:
        """Read what a call was given: `input:` and JSON, or a field and its text."""
        if (field := _FIELD.match(self.text)) is None:
            return {}
        is_json = field[1] == "input"
        return tools.read_input(field[2]) if is_json else tools.fold_input({field[1]: field[2]})


def split_imported(text: str) -> Iterator[ImportedPiece]:
    """Split a message of the assistant into what it said, called and was given."""
    at = 0
    for match in _ENVELOPE.finditer(text):
        if words := text[at : match.start()].strip():
            yield ImportedPiece(words)
        at = match.end()
        yield ImportedPiece(match[3], match[1] or "", not match[1], bool(match[2]))
    if words := text[at:].strip():
        yield ImportedPiece(words)


class _CodexImport(Struct):
    source_path: str = ""
    imported_thread_id: str = ""


class _CodexImports(Struct):
    records: list[_CodexImport] = []


def find_original(path: Path, id: str) -> str:
    """Find the thread that one was imported from, by Codex's own record; empty where it is gone."""
    for folder in path.parents[:6]:
        try:
            register = msgspec.json.decode((folder / _REGISTER).read_bytes(), type=_CodexImports)
        except (OSError, *UNDECODABLE):
            continue
        sources = [r.source_path for r in register.records if r.imported_thread_id == id]
        return next((source for source in sources[::-1] if Path(source).is_file()), "")
    return ""
