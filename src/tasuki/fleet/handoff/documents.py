"""The handoff document of an agent: its path, whether it exists, and what it lacks."""

import os
import re
import stat
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from tasuki.draft.facts import earlier_handoffs
from tasuki.draft.redact.quotes import QuoteRedactor
from tasuki.draft.redact.redactor import MARK as SECRET_MARK
from tasuki.draft.redact.redactor import redact
from tasuki.draft.text.entries import extract_user_words
from tasuki.draft.text.language_cues import says_nothing
from tasuki.errors import TasukiError
from tasuki.files import FULL, replace_file
from tasuki.fleet.store.failures import StepFailed
from tasuki.fleet.store.models import FleetAgent, FleetHandoff
from tasuki.patterns import compile_pattern
from tasuki.text_safety import clean_text
from tasuki.threads import catalog
from tasuki.typed_prompts import is_document_request

if TYPE_CHECKING:
    from tasuki.draft.facts.statements import Statement
    from tasuki.draft.quality.score import DocumentQuality
    from tasuki.model import Entry, Thread

MOST_BYTES = 1 << 20
"""Nothing larger is a handoff document."""
STILL_SECONDS = 0.3
"""How long a file must stay as it is to count as written."""
GROWING_SECONDS = 20.0
"""How long a file that still grows is waited for."""
ADDED = f"## {earlier_handoffs.ADDED_HEADING}"
MARK = "<!-- tasuki: added for handoff {} -->"
END_MARK = "<!-- tasuki: added at the end of the agent, for handoff {} -->"
REQUEST = "asked for"
REQUEST_KINDS = ("request", "decision")
"""Kinds of the user's sentences that a successor must know, although they are no wishes."""
ENOUGH_SHARE = 0.8
"""Share of the significant words of a request that one line of a document must hold to cover it;
half of them are only the words of its topic."""
LAST_REQUESTS = 2
"""The number of newest requests that a document must cover, besides the first one."""
MOST_ADDED, MOST_EARLIER = 24, 40
"""Most lines of facts, and of earlier handoffs' rulings, that are added to a document."""
QUALITY, LACKING, UNFOUND, COMPLETED = (
    "Quality of the document: ", "Missing sections: ", "Not in the thread (", "Facts added from the thread: ",
)  # fmt: skip
"""How the notes about a checked document begin."""
POOR_QUALITY = 50
"""Quality of a document, of 100, under which a handoff is shown as one to look at."""
CHECKS = (
    "its sections", "the facts of the thread", "claims that the thread does not have",
    "your requests", "rulings of earlier handoffs",
)  # fmt: skip
"""What a document is checked for."""
_TIME_FORMAT = "%Y%m%dT%H%M%S"
_INVISIBLE = compile_pattern(r"<!--.*?(?:-->|\Z)|&(?:#?\w{1,8});", re.DOTALL)
"""Comments and entities of HTML: a page shows no word of them, or hardly one."""
_MARKS = compile_pattern(
    r"\s*(?:[>*+-]\s*(?:\[[ xX]?\])?|\d{1,3}[.)](?!\S)|`{3,}\w*|~{3,}\w*|#{1,6}(?:\s.*)?$)"
)
"""Marks that begin a line and are no words: of lists, quotes and code; also a whole heading."""
_WORD = compile_pattern(r"[^\W_]")


def get_documents_folder(root: Path, slug: str) -> Path:
    """Return the folder of a persona's documents."""
    return root / "data" / "personas" / slug / "handoffs"


def reserve_path(root: Path, slug: str, session: str, now: float, owner: str) -> Path:
    """Reserve a path for a handoff's document: `{YYYYMMDDTHHmmss}-{first 8 of the session}.md`.

    The time is local. A hidden file next to the path names its owner and reserves it; the same
    owner gets the same path again. Two in one second get `-2`, `-3`. The document itself is not
    created: that it exists is the proof that the agent wrote it. Raises StepFailed.
    """
    documents = get_documents_folder(root, slug)
    try:
        documents.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise _convert_os_error(error, documents) from error
    expected_folder = os.path.join(os.path.realpath(root), "data", "personas", slug, "handoffs")
    if os.path.realpath(documents) != expected_folder:
        raise StepFailed("document_unsafe", f"{documents} leads to another folder.")
    for old in documents.glob(".*.reserved"):
        if old.read_text("utf-8", "replace") == owner:
            return documents / old.name[1:].removesuffix(".reserved")
    short = re.sub(r"[^A-Za-z0-9]", "", session)[:8] or "unknown"
    stem = f"{time.strftime(_TIME_FORMAT, time.localtime(now))}-{short}"
    for number in range(1, 1000):
        path = documents / (f"{stem}.md" if number == 1 else f"{stem}-{number}.md")
        if not os.path.lexists(path) and _create_reservation(path, owner):
            return path
    raise StepFailed("document_unsafe", f"There are a thousand documents {stem} in {documents}.")


