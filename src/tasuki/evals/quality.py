"""How good a handoff document is, measured against its thread alone, whoever or whatever wrote it.

    total = (sections + 4 × facts) / 5 × claims − deducted

`sections`, `facts` and `claims` are shares from 0 to 1, the total is in points up to 100. A document is
worth what it tells of what a successor needs, times how much of what it says is true. Its size counts
for nothing.
"""

import re
from collections.abc import Iterable, Iterator, Sequence, Set
from itertools import islice

from msgspec import Struct
from msgspec.structs import replace

from tasuki.draft import state
from tasuki.draft.authors.task import Task
from tasuki.draft.checks import PLACEHOLDERS, is_tail, runs
from tasuki.draft.claims import attributes_to_user, claims
from tasuki.draft.occurrence import Claim, stands, visible
from tasuki.draft.prompts import examples
from tasuki.draft.redact import Redactor, Span
from tasuki.draft.standing import Standing
from tasuki.draft.support import Support, telling
from tasuki.draft.text import one_line, shorten
from tasuki.evals import needed
from tasuki.evals.written import Document, Line, parse
from tasuki.model import Goal, Thread, tokens

EXPECTED = ("goal", "context", "state", "wishes", "decisions", "questions", "files", "commands")
"""Sections of a handoff; one that the thread has nothing for is not asked for."""
SECRET, FINISHED, LEFTOVER = 20, 5, 5
"""Points deducted: once if there is any secret, for each finished item, for each leftover."""
MOST_DEDUCTED = 20
"""Points that finished items, and leftovers, can cost together."""
LOOKED_UP, PENDING_LOOKED_UP = 3_000, 200
"""Claims, and pending items, that are looked up, the first ones."""
SAME = 0.6
"""Share of the telling words that a pending item and a finished todo or commit have in common."""

LEAST_CODE = 4
"""Letters and digits of a line of code that is looked up."""


class Point(Struct, frozen=True):
    """One thing that was looked at. `text` is safe to show: secrets are redacted in it."""

    kind: str
    text: str
    ok: bool
    line: int = 0
    """Of the document, from 1; 0 where it stands nowhere in it."""
    refs: tuple[int, ...] = ()
    """Entries of the thread that bear it."""
    why: str = ""


class Share(Struct, frozen=True):
    """How many of some points hold; `points` are all of them."""

    held: int
    of: int
    points: tuple[Point, ...]

    @property
    def share(self) -> float:
        """From 0 to 1; 1 where nothing was asked for."""
        return self.held / self.of if self.of else 1.0


class Quality(Struct, frozen=True):
    """The scores of one document with everything they rest on."""

    total: int
    tokens: int
    has_goal: bool
    sections: Share
    facts: Share
    claims: Share
    deducted: int
    secrets: tuple[Point, ...] = ()
    finished: tuple[Point, ...] = ()
    """What is called pending, and is done."""
    leftovers: tuple[Point, ...] = ()
    """Placeholders, and instructions that were meant for the author."""


def score(text: str, thread: Thread, task: Task, goal: str = "") -> Quality:
    """The quality of a document as a handoff of a thread.

    `task` holds the facts of the thread, ranked for the goal; `goal` is one that is handed over
    beside the document. Nothing but the thread's own files is read.
    """
    document = parse(text)
    redactor = Redactor()
    spans = redactor.find(document.text)
    redactor.redact(document.text)
    hidden = {document.text[span.start : span.end] for span in spans}
    told = needed.Telling(document, goal)
    sections = _share(_sections(document, task, goal)) if document.lines else _share(())
    facts = _share(
        Point(f.kind, f.text, not f.why, f.line, f.refs, f.why) for f in needed.facts(task, told)
    )
    held = _share(_Claims(thread, task, goal, hidden).of(document))
    finished = tuple(_finished(document, task, thread))
    leftovers = tuple(_leftovers(document))
    deducted = SECRET * bool(spans) + sum(
        min(MOST_DEDUCTED, points * len(found))
        for points, found in ((FINISHED, finished), (LEFTOVER, leftovers))
    )
    return _clean(
        Quality(
            total=total(sections, facts, held, deducted) if document.lines else 0,
            tokens=tokens(document.text),
            has_goal=bool(goal.strip()) or bool(document.kinds & {"goal", "next"}),
            sections=sections,
            facts=facts,
            claims=held,
            deducted=deducted,
            secrets=tuple(_secrets(document.text, spans)),
            finished=finished,
            leftovers=leftovers,
        ),
        redactor,
    )


