"""The last steps of the pipeline: metadata, redaction, the budget, and the saved record."""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from tasuki.config.settings import Settings
from tasuki.draft.brief import ITEM_SECTIONS, render_context, trim_to_budget
from tasuki.draft.facts.files import has_unnamed_edits
from tasuki.draft.redact.quotes import QuoteRedactor
from tasuki.draft.text.entries import join_entry_text
from tasuki.draft.text.split import count_tokens
from tasuki.harness.reading.jsonl import clip
from tasuki.model import Citation, Draft, Entry, Handoff, Predecessor, Revision, Thread

CITED_CHARACTERS = 6_000
"""Characters of each cited entry that are saved with the handoff."""


def build_metadata_lines(thread: Thread, revision: Revision) -> tuple[str, ...]:
    """Return the metadata lines, best effort. Git is left out without a repository or on a detached HEAD."""
    name = f", “{thread.name}”" if thread.name else ""
    version = f" {thread.version}" if thread.version else ""
    ran = [f"Thread: {thread.harness}{version}, `{thread.id}`{name}"]
    if thread.model:
        level = f" (thinking: {thread.thinking})" if thread.thinking else ""
        ran.append(f"model: {thread.model}{level}")
    if thread.tools and not has_unnamed_edits(thread):
        more = f" and {len(thread.tools) - 16} more" if len(thread.tools) > 16 else ""
        ran.append(f"tools: {', '.join(thread.tools[:16])}{more}")
    lines = ["; ".join(ran)]
    branch = revision.branch_now  # What the thread itself says about git is in the state.
    if branch and branch != "HEAD":
        state = (" (dirty)" if revision.dirty_now else " (clean)") if revision.repository else ""
        lines.append(f"Git: {branch}{state}")
    if thread.cwd and Path(thread.path).parent != Path(thread.cwd):  # Else it may be a guess.
        lines.append(f"Folder: `{thread.cwd}`")
    if thread.last_skill:
        lines.append(f"Prior skill: /skill:{thread.last_skill}")
    return tuple(lines)


def fit_draft(
    draft: Draft, thread: Thread, redactor: QuoteRedactor, settings: Settings, handoff_id: str
) -> tuple[Draft, str, tuple[Citation, ...]]:
    """Return the draft without secrets and within the budget, its context and its citations.

    The context is redacted once more as a whole: its lines may complete each other.
    """
    redacted = redact_draft(draft, redactor)
    citations = tuple(build_citations(thread, draft, redactor))
    preamble = settings.include_handoff_preamble
    draft = trim_to_budget(redacted, handoff_id, settings.budget, preamble=preamble)
    context = redactor.redact_document(render_context(draft, handoff_id, preamble=preamble))
    return draft, context, citations


def redact_draft(draft: Draft, redactor: QuoteRedactor) -> Draft:
    """Return the draft with every text redacted except the goal, which stays verbatim.

    Invisible characters are removed first, since one may be in the middle of a secret.
    """
    items = (item for s in (*ITEM_SECTIONS, "left_out", "dropped") for item in getattr(draft, s))
    redactor.learn_document(
        "\n".join(f"{getattr(item, 'label', '')} {item.text}" for item in items)
    )
    clean = redactor.redact_quote

    changed: dict[str, Any] = {
        s: tuple(
            replace(i, text=clean(i.text, i.refs), label=clean(i.label, i.refs))
            for i in getattr(draft, s)
        )
        for s in (*ITEM_SECTIONS, "left_out")
    }
    changed["files"] = tuple(
        replace(f, path=clean(f.path, f.refs), reason=clean(f.reason, f.refs)) for f in draft.files
    )
    changed["commands"] = tuple(
        replace(c, command=clean(c.command, c.refs), note=clean(c.note, c.refs))
        for c in draft.commands
    )
    changed["metadata"] = tuple(clean(line) for line in draft.metadata)
    changed["dropped"] = tuple(
        replace(d, text=clean(d.text), reason=clean(d.reason)) for d in draft.dropped
    )
    fell = tuple(map(clean, draft.authorship.fell))
    changed["authorship"] = replace(draft.authorship, fell=fell)
    return replace(draft, **changed)


def build_citations(thread: Thread, draft: Draft, redactor: QuoteRedactor) -> Iterator[Citation]:
    """Yield the cited entries: the harness's own id, a hash of the text, and the redacted text."""
    sections = (*ITEM_SECTIONS, "files", "commands")
    cited = {ref for s in sections for item in getattr(draft, s) for ref in item.refs}
    by_ref: dict[int, Entry] = {e.ref: e for e in thread.readable if e.ref in cited}
    for ref in sorted(by_ref):
        entry = by_ref[ref]
        whole = join_entry_text(entry).encode("utf-8", "replace")
        yield Citation(
            ref=ref,
            entry_id=entry.tool.id if entry.tool else entry.id,
            sha256=hashlib.sha256(whole).hexdigest(),
            kind=entry.kind,
            text=clip(redactor.hide_known(redactor.redact_entry(ref)), CITED_CHARACTERS),
        )


def build_handoff(
    draft: Draft,
    thread: Thread,
    context: str,
    redactor: QuoteRedactor,
    citations: tuple[Citation, ...],
    **fields: Any,
) -> Handoff:
    """Return the handoff record to save. `fields` are the remaining fields of `Handoff`."""
    return Handoff(
        goal=draft.goal,
        predecessor=Predecessor(
            harness=thread.harness,
            thread_id=thread.id,
            path=thread.path,
            cwd=thread.cwd,
            git_branch=redactor.redact_quote(thread.git_branch),
            git_head=thread.git_head,
            name=redactor.redact_quote(thread.name),
            entries=len(thread.entries),
        ),
        draft=draft,
        tokens=count_tokens(context),
        citations=citations,
        redactions=dict(redactor.counts),
        **fields,
    )
