"""The document that a running session writes about itself: kept verbatim and checked
separately.

    ask (once more if empty) → check → ask for what is missing or wrong → check → add facts

A draft's items are chosen and dropped, but the document stays as it was written; only
redaction changes it. What is not in the thread is listed after it, and so are the facts it
omits.
"""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from tasuki.config.settings import Settings
from tasuki.draft import brief as briefs
from tasuki.draft.authors import document as documents
from tasuki.draft.authors import fallback
from tasuki.draft.authors.answer import (
    MAX_ANSWER,
    MAX_ITEMS,
    Answer,
    ParsedAnswer,
    UnusableAnswer,
    build_proposal,
)
from tasuki.draft.authors.author import AuthorDialogue, AuthorReply, AuthorTask
from tasuki.draft.authors.extraction import SECTIONS, AuthoredDraft, join_drafts
from tasuki.draft.claims.checker import CAPS, DraftChecker
from tasuki.draft.claims.lookup import fold_quote
from tasuki.draft.prompts import render_prompt
from tasuki.draft.text.entries import contains_verbatim
from tasuki.errors import AuthorFailed
from tasuki.model import DOCUMENT, Authorship, Draft, Dropped
from tasuki.patterns import compile_pattern
from tasuki.text_safety import clean_text

AskSession = Callable[[str], AuthorReply]
"""Asks the running session a question. Raises AuthorFailed, or Cancelled if it was interrupted."""

MIN_ADDED_TOKENS = 600
"""Tokens for facts after a document that alone fills the budget."""
UNLIMITED_ITEMS = 6 * MAX_ITEMS
"""Items of a section that are checked. The document still contains what exceeds the caps of a draft."""
MAX_ADDED_TOKENS = 1_000
"""Tokens for facts after a document that has all its sections: the document is what counts."""
MAX_FAULTS = 12
"""Wrong statements that are listed."""
MAX_WISHES = 5
"""Missing words of the user that are listed."""
_NO_FAULT = frozenset(("repeated", "empty", "cap", "uncited"))
"""Reasons for a drop that do not count against a document: it cites nothing."""
_QUOTE = compile_pattern(r'["“„«](?=([^"“”„«»\n]{12,})["“”»])|[「『](?=([^「」『』\n]{6,})[」』])')
_HEADING = compile_pattern(r"^ {0,3}(#{1,2})\s+(.*?)\s*#*\s*$")
_FENCED = compile_pattern(r"(?:```|~~~)\w*\n(.*)\n(?:```|~~~)", re.DOTALL)
_NONE = compile_pattern(r"^\W*(?:none|n/?a|nothing)?\W*$", re.IGNORECASE)
CORRECTIONS = "Corrections"


class SessionDocument(Struct, frozen=True):
    """A document as the session wrote it, and what the checks found.

    `draft` holds what passed the checks, completed with facts; its `dropped` holds what the
    thread does not support. `added` holds only those facts. `missing` are the sections missing
    even after the repair.
    """

    document: str
    draft: Draft
    added: Draft
    missing: tuple[str, ...]


def render_document_request(focus: str = "") -> str:
    """Return the prompt for the document; `focus` is what the user wants emphasised."""
    return render_prompt(
        "session_document", focus=f"\n\nAdditional focus: {focus}" if focus else ""
    )