def total(sections: Share, facts: Share, held: Share, deducted: int) -> int:
    """Points from 0 to 100; the sections alone count where the thread has no facts."""
    have = (sections.share + 4 * facts.share) / 5 if facts.of else sections.share
    return max(0, round(100 * have * held.share) - deducted)


def _share(points: Iterable[Point]) -> Share:
    every = tuple(points)
    return Share(sum(p.ok for p in every), len(every), every)


def _clean(quality: Quality, redactor: Redactor) -> Quality:
    """The same without secrets in what is shown: one seen whole in the document is known elsewhere."""

    def points(given: tuple[Point, ...]) -> tuple[Point, ...]:
        return tuple(
            replace(p, text=redactor.redact(p.text), why=redactor.redact(p.why)) for p in given
        )

    def share(given: Share) -> Share:
        return replace(given, points=points(given.points))

    return replace(
        quality,
        sections=share(quality.sections), facts=share(quality.facts), claims=share(quality.claims),
        finished=points(quality.finished), leftovers=points(quality.leftovers),
    )  # fmt: skip


# -- sections --------------------------------------------------------------------------


def _sections(document: Document, task: Task, goal: str) -> Iterator[Point]:
    has = set(document.kinds) | ({"goal"} if goal.strip() or "next" in document.kinds else set())
    for kind in EXPECTED:
        if kind in has or _is_called_for(kind, task):
            why = "" if kind in has else "no section of this kind"
            first = next((x.number for x in document.lines if kind in x.kinds), 0)
            yield Point("section", kind, kind in has, first, why=why)


def _is_called_for(kind: str, task: Task) -> bool:
    """Whether a thread has something that would stand in a section."""
    facts = task.derived.facts
    return {
        "state": bool(facts.uncommitted or facts.todos or facts.last_check or facts.revision.commits),
        "wishes": bool(task.inventory.standing()),
        "decisions": bool(facts.decisions),
        "questions": bool(facts.questions),
        "files": any(f.edits or f.reads for f in facts.files),
        "commands": bool(facts.commands),
    }.get(kind, True)  # fmt: skip


# -- claims ----------------------------------------------------------------------------

_OWN_WORDS = re.compile(r"`?tasuki read [0-9a-f]{4,32}#[\dn,-]+`?|\b(?:edited|read) \d+×")
_MAKES = re.compile(
    r"\b(?:create|creates|creating|add|adds|adding|write|writing|new|implement|introduce|rename|anlegen|neue?\w?)\b",
    re.IGNORECASE,
)
_PROMPT = re.compile(r"^\s*[$❯>]\s+|^[+-](?=\s)|[├└│─]+")
_COMMENT = re.compile(r"(?:^|\s)(?://|#|←|→|<--|--|/\*)(?:\s.*)?$")


