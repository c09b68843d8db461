"""Questions about a brief: probes of four kinds, each with the truth and its source entries.

Artifacts come from the facts, without any judgement. The case, or the thread's
continuation, says what comes next. Facts and decisions are chosen without the tool's own
extraction: by the case, or by what the future used; the model only phrases the questions.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from tasuki.draft.claims.support import is_supported_by
from tasuki.draft.facts.commands import shorten_command
from tasuki.draft.quality.needed_facts import list_edited_files
from tasuki.draft.text.entries import contains_verbatim, format_entry, join_entry_text
from tasuki.harness.reading.jsonl import clip
from tasuki.model import CommandFact, Entry
from tasuki_evals.cases.scenario import CaseFact
from tasuki_evals.continuation import metric
from tasuki_evals.judge.judge_briefs import JudgeSubject, UnjudgedItem
from tasuki_evals.judge.judge_model import BriefJudge, PieceQuestion, ProbeKind
from tasuki_evals.judge.prompts import render_judge_prompt

MAX_QUESTIONS: Mapping[str, int] = {"recall": 3, "decision": 2}
"""Maximum questions of these kinds about one brief."""
MAX_FILES, MAX_COMMANDS = 5, 3
"""Maximum files and commands that an answer must name."""
MAX_OTHERS = 60
"""Maximum names that it may also contain."""
NEWEST_FILES = 3
"""Files that must be named if it is unknown which the goal needs."""
FUTURE_ENTRIES = 8
"""Entries of the future that show how the work continued."""
LAST_MESSAGES = 4
"""Messages at the end of a case's thread that show its state."""
MAX_NAMES = 6
"""Names used by the future, shown with the entry that contains them."""
MAX_RULINGS = 40
"""Newest messages of the user among which decisions are looked for."""
MAX_ENTRY, MAX_SHORT_ENTRY, MAX_BEFORE = 2_000, 500, 300
"""Characters of one entry: as truth, in a list of many, and as the message before a reply."""
PARAGRAPH_LENGTH = 400
"""Characters of a paragraph that says much."""
_DECISION_KINDS = frozenset(("constraint", "decision", "reversal", "advice", "plan"))
"""Kinds of a case's facts that are decisions; all others are recalled."""
_MESSAGE_KINDS = ("user", "assistant")


class JudgeProbe(Struct, frozen=True):
    """One question with the truth. `entries` are excerpts, `[#n kind] text`; `refs` their numbers."""

    id: str
    kind: ProbeKind
    question: str
    truth: str
    refs: tuple[int, ...]
    entries: str


class RecordPiece(Struct, frozen=True):
    """A part of the record that a question is to be written about."""

    id: str
    entries: tuple[Entry, ...]
    about: str = ""
    """The lines that are meant; empty if the whole piece is."""
    fact: CaseFact | None = None
    excerpt: str = ""
    """The part of the last entry that counts, where that is not all of it."""


def derive_probes(subject: JudgeSubject) -> Iterator[JudgeProbe]:
    """Yield the probes of a brief that need no model: artifacts, and what comes next."""
    for create_probe in (
        _create_files_probe, _create_commands_probe, _create_check_probe, _create_continuation_probe,
    ):  # fmt: skip
        if probe := create_probe(subject):
            yield probe


def _create_files_probe(subject: JudgeSubject) -> JudgeProbe | None:
    known = subject.facts.files
    changed = [file.path for file in list_edited_files(subject.facts)]
    needed = [path for path in _list_needed_files(subject) if path in {f.path for f in known}]
    needed = (needed or changed[:NEWEST_FILES])[:MAX_FILES]
    if not needed:
        return None
    newest = sorted(known, key=lambda f: -f.last)
    others = [f.path for f in newest if f.path not in needed]
    refs = [f.last for f in known if f.path in needed]
    return _create_artifact_probe(subject, "files", needed, others, refs)


def _list_needed_files(subject: JudgeSubject) -> list[str]:
    """Return files that the case expects, or that the future used: changed ones first."""
    if subject.case:
        return list(subject.case.expected_files)
    found = subject.targets
    return [*sorted(found.edit), *sorted(found.file - found.edit)]


