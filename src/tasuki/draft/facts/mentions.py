"""Files that a thread only names: which of them are proven to be there, and which file a text means."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from tasuki.draft.facts.commands import CommandRun
from tasuki.draft.runs.command_kinds import list_simple_commands
from tasuki.draft.text.entries import strip_handoff
from tasuki.draft.text.pasted import WHOLE_MESSAGE
from tasuki.draft.text.split import find_paths
from tasuki.model import Entry, FileFact, Named, Thread
from tasuki.paths import make_relative
from tasuki.patterns import compile_pattern

MentionPlace = Literal["assistant", "user", "input", "output"]
NEWEST_ENTRIES = 200
"""Newest entries that are searched."""
MESSAGE_CHARACTERS, INPUT_CHARACTERS, OUTPUT_CHARACTERS = 20_000, 3_000, 6_000
"""Characters of a message, of a tool's input, and of its output that are searched."""
MAX_ENDS = 24
"""Shortest ends of a path by which it may be named."""
_ADDRESS = compile_pattern(r"[\w-]+(?:\.[\w-]+)*\.[a-z]{2,}/")
"""The start of an address or of a module's name: `github.com/`, `entire.io/`."""
_FILE = compile_pattern(r"[^/]\.(?!(?:com|io|org|net|git|dev|ai|app)$)[A-Za-z][A-Za-z0-9_]{0,7}$")


class Mentions(Struct, frozen=True):
    """The paths that the newest entries of a thread name, and what it says of them."""

    hits: tuple[tuple[int, MentionPlace, str], ...] = ()
    """Entry, place and path, in the order of the entries."""
    used: frozenset[str] = frozenset()
    """Files that the thread used."""
    proven: frozenset[str] = frozenset()
    """Others that the thread proves, or the user names in a short message."""
    likely: frozenset[str] = frozenset()
    """Others that may be files."""


def list_mentions(
    thread: Thread, files: Sequence[FileFact], runs: Sequence[CommandRun]
) -> Mentions:
    """List what the newest entries of a thread name."""
    newest, used = thread.entries[-NEWEST_ENTRIES:], frozenset(f.path for f in files)
    hits = tuple(
        (ref, where, _remove_marks(make_relative(_PARTICLE.sub("", path), thread.cwd)))
        for ref, where, text in _list_texts(newest)
        for path in find_paths(text)
    )
    likely = {path for _, _, path in hits if _is_file(path)} - used
    own = {e.ref for e in newest if e.is_by_hand and len(e.text) < WHOLE_MESSAGE}
    given = {path for ref, where, path in hits if where == "user" and ref in own}
    proven = likely & (given | list_proven_paths(thread, runs))
    return Mentions(hits, used, frozenset(proven), frozenset(likely - proven))


def add_mentions(
    files: Sequence[FileFact], mentions: Mentions, cwd: str
) -> tuple[tuple[FileFact, ...], tuple[FileFact, ...]]:
    """Return the same files with their mentions in the newest entries, and files only mentioned.

    These are proven by the thread, or in the folder. A name without folders, or the end of a path,
    counts for the one file that it can mean.
    """
    there = {path for path in mentions.likely if _exists(path, cwd)}
    file_by_path = _resolve_paths(mentions.used | mentions.proven | there, mentions.used)
    named: dict[str, dict[MentionPlace, list[int]]] = defaultdict(lambda: defaultdict(list))
    for ref, place, path in mentions.hits:
        if target := file_by_path.get(path):
            named[target][place].append(ref)
    found = {
        path: Named(**{where: tuple(refs) for where, refs in by_where.items()})
        for path, by_where in named.items()
    }
    touched = tuple(replace(f, named=found.pop(f.path)) if f.path in found else f for f in files)
    return touched, tuple(FileFact(path=path, named=named) for path, named in found.items())


def _is_file(path: str) -> bool:
    """Whether an untouched path may be a file: in a folder, with an extension, no address."""
    return "/" in path and bool(_FILE.search(path)) and not _ADDRESS.match(path)


def _exists(path: str, cwd: str) -> bool:
    """Return whether a file of a folder is there."""
    try:
        return bool(cwd) and Path(cwd, path).is_file()
    except (OSError, ValueError):
        return False


_PARTICLE = compile_pattern(
    r"(?<=[A-Za-z0-9])[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+$"
    r"|^[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+(?=[A-Za-z0-9.@~/])"
)
"""Letters of a language without blanks before or after a path."""


_LISTS = compile_pattern(
    r"(?:git\s+(?:status|diff|show|ls-files|ls-tree|grep|log|commit|add|mv|rm|merge|pull|rebase|cherry-pick)"
    r"|rg|e?grep|ag|ack|fd|find|ls|tree|wc)\b"
)
"""Programs that print files of the folder."""
_LEAVES = compile_pattern(r"(?:^|[\s;&|(])(?:cd|pushd)\s|\s(?:-C|--git-dir|--work-tree)\b")
_LISTED = compile_pattern(
    r"(?m)^[ \t]*(?:\d+[ \t]+|[MADRCUT?!]{1,2}[ \t]+|(?:create|delete|rewrite) mode \d+ "
    r"|(?:modified|new file|deleted|renamed|typechange|both modified):[ \t]+|diff --git |[+-]{3} )?"
    r"((?:[^\s:|\"'`]+/)[^\s:|\"'`]+)(?=:\d|:?[ \t]*$|[ \t]+\||[ \t]+b/)"
)
"""Where a line begins with a path, behind the marks of git."""
_NAMES_FILES = compile_pattern(r"git\s+(?:add|mv|commit|blame)\b")
_FILE_WORD = compile_pattern(r"(?<=\s)[\w@+][\w.@+/-]*(?=\s|::|$)")


def list_proven_paths(thread: Thread, runs: Sequence[CommandRun]) -> set[str]:
    """Return paths that a search, a listing or git printed as files of the folder, and those that were tested."""
    texts = [
        e.tool.output[:OUTPUT_CHARACTERS]
        for e in thread.entries[-NEWEST_ENTRIES:]
        if e.tool and e.tool.kind == "search" and e.tool.status != "error"
    ]
    found: set[str] = set()
    for run in runs[-NEWEST_ENTRIES:]:
        if not run.is_in_folder or _LEAVES.search(run.command):
            continue
        if any(_LISTS.match(part.text) for part in list_simple_commands(run.command)):
            texts.append(run.output[:OUTPUT_CHARACTERS])
        named = run.ok if _NAMES_FILES.match(run.command) else run.check == "test" and run.known
        if named and "\n" not in run.command:
            found.update(_FILE_WORD.findall(run.command))
    found.update(path for text in texts for path in _LISTED.findall(text))
    return {_remove_marks(make_relative(path, thread.cwd)) for path in found}


def _list_texts(entries: Iterable[Entry]) -> Iterator[tuple[int, MentionPlace, str]]:
    for entry in entries:
        call = entry.tool
        if entry.kind == "user":
            yield entry.ref, "user", strip_handoff(entry)[:MESSAGE_CHARACTERS]
        elif entry.kind == "assistant":
            yield entry.ref, "assistant", entry.text[:MESSAGE_CHARACTERS]
        elif call is not None:
            texts = (call.command[:INPUT_CHARACTERS], call.detail[:INPUT_CHARACTERS])
            yield entry.ref, "input", "\n".join(texts)
            yield entry.ref, "output", call.output[:OUTPUT_CHARACTERS]


def _remove_marks(path: str) -> str:
    return path[2:] if path.startswith(("a/", "b/")) else path


def _resolve_paths(candidates: frozenset[str], known_paths: frozenset[str]) -> dict[str, str]:
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
