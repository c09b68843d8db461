"""The unsent input: text of several lines, pastes that are shown by a name, and what is set aside."""

from fakes.scripted.identity import create_id

LONG_PASTE = 800
"""Characters of a paste that is shown by a name."""
MAX_SHOWN_LINES = 2
"""Maximum line ends of a paste that is shown itself."""


class InputLine:
    """The input. It shows long pastes as `[Pasted text #1 +12 lines]`."""

    def __init__(self) -> None:
        self.shown = ""
        self.pastes: dict[str, str] = {}
        self.stash: str | None = None

    @property
    def text(self) -> str:
        """What is submitted: the pastes themselves, marked as such."""
        text = self.shown
        for name, pasted in self.pastes.items():
            id = int(create_id()[:4], 16)
            marked = f'\n\n<pasted_content id="{id}">\n{pasted}\n</pasted_content id="{id}">\n'
            text = text.replace(name, marked)
        return text

    def type_text(self, text: str) -> None:
        """Append text to the input."""
        self.shown += text

    def paste_text(self, text: str) -> None:
        """Append a paste to the input."""
        ends = text.count("\n")
        if len(text) <= LONG_PASTE and ends <= MAX_SHOWN_LINES:
            self.shown += text
            return
        more = f" +{ends} lines" if ends else ""
        name = f"[Pasted text #{len(self.pastes) + 1}{more}]"
        self.pastes[name] = text
        self.shown += name

    def press_key(self, name: str) -> None:
        """Apply an editing key: Backspace removes a character, C-u a line.

        C-s sets the input aside, or puts it back into an empty one.
        """
        if name == "ctrl-s" and not self.shown.strip():
            self.shown, self.stash = self.stash or "", None
        elif name == "ctrl-s":
            self.shown, self.stash = "", self.shown
        elif name == "backspace":
            self.shown = self.shown[:-1]
        elif name == "ctrl-u":
            before, newline, last = self.shown.rpartition("\n")
            self.shown = before + newline if last and newline else before
        elif name == "ctrl-j":
            self.shown += "\n"

    def clear(self) -> None:
        """Remove the whole input; what was set aside comes back, unless a command was sent."""
        if self.stash is not None and not self.shown.startswith("/"):
            self.shown, self.stash = self.stash, None
            return
        self.shown = ""
        if self.stash is None:
            self.pastes = {}
