"""`tasuki threads`: what there is to hand off."""

import time
from pathlib import Path

import click

from tasuki import config
from tasuki import harness as harnesses
from tasuki.cli.printing import print_json
from tasuki.harness.jsonl import begins_handoff, noted_unreadable
from tasuki.model import ThreadHead

FIRST_WORDS = 120
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
        harnesses.get(name)
    cwd = Path.cwd()
    with noted_unreadable() as closed:
        if everywhere:
            listed, folder = list(catalog.heads(name, limit=limit)), cwd
        else:
            listed, folder = catalog.heads_near(name, cwd, limit)
    for sentence in closed:
        click.echo(sentence, err=True)
    found = list(map(_safe, listed))
    if listed and not everywhere and (told := catalog.tell_folder(folder, cwd)):
        click.echo(told.replace("this is", "these are"), err=True)
    if as_json:
        _print_json(found)
        return 1 if closed and not found else 0
    if found:
        _print_table(found, everywhere)
    else:
        where = "on this machine" if everywhere else f"for {cwd}"
        more = "" if everywhere else " Threads of other folders: tasuki threads --all"
        known = " that can be read" if closed else ""
        click.echo(f"No threads {where}{known}.{more}", err=True)
        return 1 if closed else 0
    return 0


def _safe(head: ThreadHead) -> ThreadHead:
    """A head whose words hold no secret, nor the beginning of one where they were cut."""
    import msgspec

    from tasuki.draft.redact import redact

    words = head.first_words
    if len(words) >= FIRST_WORDS:
        words = words.rpartition(" ")[0] + " …"
    return msgspec.structs.replace(head, name=redact(head.name)[0], first_words=redact(words)[0])


def _print_json(found: list[ThreadHead]) -> None:
    print_json({"threads": found})


def _print_table(found: list[ThreadHead], everywhere: bool) -> None:
    import shutil

    length = _telling([head.id for head in found])
    rows = [_row(n, head, everywhere, length) for n, head in enumerate(found, 1)]
    titles = ("", "harness", "age", "messages", "context", "folder" if everywhere else "", "thread")
    widths = [max(len(r[i]) for r in (titles, *rows)) for i in range(6)]
    room = max(shutil.get_terminal_size((120, 24)).columns - sum(widths) - 12, 24)
    for row in (titles, *rows):
        cells = [c.ljust(w) if i not in (0, 3, 4) else c.rjust(w)
                 for i, (c, w) in enumerate(zip(row, widths, strict=False)) if w]  # fmt: skip
        words = row[6] if len(row[6]) <= room else row[6][: room - 1] + "…"
        click.echo("  ".join((*cells, words)).rstrip())


def _telling(ids: list[str]) -> int:
    """How many characters of the ids tell them apart: 8, or more where they begin alike."""
    distinct = set(ids)
    lengths = range(8, max(map(len, distinct), default=8))
    return next((n for n in lengths if len({id[:n] for id in distinct}) == len(distinct)), 99)


def _row(n: int, head: ThreadHead, everywhere: bool, length: int) -> tuple[str, ...]:
    count = "" if head.messages is None else f"{'' if head.exact else '~'}{head.messages}"
    return (
        f"{n}" if everywhere else f"@{n}",
        head.harness,
        age(time.time() - head.modified),
        count,
        _context(head),
        short_folder(visible(head.cwd)) if everywhere else "",
        f"{head.id[:length]}  {visible(head.name or _words(head))}",
    )


def _words(head: ThreadHead) -> str:
    return "(started with a handoff)" if begins_handoff(head.first_words) else head.first_words


def _context(head: ThreadHead) -> str:
    if head.context_tokens is None:
        return ""
    if head.context_window:
        return f"{head.context_tokens / head.context_window:.0%}"
    return f"{head.context_tokens / 1000:.0f}k"


def short_folder(folder: str) -> str:
    """A folder for a list: below the home with `~`, a long one from its end."""
    home = str(config.home() or "")
    folder = "~" + folder[len(home) :] if home and folder.startswith(home) else folder
    return folder if len(folder) <= 36 else "…" + folder[-35:]


def age(seconds: float) -> str:
    """A time span in one unit: `45s`, `12m`, `3h`, `9d`."""
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= size:
            return f"{seconds // size:.0f}{unit}"
    return f"{max(seconds, 0):.0f}s"


def visible(text: str) -> str:
    """A text from a thread on one line, without control characters."""
    from tasuki.draft.brief import plain

    return plain(text)
