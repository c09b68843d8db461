"""The playground: one draft in detail, two drafts compared, and notes of what a brief lacked."""

import errno
import fcntl
import json
import os
import re
import secrets
import tomllib
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from functools import singledispatch
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import asdict

from tasuki.config.settings import LoadedSettings, Settings
from tasuki.config.validation import convert_to_snake, describe_unknown_key
from tasuki.draft import pipeline
from tasuki.draft.authors.author import AuthorTask
from tasuki.draft.authors.fallback import AUTHOR_ORDER
from tasuki.draft.brief import list_sections
from tasuki.draft.facts.commands import shorten_command
from tasuki.draft.facts.derive import derive_facts
from tasuki.draft.facts.statements import Statement
from tasuki.draft.rank.relevance import Relevance
from tasuki.draft.text.split import count_tokens, fold_whitespace
from tasuki.errors import StoreFailed, UsageError
from tasuki.files import get_data_folder
from tasuki.model import CommandFact, Draft, FileFact, Lesson

CandidateFact = Statement | FileFact | CommandFact | Lesson
CandidatePlace = Literal["brief", "left out", "taken back", ""]
"""Where a candidate ended: empty for one that was not offered, as too weak or a repetition."""

NOTES_FILE_NAME = "eval-notes.toml"
"""Name of the file of notes in the data folder."""
MAX_NOTES_BYTES = 16 << 20
"""Bytes of a file of notes; a longer one is refused."""
_HEAD = (
    "# What briefs lacked, noted with: tasuki eval play THREAD GOAL --note TEXT\n"
    "# Fill in expected_context, and a note can become a case of `tasuki eval cases`.\n"
)


class DraftCandidate(Struct, frozen=True):
    """A fact that could be in a brief, with its worth and what the worth is made of."""

    text: str
    what: str
    """Kind of the sentence and who said it, or what was done to the file."""
    refs: tuple[int, ...]
    score: float
    place: CandidatePlace
    features: dict[str, float]
    adds: dict[str, float] = {}
    """What each term adds to the score, where it is a sum."""


class BriefComparison(Struct, frozen=True):
    """The lines of two briefs, each with its heading."""

    only_a: tuple[tuple[str, str], ...]
    only_b: tuple[tuple[str, str], ...]
    both: tuple[tuple[str, str], ...]


class PlayNote(Struct, frozen=True):
    """What a brief lacked, in a person's words; it becomes a case."""

    note: str
    goal: str
    thread: str
    harness: str
    entries: int
    handoff: str
    author: str


@singledispatch
def compute_features(item: object, relevance: Relevance) -> dict[str, float]:
    """Return the parts of a candidate's score, by name."""
    raise TypeError(f"{type(item).__name__} is no candidate")


@compute_features.register
def _compute_statement_features(item: Statement, relevance: Relevance) -> dict[str, float]:
    found = {
        "overlap": relevance.measure_overlap(item.text),
        "recency": relevance.measure_recency(item.ref),
        "rarity": relevance.measure_rarity(item.text),
        "weight": item.weight,
    }
    if item.kind == "next":
        found["freshness"] = relevance.measure_freshness(item.ref)
    return found


@compute_features.register
def _compute_file_features(item: FileFact, relevance: Relevance) -> dict[str, float]:
    return relevance.files.compute_terms(item)


@compute_features.register
def _compute_command_features(item: CommandFact, relevance: Relevance) -> dict[str, float]:
    return {
        "overlap": relevance.measure_overlap(item.command),
        "recency": relevance.measure_recency(item.refs[-1]), "runs": len(item.refs),
        "check": float(bool(item.check)), "ok": float(item.ok),
    }  # fmt: skip


@compute_features.register
def _compute_lesson_features(item: Lesson, relevance: Relevance) -> dict[str, float]:
    return {
        "overlap": relevance.measure_overlap(f"{item.command} {item.error} {item.words}"),
        "recency": relevance.measure_recency(item.passed or item.failed),
        "open": float(not item.passed),
        "explained": float(bool(item.words)),
    }


