"""`tasuki eval play`: one draft taken apart, or two side by side, and notes on a brief's gaps."""

import gc
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence, Set
from itertools import groupby, zip_longest
from operator import itemgetter
from pathlib import Path
from typing import Any

import click

from tasuki import handoffs
from tasuki.cli.output import ProgressSpinner, print_json
from tasuki.config import settings
from tasuki.config.settings import LoadedSettings
from tasuki.draft import pipeline
from tasuki.draft.brief import format_refs, join_brief
from tasuki.draft.goal import check_goal, explain_vagueness
from tasuki.draft.pipeline import HandoffResult
from tasuki.errors import UsageError
from tasuki.files import expand_user
from tasuki.threads import catalog
from tasuki.threads.passages import EntryCleaner
from tasuki.vault import Vault, create_handoff_id
from tasuki_evals import playground
from tasuki_evals.playground import DraftCandidate, count_line_tokens

MOST_CANDIDATES = 25
"""Most candidates of each kind that are shown."""
MOST_FEATURES = 6
"""Most features of a file that are shown: those that add or take most."""
WIDTH_COLUMNS = 80
MOST_WIDTH_COLUMNS = 160
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
    "--author", type=click.Choice(["offline", "model", "agent"]), help="Who writes. Default: the author in the settings."
)  # fmt: skip
@click.option(
    "--against", multiple=True, metavar="AUTHOR|KEY=VALUE",
    help="Make a second draft with this author or setting, and show both side by side. Repeatable.",
)  # fmt: skip
@click.option(
    "--note", default=None, metavar="TEXT",
    help="Note what the brief lacks, and store the handoff: the note can become a case.",
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
    spec: str, goal: str, author: str | None, against: tuple[str, ...], note: str | None,
    notes: str | None, everything: bool, as_json: bool,
) -> None:  # fmt: skip
    """Take the draft of a thread apart: what it holds, what it left out, and why.

    Shows the brief, what found no room, what the checks removed, and every candidate with its score
    and the parts of the score. A vague goal is accepted. Nothing is started, and nothing is stored
    unless you take a note. Secrets are redacted.
    """
    gc.disable()  # Threads are large, acyclic, short-lived graphs.
    if notes and note is None:
        raise UsageError("--notes names the file for a note; write one with --note TEXT.")
    if note is not None and not note.strip():
        raise UsageError(
            'The note is empty. Say what the brief lacks: --note "the wish about retries is missing"'
        )
    run = _PlayRun(spec, goal, author)
    second = run.draft_again(playground.parse_overrides(against)) if against else None
    saved_note = run.save_note(note, expand_user(notes) if notes else None) if note else None
    if as_json:
        print_json({**run.build_json(everything, second), "note": saved_note})
        return
    if sys.stdout.isatty():
        columns = shutil.get_terminal_size((WIDTH_COLUMNS, 24)).columns
        lines = run.format_text(everything, second, min(columns, MOST_WIDTH_COLUMNS))
        click.echo_via_pager(f"{line}\n" for line in lines)
    else:
        for line in run.format_text(everything, second, WIDTH_COLUMNS):
            click.echo(line)
    if saved_note:
        click.echo(
            f"Noted as {saved_note['id']} in {saved_note['file']}; handoff {saved_note['handoff'][:8]} is stored.",
            err=True,
        )


_SecondDraft = tuple[str, HandoffResult]
"""What was different for a second draft, and the draft."""


