"""Outputs of tools that stay in the thread's file until somebody asks for them.

They are most of a thread's bytes, and a draft shows or searches few of them.
"""

import os
from pathlib import Path
from typing import Any

from tasuki.errors import ThreadUnreadable
from tasuki.harness.reading import jsonl
from tasuki.model import ToolCall

_SIZE_BITS = 40
_FAR = 1 << _SIZE_BITS
_OUTPUT: Any = ToolCall.output
_OUTPUT_SIZE: Any = ToolCall.output_size
"""Where a call keeps both, whatever its class shows."""


class OutputFile:
    """A thread's file, open while one of its calls may be asked for its output.

    `keep` is how many characters of an output are kept. Raises ThreadUnreadable.
    """

    def __init__(self, path: Path, keep: int) -> None:
        self.path = path
        self.keep = keep
        with jsonl.explain_errors(path):
            self._file = os.open(path, os.O_RDONLY)

    def __reduce__(self) -> tuple[type["OutputFile"], tuple[Path, int]]:
        return OutputFile, (self.path, self.keep)

    def __del__(self) -> None:
        if hasattr(self, "_file"):
            os.close(self._file)

    def read_text(self, start: int, size: int) -> str:
        """Read a JSON string between two bytes. Raises ThreadUnreadable where something else is there by now."""
        try:
            raw = os.pread(self._file, size, start)
        except OSError as exc:
            raise ThreadUnreadable(f"Cannot read {self.path}: {exc.strerror}.") from exc
        if len(raw) != size or raw[:1] != b'"' or raw[-1:] != b'"':
            raise ThreadUnreadable(f"{self.path} was changed while it was read. Try again.")
        try:
            return jsonl.decode_nested(jsonl.TEXT, raw)
        except jsonl.UNDECODABLE:
            return raw[1:-1].decode("utf-8", "replace")


class UnreadToolCall(ToolCall, frozen=True, gc=False):
    """A tool call whose output may still be in the file. To its users it is any other call.

    What looks at its fields without asking for them, such as `msgspec.json.encode`, does not see
    the output, so it is never part of a thread that is handed on: `Harness.read_for_draft`.
    """

    file: Any = None
    place: int = 0
    """Where the output begins in the file, whether it is far from its end, and its bytes.

    It is negative once the output is read, and 0 where it is not in the file.
    """

    @property  # type: ignore[misc]
    def output(self) -> str:
        if self.place > 0:
            self._read()
        return _OUTPUT.__get__(self)  # type: ignore[no-any-return]

    @property  # type: ignore[misc]
    def output_size(self) -> int:
        if self.place > 0:
            self._read()
        return _OUTPUT_SIZE.__get__(self)  # type: ignore[no-any-return]

    def _read(self) -> None:
        place = self.place
        start, size = place >> (_SIZE_BITS + 1), place & (_FAR - 1)
        text = self.file.read_text(start, size)
        put_output(self, text, self.file.keep, is_far=bool(place & _FAR))
        _PLACE.__set__(self, -place)

    def forget_output(self) -> str:
        """Forget an output that was read from the file; return it."""
        output: str = _OUTPUT.__get__(self)
        self.remember_output("")
        return output

    def remember_output(self, output: str) -> None:
        """Take back what `forget_output` returned."""
        _OUTPUT.__set__(self, output)
        _PLACE.__set__(self, -self.place)

    def leave_output(self, start: int, size: int, *, is_far: bool) -> None:
        """Note where the output is in the file. One number takes half the memory of three."""
        _OUTPUT.__set__(self, "")
        _OUTPUT_SIZE.__set__(self, 0)
        _PLACE.__set__(self, start << (_SIZE_BITS + 1) | (_FAR if is_far else 0) | size)


_PLACE: Any = UnreadToolCall.place


def put_output(call: ToolCall, text: str, keep: int, *, is_far: bool = False) -> None:
    """Put an output into a call, cut in the middle where it is long."""
    size = len(text)
    if is_far:
        text = jsonl.clip_far(text)
    elif size > keep:
        text = jsonl.clip(text, keep)
    _OUTPUT.__set__(call, text)
    _OUTPUT_SIZE.__set__(call, size)
    if isinstance(call, UnreadToolCall):
        _PLACE.__set__(call, 0)


def add_output(call: ToolCall, text: str, keep: int) -> None:
    """Add to the output of a call what its command printed later."""
    size = call.output_size + len(text)
    put_output(call, f"{call.output}\n{text}" if call.output else text, keep)
    _OUTPUT_SIZE.__set__(call, size)


def read_both(path: Path, most: int = 4 << 20) -> str:
    """Read a text file, of a long one both ends; empty where there is none."""
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            data = file.read(most)
            file.seek(max(most, size - most))
            data += file.read(most)
    except OSError:
        return ""
    return data.decode("utf-8", "replace")
