"""How good a handoff document is, measured against its thread alone, for any author.

    total = (sections + 4 × facts) / 5 × claims − deducted

`sections`, `facts` and `claims` are shares from 0 to 1, the total is in points up to 100. A
document is worth what it states of a successor's needs, times how much of what it says is
true. Its size does not count.
"""

import re
from collections.abc import Iterable, Iterator, Sequence, Set
from itertools import islice

from msgspec import Struct
from msgspec.structs import replace

from tasuki.draft.authors.author import AuthorTask
from tasuki.draft.claims.checker import PLACEHOLDERS
from tasuki.draft.claims.evidence import ThreadEvidence
from tasuki.draft.claims.literals import extract_claims, is_attributed_to_user
from tasuki.draft.claims.support import SupportFinder, weigh_stems
from tasuki.draft.facts import state
from tasuki.draft.prompts import list_examples
from tasuki.draft.quality import needed_facts
from tasuki.draft.quality.document_reader import (
    DocumentLine,
    HandoffDocument,
    parse_handoff_document,
)
from tasuki.draft.redact.quotes import QuoteRedactor
from tasuki.draft.text.entries import TextClaim, contains_verbatim, strip_hidden
from tasuki.draft.text.split import count_tokens, fold_whitespace, shorten
from tasuki.model import Goal, Thread
from tasuki.patterns import compile_pattern

EXPECTED_SECTIONS = (
    "goal", "context", "state", "wishes", "decisions", "questions", "files", "commands",
)  # fmt: skip
"""Sections of a handoff; one for which the thread has nothing is not required."""
SECRET_POINTS, FINISHED_POINTS, LEFTOVER_POINTS = 20, 5, 5
"""Points deducted: once if there is any secret, for each finished item, for each leftover."""
MAX_DEDUCTED = 20
"""Points that finished items, and leftovers, can cost together."""
MAX_CLAIMS, MAX_PENDING = 3_000, 200
"""Number of claims, and of pending items, that are looked up; the first ones."""
SAME_SHARE = 0.6
"""Share of the telling words that a pending item and a finished todo or commit have in common."""

MIN_CODE = 4
"""Letters and digits of a line of code that is looked up."""


class QualityPoint(Struct, frozen=True):
    """One thing that was checked. `text` is safe to show: secrets are redacted in it."""

    kind: str
    text: str
    ok: bool
    line: int = 0
    """Of the document, from 1; 0 where it is not in the document."""
    refs: tuple[int, ...] = ()
    """Entries of the thread that bear it."""
    why: str = ""


class QualityShare(Struct, frozen=True):
    """How many of some points hold; `points` are all of them."""

    held: int
    of: int
    points: tuple[QualityPoint, ...]

    @property
    def share(self) -> float:
        """From 0 to 1; 1 if nothing was required."""
        return self.held / self.of if self.of else 1.0


class DocumentQuality(Struct, frozen=True):
    """The scores of one document with everything they are based on."""

    total: int
    tokens: int
    has_goal: bool
    sections: QualityShare
    facts: QualityShare
    claims: QualityShare
    deducted: int
    secrets: tuple[QualityPoint, ...] = ()
    finished: tuple[QualityPoint, ...] = ()
    """What is called pending, and is done."""
    leftovers: tuple[QualityPoint, ...] = ()
    """Placeholders, and instructions that were meant for the author."""


