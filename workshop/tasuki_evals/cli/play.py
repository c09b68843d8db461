"""`tasuki eval play`: one draft taken apart, or two side by side, and notes on a brief's gaps."""

import shutil
import sys
import textwrap
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tasuki.cli.output import print_json
from tasuki.files import expand_user

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence, Set

    from tasuki.config.settings import LoadedSettings
    from tasuki.draft.pipeline import HandoffResult
    from tasuki.harness.protocol import Harness
    from tasuki.model import Goal
    from tasuki_evals.playground import BriefComparison, DraftCandidate

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

    Shows the brief, what found no room, what the checks removed, and every candidate with its score
    and the parts of the score. A vague goal is accepted. Nothing is started, and nothing is stored
    unless you take a note. Secrets are redacted.
    """
    import gc

    gc.disable()  # Threads are large, acyclic, short-lived graphs.
    from tasuki.errors import UsageError
    from tasuki_evals import playground

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
    width = (
        min(shutil.get_terminal_size((WIDTH_COLUMNS, 24)).columns, MOST_WIDTH_COLUMNS)
        if sys.stdout.isatty()
        else WIDTH_COLUMNS
    )
    lines = run.format_text(everything, second, width)
    if sys.stdout.isatty():
        click.echo_via_pager(f"{line}\n" for line in lines)
    else:
        for line in lines:
            click.echo(line)
    if saved_note:
        click.echo(
            f"Noted as {saved_note['id']} in {saved_note['file']}; handoff {saved_note['handoff'][:8]} is stored.",
            err=True,
        )


class _PlayRun:
    """One thread and one goal, drafted once or twice."""

    def __init__(self, spec: str, goal: str, author: str | None) -> None:
        from tasuki.config import settings
        from tasuki.draft.goal import check_goal, explain_vagueness
        from tasuki.threads import catalog
        from tasuki.threads.passages import EntryCleaner
        from tasuki.vault import create_handoff_id

        self.cleaner: EntryCleaner = EntryCleaner()
        goal = goal.encode("utf-8", "replace").decode()
        self.vague = explain_vagueness(goal)
        self.goal: Goal = check_goal(goal, force=True)
        self.flags: dict[str, Any] = {"author": author}
        self.id = create_handoff_id()
        self.loaded: LoadedSettings = settings.load_with_sources(Path.cwd(), self.flags)
        found_thread = catalog.find_thread(spec, Path.cwd())
        self.harness: Harness = found_thread[0]
        self.path = found_thread[1]
        self.result = self._make(self.loaded)

    def _make(self, loaded: "LoadedSettings") -> "HandoffResult":
        from tasuki.cli.output import ProgressSpinner
        from tasuki.draft import pipeline

        with ProgressSpinner(phases=loaded.settings.show_progress_phases) as progress:
            result = pipeline.make_handoff(
                self.harness, self.path, self.goal, loaded,
                handoff_id=self.id, to=self.harness.name, report=progress.begin_phase,
            )  # fmt: skip
        for note in (*loaded.problems, *result.messages):
            click.echo(f"tasuki: {self.cleaner.clean_line(note)}", err=True)
        return result

    def draft_again(self, overrides: dict[str, Any]) -> "tuple[str, HandoffResult]":
        """Make a second draft; return what was different for it, and the draft."""
        from tasuki.config import settings
        from tasuki_evals import playground

        loaded = settings.load_with_sources(Path.cwd(), {**self.flags, **overrides})
        return playground.describe_changes(self.loaded, loaded), self._make(loaded)

    def format_brief(self, result: "HandoffResult") -> str:
        """Format the brief of a draft, safe to show."""
        from tasuki.draft.brief import join_brief

        return self.cleaner.clean_text(join_brief(result.context, self.goal.text))

    def save_note(self, text: str, path: Path | None) -> dict[str, str]:
        """Keep the handoff and note what its brief lacks; return where and as what."""
        from tasuki import handoffs
        from tasuki.draft.brief import join_brief
        from tasuki.vault import Vault
        from tasuki_evals import playground

        handoff, thread = self.result.handoff, self.result.thread
        brief = join_brief(self.result.context, self.goal.text)
        handoffs.PreparedHandoff(handoff, brief, thread, self.harness, Vault()).store_draft(
            is_required=True
        )
        path = path or playground.get_notes_file()
        note = playground.PlayNote(
            note=self.cleaner.clean_text(text.strip()),
            goal=self.cleaner.clean_text(self.goal.text),
            thread=str(self.path.absolute()),
            harness=thread.harness,
            entries=len(thread.entries),
            handoff=handoff.id,
            author=handoff.draft.authorship.author,
        )
        return {"id": playground.append_note(note, path), "file": str(path), "handoff": handoff.id}

    # -- for people --------------------------------------------------------------------

    def format_text(
        self, everything: bool, second: "tuple[str, HandoffResult] | None", width: int
    ) -> "Iterator[str]":
        """Format everything that is shown, line by line."""
        from tasuki_evals import playground

        result, line = self.result, self.cleaner.clean_line
        thread = result.thread
        yield f"{thread.harness} {line(thread.id, 8)}, {len(thread.entries)} entries"
        if self.vague:
            yield f"Accepted all the same: {line(self.vague)}"
        if second:
            label, other = second
            differing = playground.compare_drafts(result.handoff.draft, other.handoff.draft)
            yield from _format_side_by_side(differing, result, other, label, width, line)
        else:
            yield f"\n== Brief: {result.handoff.tokens} tokens, {self._describe_author()}\n"
            yield self.format_brief(result)
        yield from self._format_missing(width)
        for kind, candidates in playground.list_candidates(result, self.cleaner.clean_text).items():
            visible = candidates if everything else candidates[:MOST_CANDIDATES]
            count = (
                f"{len(visible)} of {len(candidates)}: --all"
                if len(visible) < len(candidates)
                else str(len(candidates))
            )
            yield f"\n== {kind.capitalize()} ({count})"
            same = (
                set.intersection(*(set(c.adds.items()) for c in candidates))
                if len(candidates) > 1
                else set()
            )
            for candidate in visible:
                yield from _format_candidate(candidate, same, width, line)

    def _describe_author(self) -> str:
        authorship = self.result.handoff.draft.authorship
        return (
            f"written by {authorship.author}"
            if authorship.author != "offline"
            else "written offline"
        )

    def _format_missing(self, width: int) -> "Iterator[str]":
        """Format what was left out and dropped, with the reasons."""
        line, draft = self.cleaner.clean_line, self.result.handoff.draft
        budget = self.loaded.settings.budget
        has_author = draft.authorship.author != "offline"
        reason = "the author chose others" if has_author else f"no room in {budget} tokens"
        if draft.left_out:
            yield f"\n== Left out ({len(draft.left_out)}): {reason}"
            for item in draft.left_out:
                label = f"{item.label}: " if item.label else ""
                yield _wrap_text(
                    f"- {line(f'{label}{item.text}')}{_format_refs(item.refs)}", "  ", width
                )
        if draft.dropped:
            yield f"\n== Removed by the checks ({len(draft.dropped)})"
            for dropped in draft.dropped:
                text = f"- {dropped.section}: {line(dropped.text)} — {line(dropped.reason)}"
                yield _wrap_text(text, "  ", width)

    # -- for programs ------------------------------------------------------------------

    def build_json(
        self, everything: bool, second: "tuple[str, HandoffResult] | None"
    ) -> dict[str, Any]:
        """Build the same as one document."""
        from tasuki_evals import playground

        thread = self.result.thread
        candidates = playground.list_candidates(self.result, self.cleaner.clean_text)
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
            "candidates": candidates
            if everything
            else {k: v[:MOST_CANDIDATES] for k, v in candidates.items()},
            "against": against,
        }

    def _build_draft(self, result: "HandoffResult") -> dict[str, Any]:
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
    candidate: "DraftCandidate",
    same: "Set[tuple[str, float]]",
    width: int,
    line: "Callable[..., str]",
) -> "Iterator[str]":
    parts = " ".join(f"{name} {value:g}" for name, value in candidate.features.items())
    if candidate.adds:
        most = sorted(candidate.adds.items() - same, key=lambda pair: -abs(pair[1]))[:MOST_FEATURES]
        parts = " ".join(f"{name} {value:+.2g}" for name, value in most)
    head = f"{candidate.score:6.2f}  {candidate.place or '–':10} {candidate.what}{_format_refs(candidate.refs)}"
    if len(head) + len(parts) + 2 <= width:
        yield f"{head}  {parts}".rstrip()
    else:
        yield head
        yield from textwrap.wrap(parts, width, initial_indent=" " * 8, subsequent_indent=" " * 8)
    yield f"        {line(candidate.text, width - 8)}"


def _format_refs(refs: "Sequence[int]") -> str:
    from tasuki.draft.brief import format_refs

    return format_refs(refs)


def _wrap_text(text: str, indent: str, width: int) -> str:
    return textwrap.fill(
        text, width, initial_indent=indent, subsequent_indent=f"{indent}  ", break_on_hyphens=False
    )


def _format_side_by_side(
    compared: "BriefComparison",
    a: "HandoffResult",
    b: "HandoffResult",
    label: str,
    width: int,
    line: "Callable[..., str]",
) -> "Iterator[str]":
    """Format two columns of the lines that only one brief has, then those that both have."""
    from tasuki_evals.playground import count_line_tokens

    half = (width - 3) // 2
    yield f"\nA: {a.handoff.tokens} tokens, as set"
    yield f"B: {b.handoff.tokens} tokens, {line(label)}\n"
    titles = (f"Only A: {len(compared.only_a)} lines, {count_line_tokens(compared.only_a)} tokens",
              f"Only B: {len(compared.only_b)} lines, {count_line_tokens(compared.only_b)} tokens")  # fmt: skip
    yield f"{titles[0]:<{half}} │ {titles[1]}".rstrip()
    yield f"{'─' * half}─┼─{'─' * half}"
    columns = (
        list(_format_column(compared.only_a, half, line)),
        list(_format_column(compared.only_b, half, line)),
    )
    for left, right in zip_longest(*columns, fillvalue=""):
        yield f"{left:<{half}} │ {right}".rstrip()
    yield f"\nBoth: {len(compared.both)} lines, {count_line_tokens(compared.both)} tokens"
    current_title = ""
    for title, text in compared.both:
        if title != current_title:
            yield f"  {title}"
            current_title = title
        yield f"    {line(text, width - 4)}"


def _format_column(
    lines: "Sequence[tuple[str, str]]", width: int, line: "Callable[..., str]"
) -> "Iterator[str]":
    current_title = ""
    for title, text in lines:
        if title != current_title:
            yield from textwrap.wrap(title.upper(), width)
            current_title = title
        yield from textwrap.wrap(
            line(text, 600), width, subsequent_indent="  ", break_on_hyphens=False
        )
