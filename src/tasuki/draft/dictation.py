"""The document that a running session writes about itself: kept to the letter, checked beside it.

    ask (once more if nothing came) → check → ask for what is missing or wrong → check → add facts

Unlike a draft, whose items are chosen and dropped, the document stays as it was written; redaction
alone alters it. What does not stand in the thread is listed behind it, and so are the facts it lacks.
"""

import re
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from tasuki.config import Settings
from tasuki.draft import brief as briefs
from tasuki.draft import ladder
from tasuki.draft.authors import document as documents
from tasuki.draft.authors.answer import MAX_ANSWER, MAX_ITEMS, Answer, Parsed, Unusable
from tasuki.draft.authors.asker import Reply, Talk
from tasuki.draft.authors.proposal import proposed
from tasuki.draft.authors.task import Task
from tasuki.draft.checks import CAPS, Checker
from tasuki.draft.extraction import SECTIONS, Written, joined
from tasuki.draft.occurrence import stands
from tasuki.draft.prompts import render
from tasuki.draft.standing import spoken
from tasuki.errors import AuthorFailed
from tasuki.model import DOCUMENT, Authorship, Draft, Dropped
from tasuki.plain import plain

Ask = Callable[[str], Reply]
"""Puts a question to the running session. Raises AuthorFailed, or Cancelled if it was broken off."""

LEAST_ADDED = 600
"""Tokens for facts behind a document that fills the budget by itself."""
EVERY = 6 * MAX_ITEMS
"""Items of a section that are checked: what a document says beyond the caps of a draft stands in it
all the same."""
MOST_ADDED = 1_000
"""Tokens for facts behind a document that has all its sections: the document is what counts."""
TOLD = 12
"""Statements that are told to be wrong."""
WISHES = 5
"""User's words that are told to be missing."""
_NO_FAULT = frozenset(("repeated", "empty", "cap", "uncited"))
"""Kinds of reasons for which an item is dropped that are nothing against a document: it cites nothing."""
_QUOTE = re.compile(r'["“„«](?=([^"“”„«»\n]{12,})["“”»])|[「『](?=([^「」『』\n]{6,})[」』])')
_HEADING = re.compile(r"^ {0,3}(#{1,2})\s+(.*?)\s*#*\s*$")
_FENCED = re.compile(r"(?:```|~~~)\w*\n(.*)\n(?:```|~~~)", re.DOTALL)
_NONE = re.compile(r"^\W*(?:none|n/?a|nothing)?\W*$", re.IGNORECASE)
CORRECTIONS = "Corrections"


class Dictated(Struct, frozen=True):
    """A document as the session wrote it, and what the checks found.

    `draft` holds what stood up, completed with facts, and as dropped what the thread does not bear;
    `added` holds only those facts; `missing` are the sections lacking even after the repair.
    """

    document: str
    draft: Draft
    added: Draft
    missing: tuple[str, ...]


def request(focus: str = "") -> str:
    """What the session is asked for; `focus` is what the user wants it to look at most."""
    return render("session_document", focus=f"\n\nAdditional focus: {focus}" if focus else "")


def dictate(
    ask: Ask, task: Task, known: Draft, settings: Settings, handoff_id: str, focus: str = ""
) -> Dictated:
    """The document of a running session.

    Raises AuthorFailed if the session has no text to give, asked twice, and what `ask` raises.
    """
    talk = Talk(lambda turns: ask(turns[-1].text))
    limits = {**CAPS, **settings.limits()}
    checked = Checker(
        task.thread, task.derived, task.goal, dict.fromkeys(limits, EVERY), settings.validate_files
    ).checked

    def check(draft: Draft) -> Draft:
        """Looks at every item, and keeps as many as a draft may hold."""
        seen = checked(draft)
        return replace(seen, **{s: getattr(seen, s)[:cap] for s, cap in limits.items()})

    document = _first(talk, request(focus))
    parsed = _parsed(document)
    draft = check(replace(proposed(parsed, task), authorship=Authorship(author="agent")))
    lacking, wrong = _lacking(parsed, document, task), _wrong(draft, parsed)
    if (lacking or wrong) and (repair := _repair(talk, lacking, wrong)):
        document = with_repair(document, repair)
        addition = proposed(_parsed(repair), task)
        draft, parsed = check(joined(draft, addition)), _parsed(document)
    authorship = talk.authorship(
        "agent",
        proposed={s: n for s in SECTIONS if (n := len(getattr(draft, s)))},
        dropped=dict(Counter(d.kind for d in draft.dropped)),
    )
    written = Written(replace(draft, authorship=authorship), [])
    whole = ladder.completed(written, known, task, settings, handoff_id, checked)
    most = settings.budget if parsed.missing else MOST_ADDED
    room = max(min(settings.budget - briefs.size(document), most), LEAST_ADDED)
    unsaid = _unsaid(without(whole, draft), document)
    added = briefs.trimmed(unsaid, handoff_id, room, preamble=False)
    marked = replace(whole, dropped=tuple(_wrong(draft, parsed)))
    return Dictated(document, marked, added, parsed.missing)


def _first(talk: Talk, question: str) -> str:
    """The document; asked for once more where nothing came."""
    text = talk.say(question) or ""
    if not text.strip():
        text = talk.say(render("session_empty", request=question))
    if not text.strip():
        raise AuthorFailed("The agent answered without text, also when it was asked again.")
    if len(text) > MAX_ANSWER:
        raise AuthorFailed(f"The agent's document is {len(text):,} characters long: that is none.")
    return plain(text).strip()


