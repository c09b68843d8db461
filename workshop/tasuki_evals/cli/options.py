"""Shared by the commands of `tasuki eval`: the measured author, and who wrote in its place."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from tasuki.config.settings import LoadedSettings
    from tasuki_evals.statistics import Proportion

author_option = click.option(
    "--author",
    type=click.Choice(["offline", "model"]),
    default="offline",
    show_default=True,
    help="Who writes the briefs; the model is the one of your settings.",
)
workers_option = click.option(
    "--workers",
    type=click.IntRange(min=1),
    metavar="N",
    help="Processes at work.  [default: one a core; with --author model one]",
)


def load_settings(author: str, budget: int, model: str | None = None) -> "LoadedSettings":
    """Load the settings to measure with: the given author and model, and defaults."""
    from tasuki.config import settings as config
    from tasuki_evals.runs import build_settings

    return build_settings(
        config.load_with_sources(Path.cwd(), {"author": author, "model": model}), budget
    )


def print_other_authors(reasons: Sequence[str], briefs: int) -> None:
    """Print on standard error how many briefs another author wrote, and the first reason.

    `reasons` are those of the authors that failed; the next one in the fallback order wrote.
    """
    from tasuki.text_safety import shorten_to_line

    if reasons:
        click.echo(
            f"{len(reasons)} of {briefs} briefs were not written by the requested author. "
            f"The first reason: {shorten_to_line(reasons[0], 400)}",
            err=True,
        )


def build_share(proportion: "Proportion") -> dict[str, object]:
    """Build the plain data of a share, with its interval."""
    share = None if proportion.share is None else round(proportion.share, 4)
    return {
        "hits": proportion.hits,
        "of": proportion.of,
        "share": share,
        "low": proportion.low,
        "high": proportion.high,
    }


def make_visible(text: str) -> str:
    """Make a text of a thread fit for a terminal."""
    from tasuki.cli.output import make_visible as shown

    return shown(text)


class EvalStatus:
    """Shows the current work on standard error, if that is a terminal."""

    def __init__(self) -> None:
        from rich.console import Console

        self.status = Console(stderr=True).status("") if sys.stderr.isatty() else None

    def __enter__(self) -> "EvalStatus":
        if self.status:
            self.status.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self.status:
            self.status.stop()

    def show(self, text: str) -> None:
        """Show that the next piece of work begins."""
        if self.status:
            from rich.text import Text

            self.status.update(Text(make_visible(text)))


class ProgressBar:
    """Shows how many files are done on standard error, if that is a terminal.

    It moves when a file is done, not continuously: its own thread would be copied, half at
    work, into the processes.
    """

    def __init__(self) -> None:
        self._bar: Progress | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> Callable[[int, int], None]:
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
            from rich.progress import TimeRemainingColumn as Left

            self._bar = Progress(
                TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), Left(),
                console=Console(stderr=True), auto_refresh=False, transient=True,
            )  # fmt: skip
            self._task = self._bar.add_task("Threads", total=None)
            self._bar.start()
            self._bar.refresh()
        return self._move

    def __exit__(self, *error: object) -> None:
        if self._bar:
            self._bar.stop()

    def _move(self, done: int, total: int) -> None:
        if self._bar and self._task is not None:
            self._bar.update(self._task, completed=done, total=total)
            self._bar.refresh()