def list_candidates(
    result: pipeline.HandoffResult, clean: Callable[[str], str]
) -> dict[str, list[DraftCandidate]]:
    """Return all candidates of a draft by kind, best first; `clean` removes secrets from texts."""
    goal = result.handoff.goal
    task = AuthorTask(result.thread, derive_facts(result.thread, None, goal.text), goal, {})
    relevance, known = task.relevance, task.derived.facts
    places = _CandidatePlaces(result.handoff.draft, clean)
    stated = set(task.open_statements)

    def build_candidate(
        item: CandidateFact, text: str, what: str, refs: tuple[int, ...], score: float
    ) -> DraftCandidate:
        place = places.find_place(item, text)
        if isinstance(item, Statement) and item not in stated and not place:
            place = "taken back"
        features = _round_features(compute_features(item, relevance))
        adds = features if isinstance(item, FileFact) else {}
        text = clean(fold_whitespace(text))
        return DraftCandidate(text, what, refs, round(score, 3), place, features, adds)

    found = {
        "statements": [
            build_candidate(s, s.text, f"{s.kind}, {'user' if s.by_user else 'agent'}", (s.ref,), relevance.score_statement(s))
            for s in task.derived.statements
        ],
        "files": [
            build_candidate(f, f.path, _describe_action(f), f.shown_in, relevance.files.compute_worth(f)) for f in relevance.files.candidates
        ],
        "commands": [
            build_candidate(c, c.command, c.check or "command", c.refs[-2:], relevance.score_command(c))
            for c in known.commands
        ],
        "lessons": [
            build_candidate(x, f"{shorten_command(x.command, 120)}: {x.error}", "passed later" if x.passed else "open",
                      tuple(r for r in (x.failed, x.words_ref, x.passed) if r), relevance.score_lesson(x))
            for x in known.lessons
        ],
    }  # fmt: skip
    return {kind: sorted(items, key=lambda c: -c.score) for kind, items in found.items()}


def _round_features(found: Mapping[str, float]) -> dict[str, float]:
    """Round to three decimals and drop zeros."""
    return {name: round(value, 3) for name, value in found.items() if round(value, 3)}


def _describe_action(file: FileFact) -> str:
    if file.deleted:
        return "deleted"
    return "edited" if file.edits else "read" if file.reads else "named"


_FAILURES = ("Failed", "Tests", "Lint", "Build")
"""Labels under which the state of the work lists a failure."""


class _CandidatePlaces:
    """Finds where candidates of one draft ended."""

    def __init__(self, draft: Draft, clean: Callable[[str], str]) -> None:
        self.clean = clean
        self.chosen = "\n".join(line for _, lines in list_sections(draft) for line in lines)
        self.left = "\n".join(fold_whitespace(item.text) for item in draft.left_out)
        self.files = {file.path for file in draft.files}
        self.commands = {command.command for command in draft.commands}
        self.failures = {
            ref for item in draft.state if item.label.startswith(_FAILURES) for ref in item.refs[:1]
        }

    def find_place(self, item: CandidateFact, text: str) -> CandidatePlace:
        """Return where a candidate is."""
        if isinstance(item, FileFact):
            chosen, head = self.clean(item.path) in self.files, f"{item.path} —"
        elif isinstance(item, CommandFact):
            short = shorten_command(item.command)
            chosen, head = self.clean(short) in self.commands, f"`{short}` —"
        elif isinstance(item, Lesson):
            chosen = item.failed in self.failures
            head = f"`{shorten_command(item.command, 120)}`: `"
        else:
            head = fold_whitespace(text)
            chosen = self.clean(head) in self.chosen
        if chosen:
            return "brief"
        return "left out" if self.clean(head) in self.left else ""


def parse_overrides(against: Iterable[str]) -> dict[str, Any]:
    """Return settings as flags give them: an author's name or `KEY=VALUE`. Raises UsageError."""
    found: dict[str, Any] = {}
    for text in against:
        key, equals, value = text.partition("=")
        name = convert_to_snake(key.strip())
        if not equals and name in AUTHOR_ORDER:
            found["author"] = name
        elif not equals:
            raise UsageError(
                f"--against {text!r} is neither an author ({', '.join(AUTHOR_ORDER)}) nor KEY=VALUE, "
                "such as budget=1200. All keys: tasuki config"
            )
        elif name not in Settings.__struct_fields__:
            problem = describe_unknown_key(key, key, Settings.__struct_fields__)
            raise UsageError(f"--against: {problem}")
        else:
            found[name] = _parse_value(Settings.__annotations__[name], value.strip())
    return found


