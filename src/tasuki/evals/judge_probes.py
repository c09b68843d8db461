"""What is asked about a brief: probes of four kinds, each with the truth and the entries behind it.

Artifacts come from the facts, by no judgement of anybody. What comes next is told by the case, or by
what the thread went on with. Facts and decisions to be asked about are chosen without the tool's own
extraction: by the case, or by what the future used; the model only puts them as questions.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from tasuki.draft.commands import short_command
from tasuki.draft.entries import entry_text, readable
from tasuki.draft.occurrence import stands
from tasuki.draft.support import bears
from tasuki.evals import metric
from tasuki.evals.judge_briefs import LeftOut, Subject
from tasuki.evals.judge_model import Judge, Kind, Question
from tasuki.evals.needed import edited
from tasuki.evals.prompts import render
from tasuki.evals.scenario import Fact
from tasuki.harness.jsonl import clip
from tasuki.model import CommandFact, Entry

COUNTS: Mapping[str, int] = {"recall": 3, "decision": 2}
"""Questions of these kinds about one brief, at most."""
FILES, COMMANDS = 5, 3
"""That an answer must name, at most."""
OTHERS = 60
"""That it may name."""
NEWEST = 3
"""Files that must be named where nothing tells which the goal needs."""
NEXT = 8
"""Entries of the future that show how the work went on."""
LAST = 4
"""Messages at the end of a case's thread that show where it stood."""
NAMES = 6
"""That the future used, shown with the entry that holds them."""
RULINGS = 40
"""Messages of the user among which decisions are looked for, the newest."""
ENTRY, SHORT, BEFORE = 2_000, 500, 300
"""Characters of one entry: as truth, where many are shown, and of what a message answers."""
PARAGRAPH = 400
"""Characters of one that says much."""
_DECIDED = frozenset(("constraint", "decision", "reversal", "advice", "plan"))
"""Kinds of a case's facts that are decisions; all others are recalled."""
_SAID = ("user", "assistant")


class Probe(Struct, frozen=True):
    """One question with the truth. `entries` are excerpts, `[#n kind] text`; `refs` their numbers."""

    id: str
    kind: Kind
    question: str
    truth: str
    refs: tuple[int, ...]
    entries: str


class Piece(Struct, frozen=True):
    """A part of the record that a question is to be written about."""

    id: str
    entries: tuple[Entry, ...]
    about: str = ""
    """The lines that are meant; empty if the whole piece is."""
    fact: Fact | None = None
    excerpt: str = ""
    """The part of the last entry that counts, where that is not all of it."""


def derived(subject: Subject) -> Iterator[Probe]:
    """The probes of a brief that need no model: artifacts, and what comes next."""
    for probe in (_files(subject), _commands(subject), _check(subject), _continuation(subject)):
        if probe:
            yield probe


# -- artifacts: from the facts --------------------------------------------------------------


def _files(subject: Subject) -> Probe | None:
    known = subject.facts.files
    changed = [file.path for file in edited(subject.facts)]
    needed = [path for path in _needed_files(subject) if path in {f.path for f in known}]
    needed = (needed or changed[:NEWEST])[:FILES]
    if not needed:
        return None
    newest = sorted(known, key=lambda f: -f.last)
    others = [f.path for f in newest if f.path not in needed]
    refs = [f.last for f in known if f.path in needed]
    return _artifact(subject, "files", needed, others, refs)


def _needed_files(subject: Subject) -> list[str]:
    """Files that the case expects, or that the future used: those it changed first."""
    if subject.case:
        return list(subject.case.expected_files)
    found = subject.targets
    return [*sorted(found.edit), *sorted(found.file - found.edit)]


def _commands(subject: Subject) -> Probe | None:
    if subject.case:
        needed = list(subject.case.expected_commands)
    else:
        found = subject.targets
        needed = sorted(found.cmd)
    needed = needed[:COMMANDS]
    if not needed:
        return None
    ran = subject.facts.commands
    others = [short_command(c.command, 120) for c in ran if not _one_of(c.command, needed)]
    refs = [c.refs[-1] for c in ran if _one_of(c.command, needed)]
    return _artifact(subject, "commands", needed, others, refs)


def _one_of(command: str, needed: Iterable[str]) -> bool:
    folded = " ".join(command.split())
    return any(" ".join(one.split()) in folded for one in needed)


def _artifact(
    subject: Subject, what: str, needed: Sequence[str], others: Sequence[str], refs: Sequence[int]
) -> Probe:
    entries = _by_ref(subject, refs)
    return _probe(
        subject,
        f"artifact-{what}",
        "artifact",
        render(f"question_{what}"),
        render(f"truth_{what}", needed=_list(needed), others=_list(others[:OTHERS])),
        entries,
        _all_shown(subject, entries),
    )


