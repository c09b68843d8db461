"""Lessons for good: an agent proposes them in its handoff document, the operator accepts or drops them.

Only what is accepted gets into the persona's `experience.md`, which each of its agents is given.
"""

import re
import time
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Literal

import msgspec
import sqlalchemy as sa

from tasuki.draft.redact import Redactor
from tasuki.errors import NotPossible
from tasuki.fleet import documents, log, personas, reading, tables
from tasuki.fleet.database import Database
from tasuki.fleet.rows import FleetHandoff, Lesson
from tasuki.plain import one_line

Order = Literal["accept", "drop"]
MOST, LONGEST = 10, 400
"""Lessons of one document, and characters of one."""
_HEADING = re.compile(r"\s{0,3}#{1,6}\s+(?P<title>\S.*)")
_LESSONS = re.compile(r"lessons\b", re.IGNORECASE)
_BULLET = re.compile(r"\s{0,3}(?:[-*+]|\d{1,2}[.)])\s+(?P<text>\S.*)")
_NONE = re.compile(r"\W*(?:none|n/?a|nothing|no lessons?)?\W*", re.IGNORECASE)
_NO_WORD = re.compile(r"[\W_]+")


def find_lessons(document: str) -> list[str]:
    """The lessons that a handoff document proposes, one line each, without secrets."""
    redactor = Redactor()
    own = document.partition(documents.ADDED)[0]
    found = (one_line(redactor.redact(text), LONGEST) for text in _items(own))
    by_words: dict[str, str] = {}
    for text in found:
        if not _NONE.fullmatch(text):
            by_words.setdefault(_key(text), text)
    return list(by_words.values())[:MOST]


def _items(document: str) -> Iterator[str]:
    """List items under the heading of lessons; what goes on in the next line belongs to its item."""
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


def propose_lessons(database: Database, root: Path, of: FleetHandoff, document: str) -> int:
    """Write down what a document proposes and nobody proposed before; how many those are."""
    if not (found := find_lessons(document)):
        return 0
    lessons = tables.lessons
    with database.write() as connection:
        known = {_key(lesson.text) for lesson in _read(connection, of.persona)}
        known |= {_key(line) for line in _dated_off(personas.experience_text(root, of.persona))}
        new = [text for text in found if _key(text) not in known]
        for text in new:
            values = {"persona": of.persona, "handoff_id": of.id, "agent_id": of.agent_id, "text": text,
                      "state": "proposed", "proposed_at": time.time()}  # fmt: skip
            connection.execute(sa.insert(lessons).values(**values))
    return len(new)


def list_lessons(database: Database, slug: str, *, proposed: bool = False) -> list[Lesson]:
    """The lessons of a persona, the oldest first; with `proposed` those to be decided. Raises PersonaNotFound."""
    with database.read() as connection:
        reading.persona_in(connection, slug)
        return [x for x in _read(connection, slug) if not proposed or x.state == "proposed"]


def decide_lessons(
    database: Database, root: Path, slug: str, order: Order, ids: Collection[int] = ()
) -> list[Lesson]:
    """Accept or drop proposed lessons of a persona, all of them without ids; those that were decided.

    Accepted ones are added to `experience.md`, with their date. Raises PersonaNotFound, StoreFailed,
    NotPossible for an id that is not to be decided, and where `experience.md` would be too long.
    """
    lessons, now = tables.lessons, time.time()
    with database.write() as connection:
        reading.persona_in(connection, slug)
        proposed = [x for x in _read(connection, slug) if x.state == "proposed"]
        if unknown := sorted(set(ids) - {x.id for x in proposed}):
            raise NotPossible(
                f"Lesson {unknown[0]} of {slug} is not to be decided. Which are: tasuki persona lessons {slug}"
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


def _add_to_experience(root: Path, slug: str, wanted: list[Lesson], now: float) -> None:
    """Add lessons that do not stand there already. Raises NotPossible where there is no room."""
    old = personas.experience_text(root, slug)
    known = {_key(line) for line in _dated_off(old)}
    day = time.strftime("%Y-%m-%d", time.localtime(now))
    lines = [f"- {day}: {x.text}" for x in wanted if _key(x.text) not in known]
    if not lines:
        return
    text = "\n".join([*([old.rstrip()] if old.strip() else []), *lines]) + "\n"
    size, path = len(text.encode()), personas.folder(root, slug) / personas.EXPERIENCE
    if size > personas.MOST_EXPERIENCE:
        raise NotPossible(
            f"{path} is full: it would have {size} bytes, and agents are given {personas.MOST_EXPERIENCE}. "
            "Shorten it, or drop some lessons; nothing was added."
        )
    personas.write_experience(root, slug, text)


def _read(connection: sa.Connection, slug: str) -> list[Lesson]:
    table = tables.lessons
    query = sa.select(table).where(table.c.persona == slug).order_by(table.c.id)
    return [
        msgspec.convert({str(name): row[name] for name in row}, Lesson)
        for row in connection.execute(query).mappings()
    ]


def _dated_off(experience: str) -> Iterator[str]:
    """The lines of an experience without their marks and dates."""
    for line in experience.splitlines():
        yield re.sub(r"^\s*[-*+]?\s*(?:\d{4}-\d\d-\d\d:)?\s*", "", line)


def _key(text: str) -> str:
    """By which two lessons are the same: their words."""
    return _NO_WORD.sub(" ", text).strip().casefold()