class _Claims:
    """Looks up what a document says to the letter."""

    def __init__(self, thread: Thread, task: Task, goal: str, hidden: Set[str]) -> None:
        self.facts = task.derived.facts
        self.hidden = hidden
        self.search = Standing(thread, Goal(text=goal))
        self.paths = [f.path for f in self.facts.files]
        self.commands = {one_line(run.command) for run in task.derived.runs}
        self.about = "\n".join(map(one_line, _about(thread)))
        self.hashes = {q.text.split()[0] for q in self.facts.revision.commits}

    def of(self, document: Document) -> list[Point]:
        """Every claim once, with the line that makes it first. The goal claims nothing of the thread."""
        pairs: dict[Claim, Line] = {}
        for line in document.lines:
            if not line.kinds & {"goal", "disk"}:
                for claim in filter(self._may_be_shown, _claims(line)):
                    pairs.setdefault(claim, line)
        kept = list(pairs.items())[:LOOKED_UP]
        self.search.look_up([claim] for claim, _ in kept if not self._known(claim))
        return [*(self._point(c, x) for c, x in kept), *self._references(document)]

    def _may_be_shown(self, claim: Claim) -> bool:
        """Whether a claim has nothing of a secret in it: those are told by kind."""
        return not any(value in claim.text or claim.text in value for value in self.hidden)

    def _point(self, claim: Claim, line: Line) -> Point:
        why = self._why_not(claim, line)
        return Point(claim.kind, shorten(claim.text, 200), not why, line.number, why=why)

    def _why_not(self, claim: Claim, line: Line) -> str:
        if claim.kind == "quote" and _is_users(claim, line):
            return "" if self.search.by_user(claim.text) else "the user did not write this"
        if self._known(claim) or self.search.holds(claim, line.refs):
            return ""
        if claim.text.isalpha() and not line.code and self.search.names(claim.text):
            return ""
        if "next" in line.kinds and claim.kind != "quote" and _MAKES.search(line.text):
            return ""
        return "not in the thread"

    def _known(self, claim: Claim) -> bool:
        """Whether a claim stands among the facts, or in what is known of the thread itself."""
        text = claim.text
        if text in self.paths or text in self.hashes or is_tail(text, self.paths):
            return True
        if claim.kind == "command" and any(
            runs(command, one_line(text), cut=True) for command in self.commands
        ):
            return True
        return stands(text, self.about)

    def _references(self, document: Document) -> Iterator[Point]:
        """References to entries that the thread does not have."""
        for line in document.lines:
            for ref in line.refs:
                if ref not in self.search.entries:
                    yield Point("reference", f"#{ref}", False, line.number, why="no such entry")


def _claims(line: Line) -> Iterator[Claim]:
    """What a line says to the letter; of code, the line without its comment."""
    if not line.code:
        text = visible(_OWN_WORDS.sub(" ", line.text))
        yield from (
            c for c in claims(text) if c.kind != "value" or c.text[0] != "-" or c.text in text
        )
        return
    code = one_line(_COMMENT.sub("", _PROMPT.sub(" ", line.text)))
    if sum(map(str.isalnum, code)) >= LEAST_CODE:
        yield Claim("command" if "commands" in line.kinds else "value", code[:400])


def _is_users(claim: Claim, line: Line) -> bool:
    """Whether a line says of quoted words that they are the user's."""
    if attributes_to_user(line.text):
        return True
    head = line.text.lstrip("\"'“”„«「 ")
    return "wishes" in line.kinds and head.startswith(claim.text) and head != line.text


def _about(thread: Thread) -> Iterator[str]:
    """What is known of a thread beside its entries."""
    yield from (thread.id, thread.path, thread.cwd, thread.name, thread.harness, thread.version)
    yield from (thread.model, thread.thinking, thread.git_branch, thread.git_head, thread.parent)
    yield from (thread.started, thread.updated, *thread.tools, *thread.skills, *thread.artifacts)
    yield from (f"/skill:{name}" for name in thread.skills)
    yield from (item.label for item in thread.background)


# -- what is pending and done ----------------------------------------------------------

_PENDING = re.compile(
    r"^(?:pending|still to do|to-?\s?do|next|remaining|not (?:yet )?(?:done|started)|open task|left)",
    re.IGNORECASE,
)
_SAYS_DONE = re.compile(
    r"\b(?:done|completed?|finished|already|✓|✅|erledigt)\b|✅|✓", re.IGNORECASE
)


def _finished(document: Document, task: Task, thread: Thread) -> Iterator[Point]:
    """Items that the document calls pending, and that a todo or a later commit says are done."""
    facts = task.derived.facts
    done = [(one_line(t.text), facts.todos_ref) for t in facts.todos if t.status == "done"]
    done += [(q.text.partition(" ")[2], q.ref) for q in facts.revision.commits]
    left = [t.text for t in facts.todos if t.status in ("pending", "in_progress")]
    support = Support(thread.entries)
    pending = (line for line in document.lines if _is_pending(line))
    for line in islice(pending, PENDING_LOOKED_UP):
        body = line.text.partition(":")[2] if _PENDING.match(line.label) else line.text
        for text in body.split("; "):
            if near := _same(text, done, left):
                why = f"done: {shorten(near[0], 100)}"
                yield Point("finished", shorten(text), False, line.number, near[1:], why)
            elif (since := _said_in(text, line, support)) and state.done_since(text, since, facts):
                why = "a later commit or todo says that it is done"
                yield Point("finished", shorten(text), False, line.number, (since,), why)


