"""`tasuki read`: a thread, the entries that a brief refers to, or the answer to a question."""

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from tasuki.cli.completions import complete_thread
from tasuki.cli.output import JSON_OPTION, ProgressSpinner, print_json
from tasuki.errors import AuthorFailed
from tasuki.model import FIRST_DOCUMENT, format_ref
from tasuki.text_safety import shorten_to_line

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tasuki.threads.passages import EntryCleaner
    from tasuki.threads.references import EntryReading, OpenedThread

EPILOG = """
\b
Examples:
  tasuki read 3fa9c1d2#12-15,40
  tasuki read @1 --markdown > thread.md
  tasuki read 3fa9c1d2 "why was the timeout raised?"
"""


@click.command(epilog=EPILOG)
@click.argument("spec", metavar="THREAD[#N[-M][,K…]]", shell_complete=complete_thread)
@click.argument("question", required=False)
@JSON_OPTION
@click.option("--markdown", is_flag=True, help="Markdown, each entry under its own heading.")
@click.option(
    "--limit", type=click.IntRange(1, 50), default=6, show_default=True,
    help="Passages that answer a question, of each thread.",
)  # fmt: skip
@click.option(
    "--author",
    type=click.Choice(["offline", "model"]),
    help="Who answers a question: passages alone, or a language model, from passages that it cites. "
    "Default: as the settings say.",
)
@click.option(
    "--author-model", metavar="PROVIDER/MODEL", help="Model that answers, with --author model."
)
def read(
    spec: str,
    question: str | None,
    as_json: bool,
    markdown: bool,
    limit: int,
    author: str | None,
    author_model: str | None,
) -> int:
    """Open a thread or the entries that a brief refers to, or ask it a question.

    THREAD is a handoff id, as briefs name it, or a thread as `--from` takes it. A handoff id opens its
    predecessor; an entry that changed or is gone is shown as the handoff stored it.

    A QUESTION is answered with quotes from this thread and those before it; later ones may revise
    earlier ones. With the author `model` a language model answers from them and cites them.

    Secrets are hidden.
    """
    from tasuki.threads import references
    from tasuki.threads.passages import EntryCleaner

    if as_json and markdown:
        raise click.UsageError("Choose --json or --markdown, not both.")
    name, refs = references.split_spec(spec)
    if refs is not None and question is not None:
        raise click.UsageError("Name entries or ask a question, not both.")
    opened_thread = references.open_thread(name, Path.cwd(), shows_few=refs is not None)
    cleaner = EntryCleaner()
    _print_notes(opened_thread, cleaner)
    if question is not None:
        question = question.encode("utf-8", "replace").decode()  # JSON has no other bytes
        about = (opened_thread, question, cleaner)
        if _print_model_answer(*about, author, author_model, as_json=as_json):
            return 0
        return _print_passages(*about, limit, as_json=as_json, markdown=markdown)
    readings = list(references.read_entries(opened_thread, refs))
    shown = () if refs is None else (reading.entry for reading in readings)
    cleaner.learn_entries(shown, opened_thread.entries)
    if as_json:
        _print_json(opened_thread, readings, cleaner)
        return 0
    form = _format_markdown if markdown else references.render_entry
    texts = (form(reading, cleaner) for reading in readings)
    if refs is None and sys.stdout.isatty() and not markdown:
        click.echo_via_pager(f"{text}\n" for text in texts)
        return 0
    for text in texts:
        click.echo(text)
    if refs is None and not markdown:
        _list_documents(opened_thread, cleaner)
    return 0


def _print_notes(opened_thread: "OpenedThread", cleaner: "EntryCleaner") -> None:
    from tasuki.threads.references import describe_broken_lines

    if problem := cleaner.clean_text(opened_thread.problem):
        note = f"{problem} Reading what was stored with the handoff."
        click.echo(f"tasuki: {note}", err=True)
    if opened_thread.note:
        click.echo(f"({cleaner.clean_text(opened_thread.note.rstrip('.'))})", err=True)
    if (thread := opened_thread.thread) is not None:
        empty = "" if thread.entries else f"{thread.path} holds no entries."
        if note := describe_broken_lines(thread) or empty:
            click.echo(f"tasuki: {cleaner.clean_text(note)}", err=True)


def _list_documents(opened_thread: "OpenedThread", cleaner: "EntryCleaner") -> None:
    """Print a line for each document of a thread, with the ref that opens it."""
    documents = opened_thread.thread.documents if opened_thread.thread else ()
    for number, document in enumerate(documents, 1):
        line = f"── #d{number} document {document.path} ({len(document.text):,} characters)"
        click.echo(cleaner.clean_text(line))


def _format_markdown(reading: "EntryReading", cleaner: "EntryCleaner") -> str:
    from tasuki.threads.references import name_speaker

    entry = reading.entry
    head = f"## {format_ref(entry.ref)} {name_speaker(reading)}"
    if reading.kept:
        head += " (as stored with the handoff)"
    words = cleaner.clean_text(reading.text)
    if entry.kind == "tool":
        longest = max(map(len, re.findall("`+", words)), default=0)
        fence = "`" * max(3, longest + 1)
        words = f"{fence}\n{words}\n{fence}"
    return f"{head}\n\n{words}\n"


