"""The cases of the continuation benchmark: real threads, cut where a handoff could have been made."""

import os
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from tasuki.errors import TasukiError
from tasuki.evals import metric
from tasuki.harness.jsonl import repaired
from tasuki.harness.protocol import Harness
from tasuki.model import Entry, Thread

CALLS_BEFORE = 20
CALLS_AFTER = 5
PER_THREAD = 3
FUTURE_MESSAGES = 3
"""The future runs to the third next message of the user."""
LEAST_SUMMARY = 200
"""Characters; a shorter text at a compaction is a mark, not the harness's summary."""
GIT_SECONDS = 60
GIT_ENVIRONMENT = {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "GIT_NO_LAZY_FETCH": "1"}
"""Nothing is locked, asked or fetched for the benchmark."""


class Cut(Struct, frozen=True):
    """A place in a thread: `predecessor` is what stood before, `future` what came after the goal."""

    name: str
    kind: str
    """cut or compaction"""
    goal: str
    predecessor: Thread
    future: tuple[Entry, ...]
    at: Entry
    """The first entry that the predecessor does not hold."""
    summary: str = ""
    """The harness's own, at a compaction."""


def cuts(thread: Thread) -> list[Cut]:
    """All cases of one thread: up to three cuts before any compaction, and every compaction."""
    return [*_cuts(thread), *_compactions(thread)]


def _cuts(thread: Thread) -> Iterator[Cut]:
    entries = thread.entries
    end = next((i for i, e in enumerate(entries) if e.kind == "compaction"), len(entries))
    good = [
        (i, after)
        for i in messages(entries)
        if 0 < i < end
        and calls(entries[:i]) >= CALLS_BEFORE
        and calls(after := future(entries, i)) >= CALLS_AFTER
    ]
    for i, after in spread(good, PER_THREAD):
        yield Cut(
            name=f"{thread.id}#{entries[i].ref}",
            kind="cut",
            goal=entries[i].text,
            predecessor=replace(thread, entries=entries[:i]),
            future=tuple(after),
            at=entries[i],
        )


def _compactions(thread: Thread) -> Iterator[Cut]:
    entries = thread.entries
    for i, entry in enumerate(entries):
        if entry.kind != "compaction" or len(entry.text.strip()) < LEAST_SUMMARY:
            continue
        goals = [j for j in messages(entries[:i]) if j]
        after = future(entries, i)
        if goals and calls(entries[:i]) >= CALLS_BEFORE and calls(after):
            yield Cut(
                name=f"{thread.id}#{entry.ref}",
                kind="compaction",
                goal=entries[goals[-1]].text,
                predecessor=replace(thread, entries=entries[:i]),
                future=tuple(after),
                at=entry,
                summary=entry.text,
            )


def spread(items: Sequence[tuple[int, list[Entry]]], count: int) -> list[tuple[int, list[Entry]]]:
    """Up to `count` of some items, evenly spread, the first and the last among them."""
    if len(items) <= count:
        return list(items)
    return [items[round(k * (len(items) - 1) / (count - 1))] for k in range(count)]


def messages(entries: Sequence[Entry]) -> list[int]:
    """Where the user said something at the prompt that could be a goal."""
    return [
        i
        for i, e in enumerate(entries)
        if e.kind == "user" and e.origin in ("typed", "queued") and e.text.strip()
    ]


def future(entries: Sequence[Entry], at: int) -> list[Entry]:
    """What came after a message, up to the third next one."""
    after = entries[at + 1 :]
    next_ones = messages(after)
    if len(next_ones) >= FUTURE_MESSAGES:
        after = after[: next_ones[FUTURE_MESSAGES - 1]]
    return list(after)


def calls(entries: Iterable[Entry]) -> int:
    """How many tools the agent called."""
    return sum(e.tool is not None and e.origin != "command" for e in entries)


