"""`tasuki find`: search all threads of all harnesses."""

import shutil
import sys
import time
from typing import TYPE_CHECKING

import click

from tasuki.cli.printing import print_json
from tasuki.cli.threads import age, short_folder, visible

if TYPE_CHECKING:
    from tasuki.threads.index import Index
    from tasuki.threads.search import Found

BAR_BYTES = 24_000_000
"""So much to take in is worth a progress bar."""
MAX_WIDTH = 400
"""Of a line where standard output is no terminal."""
EPILOG = """
\b
Examples:
  tasuki find "retry budget"
  tasuki find timeout file:src/login.py harness:codex after:2026-11-01
  tasuki find '"connection reset" -proxy repo:gateway' --json
"""


@click.command(
    epilog=EPILOG,
    context_settings={"ignore_unknown_options": True, "help_option_names": ["--help"]},
)
@click.argument("words", nargs=-1, required=True, metavar="WORDS…")
@click.option(
    "--limit", type=click.IntRange(1, 100), default=10, show_default=True, help="How many threads."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
def find(words: tuple[str, ...], limit: int, as_json: bool) -> None:
    """Search all threads of all harnesses; the best come first, with the lines that match.

    Words in "double quotes" stand together, -WORD must not occur near. Filters: file:PATH (read or
    changed, * is allowed), harness:NAME, after:DATE, before:DATE, repo:FOLDER. With filters alone the
    newest come first. The index is brought up to date first; it lies in tasuki's data folder, holds
    words and places and no text but redacted titles, and may be deleted at any time. Tokens of known
    issuers are not among its words; a password may be. What is printed is redacted.
    """
    import gc

    gc.disable()  # Threads are large, acyclic, short-lived graphs.
    from tasuki.threads import search
    from tasuki.threads.index import Index
    from tasuki.threads.query import parse

    if unknown := next((w for w in words if w.startswith("--")), ""):
        raise click.NoSuchOption(unknown)
    query = parse(" ".join(words))
    with Index() as index:
        problems = _refreshed(index)
        found = search.search(index, query, limit)
        labels = [index.label(hit.thread) for hit in found]
    if as_json:
        _print_json(found, labels, problems)
        return
    for problem in problems[:3]:
        click.echo(f"tasuki: {visible(problem)}", err=True)
    if len(problems) > 3:
        click.echo(f"tasuki: {len(problems) - 3} more threads cannot be read.", err=True)
    if not found:
        click.echo(
            "No thread matches. Fewer words find more; filters: tasuki find --help", err=True
        )
        raise SystemExit(1)
    width = shutil.get_terminal_size((160, 24)).columns if sys.stdout.isatty() else MAX_WIDTH
    for label, hit in zip(labels, found, strict=True):
        click.echo(_shown(label, hit, width))
    click.echo(f"Open one: tasuki read {_example(labels, found)}", err=True)


def _refreshed(index: "Index") -> list[str]:
    """The index in step with the threads, with a progress bar where that takes a while."""
    from tasuki.harness.jsonl import noted_unreadable
    from tasuki.threads import catalog, search

    if index.rebuilt:
        click.echo(f"tasuki: the thread index is built anew: {index.rebuilt}.", err=True)
    with noted_unreadable() as closed:
        files = catalog.files()
    waiting = sum(file.bytes for _, file in index.stale(files))
    if waiting < BAR_BYTES or not sys.stderr.isatty():
        return [*closed, *search.refresh(index, files)]
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    columns = (
        TextColumn("Indexing threads"), BarColumn(), DownloadColumn(), TransferSpeedColumn(),
        TimeRemainingColumn(),
    )  # fmt: skip
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=waiting)
        return [*closed, *search.refresh(index, files, lambda size: progress.advance(task, size))]


def _shown(label: str, hit: "Found", width: int) -> str:
    thread = hit.thread
    head = (
        f"{visible(label)}  {thread.harness}  {age(time.time() - thread.modified)}  "
        f"{short_folder(thread.cwd)}  {thread.name or thread.first_words}"
    )
    lines = [click.style(_fitted(head, width), bold=True)]
    lines += [
        _fitted(f"    #{line.ref:<5} {line.kind:<10} {line.text}", width) for line in hit.lines
    ]
    if hit.problem:
        lines.append(f"    {visible(hit.problem)}")
    return "\n".join(lines)


def _fitted(line: str, width: int) -> str:
    line = line.rstrip()
    return line if len(line) <= width else line[: width - 1] + "…"


def _example(labels: list[str], found: "list[Found]") -> str:
    first = found[0]
    return f"{labels[0]}#{first.lines[0].ref}" if first.lines else labels[0]


def _print_json(found: "list[Found]", labels: list[str], problems: list[str]) -> None:
    rows = [
        {
            "label": label,
            "score": round(hit.score, 3),
            "thread": hit.thread,
            "lines": hit.lines,
            "problem": hit.problem,
        }
        for label, hit in zip(labels, found, strict=True)
    ]
    print_json({"threads": rows, "problems": problems})