def _parsed(text: str) -> Parsed:
    """What a document says, section by section; nothing, and all missing, where it has no sections."""
    try:
        return documents.parse(text)
    except Unusable:
        return Parsed(Answer(), documents.SECTIONS)


def _lacking(parsed: Parsed, document: str, task: Task) -> list[str]:
    """What the document lacks: sections, and standing wishes of the user of which it quotes nothing."""
    sections = [f"- the section ## {name}" for name in parsed.missing]
    quoted = [spoken(match[1] or match[2]) for match in _QUOTE.finditer(document)]
    said = spoken(document)
    lacking = [
        f'- under ## Constraints & Preferences, the user\'s words: "{task.clean(sentence.text)}"'
        for _, sentence in task.inventory.standing()
        if (words := spoken(sentence.text)) not in said and not any(q in words for q in quoted)
    ]
    return [*sections, *lacking[:WISHES]]


def _wrong(draft: Draft, parsed: Parsed) -> list[Dropped]:
    """What was said and the thread does not bear, once each.

    A next step may name what is not there yet; only words put into the user's mouth are wrong in it.
    """
    planned = {said.text for said in parsed.next_steps}
    found = {
        d.text: replace(d, section=DOCUMENT)
        for d in draft.dropped
        if d.kind not in _NO_FAULT and (d.text not in planned or d.kind == "user")
    }
    return list(found.values())


def _repair(talk: Talk, lacking: Sequence[str], wrong: Sequence[Dropped]) -> str:
    """What the session adds when it is told; empty if nothing came: the document stands."""
    told = [f"- {d.text[:300]} — {d.reason}" for d in wrong[:TOLD]]
    none = "- (none)"
    question = render(
        "session_repair", dropped="\n".join(told) or none, missing="\n".join(lacking) or none
    )
    try:
        said = talk.say(question)
    except AuthorFailed:
        return ""
    return plain(said).strip() if len(said) <= MAX_ANSWER else ""


def with_repair(document: str, repair: str) -> str:
    """A document with the sections that a repair brings: missing ones in full, the rest as corrections.

    Not a character of the document changes.
    """
    lacks, known = _parsed(document).missing, {line.strip() for line in document.splitlines()}
    whole, corrections = [], []
    for title, body in sections(_unfenced(repair)):
        if all(_NONE.match(line) for line in body.splitlines()):
            continue
        if (name := _name(title)) in lacks:
            whole.append(f"## {name}\n{body}")
        else:
            corrections += [line for line in body.splitlines() if _is_new(line, known)]
    if corrections:
        whole.append(f"## {CORRECTIONS}\n" + "\n".join(corrections))
    return "\n\n".join([document, *whole])


def _is_new(line: str, known: Collection[str]) -> bool:
    """Whether a line of a repair says anything that its document does not say to the letter."""
    return not _NONE.match(line) and line.strip() not in known


def _unfenced(text: str) -> str:
    """A text without the fence that an agent may put around all of it."""
    match = _FENCED.fullmatch(text.strip())
    return match[1] if match else text


def sections(text: str) -> list[tuple[str, str]]:
    """A Markdown text in parts, each with the title of its first- or second-level heading.

    What stands before the first heading has an empty title. Headings inside code blocks are text.
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


def _name(title: str) -> str:
    """The section that a heading means; else the heading itself."""
    return documents.known_section(title) or title


def without(whole: Draft, own: Draft) -> Draft:
    """A completed draft without what its author said itself, and without excerpts of the transcript.

    The successor of a session is given the document in place of the transcript.
    """
    said = {s: {ladder.key_of(item) for item in getattr(own, s)} for s in ladder.SECTIONS}
    left = {
        s: tuple(i for i in getattr(whole, s) if ladder.key_of(i) not in said[s])
        for s in ladder.SECTIONS
    }
    return replace(whole, **{**left, "stopped": (), "context": ()}, metadata=())


def _unsaid(added: Draft, document: str) -> Draft:
    """Facts without those that a document tells: files and commands it names, words it quotes."""
    said = spoken(document)

    def left(item: Any) -> bool:
        words = spoken(ladder.key_of(item).partition(" — answering: ")[0].removesuffix(" …"))
        return not words or not stands(words, said)

    return replace(added, **{s: tuple(filter(left, getattr(added, s))) for s in ladder.SECTIONS})


def body(dictated: Dictated, handoff_id: str, made: Sequence[str] = ()) -> str:
    """What the successor is given: the document to the letter, then what the checks say of it.

    `made` are lines on what the session made beside the conversation.

    Its marks cannot close the record that it stands in.
    """
    parts = [dictated.document, *_findings(dictated, handoff_id)]
    if made:
        parts += ["", "## Made by the previous session", *map(briefs.plain, made)]
    return briefs.FENCE_MARK.sub(r"‹\1\2", "\n".join(parts))


def _findings(dictated: Dictated, handoff_id: str) -> list[str]:
    reference = briefs.reference(handoff_id)
    lines = ["", "## Checked against the thread",
             f"[#n] names an entry of the previous thread; open one with `{reference}`."]  # fmt: skip
    if dictated.missing:
        lines.append(f"The document above has no section {', '.join(dictated.missing)}.")
    if wrong := dictated.draft.dropped[:TOLD]:
        lines += [
            "",
            "What it says and the thread does not bear out; check it before you build on it:",
        ]
        lines += [f"- {briefs.plain(d.text[:300])} — {d.reason}" for d in wrong]
    if added := briefs.sections(dictated.added):
        lines += ["", "What it leaves out, from the thread itself:"]
        for title, items in added:
            lines += ["", f"### {title}", *items]
    return lines