def _create_commands_probe(subject: JudgeSubject) -> JudgeProbe | None:
    case = subject.case
    needed = [*case.expected_commands] if case else sorted(subject.targets.cmd)
    needed = needed[:MAX_COMMANDS]
    if not needed:
        return None
    ran = subject.facts.commands
    others = [shorten_command(c.command, 120) for c in ran if not _is_one_of(c.command, needed)]
    refs = [c.refs[-1] for c in ran if _is_one_of(c.command, needed)]
    return _create_artifact_probe(subject, "commands", needed, others, refs)


def _is_one_of(command: str, needed: Iterable[str]) -> bool:
    folded = " ".join(command.split())
    return any(" ".join(one.split()) in folded for one in needed)


def _create_artifact_probe(
    subject: JudgeSubject, topic: str, needed: Sequence[str], others: Sequence[str],
    refs: Sequence[int],
) -> JudgeProbe:  # fmt: skip
    truth = render_judge_prompt(
        f"truth_{topic}", needed=_format_list(needed), others=_format_list(others[:MAX_OTHERS])
    )
    return _build_artifact_probe(subject, topic, truth, refs)


def _build_artifact_probe(
    subject: JudgeSubject, topic: str, truth: str, refs: Sequence[int]
) -> JudgeProbe:
    entries = [entry for entry in subject.thread.entries if entry.ref in set(refs)]
    lines = [_format_entry(subject, entry, MAX_SHORT_ENTRY) for entry in entries]
    question = render_judge_prompt(f"question_{topic}")
    return _build_probe(subject, f"artifact-{topic}", "artifact", question, truth, entries, lines)


def _create_check_probe(subject: JudgeSubject) -> JudgeProbe | None:
    kinds = ("test", "lint", "build")
    known = [c for c in subject.facts.last_check if c.known and not c.unseen]
    checks = [c for c in known if c.check in kinds]
    tests = [c for c in checks if c.check == "test"]
    last: CommandFact | None = max(tests or checks, key=lambda c: c.refs[-1], default=None)
    if last is None:
        return None
    result_line = last.outcome if last.ok else last.error or last.outcome
    truth = render_judge_prompt(
        "truth_check", command=_format_list([shorten_command(last.command, 200)]),
        ended="passed" if last.ok else "FAILED",
        outcome=f" {_format_list([result_line])}." if result_line else "",
        unverified=_format_list(subject.facts.unverified[:MAX_OTHERS]),
    )  # fmt: skip
    return _build_artifact_probe(subject, "check", truth, last.refs[-1:])


def _format_list(items: Iterable[str]) -> str:
    return ", ".join(f"`{item}`" for item in items) or "none"


def _create_continuation_probe(subject: JudgeSubject) -> JudgeProbe | None:
    case = subject.case
    if case and case.pass_criteria.strip():
        truth = case.pass_criteria.strip()
        said = (e for e in subject.thread.entries if e.kind in _MESSAGE_KINDS)
        entries = [e for e in said if e.text.strip()][-LAST_MESSAGES:]
    else:
        truth = render_judge_prompt("truth_continuation")
        entries = [e for e in subject.future if e.kind == "assistant" or e.tool][:FUTURE_ENTRIES]
    if not entries:
        return None
    texts = (metric.join_input(e.tool).strip() if e.tool else e.text for e in entries)
    pairs = zip(entries, texts, strict=True)
    lines = [_format_entry(subject, e, MAX_SHORT_ENTRY, text) for e, text in pairs]
    question = render_judge_prompt("question_continuation")
    return _build_probe(subject, "continuation", "continuation", question, truth, entries, lines)


def write_probes(
    subject: JudgeSubject, kind: Literal["recall", "decision"], judge: BriefJudge,
    left_out: list[UnjudgedItem],
) -> list[JudgeProbe]:  # fmt: skip
    """Return the probes of a brief whose questions the model writes.

    `left_out` gets what cannot be asked. Raises AuthorFailed if the model cannot be asked,
    UnreadableAnswer if it writes no usable question.
    """
    list_pieces = _list_used_pieces if kind == "recall" else _list_ruling_pieces
    pieces = _list_case_pieces(subject, kind) if subject.case else list_pieces(subject)
    usable = []
    for piece in pieces:
        if piece.entries:
            usable.append(piece)
        else:
            reason = "no entry of the thread holds it"
            left_out.append(UnjudgedItem(f"{subject.name} {piece.id}", reason))
    return _write_piece_probes(subject, kind, judge, usable, left_out) if usable else []


