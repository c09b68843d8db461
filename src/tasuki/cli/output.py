"""What commands print in one way: tables, JSON, and progress on standard error."""

import os
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import cycle
from types import TracebackType
from typing import TextIO

import click

from tasuki.errors import ExtraMissing
from tasuki.text_safety import LEAST_ROOM, count_columns, format_row, pad

JSON_VERSION = 1
"""Version of all documents: it grows when a key is removed or renamed, or means something else."""
JSON_OPTION = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@contextmanager
def need_extra(extra: str, what: str, *modules: str) -> Iterator[None]:
    """Raise ExtraMissing where an import finds that one of the modules of an extra is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in modules:
            raise
        from tasuki.config.installation import build_install_line

        raise ExtraMissing(
            f"{what} needs the extra `{extra}`. Install it: {build_install_line(extra)}"
        ) from error


def print_json(document: Mapping[str, object]) -> None:
    """Print one JSON document on standard output, with the version of its layout in front."""
    click.echo(format_json(document), nl=False)


def print_result(
    as_json: bool, document: Mapping[str, object], lines: str | Iterable[str], note: str = ""
) -> None:
    """Print what a command did: the document as JSON, else lines, and a note on standard error."""
    if as_json:
        print_json(document)
        return
    for line in [lines] if isinstance(lines, str) else lines:
        click.echo(line)
    if note:
        click.echo(note, err=True)


def print_records(
    as_json: bool, name: str, records: Sequence[object], lines: Iterable[str], empty: str
) -> None:
    """Print records: as JSON under their name, else as lines, or a note that there are none."""
    print_result(as_json, {name: records}, lines if records else (), "" if records else empty)


def print_problems(problems: Iterable[str]) -> None:
    """Print sentences on standard error, each on one line without control characters."""
    for problem in problems:
        click.echo(f"tasuki: {make_visible(problem)}", err=True)


def get_width(fallback: int) -> int:
    """Return the columns of the terminal, or `fallback` where the output goes elsewhere."""
    import shutil

    return shutil.get_terminal_size((fallback, 24)).columns


def format_table(
    titles: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int] = ()
) -> list[str]:
    """Format a table: titles first, each column as wide as its content, empty ones left out.

    `right` are the columns that are aligned to the right; the last one is cut at the screen's
    edge, or below the others where there is no room. Cells are safe for a terminal already.
    """
    last = len(titles) - 1
    widths = [max((count_columns(row[n]) for row in rows), default=0) for n in range(last)]
    widths = [max(width, len(titles[n])) if width else 0 for n, width in enumerate(widths)]
    columns = get_width(120)
    longest = max((count_columns(row[last]) for row in rows), default=0)
    used = sum(width + 2 for width in widths if width)
    is_below = columns - used < min(LEAST_ROOM, longest)
    lines = []
    for row in (titles, *rows):
        cells = [pad(cell, width, right=n in right)
                 for n, (cell, width) in enumerate(zip(row, widths, strict=False)) if width]  # fmt: skip
        lines.append(format_row(cells, row[last], columns, is_below=is_below))
    return lines


def shorten_folder(folder: str) -> str:
    """Shorten a folder for a list: `~` for the home, a long one from its end."""
    from tasuki.config.settings import find_home

    home = str(find_home() or "")
    folder = "~" + folder[len(home) :] if home and folder.startswith(home) else folder
    return folder if len(folder) <= 36 else "…" + folder[-35:]


def format_age(seconds: float) -> str:
    """Format a time span in one unit: `45s`, `12m`, `3h`, `9d`."""
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= size:
            return f"{seconds // size:.0f}{unit}"
    return f"{max(seconds, 0):.0f}s"


def make_visible(text: str) -> str:
    """Make a text from a thread one line, without control characters."""
    from tasuki.draft.brief import clean_line

    return clean_line(text)


def format_json(document: Mapping[str, object]) -> str:
    """Format the same document as text, for a file."""
    import msgspec

    encoded = msgspec.json.encode({"version": JSON_VERSION, **document})
    return msgspec.json.format(encoded, indent=2).decode() + "\n"


FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
PLAIN_FRAMES = "|/-\\"
QUIET_SECONDS = 1.0
"""Seconds in which nothing is shown."""
LINES_VARIABLE = "TASUKI_PROGRESS"
"""A variable; with the value `lines`, a program that shows progress itself gets a line per
phase.
"""
LINE_MARK = "progress: "
ESTIMATE_SECONDS = 10.0
"""Seconds after which an estimate of the remaining time is shown."""
BYTES_PER_SECOND = 120e6


class ProgressSpinner:
    """Shows the current work. `expected` seconds, where known, give the estimate.

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
        self._uses_lines = os.environ.get(LINES_VARIABLE) == "lines"
        self._is_terminal = self.stream.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        encoding = (getattr(self.stream, "encoding", None) or "").lower()
        self.frames, self.done_mark, self.failed_mark = (
            (FRAMES, "✓", "✗") if "utf" in encoding else (PLAIN_FRAMES, "ok:", "failed:")
        )

    def __enter__(self) -> "ProgressSpinner":
        if self._is_terminal or self._uses_lines:
            self._thread = threading.Thread(target=self._show_progress, daemon=True)
            self._thread.start()
        return self

    def begin_phase(self, label: str) -> None:
        """Begin the next phase."""
        if self.phases:
            self.label = label
            if self._uses_lines:
                self._write(f"{LINE_MARK}{self._format_text()}\n")

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self._stop.set()
        if self._thread:
            self._thread.join()
        seconds = time.monotonic() - self.started
        if seconds >= QUIET_SECONDS and not self._uses_lines and kind is not KeyboardInterrupt:
            mark = self.failed_mark if kind else self.done_mark
            outcome = "Context failed" if kind else "Context ready"
            self._write(f"{mark} {outcome} ({seconds:.1f}s)\n")

    def _show_progress(self) -> None:
        first, pause = (ESTIMATE_SECONDS, 1.0) if self._uses_lines else (QUIET_SECONDS, 0.08)
        if self._stop.wait(first):
            return
        for frame in cycle(self.frames):
            if self._stop.wait(pause):
                break
            if self._uses_lines:
                self._write(f"{LINE_MARK}{self._format_text()}\n")
            else:
                self._write(f"\r\x1b[2K{frame} {self._format_text()}")
        if not self._uses_lines:
            self._write("\r\x1b[2K")

    def _write(self, text: str) -> None:
        self.stream.write(text)
        self.stream.flush()

    def _format_text(self) -> str:
        seconds = time.monotonic() - self.started
        remaining = self.expected - seconds
        if seconds < ESTIMATE_SECONDS:
            return self.label
        if remaining > 1:
            return f"{self.label} {seconds:.0f}s, about {remaining:.0f}s left"
        usual = f"; usually about {self.expected:.0f}s" if self.expected >= 1 else ""
        return f"{self.label} {seconds:.0f}s{usual}"
