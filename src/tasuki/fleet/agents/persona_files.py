"""What the agents of a persona leave: handoff documents, and lessons for its experience.

They write in the folder of the persona, so files may have any name, size and kind; no link is
followed. An agent proposes lessons in its document, and the operator accepts or drops them. Only
accepted ones get into `experience.md`, which each of its agents receives.
"""

import os
import re
import stat
import time
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Literal

import msgspec
import sqlalchemy as sa
from msgspec import Struct

from tasuki.draft.redact.redactor import Redactor
from tasuki.errors import HandoffNotFound, NoLongerPossible, NotPossible, StoreFailed
from tasuki.files import explain_error
from tasuki.fleet.agents import personas
from tasuki.fleet.handoff import documents
from tasuki.fleet.store import log, queries, tables
from tasuki.fleet.store.database import FleetDatabase
from tasuki.fleet.store.models import FleetHandoff, PersonaLesson
from tasuki.patterns import compile_pattern
from tasuki.text_safety import shorten_to_line

MOST_LISTED = 500
"""Most documents that are listed; the newest."""


class DocumentFile(Struct, frozen=True):
    """A file of `handoffs/`. `changed_at` is in seconds since 1970."""

    name: str
    path: str
    bytes: int
    changed_at: float


def list_documents(root: Path, slug: str) -> list[DocumentFile]:
    """List the handoff documents of a persona, newest first, at most `MOST_LISTED`.

    Without a folder there are none. Raises PersonaNotFound; StoreFailed where they cannot be
    listed.
    """
    folder = personas.get_persona_folder(root, slug) / personas.HANDOFFS
    try:
        if not stat.S_ISDIR(os.lstat(folder).st_mode):
            raise StoreFailed(
                f"{folder} is not a folder. Create a folder there, for its documents."
            )
        with os.scandir(folder) as entries:
            listed = [one for entry in entries if (one := _parse_entry(entry))]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StoreFailed(f"{folder} cannot be listed: {explain_error(error)}.") from error
    return sorted(listed, key=lambda one: (-one.changed_at, one.name))[:MOST_LISTED]


def find_document(root: Path, slug: str, name: str) -> DocumentFile:
    """Find a document of a persona. Raises PersonaNotFound, StoreFailed, HandoffNotFound."""
    for entry in list_documents(root, slug):
        if entry.name == name:
            return entry
    raise HandoffNotFound(f"{slug} has no document {shorten_to_line(name, 80)!r}.")


def _parse_entry(entry: "os.DirEntry[str]") -> DocumentFile | None:
    """Parse a folder entry; None for links, other kinds, and names that cannot be sent."""
    if not entry.name.endswith(".md") or not entry.name.isprintable():
        return None
    try:
        status = entry.stat(follow_symlinks=False)
    except OSError:
        return None
    if not stat.S_ISREG(status.st_mode):
        return None
    return DocumentFile(entry.name, entry.path, status.st_size, status.st_mtime)


LessonOrder = Literal["accept", "drop"]
MOST_LESSONS, MOST_LESSON_CHARACTERS = 10, 400
"""Lessons of one document, and characters of one."""
_HEADING = compile_pattern(r"\s{0,3}#{1,6}\s+(?P<title>\S.*)")
_LESSONS = compile_pattern(r"lessons\b", re.IGNORECASE)
_BULLET = compile_pattern(r"\s{0,3}(?:[-*+]|\d{1,2}[.)])\s+(?P<text>\S.*)")
_NO_LESSON = compile_pattern(r"\W*(?:none|n/?a|nothing|no lessons?)?\W*", re.IGNORECASE)
_NO_WORD = compile_pattern(r"[\W_]+")


def find_lessons(document: str) -> list[str]:
    """Find the lessons that a handoff document proposes, one line each, without secrets."""
    redactor = Redactor()
    own = document.partition(documents.ADDED)[0]
    texts = (redactor.redact_line(text, MOST_LESSON_CHARACTERS) for text in _find_items(own))
    by_words: dict[str, str] = {}
    for text in texts:
        if not _NO_LESSON.fullmatch(text):
            by_words.setdefault(_normalize_text(text), text)
    return list(by_words.values())[:MOST_LESSONS]


def _find_items(document: str) -> Iterator[str]:
    """Yield list items under the heading of lessons; a continued line belongs to its item."""
    is_inside, item = False, ""
    for line in [*document.splitlines(), "# end"]:
        heading, bullet = _HEADING.fullmatch(line), _BULLET.fullmatch(line)
        if item and (heading or bullet or not line.strip()):
            yield item
            item = ""
        if heading:
            is_inside = bool(_LESSONS.match(heading["title"]))
        elif is_inside and bullet:
            item = bullet["text"]
        elif item:
            item = f"{item} {line.strip()}"


