"""The playground: one draft taken apart, two drafts side by side, and notes of what a brief lacked."""

import errno
import fcntl
import json
import os
import re
import secrets
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from functools import singledispatch
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from tasuki.config import Loaded, Settings
from tasuki.data_folder import data_folder
from tasuki.draft import pipeline
from tasuki.draft.authors.task import Task
from tasuki.draft.brief import sections
from tasuki.draft.commands import short_command
from tasuki.draft.facts import derive
from tasuki.draft.ladder import RUNGS
from tasuki.draft.rank import Relevance
from tasuki.draft.statements import Statement
from tasuki.draft.text import one_line
from tasuki.errors import StoreFailed, UsageError
from tasuki.model import CommandFact, Draft, FileFact, Lesson, tokens
from tasuki.setting import snake, unknown_key

Item = Statement | FileFact | CommandFact | Lesson
Place = Literal["brief", "left out", "taken back", ""]
"""Where a candidate ended: empty for one that was not offered, as too weak or a repetition."""

NOTES = "eval-notes.toml"
"""Name of the file of notes in the data folder."""
MAX_NOTES = 16 << 20
"""Bytes of a file of notes; a longer one is none."""
_HEAD = (
    "# What briefs lacked, noted with: tasuki eval play THREAD GOAL --note TEXT\n"
    "# Fill in expected_context, and a note can become a case of `tasuki eval cases`.\n"
)


class Candidate(Struct, frozen=True):
    """A fact that could stand in a brief, with its worth and what the worth is made of."""

    text: str
    what: str
    """Kind of the sentence and who said it, or what was done to the file."""
    refs: tuple[int, ...]
    score: float
    place: Place
    features: dict[str, float]
    adds: dict[str, float] = {}
    """What each term adds to the score, where it is a sum."""


class Compared(Struct, frozen=True):
    """The lines of two briefs, each with the heading it stands under."""

    only_a: tuple[tuple[str, str], ...]
    only_b: tuple[tuple[str, str], ...]
    both: tuple[tuple[str, str], ...]


class Note(Struct, frozen=True):
    """What a brief lacked, in somebody's words; it becomes a case."""

    note: str
    goal: str
    thread: str
    harness: str
    entries: int
    handoff: str
    author: str


# -- candidates ------------------------------------------------------------------------


@singledispatch
def features(item: object, relevance: Relevance) -> dict[str, float]:
    """What the score of a candidate is made of, by name."""
    raise TypeError(f"{type(item).__name__} is no candidate")


@features.register
def _of_statement(item: Statement, relevance: Relevance) -> dict[str, float]:
    found = {
        "overlap": relevance.overlap(item.text),
        "recency": relevance.recency(item.ref),
        "rarity": relevance.rarity(item.text),
        "weight": item.weight,
    }
    if item.kind == "next":
        found["freshness"] = relevance.freshness(item.ref)
    return found


@features.register
def _of_file(item: FileFact, relevance: Relevance) -> dict[str, float]:
    return relevance.files.terms(item)


@features.register
def _of_command(item: CommandFact, relevance: Relevance) -> dict[str, float]:
    return {
        "overlap": relevance.overlap(item.command),
        "recency": relevance.recency(item.refs[-1]),
        "runs": len(item.refs),
        "check": float(bool(item.check)),
        "ok": float(item.ok),
    }


@features.register
def _of_lesson(item: Lesson, relevance: Relevance) -> dict[str, float]:
    return {
        "overlap": relevance.overlap(f"{item.command} {item.error} {item.words}"),
        "recency": relevance.recency(item.passed or item.failed),
        "open": float(not item.passed),
        "explained": float(bool(item.words)),
    }