def score_document(text: str, thread: Thread, task: AuthorTask, goal: str = "") -> DocumentQuality:
    """Return the quality of a document as a handoff of a thread.

    `task` holds the facts of the thread, ranked for the goal; `goal` is one that is handed over
    separately from the document. Only the thread's own files are read.
    """
    document = parse_handoff_document(text)
    redactor = QuoteRedactor(thread)
    spans = redactor.find_secrets(document.text)
    redactor.redact_document(document.text)
    hidden = {document.text[span.start : span.end] for span in spans}
    lookup = needed_facts.DocumentLookup(document, goal)
    sections = _build_share(_check_sections(document, task, goal) if document.lines else ())
    facts = _build_share(
        QualityPoint(f.kind, f.text, not f.why, f.line, f.refs, f.why)
        for f in needed_facts.list_needed_facts(task, lookup)
    )
    evidence = ThreadEvidence(thread, task.derived, Goal(text=goal))
    claim_share = _build_share(_check_claims(document, evidence, hidden))
    finished = tuple(_find_finished(document, task, thread))
    leftovers = tuple(_find_leftovers(document))
    deducted = SECRET_POINTS * bool(spans) + sum(
        min(MAX_DEDUCTED, points * len(found))
        for points, found in ((FINISHED_POINTS, finished), (LEFTOVER_POINTS, leftovers))
    )
    return _redact_quality(
        DocumentQuality(
            total=compute_total(sections, facts, claim_share, deducted) if document.lines else 0,
            tokens=count_tokens(document.text),
            has_goal=bool(goal.strip()) or bool(document.kinds & {"goal", "next"}),
            sections=sections,
            facts=facts,
            claims=claim_share,
            deducted=deducted,
            secrets=tuple(  # Kind and line of each, never the secret.
                QualityPoint("secret", span.kind, False, n, why="a successor would be shown it")
                for span in spans
                for n in [document.text.count("\n", 0, span.start) + 1]
            ),
            finished=finished,
            leftovers=leftovers,
        ),
        redactor,
    )


def compute_total(
    sections: QualityShare, facts: QualityShare, claim_share: QualityShare, deducted: int
) -> int:
    """Return points from 0 to 100; only the sections count if the thread has no facts."""
    have = (sections.share + 4 * facts.share) / 5 if facts.of else sections.share
    return max(0, round(100 * have * claim_share.share) - deducted)


def _build_share(points: Iterable[QualityPoint]) -> QualityShare:
    every = tuple(points)
    return QualityShare(sum(p.ok for p in every), len(every), every)


def _redact_quality(quality: DocumentQuality, redactor: QuoteRedactor) -> DocumentQuality:
    """Return the same without secrets in what is shown. A secret seen whole in the document is also recognised elsewhere."""

    def redact_points(shown_points: tuple[QualityPoint, ...]) -> tuple[QualityPoint, ...]:
        clean = redactor.redact_quote
        return tuple(
            replace(p, text=clean(p.text, p.refs), why=clean(p.why, p.refs)) for p in shown_points
        )

    def redact_share(shown_share: QualityShare) -> QualityShare:
        return replace(shown_share, points=redact_points(shown_share.points))

    return replace(
        quality,
        sections=redact_share(quality.sections), facts=redact_share(quality.facts), claims=redact_share(quality.claims),
        finished=redact_points(quality.finished), leftovers=redact_points(quality.leftovers),
    )  # fmt: skip


# -- sections --------------------------------------------------------------------------


def _check_sections(
    document: HandoffDocument, task: AuthorTask, goal: str
) -> Iterator[QualityPoint]:
    has = set(document.kinds) | ({"goal"} if goal.strip() or "next" in document.kinds else set())
    facts, kinds = task.derived.facts, {s.kind for s in task.derived.statements}
    required = {
        "state": bool(facts.uncommitted or facts.todos or facts.last_check or facts.revision.commits),
        "wishes": bool(task.inventory.list_lasting_wishes()),
        "decisions": "decision" in kinds,
        "questions": "question" in kinds,
        "files": any(f.edits or f.reads for f in facts.files),
        "commands": bool(facts.commands),
    }  # fmt: skip
    for kind in EXPECTED_SECTIONS:
        if kind in has or required.get(kind, True):
            why = "" if kind in has else "no section of this kind"
            first = next((x.number for x in document.lines if kind in x.kinds), 0)
            yield QualityPoint("section", kind, kind in has, first, why=why)


# -- claims ----------------------------------------------------------------------------

_TASUKI_WORDS = compile_pattern(r"`?tasuki read [0-9a-f]{4,32}#[\dn,-]+`?|\b(?:edited|read) \d+×")
_MAKES = compile_pattern(
    r"\b(?:create|creates|creating|add|adds|adding|write|writing|new|implement|introduce|rename|anlegen|neue?\w?)\b",
    re.IGNORECASE,
)
_PROMPT = compile_pattern(r"^\s*[$❯>]\s+|^[+-](?=\s)|[├└│─]+")
_COMMENT = compile_pattern(r"(?:^|\s)(?://|#|←|→|<--|--|/\*)(?:\s.*)?$")


