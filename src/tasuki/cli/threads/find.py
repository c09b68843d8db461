"""`tasuki find`: search all threads of all harnesses."""

import shutil
import sys
import time
from typing import TYPE_CHECKING

import click

from tasuki.cli.output import print_json
from tasuki.cli.threads.thread_list import format_age, make_visible, shorten_folder

if TYPE_CHECKING:
    from tasuki.threads.index import ThreadIndex
    from tasuki.threads.search import ThreadSearchResult

PROGRESS_BAR_BYTES = 24_000_000
"""Bytes to index from which a progress bar is shown."""
MOST_WIDTH_COLUMNS = 400
"""Columns of a line where standard output is no terminal."""
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
    from tasuki.threads.index import ThreadIndex
    from tasuki.threads.query import parse_query

    if unknown := next((w for w in words if w.startswith("--")), ""):
        raise click.NoSuchOption(unknown)
    query = parse_query(" ".join(words))
    with ThreadIndex() as index:
        problems = _refresh_index(index)
        hits = search.search_threads(index, query, limit)
        labels = [index.build_label(hit.thread) for hit in hits]
    if as_json:
        _print_json(hits, labels, problems)
        return
    for problem in problems[:3]:
        click.echo(f"tasuki: {make_visible(problem)}", err=True)
    if len(problems) > 3:
        click.echo(f"tasuki: {len(problems) - 3} more threads cannot be read.", err=True)
    if not hits:
        click.echo(
            "No thread matches. Fewer words find more; filters: tasuki find --help", err=True
        )
        raise SystemExit(1)
    width = (
        shutil.get_terminal_size((160, 24)).columns if sys.stdout.isatty() else MOST_WIDTH_COLUMNS
    )
    for label, hit in zip(labels, hits, strict=True):
        click.echo(_format_hit(label, hit, width))
    click.echo(f"Open one: tasuki read {_format_example(labels, hits)}", err=True)


def _refresh_index(index: "ThreadIndex") -> list[str]:
    """Bring the index up to date, with a progress bar where that takes a while."""
    from tasuki.harness.reading.jsonl import collect_unreadable
    from tasuki.threads import catalog, search

    if index.rebuilt:
        click.echo(f"tasuki: the thread index is built anew: {index.rebuilt}.", err=True)
    with collect_unreadable() as unreadable_notes:
        files = catalog.find_thread_files()
    waiting = sum(file.bytes for _, file in index.find_stale(files))
    if waiting < PROGRESS_BAR_BYTES or not sys.stderr.isatty():
        return [*unreadable_notes, *search.refresh_index(index, files)]
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
        return [
            *unreadable_notes,
            *search.refresh_index(index, files, lambda size: progress.advance(task, size)),
        ]


def _format_hit(label: str, hit: "ThreadSearchResult", width: int) -> str:
    thread = hit.thread
    head = (
        f"{make_visible(label)}  {thread.harness}  {format_age(time.time() - thread.modified)}  "
        f"{shorten_folder(thread.cwd)}  {thread.name or thread.first_words}"
    )
    lines = [click.style(_cut_line(head, width), bold=True)]
    lines += [
        _cut_line(f"    #{line.ref:<5} {line.kind:<10} {line.text}", width) for line in hit.lines
    ]
    if hit.problem:
        lines.append(f"    {make_visible(hit.problem)}")
    return "\n".join(lines)


def _cut_line(line: str, width: int) -> str:
    line = line.rstrip()
    return line if len(line) <= width else line[: width - 1] + "…"


def _format_example(labels: list[str], hits: "list[ThreadSearchResult]") -> str:
    first = hits[0]
    return f"{labels[0]}#{first.lines[0].ref}" if first.lines else labels[0]


def _print_json(hits: "list[ThreadSearchResult]", labels: list[str], problems: list[str]) -> None:
    rows = [
        {
            "label": label,
            "score": round(hit.score, 3),
            "thread": hit.thread,
            "lines": hit.lines,
            "problem": hit.problem,
        }
        for label, hit in zip(labels, hits, strict=True)
    ]
    print_json({"threads": rows, "problems": problems})
