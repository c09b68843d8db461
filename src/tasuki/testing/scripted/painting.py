"""The screen, drawn as Claude Code 2.1 draws it: what was said, what goes on, the input below."""

import os

RULE = "─"
INPUT = "❯\u00a0"
BUSY = "esc to interrupt"
MODES = {"acceptEdits": "accept edits on", "plan": "plan mode on", "bypassPermissions": "bypass permissions on"}  # fmt: skip
KEPT = 400
"""Things said that are kept for the screen."""


class View:
    """What there is to be seen."""

    def __init__(self) -> None:
        self.said: list[tuple[str, str]] = []
        self.ready = False
        self.busy = False
        self.dialog = ""
        self.text = ""
        self.queue: list[str] = []
        self.status_line = ""
        self.permission = "default"
        self.hint = ""

    def say(self, mark: str, text: str) -> None:
        """Put something into what was said; `mark` stands before its first line."""
        self.said = [*self.said[-KEPT:], (mark, text)]

    def rows(self, width: int, height: int) -> list[str]:
        """The rows of the screen, `height` at most."""
        below = self._below(width)
        above = [row for mark, text in self.said[-height:] for row in _block(mark, text, width)]
        for text in self.queue:
            above += [*_block("❯ ", text, width), "  ⎿  Queued · ctrl+x ctrl+s to send now"]
        if self.busy and not self.dialog:
            above.append("✽ Working…")
        room = max(0, height - len(below))
        return [*above[len(above) - room if len(above) > room else 0 :], *below][-height:]

    def _below(self, width: int) -> list[str]:
        rule = RULE * width
        if not self.ready:
            return ["Starting…"]
        if self.dialog:
            asked = [f" {row}" for row in _wrapped(self.dialog, width - 1)]
            return [rule, " Bash command", *asked, " Do you want to proceed?", " ❯ 1. Yes", "   2. No",
                    " Esc to cancel · Tab to amend"]  # fmt: skip
        shown = self.text or ("Press up to edit queued messages" if self.queue else "")
        mode = MODES.get(self.permission, "manual mode on")
        foot = f"  ⏵⏵ {mode} (shift+tab to cycle)" + (f" · {BUSY}" if self.busy else "")
        status = [f"  {self.status_line}"[:width]] if self.status_line else []
        return [rule, *_block(INPUT, shown, width)[-12:], rule, *status, f"  {self.hint}" if self.hint else foot]  # fmt: skip


def paint(view: View) -> None:
    """Draw the screen."""
    try:
        width, height = os.get_terminal_size(1)
    except OSError:
        width, height = 80, 24
    rows = view.rows(max(width, 20), max(height, 8))
    body = "\r\n".join(f"{row}\x1b[K" for row in rows)
    write(f"\x1b[?25l\x1b[H{body}\x1b[J".encode("utf-8", "replace"))


def write(data: bytes) -> None:
    """All of it to the terminal; a terminal that is gone is no error."""
    try:
        while data:
            data = data[os.write(1, data) :]
    except OSError:
        pass


def _block(mark: str, text: str, width: int) -> list[str]:
    lines = _wrapped(text, width - 3) or [""]
    return [f"{mark}{lines[0]}", *(f"  {line}" for line in lines[1:])]


def _wrapped(text: str, width: int) -> list[str]:
    """The lines of a text, long ones cut; of a very long text its end."""
    lines: list[str] = []
    for line in text[-20_000:].split("\n"):
        plain = "".join(max(character, " ") for character in line)
        lines += [plain[at : at + width] for at in range(0, len(plain), width)] or [""]
    return lines
