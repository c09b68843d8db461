"""`tasuki check`: the quality of any handoff document, measured against its thread."""

import gc
import shutil
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tasuki.cli.completions import complete_thread
from tasuki.cli.output import JSON_OPTION, print_json
from tasuki.errors import ThreadUnreadable, UsageError
from tasuki.text_safety import shorten_to_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tasuki.draft.quality.score import DocumentQuality, QualityPoint, QualityShare
    from tasuki.threads.references import OpenedThread

MOST_DOCUMENT_BYTES = 1 << 20
"""Most bytes of a document; a larger file is no handoff."""
MOST_POINTS = 12
"""Most points of one kind that are printed."""
WIDTH_COLUMNS = 80
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
    "--thread", "spec", required=True, metavar="THREAD", shell_complete=complete_thread,
    help="The thread that it hands off: path, id or its beginning, harness, @N, or a handoff's id.",
)  # fmt: skip
@click.option("--goal", default="", metavar="TEXT", help="The goal, if it is not in the document.")
@click.option(
    "--fail-under", type=click.IntRange(0, 100), metavar="N", help="Exit with 1 if the total is below N."
)  # fmt: skip
@click.option("--all", "everything", is_flag=True, help="Also show what is right, with its lines.")
@JSON_OPTION
def check(
    file: str, spec: str, goal: str, fail_under: int | None, everything: bool, as_json: bool
) -> int:
    """Score a handoff document against its thread.

    FILE is any text, whoever wrote it; - is standard input. No model is asked. The total
    is (sections + 4 × facts) / 5 × claims, less what is deducted for secrets (20), for items that
    are called pending but are done, and for placeholders (5 each). Size does not count.

    \b
    sections  of those that the thread has something for, by any usual title
    facts     files, checks and their results, todos, wishes, failures, commits
    claims    paths, commands, quotes, code and values that are in the thread
    """
    gc.disable()  # A thread is one large, acyclic, short-lived graph.
    shown_name = "standard input" if file == "-" else file
    opened_thread, quality = _score_document(_read_document(file, shown_name), spec, goal)
    if as_json:
        import msgspec

        scores = msgspec.to_builtins(quality)
        for name in ("sections", "facts", "claims"):
            scores[name]["percent"] = round(100 * getattr(quality, name).share)
        thread = {name: getattr(opened_thread.thread, name) for name in ("harness", "id", "path")}
        print_json({"file": file, "thread": thread, **scores})
    else:
        width = min(shutil.get_terminal_size((WIDTH_COLUMNS, 24)).columns, 100) if sys.stdout.isatty() else WIDTH_COLUMNS  # fmt: skip
        for line in _format_lines(shown_name, opened_thread, quality, everything, width):
            click.echo(line)
    return int(fail_under is not None and quality.total < fail_under)


def _read_document(name: str, shown_name: str) -> str:
    """Read the text of a document. Raises UsageError where it cannot be one."""
    try:
        with click.open_file(name, "rb") as file:
            data: bytes = file.read(MOST_DOCUMENT_BYTES + 1)
    except OSError as error:
        reason = error.strerror
        raise UsageError(f"Cannot read the document {shown_name}: {reason}. Name a text file, or -.") from error  # fmt: skip
    if len(data) > MOST_DOCUMENT_BYTES:
        raise UsageError(f"{shown_name} is larger than {MOST_DOCUMENT_BYTES >> 20} MB; that is no handoff document.")  # fmt: skip
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{shown_name} is not UTF-8 text (byte {error.start}). Save it as UTF-8.") from error  # fmt: skip
    if "\0" in text:
        raise UsageError(f"{shown_name} is binary, not text. Name the document as Markdown or plain text.")  # fmt: skip
    return text