def propose_lessons(
    database: FleetDatabase, root: Path, handoff: FleetHandoff, document: str
) -> int:
    """Record the lessons of a document that were not proposed before; return how many."""
    if not (proposals := find_lessons(document)):
        return 0
    lessons = tables.lessons
    with database.write() as connection:
        known = [lesson.text for lesson in _read_lessons(connection, handoff.persona)]
        known += _strip_dates(personas.read_experience(root, handoff.persona))
        known_keys = set(map(_normalize_text, known))
        new = [text for text in proposals if _normalize_text(text) not in known_keys]
        for text in new:
            values = {"persona": handoff.persona, "handoff_id": handoff.id, "agent_id": handoff.agent_id, "text": text,
                      "state": "proposed", "proposed_at": time.time()}  # fmt: skip
            connection.execute(sa.insert(lessons).values(**values))
    return len(new)


def list_lessons(
    database: FleetDatabase, slug: str, *, proposed: bool = False
) -> list[PersonaLesson]:
    """List lessons, oldest first; with `proposed` those to be decided. Raises PersonaNotFound."""
    with database.read() as connection:
        queries.load_persona(connection, slug)
        return [x for x in _read_lessons(connection, slug) if not proposed or x.state == "proposed"]


def decide_lessons(
    database: FleetDatabase, root: Path, slug: str, order: LessonOrder, ids: Collection[int] = ()
) -> list[PersonaLesson]:
    """Accept or drop proposed lessons of a persona, all of them without ids; return them.

    Accepted ones are added to `experience.md`, with their date. Raises PersonaNotFound,
    StoreFailed; NotPossible for an id that is not to be decided, and where `experience.md`
    would be too long.
    """
    lessons, now = tables.lessons, time.time()
    with database.write(alone=True) as connection:
        queries.load_persona(connection, slug)
        proposed = [x for x in _read_lessons(connection, slug) if x.state == "proposed"]
        if unknown := sorted(set(ids) - {x.id for x in proposed}):
            raise NotPossible(
                f"Lesson {unknown[0]} of {slug} is not waiting for a decision. List those that are: tasuki persona lessons {slug}"
            )
        wanted = [x for x in proposed if not ids or x.id in ids]
        state = "accepted" if order == "accept" else "dropped"
        where = lessons.c.id.in_([x.id for x in wanted])
        connection.execute(sa.update(lessons).where(where).values(state=state, decided_at=now))
        if wanted:
            text = f"{len(wanted)} lessons of {slug} were {state}."
            log.note(connection, "persona", text, data={"slug": slug})
        if order == "accept":
            _add_to_experience(root, slug, wanted, now)
    return [msgspec.structs.replace(x, state=state, decided_at=now) for x in wanted]


def reopen_lessons(database: FleetDatabase, slug: str, dropped: Collection[PersonaLesson]) -> None:
    """Let dropped lessons be decided again. Raises NoLongerPossible if one was decided since."""
    lessons = tables.lessons
    with database.write(alone=True) as connection:
        for lesson in dropped:
            where = (lessons.c.id == lesson.id) & (lessons.c.state == "dropped")
            where &= lessons.c.decided_at == lesson.decided_at
            values = {"state": "proposed", "decided_at": None}
            if not connection.execute(sa.update(lessons).where(where).values(values)).rowcount:
                raise NoLongerPossible(f"Lesson {lesson.id} of {slug} was decided otherwise since.")
        text = f"{len(dropped)} lessons of {slug} are to be decided again."
        log.note(connection, "persona", text, data={"slug": slug})


def _add_to_experience(root: Path, slug: str, accepted: list[PersonaLesson], now: float) -> None:
    """Add lessons that are not there already. Raises NotPossible where there is no room."""
    old = personas.read_experience(root, slug)
    known_keys = {_normalize_text(line) for line in _strip_dates(old)}
    day = time.strftime("%Y-%m-%d", time.localtime(now))
    lines = [f"- {day}: {x.text}" for x in accepted if _normalize_text(x.text) not in known_keys]
    if not lines:
        return
    text = "\n".join([*([old.rstrip()] if old.strip() else []), *lines]) + "\n"
    size, path = len(text.encode()), personas.get_persona_folder(root, slug) / personas.EXPERIENCE
    if size > personas.MOST_EXPERIENCE:
        raise NotPossible(
            f"{path} is full: it would have {size} bytes, and agents are given {personas.MOST_EXPERIENCE}. "
            "Shorten it, or drop some lessons; nothing was added."
        )
    personas.write_experience(root, slug, text)


def _read_lessons(connection: sa.Connection, slug: str) -> list[PersonaLesson]:
    table = tables.lessons
    query = sa.select(table).where(table.c.persona == slug).order_by(table.c.id)
    return queries.load_rows(PersonaLesson, connection, query)


def _strip_dates(experience: str) -> Iterator[str]:
    """Yield the lines of an experience without their list marks and dates."""
    for line in experience.splitlines():
        yield re.sub(r"^\s*[-*+]?\s*(?:\d{4}-\d\d-\d\d:)?\s*", "", line)


def _normalize_text(text: str) -> str:
    """Reduce a lesson to its words; two lessons with the same words are the same."""
    return _NO_WORD.sub(" ", text).strip().casefold()
