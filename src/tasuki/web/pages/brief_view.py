"""A handoff that was kept, as it is read: its brief, what it rests on, and what changed since."""

import os
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from msgspec import Struct

from tasuki import harness as harnesses
from tasuki.draft import drift, git
from tasuki.errors import HandoffNotFound, TasukiError, ThreadNotFound
from tasuki.model import Citation, CommandItem, Entry, FileItem, Handoff, HandoffEvent, Item
from tasuki.plain import shown
from tasuki.threads import opening
from tasuki.threads.safe import Cleaner
from tasuki.vault import Vault
from tasuki.web.pages import thread_view
from tasuki.web.pages.shapes import Shown
from tasuki.web.pages.thread_files import THREADS, address

STATES = {
    "draft": Shown("todo", "Draft", "rest"),
    "printed": Shown("todo", "Printed", "rest"),
    "started": Shown("now", "Started", "run"),
    "delivered": Shown("done", "Delivered", "done"),
    "acknowledged": Shown("done", "Acknowledged", "done"),
    "uncertain": Shown("ask", "Uncertain", "attn"),
    "failed": Shown("fail", "Failed", "fail"),
}
BESIDE = 2
"""Entries around a cited one that are named."""


class Cited(Struct, frozen=True):
    """An entry beside the brief. `origin` says whether it is the thread's or the copy that was kept."""

    entry: thread_view.Shown
    origin: str
    sections: tuple[str, ...]
    before: int
    after: int
    near: tuple[thread_view.Shown, ...]
    in_thread: str
    """Where it stands in its thread; empty where that is gone."""


class Brief(Struct, frozen=True):
    """A handoff with everything that its page shows."""

    handoff: Handoff
    title: str
    text: str
    state: Shown
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


def brief(vault: Vault, id: str) -> Brief:
    """A handoff by the beginning of its id. Raises HandoffNotFound."""
    handoff, cleaner = vault.get(id), Cleaner()
    origin, events = handoff.predecessor, vault.events(handoff.id)
    there = os.path.exists(origin.path)
    return Brief(
        handoff=handoff,
        title=cleaner.line(handoff.goal.shown, 160),
        text=shown(vault.brief(handoff.id)),
        state=STATES[vault.state(handoff.id)],
        created=moment(handoff.created),
        revision=_revision(vault, handoff),
        predecessor=f"{title(origin.harness)} {cleaner.line(origin.thread_id, 12)}",
        predecessor_href=address(origin.harness, origin.thread_id, origin.path) if there else "",
        drift=tuple(cleaner.line(changed) for changed in _drift(handoff)),
        dropped=tuple((d.way, cleaner.line(d.text, 300), cleaner.line(d.reason, 300)) for d in handoff.draft.dropped),
        redacted=tuple(sorted(handoff.redactions.items())),
        events=tuple(_event(event, cleaner) for event in events),
        problem="" if there else f"Its thread is not there any more: {cleaner.line(origin.path)}",
    )  # fmt: skip


def title(harness: str) -> str:
    """The name of a harness, also of one that is not known any more."""
    return harnesses.get(harness).title if harness in harnesses.names() else harness


def moment(iso: str) -> float | None:
    """A time as seconds since 1970; None where it is none."""
    try:
        return datetime.fromisoformat(iso).timestamp()
    except (ValueError, OverflowError):
        return None


def _event(event: HandoffEvent, cleaner: Cleaner) -> tuple[float | None, str, str]:
    detail = ", ".join(f"{name.replace('_', ' ')}: {value}" for name, value in event.detail.items())
    return moment(event.at), event.kind, cleaner.line(detail, 400)


def _revision(vault: Vault, handoff: Handoff) -> int:
    number, seen = 1, {handoff.id}
    while handoff.revises and handoff.revises not in seen:
        seen.add(handoff.revises)
        number += 1
        try:
            handoff = vault.get(handoff.revises)
        except HandoffNotFound:  # pruned, or damaged: the count ends there
            break
    return number


def _drift(handoff: Handoff) -> Sequence[str]:
    cwd = handoff.predecessor.cwd
    if not cwd or not os.path.isdir(cwd):
        return [f"Its folder {cwd} is not there"] if cwd else []
    return drift.since_snapshot(cwd, handoff.snapshot, git.Probe(cwd).revision())


# -- an entry beside it ----------------------------------------------------------------


def cited(handoff: Handoff, ref: int) -> Cited | None:
    """An entry that a brief names: of the thread where it is as it was, else the copy that was kept."""
    of, cleaner = opened(handoff), Cleaner()
    try:
        (reading,) = opening.readings(of, [ref])
    except ThreadNotFound:
        return None
    entries = of.thread.entries if of.thread else ()
    place = next((n for n, entry in enumerate(entries) if entry.ref == ref), None)
    refs = [citation.ref for citation in handoff.citations]
    around = entries[max(0, place - BESIDE) : place + BESIDE + 1] if place is not None else ()
    thread, where = of.thread, ""
    if thread is not None and place is not None:
        where = f"{address(thread.harness, thread.id, thread.path, entry=ref)}#e{ref}"
    return Cited(
        entry=_shown(reading.entry, cleaner, of),
        origin=_origin(of.cited.get(ref), place is not None, kept=reading.kept),
        sections=_sections(handoff, ref),
        before=max((n for n in refs if n < ref), default=0),
        after=min((n for n in refs if n > ref), default=0),
        near=tuple(_shown(one, cleaner, of) for one in around),
        in_thread=where,
    )


def opened(handoff: Handoff) -> opening.Opened:
    """The thread of a handoff, as far as it is still there; a long one is read once."""
    origin = handoff.predecessor
    try:
        thread = THREADS.read(harnesses.get(origin.harness), Path(origin.path))
    except (TasukiError, ValueError) as error:  # ValueError: a path that holds a NUL
        return opening.Opened(handoff.id[:8], None, handoff, str(error))
    return opening.Opened(handoff.id[:8], thread, handoff)


def _shown(entry: Entry, cleaner: Cleaner, of: opening.Opened) -> thread_view.Shown:
    if of.thread is not None:
        return thread_view.shown_entry(of.thread, entry, cleaner)
    text, whole = thread_view.cut(entry.text, thread_view.MOST_WORDS, cleaner)
    return thread_view.Shown(entry.ref, entry.kind, entry.kind.capitalize(), text, whole)


def _origin(citation: Citation | None, is_there: bool, *, kept: bool) -> str:
    if kept and is_there:
        return "As stored with the handoff; the thread says something else there now."
    if kept:
        return "As stored with the handoff; the thread does not have it any more."
    if citation is None:
        return "From the thread; the brief does not cite it."
    digest = citation.sha256
    return f"As the thread has it, unchanged: hash {digest[:4]}…{digest[-2:]}."


def _sections(handoff: Handoff, ref: int) -> tuple[str, ...]:
    draft = handoff.draft
    named: dict[str, Sequence[Item | FileItem | CommandItem]] = {
        "Where the thread stopped": draft.stopped, "State of the work": draft.state,
        "What the user asked for": draft.asked, "Context": draft.context, "Key decisions": draft.decisions,
        "Open questions": draft.questions, "The last steps": draft.steps, "Relevant files": draft.files,
        "Relevant commands": draft.commands,
    }  # fmt: skip
    return tuple(name for name, items in named.items() if any(ref in item.refs for item in items))
