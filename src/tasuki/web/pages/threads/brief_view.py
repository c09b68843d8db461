"""A kept handoff as its page shows it: its brief, the entries that it cites, and what changed since."""

import os
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from tasuki.draft import brief
from tasuki.draft.facts import git
from tasuki.errors import HandoffNotFound, TasukiError, ThreadNotFound
from tasuki.model import Citation, Entry, Handoff, HandoffEvent
from tasuki.text_safety import clean_for_display
from tasuki.threads import catalog, references
from tasuki.threads.passages import EntryCleaner
from tasuki.vault import Vault
from tasuki.web.pages.threads import view
from tasuki.web.pages.threads.files import THREAD_CACHE, build_thread_address
from tasuki.web.views.display import StateBadge, get_harness_title
from tasuki.web.views.templates import parse_moment

STATE_SHAPES = {
    "draft": StateBadge("todo", "Draft", "rest"),
    "printed": StateBadge("todo", "Printed", "rest"),
    "started": StateBadge("now", "Started", "run"),
    "delivered": StateBadge("done", "Delivered", "done"),
    "acknowledged": StateBadge("done", "Confirmed", "done"),
    "uncertain": StateBadge("ask", "Uncertain", "attn"),
    "failed": StateBadge("fail", "Failed", "fail"),
}
ENTRIES_AROUND = 2
"""Entries around a cited one that are named."""


class CitedEntry(Struct, frozen=True):
    """An entry next to the brief. `origin` says whether it is from the thread or the kept copy."""

    entry: view.ShownEntry
    origin: str
    sections: tuple[str, ...]
    before: int
    after: int
    near: tuple[view.ShownEntry, ...]
    in_thread: str
    """The address in its thread; empty where that is gone."""


class BriefView(Struct, frozen=True):
    """A handoff with everything that its page shows."""

    handoff: Handoff
    title: str
    text: str
    state: StateBadge
    created: float | None
    revision: int
    predecessor: str
    predecessor_href: str
    drift: tuple[str, ...]
    dropped: tuple[tuple[str, str, str], ...]
    redacted: tuple[tuple[str, int], ...]
    events: tuple[tuple[float | None, str, str], ...]
    problem: str

    @property
    def short(self) -> str:
        """The beginning of its id."""
        return self.handoff.id[:8]


def load_brief_view(vault: Vault, id: str) -> BriefView:
    """Load a handoff by the beginning of its id. Raises HandoffNotFound."""
    handoff, cleaner = vault.get(id), EntryCleaner()
    origin, events = handoff.predecessor, vault.load_events(handoff.id)
    has_thread = os.path.exists(origin.path)
    return BriefView(
        handoff=handoff,
        title=cleaner.clean_line(handoff.goal.shown, 160),
        text=clean_for_display(vault.load_brief(handoff.id)),
        state=STATE_SHAPES[vault.load_state(handoff.id)],
        created=parse_moment(handoff.created),
        revision=_count_revisions(vault, handoff),
        predecessor=f"{get_harness_title(origin.harness)} {cleaner.clean_line(origin.thread_id, 12)}",
        predecessor_href=build_thread_address(origin.harness, origin.thread_id, origin.path) if has_thread else "",
        drift=tuple(cleaner.clean_line(changed) for changed in _describe_drift(handoff)),
        dropped=tuple((d.way, cleaner.clean_line(d.text, 300), cleaner.clean_line(d.reason, 300)) for d in handoff.draft.dropped),
        redacted=tuple(sorted(handoff.redactions.items())),
        events=tuple(_format_event(event, cleaner) for event in events),
        problem="" if has_thread else f"Its thread no longer exists: {cleaner.clean_line(origin.path)}",
    )  # fmt: skip


def _format_event(event: HandoffEvent, cleaner: EntryCleaner) -> tuple[float | None, str, str]:
    detail = ", ".join(f"{name.replace('_', ' ')}: {value}" for name, value in event.detail.items())
    return parse_moment(event.at), event.kind, cleaner.clean_line(detail, 400)


