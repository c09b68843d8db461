"""Shared by the commands of `tasuki eval`: the measured author, shares and lines, progress."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click

from tasuki.cli.output import make_visible
from tasuki.config import settings as config
from tasuki.config.settings import LoadedSettings
from tasuki.text_safety import shorten_to_line
from tasuki_evals.runs import build_settings
from tasuki_evals.statistics import Proportion

author_option = click.option(
    "--author", type=click.Choice(["offline", "model"]), default="offline", show_default=True,
    help="Who writes the briefs; the model is the one of your settings.",
)  # fmt: skip
workers_option = click.option(
    "--workers", type=click.IntRange(min=1), metavar="N",
    help="Processes at work.  [default: one a core; with --author model one]",
)  # fmt: skip


def load_settings(author: str, budget: int, model: str | None = None) -> LoadedSettings:
    """Load the settings to measure with: the given author and model, and defaults."""
    loaded = config.load_with_sources(Path.cwd(), {"author": author, "model": model})
    return build_settings(loaded, budget)


def print_other_authors(reasons: Sequence[str], briefs: int) -> None:
    """Print on standard error how many briefs another author wrote, and the first reason.

    `reasons` are those of the authors that failed; the next one in the fallback order wrote.
    """
    if reasons:
        click.echo(
            f"{len(reasons)} of {briefs} briefs were not written by the requested author. "
            f"The first reason: {shorten_to_line(reasons[0], 400)}",
            err=True,
        )


def build_share(proportion: Proportion) -> dict[str, object]:
    """Build the plain data of a share, with its interval."""
    share = None if proportion.share is None else round(proportion.share, 4)
    hits, of = proportion.hits, proportion.of
    return {"hits": hits, "of": of, "share": share, "low": proportion.low, "high": proportion.high}


def format_share(proportion: Proportion, width: int = 8, nothing: str = "-") -> str:
    """Format a share as `12/13  92 % (67–99 %)`: the counts, the share, its 95 % interval."""
    if proportion.share is None:
        return nothing
    counted = f"{proportion.hits}/{proportion.of}"
    interval = f"({proportion.low:.0%}–{proportion.high:.0%})"
    return f"{counted:>{width}}  {proportion.share:>4.0%} {interval}"


def cut_line(text: str, width: int) -> str:
    """Cut a line that is safe for a terminal at a number of characters."""
    return text if len(text) <= width else f"{text[: width - 1].rstrip()}…"


@contextmanager
def show_status() -> Iterator[Callable[[str], None]]:
    """Show the current work on standard error, if that is a terminal; yields what to tell it."""
    if not sys.stderr.isatty():
        yield lambda text: None
        return
    from rich.console import Console
    from rich.text import Text

    with Console(stderr=True).status("") as status:
        yield lambda text: status.update(Text(make_visible(text)))


@contextmanager
def show_progress() -> Iterator[Callable[[int, int], None]]:
    """Show how many files are done on standard error, if that is a terminal.

    The bar moves when a file is done, not continuously: its own thread would be copied, half at
    work, into the processes.
    """
    if not sys.stderr.isatty():
        yield lambda done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
    from rich.progress import TimeRemainingColumn as Left

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), Left())
    console = Console(stderr=True)
    with Progress(*columns, console=console, auto_refresh=False, transient=True) as bar:
        task = bar.add_task("Threads", total=None)
        bar.refresh()

        def move_bar(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)
            bar.refresh()

        yield move_bar
