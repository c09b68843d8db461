"""`tasuki read`: a thread, the entries that a brief refers to, or what a thread says to a question."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tasuki.cli.printing import print_json
from tasuki.plain import one_line

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tasuki.model import Thread
    from tasuki.threads.opening import Opened, Reading
    from tasuki.threads.passages import Passage
    from tasuki.threads.safe import Cleaner

EPILOG = """
\b
Examples:
  tasuki read 3fa9c1d2#12-15,40
  tasuki read @1 --markdown > thread.md
  tasuki read 3fa9c1d2 "why was the timeout raised?"
"""


@click.command(epilog=EPILOG)
@click.argument("spec", metavar="THREAD[#N[-M][,K…]]")
@click.argument("question", required=False)
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
@click.option("--markdown", is_flag=True, help="Markdown, each entry under a heading of its own.")
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
) -> None:
    """Open a thread, the entries that a brief refers to, or what it says to a question.

    THREAD is a handoff id, as briefs name it, or a thread as `--from` takes it: a path, an id or its
    beginning, a harness, or @1 for the newest here. A handoff id opens its predecessor; an entry that
    changed or is gone since is shown as the handoff kept it.

    A QUESTION is answered by the passages that say most about it, in the order of the thread, also of
    the threads that this one was handed on from. Later passages may revise earlier ones. With the
    author `model` a language model answers; each of its sentences cites passages, and is checked
    against them. Where it fails, the passages are shown.

    Secrets are redacted.
    """
    from tasuki.threads import opening
    from tasuki.threads.safe import Cleaner

    if as_json and markdown:
        raise click.UsageError("Choose --json or --markdown, not both.")
    name, refs = opening.split(spec)
    if refs is not None and question is not None:
        raise click.UsageError("Name entries or ask a question, not both.")
    of, cleaner = opening.opened(name, Path.cwd()), Cleaner()
    if of.problem:
        click.echo(f"tasuki: {cleaner.text(of.problem)} Reading what the handoff kept.", err=True)
    if of.thread is not None and (note := _damage(of.thread)):
        click.echo(f"tasuki: {cleaner.text(note)}", err=True)
    if question is not None:
        question = question.encode("utf-8", "replace").decode()  # JSON knows no other bytes
        if _by_model(of, question, cleaner, author, author_model, as_json=as_json):
            return
        _answer(of, question, cleaner, limit, as_json=as_json, markdown=markdown)
        return
    shown = opening.readings(of, refs)
    if as_json:
        _print_json(of, shown, cleaner)
        return
    form = _as_markdown if markdown else opening.render_entry
    texts = (form(reading, cleaner) for reading in shown)
    if refs is None and sys.stdout.isatty() and not markdown:
        click.echo_via_pager(f"{text}\n" for text in texts)
        return
    for text in texts:
        click.echo(text)


def _damage(thread: "Thread") -> str:
    """What of a thread could not be read, as one sentence."""
    from tasuki.threads.opening import broken_lines

    return broken_lines(thread) or ("" if thread.entries else f"{thread.path} holds no entries.")


# -- entries ---------------------------------------------------------------------------


def _as_markdown(reading: "Reading", cleaner: "Cleaner") -> str:
    from tasuki.threads.opening import name_speaker

    entry = reading.entry
    head = f"## #{entry.ref} {name_speaker(reading)}"
    if reading.kept:
        head += " (as kept with the handoff)"
    words = cleaner.text(reading.text)
    if entry.kind == "tool":
        longest = max((len(run) for run in _runs(words)), default=0)
        fence = "`" * max(3, longest + 1)
        words = f"{fence}\n{words}\n{fence}"
    return f"{head}\n\n{words}\n"


def _runs(text: str) -> list[str]:
    import re

    return re.findall("`+", text)


def _print_json(of: "Opened", shown: "Iterable[Reading]", cleaner: "Cleaner") -> None:
    import msgspec

    entries = []
    for reading in shown:
        entry = msgspec.to_builtins(cleaner.entry(reading.entry))
        kept = {name: entry[name] for name in ("ref", "kind", "at", "text", "tool", "compacted")}
        kept["origin"] = entry["origin"] if entry["kind"] == "user" else None
        entries.append({**kept, "kept": reading.kept})
    print_json({**_about(of, cleaner), "entries": entries})


def _about(of: "Opened", cleaner: "Cleaner") -> dict[str, object]:
    thread, handoff = of.thread, of.handoff
    known = None
    if thread is not None:
        known = {
            "harness": thread.harness, "id": cleaner.line(thread.id), "path": thread.path,
            "cwd": cleaner.line(thread.cwd), "name": cleaner.text(thread.name),
            "started": cleaner.line(thread.started, 40),
            "updated": cleaner.line(thread.updated, 40),
            "entries": len(thread.entries),
        }  # fmt: skip
    return {"label": of.label, "handoff": handoff.id if handoff else None, "thread": known,
            "problem": cleaner.text(of.problem)}  # fmt: skip


# -- a question ------------------------------------------------------------------------


def _answer(
    of: "Opened", question: str, cleaner: "Cleaner", limit: int, *, as_json: bool, markdown: bool
) -> None:
    from tasuki.threads import opening

    found = opening.asked(of, question, cleaner.entry, limit)
    if as_json:
        rows = [{**_about(link, cleaner), "passages": passages} for link, passages in found]
        print_json({"question": question, "threads": rows})
        return
    if not found:
        click.echo(
            f"No passage of {of.label} has a word of the question. Look in all threads: "
            "tasuki find WORDS", err=True,
        )  # fmt: skip
        raise SystemExit(1)
    for link, passages in found:
        click.echo(_thread_line(link, markdown))
        for passage in passages:
            click.echo(_passage(link, passage, markdown))


def _by_model(
    of: "Opened",
    question: str,
    cleaner: "Cleaner",
    author: str | None,
    author_model: str | None,
    *,
    as_json: bool,
) -> bool:
    """Print the answer of a model where the settings name one; whether that was done.

    What is printed went through the checks; a failure is told, and the passages are shown instead.
    """
    from tasuki import config
    from tasuki.errors import AuthorFailed

    loaded = config.loaded(Path.cwd(), {"author": author, "model": author_model})
    for problem in loaded.problems:
        click.echo(f"tasuki: {problem}", err=True)
    if loaded.settings.author != "model":
        return False
    from tasuki.cli.progress import Progress
    from tasuki.threads import answering

    try:
        with Progress(phases=False):
            found = answering.answered(of, cleaner.text(question), cleaner.entry, loaded)
    except AuthorFailed as error:
        if loaded.settings.strict:
            raise
        click.echo(f"tasuki: {cleaner.text(str(error))} The passages, then.", err=True)
        return False
    for told in (*found.told, *(f"Dropped: {text!r}: {why}" for text, why in found.dropped)):
        click.echo(f"tasuki: {cleaner.line(told)}", err=True)
    if as_json:
        print_json({"question": question, "answer": found.sentences,
                    "unanswered": found.unanswered, "dropped": found.dropped})  # fmt: skip
        return True
    for sentence in found.sentences:
        click.echo(f"- {cleaner.line(sentence.text, 4_000)} [{', '.join(sentence.references)}]")
    if found.unanswered:
        click.echo(f"Not in the passages: {cleaner.line(found.unanswered, 2_000)}")
    return True


def _thread_line(link: "Opened", markdown: bool) -> str:
    thread = link.thread
    what = (
        f"{thread.harness} {one_line(thread.id, 80)}"
        if thread
        else f"handoff {link.label}, as it kept it"
    )
    return f"# {what}\n" if markdown else f"{what}\n"


def _passage(link: "Opened", passage: "Passage", markdown: bool) -> str:
    head = f"{link.label}#{passage.ref} {passage.kind} {passage.at}".rstrip()
    mark = "> " if markdown else "    "
    body = "\n".join(f"{mark}{line}".rstrip() for line in passage.text.splitlines())
    return f"**{head}**\n\n{body}\n" if markdown else f"  {head}\n{body}\n"