class _PlayRun:
    """One thread and one goal, drafted once or twice."""

    def __init__(self, spec: str, goal: str, author: str | None) -> None:
        self.cleaner = EntryCleaner()
        goal = goal.encode("utf-8", "replace").decode()
        self.vague = explain_vagueness(goal)
        self.goal = check_goal(goal, force=True)
        self.flags: dict[str, Any] = {"author": author, "cache": False}
        self.id = create_handoff_id()
        self.loaded = settings.load_with_sources(Path.cwd(), self.flags)
        self.harness, self.path = catalog.find_thread(spec, Path.cwd())
        self.result = self._make(self.loaded)

    def _make(self, loaded: LoadedSettings) -> HandoffResult:
        with ProgressSpinner(phases=loaded.settings.show_progress_phases) as progress:
            result = pipeline.make_handoff(
                self.harness, self.path, self.goal, loaded,
                handoff_id=self.id, to=self.harness.name, report=progress.begin_phase,
            )  # fmt: skip
        for note in (*loaded.problems, *result.messages):
            click.echo(f"tasuki: {self.cleaner.clean_line(note)}", err=True)
        return result

    def draft_again(self, overrides: dict[str, Any]) -> _SecondDraft:
        """Make a second draft."""
        loaded = settings.load_with_sources(Path.cwd(), {**self.flags, **overrides})
        return playground.describe_changes(self.loaded, loaded), self._make(loaded)

    def format_brief(self, result: HandoffResult) -> str:
        """Format the brief of a draft, safe to show."""
        return self.cleaner.clean_text(join_brief(result.context, self.goal.text))

    def save_note(self, text: str, path: Path | None) -> dict[str, str]:
        """Keep the handoff and note what its brief lacks; return where and as what."""
        handoff, thread = self.result.handoff, self.result.thread
        brief = join_brief(self.result.context, self.goal.text)
        prepared = handoffs.PreparedHandoff(handoff, brief, thread, self.harness, Vault())
        prepared.store_draft(is_required=True)
        path = path or playground.get_notes_file()
        note = playground.PlayNote(
            note=self.cleaner.clean_text(text.strip()),
            goal=self.cleaner.clean_text(self.goal.text), thread=str(self.path.absolute()),
            harness=thread.harness, entries=len(thread.entries), handoff=handoff.id,
            author=handoff.draft.authorship.author,
        )  # fmt: skip
        return {"id": playground.append_note(note, path), "file": str(path), "handoff": handoff.id}

    def format_text(
        self, everything: bool, second: _SecondDraft | None, width: int
    ) -> Iterator[str]:
        """Format everything that is shown, line by line."""
        result, line = self.result, self.cleaner.clean_line
        thread = result.thread
        yield f"{thread.harness} {line(thread.id, 8)}, {len(thread.entries)} entries"
        if self.vague:
            yield f"Accepted all the same: {line(self.vague)}"
        author = result.handoff.draft.authorship.author
        if second:
            yield from _format_side_by_side(result, *second, width, line)
        else:
            written = "written offline" if author == "offline" else f"written by {author}"
            yield f"\n== Brief: {result.handoff.tokens} tokens, {written}\n"
            yield self.format_brief(result)
        yield from self._format_missing(width)
        for kind, candidates in playground.list_candidates(result, self.cleaner.clean_text).items():
            visible = candidates if everything else candidates[:MOST_CANDIDATES]
            is_cut = len(visible) < len(candidates)
            count = f"{len(visible)} of {len(candidates)}: --all" if is_cut else len(candidates)
            yield f"\n== {kind.capitalize()} ({count})"
            terms = [set(c.adds.items()) for c in candidates]
            same = set.intersection(*terms) if len(terms) > 1 else set()
            for candidate in visible:
                yield from _format_candidate(candidate, same, width, line)

    def _format_missing(self, width: int) -> Iterator[str]:
        """Format what was left out and dropped, with the reasons."""
        line, draft = self.cleaner.clean_line, self.result.handoff.draft
        budget = self.loaded.settings.budget
        has_author = draft.authorship.author != "offline"
        reason = "the author chose others" if has_author else f"no room in {budget} tokens"
        if draft.left_out:
            yield f"\n== Left out ({len(draft.left_out)}): {reason}"
        for item in draft.left_out:
            label = f"{item.label}: " if item.label else ""
            yield _wrap_item(f"- {line(f'{label}{item.text}')}{format_refs(item.refs)}", width)
        if draft.dropped:
            yield f"\n== Removed by the checks ({len(draft.dropped)})"
        for dropped in draft.dropped:
            text = f"- {dropped.section}: {line(dropped.text)} — {line(dropped.reason)}"
            yield _wrap_item(text, width)

    def build_json(self, everything: bool, second: _SecondDraft | None) -> dict[str, Any]:
        """Build the same as one document."""
        thread = self.result.thread
        candidates = playground.list_candidates(self.result, self.cleaner.clean_text)
        most = None if everything else MOST_CANDIDATES
        against = None
        if second:
            label, other = second
            compared = playground.compare_drafts(self.result.handoff.draft, other.handoff.draft)
            against = {"settings": label, **self._build_draft(other), "compared": compared}
        return {
            "thread": {"harness": thread.harness, "id": thread.id, "path": str(self.path)},
            "goal": self.cleaner.clean_text(self.goal.text),
            "vague": self.vague,
            **self._build_draft(self.result),
            "candidates": {kind: found[:most] for kind, found in candidates.items()},
            "against": against,
        }

    def _build_draft(self, result: HandoffResult) -> dict[str, Any]:
        draft, text = result.handoff.draft, self.cleaner.clean_text
        return {
            "author": draft.authorship.author,
            "tokens": result.handoff.tokens,
            "brief": self.format_brief(result),
            "left_out": [{"label": i.label, "text": text(i.text), "refs": i.refs} for i in draft.left_out],
            "dropped": [
                {"section": d.section, "text": text(d.text), "reason": text(d.reason), "kind": d.kind}
                for d in draft.dropped
            ],
        }  # fmt: skip


