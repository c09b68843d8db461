"""The last steps of the pipeline: metadata, redaction, the budget, and the record that is kept."""

import hashlib
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

import msgspec

from tasuki.config import Settings
from tasuki.draft.brief import render_context, trimmed
from tasuki.draft.entries import entry_text, readable
from tasuki.draft.redact import Redactor
from tasuki.harness.jsonl import clip
from tasuki.model import (
    Citation,
    CommandItem,
    Draft,
    Dropped,
    Entry,
    FileItem,
    Handoff,
    Item,
    Predecessor,
    Revision,
    Thread,
    tokens,
)
from tasuki.plain import shown

T = TypeVar("T", Item, FileItem, CommandItem, Dropped)

CITED_CHARACTERS = 6_000
"""Of each cited entry, kept with the handoff."""
_SECTIONS = (
    "previous",
    "stopped",
    "state",
    "asked",
    "context",
    "decisions",
    "questions",
    "steps",
    "drift",
)


def metadata(thread: Thread, revision: Revision) -> tuple[str, ...]:
    """Metadata lines, best effort; git is left out without a repository or on a detached HEAD."""
    name = f", “{thread.name}”" if thread.name else ""
    version = f" {thread.version}" if thread.version else ""
    ran = [f"Thread: {thread.harness}{version}, `{thread.id}`{name}"]
    if thread.model:
        level = f" (thinking: {thread.thinking})" if thread.thinking else ""
        ran.append(f"model: {thread.model}{level}")
    if thread.tools:
        ran.append(f"tools: {', '.join(thread.tools[:16])}")
    lines = ["; ".join(ran)]
    branch = revision.branch_now  # What the thread itself tells of git stands in the state.
    if branch and branch != "HEAD":
        state = (" (dirty)" if revision.dirty_now else " (clean)") if revision.repository else ""
        lines.append(f"Git: {branch}{state}")
    if thread.cwd:
        lines.append(f"Folder: `{thread.cwd}`")
    if thread.last_skill:
        lines.append(f"Prior skill: /skill:{thread.last_skill}")
    return tuple(lines)


def fitted(
    draft: Draft, thread: Thread, redactor: Redactor, settings: Settings, handoff_id: str
) -> tuple[Draft, str, tuple[Citation, ...]]:
    """A draft without secrets that still holds the budget, its context, and what it cites.

    Cited entries are redacted first: a secret seen whole there is known where only it is quoted.
    """
    citations = tuple(cite(thread, draft, redactor))
    preamble = settings.include_handoff_preamble
    draft = trimmed(redacted(draft, redactor), handoff_id, settings.budget, preamble=preamble)
    context = render_context(draft, handoff_id, preamble=preamble)
    return draft, context, citations


def redacted(draft: Draft, redactor: Redactor) -> Draft:
    """A draft with every text redacted but the goal, which stays to the letter.

    What cannot be seen goes first, since it may stand in the middle of a secret.
    """

    def clean(text: str) -> str:
        return redactor.redact(shown(text))

    def items(given: Iterable[Item]) -> tuple[Item, ...]:
        return tuple(_replaced(i, text=clean(i.text)) for i in given)

    changed: dict[str, Any] = {s: items(getattr(draft, s)) for s in (*_SECTIONS, "left_out")}
    changed["files"] = tuple(
        _replaced(f, path=clean(f.path), reason=clean(f.reason)) for f in draft.files
    )
    changed["commands"] = tuple(
        _replaced(c, command=clean(c.command), note=clean(c.note)) for c in draft.commands
    )
    changed["metadata"] = tuple(clean(line) for line in draft.metadata)
    changed["dropped"] = tuple(
        _replaced(d, text=clean(d.text), reason=clean(d.reason)) for d in draft.dropped
    )
    fell = tuple(map(clean, draft.authorship.fell))
    changed["authorship"] = msgspec.structs.replace(draft.authorship, fell=fell)
    return msgspec.structs.replace(draft, **changed)


def _replaced(item: T, **changes: str) -> T:
    return msgspec.structs.replace(item, **changes)


def cited_refs(draft: Draft) -> list[int]:
    """All refs a draft cites, in order."""
    every: list[int] = []
    for section in (*_SECTIONS, "files", "commands"):
        for item in getattr(draft, section):
            every.extend(item.refs)
    return sorted(set(every))


def cite(thread: Thread, draft: Draft, redactor: Redactor) -> Iterator[Citation]:
    """The cited entries with the harness's own id, a hash of the text, and the redacted text."""
    by_ref: dict[int, Entry] = {e.ref: e for e in thread.entries}
    for ref in cited_refs(draft):
        if entry := by_ref.get(ref):
            text = readable(entry)
            yield Citation(
                ref=ref,
                entry_id=entry.tool.id if entry.tool else entry.id,
                sha256=hashlib.sha256(entry_text(entry).encode("utf-8", "replace")).hexdigest(),
                kind=entry.kind,
                text=clip(redactor.redact(shown(text)), CITED_CHARACTERS),
            )


def handoff(
    draft: Draft,
    thread: Thread,
    context: str,
    redactor: Redactor,
    citations: tuple[Citation, ...],
    **known: Any,
) -> Handoff:
    """The record that is kept. `known` are the remaining fields of `Handoff`."""
    return Handoff(
        goal=draft.goal,
        predecessor=Predecessor(
            harness=thread.harness,
            thread_id=thread.id,
            path=thread.path,
            cwd=thread.cwd,
            git_branch=redactor.redact(shown(thread.git_branch)),
            git_head=thread.git_head,
            name=redactor.redact(shown(thread.name)),
            entries=len(thread.entries),
        ),
        draft=draft,
        tokens=tokens(context),
        citations=citations,
        redactions=dict(redactor.counts),
        **known,
    )
