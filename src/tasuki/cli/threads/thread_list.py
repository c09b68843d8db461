"""`tasuki threads`: the threads that can be handed off."""

import time
from pathlib import Path

import click

from tasuki.cli.output import print_json
from tasuki.config import settings
from tasuki.harness import registry as harnesses
from tasuki.harness.reading.jsonl import collect_unreadable
from tasuki.harness.reading.typed_prompts import is_handoff_prompt
from tasuki.model import ThreadHead

FIRST_WORDS_CHARACTERS = 120
"""Characters to which adapters cut the first prompt."""


@click.command()
@click.option("--all", "everywhere", is_flag=True, help="Threads of all folders.")
@click.option(
    "--harness",
    "name",
    metavar="H",
    help="Only threads of this harness: claude, codex, pi, omp, gemini, …",
)
@click.option(
    "--limit", type=click.IntRange(min=1), default=30, show_default=True, help="How many."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
def threads(everywhere: bool, name: str | None, limit: int, as_json: bool) -> int:
    """List the threads of this folder, newest first.

    The number in front is what `--from @N` takes. Message counts marked ~ are estimated from both
    ends of the file, since nothing else of it is read.
    """
    from tasuki.threads import catalog

    if name:
        harnesses.get_harness(name)
    cwd = Path.cwd()
    with collect_unreadable() as unreadable_notes:
        if everywhere:
            listed, folder = list(catalog.list_heads(name, limit=limit)), cwd
        else:
            listed, folder = catalog.list_heads_near(name, cwd, limit)
    for sentence in unreadable_notes:
        click.echo(sentence, err=True)
    heads = list(map(_redact_head, listed))
    if listed and not everywhere and (note := catalog.describe_folder(folder, cwd)):
        click.echo(note.replace("this is", "these are"), err=True)
    if as_json:
        print_json({"threads": heads})
        return 1 if unreadable_notes and not heads else 0
    if heads:
        _print_table(heads, everywhere)
    else:
        place = "on this machine" if everywhere else f"for {cwd}"
        more = "" if everywhere else " Threads of other folders: tasuki threads --all"
        readable_note = " that can be read" if unreadable_notes else ""
        click.echo(f"No threads {place}{readable_note}.{more}", err=True)
        return 1 if unreadable_notes else 0
    return 0


def _redact_head(head: ThreadHead) -> ThreadHead:
    """Redact a head: no secret, nor the beginning of one where its words were cut."""
    import msgspec

    from tasuki.draft.redact.redactor import redact

    words = head.first_words
    if len(words) >= FIRST_WORDS_CHARACTERS:
        words = words.rpartition(" ")[0] + " …"
    return msgspec.structs.replace(head, name=redact(head.name)[0], first_words=redact(words)[0])


def _print_table(heads: list[ThreadHead], everywhere: bool) -> None:
    import shutil

    length = _measure_distinct_length([head.id for head in heads])
    rows = [_build_row(n, head, everywhere, length) for n, head in enumerate(heads, 1)]
    titles = ("", "harness", "age", "messages", "context", "folder" if everywhere else "", "thread")
    widths = [max(len(r[i]) for r in (titles, *rows)) for i in range(6)]
    room = max(shutil.get_terminal_size((120, 24)).columns - sum(widths) - 12, 24)
    for row in (titles, *rows):
        cells = [c.ljust(w) if i not in (0, 3, 4) else c.rjust(w)
                 for i, (c, w) in enumerate(zip(row, widths, strict=False)) if w]  # fmt: skip
        words = row[6] if len(row[6]) <= room else row[6][: room - 1] + "…"
        click.echo("  ".join((*cells, words)).rstrip())


def _measure_distinct_length(ids: list[str]) -> int:
    """Return how many characters distinguish the ids: 8, or more where they begin alike."""
    distinct = set(ids)
    lengths = range(8, max(map(len, distinct), default=8))
    return next((n for n in lengths if len({id[:n] for id in distinct}) == len(distinct)), 99)


def _build_row(n: int, head: ThreadHead, everywhere: bool, length: int) -> tuple[str, ...]:
    count = "" if head.messages is None else f"{'' if head.exact else '~'}{head.messages}"
    return (
        f"{n}" if everywhere else f"@{n}",
        head.harness,
        format_age(time.time() - head.modified),
        count,
        _format_context(head),
        shorten_folder(make_visible(head.cwd)) if everywhere else "",
        f"{head.id[:length]}  {make_visible(head.name or _choose_words(head))}",
    )


def _choose_words(head: ThreadHead) -> str:
    return "(started with a handoff)" if is_handoff_prompt(head.first_words) else head.first_words


def _format_context(head: ThreadHead) -> str:
    if head.context_tokens is None:
        return ""
    if head.context_window:
        return f"{head.context_tokens / head.context_window:.0%}"
    return f"{head.context_tokens / 1000:.0f}k"


def shorten_folder(folder: str) -> str:
    """Shorten a folder for a list: `~` for the home, a long one from its end."""
    home = str(settings.find_home() or "")
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
