"""Entries made fit to leave the program: secrets redacted, nothing that moves a cursor."""

from msgspec.structs import replace

from tasuki.draft.redact import Redactor
from tasuki.model import Entry, FileChange, Todo, ToolCall
from tasuki.plain import one_line, plain


class Cleaner:
    """Cleans the entries of one answer; what was found to be a secret once is known in all."""

    def __init__(self) -> None:
        self._redactor = Redactor()

    def text(self, text: str) -> str:
        """A text without secrets and control characters."""
        return self._redactor.redact(plain(text)) if text else text

    def entry(self, entry: Entry) -> Entry:
        """An entry with every text in it cleaned."""
        tool = self._call(entry.tool) if entry.tool else None
        return replace(entry, text=self.text(entry.text), at=self.line(entry.at, 40), tool=tool)

    def line(self, text: str, width: int = 400) -> str:
        """A short text, such as a folder or a time, on one line."""
        return one_line(self.text(text), width)

    def _call(self, call: ToolCall) -> ToolCall:
        return replace(
            call,
            command=self.text(call.command),
            detail=self.text(call.detail),
            paths=tuple(map(self.text, call.paths)),
            changes=tuple(
                FileChange(self.text(c.path), c.kind, self.text(c.old), self.text(c.new))
                for c in call.changes
            ),
            todos=None if call.todos is None else tuple(
                Todo(self.text(t.text), t.status) for t in call.todos
            ),
            output=self.text(call.output),
        )  # fmt: skip
