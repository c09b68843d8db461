"""The screen, drawn as Claude Code 2.1 draws it: the conversation, the activity, the input
below.
"""

import os

RULE = "─"
INPUT = "❯\u00a0"
BUSY = "esc to interrupt"
MODES = {"acceptEdits": "accept edits on", "plan": "plan mode on", "bypassPermissions": "bypass permissions on"}  # fmt: skip
MAX_LINES = 400
"""Messages that are kept for the screen."""


class ProgramView:
    """What the screen shows."""

    def __init__(self) -> None:
        self.said: list[tuple[str, str]] = []
        self.ready = False
        self.busy = False
        self.dialog = ""
        self.what = ""
        self.text = ""
        self.has_stash = False
        self.queue: list[str] = []
        self.status_line = ""
        self.permission = "default"
        self.hint = ""

    def add_message(self, mark: str, text: str) -> None:
        """Add a message to the conversation; `mark` is put before its first line."""
        self.said = [*self.said[-MAX_LINES:], (mark, text)]

    def build_rows(self, width: int, height: int) -> list[str]:
        """Return the rows of the screen, at most `height`."""
        below = self._build_input_rows(width)
        above = [
            row for mark, text in self.said[-height:] for row in _format_block(mark, text, width)
        ]
        for text in self.queue:
            above += [*_format_block("❯ ", text, width), "  ⎿  Queued · ctrl+x ctrl+s to send now"]
        if self.busy and not self.dialog:
            above.append("✽ Working…")
        room = max(0, height - len(below))
        return [*above[len(above) - room if len(above) > room else 0 :], *below][-height:]

    def _build_input_rows(self, width: int) -> list[str]:
        rule = RULE * width
        if not self.ready:
            return ["Starting…"]
        if self.dialog:
            asked = [f" {row}" for row in _wrap_text(self.dialog, width - 1)]
            if self.what:
                dashes = "╌" * width
                return [rule, " Bash command", f" {self.what}", dashes, *asked, dashes, " Do you want to proceed?",
                        " ❯ 1. Yes", "   2. Yes, and don't ask again for this command", "   3. No", "",
                        " Esc to cancel · Tab to amend"]  # fmt: skip
            return [rule, " Bash command", *asked, " Do you want to proceed?", " ❯ 1. Yes", "   2. No",
                    " Esc to cancel · Tab to amend"]  # fmt: skip
        hint = "Press up to edit queued messages" if self.queue and not self.text else ""
        above = ["draft stashed".rjust(width)] if self.has_stash else []
        mode = MODES.get(self.permission, "manual mode on")
        foot = f"  ⏵⏵ {mode} (shift+tab to cycle)" + (f" · {BUSY}" if self.busy else "")
        status = [f"  {self.status_line}"[:width]] if self.status_line else []
        box = _format_block(INPUT, self.text, width)[-12:]
        if hint:
            box = [f"{INPUT}\x1b[7m{hint[0]}\x1b[0;2m{hint[1:]}\x1b[0m"]
        return [*above, rule, *box, rule, *status, f"  {self.hint}" if self.hint else foot]


def paint(view: ProgramView) -> None:
    """Draw the screen."""
    try:
        width, height = os.get_terminal_size(1)
    except OSError:
        width, height = 80, 24
    rows = view.build_rows(max(width, 20), max(height, 8))
    body = "\r\n".join(f"{row}\x1b[K" for row in rows)
    write_all(f"\x1b[?25l\x1b[H{body}\x1b[J".encode("utf-8", "replace"))


def write_all(data: bytes) -> None:
    """Write all data to the terminal; a terminal that is gone is no error."""
    try:
        while data:
            data = data[os.write(1, data) :]
    except OSError:
        pass


def _format_block(mark: str, text: str, width: int) -> list[str]:
    lines = _wrap_text(text, width - 3) or [""]
    return [f"{mark}{lines[0]}", *(f"  {line}" for line in lines[1:])]


def _wrap_text(text: str, width: int) -> list[str]:
    """Return the lines of a text, long ones cut; of a very long text its end."""
    lines: list[str] = []
    for line in text[-20_000:].split("\n"):
        plain = "".join(max(character, " ") for character in line)
        lines += [plain[start : start + width] for start in range(0, len(plain), width)] or [""]
    return lines