def request_document(
    ask: AskSession,
    task: AuthorTask,
    base: Draft,
    settings: Settings,
    handoff_id: str,
    focus: str = "",
) -> SessionDocument:
    """Request the document of a running session, check it and complete it with facts.

    `base` holds the sections no author writes. Raises AuthorFailed if the session gives no text
    when asked twice, and whatever `ask` raises.
    """
    talk = AuthorDialogue(lambda turns: ask(turns[-1].text))
    limits = {**CAPS, **settings.list_limits()}
    checked = DraftChecker(
        task.thread,
        task.derived,
        task.goal,
        dict.fromkeys(limits, UNLIMITED_ITEMS),
        settings.validate_files,
    ).check_draft

    def check_within_limits(draft: Draft) -> Draft:
        """Check every item, and keep as many as a draft may hold."""
        seen = checked(draft)
        return replace(seen, **{s: getattr(seen, s)[:cap] for s, cap in limits.items()})

    document = _request_text(talk, render_document_request(focus))
    parsed = _parse_document(document)
    draft = check_within_limits(
        replace(build_proposal(parsed, task), authorship=Authorship(author="agent"))
    )
    missing, faults = _list_missing(parsed, document, task), _list_faults(draft, parsed)
    if (missing or faults) and (repair := _request_repair(talk, missing, faults)):
        document = append_repair(document, repair)
        addition = build_proposal(_parse_document(repair), task)
        draft, parsed = check_within_limits(join_drafts(draft, addition)), _parse_document(document)
    authorship = talk.build_authorship(
        "agent",
        proposed={s: n for s in SECTIONS if (n := len(getattr(draft, s)))},
        dropped=dict(Counter(d.kind for d in draft.dropped)),
    )
    written = AuthoredDraft(replace(draft, authorship=authorship), [])
    whole = fallback.complete_draft(written, base, task, settings, handoff_id, checked)
    most = settings.budget if parsed.missing else MAX_ADDED_TOKENS
    room = max(min(settings.budget - briefs.count_context_tokens(document), most), MIN_ADDED_TOKENS)
    said = fold_quote(document)

    def is_left_out(item: Any) -> bool:
        key = fallback.get_item_key(item).partition(" — answering: ")[0].removesuffix(" …")
        words = fold_quote(key)
        return not words or not contains_verbatim(words, said)

    own_facts = exclude_own_items(whole, draft)
    kept = {s: tuple(filter(is_left_out, getattr(own_facts, s))) for s in fallback.SECTIONS}
    new_facts = replace(own_facts, **kept)
    added = briefs.trim_to_budget(new_facts, handoff_id, room, preamble=False)
    marked = replace(whole, dropped=tuple(_list_faults(draft, parsed)))
    return SessionDocument(document, marked, added, parsed.missing)


def _request_text(talk: AuthorDialogue, question: str) -> str:
    """Return the document; ask once more if no text came."""
    text = talk.ask_question(question) or ""
    if not text.strip():
        text = talk.ask_question(render_prompt("session_empty", request=question))
    if not text.strip():
        raise AuthorFailed("The agent answered without text, even when asked again.")
    if len(text) > MAX_ANSWER:
        raise AuthorFailed(
            f"The agent's document is {len(text):,} characters long: too long for a handoff."
        )
    return clean_text(text).strip()


def _parse_document(text: str) -> ParsedAnswer:
    """Return what a document says, by section; if it has no sections, nothing with all missing."""
    try:
        return documents.parse_document(text)
    except UnusableAnswer:
        return ParsedAnswer(Answer(), documents.SECTIONS)


def _list_missing(parsed: ParsedAnswer, document: str, task: AuthorTask) -> list[str]:
    """What the document lacks: sections, and lasting wishes of the user it does not quote."""
    sections = [f"- the section ## {name}" for name in parsed.missing]
    quoted = [fold_quote(match[1] or match[2]) for match in _QUOTE.finditer(document)]
    said = fold_quote(document)
    lacking = [
        f'- under ## Constraints & Preferences, the user\'s words: "{task.clean(sentence.text)}"'
        for _, sentence in task.inventory.list_lasting_wishes()
        if (words := fold_quote(sentence.text)) not in said and not any(q in words for q in quoted)
    ]
    return [*sections, *lacking[:MAX_WISHES]]


def _list_faults(draft: Draft, parsed: ParsedAnswer) -> list[Dropped]:
    """Return what was said but is not supported by the thread, once each.

    A next step may name what does not exist yet. In it, only words attributed to the user are
    faults.
    """
    planned = {said.text for said in parsed.answer.next_steps}
    found = {
        d.text: replace(d, section=DOCUMENT)
        for d in draft.dropped
        if d.kind not in _NO_FAULT and (d.text not in planned or d.kind == "user")
    }
    return list(found.values())