def _check(subject: Subject) -> Probe | None:
    checks = [
        c for c in subject.facts.last_check if c.known and c.check in ("test", "lint", "build")
    ]
    tests = [c for c in checks if c.check == "test"]
    last: CommandFact | None = max(tests or checks, key=lambda c: c.refs[-1], default=None)
    if last is None:
        return None
    said = last.outcome if last.ok else last.error or last.outcome
    truth = render(
        "truth_check",
        command=_list([short_command(last.command, 200)]),
        ended="passed" if last.ok else "FAILED",
        outcome=f" {_list([said])}." if said else "",
        unverified=_list(subject.facts.unverified[:OTHERS]),
    )
    entries = _by_ref(subject, last.refs[-1:])
    return _probe(
        subject,
        "artifact-check",
        "artifact",
        render("question_check"),
        truth,
        entries,
        _all_shown(subject, entries),
    )


def _list(items: Iterable[str]) -> str:
    return ", ".join(f"`{item}`" for item in items) or "none"


# -- what comes next: from the case, or from the future -------------------------------------


def _continuation(subject: Subject) -> Probe | None:
    case = subject.case
    if case and case.pass_criteria.strip():
        truth = case.pass_criteria.strip()
        entries = [e for e in subject.thread.entries if e.kind in _SAID and e.text.strip()][-LAST:]
    else:
        truth = render("truth_continuation")
        entries = [e for e in subject.future if e.kind == "assistant" or e.tool][:NEXT]
    if not entries:
        return None
    lines = [
        _shown(subject, e, SHORT, metric.given(e.tool).strip() if e.tool else e.text)
        for e in entries
    ]
    question = render("question_continuation")
    return _probe(subject, "continuation", "continuation", question, truth, entries, lines)


# -- facts and decisions: asked by the model ------------------------------------------------


def written(
    subject: Subject, kind: Literal["recall", "decision"], judge: Judge, left_out: list[LeftOut]
) -> list[Probe]:
    """The probes of a brief whose questions the model writes; `left_out` gets what cannot be asked.

    Raises AuthorFailed if the model cannot be asked, Unread if it writes no usable question.
    """
    of_thread = _used if kind == "recall" else _ruled
    pieces = _of_case(subject, kind) if subject.case else of_thread(subject)
    asked = []
    for piece in pieces:
        if piece.entries:
            asked.append(piece)
        else:
            reason = "no entry of the thread holds it"
            left_out.append(LeftOut(f"{subject.name} {piece.id}", reason))
    return _written(subject, kind, judge, asked, left_out) if asked else []


def _of_case(subject: Subject, kind: Literal["recall", "decision"]) -> list[Piece]:
    """The facts of a case, each with the newest entries that hold it."""
    facts = subject.case.expected_context if subject.case else ()
    found = []
    for number, fact in enumerate(facts, 1):
        if (fact.kind in _DECIDED) == (kind == "decision"):
            found.append(Piece(f"{kind}-{number}", *_holding(subject, fact), fact))
    return found[: COUNTS[kind]]


def _holding(subject: Subject, fact: Fact) -> tuple[tuple[Entry, ...], str]:
    """The newest two entries that hold a fact in one line, with those lines; else anywhere."""
    told: list[tuple[Entry, str]] = []
    for entry in reversed(subject.thread.entries):
        lines = [line.strip() for line in entry_text(entry).split("\n") if fact.told(line)]
        if lines:
            told.append((entry, clip(lines[0], ENTRY)))
        if len(told) == 2:
            break
    if told:
        return tuple(e for e, _ in reversed(told)), "\n".join(line for _, line in reversed(told))
    whole = [e for e in subject.thread.entries if fact.told(" ".join(entry_text(e).split()))]
    return tuple(whole[-1:]), ""


def _used(subject: Subject) -> list[Piece]:
    """Paragraphs that hold what the future used and was rare before, each for names of its own."""
    thread = subject.thread
    left = dict(subject.targets.id)
    said = [e for e in thread.entries if e.kind in _SAID and e.origin != "handoff"]
    ran = [e for e in thread.entries if e.tool and e.origin != "command"]
    chosen: dict[int, Piece] = {}
    for among in (said, ran):
        held = [(p, e, metric.names(p, thread.cwd)) for e in among for p in _paragraphs(e)]
        while held and len(chosen) < COUNTS["recall"]:
            text, entry, names = max(held, key=lambda found: _worth(found[0], found[2], left))
            used = sorted(names & left.keys(), key=lambda name: (-left[name], name))
            if not used:
                break
            about = ", ".join(used[:NAMES])
            piece = Piece(f"recall-{entry.ref}", (entry,), about, excerpt=text)
            chosen.setdefault(entry.ref, piece)
            for name in used:
                del left[name]
    return list(chosen.values())


def _paragraphs(entry: Entry) -> list[str]:
    """The paragraphs of an entry, long ones in pieces that can be shown whole."""
    text = readable(entry)
    parts = (part.strip("\n") for part in text.split("\n\n"))
    return [part[at : at + ENTRY] for part in parts for at in range(0, len(part), ENTRY)]


