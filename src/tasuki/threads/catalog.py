"""The threads on this machine: listed from heads and tails, and found by what a person types."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

from tasuki import harness as harnesses
from tasuki.errors import ThreadNotFound, ThreadUnreadable, UsageError
from tasuki.harness.protocol import Harness, ThreadFile
from tasuki.model import ThreadHead

_HEX = re.compile(r"[0-9a-fA-F][0-9a-fA-F-]{3,}")
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
        head = adapter.head(file)
        if head is None or (here and not (head.of_project or same_folder(head.cwd, here))):
            continue
        yield head
        if limit is not None:
            limit -= 1


def same_folder(recorded: str, here: str) -> bool:
    """Whether a recorded folder is this one, symbolic links resolved where they still exist."""
    return recorded == here or (bool(recorded) and os.path.realpath(recorded) == here)


def find(spec: str, cwd: Path) -> tuple[Harness, Path]:
    """The thread that a path, an id, a unique prefix of one, a harness name or `@n` means.

    `@1` and the empty text are the newest thread of `cwd`, `@2` the one before; a harness name is
    its newest thread there. Raises ThreadNotFound with what to do, UsageError if ambiguous.
    """
    if not spec or re.fullmatch(r"@[0-9]{1,9}", spec):
        return _nth(int(spec[1:] or 1) if spec else 1, cwd)
    if spec in harnesses.names():
        return _nth(1, cwd, spec)
    if os.sep in spec or spec.endswith(".jsonl") or os.path.isfile(spec):
        path = Path(spec).expanduser()
        if path.exists() and not (path.is_file() or path.is_dir()):
            raise ThreadUnreadable(
                f"{path} is a pipe or a device. A thread is read more than once: name its file."
            )
        return harnesses.of_file(path), path
    return _by_id(spec)


def _nth(n: int, cwd: Path, harness: str | None = None) -> tuple[Harness, Path]:
    if n < 1:
        raise UsageError("@1 is the newest thread of this folder, @2 the one before.")
    found = list(heads(harness, cwd, limit=n))
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
    head = harness.head(file)
    return head is not None and head.id.lower().startswith(prefix)


def _carries(path: Path, prefix: str) -> bool:
    """Whether a file name holds an id that begins so, at its start or after a date and `_` or `-`."""
    stem = path.stem.lower()
    return stem.startswith(prefix) or f"_{prefix}" in stem or f"-{prefix}" in stem[20:]
