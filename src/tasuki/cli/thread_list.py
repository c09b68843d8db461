"""`tasuki threads`, `tasuki find`, and `tasuki` alone: threads and their kept copies, listed and searched."""

import gc
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tasuki.cli.completions import complete_harness
from tasuki.cli.output import (
    JSON_OPTION,
    format_age,
    format_table,
    get_width,
    make_visible,
    print_json,
    print_problems,
    print_result,
    shorten_folder,
)
from tasuki.errors import ThreadNotFound
from tasuki.harness import registry as harnesses
from tasuki.harness.reading.jsonl import collect_unreadable
from tasuki.model import ThreadHead, format_ref
from tasuki.text_safety import cut_line, format_plural, format_row, format_size, wrap_text
from tasuki.typed_prompts import HANDOFF_TITLE

if TYPE_CHECKING:
    from tasuki.threads.index import ThreadIndex
    from tasuki.threads.kept.store import KeptCopy
    from tasuki.threads.search import ThreadSearchResult


MOST_CHILDREN = 3
"""Agents of a thread that a list names by their ids."""


@click.command()
@click.option("--all", "everywhere", is_flag=True, help="Threads of all folders.")
@click.option(
    "--harness",
    "name",
    metavar="H",
    shell_complete=complete_harness,
    help="Only threads of this harness: claude, codex, pi, omp, gemini, …",
)
@click.option(
    "--limit", type=click.IntRange(min=1), default=30, show_default=True, help="How many."
)
@click.option("--kept", is_flag=True, help="All copies that are kept, of all folders.")
@click.option(
    "--forget",
    metavar="ID",
    help="Delete the kept copy of this thread and what was read of it, or those of all threads.",
)
@JSON_OPTION
def threads(
    everywhere: bool, name: str | None, limit: int, kept: bool, forget: str | None, as_json: bool
) -> int:
    """List the threads in this folder, newest first.

    `--from @N` takes the number in front. Messages are counted only if that is quick. Kept copies of
    deleted threads are listed too.
    """
    if name:
        harnesses.get_harness(name)
    if kept or forget is not None:
        if forget is not None:
            return forget_copies(forget, as_json=as_json)
        return list_copies(name, limit, as_json=as_json)
    heads, are_some_unreadable = find_heads(name, limit, everywhere=everywhere)
    if as_json:
        print_json({"threads": heads})
    elif heads:
        print_table(heads, everywhere=everywhere)
    else:
        place = "on this machine" if everywhere else f"for {Path.cwd()}"
        more = "" if everywhere else " Threads of other folders: tasuki threads --all"
        readable_note = " that can be read" if are_some_unreadable else ""
        click.echo(f"No threads {place}{readable_note}.{more}", err=True)
    return 1 if are_some_unreadable and not heads else 0


def find_heads(
    name: str | None, limit: int | None, *, everywhere: bool = False
) -> tuple[list[ThreadHead], bool]:
    """Find the threads of this folder, newest first, and whether some cannot be read.

    Sentences on those, and on another folder of the project, go to standard error.
    """
    from tasuki.threads import catalog

    cwd = Path.cwd()
    with collect_unreadable() as unreadable_notes:
        if everywhere:
            heads, folder = list(catalog.list_heads(name, limit=limit)), cwd
        else:
            heads, folder = catalog.list_heads_near(name, cwd, limit)
    for sentence in unreadable_notes:
        click.echo(sentence, err=True)
    if heads and not everywhere and (note := catalog.describe_folder(folder, cwd)):
        click.echo(note.replace("this is", "these are"), err=True)
    return heads, bool(unreadable_notes)


def print_table(heads: list[ThreadHead], *, everywhere: bool = False) -> None:
    """Print what is known of threads; the number in front is what `--from @N` takes."""
    ids = {head.id for head in heads}
    lengths = range(8, max(map(len, ids), default=8))  # 8, or more where they begin alike
    length = next((n for n in lengths if len({id[:n] for id in ids}) == len(ids)), 99)
    folders = {head.cwd: "" for head in heads}
    if everywhere:
        folders = {folder: shorten_folder(make_visible(folder)) for folder in folders}
    mark = "" if everywhere else "@"
    rows = [
        (f"{mark}{n}", *_build_cells(head, folders[head.cwd], length))
        for n, head in enumerate(heads, 1)
    ]
    titles = ("", "harness", "age", "messages", "context", "folder", "thread")
    click.echo("\n".join(format_table(titles, rows, right=(0, 3, 4))))


