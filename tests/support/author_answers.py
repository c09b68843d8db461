"""Recorded answers of an able author to the requests of real threads, and what becomes of their items.

Each file of `tests/fixtures/author_answers` holds one answer: the thread below a folder of corpora, the
last entry that was sent, the goal (the user's next message), the answer, its planted errors (`false`),
and items that the thread does not settle (`unsure`, not counted). The answers were written from the
request alone.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import msgspec
from msgspec import Struct

from tasuki.config.settings import LoadedSettings, Settings
from tasuki.draft import pipeline
from tasuki.draft.authors import answer, fallback
from tasuki.draft.authors.author import AuthorReply, AuthorTask, AuthorTurn
from tasuki.draft.claims.checker import normalize_path
from tasuki.draft.text.split import fold_whitespace
from tasuki.harness import registry
from tasuki.harness.protocol import Harness
from tasuki.model import CommandItem, Draft, FileItem, Goal, Item
from tasuki_evals.continuation.cuts import ThreadCut, write_predecessor_copy

FOLDER = Path(__file__).parents[1] / "fixtures" / "author_answers"
ID = "0" * 32
BUDGETS = (1_000, 2_000, 4_000)
MARK_END = "; unverified)"
SECTIONS = ("context", "state", "asked", "decisions", "questions", "files", "commands")


class Recorded(Struct, frozen=True):
    """One recorded answer."""

    thread: str
    cut: int
    goal: str
    answer: dict[str, Any]
    false: tuple[str, ...]
    unsure: tuple[str, ...]
    name: str = ""


class Fate(Struct, frozen=True):
    """What became of one item: `printed`, `marked`, or the kind for which it was dropped."""

    name: str
    section: str
    text: str
    is_false: bool
    fate: str
    reason: str = ""
    """Why it, or the note at a file or command, was dropped or marked."""
    lost_note: bool = False


def load_answers() -> list[Recorded]:
    """All recorded answers, by name."""
    files = sorted(FOLDER.glob("*.json"))
    read = ((f.stem, msgspec.json.decode(f.read_bytes(), type=Recorded)) for f in files)
    return [msgspec.structs.replace(one, name=name) for name, one in read]


def cut_thread(one: Recorded, corpora: Path, folder: Path) -> tuple[Harness, Path]:
    """A copy of the thread that ends with the last entry that was sent.

    Raises FileNotFoundError if the corpora, plain or gzipped, do not hold it.
    """
    path = corpora / one.thread
    if not path.is_file():
        packed = path.with_name(f"{path.name}.gz").read_bytes()
        path = folder / "whole" / path.name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.decompress(packed))
    harness = registry.detect_harness(path)
    thread = harness.read(path)
    index = next(i for i, e in enumerate(thread.entries) if e.ref > one.cut)
    at = thread.entries[index]
    assert fold_whitespace(at.text) == fold_whitespace(one.goal), one.name
    before = msgspec.structs.replace(thread, entries=thread.entries[:index])
    cut = ThreadCut(one.name, "cut", one.goal, before, (), at)
    target = folder / one.name
    target.mkdir()
    return harness, write_predecessor_copy(harness, cut, target)


class RecordedAsker:
    """Answers with what was recorded, and with nothing to every repair."""

    name, shape, first_whole = "model", "structured", 1

    def __init__(self, one: Recorded) -> None:
        self.one = one

    def build_opening(self) -> str:
        """The request itself was answered before."""
        return "opening"

    def ask(self, turns: Sequence[AuthorTurn]) -> AuthorReply:
        """The recorded answer, once."""
        is_first = turns[-1].text == self.build_opening()
        return AuthorReply(
            msgspec.json.encode(self.one.answer if is_first else {"nextSteps": []}).decode()
        )

    def close(self) -> None:
        """Nothing is held."""


def judge_answer(one: Recorded, harness: Harness, path: Path, budget: int) -> list[Fate]:
    """What becomes of each item of an answer in a brief of a budget; those that are unsure are left out."""
    loaded = LoadedSettings(Settings(author="model", budget=budget))
    goal = Goal(one.goal, forced=True)
    tasks: list[AuthorTask] = []

    def create_asker(task: AuthorTask, _: LoadedSettings) -> tuple[RecordedAsker, list[str]]:
        tasks.append(task)
        return RecordedAsker(one), []

    with mock.patch.dict(fallback.ASKERS, model=create_asker):
        made = pipeline.make_handoff(
            harness, path, goal, loaded, handoff_id=ID, to=harness.name, replay=True
        )
    expected = _list_expected(one, tasks[0])
    return list(_judge_items(one, expected, made.handoff.draft, made.context))


def _list_expected(
    one: Recorded, task: AuthorTask
) -> list[tuple[str, Item | FileItem | CommandItem]]:
    """The items of an answer as they are proposed, before anything is checked."""
    text = msgspec.json.encode(one.answer).decode()
    proposal = answer.build_proposal(answer.parse_answer(text), task)
    return [(s, item) for s in SECTIONS for item in getattr(proposal, s)]


def _judge_items(
    one: Recorded,
    expected: list[tuple[str, Item | FileItem | CommandItem]],
    draft: Draft,
    context: str,
) -> Iterator[Fate]:
    page = _fold(context)
    for section, item in expected:
        key = fallback.get_item_key(item)
        if key in one.unsure:
            continue
        note = "" if isinstance(item, Item) else _get_note(item)
        lost = next((d for d in draft.dropped if note and d.text == note), None)
        place = page.find(_fold(_shown(item)))
        of_it = (d for d in draft.dropped if d.section == section)
        dropped = next((d for d in of_it if _fold(d.text)[:200].startswith(_fold(key)[:200])), None)
        rest = page[place + len(_fold(key)) :]
        if place < 0:
            fate, reason = (dropped.kind, dropped.reason) if dropped else ("gone", "")
        elif rest.startswith(" (") and MARK_END in rest.partition(" [#")[0]:
            fate, reason = "marked", rest.partition(MARK_END)[0]
        else:
            fate, reason = "printed", lost.reason if lost else ""
        yield Fate(one.name, section, key, key in one.false, fate, reason, lost is not None)


def _get_note(item: FileItem | CommandItem) -> str:
    return item.reason if isinstance(item, FileItem) else item.note


def _shown(item: Item | FileItem | CommandItem) -> str:
    """What of an item a brief prints."""
    if isinstance(item, FileItem):
        return normalize_path(item.path).rpartition("/")[2]
    return fallback.get_item_key(item).strip('"')


def _fold(text: str) -> str:
    return fold_whitespace(text.replace("`", "").replace("“", '"').replace("”", '"'))
