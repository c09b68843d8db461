"""The handoff document of an agent: where it is written, whether it is there, what it lacks."""

import os
import re
import stat
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from tasuki import harness as harnesses
from tasuki.draft import earlier_handoffs
from tasuki.draft.entries import users_words
from tasuki.draft.said import is_approval
from tasuki.errors import TasukiError
from tasuki.fleet.failures import StepFailed
from tasuki.fleet.prompts import render
from tasuki.fleet.rows import Agent, FleetHandoff
from tasuki.harness.typed_prompts import (
    GOAL_LABEL,
    NEXT_LABEL,
    OPERATOR_LABEL,
    asks_for_handoff_document,
)
from tasuki.plain import plain
from tasuki.vault.store import FULL

if TYPE_CHECKING:
    from tasuki.draft.statements import Statement
    from tasuki.evals.needed import Telling
    from tasuki.evals.quality import Quality
    from tasuki.model import Entry, Thread

MOST_BYTES = 1 << 20
"""Nothing larger is a handoff document."""
STILL_SECONDS = 0.3
"""How long a file must stay as it is to count as written."""
GROWING_SECONDS = 20.0
"""How long a file that still grows is waited for."""
ADDED = f"## {earlier_handoffs.ADDED}"
MARK = "<!-- tasuki: added for handoff {} -->"
MARK_OF_END = "<!-- tasuki: added at the end of the agent, for handoff {} -->"
REQUEST = "asked for"
ASKED = ("request", "decision")
"""Kinds of the user's sentences that are no wish, and that a successor must know."""
ENOUGH = 0.8
"""Share of the telling words of a request that one line of a document must hold to tell it."""
LAST_REQUESTS = 2
"""Requests of the user, the newest, that a document must tell; and the first one."""
MOST_ADDED, MOST_EARLIER = 24, 40
"""Lines of facts that are added to a document, and of what earlier handoffs tell."""
_SECOND = "%Y%m%dT%H%M%S"
_INVISIBLE = re.compile(r"<!--.*?(?:-->|\Z)|&(?:#?\w{1,8});", re.DOTALL)
"""Comments and entities of HTML: no page shows a word of them, or hardly one."""
_MARKS = re.compile(
    r"\s*(?:[>*+-]\s*(?:\[[ xX]?\])?|\d{1,3}[.)](?!\S)|`{3,}\w*|~{3,}\w*|#{1,6}(?:\s.*)?$)"
)
"""What begins a line without being said by it: marks of lists, quotes and code; a whole heading."""
_WORD = re.compile(r"[^\W_]")


def folder(root: Path, slug: str) -> Path:
    """Where the documents of a persona are."""
    return root / "data" / "personas" / slug / "handoffs"


def reserve(root: Path, slug: str, session: str, now: float, owner: str) -> Path:
    """A path that no other handoff has: `{YYYYMMDDTHHmmss}-{first 8 of the session}.md`, local time.

    It is reserved by a hidden file beside it that names its owner, who gets the same path again; two
    in one second get `-2`, `-3`. The document itself is not made: that it exists is the proof that
    the agent wrote it. Raises StepFailed.
    """
    where = folder(root, slug)
    try:
        where.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise _os_failure(error, where) from error
    home = os.path.join(os.path.realpath(root), "data", "personas", slug, "handoffs")
    if os.path.realpath(where) != home:
        raise StepFailed("document_unsafe", f"{where} leads to another folder.")
    for old in where.glob(".*.reserved"):
        if old.read_text("utf-8", "replace") == owner:
            return where / old.name[1:].removesuffix(".reserved")
    short = re.sub(r"[^A-Za-z0-9]", "", session)[:8] or "unknown"
    stem = f"{time.strftime(_SECOND, time.localtime(now))}-{short}"
    for number in range(1, 1000):
        path = where / (f"{stem}.md" if number == 1 else f"{stem}-{number}.md")
        if not os.path.lexists(path) and _reserved(path, owner):
            return path
    raise StepFailed("document_unsafe", f"There are a thousand documents {stem} in {where}.")