def _create_reservation(path: Path, owner: str) -> bool:
    try:
        number = os.open(_get_reservation_path(path), os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        with os.fdopen(number, "w", encoding="utf-8") as file:
            file.write(owner)
    except FileExistsError:
        return False
    except OSError as error:
        raise _convert_os_error(error, path) from error
    return True


def _get_reservation_path(path: Path) -> Path:
    return path.with_name(f".{path.name}.reserved")


def release_path(path: Path) -> None:
    """Remove the reservation: the document exists, or never will."""
    _get_reservation_path(path).unlink(missing_ok=True)


def _convert_os_error(error: OSError, path: Path) -> StepFailed:
    full = error.errno in FULL
    code = "no_room" if full else "document_unreadable"
    return StepFailed(code, f"{path}: {error.strerror}.")


def is_document_ready(path: Path) -> bool:
    """Whether there is a usable document at the path."""
    with suppress(StepFailed):
        _check_file(path)
        return not is_blank(_read_content(path))
    return False


def is_blank(text: str) -> bool:
    """Whether it has no letter or digit besides headings, list marks, comments and entities."""
    return not any(
        _WORD.search(_MARKS.sub("", line)) for line in _INVISIBLE.sub("", text).splitlines()
    )


def read_document(path: Path) -> str:
    """Read a document that no longer changes. Raises StepFailed: missing, empty, growing, unsafe."""
    deadline = time.monotonic() + GROWING_SECONDS
    while time.time() - _check_file(path) < STILL_SECONDS:
        if time.monotonic() > deadline:
            raise StepFailed("document_growing", f"{path} is still being written to.")
        time.sleep(0.05)
    text = _read_content(path)
    if is_blank(text):
        raise StepFailed("document_empty", f"The agent's turn ended, and {path} has no content.")
    return text


def _check_file(path: Path) -> float:
    """Return when it changed, in seconds since 1970, never in the future. Raises StepFailed."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        raise StepFailed(
            "document_missing", f"The agent's turn ended, and there is no file {path}."
        ) from None
    except OSError as error:
        raise _convert_os_error(error, path) from error
    if not stat.S_ISREG(status.st_mode):
        raise StepFailed("document_unsafe", f"{path} is not a regular file: nothing was read.")
    if status.st_size > MOST_BYTES:
        raise StepFailed(
            "document_unsafe",
            f"{path} is larger than {MOST_BYTES >> 20} MB, too large for a document.",
        )
    return min(status.st_mtime, time.time())


def _read_content(path: Path) -> str:
    try:
        number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
        with os.fdopen(number, "rb") as file:
            return file.read(MOST_BYTES + 1).decode("utf-8", "replace")
    except OSError as error:
        raise _convert_os_error(error, path) from error


def complete_document(
    path: Path, agent: FleetAgent, handoff: FleetHandoff, received: Path | None = None
) -> tuple[str, ...]:
    """Check a document against the agent's thread and append what it lacks; return notes.

    The agent's own words stay, but for secrets: what is missing goes under a separate heading, once.
    `received` is the document that the agent itself began with: what is binding in it stays,
    whether the agent read it or not. The notes are for the operator.
    """
    text = read_document(path)
    mark = MARK.format(handoff.id[:8])
    if mark in text:
        return ()
    try:
        thread = _read_thread(agent)
        comparison = _compare_document(text, thread, agent, received)
    except TasukiError as error:
        notes = [f"The document could not be checked against the thread: {error}"]
        return _rewrite_document(path, "", None, notes)
    quality = comparison.quality
    missing = [p for p in quality.facts.points if not p.ok]
    wrong = [p for p in quality.claims.points if not p.ok]
    lacking = [p.text for p in quality.sections.points if not p.ok]
    notes = [f"{QUALITY}{quality.total} of 100."]
    if lacking:
        notes.append(f"{LACKING}{', '.join(lacking)}.")
    if wrong:
        notes.append(f"{UNFOUND}{len(wrong)}): " + "; ".join(p.text for p in wrong[:5]))
    lines = [_format_line(p.kind, p.text, p.refs) for p in missing[:MOST_ADDED]]
    lines += [_format_line(REQUEST, f'"{s.text}"', (s.ref,)) for s in comparison.requests]
    lines += [_format_line(earlier_handoffs.FROM_EARLIER, line) for line in comparison.earlier]
    if lines:
        notes.append(f"{COMPLETED}{len(lines)}.")
    addition = _format_addition(mark, lines, agent) if lines else ""
    return _rewrite_document(path, addition, thread, notes)


def read_quality(handoff: FleetHandoff) -> int | None:
    """Read the quality of a document from the notes of its handoff; None where it was not judged."""
    noted = (note.removeprefix(QUALITY) for note in handoff.notes if note.startswith(QUALITY))
    return next((int(number) for note in noted if (number := note.split(" ")[0]).isdigit()), None)


def complete_at_end(path: Path, agent: FleetAgent, handoff: FleetHandoff) -> tuple[str, ...]:
    """Append the facts that came after the document was requested; return notes.

    The user may have worked on while the agent ended that turn, or while no server ran. Call it
    once the agent has ended; a second call changes nothing. A document that is gone by then is
    noted. The notes are for the operator.
    """
    mark = END_MARK.format(handoff.id[:8])
    try:
        text = read_document(path)
        if mark in text:
            return ()
        thread = _read_thread(agent)
        request_refs = [
            e.ref for e in thread.entries if e.kind == "user" and is_document_request(e.text)
        ]
        if not request_refs:
            return ()
        comparison = _compare_document(text, thread, agent, None, request_refs[-1])
        missing = [p for p in comparison.quality.facts.points if not p.ok][:MOST_ADDED]
        later = [
            _format_line(p.kind, p.text, p.refs)
            for p in missing
            if max(p.refs, default=0) > request_refs[-1]
        ]
        later += [_format_line(REQUEST, f'"{s.text}"', (s.ref,)) for s in comparison.requests]
        notes = [f"Facts added that came after the document: {len(later)}."] if later else []
        addition = _format_addition(mark, later, agent) if later else ""
        return _rewrite_document(path, addition, thread, notes)
    except (TasukiError, StepFailed) as error:
        return (f"What came after the document could not be added to it: {redact(str(error))[0]}",)


def _read_thread(agent: FleetAgent) -> "Thread":
    path = Path(agent.thread)
    return catalog.get_reader(agent.harness, path).read(path)


class _DocumentComparison(Struct, frozen=True):
    """A document compared with the thread of its agent."""

    quality: "DocumentQuality"
    requests: list["Statement"]
    """The user's first and last requests, or those after the document, that it does not cover."""
    earlier: list[str]
    """The rulings of earlier handoffs that the document does not cover."""


def _choose_requests(stated: Iterable["Statement"], since: int) -> list["Statement"]:
    """Choose the user's first and last requests, or all of them after the entry `since`."""
    requests = [
        s for s in stated if s.by_user and s.kind in REQUEST_KINDS and not says_nothing(s.text)
    ]
    if since:
        return [s for s in requests if s.ref > since][-MOST_ADDED:]
    return list(dict.fromkeys([*requests[:1], *requests[-LAST_REQUESTS:]]))


def _compare_document(
    text: str, thread: "Thread", agent: FleetAgent, received: Path | None, since: int = 0
) -> _DocumentComparison:
    """Compare a document with the thread without the turns in which a document was requested.

    So no document is its own evidence. What the user said and the agent did between two
    attempts counts.
    """
    from tasuki.draft.authors.author import AuthorTask
    from tasuki.draft.facts.derive import derive_facts
    from tasuki.draft.quality import score
    from tasuki.draft.quality.document_reader import parse_handoff_document
    from tasuki.draft.quality.needed_facts import DocumentLookup
    from tasuki.model import Goal

    thread = replace(thread, entries=tuple(_drop_document_turns(thread.entries)))
    task = AuthorTask(thread, derive_facts(thread, None, agent.goal), Goal(text=agent.goal), {})
    telling = DocumentLookup(parse_handoff_document(text), agent.goal)
    scored = score.score_document(text, thread, task, agent.goal)
    missing_facts = {point.text for point in scored.facts.points if not point.ok}
    requests = [
        s
        for s in _choose_requests(task.open_statements, since)
        if telling.find_quoted(s.text) is None
        and telling.find_spoken(s.text, ENOUGH_SHARE) is None
        and f'"{s.text}"' not in missing_facts
    ]
    rulings = collect_earlier_rulings(thread, received)
    earlier = [line for line in rulings if telling.find_said(line) is None]
    return _DocumentComparison(scored, requests, earlier)


def _drop_document_turns(entries: Iterable["Entry"]) -> Iterator["Entry"]:
    """Yield entries without the turns that wrote documents; words of the user before one stay."""
    is_asked = False
    for entry in entries:
        if entry.kind == "user":
            is_asked = is_document_request(entry.text)
        if not is_asked or (entry.kind == "user" and extract_user_words(entry)):
            yield entry


def collect_earlier_rulings(thread: "Thread", received: Path | None = None) -> list[str]:
    """Collect the user's wishes and the decisions of earlier handoffs, at most 40 lines.

    They come from the thread, and from the document that its agent received. Secrets are
    removed.
    """
    redactor = QuoteRedactor(thread)
    folded, _ = earlier_handoffs.fold_earlier_handoffs(thread.entries)
    quotes = [quote.text for quote in folded]
    if received and is_document_ready(received):
        quotes += earlier_handoffs.fold_document(_read_content(received))
    rulings = [text for text in dict.fromkeys(quotes) if earlier_handoffs.rank_line(text) in (0, 1)]
    rulings.sort(key=lambda text: earlier_handoffs.rank_line(text) or 0)
    return [redactor.redact_document(text) for text in rulings[:MOST_EARLIER]]


def note_missing_document(received: Path | None) -> tuple[str, ...]:
    """Return a note for the operator where the document that an agent began with is gone."""
    if received is None or received.is_file():
        return ()
    return (
        f"The document that the agent began with is gone: {received}. Its content is passed on as far as "
        "the agent's thread shows it.",
    )


def _format_line(kind: str, text: str, refs: Sequence[int] = ()) -> str:
    source = f" [{', '.join(f'#{ref}' for ref in refs[:3])}]" if refs else ""
    return f"- {kind}: {text}{source}"


def _format_addition(mark: str, lines: Sequence[str], agent: FleetAgent) -> str:
    head = (
        f"\n\n{mark}\n{ADDED}\n\n"
        f"{earlier_handoffs.ADDED_NOTE} ({agent.thread}) but not in the document; "
        "#n are its entries (`tasuki read`).\n\n"
    )
    return head + "\n".join(clean_text(line) for line in lines) + "\n"


def _rewrite_document(
    path: Path, addition: str, thread: "Thread | None", notes: Sequence[str]
) -> tuple[str, ...]:
    """Append to a document, whole or not at all; return the notes, all without secrets."""
    redactor = QuoteRedactor(thread)
    try:
        content = path.read_bytes()
        text = content.decode("utf-8", "replace")
        clean = redactor.redact_document(text)
        found = len(SECRET_MARK.findall(clean)) - len(SECRET_MARK.findall(text))
        if addition or clean != text:
            content = content if clean == text else clean.encode()
            added = redactor.redact_quote(addition) if addition else ""
            replace_file(path, content + added.encode(), stat.S_IMODE(path.lstat().st_mode))
    except OSError as error:
        raise _convert_os_error(error, path) from error
    more = [f"Secrets redacted in the document: {found}."] if found > 0 else []
    return tuple(redactor.redact(note) for note in (*notes, *more))


def write_document(path: Path, text: str) -> None:
    """Write a document that no agent writes: whole or not at all. Raises StepFailed."""
    try:
        replace_file(path, text.encode("utf-8", "replace"))
    except OSError as error:
        raise _convert_os_error(error, path) from error
