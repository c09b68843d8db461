"""What thread files are made of, so that a contract can take one apart and put it together again.

A unit is the smallest part that a harness writes at once: a line, a message of a document, a row.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

STRANGE = {"type": "x-unheard-of", "payload": {"type": "strange"}}


class Form(Protocol):
    """How the threads of a harness lie in files."""

    strange: bytes
    """A unit of a type that nobody knows."""
    broken: bytes
    """A unit that cannot be read."""

    def encode(self, record: dict[str, Any]) -> bytes:
        """A record of `ThreadBuilder` as a unit."""
        ...

    def units(self, path: Path) -> list[bytes]:
        """The units of a thread, in order."""
        ...

    def write(self, units: Sequence[bytes], path: Path) -> None:
        """Write a thread that consists of these units."""
        ...

    def file(self, path: Path) -> Path:
        """The file that holds the thread `path` stands for: `path` itself, but in a database."""
        ...


class JsonLines:
    """One JSON document a line, only ever appended."""

    strange = json.dumps(STRANGE).encode() + b"\n"
    broken = b'{"type":"message", "broken\n'

    def encode(self, record: dict[str, Any]) -> bytes:
        return json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"

    def units(self, path: Path) -> list[bytes]:
        return path.read_bytes().splitlines(keepends=True)

    def write(self, units: Sequence[bytes], path: Path) -> None:
        path.write_bytes(b"".join(units))

    def file(self, path: Path) -> Path:
        return path


class JsonDocument(JsonLines):
    """One JSON document, written anew each time; the first unit is all of it but its list."""

    def __init__(self, key: str = "messages") -> None:
        self.key = key
        """Name of the list that holds the units."""

    def units(self, path: Path) -> list[bytes]:
        document = json.loads(path.read_bytes())
        parts = document.pop(self.key)
        return [self.encode(document), *map(self.encode, parts)]

    def write(self, units: Sequence[bytes], path: Path) -> None:
        head, *parts = [unit.strip() for unit in units]
        opened = head[:-1].rstrip() + (b"" if head == b"{}" else b",")
        path.write_bytes(
            opened + json.dumps(self.key).encode() + b":[" + b",\n".join(parts) + b"]}"
        )
