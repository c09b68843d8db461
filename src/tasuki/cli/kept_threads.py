"""`tasuki threads --kept` and `--forget`: the copies of threads that tasuki keeps."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tasuki.cli.output import (
    format_age,
    make_visible,
    print_json,
    print_problems,
    print_result,
    shorten_folder,
)
from tasuki.harness import registry as harnesses
from tasuki.harness.reading.jsonl import collect_unreadable
from tasuki.text_safety import format_plural, format_size

if TYPE_CHECKING:
    from tasuki.threads.kept.store import KeptCopy


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
    """Delete the copy of one thread, or of all, and say which."""
    from tasuki.threads.kept.store import KeptStore

    with collect_unreadable():
        forgotten = KeptStore().forget(name)
    if len(forgotten) == 1 and (record := forgotten[0].record):
        what = f"The kept copy of {make_visible(record.path)} is"
    else:
        what = format_plural(len(forgotten), "copy is", "copies are")
    document = {"forgotten": [str(copy.file) for copy in forgotten]}
    print_result(as_json, document, f"{what} deleted. No other file was touched.")
    return 0