def _worth(text: str, names: set[str], left: dict[str, float]) -> float:
    """The weight of what a paragraph holds of some names; a long one holds much by chance."""
    return sum(left[name] for name in names & left.keys()) / (1 + len(text) / PARAGRAPH)


def _ruled(subject: Subject) -> list[Piece]:
    """The newest messages of the user, each behind the end of what it may answer."""
    found: list[Piece] = []
    before: Entry | None = None
    for entry in subject.thread.entries:
        if entry.kind == "assistant":
            before = entry
        elif entry.kind == "user" and entry.origin in ("typed", "queued", "answer"):
            around = (before, entry) if before else (entry,)
            found.append(Piece(f"decision-{entry.ref}", around))
            before = None
    return found[-RULINGS:]


def _written(
    subject: Subject,
    kind: Literal["recall", "decision"],
    judge: Judge,
    pieces: Sequence[Piece],
    left_out: list[LeftOut],
) -> list[Probe]:
    """Probes whose questions the model writes, one for each piece; of many pieces it chooses."""
    count = min(COUNTS[kind], len(pieces))
    room = max(600, judge.window // len(pieces))
    text = "\n\n".join(_piece(subject, n, p, room) for n, p in enumerate(pieces, 1))
    asked = judge.questions(
        kind, subject.goal, text, count, lambda one: _problem(subject, one, pieces)
    )
    by_piece = {one.piece: one for one in asked}
    found = []
    for number, piece in enumerate(pieces, 1):
        if one := by_piece.get(number):
            truth = piece.about if piece.fact and piece.about else one.answer
            lines = _of_piece(subject, piece, ENTRY)
            found.append(_probe(subject, piece.id, kind, one.question, truth, piece.entries, lines))
        elif count == len(pieces):
            reason = "the model wrote no question that can be asked"
            left_out.append(LeftOut(f"{subject.name} {piece.id}", reason))
    return found


def _piece(subject: Subject, number: int, piece: Piece, room: int) -> str:
    text = "\n".join(_of_piece(subject, piece, min(ENTRY, room)))
    meant = f"\nMeant: {subject.clean(piece.about)}" if piece.about else ""
    return f"Piece {number}:\n{text}{meant}"


def _of_piece(subject: Subject, piece: Piece, room: int) -> list[str]:
    *before, last = piece.entries
    around = [_shown(subject, entry, BEFORE) for entry in before]
    return [*around, _shown(subject, last, room, piece.excerpt)]


def _problem(subject: Subject, asked: Question, pieces: Sequence[Piece]) -> str:
    """Why a question cannot be asked; empty if it can."""
    if not 0 < asked.piece <= len(pieces):
        return f"there is no piece {asked.piece}."
    piece = pieces[asked.piece - 1]
    if piece.fact and piece.fact.told(asked.question):
        return f"the question on piece {asked.piece} gives its answer away."
    if len(asked.answer) > 8 and stands(asked.answer.rstrip("."), asked.question):
        return f"the question on piece {asked.piece} gives its answer away."
    text = "\n".join(subject.clean(entry_text(entry)) for entry in piece.entries)
    if not bears(asked.answer, text):
        return f"the answer on piece {asked.piece} does not stand in it."
    return ""


# -- what is shown ---------------------------------------------------------------------------


def _probe(
    subject: Subject,
    id: str,
    kind: Kind,
    question: str,
    truth: str,
    entries: Sequence[Entry],
    lines: Sequence[str],
) -> Probe:
    """A probe, with secrets taken out of everything in it; `lines` show the entries."""
    return Probe(
        id=id,
        kind=kind,
        question=subject.clean(question),
        truth=subject.clean(truth),
        refs=tuple(entry.ref for entry in entries),
        entries="\n".join(lines) or "(none)",
    )


def _shown(subject: Subject, entry: Entry, room: int, text: str = "") -> str:
    """An entry, or a text of it, with its number."""
    who = entry.tool.name if entry.tool else entry.kind
    cleaned = subject.clean(text or readable(entry)).strip()
    return f"[#{entry.ref} {subject.clean(who)}] {clip(cleaned, room)}"


def _all_shown(subject: Subject, entries: Iterable[Entry]) -> list[str]:
    return [_shown(subject, entry, SHORT) for entry in entries]


def _by_ref(subject: Subject, refs: Iterable[int]) -> list[Entry]:
    wanted = set(refs)
    return [entry for entry in subject.thread.entries if entry.ref in wanted]


_REF = re.compile(r"#(\d{1,9})\b")


def refs_of(subject: Subject) -> frozenset[int]:
    """The entries that the brief cites."""
    known = {entry.ref for entry in subject.thread.entries}
    return frozenset(int(ref) for ref in _REF.findall(subject.brief)) & known