def _score_document(text: str, spec: str, goal: str) -> "tuple[OpenedThread, DocumentQuality]":
    from tasuki.draft.authors.author import AuthorTask
    from tasuki.draft.facts.derive import derive_facts
    from tasuki.draft.quality import score
    from tasuki.draft.quality.document_reader import parse_handoff_document
    from tasuki.model import Goal
    from tasuki.threads import references

    opened_thread = references.open_thread(spec, Path.cwd())
    if opened_thread.thread is None:
        raise ThreadUnreadable(
            f"{opened_thread.problem} Without the thread nothing can be checked."
        )
    if not opened_thread.thread.entries:
        raise ThreadUnreadable(f"{opened_thread.thread.path} holds no entries; there is nothing to check against.")  # fmt: skip
    goal = goal.encode("utf-8", "replace").decode()
    goal_text = goal.strip() or parse_handoff_document(text).goal
    task = AuthorTask(
        opened_thread.thread,
        derive_facts(opened_thread.thread, None, goal_text),
        Goal(text=goal_text),
        {},
    )
    return opened_thread, score.score_document(text, opened_thread.thread, task, goal)


def _format_lines(
    name: str,
    opened_thread: "OpenedThread",
    quality: "DocumentQuality",
    everything: bool,
    width: int,
) -> "Iterator[str]":
    assert opened_thread.thread is not None
    thread = f"{opened_thread.thread.harness} {shorten_to_line(opened_thread.thread.id, 8)}"
    yield _wrap_text(
        f"{shorten_to_line(name, 200)} — {thread}, {len(opened_thread.thread.entries)} entries",
        "",
        width,
    )
    yield ""
    yield f"  Total     {quality.total:3} of 100"
    yield _format_score("Sections", quality.sections, "that the thread has something for")
    yield _format_score("Facts", quality.facts, "that a successor needs")
    yield _format_score("Claims", quality.claims, "that are in the thread")
    if quality.deducted:
        yield f"  Deducted  {quality.deducted:3}"
    if not quality.has_goal:
        yield "\nIt names no goal and no next step: a successor would not know what to do."
    wrong = (
        ("Secrets", quality.secrets),
        ("Missing facts", _list_failing(quality.facts)),
        ("Not in the thread", _list_failing(quality.claims)),
        ("Called pending, but done", quality.finished),
        ("Placeholders and leaked instructions", quality.leftovers),
    )
    for title, points in wrong:
        yield from _format_block(title, points, width, len(points) if everything else MOST_POINTS)
    if lacking := [point.text for point in _list_failing(quality.sections)]:
        yield f"\nMissing sections ({len(lacking)})"
        yield _wrap_text(", ".join(lacking), "  ", width)
    if everything:
        for title, share in (
            ("Facts it covers", quality.facts),
            ("Claims that are right", quality.claims),
        ):
            held = [p for p in share.points if p.ok]
            yield from _format_block(title, held, width, len(held))


def _format_score(title: str, share: "QualityShare", note: str) -> str:
    if not share.of:
        return f"  {title:9}   –"
    return f"  {title:9} {round(100 * share.share):3}%  {share.held} of {share.of} {note}".rstrip()


def _list_failing(share: "QualityShare") -> "list[QualityPoint]":
    return [p for p in share.points if not p.ok]


def _format_block(
    title: str, points: "Sequence[QualityPoint]", width: int, limit: int
) -> "Iterator[str]":
    if not points:
        return
    yield f"\n{title} ({len(points)})"
    numbered = any(point.line for point in points)
    for point in points[:limit]:
        position = f"line {point.line}" if point.line else ""
        kind = "" if point.kind in _OBVIOUS_KINDS else point.kind
        head = f"  {f'{position:<10}' if numbered else ''}{f'{kind:<10}' if kind else ''}"
        refs = "".join(f" [#{ref}]" for ref in point.refs)
        why = f" — {point.why}" if point.why and point.why not in _OBVIOUS_REASONS else ""
        yield _wrap_text(f"{point.text}{refs}{why}", head, width)
    if len(points) > limit:
        yield f"  … and {len(points) - limit} more: --all"


_OBVIOUS_REASONS = ("not in the document", "not in the thread")
"""Reasons that the title of a block already gives."""
_OBVIOUS_KINDS = ("secret", "finished", "leftover")


def _wrap_text(text: str, head: str, width: int) -> str:
    return textwrap.fill(
        shorten_to_line(text, 360), width, initial_indent=head, subsequent_indent=" " * len(head),
        break_on_hyphens=False,
    )  # fmt: skip
