"""What the commands of `tasuki eval` share: the author that is measured, and who wrote in its place."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from tasuki.config import Loaded

author_option = click.option(
    "--author",
    type=click.Choice(["offline", "model"]),
    default="offline",
    show_default=True,
    help="Who writes the briefs; the model is the one of your settings.",
)


def loaded(author: str, budget: int, model: str | None = None) -> "Loaded":
    """The settings to measure with: the author and model that were asked for, and defaults."""
    from tasuki import config
    from tasuki.evals.author import settings

    return settings(config.loaded(Path.cwd(), {"author": author, "model": model}), budget)


def say_who_wrote(fell: Sequence[str], briefs: int) -> None:
    """On standard error, where authors failed and the next one down wrote; `fell` are the reasons."""
    from tasuki.plain import one_line

    if fell:
        click.echo(
            f"{len(fell)} of {briefs} briefs were not written by the author that was asked. "
            f"The first reason: {one_line(fell[0], 400)}",
            err=True,
        )


def visible(text: str) -> str:
    """A text of a thread as a terminal may show it."""
    from tasuki.cli.threads import visible as shown

    return shown(text)


class Status:
    """What is under way, on standard error, if that is a terminal."""

    def __init__(self) -> None:
        from rich.console import Console

        self.status = Console(stderr=True).status("") if sys.stderr.isatty() else None

    def __enter__(self) -> "Status":
        if self.status:
            self.status.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self.status:
            self.status.stop()

    def tell(self, what: str) -> None:
        """The next thing begins."""
        if self.status:
            from rich.text import Text

            self.status.update(Text(visible(what)))


class ProgressBar:
    """How many files are through, on standard error, if that is a terminal.

    It moves when a file is done and not by itself: a thread of its own would be copied, half at
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
