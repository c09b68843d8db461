"""`tasuki check`: the quality of a handoff document, whoever wrote it, against its thread."""

import shutil
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tasuki.cli.printing import print_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tasuki.evals.quality import Point, Quality, Share
    from tasuki.threads.opening import Opened

MAX_DOCUMENT = 1 << 20
"""Bytes; nothing larger is a handoff."""
SHOWN = 12
"""Points of one kind that are printed."""
WIDTH = 80
EPILOG = """
\b
Examples:
  tasuki check HANDOFF.md --thread @1
  tasuki check HANDOFF.md --thread 124cf89f --fail-under 70
  tasuki handoff --print "document the API" | tasuki check - --thread @1
"""


@click.command(epilog=EPILOG)
@click.argument("file", metavar="FILE", type=click.Path(allow_dash=True))
@click.option(
    "--thread", "spec", required=True, metavar="THREAD",
    help="The thread it hands on: path, id or its beginning, harness, @N, or a handoff's id.",
)  # fmt: skip
@click.option(
    "--goal", default="", metavar="TEXT", help="The goal, where it is handed over beside the document."
)  # fmt: skip
@click.option(
    "--fail-under", type=click.IntRange(0, 100), metavar="N", help="Exit with 1 if the total is below N."
)  # fmt: skip
@click.option("--all", "everything", is_flag=True, help="Show what holds too, with its lines.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
def check(
    file: str, spec: str, goal: str, fail_under: int | None, everything: bool, as_json: bool
) -> int:
    """Score a handoff document against its thread.

    FILE is any text, whoever wrote it; - is standard input. Nothing is asked of a model. The total
    is (sections + 4 × facts) / 5 × claims, less what is deducted for secrets (20), for items that
    are called pending and are done, and for placeholders (5 each). Size counts for nothing.

    \b
    sections  of those that the thread has something for, by any usual title
    facts     files, checks and their results, todos, wishes, failures, commits
    claims    paths, commands, quotes, code and values that stand in the thread
    """
    import gc

    gc.disable()  # A thread is one large, acyclic, short-lived graph.
    text = _document(file)
    of, quality = _scored(text, spec, goal)
    if as_json:
        print_json(_as_json(file, of, quality))
    else:
        width = min(shutil.get_terminal_size((WIDTH, 24)).columns, 100) if sys.stdout.isatty() else WIDTH  # fmt: skip
        for line in _lines(file, of, quality, everything, width):
            click.echo(line)
    return int(fail_under is not None and quality.total < fail_under)


def _document(name: str) -> str:
    """The text of a document. Raises UsageError where it cannot be one."""
    from tasuki.errors import UsageError

    shown = "standard input" if name == "-" else name
    try:
        if name == "-":
            data = sys.stdin.buffer.read(MAX_DOCUMENT + 1)
        else:
            with Path(name).open("rb") as file:
                data = file.read(MAX_DOCUMENT + 1)
    except OSError as error:
        reason = error.strerror
        raise UsageError(f"Cannot read the document {shown}: {reason}. Name a text file, or -.") from error  # fmt: skip
    if len(data) > MAX_DOCUMENT:
        raise UsageError(f"{shown} is larger than {MAX_DOCUMENT >> 20} MB; that is no handoff document.")  # fmt: skip
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{shown} is not UTF-8 text (byte {error.start}). Save it as UTF-8.") from error  # fmt: skip
    if "\0" in text:
        raise UsageError(f"{shown} is binary, not text. Name the document as Markdown or plain text.")  # fmt: skip
    return text


def _scored(text: str, spec: str, goal: str) -> "tuple[Opened, Quality]":
    from tasuki.draft.authors.task import Task
    from tasuki.draft.facts import derive
    from tasuki.errors import ThreadUnreadable
    from tasuki.evals import quality
    from tasuki.evals.written import parse
    from tasuki.model import Goal
    from tasuki.threads import opening

    of = opening.opened(spec, Path.cwd())
    if of.thread is None:
        raise ThreadUnreadable(f"{of.problem} Without the thread nothing can be checked.")
    if not of.thread.entries:
        raise ThreadUnreadable(f"{of.thread.path} holds no entries; there is nothing to check against.")  # fmt: skip
    goal = goal.encode("utf-8", "replace").decode()
    wanted = goal.strip() or parse(text).goal
    task = Task(of.thread, derive(of.thread, None, wanted), Goal(text=wanted), {})
    return of, quality.score(text, of.thread, task, goal)


# -- for people ------------------------------------------------------------------------


def _lines(
    file: str, of: "Opened", quality: "Quality", everything: bool, width: int
) -> "Iterator[str]":
    from tasuki.plain import one_line

    assert of.thread is not None
    name = "standard input" if file == "-" else file
    thread = f"{of.thread.harness} {one_line(of.thread.id, 8)}"
    yield _fitted(f"{one_line(name, 200)} — {thread}, {len(of.thread.entries)} entries", "", width)
    yield ""
    yield f"  Total     {quality.total:3} of 100"
    yield _score("Sections", quality.sections, "that the thread has something for")
    yield _score("Facts", quality.facts, "that a successor needs")
    yield _score("Claims", quality.claims, "that stand in the thread")
    if quality.deducted:
        yield f"  Deducted  {quality.deducted:3}"
    if not quality.has_goal:
        yield "\nIt names no goal and no next step: a successor would not know what to do."
    wrong = (
        ("Secrets", quality.secrets),
        ("Missing facts", _failing(quality.facts)),
        ("Not in the thread", _failing(quality.claims)),
        ("Called pending, but done", quality.finished),
        ("Placeholders and leaked instructions", quality.leftovers),
    )
    for title, points in wrong:
        yield from _block(title, points, width, len(points) if everything else SHOWN)
    if lacking := [point.text for point in _failing(quality.sections)]:
        yield f"\nMissing sections ({len(lacking)})"
        yield _fitted(", ".join(lacking), "  ", width)
    if everything:
        for title, share in (
            ("Facts it tells", quality.facts),
            ("Claims that stand", quality.claims),
        ):
            kept = [p for p in share.points if p.ok]
            yield from _block(title, kept, width, len(kept))


def _score(title: str, share: "Share", note: str) -> str:
    if not share.of:
        return f"  {title:9}   –"
    return f"  {title:9} {round(100 * share.share):3}%  {share.held} of {share.of} {note}".rstrip()


def _failing(share: "Share") -> "list[Point]":
    return [p for p in share.points if not p.ok]


def _block(title: str, points: "Iterable[Point]", width: int, limit: int) -> "Iterator[str]":
    every = list(points)
    if not every:
        return
    yield f"\n{title} ({len(every)})"
    numbered = any(point.line for point in every)
    for point in every[:limit]:
        where = f"line {point.line}" if point.line else ""
        kind = "" if point.kind in _OF_ITS_TITLE else point.kind
        head = f"  {f'{where:<10}' if numbered else ''}{f'{kind:<10}' if kind else ''}"
        refs = "".join(f" [#{ref}]" for ref in point.refs)
        why = f" — {point.why}" if point.why and point.why not in _PLAIN else ""
        yield _fitted(f"{point.text}{refs}{why}", head, width)
    if len(every) > limit:
        yield f"  … and {len(every) - limit} more: --all"


_PLAIN = ("not in the document", "not in the thread")
"""Reasons that the title of a block gives already."""
_OF_ITS_TITLE = ("secret", "finished", "leftover")


def _fitted(text: str, head: str, width: int) -> str:
    """A text behind its head, on as many lines as it takes, the next ones indented."""
    from tasuki.plain import one_line

    return textwrap.fill(
        one_line(text, 360), width, initial_indent=head, subsequent_indent=" " * len(head),
        break_on_hyphens=False,
    )  # fmt: skip


# -- for programs ----------------------------------------------------------------------


def _as_json(file: str, of: "Opened", quality: "Quality") -> dict[str, object]:
    import msgspec

    assert of.thread is not None
    scores = msgspec.to_builtins(quality)
    for name in ("sections", "facts", "claims"):
        scores[name]["percent"] = round(100 * getattr(quality, name).share)
    thread = {"harness": of.thread.harness, "id": of.thread.id, "path": of.thread.path}
    return {"file": file, "thread": thread, **scores}