def _is_pending(line: Line) -> bool:
    """Whether a line says that something is still to be done."""
    if line.code or line.mark == "x" or _SAYS_DONE.search(line.text):
        return False
    if line.mark == " ":
        return True
    return "next" in line.kinds or bool(line.label and _PENDING.match(line.label))


def _said_in(text: str, line: Line, support: Support) -> int:
    """The entry that speaks of an item; 0 where none is known."""
    refs, _ = support.resolve(text, line.refs)
    return max(refs, default=0)


def _same(
    text: str, done: Sequence[tuple[str, int]], left: Sequence[str]
) -> tuple[str, int] | None:
    """The finished todo or commit that an item says again; none where an open todo is as near."""
    about = set(telling(text))
    best = max(done, key=lambda pair: _near(about, pair[0]), default=("", 0))
    share = _near(about, best[0])
    if share < SAME or any(_near(about, other) >= share for other in left):
        return None
    return best


def _near(about: set[str], text: str) -> float:
    """What two texts share of their telling words, of the longer one."""
    other = set(telling(text))
    return len(about & other) / max(len(about), len(other), 2)


# -- secrets and leftovers -------------------------------------------------------------


def _secrets(text: str, spans: Iterable[Span]) -> Iterator[Point]:
    """Kind and line of each secret, never the secret."""
    for span in spans:
        line = text.count("\n", 0, span.start) + 1
        yield Point("secret", span.kind, False, line, why="a successor would be shown it")


_LEFTOVERS = (
    ("a place to fill in", re.compile(
        r"<(?:fill|insert|your|add|todo|tbd|describe|placeholder|name of)\b[^<>\n]{0,80}>"
        r"|\[(?:fill|insert|your|todo|tbd|describe|placeholder|add)\b[^\[\]\n]{0,80}\](?!\()"
        r"|\{\{\s*[\w. -]{1,40}\s*\}\}|_{6,}|\bX{4,}\b", re.IGNORECASE)),
    ("sample text", re.compile(
        r"\blorem ipsum\b|\bdolor sit amet\b|\bpath/to/(?:file|your|other)\b|\bfoo bar baz\b", re.IGNORECASE)),
    ("an instruction to the author", re.compile(
        r"\bas an ai (?:language )?(?:model|assistant)\b|\byou are a helpful assistant\b|\brespond (?:only )?with (?:text|json|markdown|the)\b"
        r"|\bdo not (?:call|use) any tools\b|\bwrite (?:a|the) (?:handoff|summary)\b.{0,60}\b(?:conversation|thread|session)\b"
        r"|\byour (?:task|job) is to (?:create|write|summari[sz]e|produce)\b|\bsummari[sz]e the (?:conversation|thread) (?:above|below|so far)\b"
        r"|</?(?:analysis|scratchpad|thinking|instructions)>", re.IGNORECASE)),
)  # fmt: skip
_ALONE = re.compile(
    r"(?:todo|tbd|fixme|xxx|\?{2,}|\.{3}|…|[<\[]?placeholder[>\]]?)[.:!]?", re.IGNORECASE
)
_CODE = re.compile(r"`[^`]*`|\"[^\"]*\"|“[^”]*”")


def _leftovers(document: Document) -> Iterator[Point]:
    """Placeholders and instructions outside of code and quotes; the goal is the user's own."""
    for line in document.lines:
        if line.code or "goal" in line.kinds:
            continue
        bare = _CODE.sub("", line.text)
        if what := _leftover(line.text, bare):
            yield Point("leftover", shorten(line.text, 120), False, line.number, why=what)


def _leftover(text: str, bare: str) -> str:
    said = text.partition(": ")[2] or text
    if _ALONE.fullmatch(said.strip("*_ ")) or said.strip(" .<>[]()").lower() in _SAMPLES:
        return "a place to fill in"
    if text.strip().rstrip(".").lower() in examples():
        return "an example of a prompt"
    return next((what for what, pattern in _LEFTOVERS if pattern.search(bare)), "")


_SAMPLES = frozenset(p for p in PLACEHOLDERS if "path/" in p or p in ("placeholder", "undefined"))