def _build_cells(head: ThreadHead, folder: str, length: int) -> tuple[str, ...]:
    words = head.first_words
    if words.startswith(HANDOFF_TITLE):
        words = "(started with a handoff)"
    mark = "(kept copy) " if head.kept else ""
    if head.children:
        began = ", ".join(id[:length] for id in head.children[:MOST_CHILDREN])
        mark += f"(+{len(head.children)} of its agents: {began}) "
    count = "" if head.messages is None else str(head.messages)
    return (
        head.harness,
        format_age(time.time() - head.modified),
        count,
        _format_context(head),
        folder,
        f"{head.id[:length]}  {mark}{make_visible(head.name or words)}",
    )


def _format_context(head: ThreadHead) -> str:
    if head.context_tokens is None:
        return ""
    if head.context_window:
        return f"{head.context_tokens / head.context_window:.0%}"
    return f"{head.context_tokens / 1000:.0f}k"


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
@JSON_OPTION
@click.pass_context
def find(ctx: click.Context, words: tuple[str, ...], limit: int, as_json: bool) -> int:
    """Search all threads of all harnesses. The best come first, with the lines that match.

    '"two words"' must be adjacent; -WORD must not be near. Filters: file:PATH (read or changed; *
    is allowed), harness:NAME, after:DATE, before:DATE, repo:FOLDER. With filters alone the newest
    come first. Secrets are hidden.
    """
    if words == ("-h",):  # As an option it would also be the first letter of -hello.
        click.echo(ctx.get_help())
        return 0

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
        fields = ("thread", "lines", "problem", "note")
        rows = [
            {"label": label, "score": round(hit.score, 3)} | {f: getattr(hit, f) for f in fields}
            for label, hit in zip(labels, hits, strict=True)
        ]
        print_json({"threads": rows, "problems": problems})
        return int(not hits)
    print_problems(problems[:3])
    if len(problems) > 3:
        click.echo(f"tasuki: {len(problems) - 3} more threads cannot be read.", err=True)
    if not hits:
        click.echo(
            "No thread matches. Fewer words find more; filters: tasuki find --help", err=True
        )
        return 1
    width = get_width(160) if sys.stdout.isatty() else MOST_WIDTH_COLUMNS
    for label, hit in zip(labels, hits, strict=True):
        click.echo(_format_hit(label, hit, width))
    example = f"{labels[0]}{format_ref(hits[0].lines[0].ref)}" if hits[0].lines else labels[0]
    click.echo(f"Open one: tasuki read {example}", err=True)
    return 0


def _refresh_index(index: "ThreadIndex") -> list[str]:
    """Bring the index up to date, with a progress bar where that takes a while."""
    from tasuki.threads import catalog, search

    if index.rebuilt:
        click.echo(f"tasuki: the thread index is rebuilt: {index.rebuilt}.", err=True)
    with collect_unreadable() as unreadable_notes:
        files = catalog.find_thread_files()
    waiting = sum(file.bytes for _, file in index.find_stale(files))
    if waiting < PROGRESS_BAR_BYTES or not sys.stderr.isatty():
        return [*unreadable_notes, *search.refresh_index(index, files)]
    from rich import progress as bars
    from rich.console import Console

    columns = (
        bars.TextColumn("Indexing threads"), bars.BarColumn(), bars.DownloadColumn(),
        bars.TransferSpeedColumn(), bars.TimeRemainingColumn(),
    )  # fmt: skip
    with bars.Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=waiting)
        return [
            *unreadable_notes,
            *search.refresh_index(index, files, lambda size: progress.advance(task, size)),
        ]


def _format_hit(label: str, hit: "ThreadSearchResult", width: int) -> str:
    thread = hit.thread
    age, folder = format_age(time.time() - thread.modified), shorten_folder(thread.cwd)
    cells = (make_visible(label), thread.harness, age, folder)
    lines = [click.style(format_row(cells, thread.name or thread.first_words, width), bold=True)]
    for line in hit.lines:
        place = (f"    {format_ref(line.ref):<5}", f"{line.kind:<9}")
        lines.append(format_row(place, line.text, width, "    "))
    if hit.note:
        lines.append(cut_line(f"    ({make_visible(hit.note.rstrip('.'))})", width))
    if hit.problem:
        lines.append(f"    {make_visible(hit.problem)}")
    return "\n".join(lines)


# -- kept copies -----------------------------------------------------------------------


