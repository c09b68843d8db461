"""`tasuki eval play`: one draft taken apart, or two side by side, and notes of what a brief lacked."""

import shutil
import sys
import textwrap
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tasuki.cli.printing import print_json
from tasuki.paths import expand_user

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence, Set

    from tasuki.config import Loaded
    from tasuki.draft.pipeline import Made
    from tasuki.evals.play import Candidate, Compared
    from tasuki.harness.protocol import Harness
    from tasuki.model import Goal

SHOWN = 25
"""Candidates of each kind that are shown."""
ADDS = 6
"""Features of a file that are shown, those that add or take most."""
WIDTH = 80
MAX_WIDTH = 160
EPILOG = """
\b
Examples:
  tasuki eval play @1 "add retries to the upload client"
  tasuki eval play 124cf89f "cover the lazy fetch" --against budget=1200
  tasuki eval play @1 "add retries" --note "the wish about the queue is missing"
"""


@click.command(epilog=EPILOG)
@click.argument("spec", metavar="THREAD")
@click.argument("goal")
@click.option(
    "--author", type=click.Choice(["offline", "model", "agent"]), help="Who writes. Default: as the settings say."
)  # fmt: skip
@click.option(
    "--against", multiple=True, metavar="AUTHOR|KEY=VALUE",
    help="Make a second draft with this author or setting, and show both side by side. Repeatable.",
)  # fmt: skip
@click.option(
    "--note", default=None, metavar="TEXT",
    help="Note what the brief lacks, and keep the handoff: the note can become a case.",
)  # fmt: skip
@click.option(
    "--notes", type=click.Path(dir_okay=False), metavar="FILE",
    help="The file of notes. Default: eval-notes.toml in tasuki's data folder.",
)  # fmt: skip
@click.option(
    "--all", "everything", is_flag=True, help="Show every candidate, not the best 25 of each kind."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
def play(
    spec: str,
    goal: str,
    author: str | None,
    against: tuple[str, ...],
    note: str | None,
    notes: str | None,
    everything: bool,
    as_json: bool,
) -> None:
    """Take the draft of a thread apart: what it holds, what it left out, and why.

    Shows the brief, what found no room, what the checks took out, and every candidate with its
    score and what the score is made of. A vague goal is let through. Nothing is started, and
    nothing kept unless a note is taken. Secrets are redacted.
    """
    import gc

    gc.disable()  # Threads are large, acyclic, short-lived graphs.
    from tasuki.errors import UsageError
    from tasuki.evals import play as playground

    if notes and note is None:
        raise UsageError("--notes names the file for a note; write one with --note TEXT.")
    if note is not None and not note.strip():
        raise UsageError('The note is empty. Say what the brief lacks: --note "the wish about retries is missing"')  # fmt: skip
    game = _Game(spec, goal, author)
    second = game.another(playground.overrides(against)) if against else None
    taken = game.note(note, expand_user(notes) if notes else None) if note else None
    if as_json:
        print_json({**game.as_json(everything, second), "note": taken})
        return
    width = min(shutil.get_terminal_size((WIDTH, 24)).columns, MAX_WIDTH) if sys.stdout.isatty() else WIDTH  # fmt: skip
    shown = game.text(everything, second, width)
    if sys.stdout.isatty():
        click.echo_via_pager(f"{line}\n" for line in shown)
    else:
        for line in shown:
            click.echo(line)
    if taken:
        click.echo(f"Noted as {taken['id']} in {taken['file']}; handoff {taken['handoff'][:8]} is kept.", err=True)  # fmt: skip


class _Game:
    """One thread and one goal, drafted once or twice."""

    def __init__(self, spec: str, goal: str, author: str | None) -> None:
        from tasuki import config
        from tasuki.draft.goal import check_goal, why_vague
        from tasuki.threads import catalog
        from tasuki.threads.safe import Cleaner
        from tasuki.vault import new_id

        self.cleaner: Cleaner = Cleaner()
        goal = goal.encode("utf-8", "replace").decode()
        self.vague = why_vague(goal)
        self.goal: Goal = check_goal(goal, force=True)
        self.flags: dict[str, Any] = {"author": author}
        self.id = new_id()
        self.loaded: Loaded = config.loaded(Path.cwd(), self.flags)
        found = catalog.find(spec, Path.cwd())
        self.harness: Harness = found[0]
        self.path = found[1]
        self.made = self._make(self.loaded)

    def _make(self, loaded: "Loaded") -> "Made":
        from tasuki.cli.progress import Progress
        from tasuki.draft import pipeline

        with Progress(phases=loaded.settings.show_progress_phases) as progress:
            made = pipeline.make(
                self.harness, self.path, self.goal, loaded,
                handoff_id=self.id, to=self.harness.name, report=progress.phase,
            )  # fmt: skip
        for told in (*loaded.problems, *made.told):
            click.echo(f"tasuki: {self.cleaner.line(told)}", err=True)
        return made

    def another(self, overrides: dict[str, Any]) -> "tuple[str, Made]":
        """A second draft, and what was different for it."""
        from tasuki import config
        from tasuki.evals import play as playground

        loaded = config.loaded(Path.cwd(), {**self.flags, **overrides})
        return playground.changed(self.loaded, loaded), self._make(loaded)

    def brief(self, made: "Made") -> str:
        """The brief of a draft, safe to show."""
        from tasuki.draft.brief import join

        return self.cleaner.text(join(made.context, self.goal.text))

    def note(self, text: str, path: Path | None) -> dict[str, str]:
        """Keep the handoff and note what its brief lacks; where and as what."""
        from tasuki import handoffs
        from tasuki.draft.brief import join
        from tasuki.evals import play as playground
        from tasuki.vault import Vault

        handoff, thread = self.made.handoff, self.made.thread
        brief = join(self.made.context, self.goal.text)
        handoffs.Offer(handoff, brief, thread, self.harness, Vault()).keep(must=True)
        path = path or playground.notes_file()
        note = playground.Note(
            note=self.cleaner.text(text.strip()),
            goal=self.cleaner.text(self.goal.text),
            thread=str(self.path.absolute()),
            harness=thread.harness,
            entries=len(thread.entries),
            handoff=handoff.id,
            author=handoff.draft.authorship.author,
        )
        return {"id": playground.noted(note, path), "file": str(path), "handoff": handoff.id}

    # -- for people --------------------------------------------------------------------

    def text(
        self, everything: bool, second: "tuple[str, Made] | None", width: int
    ) -> "Iterator[str]":
        """All that is shown, line by line."""
        from tasuki.evals import play as playground

        made, line = self.made, self.cleaner.line
        thread = made.thread
        yield f"{thread.harness} {line(thread.id, 8)}, {len(thread.entries)} entries"
        if self.vague:
            yield f"Let through all the same: {line(self.vague)}"
        if second:
            label, other = second
            differing = playground.compared(made.handoff.draft, other.handoff.draft)
            yield from _side_by_side(differing, made, other, label, width, line)
        else:
            yield f"\n== Brief: {made.handoff.tokens} tokens, {self._by()}\n"
            yield self.brief(made)
        yield from self._missing(width)
        for kind, found in playground.candidates(made, self.cleaner.text).items():
            shown = found if everything else found[:SHOWN]
            of = f"{len(shown)} of {len(found)}: --all" if len(shown) < len(found) else str(len(found))  # fmt: skip
            yield f"\n== {kind.capitalize()} ({of})"
            same = (
                set.intersection(*(set(c.adds.items()) for c in found)) if len(found) > 1 else set()
            )
            for candidate in shown:
                yield from _candidate(candidate, same, width, line)

    def _by(self) -> str:
        by = self.made.handoff.draft.authorship
        return f"written by {by.author}" if by.author != "offline" else "written offline"

    def _missing(self, width: int) -> "Iterator[str]":
        """What was left out and dropped, with why."""
        line, draft = self.cleaner.line, self.made.handoff.draft
        budget = self.loaded.settings.budget
        authored = draft.authorship.author != "offline"
        why = "the author chose others" if authored else f"no room in {budget} tokens"
        if draft.left_out:
            yield f"\n== Left out ({len(draft.left_out)}): {why}"
            for item in draft.left_out:
                label = f"{item.label}: " if item.label else ""
                yield _wrapped(f"- {line(f'{label}{item.text}')}{_refs(item.refs)}", "  ", width)
        if draft.dropped:
            yield f"\n== Taken out by the checks ({len(draft.dropped)})"
            for dropped in draft.dropped:
                said = f"- {dropped.section}: {line(dropped.text)} — {line(dropped.reason)}"
                yield _wrapped(said, "  ", width)

    # -- for programs ------------------------------------------------------------------

    def as_json(self, everything: bool, second: "tuple[str, Made] | None") -> dict[str, Any]:
        """The same as one document."""
        from tasuki.evals import play as playground

        thread = self.made.thread
        found = playground.candidates(self.made, self.cleaner.text)
        against = None
        if second:
            label, other = second
            compared = playground.compared(self.made.handoff.draft, other.handoff.draft)
            against = {"settings": label, **self._draft(other), "compared": compared}
        return {
            "thread": {"harness": thread.harness, "id": thread.id, "path": str(self.path)},
            "goal": self.cleaner.text(self.goal.text),
            "vague": self.vague,
            **self._draft(self.made),
            "candidates": found if everything else {k: v[:SHOWN] for k, v in found.items()},
            "against": against,
        }

    def _draft(self, made: "Made") -> dict[str, Any]:
        draft, text = made.handoff.draft, self.cleaner.text
        return {
            "author": draft.authorship.author,
            "tokens": made.handoff.tokens,
            "brief": self.brief(made),
            "left_out": [{"label": i.label, "text": text(i.text), "refs": i.refs} for i in draft.left_out],
            "dropped": [
                {"section": d.section, "text": text(d.text), "reason": text(d.reason), "kind": d.kind}
                for d in draft.dropped
            ],
        }  # fmt: skip


def _candidate(
    candidate: "Candidate", same: "Set[tuple[str, float]]", width: int, line: "Callable[..., str]"
) -> "Iterator[str]":
    parts = " ".join(f"{name} {value:g}" for name, value in candidate.features.items())
    if candidate.adds:
        most = sorted(candidate.adds.items() - same, key=lambda pair: -abs(pair[1]))[:ADDS]
        parts = " ".join(f"{name} {value:+.2g}" for name, value in most)
    head = f"{candidate.score:6.2f}  {candidate.place or '–':10} {candidate.what}{_refs(candidate.refs)}"
    if len(head) + len(parts) + 2 <= width:
        yield f"{head}  {parts}".rstrip()
    else:
        yield head
        yield from textwrap.wrap(parts, width, initial_indent=" " * 8, subsequent_indent=" " * 8)
    yield f"        {line(candidate.text, width - 8)}"


def _refs(refs: "Sequence[int]") -> str:
    from tasuki.draft.brief import refs_mark

    return refs_mark(refs)


def _wrapped(text: str, indent: str, width: int) -> str:
    return textwrap.fill(
        text, width, initial_indent=indent, subsequent_indent=f"{indent}  ", break_on_hyphens=False
    )  # fmt: skip


def _side_by_side(
    of: "Compared", a: "Made", b: "Made", label: str, width: int, line: "Callable[..., str]"
) -> "Iterator[str]":
    """Two columns of what each brief has alone, then what both have."""
    from tasuki.evals.play import size

    half = (width - 3) // 2
    yield f"\nA: {a.handoff.tokens} tokens, as set"
    yield f"B: {b.handoff.tokens} tokens, {line(label)}\n"
    titles = (f"Only A: {len(of.only_a)} lines, {size(of.only_a)} tokens",
              f"Only B: {len(of.only_b)} lines, {size(of.only_b)} tokens")  # fmt: skip
    yield f"{titles[0]:<{half}} │ {titles[1]}".rstrip()
    yield f"{'─' * half}─┼─{'─' * half}"
    columns = (list(_column(of.only_a, half, line)), list(_column(of.only_b, half, line)))
    for left, right in zip_longest(*columns, fillvalue=""):
        yield f"{left:<{half}} │ {right}".rstrip()
    yield f"\nBoth: {len(of.both)} lines, {size(of.both)} tokens"
    under = ""
    for title, text in of.both:
        if title != under:
            yield f"  {title}"
            under = title
        yield f"    {line(text, width - 4)}"


def _column(
    lines: "Sequence[tuple[str, str]]", width: int, line: "Callable[..., str]"
) -> "Iterator[str]":
    under = ""
    for title, text in lines:
        if title != under:
            yield from textwrap.wrap(title.upper(), width)
            under = title
        yield from textwrap.wrap(
            line(text, 600), width, subsequent_indent="  ", break_on_hyphens=False
        )  # fmt: skip