def _list_case_pieces(
    subject: JudgeSubject, kind: Literal["recall", "decision"]
) -> list[RecordPiece]:
    """Return the facts of a case, each with the newest entries that contain it."""
    facts = subject.case.expected_context if subject.case else ()
    found = []
    for number, fact in enumerate(facts, 1):
        if (fact.kind in _DECISION_KINDS) == (kind == "decision"):
            held = _find_holding_entries(subject, fact)
            found.append(RecordPiece(f"{kind}-{number}", *held, fact))
    return found[: MAX_QUESTIONS[kind]]


def _find_holding_entries(subject: JudgeSubject, fact: CaseFact) -> tuple[tuple[Entry, ...], str]:
    """Return the newest two entries that contain a fact in one line, with those lines.

    Without such a line, return the newest entry that contains it anywhere.
    """
    matches: list[tuple[Entry, str]] = []
    for entry in reversed(subject.thread.entries):
        line = next(filter(fact.matches_line, join_entry_text(entry).split("\n")), None)
        if line is not None:
            matches.insert(0, (entry, clip(line.strip(), MAX_ENTRY)))
        if len(matches) == 2:
            break
    if matches:
        return tuple(e for e, _ in matches), "\n".join(line for _, line in matches)
    texts = [(e, " ".join(join_entry_text(e).split())) for e in subject.thread.entries]
    return tuple(e for e, text in texts if fact.matches_line(text))[-1:], ""


def _list_used_pieces(subject: JudgeSubject) -> list[RecordPiece]:
    """Return paragraphs, each with own names that the future used and that were rare before."""
    thread = subject.thread
    left = dict(subject.targets.id)
    said = [e for e in thread.entries if e.kind in _MESSAGE_KINDS and e.origin != "handoff"]
    ran = [e for e in thread.entries if e.tool and e.origin != "command"]
    chosen: dict[int, RecordPiece] = {}
    for among in (said, ran):
        held = [
            (p, e, metric.extract_names(p, thread.cwd)) for e in among for p in _split_paragraphs(e)
        ]
        while held and len(chosen) < MAX_QUESTIONS["recall"]:
            weights = [_weigh_paragraph(text, names, left) for text, _, names in held]
            text, entry, names = held[weights.index(max(weights))]
            used = sorted(names & left.keys(), key=lambda name: (-left[name], name))
            if not used:
                break
            about = ", ".join(used[:MAX_NAMES])
            piece = RecordPiece(f"recall-{entry.ref}", (entry,), about, excerpt=text)
            chosen.setdefault(entry.ref, piece)
            for name in used:
                del left[name]
    return list(chosen.values())


def _split_paragraphs(entry: Entry) -> list[str]:
    """Return the paragraphs of an entry, long ones in pieces that can be shown whole."""
    parts = [part.strip("\n") for part in format_entry(entry).split("\n\n")]
    return [part[n : n + MAX_ENTRY] for part in parts for n in range(0, len(part), MAX_ENTRY)]


def _weigh_paragraph(text: str, names: set[str], left: dict[str, float]) -> float:
    """Return the weight of the names in a paragraph; a long one contains many by chance."""
    return sum(left[name] for name in names & left.keys()) / (1 + len(text) / PARAGRAPH_LENGTH)


def _list_ruling_pieces(subject: JudgeSubject) -> list[RecordPiece]:
    """Return the newest messages of the user, each after the end of what it may answer."""
    found: list[RecordPiece] = []
    before: Entry | None = None
    for entry in subject.thread.entries:
        if entry.kind == "assistant":
            before = entry
        elif entry.is_by_hand:
            around = (before, entry) if before else (entry,)
            found.append(RecordPiece(f"decision-{entry.ref}", around))
            before = None
    return found[-MAX_RULINGS:]