def list_copies(harness: str | None, limit: int, *, as_json: bool) -> int:
    """Print the kept copies, the newest first."""
    from tasuki.threads.kept.store import KeptStore

    with collect_unreadable() as problems:
        copies = list(KeptStore().read_copies())[::-1]
    copies = [c for c in copies if c.record and harness in (None, c.record.harness)]
    print_problems(problems)
    if as_json:
        print_json({"copies": [_describe(copy) for copy in copies[:limit]]})
        return 1 if problems and not copies else 0
    if not copies:
        click.echo("No copies of threads are kept. The setting: keep_threads", err=True)
        return 1 if problems else 0
    for copy in copies[:limit]:
        fields = _describe(copy)
        state = "" if fields["original_exists"] else "  (original gone)"
        click.echo(
            f"{fields['id'][:13]}  {fields['harness']}  {format_age(time.time() - copy.kept)}  "
            f"{format_size(copy.bytes)}  {make_visible(shorten_folder(fields['cwd']))}  "
            f"{make_visible(fields['name'] or fields['first_words'])}{state}"
        )
    if len(copies) > limit:
        click.echo(f"{len(copies) - limit} more: --limit {len(copies)}", err=True)
    return 0


def _describe(copy: "KeptCopy") -> dict[str, Any]:
    from tasuki.draft.redact.redactor import redact
    from tasuki.threads.kept.reader import is_only_kept

    record = copy.record
    assert record is not None
    known = record.harness in harnesses.list_names()
    gone = known and is_only_kept(harnesses.get_harness(record.harness), Path(record.path))
    return {
        "id": record.head.id,
        "harness": record.harness,
        "path": record.path,
        "cwd": record.head.cwd,
        "name": redact(record.head.name)[0],
        "first_words": redact(record.head.first_words)[0],
        "modified": record.modified,
        "bytes": record.bytes,
        "kept": copy.kept,
        "kept_bytes": copy.bytes,
        "file": str(copy.file),
        "original_exists": not gone,
    }


def forget_copies(name: str, *, as_json: bool) -> int:
    """Delete the copy of one thread, or of all, with what was read of it, and say which."""
    from tasuki.harness.reading.cache import forget_readings
    from tasuki.threads.kept.store import KeptStore

    readings, forgotten = forget_readings(name), []
    try:
        with collect_unreadable():
            forgotten = KeptStore().forget(name)
    except ThreadNotFound:
        if not readings:
            raise
    if not forgotten:
        what = f"What was read of {format_plural(len(readings), 'thread')} is"
    elif len(forgotten) == 1 and (record := forgotten[0].record):
        what = f"The kept copy of {make_visible(record.path)} is"
    else:
        what = format_plural(len(forgotten), "copy is", "copies are")
    document = {"forgotten": [*(str(copy.file) for copy in forgotten), *map(str, readings)]}
    print_result(as_json, document, f"{what} deleted. No other file was touched.")
    return 0


# -- `tasuki` alone --------------------------------------------------------------------

SHOWN = 10
"""Threads that are listed."""


def offer_newest(ctx: click.Context) -> int:
    """List the newest threads of this folder, and hand off the first if a goal is given."""
    heads, are_some_unreadable = find_heads(None, None)
    if not heads:
        _explain_where_threads_are(are_some_unreadable)
        return 1 if are_some_unreadable else 0
    print_table(heads[:SHOWN])
    if len(heads) > SHOWN:
        click.echo(f"{len(heads) - SHOWN} more: tasuki threads --limit {len(heads)}", err=True)
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        click.echo('To hand off @1: tasuki "what the next agent should do"', err=True)
        return 0
    question = "What should the next agent do? It continues @1. (Press Enter to quit.)"
    lines = "\n".join(wrap_text(question, get_width(100)))
    goal = click.prompt(lines, default="", show_default=False, prompt_suffix="\n> ", err=True)
    if not goal.strip():
        more = ' To hand off another one: tasuki --from @2 "…"' if len(heads) > 1 else ""
        click.echo(f"Nothing was started.{more}", err=True)
        return 0
    from tasuki.cli.handoff.command import handoff

    ctx.meta["arguments"] = ()
    code: int = ctx.invoke(handoff, goal=goal, source=heads[0].path)
    return code


def _explain_where_threads_are(are_some_unreadable: bool) -> None:
    from tasuki.threads import catalog

    if are_some_unreadable:
        text = f"No thread of {Path.cwd()} can be read."
    elif next(iter(catalog.list_heads(limit=1)), None):
        text = (
            f"There is no thread for {Path.cwd()}. Go to the folder of your project, or:\n"
            "  tasuki threads --all      list the threads of all folders\n"
            '  tasuki --from ID "GOAL"   hand off one of them'
        )
    else:
        titles = [harnesses.get_harness(name).title for name in harnesses.list_names()]
        text = (
            f"There is no thread on this machine. tasuki reads those of {', '.join(titles)}.\n"
            "Work with one of them in a project, then run tasuki there."
        )
    click.echo(f"{text}\nAll commands: tasuki --help", err=True)