def _check_claims(
    document: HandoffDocument, evidence: ThreadEvidence, hidden: Set[str]
) -> Iterator[QualityPoint]:
    """Yield every claim once, with the first line that makes it.

    The goal claims nothing about the thread. Claims with a part of a secret, `hidden`, are
    reported by kind elsewhere.
    """
    lines: dict[TextClaim, DocumentLine] = {}
    for line in document.lines:
        if not line.kinds & {"goal", "disk"}:
            for claim in _extract_line_claims(line):
                if not any(value in claim.text or claim.text in value for value in hidden):
                    lines.setdefault(claim, line)
    selected = list(lines.items())[:MAX_CLAIMS]
    evidence.lookup.look_up_claims([c] for c, _ in selected if not _is_known(c, evidence))
    for claim, line in selected:
        why = _explain_absence(claim, line, evidence)
        text = shorten(claim.text, 200)
        yield QualityPoint(claim.kind, text, not why, line.number, why=why)
    for line in document.lines:
        for ref in line.refs:
            if ref not in evidence.lookup.entries:
                why = "no such entry"
                yield QualityPoint("reference", f"#{ref}", False, line.number, why=why)


def _is_known(claim: TextClaim, evidence: ThreadEvidence) -> bool:
    """Return whether a claim is among the facts, or in what is known of the thread itself."""
    return evidence.is_fact(claim) or contains_verbatim(claim.text, evidence.about)


def _explain_absence(claim: TextClaim, line: DocumentLine, evidence: ThreadEvidence) -> str:
    by_user = claim.kind == "quote" and _is_user_quote(claim, line)
    if not by_user and _is_known(claim, evidence):
        return ""
    verdict = evidence.judge(claim, line.refs, by_user=by_user, is_plain=not line.code)
    if verdict == "false":
        return "the user did not write this"
    is_made = "next" in line.kinds and claim.kind != "quote" and _MAKES.search(line.text)
    return "" if verdict == "true" or is_made else "not in the thread"


def _extract_line_claims(line: DocumentLine) -> Iterator[TextClaim]:
    """Yield what a line claims literally; of code, the line without its comment."""
    if not line.code:
        text = strip_hidden(_TASUKI_WORDS.sub(" ", line.text))
        yield from (
            c
            for c in extract_claims(text)
            if c.kind != "value" or c.text[0] != "-" or c.text in text
        )
        return
    code = fold_whitespace(_COMMENT.sub("", _PROMPT.sub(" ", line.text)))
    if sum(map(str.isalnum, code)) >= MIN_CODE:
        yield TextClaim("command" if "commands" in line.kinds else "value", code[:400])


def _is_user_quote(claim: TextClaim, line: DocumentLine) -> bool:
    """Return whether a line says of quoted words that they are the user's."""
    if is_attributed_to_user(line.text):
        return True
    head = line.text.lstrip("\"'“”„«「 ")
    return "wishes" in line.kinds and head.startswith(claim.text) and head != line.text


# -- pending and done items ------------------------------------------------------------

_PENDING = compile_pattern(
    r"^(?:pending|still to do|to-?\s?do|next|remaining|not (?:yet )?(?:done|started)|open task|left)",
    re.IGNORECASE,
)
_SAYS_DONE = compile_pattern(
    r"\b(?:done|completed?|finished|already|✓|✅|erledigt)\b|✅|✓", re.IGNORECASE
)


def _find_finished(
    document: HandoffDocument, task: AuthorTask, thread: Thread
) -> Iterator[QualityPoint]:
    """Yield items that the document calls pending, but a todo or a later commit calls done."""
    facts = task.derived.facts
    done = [(fold_whitespace(t.text), facts.todos_ref) for t in facts.todos if t.status == "done"]
    done += [(q.text.partition(" ")[2], q.ref) for q in facts.revision.commits]
    left = [t.text for t in facts.todos if t.status in ("pending", "in_progress")]
    support = SupportFinder(thread.entries)
    pending = (
        line
        for line in document.lines
        if not (line.code or line.mark == "x" or _SAYS_DONE.search(line.text))
        and (
            line.mark == " " or "next" in line.kinds or (line.label and _PENDING.match(line.label))
        )
    )
    for line in islice(pending, MAX_PENDING):
        body = line.text.partition(":")[2] if _PENDING.match(line.label) else line.text
        for text in body.split("; "):
            if near := _find_finished_match(text, done, left):
                why = f"done: {shorten(near[0], 100)}"
                yield QualityPoint("finished", shorten(text), False, line.number, near[1:], why)
                continue
            since = max(support.resolve_refs(text, line.refs)[0], default=0)
            if since and state.is_done_since(text, since, facts):
                why = "a later commit or todo says that it is done"
                yield QualityPoint("finished", shorten(text), False, line.number, (since,), why)


