"""Progress on standard error: a spinner with phases once a second has passed, nothing before."""

import os
import sys
import threading
import time
from types import TracebackType
from typing import TextIO

FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
PLAIN_FRAMES = "|/-\\"
QUIET = 1.0
"""Seconds in which nothing is shown."""
LINES = "TASUKI_PROGRESS"
"""A variable; with the value `lines`, a program that shows the progress itself gets a line for each phase."""
LINE_MARK = "progress: "
ESTIMATE = 10.0
"""Seconds after which an estimate of the time left is shown."""
BYTES_PER_SECOND = 120e6


class Progress:
    """Shows what is under way. `expected` seconds, where known, give the estimate.

    Without a terminal nothing moves; the closing line is written only if it took a second. With
    `TASUKI_PROGRESS=lines` each phase is a line, and after ten seconds each second.
    """

    def __init__(
        self, *, phases: bool = True, expected: float = 0.0, stream: TextIO | None = None
    ) -> None:
        self.stream = stream or sys.stderr
        self.phases = phases
        self.expected = expected
        self.label = "Working..."
        self.started = time.monotonic()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._lines = os.environ.get(LINES) == "lines"
        self._tty = self.stream.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        encoding = (getattr(self.stream, "encoding", None) or "").lower()
        self.frames, self.done_mark, self.failed_mark = (
            (FRAMES, "✓", "✗") if "utf" in encoding else (PLAIN_FRAMES, "ok:", "failed:")
        )

    def __enter__(self) -> "Progress":
        if self._tty or self._lines:
            work = self._tell if self._lines else self._spin
            self._thread = threading.Thread(target=work, daemon=True)
            self._thread.start()
        return self

    def phase(self, label: str) -> None:
        """The next phase begins."""
        if self.phases:
            self.label = label
            if self._lines:
                self._write_line()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self._stop.set()
        if self._thread:
            self._thread.join()
        took = time.monotonic() - self.started
        if took >= QUIET and not self._lines and kind is not KeyboardInterrupt:
            mark = self.failed_mark if kind else self.done_mark
            what = "Context failed" if kind else "Context ready"
            self.stream.write(f"{mark} {what} ({took:.1f}s)\n")
            self.stream.flush()

    def _tell(self) -> None:
        if self._stop.wait(ESTIMATE):
            return
        while not self._stop.wait(1.0):
            self._write_line()

    def _write_line(self) -> None:
        self.stream.write(f"{LINE_MARK}{self._text()}\n")
        self.stream.flush()

    def _spin(self) -> None:
        if self._stop.wait(QUIET):
            return
        frame = 0
        while not self._stop.wait(0.08):
            self.stream.write(f"\r\x1b[2K{self.frames[frame % len(self.frames)]} {self._text()}")
            self.stream.flush()
            frame += 1
        self.stream.write("\r\x1b[2K")
        self.stream.flush()

    def _text(self) -> str:
        took = time.monotonic() - self.started
        left = self.expected - took
        if took >= ESTIMATE:
            if left > 1:
                return f"{self.label} {took:.0f}s, about {left:.0f}s left"
            usual = f"; usually about {self.expected:.0f}s" if self.expected >= 1 else ""
            return f"{self.label} {took:.0f}s{usual}"
        return self.label
