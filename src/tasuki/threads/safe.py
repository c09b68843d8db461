"""Make entries safe to leave the program: secrets redacted, nothing that moves a cursor."""

from msgspec.structs import replace

from tasuki.draft.redact.redactor import Redactor
from tasuki.model import Entry, FileChange, Todo, ToolCall
from tasuki.text_safety import clean_text, shorten_to_line


class EntryCleaner:
    """Cleans the entries of one answer; a secret that was found once is known in all of them."""

    def __init__(self) -> None:
        self._redactor = Redactor()

    def clean_text(self, text: str) -> str:
        """Return a text without secrets and control characters."""
        return self._redactor.redact(clean_text(text)) if text else text

    def clean_entry(self, entry: Entry) -> Entry:
        """Return an entry with every text in it cleaned."""
        tool = self._clean_call(entry.tool) if entry.tool else None
        return replace(
            entry, text=self.clean_text(entry.text), at=self.clean_line(entry.at, 40), tool=tool
        )

    def clean_line(self, text: str, width: int = 400) -> str:
        """Return a short text, such as a folder or a time, on one line."""
        return shorten_to_line(self.clean_text(text), width)

    def _clean_call(self, call: ToolCall) -> ToolCall:
        return replace(
            call,
            command=self.clean_text(call.command),
            detail=self.clean_text(call.detail),
            paths=tuple(map(self.clean_text, call.paths)),
            changes=tuple(
                FileChange(
                    self.clean_text(c.path), c.kind, self.clean_text(c.old), self.clean_text(c.new)
                )
                for c in call.changes
            ),
            todos=None
            if call.todos is None
            else tuple(Todo(self.clean_text(t.text), t.status) for t in call.todos),
            output=self.clean_text(call.output),
        )
