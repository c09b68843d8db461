"""Where files are spoken of: in what was said, in what tools were given, in what they printed."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from tasuki.draft.entries import beside_handoff
from tasuki.draft.text import PATH
from tasuki.model import Entry, Named

Where = Literal["assistant", "user", "input", "output"]
WINDOW = 200
"""Newest entries that are looked through."""
SAID, GIVEN, PRINTED = 20_000, 3_000, 6_000
"""Characters of a message, of a tool's input, and of its output that are looked at."""
ENDS = 24
"""Ends of a path, the shortest, by which it may be called."""
_ADDRESS = re.compile(r"[\w-]+(?:\.[\w-]+)*\.[a-z]{2,}/")
"""The beginning of an address or of a module's name: `github.com/`, `entire.io/`."""
_FILE = re.compile(r"\.[A-Za-z]\w{0,7}$")


def mentions(entries: Sequence[Entry], known: Iterable[str], cwd: str) -> dict[str, Named]:
    """Files that the newest entries name: paths that the thread used, and others with a folder.

    A name without folders, or the end of a path, counts for the one file that it can mean.
    """
    known_paths = set(known)
    hits = [
        (ref, where, relative(path, cwd))
        for ref, where, text in _texts(entries[-WINDOW:])
        for path in dict.fromkeys(PATH.findall(text))
    ]
    candidates = known_paths | {p for _, _, p in hits if _is_file(p)}
    meant = _meant(candidates, known_paths)
    found: dict[str, dict[Where, list[int]]] = defaultdict(lambda: defaultdict(list))
    for ref, where, path in hits:
        if of := meant.get(path):
            found[of][where].append(ref)
    return {
        path: Named(**{where: tuple(refs) for where, refs in by_where.items()})
        for path, by_where in found.items()
    }


def _is_file(path: str) -> bool:
    """Whether a path that no tool touched may be a file: in a folder, with an ending, no address."""
    return "/" in path and bool(_FILE.search(path)) and not _ADDRESS.match(path)


def _texts(entries: Iterable[Entry]) -> Iterator[tuple[int, Where, str]]:
    for entry in entries:
        call = entry.tool
        if entry.kind == "user":
            yield entry.ref, "user", beside_handoff(entry)[:SAID]
        elif entry.kind == "assistant":
            yield entry.ref, "assistant", entry.text[:SAID]
        elif call is not None:
            yield entry.ref, "input", f"{call.command[:GIVEN]}\n{call.detail[:GIVEN]}"
            yield entry.ref, "output", call.output[:PRINTED]


def relative(path: str, cwd: str) -> str:
    """A path as seen from the thread's folder, without the marks of a diff."""
    if cwd and path.startswith(f"{cwd.rstrip('/')}/"):
        path = path[len(cwd.rstrip("/")) + 1 :]
    path = path.removeprefix("./")
    return path[2:] if path.startswith(("a/", "b/")) else path


def _meant(candidates: set[str], known: set[str]) -> dict[str, str]:
    """Which file each path means, and each end of a path that only one file has."""
    by_end: dict[str, set[str]] = defaultdict(set)
    for path in candidates:
        names = path.rsplit("/", ENDS)[1:]
        for at in range(len(names)):
            if end := "/".join(names[at:]):
                by_end[end].add(path)
    whole = {p for p in candidates if p in known or not by_end.get(p)}
    meant = {p: p for p in whole}
    for end, paths in by_end.items():
        longest = paths & whole
        if len(longest) == 1 and end not in whole:
            meant[end] = next(iter(longest))
    return meant
