"""The threads on this machine: listed from heads and tails, and found by what a person types."""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tasuki import harness as harnesses
from tasuki.errors import TasukiError, ThreadNotFound, ThreadUnreadable, UsageError
from tasuki.harness.jsonl import note_unread, noted_unreadable
from tasuki.harness.protocol import Harness, ThreadFile
from tasuki.model import Thread, ThreadHead
from tasuki.paths import expand_user, is_possible, real_path
from tasuki.plain import one_line
from tasuki.threads.project import project_folders

BOTH_ENDS = 24 << 10
"""Bytes of the smallest file of which an adapter's `head` may not see all."""

_HEX = re.compile(r"[0-9a-fA-F][0-9a-fA-F-]{3,}")
_PLACE = re.compile(r"@[0-9]{1,9}")
_WORD = re.compile(r"[\w.:-]{2,}")


def files(harness: str | None = None, cwd: Path | None = None) -> list[tuple[Harness, ThreadFile]]:
    """Thread files, newest first. With `cwd`, files of other folders may still be among them."""
    wanted = (harness,) if harness else harnesses.names()
    found = [(h, f) for h in map(harnesses.get, wanted) for f in h.files(cwd)]
    return sorted(found, key=lambda pair: -pair[1].modified)


def heads(
    harness: str | None = None, cwd: Path | None = None, limit: int | None = None
) -> Iterator[ThreadHead]:
    """Threads newest first, of one folder if given; only as many heads are read as are taken."""
    here = os.path.realpath(cwd) if cwd is not None else ""
    for adapter, file in files(harness, cwd):
        if limit is not None and limit <= 0:
            return
        head = read_head(adapter, file)
        if head is None or (here and not (head.of_project or same_folder(head.cwd, here))):
            continue
        yield head
        if limit is not None:
            limit -= 1


def read_head(adapter: Harness, file: ThreadFile) -> ThreadHead | None:
    """What both ends of a thread's file tell; all of it is read where they tell nothing or no folder.

    None where nobody has said anything. A first or last line may be longer than what is read of an end.
    """
    head = read_ends(adapter, file)
    if file.bytes <= BOTH_ENDS or (head is not None and (head.cwd or head.of_project)):
        return head
    try:
        thread = read_whole(adapter, file.path)
    except TasukiError:
        return head
    said = [e for e in thread.entries if e.kind in ("user", "assistant")]
    return _head_of(thread, file, len(said)) if said else head


def read_ends(adapter: Harness, file: ThreadFile) -> ThreadHead | None:
    """What both ends of a thread's file tell; None, and a note, where it is the adapter that fails."""
    try:
        return adapter.head(file)
    except TasukiError:
        raise
    except Exception as error:  # an adapter is a boundary: one odd file hides no other thread
        note_unread(_tell_defect(adapter, file.path, error))
        return None


def read_whole(adapter: Harness, path: Path) -> Thread:
    """A whole thread. Raises ThreadUnreadable even where it is the adapter that fails.

    For lists, searches and reports, in which one odd file must not hide all other threads.
    """
    try:
        return adapter.read(path)
    except TasukiError:
        raise
    except Exception as error:  # an adapter is a boundary here
        raise ThreadUnreadable(_tell_defect(adapter, path, error)) from error


def _tell_defect(adapter: Harness, path: Path, error: Exception) -> str:
    return (
        f"{path} cannot be read as a thread of {adapter.title}: {type(error).__name__}: {error}. "
        "This is a defect of tasuki, please report it. The file was not changed."
    )


def _head_of(thread: Thread, file: ThreadFile, said: int) -> ThreadHead:
    words = next((e.text for e in thread.entries if e.kind == "user" and e.origin == "typed"), "")
    return ThreadHead(
        harness=thread.harness,
        id=thread.id,
        path=str(file.path),
        cwd=thread.cwd,
        name=thread.name,
        first_words=" ".join(words[:4_000].split())[:120],
        modified=file.modified,
        bytes=file.bytes,
        messages=said,
        exact=True,
        context_tokens=thread.context_tokens,
        context_window=thread.context_window,
    )


def heads_near(
    harness: str | None, cwd: Path, limit: int | None = None
) -> tuple[list[ThreadHead], Path]:
    """Threads of a folder, newest first; where it has none, those of its project, and of which folder they are."""
    if found := list(heads(harness, cwd, limit)):
        return found, cwd
    for folder in project_folders(cwd):
        if found := list(heads(harness, folder, limit)):
            return found, folder
    return [], cwd


def tell_folder(folder: Path, cwd: Path) -> str:
    """A sentence on threads that are not of this folder but of one of its project; empty where they are of it."""
    if same_folder(str(folder), os.path.realpath(cwd)):
        return ""
    return f"No thread was run in {cwd}; this is of its project, from {folder}."


