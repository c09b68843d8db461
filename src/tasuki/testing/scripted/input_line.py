"""What stands in the input, unsent: text of several lines, and pastes that are shown by a name."""

from .identity import new_id

LONG = 800
"""Characters of a paste that is shown by a name."""
LINES = 2
"""Line ends of a paste up to which it is shown itself."""


class InputLine:
    """The input. Long pastes stand in it as `[Pasted text #1 +12 lines]`."""

    def __init__(self) -> None:
        self.shown = ""
        self.pastes: dict[str, str] = {}

    @property
    def text(self) -> str:
        """What is submitted: the pastes themselves, marked as such."""
        text = self.shown
        for name, pasted in self.pastes.items():
            id = int(new_id()[:4], 16)
            marked = f'\n\n<pasted_content id="{id}">\n{pasted}\n</pasted_content id="{id}">\n'
            text = text.replace(name, marked)
        return text

    def type(self, text: str) -> None:
        """Put text behind what stands there."""
        self.shown += text

    def paste(self, text: str) -> None:
        """Put a paste behind what stands there."""
        ends = text.count("\n")
        if len(text) <= LONG and ends <= LINES:
            self.shown += text
            return
        more = f" +{ends} lines" if ends else ""
        name = f"[Pasted text #{len(self.pastes) + 1}{more}]"
        self.pastes[name] = text
        self.shown += name

    def key(self, name: str) -> None:
        """A key that edits: Backspace takes a character away, C-u a line."""
        if name == "backspace":
            self.shown = self.shown[:-1]
        elif name == "ctrl-u":
            before, newline, last = self.shown.rpartition("\n")
            self.shown = before + newline if last and newline else before
        elif name == "ctrl-j":
            self.shown += "\n"

    def clear(self) -> None:
        """Nothing stands there any more."""
        self.shown = ""
        self.pastes = {}
