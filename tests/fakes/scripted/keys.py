"""Split the input of a terminal into pastes, typed text and keys. Sequences may be cut
anywhere.
"""

import re

PASTE, END = b"\x1b[200~", b"\x1b[201~"
_SEQUENCE = re.compile(rb"\x1b\[[0-?]*[ -/]*[@-~]|\x1bO.|\x1b[^\[O\x1b]", re.DOTALL)
_TEXT = re.compile(rb"[^\x00-\x1f\x7f]+")
_NAMES = {0x0D: "enter", 0x7F: "backspace", 0x08: "backspace", 0x09: "tab", 0x1B: "escape"}

KeyEvent = tuple[str, str]
"""`paste` or `text` with the text, `key` with its name: enter, escape, backspace, ctrl-c,
other.
"""


class KeyReader:
    """Takes input and returns what it means."""

    def __init__(self) -> None:
        self.left = b""
        self.pasting = False

    @property
    def is_waiting(self) -> bool:
        """Whether something is left that may be a lone Escape, or the beginning of a sequence."""
        return bool(self.left) and not self.pasting

    def read_events(self, data: bytes) -> list[KeyEvent]:
        """Return what the next piece of input completes."""
        self.left += data
        events: list[KeyEvent] = []
        while self.left:
            event = self._read_paste() if self.pasting else self._read_next()
            if event is None:
                break
            if event[0]:
                events.append(event)
        return events

    def flush(self) -> list[KeyEvent]:
        """Return what is left when nothing followed for a moment: Escape."""
        self.left = b""
        return [("key", "escape")]

    def _read_paste(self) -> KeyEvent | None:
        if END not in self.left:
            return None
        text, _, self.left = self.left.partition(END)
        self.pasting = False
        return "paste", text.decode(errors="replace").replace("\r\n", "\n").replace("\r", "\n")

    def _read_next(self) -> KeyEvent | None:
        if self.left.startswith(PASTE):
            self.pasting, self.left = True, self.left[len(PASTE) :]
            return "", ""
        if self.left[0] == 0x1B:
            return self._read_sequence()
        if found := _TEXT.match(self.left):
            return self._read_text(found[0])
        code, self.left = self.left[0], self.left[1:]
        return "key", _NAMES.get(code) or f"ctrl-{chr(code + 0x60)}"

    def _read_sequence(self) -> KeyEvent | None:
        if self.left.startswith(b"\x1b\x1b"):
            self.left = self.left[1:]
            return "key", "escape"
        if not (found := _SEQUENCE.match(self.left)):
            return None
        self.left = self.left[found.end() :]
        return "key", "other"

    def _read_text(self, data: bytes) -> KeyEvent | None:
        """Return typed text; a character that is cut off waits for its rest."""
        try:
            text = data.decode()
        except UnicodeDecodeError as error:
            if error.reason == "unexpected end of data" and len(data) == len(self.left):
                if not error.start:
                    return None
                data = data[: error.start]
            text = data.decode(errors="replace")
        self.left = self.left[len(data) :]
        return "text", text