def same_folder(recorded: str, here: str) -> bool:
    """Whether a recorded folder is this one, symbolic links resolved where they still exist."""
    return recorded == here or (bool(recorded) and real_path(recorded) == here)


class Found(NamedTuple):
    """A thread's harness and file, and a sentence where it is of another folder of the project."""

    harness: Harness
    path: Path
    told: str


def find_near(spec: str, cwd: Path) -> Found:
    """As `find`; where `cwd` has no thread, the newest of its project, and a sentence that says so."""
    with noted_unreadable() as closed:
        try:
            return _near(spec, cwd)
        except ThreadNotFound as error:
            raise ThreadNotFound(" ".join((str(error), *closed))) from error


def _near(spec: str, cwd: Path) -> Found:
    if not (spec in harnesses.names() or _PLACE.fullmatch(spec or "@1")):
        return Found(*find(spec, cwd), "")
    name = spec if spec in harnesses.names() else None
    n = 1 if name or not spec else int(spec[1:])
    found, folder = heads_near(name, cwd, n)
    return Found(*_nth(n, found, cwd, name), tell_folder(folder, cwd))


def find(spec: str, cwd: Path) -> tuple[Harness, Path]:
    """The thread that a path, an id, a unique prefix of one, a harness name or `@n` means; its path is absolute.

    `@1` and the empty text are the newest thread of `cwd`, `@2` the one before; a harness name is
    its newest thread there. Raises ThreadNotFound with what to do, UsageError if ambiguous.
    """
    if not spec or _PLACE.fullmatch(spec):
        n = int(spec[1:]) if spec else 1
        return _nth(n, list(heads(None, cwd, n)), cwd)
    if spec in harnesses.names():
        return _nth(1, list(heads(spec, cwd, 1)), cwd, spec)
    if os.sep in spec or spec.endswith(".jsonl") or os.path.isfile(spec):
        path = Path(os.path.abspath(expand_user(spec)))
        if not is_possible(path):
            raise ThreadNotFound(
                f"No file can be named {one_line(spec, 80)}. List threads with: tasuki threads --all"
            )
        if path.exists() and not (path.is_file() or path.is_dir()):
            raise ThreadUnreadable(
                f"{path} is a pipe or a device. A thread is read more than once: name its file."
            )
        return harnesses.of_file(path), path
    return _by_id(spec)


def _nth(
    n: int, found: list[ThreadHead], cwd: Path, harness: str | None = None
) -> tuple[Harness, Path]:
    if n < 1:
        raise UsageError("@1 is the newest thread of this folder, @2 the one before.")
    if len(found) < n:
        who = f" of {harnesses.get(harness).title}" if harness else ""
        count = f"only {len(found)}" if found else "no"
        raise ThreadNotFound(
            f"There is {count} thread{who} for {cwd}. Threads of other folders: tasuki threads --all. "
            "Any thread: tasuki handoff --from PATH_OR_ID."
        )
    head = found[-1]
    return harnesses.get(head.harness), Path(head.path)


def _by_id(spec: str) -> tuple[Harness, Path]:
    if not _WORD.fullmatch(spec):
        raise ThreadNotFound(_neither(spec))
    wanted = spec.lower()
    everything = files()
    named = [(h, f) for h, f in everything if _carries(f.path, wanted)]
    # Not all files are named by the id, and names may say more than it.
    sure = [(h, f) for h, f in named if _has_id(h, f, wanted)]
    sure = sure or [(h, f) for h, f in everything if _has_id(h, f, wanted)]
    matches = sure or named
    exact = [(h, f) for h, f in matches if f.path.stem.lower().endswith(wanted)]
    matches = exact if len(exact) == 1 else matches
    if not matches:
        if not _HEX.fullmatch(spec):
            raise ThreadNotFound(_neither(spec))
        raise ThreadNotFound(f"No thread has the id {spec}. List them with: tasuki threads --all")
    if len(matches) > 1:
        shown = "\n".join(f"  {h.name}  {f.path}" for h, f in matches[:8])
        raise UsageError(f"{len(matches)} threads begin with {spec}; give more of the id:\n{shown}")
    return matches[0][0], matches[0][1].path


def _neither(spec: str) -> str:
    known = ", ".join(harnesses.names())
    return f"{spec!r} is neither a file, a thread id, a harness ({known}) nor @n."


def _has_id(harness: Harness, file: ThreadFile, prefix: str) -> bool:
    head = read_head(harness, file)
    return head is not None and head.id.lower().startswith(prefix)


def _carries(path: Path, prefix: str) -> bool:
    """Whether a file name holds an id that begins so, at its start or after a date and `_` or `-`."""
    stem = path.stem.lower()
    return stem.startswith(prefix) or f"_{prefix}" in stem or f"-{prefix}" in stem[20:]