def _print_json(
    opened_thread: "OpenedThread", readings: "Iterable[EntryReading]", cleaner: "EntryCleaner"
) -> None:
    entries = []
    for reading in readings:
        entry = msgspec.to_builtins(cleaner.clean_entry(reading.entry))
        fields = {name: entry[name] for name in ("ref", "kind", "at", "text", "tool", "compacted")}
        fields["origin"] = entry["origin"] if entry["kind"] == "user" else None
        entries.append({**fields, "kept": reading.kept})
    print_json({**_build_about(opened_thread, cleaner), "entries": entries})


def _build_about(opened_thread: "OpenedThread", cleaner: "EntryCleaner") -> dict[str, object]:
    thread, handoff = opened_thread.thread, opened_thread.handoff
    thread_fields = None
    if thread is not None:
        thread_fields = {
            "harness": thread.harness, "id": cleaner.clean_line(thread.id), "path": thread.path,
            "cwd": cleaner.clean_line(thread.cwd), "name": cleaner.clean_text(thread.name),
            "started": cleaner.clean_line(thread.started, 40),
            "updated": cleaner.clean_line(thread.updated, 40),
            "entries": len(thread.entries),
            "documents": [{"ref": ref, "path": cleaner.clean_line(d.path), "characters": len(d.text)}
                          for ref, d in enumerate(thread.documents, FIRST_DOCUMENT)],
        }  # fmt: skip
    return {"label": opened_thread.label, "handoff": handoff.id if handoff else None, "thread": thread_fields,
            "problem": cleaner.clean_text(opened_thread.problem),
            "note": cleaner.clean_text(opened_thread.note)}  # fmt: skip


def _print_passages(
    opened_thread: "OpenedThread",
    question: str,
    cleaner: "EntryCleaner",
    limit: int,
    *,
    as_json: bool,
    markdown: bool,
) -> int:
    from tasuki.threads import references

    answers = references.find_answers(opened_thread, question, cleaner, limit)
    if as_json:
        rows = [{**_build_about(link, cleaner), "passages": passages} for link, passages in answers]
        print_json({"question": question, "threads": rows})
        return int(not answers)
    if not answers:
        click.echo(
            f"No passage of {opened_thread.label} has a word of the question. Look in all threads: "
            "tasuki find WORDS",
            err=True,
        )
        return 1
    for link, passages in answers:
        thread = link.thread
        title = (
            f"{thread.harness} {shorten_to_line(thread.id, 80)}"
            if thread
            else f"handoff {link.label}, as stored"
        )
        click.echo(f"# {title}\n" if markdown else f"{title}\n")
        for passage in passages:
            head = f"{link.label}{format_ref(passage.ref)} {passage.kind} {passage.at}".rstrip()
            mark = "> " if markdown else "    "
            body = "\n".join(f"{mark}{line}".rstrip() for line in passage.text.splitlines())
            click.echo(f"**{head}**\n\n{body}\n" if markdown else f"  {head}\n{body}\n")
    return 0


def _print_model_answer(
    opened_thread: "OpenedThread",
    question: str,
    cleaner: "EntryCleaner",
    author: str | None,
    author_model: str | None,
    *,
    as_json: bool,
) -> bool:
    """Print the answer of a model where the settings name one; return whether it did.

    The printed answer went through the checks; after a failure the passages are shown instead.
    """
    from tasuki.config import settings

    loaded = settings.load_with_sources(Path.cwd(), {"author": author, "model": author_model})
    for problem in loaded.problems:
        click.echo(f"tasuki: {problem}", err=True)
    if loaded.settings.author != "model":
        return False
    from tasuki.threads import question as answering

    try:
        with ProgressSpinner(phases=False):
            answer = answering.answer_question(
                opened_thread, cleaner.clean_text(question), cleaner, loaded
            )
    except AuthorFailed as error:
        if loaded.settings.strict:
            raise
        click.echo(
            f"tasuki: {cleaner.clean_text(str(error))} Showing the passages instead.", err=True
        )
        return False
    for note in (
        *answer.told,
        *(f"Dropped: {text!r}: {reason}" for text, reason in answer.dropped),
    ):
        click.echo(f"tasuki: {cleaner.clean_line(note)}", err=True)
    if as_json:
        print_json({"question": question, "answer": answer.sentences,
                    "unanswered": answer.unanswered, "dropped": answer.dropped})  # fmt: skip
        return True
    for sentence in answer.sentences:
        click.echo(
            f"- {cleaner.clean_line(sentence.text, 4_000)} [{', '.join(sentence.references)}]"
        )
    if answer.unanswered:
        click.echo(f"Not in the passages: {cleaner.clean_line(answer.unanswered, 2_000)}")
    return True