def candidates(made: pipeline.Made, clean: Callable[[str], str]) -> dict[str, list[Candidate]]:
    """All candidates of a draft by kind, the best first; `clean` takes secrets out of their texts."""
    goal = made.handoff.goal
    task = Task(made.thread, derive(made.thread, None, goal.text), goal, {})
    relevance, known, places = (
        task.relevance,
        task.derived.facts,
        _Places(made.handoff.draft, clean),
    )
    stated = set(task.stated)

    def candidate(
        item: Item, text: str, what: str, refs: tuple[int, ...], score: float
    ) -> Candidate:
        gone = isinstance(item, Statement) and item not in stated
        place = places.of(item, text)
        found = features(item, relevance)
        adds = _rounded(found if isinstance(item, FileFact) else {})
        shown = "taken back" if gone and not place else place
        return Candidate(
            clean(one_line(text)), what, refs, round(score, 3), shown, _rounded(found), adds
        )

    found = {
        "statements": [
            candidate(s, s.text, f"{s.kind}, {'user' if s.by_user else 'agent'}", (s.ref,), relevance.statement(s))
            for s in task.derived.statements
        ],
        "files": [
            candidate(f, f.path, _did(f), f.shown_in, relevance.files.worth(f)) for f in relevance.files.all
        ],
        "commands": [
            candidate(c, c.command, c.check or "command", c.refs[-2:], relevance.command(c))
            for c in known.commands
        ],
        "lessons": [
            candidate(x, f"{short_command(x.command, 120)}: {x.error}", "passed later" if x.passed else "open",
                      tuple(r for r in (x.failed, x.words_ref, x.passed) if r), relevance.lesson(x))
            for x in known.lessons
        ],
    }  # fmt: skip
    return {kind: sorted(items, key=lambda c: -c.score) for kind, items in found.items()}


def _rounded(found: Mapping[str, float]) -> dict[str, float]:
    """Without what is nothing, three digits behind the point."""
    return {name: round(value, 3) for name, value in found.items() if round(value, 3)}


def _did(file: FileFact) -> str:
    if file.deleted:
        return "deleted"
    return "edited" if file.edits else "read" if file.reads else "named"


_FAILURES = ("Failed", "Tests", "Lint", "Build")
"""Labels under which the state of the work tells of a failure."""


class _Places:
    """Finds where candidates of one draft ended."""

    def __init__(self, draft: Draft, clean: Callable[[str], str]) -> None:
        self.clean = clean
        self.chosen = "\n".join(line for _, lines in sections(draft) for line in lines)
        self.left = "\n".join(one_line(item.text) for item in draft.left_out)
        self.files = {file.path for file in draft.files}
        self.commands = {command.command for command in draft.commands}
        self.failures = {
            ref for item in draft.state if item.label.startswith(_FAILURES) for ref in item.refs[:1]
        }

    def of(self, item: Item, text: str) -> Place:
        """Where a candidate stands."""
        if isinstance(item, FileFact):
            chosen, head = self.clean(item.path) in self.files, f"{item.path} —"
        elif isinstance(item, CommandFact):
            short = short_command(item.command)
            chosen, head = self.clean(short) in self.commands, f"`{short}` —"
        elif isinstance(item, Lesson):
            chosen, head = item.failed in self.failures, f"`{short_command(item.command, 120)}`: `"
        else:
            head = one_line(text)
            chosen = self.clean(head) in self.chosen
        if chosen:
            return "brief"
        return "left out" if self.clean(head) in self.left else ""


# -- side by side ----------------------------------------------------------------------


def overrides(against: Iterable[str]) -> dict[str, Any]:
    """Settings as flags give them, from an author's name or `KEY=VALUE`. Raises UsageError."""
    found: dict[str, Any] = {}
    for text in against:
        key, equals, value = text.partition("=")
        name = snake(key.strip())
        if not equals and name in RUNGS:
            found["author"] = name
        elif not equals:
            raise UsageError(
                f"--against {text!r} is neither an author ({', '.join(RUNGS)}) nor KEY=VALUE, "
                "such as budget=1200. All keys: tasuki config"
            )
        elif name not in Settings.__struct_fields__:
            raise UsageError(f"--against: {unknown_key(key, key, Settings.__struct_fields__)}")
        else:
            found[name] = _value(Settings.__annotations__[name], value.strip())
    return found