def _count_revisions(vault: Vault, handoff: Handoff) -> int:
    number, seen_ids = 1, {handoff.id}
    while handoff.revises and handoff.revises not in seen_ids:
        seen_ids.add(handoff.revises)
        number += 1
        try:
            handoff = vault.get(handoff.revises)
        except HandoffNotFound:  # pruned, or damaged: the count ends there
            break
    return number


def _describe_drift(handoff: Handoff) -> Sequence[str]:
    cwd = handoff.predecessor.cwd
    if not cwd or not os.path.isdir(cwd):
        return [f"Its folder {cwd} does not exist"] if cwd else []
    return git.describe_snapshot_drift(cwd, handoff.snapshot, git.GitProbe(cwd).read_revision())


# -- a cited entry ---------------------------------------------------------------------


def find_cited(handoff: Handoff, ref: int) -> CitedEntry | None:
    """Find an entry that a brief cites: from the thread if unchanged there, else the kept copy."""
    opened_thread, cleaner = open_thread(handoff), EntryCleaner()
    try:
        (reading,) = references.read_entries(opened_thread, [ref])
    except ThreadNotFound:
        return None
    entries = opened_thread.thread.entries if opened_thread.thread else ()
    index = next((n for n, entry in enumerate(entries) if entry.ref == ref), None)
    refs = [citation.ref for citation in handoff.citations]
    thread, in_thread, around = opened_thread.thread, "", tuple[Entry, ...]()
    if thread is not None and index is not None:
        around = entries[max(0, index - ENTRIES_AROUND) : index + ENTRIES_AROUND + 1]
        address = build_thread_address(thread.harness, thread.id, thread.path, entry=ref)
        in_thread = f"{address}#e{ref}"
    cleaner.learn_entries((reading.entry, *around), opened_thread.entries)
    citation = opened_thread.citations_by_ref.get(ref)
    return CitedEntry(
        entry=_show_entry(reading.entry, cleaner, opened_thread),
        origin=_describe_origin(citation, index is not None, is_kept=reading.kept),
        sections=_find_sections(handoff, ref),
        before=max((n for n in refs if n < ref), default=0),
        after=min((n for n in refs if n > ref), default=0),
        near=tuple(_show_entry(one, cleaner, opened_thread) for one in around),
        in_thread=in_thread,
    )


def open_thread(handoff: Handoff) -> references.OpenedThread:
    """Open the thread of a handoff, as far as it is still there; a long one is read once."""
    origin = handoff.predecessor
    try:
        path = Path(origin.path)
        thread = THREAD_CACHE.read_thread(catalog.get_reader(origin.harness, path), path)
    except (TasukiError, ValueError) as error:  # ValueError: a path with a NUL
        return references.OpenedThread(handoff.id[:8], None, handoff, str(error))
    return references.OpenedThread(handoff.id[:8], thread, handoff)


def _show_entry(
    entry: Entry, cleaner: EntryCleaner, opened_thread: references.OpenedThread
) -> view.ShownEntry:
    if opened_thread.thread is not None:
        return view.show_entry(opened_thread.thread, entry, cleaner)
    text, whole = view.cut_text(entry.text, view.MOST_MESSAGE_CHARACTERS, cleaner)
    return view.ShownEntry(entry.ref, entry.kind, entry.kind.capitalize(), text, whole)


def _describe_origin(citation: Citation | None, is_there: bool, *, is_kept: bool) -> str:
    if is_kept and is_there:
        return "As stored with the handoff; the thread has something else there now."
    if is_kept:
        return "As stored with the handoff; the thread no longer has it."
    if citation is None:
        return "From the thread; the brief does not cite it."
    digest = citation.sha256
    return f"As the thread has it, unchanged: hash {digest[:4]}…{digest[-2:]}."


def _find_sections(handoff: Handoff, ref: int) -> tuple[str, ...]:
    draft = handoff.draft
    cited = {name: getattr(draft, name) for name in brief.SECTIONS if name != "metadata"}
    return tuple(
        brief.SECTIONS[name]
        for name, items in cited.items()
        if any(ref in item.refs for item in items)
    )