def _request_repair(talk: AuthorDialogue, missing: Sequence[str], faults: Sequence[Dropped]) -> str:
    """Ask the session to correct its document; return an empty string if it adds nothing."""
    fault_lines = [f"- {d.text[:300]} — {d.reason}" for d in faults[:MAX_FAULTS]]
    none = "- (none)"
    question = render_prompt(
        "session_repair", dropped="\n".join(fault_lines) or none, missing="\n".join(missing) or none
    )
    try:
        said = talk.ask_question(question)
    except AuthorFailed:
        return ""
    return clean_text(said).strip() if len(said) <= MAX_ANSWER else ""


def append_repair(document: str, repair: str) -> str:
    """Return a document with a repair: missing sections in full, the rest as corrections.

    Not a character of the document changes.
    """
    lacks = _parse_document(document).missing
    known = {line.strip() for line in document.splitlines()}
    whole, corrections = [], list[str]()
    fenced = _FENCED.fullmatch(repair.strip())  # An agent may put one around all of it.
    for title, body in split_sections(fenced[1] if fenced else repair):
        if all(_NONE.match(line) for line in body.splitlines()):
            continue
        if (name := (documents.find_section(title) or title)) in lacks:
            whole.append(f"## {name}\n{body}")
        else:
            lines = (line for line in body.splitlines() if line.strip() not in known)
            corrections += [line for line in lines if not _NONE.match(line)]
    if corrections:
        whole.append(f"## {CORRECTIONS}\n" + "\n".join(corrections))
    return "\n\n".join([document, *whole])


def split_sections(text: str) -> list[tuple[str, str]]:
    """Split a Markdown text into parts, each with the title of its first- or second-level heading.

    What is before the first heading has an empty title. Headings inside code blocks are text.
    """
    found: list[tuple[str, list[str]]] = [("", [])]
    fenced = False
    for line in text.split("\n"):
        fenced ^= line.lstrip().startswith(("```", "~~~"))
        if not fenced and (heading := _HEADING.match(line)):
            found.append((heading[2], []))
        else:
            found[-1][1].append(line)
    parts = [(title, "\n".join(lines).strip("\n")) for title, lines in found]
    return [(title, body) for title, body in parts if title or body.strip()]


def exclude_own_items(whole: Draft, own_draft: Draft) -> Draft:
    """Return a completed draft without its author's own items and without transcript excerpts.

    The successor of a session gets the document in place of the transcript.
    """
    left = {}
    for s in fallback.SECTIONS:
        said = {fallback.get_item_key(item) for item in getattr(own_draft, s)}
        left[s] = tuple(i for i in getattr(whole, s) if fallback.get_item_key(i) not in said)
    return replace(whole, **{**left, "stopped": (), "context": ()}, metadata=())


def render_body(
    session_document: SessionDocument, handoff_id: str, artifacts: Sequence[str] = ()
) -> str:
    """Return what the successor gets: the document verbatim, then the findings of the checks.

    `artifacts` are lines on what the session made apart from the conversation. Record marks in
    the text are neutralised, so that it cannot close the record around it.
    """
    reference = briefs.format_reference(handoff_id)
    parts = [session_document.document, "", "## Checked against the thread",
             f"[#n] names an entry of the previous thread; open one with `{reference}`."]  # fmt: skip
    if session_document.missing:
        parts.append(f"The document above has no section {', '.join(session_document.missing)}.")
    if wrong := session_document.draft.dropped[:MAX_FAULTS]:
        parts.append(
            "\nWhat it says and the thread does not bear out; check it before you build on it:"
        )
        parts += [f"- {briefs.clean_line(d.text[:300])} — {d.reason}" for d in wrong]
    if added := briefs.list_sections(session_document.added):
        parts.append("\nWhat it leaves out, from the thread itself:")
        for title, items in added:
            parts += ["", f"### {title}", *items]
    if artifacts:
        parts += ["", "## Made by the previous session", *map(briefs.clean_line, artifacts)]
    return briefs.disarm_fences("\n".join(parts))