def _reserved(path: Path, owner: str) -> bool:
    try:
        number = os.open(_reservation(path), os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        with os.fdopen(number, "w", encoding="utf-8") as file:
            file.write(owner)
    except FileExistsError:
        return False
    except OSError as error:
        raise _os_failure(error, path) from error
    return True


def _reservation(path: Path) -> Path:
    return path.with_name(f".{path.name}.reserved")


def release(path: Path) -> None:
    """The document is there, or will never be: the path needs no reservation any more."""
    _reservation(path).unlink(missing_ok=True)


def _os_failure(error: OSError, path: Path) -> StepFailed:
    full = error.errno in FULL
    code = "no_room" if full else "document_unreadable"
    return StepFailed(code, f"{path}: {error.strerror}.")


# -- whether it is there ---------------------------------------------------------------


def is_ready(path: Path) -> bool:
    """Whether a document stands there that could be used."""
    try:
        _looked_at(path)
        return not is_blank(_content(path))
    except StepFailed:
        return False


def is_blank(text: str) -> bool:
    """Whether a document holds no letter and no digit beside headings, marks of lists, comments and entities."""
    return not any(
        _WORD.search(_MARKS.sub("", line)) for line in _INVISIBLE.sub("", text).splitlines()
    )


def read(path: Path) -> str:
    """The document, once it stays as it is. Raises StepFailed: missing, empty, growing, unsafe."""
    deadline = time.monotonic() + GROWING_SECONDS
    while time.time() - _looked_at(path) < STILL_SECONDS:
        if time.monotonic() > deadline:
            raise StepFailed("document_growing", f"{path} is still being written to.")
        time.sleep(0.05)
    text = _content(path)
    if is_blank(text):
        raise StepFailed("document_empty", f"The agent's turn ended, and {path} says nothing.")
    return text


def _looked_at(path: Path) -> float:
    """When it changed, in seconds since 1970 and not in the future. Raises StepFailed."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        raise StepFailed(
            "document_missing", f"The agent's turn ended, and there is no file {path}."
        ) from None
    except OSError as error:
        raise _os_failure(error, path) from error
    if not stat.S_ISREG(found.st_mode):
        raise StepFailed("document_unsafe", f"{path} is no ordinary file: nothing was read.")
    if found.st_size > MOST_BYTES:
        raise StepFailed(
            "document_unsafe", f"{path} is larger than {MOST_BYTES >> 20} MB; that is no document."
        )
    return min(found.st_mtime, time.time())


def _content(path: Path) -> str:
    try:
        number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
        with os.fdopen(number, "rb") as file:
            return file.read(MOST_BYTES + 1).decode("utf-8", "replace")
    except OSError as error:
        raise _os_failure(error, path) from error


# -- what it lacks ---------------------------------------------------------------------


def completed(
    path: Path, agent: Agent, handoff: FleetHandoff, received: Path | None = None
) -> tuple[str, ...]:
    """Check a document against the agent's thread and append what it lacks; notes for the operator.

    The agent's own words stay: what is missing goes under a heading of its own, once. `received` is
    the document that the agent itself was to begin with: what binds of it stays, whether it read it or not.
    """
    text = read(path)
    mark = MARK.format(handoff.id[:8])
    if mark in text:
        return ()
    try:
        found = _compare(text, _thread(agent), agent, received)
    except TasukiError as error:
        return (f"The document could not be checked against the thread: {error}",)
    quality = found.quality
    missing = [p for p in quality.facts.points if not p.ok]
    wrong = [p for p in quality.claims.points if not p.ok]
    lacking = [p.text for p in quality.sections.points if not p.ok]
    notes = [f"Quality of the document: {quality.total} of 100."]
    if lacking:
        notes.append(f"Sections it does not have: {', '.join(lacking)}.")
    if wrong:
        notes.append(f"Not in the thread ({len(wrong)}): " + "; ".join(p.text for p in wrong[:5]))
    lines = [_line(p.kind, p.text, p.refs) for p in missing[:MOST_ADDED]]
    lines += [_line(REQUEST, f'"{s.text}"', (s.ref,)) for s in found.requests]
    lines += [_line(earlier_handoffs.FROM_EARLIER, line) for line in found.earlier]
    if lines:
        _append(path, _addition(mark, lines, agent))
        notes.append(f"Facts that were added from the thread: {len(lines)}.")
    return tuple(notes)


def complete_at_end(path: Path, agent: Agent, handoff: FleetHandoff) -> tuple[str, ...]:
    """Append the facts that came after the document was asked for; notes for the operator.

    The user may have gone on while the agent ended that turn, or while no server ran. Call it once
    the agent has ended; a second call changes nothing. A document that is gone by then is a note.
    """
    mark = MARK_OF_END.format(handoff.id[:8])
    try:
        text = read(path)
        if mark in text:
            return ()
        thread = _thread(agent)
        asked = [
            e.ref for e in thread.entries if e.kind == "user" and asks_for_handoff_document(e.text)
        ]
        if not asked:
            return ()
        found = _compare(text, thread, agent, None, asked[-1])
        missing = [p for p in found.quality.facts.points if not p.ok][:MOST_ADDED]
        later = [
            _line(p.kind, p.text, p.refs) for p in missing if max(p.refs, default=0) > asked[-1]
        ]
        later += [_line(REQUEST, f'"{s.text}"', (s.ref,)) for s in found.requests]
        if not later:
            return ()
        _append(path, _addition(mark, later, agent))
    except (TasukiError, StepFailed) as error:
        return (f"What came after the document could not be added to it: {error}",)
    return (f"Facts that were added from after the document: {len(later)}.",)


def _thread(agent: Agent) -> "Thread":
    return harnesses.get(agent.harness).read(Path(agent.thread))


class _Comparison(Struct, frozen=True):
    """A document beside the thread of its agent."""

    quality: "Quality"
    requests: list["Statement"]
    """What the user asked for first and last, or after the document, where that does not tell it."""
    earlier: list[str]
    """The rulings of earlier handoffs that it does not tell."""


def _choose_requests(stated: Iterable["Statement"], since: int) -> list["Statement"]:
    """What the user asked for or decided: first and last, or all of it after the entry `since`."""
    asked = [s for s in stated if s.by_user and s.kind in ASKED and not is_approval(s.text)]
    if since:
        return [s for s in asked if s.ref > since][-MOST_ADDED:]
    return list(dict.fromkeys([*asked[:1], *asked[-LAST_REQUESTS:]]))


def _is_told(words: str, told: "Telling") -> bool:
    """Whether a document tells a request: half of its words are not enough, they are those of the topic."""
    return told.quoted(words) is not None or told.spoken(words, ENOUGH) is not None


def _compare(
    text: str, thread: "Thread", agent: Agent, received: Path | None, since: int = 0
) -> _Comparison:
    """Compare a document with the thread without the turns in which a document was asked for.

    So no document bears itself out; what the user said and the agent did between two attempts counts.
    """
    from tasuki.draft.authors.task import Task
    from tasuki.draft.facts import derive
    from tasuki.evals import quality
    from tasuki.evals.needed import Telling
    from tasuki.evals.written import parse
    from tasuki.model import Goal

    thread = replace(thread, entries=tuple(_without_asked_turns(thread.entries)))
    task = Task(thread, derive(thread, None, agent.goal), Goal(text=agent.goal), {})
    told = Telling(parse(text), agent.goal)
    scored = quality.score(text, thread, task, agent.goal)
    known = {point.text for point in scored.facts.points if not point.ok}
    requests = [
        s
        for s in _choose_requests(task.stated, since)
        if not _is_told(s.text, told) and f'"{s.text}"' not in known
    ]
    rulings = earlier_rulings(thread, received)
    return _Comparison(scored, requests, [line for line in rulings if told.said(line) is None])


def _without_asked_turns(entries: Iterable["Entry"]) -> Iterator["Entry"]:
    """Entries without the turns that wrote handoff documents; words of the user before one stay."""
    is_asked = False
    for entry in entries:
        if entry.kind == "user":
            is_asked = asks_for_handoff_document(entry.text)
        if not is_asked or (entry.kind == "user" and users_words(entry)):
            yield entry


def earlier_rulings(thread: "Thread", received: Path | None = None) -> list[str]:
    """What earlier handoffs tell of the user's wishes and of decisions, without secrets, at most 40 lines.

    They are those that the thread shows, and the document that its agent received.
    """
    from tasuki.draft.redact import Redactor

    redactor = Redactor()
    folded, _ = earlier_handoffs.fold_earlier_handoffs(thread.entries)
    told = [quote.text for quote in folded]
    if received and is_ready(received):
        told += earlier_handoffs.fold_document(_content(received))
    rulings = [text for text in dict.fromkeys(told) if earlier_handoffs.binding(text) in (0, 1)]
    rulings.sort(key=lambda text: earlier_handoffs.binding(text) or 0)
    return [redactor.redact(text) for text in rulings[:MOST_EARLIER]]


def note_gone(received: Path | None) -> tuple[str, ...]:
    """A note for the operator where the document that an agent itself was to begin with is gone."""
    if received is None or received.is_file():
        return ()
    return (
        f"The document that the agent began with is gone: {received}. What it said is handed on as far as "
        "the agent's thread shows it.",
    )


def _line(kind: str, text: str, refs: Sequence[int] = ()) -> str:
    where = f" [{', '.join(f'#{ref}' for ref in refs[:3])}]" if refs else ""
    return f"- {kind}: {text}{where}"


def _addition(mark: str, lines: Sequence[str], agent: Agent) -> str:
    head = (
        f"\n\n{mark}\n{ADDED}\n\n"
        f"{earlier_handoffs.ADDED_NOTE} ({agent.thread}) but not in the document; "
        "#n are its entries (`tasuki read`).\n\n"
    )
    return head + "\n".join(plain(line) for line in lines) + "\n"


def _append(path: Path, addition: str) -> None:
    """Put an addition behind a document: whole or not at all, and nothing before it changes."""
    try:
        _replace(path, path.read_bytes() + addition.encode(), stat.S_IMODE(path.lstat().st_mode))
    except OSError as error:
        raise _os_failure(error, path) from error


def write(path: Path, text: str) -> None:
    """Write a document that nobody else writes: whole or not at all. Raises StepFailed."""
    try:
        _replace(path, text.encode("utf-8", "replace"))
    except OSError as error:
        raise _os_failure(error, path) from error


def _replace(path: Path, content: bytes, mode: int = 0o600) -> None:
    new = path.with_name(f".{path.name}.new")
    try:
        with open(new, "wb") as file:
            os.fchmod(file.fileno(), mode)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, path)
    except OSError:
        new.unlink(missing_ok=True)
        raise


# -- what is typed ---------------------------------------------------------------------


def instruction(handoff: FleetHandoff, path: Path) -> str:
    """What the outgoing agent is asked for."""
    return render(
        "instruction",
        reason=plain(handoff.reason),
        path=path,
        persona=handoff.persona,
        reference=reference(handoff),
    )


def injection(handoff: FleetHandoff, predecessor: Agent, path: Path) -> str:
    """What the successor begins with, after its skill."""
    about = [
        *([f"{GOAL_LABEL} {plain(predecessor.goal)}"] if predecessor.goal else []),
        *([f"{NEXT_LABEL} {plain(handoff.goal)}"] if handoff.goal else []),
        *([f"{OPERATOR_LABEL} {plain(handoff.context)}"] if handoff.context else []),
    ]
    return render(
        "injection",
        predecessor=predecessor.id,
        persona=handoff.persona,
        session=predecessor.session[:8] or "unknown",
        path=path,
        reason=plain(handoff.reason),
        about="".join(f"{line}\n" for line in about),
        short=handoff.id[:8],
        reference=handoff.id,
    )


def reference(handoff: FleetHandoff) -> str:
    """The words by which a turn is known as the one that was asked for, in this attempt."""
    return f"{handoff.id}/{handoff.attempt}"


def acknowledgement(handoff: FleetHandoff) -> str:
    """The line that the successor's first answer begins with."""
    return f"handoff {handoff.id[:8]}"