def _format_candidate(
    candidate: DraftCandidate, same: Set[tuple[str, float]], width: int, line: Callable[..., str]
) -> Iterator[str]:
    parts = " ".join(f"{name} {value:g}" for name, value in candidate.features.items())
    if candidate.adds:
        most = sorted(candidate.adds.items() - same, key=lambda pair: -abs(pair[1]))[:MOST_FEATURES]
        parts = " ".join(f"{name} {value:+.2g}" for name, value in most)
    head = f"{candidate.score:6.2f}  {candidate.place or '–':10} {candidate.what}{format_refs(candidate.refs)}"
    if len(head) + len(parts) + 2 <= width:
        yield f"{head}  {parts}".rstrip()
    else:
        yield head
        yield from textwrap.wrap(parts, width, initial_indent=" " * 8, subsequent_indent=" " * 8)
    yield f"        {line(candidate.text, width - 8)}"


def _wrap_item(text: str, width: int) -> str:
    return textwrap.fill(
        text, width, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False
    )


def _format_side_by_side(
    a: HandoffResult, label: str, b: HandoffResult, width: int, line: Callable[..., str]
) -> Iterator[str]:
    """Format two columns of the lines that only one brief has, then those that both have."""
    compared = playground.compare_drafts(a.handoff.draft, b.handoff.draft)
    half = (width - 3) // 2
    yield f"\nA: {a.handoff.tokens} tokens, as set"
    yield f"B: {b.handoff.tokens} tokens, {line(label)}\n"
    columns = []
    for name, lines in (("A", compared.only_a), ("B", compared.only_b)):
        title = f"Only {name}: {len(lines)} lines, {count_line_tokens(lines)} tokens"
        columns.append([title, "─" * half, *_format_column(lines, half, line)])
    for number, (left, right) in enumerate(zip_longest(*columns, fillvalue="")):
        yield f"{left}─┼─{right}" if number == 1 else f"{left:<{half}} │ {right}".rstrip()
    yield f"\nBoth: {len(compared.both)} lines, {count_line_tokens(compared.both)} tokens"
    for title, under in groupby(compared.both, key=itemgetter(0)):
        yield f"  {title}"
        yield from (f"    {line(text, width - 4)}" for _, text in under)


def _format_column(
    lines: Sequence[tuple[str, str]], width: int, line: Callable[..., str]
) -> Iterator[str]:
    for title, under in groupby(lines, key=itemgetter(0)):
        yield from textwrap.wrap(title.upper(), width)
        for _, text in under:
            text = line(text, 600)
            yield from textwrap.wrap(text, width, subsequent_indent="  ", break_on_hyphens=False)