def _write_piece_probes(
    subject: JudgeSubject, kind: Literal["recall", "decision"], judge: BriefJudge,
    pieces: Sequence[RecordPiece], left_out: list[UnjudgedItem],
) -> list[JudgeProbe]:  # fmt: skip
    """Return probes whose questions the model writes: one for a piece; of many it chooses."""
    count = min(MAX_QUESTIONS[kind], len(pieces))
    room = max(600, judge.window // len(pieces))
    text = "\n\n".join(_format_piece(subject, n, p, room) for n, p in enumerate(pieces, 1))
    asked = judge.write_questions(
        kind, subject.goal, text, count, lambda one: _find_problem(subject, one, pieces)
    )
    by_piece = {one.piece: one for one in asked}
    found = []
    for number, piece in enumerate(pieces, 1):
        if one := by_piece.get(number):
            truth = piece.about if piece.fact and piece.about else one.answer
            lines = _format_piece_entries(subject, piece, MAX_ENTRY)
            asked_of = (one.question, truth, piece.entries, lines)
            found.append(_build_probe(subject, piece.id, kind, *asked_of))
        elif count == len(pieces):
            reason = "the model wrote no question that can be asked"
            left_out.append(UnjudgedItem(f"{subject.name} {piece.id}", reason))
    return found


def _format_piece(subject: JudgeSubject, number: int, piece: RecordPiece, room: int) -> str:
    text = "\n".join(_format_piece_entries(subject, piece, min(MAX_ENTRY, room)))
    subject_line = f"\nMeant: {subject.clean_text(piece.about)}" if piece.about else ""
    return f"Piece {number}:\n{text}{subject_line}"


def _format_piece_entries(subject: JudgeSubject, piece: RecordPiece, room: int) -> list[str]:
    *before, last = piece.entries
    around = [_format_entry(subject, entry, MAX_BEFORE) for entry in before]
    return [*around, _format_entry(subject, last, room, piece.excerpt)]


def _find_problem(
    subject: JudgeSubject, question: PieceQuestion, pieces: Sequence[RecordPiece]
) -> str:
    """Return why a question cannot be asked, or an empty string."""
    if not 0 < question.piece <= len(pieces):
        return f"there is no piece {question.piece}."
    piece = pieces[question.piece - 1]
    answer = question.answer.rstrip(".") if len(question.answer) > 8 else ""
    holds_fact = piece.fact and piece.fact.matches_line(question.question)
    if holds_fact or (answer and contains_verbatim(answer, question.question)):
        return f"the question on piece {question.piece} gives its answer away."
    text = "\n".join(subject.clean_text(join_entry_text(entry)) for entry in piece.entries)
    if not is_supported_by(question.answer, text):
        return f"the answer on piece {question.piece} does not stand in it."
    return ""


def _build_probe(
    subject: JudgeSubject, id: str, kind: ProbeKind, question: str, truth: str,
    entries: Sequence[Entry], lines: Sequence[str],
) -> JudgeProbe:  # fmt: skip
    """Return a probe with secrets removed from everything in it; `lines` show the entries."""
    return JudgeProbe(
        id=id, kind=kind, question=subject.clean_text(question), truth=subject.clean_text(truth),
        refs=tuple(entry.ref for entry in entries), entries="\n".join(lines) or "(none)",
    )  # fmt: skip


def _format_entry(subject: JudgeSubject, entry: Entry, room: int, text: str = "") -> str:
    """Return an entry, or a text of it, with its number."""
    speaker = entry.tool.name if entry.tool else entry.kind
    cleaned = subject.clean_text(text or format_entry(entry)).strip()
    return f"[#{entry.ref} {subject.clean_text(speaker)}] {clip(cleaned, room)}"


_REF = re.compile(r"#(\d{1,9})\b")


def find_brief_refs(subject: JudgeSubject) -> frozenset[int]:
    """Return the entries that the brief cites."""
    known = {entry.ref for entry in subject.thread.entries}
    return frozenset(int(ref) for ref in _REF.findall(subject.brief)) & known