def _value(kind: Any, text: str) -> Any:
    """A value as its setting's type; one that is none stays text, which the settings refuse."""
    if kind is int and re.fullmatch(r"-?[0-9]{1,9}", text):
        return int(text)
    if kind is bool and text.lower() in ("true", "yes", "on", "1", "false", "no", "off", "0"):
        return text.lower() in ("true", "yes", "on", "1")
    return text


def changed(a: Loaded, b: Loaded) -> str:
    """What differs between two settings, as `author=model, budget=1200`, of the second."""
    names = Settings.__struct_fields__
    differing = (n for n in names if getattr(a.settings, n) != getattr(b.settings, n))
    return ", ".join(f"{n}={getattr(b.settings, n)}" for n in differing) or "the same settings"


def compared(a: Draft, b: Draft) -> Compared:
    """What the briefs of two drafts have of their own and in common, in the order of the brief."""
    one, other = list(_lines(a)), list(_lines(b))
    return Compared(
        only_a=tuple(line for line in one if line not in other),
        only_b=tuple(line for line in other if line not in one),
        both=tuple(line for line in one if line in other),
    )


def _lines(draft: Draft) -> Iterator[tuple[str, str]]:
    for title, lines in sections(draft):
        for line in lines:
            yield title, line


def size(lines: Iterable[tuple[str, str]]) -> int:
    """Tokens of some lines."""
    return tokens("\n".join(line for _, line in lines))


# -- notes -----------------------------------------------------------------------------


def notes_file() -> Path:
    """Where notes go where no file is named."""
    return data_folder() / NOTES


def noted(note: Note, path: Path) -> str:
    """Append a note to a file of them, as one case to be completed; its id.

    Two at once wait for each other, and a note stands in the file whole or not at all. Raises
    StoreFailed where the file cannot be written, or is not TOML.
    """
    id = f"note-{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
    text = _as_toml(id, note)
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            _append(file, path, text)
        finally:
            os.close(file)
    except (OSError, ValueError) as error:  # ValueError: a name that holds a NUL
        reason = getattr(error, "strerror", None) or error
        raise StoreFailed(f"The note could not be added to {path}: {reason}. Name another file: --notes FILE.") from error  # fmt: skip
    return id


def _append(file: int, path: Path, text: str) -> None:
    size = os.fstat(file).st_size
    if size > MAX_NOTES:
        raise OSError(errno.EFBIG, f"it is larger than {MAX_NOTES >> 20} MB")
    before = os.pread(file, size, 0)
    try:
        tomllib.loads(before.decode())
    except ValueError as error:
        raise StoreFailed(
            f"{path} is not valid TOML: {error}. Nothing was added. Mend it, or name another file: --notes FILE."
        ) from error
    gap = "\n" if before and not before.endswith(b"\n") else ""
    added = f"{gap or _HEAD * (not before)}{text}".encode()
    try:
        if os.write(file, added) != len(added):
            raise OSError(errno.ENOSPC, "only a part could be written, and was taken back")
        os.fsync(file)
    except OSError:
        os.ftruncate(file, size)
        raise


def _as_toml(id: str, note: Note) -> str:
    fields: Mapping[str, str | int] = {
        "id": id,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "category": "regression",
        "note": note.note,
        "goal": note.goal,
        "thread": note.thread,
        "harness": note.harness,
        "entries": note.entries,
        "handoff": note.handoff,
        "author": note.author,
    }
    lines = [f"{key} = {_quoted(value)}" for key, value in fields.items()]
    lines.append('expected_context = []  # fill in: [{ kind = "constraint", needs = ["4 attempts|four attempts"] }]')  # fmt: skip
    return "\n[[note]]\n" + "\n".join(lines) + "\n"


def _quoted(value: str | int) -> str:
    """A value of TOML: what JSON escapes, TOML reads, but for the one control character that JSON leaves."""
    if isinstance(value, int):
        return str(value)
    return json.dumps(value.encode("utf-8", "replace").decode(), ensure_ascii=False).replace("\x7f", "\\u007f")  # fmt: skip
