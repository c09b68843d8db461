"""Mentions of files, and values that only the thread knows."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from tasuki.draft.facts.git import find_in_tree
from tasuki.draft.facts.statements import Statement
from tasuki.draft.text.entries import strip_handoff
from tasuki.draft.text.split import PATH
from tasuki.model import Entry, Named, Quote

MentionPlace = Literal["assistant", "user", "input", "output"]
NEWEST_ENTRIES = 200
"""Newest entries that are searched."""
MESSAGE_CHARACTERS, INPUT_CHARACTERS, OUTPUT_CHARACTERS = 20_000, 3_000, 6_000
"""Characters of a message, of a tool's input, and of its output that are searched."""
MAX_ENDS = 24
"""Shortest ends of a path by which it may be named."""
_ADDRESS = re.compile(r"[\w-]+(?:\.[\w-]+)*\.[a-z]{2,}/")
"""The start of an address or of a module's name: `github.com/`, `entire.io/`."""
_FILE = re.compile(r"\.[A-Za-z]\w{0,7}$")


def find_mentions(
    entries: Sequence[Entry], used_paths: Iterable[str], cwd: str
) -> dict[str, Named]:
    """Files that the newest entries name: paths that the thread used, and others with a folder.

    A name without folders, or the end of a path, counts for the one file that it can mean.
    """
    known_paths = set(used_paths)
    hits = [
        (ref, where, make_relative(path, cwd))
        for ref, where, text in _list_texts(entries[-NEWEST_ENTRIES:])
        for path in dict.fromkeys(PATH.findall(text))
    ]
    candidates = known_paths | {p for _, _, p in hits if _is_file(p)}
    file_by_path = _resolve_paths(candidates, known_paths)
    found: dict[str, dict[MentionPlace, list[int]]] = defaultdict(lambda: defaultdict(list))
    for ref, place, path in hits:
        if target := file_by_path.get(path):
            found[target][place].append(ref)
    return {
        path: Named(**{where: tuple(refs) for where, refs in by_where.items()})
        for path, by_where in found.items()
    }


def _is_file(path: str) -> bool:
    """Whether an untouched path may be a file: in a folder, with an extension, no address."""
    return "/" in path and bool(_FILE.search(path)) and not _ADDRESS.match(path)


def _list_texts(entries: Iterable[Entry]) -> Iterator[tuple[int, MentionPlace, str]]:
    for entry in entries:
        call = entry.tool
        if entry.kind == "user":
            yield entry.ref, "user", strip_handoff(entry)[:MESSAGE_CHARACTERS]
        elif entry.kind == "assistant":
            yield entry.ref, "assistant", entry.text[:MESSAGE_CHARACTERS]
        elif call is not None:
            yield (
                entry.ref,
                "input",
                f"{call.command[:INPUT_CHARACTERS]}\n{call.detail[:INPUT_CHARACTERS]}",
            )
            yield entry.ref, "output", call.output[:OUTPUT_CHARACTERS]


def make_relative(path: str, cwd: str) -> str:
    """Return a path relative to the thread's folder, without the marks of a diff."""
    if cwd and path.startswith(f"{cwd.rstrip('/')}/"):
        path = path[len(cwd.rstrip("/")) + 1 :]
    path = path.removeprefix("./")
    return path[2:] if path.startswith(("a/", "b/")) else path


def _resolve_paths(candidates: set[str], known_paths: set[str]) -> dict[str, str]:
    """Return which file each path means, and each end of a path that only one file has."""
    by_end: dict[str, set[str]] = defaultdict(set)
    for path in candidates:
        names = path.rsplit("/", MAX_ENDS)[1:]
        for index in range(len(names)):
            if end := "/".join(names[index:]):
                by_end[end].add(path)
    whole = {p for p in candidates if p in known_paths or not by_end.get(p)}
    file_by_path = {p: p for p in whole}
    for end, paths in by_end.items():
        longest = paths & whole
        if len(longest) == 1 and end not in whole:
            file_by_path[end] = next(iter(longest))
    return file_by_path


MAX_LOOKED_UP = 48
"""Newest values that git is asked about at once."""
MIN_VALUE = 4

_VALUE = re.compile(
    r"https?://[^\s)>\]\"'`,;]+"
    r"|\b[A-Z][A-Z0-9]{1,9}-\d+\b"
    r"|\b(?=[0-9a-f]*\d)(?=\d*[a-f])[0-9a-f]{7,40}\b"
    r"|\b[A-Z][A-Z0-9]*_[A-Z0-9_]+\b"
    r"|(?<=`)[^`\s]{4,60}(?=`)"
    r"|\b(?:localhost|\d{1,3}(?:\.\d{1,3}){3}):\d{2,5}\b"
    r"|\bv?\d+\.\d+\.\d+(?:[-+.][\w.]+)?\b"
)
_TRIVIAL = re.compile(
    r"^[\W\d_]+$|^(?:true|false|null|none|nil|undefined|main|master)$", re.IGNORECASE
)


def find_values(statements: Iterable[Statement], finished: Iterable[Quote] = ()) -> list[Quote]:
    """Return values in what was said, each with the newest entry that names it, newest first.

    Hashes of the thread's own commits are left out: the state of the work names those.
    """
    known = {q.text.split()[0] for q in finished}
    found: dict[str, int] = {}
    for statement in statements:
        for value in _VALUE.findall(statement.text):
            value = value.rstrip(".:")
            if len(value) >= MIN_VALUE and not _TRIVIAL.match(value) and value not in known:
                found.pop(value, None)
                found[value] = statement.ref
    return [Quote(text=v, ref=r) for v, r in reversed(found.items())]


def select_only_in_thread(cwd: str, values: Sequence[Quote]) -> tuple[Quote, ...]:
    """Return those of some values that occur in no tracked file of the repository.

    Return nothing without a repository or if git does not answer in time: absence must be
    certain.
    """
    asked = list(values[:MAX_LOOKED_UP])
    present = find_in_tree(cwd, [q.text for q in asked])
    if present is None:
        return ()
    return tuple(q for q in asked if not any(q.text in line for line in present))