def _find_finished_match(
    text: str, done: Sequence[tuple[str, int]], left: Sequence[str]
) -> tuple[str, int] | None:
    """Return the finished todo or commit that an item repeats. Return None if an open todo is as close."""
    about = set(weigh_stems(text))
    best = max(done, key=lambda pair: _measure_overlap(about, pair[0]), default=("", 0))
    share = _measure_overlap(about, best[0])
    if share < SAME_SHARE or any(_measure_overlap(about, other) >= share for other in left):
        return None
    return best


def _measure_overlap(about: set[str], text: str) -> float:
    """Return the share of telling words that two texts have in common, of the longer one."""
    other = set(weigh_stems(text))
    return len(about & other) / max(len(about), len(other), 2)


# -- secrets and leftovers -------------------------------------------------------------


_LEFTOVERS = (
    ("a place to fill in", compile_pattern(
        r"<(?:fill|insert|your|add|todo|tbd|describe|placeholder|name of)\b[^<>\n]{0,80}>"
        r"|\[(?:fill|insert|your|todo|tbd|describe|placeholder|add)\b[^\[\]\n]{0,80}\](?!\()"
        r"|\{\{\s*[\w. -]{1,40}\s*\}\}|_{6,}|\bX{4,}\b", re.IGNORECASE)),
    ("sample text", compile_pattern(
        r"\blorem ipsum\b|\bdolor sit amet\b|\bpath/to/(?:file|your|other)\b|\bfoo bar baz\b", re.IGNORECASE)),
    ("an instruction to the author", compile_pattern(
        r"\bas an ai (?:language )?(?:model|assistant)\b|\byou are a helpful assistant\b|\brespond (?:only )?with (?:text|json|markdown|the)\b"
        r"|\bdo not (?:call|use) any tools\b|\bwrite (?:a|the) (?:handoff|summary)\b.{0,60}\b(?:conversation|thread|session)\b"
        r"|\byour (?:task|job) is to (?:create|write|summari[sz]e|produce)\b|\bsummari[sz]e the (?:conversation|thread) (?:above|below|so far)\b"
        r"|</?(?:analysis|scratchpad|thinking|instructions)>", re.IGNORECASE)),
)  # fmt: skip
_ALONE = compile_pattern(
    r"(?:todo|tbd|fixme|xxx|\?{2,}|\.{3}|…|[<\[]?placeholder[>\]]?)[.:!]?", re.IGNORECASE
)
_CODE = compile_pattern(r"`[^`]*`|\"[^\"]*\"|“[^”]*”")


def _find_leftovers(document: HandoffDocument) -> Iterator[QualityPoint]:
    """Yield placeholders and instructions outside of code and quotes. The goal is skipped: it is the user's own."""
    for line in document.lines:
        if line.code or "goal" in line.kinds:
            continue
        text, bare = line.text, _CODE.sub("", line.text)
        statement = text.partition(": ")[2] or text
        is_sample = statement.strip(" .<>[]()").lower() in _SAMPLES
        if is_sample or _ALONE.fullmatch(statement.strip("*_ ")):
            kind = "a place to fill in"
        elif text.strip().rstrip(".").lower() in list_examples():
            kind = "an example of a prompt"
        else:
            kind = next((what for what, pattern in _LEFTOVERS if pattern.search(bare)), "")
        if kind:
            yield QualityPoint("leftover", shorten(text, 120), False, line.number, why=kind)


_SAMPLES = frozenset(p for p in PLACEHOLDERS if "path/" in p or p in ("placeholder", "undefined"))