def _parse_value(kind: Any, text: str) -> Any:
    """Return a value as its setting's type; else it stays text, which the settings refuse."""
    if kind is int and re.fullmatch(r"-?[0-9]{1,9}", text):
        return int(text)
    if kind is bool and text.lower() in ("true", "yes", "on", "1", "false", "no", "off", "0"):
        return text.lower() in ("true", "yes", "on", "1")
    return text


def describe_changes(a: LoadedSettings, b: LoadedSettings) -> str:
    """Return what differs between two settings, as `author=model, budget=1200`, of the second."""
    names = Settings.__struct_fields__
    differing = (n for n in names if getattr(a.settings, n) != getattr(b.settings, n))
    return ", ".join(f"{n}={getattr(b.settings, n)}" for n in differing) or "the same settings"


def compare_drafts(a: Draft, b: Draft) -> BriefComparison:
    """Return what the briefs of two drafts have alone and in common, in the order of the brief."""
    one, other = (
        [(title, line) for title, lines in list_sections(draft) for line in lines]
        for draft in (a, b)
    )
    return BriefComparison(
        only_a=tuple(line for line in one if line not in other),
        only_b=tuple(line for line in other if line not in one),
        both=tuple(line for line in one if line in other),
    )


def count_line_tokens(lines: Iterable[tuple[str, str]]) -> int:
    """Return the tokens of some lines."""
    return count_tokens("\n".join(line for _, line in lines))


def get_notes_file() -> Path:
    """Return where notes are saved if no file is named."""
    return get_data_folder() / NOTES_FILE_NAME


def append_note(note: PlayNote, path: Path) -> str:
    """Append a note to a file of notes, as one case to be completed, and return its id.

    Two writers wait for each other, and a note is written whole or not at all. Raises
    StoreFailed if the file cannot be written, or is not TOML.
    """
    id = f"note-{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
    text = _format_toml(id, note)
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            _append_text(file, path, text)
        finally:
            os.close(file)
    except (OSError, ValueError) as error:  # ValueError: a name that holds a NUL
        reason = getattr(error, "strerror", None) or error
        raise StoreFailed(
            f"The note could not be added to {path}: {reason}. Choose another file: --notes FILE."
        ) from error
    return id


def _append_text(file: int, path: Path, text: str) -> None:
    size = os.fstat(file).st_size
    if size > MAX_NOTES_BYTES:
        raise OSError(errno.EFBIG, f"it is larger than {MAX_NOTES_BYTES >> 20} MB")
    before = os.pread(file, size, 0)
    try:
        tomllib.loads(before.decode())
    except ValueError as error:
        raise StoreFailed(
            f"{path} is not valid TOML: {error}. Nothing was added. Correct it, or choose another file: --notes FILE."
        ) from error
    gap = "\n" if before and not before.endswith(b"\n") else ""
    added = f"{gap or _HEAD * (not before)}{text}".encode()
    try:
        if os.write(file, added) != len(added):
            raise OSError(errno.ENOSPC, "only a part could be written, and was removed again")
        os.fsync(file)
    except OSError:
        os.ftruncate(file, size)
        raise


def _format_toml(id: str, note: PlayNote) -> str:
    moment = datetime.now(UTC).isoformat(timespec="seconds")
    head: dict[str, str | int] = {"id": id, "date": moment, "category": "regression"}
    fields = head | asdict(note)
    lines = [f"{key} = {_quote_value(value)}" for key, value in fields.items()]
    example = '[{ kind = "constraint", needs = ["4 attempts|four attempts"] }]'
    return "\n".join(("\n[[note]]", *lines, f"expected_context = []  # fill in: {example}\n"))


def _quote_value(value: str | int) -> str:
    """Return a value in TOML, which reads what JSON escapes.

    The exception is the one control character that JSON leaves as it is.
    """
    if isinstance(value, int):
        return str(value)
    text = value.encode("utf-8", "replace").decode()
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