def predecessor_copy(harness: Harness, cut: Cut, folder: Path) -> Path:
    """The thread file up to the cut, in the harness's own format, under its own name.

    Raises ValueError with the reason if the format cannot be cut there, or if the copy is not read
    as the beginning of the thread: then the case tells nothing about the tool. OSError if the file
    cannot be read or the copy not be written.
    """
    path = Path(cut.predecessor.path)
    if not path.is_file():
        raise ValueError("it lies in a database; export it to a file first")
    if cut.at.source != len(cut.predecessor.sources) - 1:
        raise ValueError("it stands in the file of the thread that this one was forked from")
    copy = folder / path.name
    if cut.at.offset and not _is_document(path, cut.at.offset):
        with path.open("rb") as whole, copy.open("wb") as part:
            _copy(whole, part, cut.at.offset)
    else:
        copy.write_bytes(document_until(path.read_bytes(), cut.at))
    try:
        read = harness.read(copy)
    except TasukiError as error:
        raise ValueError("the copy that ends there cannot be read") from error
    expected = [(e.kind, e.text) for e in cut.predecessor.entries]
    if [(e.kind, e.text) for e in read.entries] != expected:
        raise ValueError("the copy that ends there reads differently from the thread")
    return copy


def _copy(whole: BinaryIO, part: BinaryIO, size: int) -> None:
    while size and (block := whole.read(min(size, 1 << 20))):
        part.write(block)
        size -= len(block)


def _is_document(path: Path, offset: int) -> bool:
    """Whether an entry stands inside one JSON document, not on a line of its own."""
    with path.open("rb") as file:
        first = file.readline()
    if not first.lstrip().startswith(b"{"):
        return False
    try:
        msgspec.json.decode(repaired(first))
    except (msgspec.DecodeError, RecursionError):
        return True  # The first line of many.
    return offset < len(first)


def document_until(data: bytes, entry: Entry) -> bytes:
    """A JSON document whose list of messages ends before the one that holds an entry.

    Raises ValueError if the entry is in none of its lists.
    """
    try:
        document = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError("the document is no JSON") from error
    if isinstance(document, dict):
        for value in document.values():
            if isinstance(value, list):
                for at, element in enumerate(value):
                    if _holds(element, entry.id):
                        del value[at:]
                        return msgspec.json.encode(document)
    raise ValueError("the message that begins there is not in the document's list")


def _holds(value: object, id: str) -> bool:
    if isinstance(value, dict):
        return value.get("id") == id or any(_holds(v, id) for v in value.values())
    return isinstance(value, list) and any(_holds(v, id) for v in value)


def targets(cut: Cut) -> metric.Targets:
    """What a handoff at this place should hold, with what only the thread knew if git can tell."""
    found = metric.targets(cut.predecessor, cut.future, cut.goal)
    in_tree = tree_names(cut.predecessor.cwd, cut.at.at, found.id)
    return found if in_tree is None else replace(found, only=frozenset(found.id) - in_tree)


def tree_names(cwd: str, when: str, names: Iterable[str]) -> frozenset[str] | None:
    """Those of some names that stood in the repository at a time; None if there is none to ask."""
    if not (cwd and when and os.path.isdir(cwd)):
        return None
    commit = _git(cwd, "rev-list", "-1", f"--before={when}", "HEAD")
    if not commit or not commit.strip():
        return None
    wanted = sorted(names)
    found = _git(cwd, "grep", "-I", "-o", "-h", "-F", "-f", "-", commit.strip(), given=wanted)
    return frozenset(found.split("\n")) & frozenset(wanted) if found is not None else None


def _git(cwd: str, *arguments: str, given: Sequence[str] = ()) -> str | None:
    """What git printed; None if it is not there, knows no repository, or takes too long."""
    elsewhere = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_NAMESPACE", "GIT_PREFIX")
    try:
        result = subprocess.run(
            ("git", "-c", "core.fsmonitor=false", "-C", cwd, *arguments),
            input="\n".join(given),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=GIT_SECONDS,
            env={k: v for k, v in os.environ.items() if k not in elsewhere} | GIT_ENVIRONMENT,
            check=False,
        )
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None
    return result.stdout if result.returncode in (0, 1) else None
