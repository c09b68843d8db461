"""The threads on this machine: list them from heads and tails, find them by what is typed."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from msgspec.structs import replace

from tasuki.draft.redact.redactor import redact
from tasuki.errors import TasukiError, ThreadNotFound, ThreadUnreadable, UsageError
from tasuki.files import expand_user, get_data_folder, is_possible
from tasuki.harness import registry as harnesses
from tasuki.harness.protocol import Harness, ThreadFile
from tasuki.harness.reading.heads import build_head
from tasuki.harness.reading.jsonl import collect_unreadable, note_unread
from tasuki.model import Thread, ThreadHead
from tasuki.paths import is_same_folder
from tasuki.patterns import compile_pattern
from tasuki.text_safety import shorten_to_line
from tasuki.threads.projects import belongs_to, list_project_folders
from tasuki.typed_prompts import HANDOFF_TITLE

if TYPE_CHECKING:
    from tasuki.threads.index_file import HeadStore

T = TypeVar("T")
FIRST_WORDS = 120
"""Characters to which adapters cut the first prompt."""
BOTH_ENDS = 24 << 10
"""Bytes of the smallest file that an adapter's `read_head` may not read completely."""

MANY, FEW = 40, 8
"""Files from which their heads are taken from the index, and new heads that are worth writing them there."""
_HEX = compile_pattern(r"[0-9a-fA-F][0-9a-fA-F-]{3,}")
_PLACE = compile_pattern(r"@[0-9]{1,9}")
_WORD = compile_pattern(r"[\w.:-]{2,}")


def find_thread_files(
    harness: str | None = None, cwd: Path | None = None
) -> list[tuple[Harness, ThreadFile]]:
    """Find thread files, newest first, also those that only a kept copy is left of.

    With `cwd`, files of other folders may still be among them. Who reads a kept copy is
    returned as its harness; the path is that of the original.
    """
    every = filter(harnesses.may_have_threads, harnesses.list_names())
    wanted = (harness,) if harness else tuple(every)
    pairs = [(h, f) for h in map(harnesses.get_harness, wanted) for f in h.list_files(cwd)]
    if has_kept_copies():
        from tasuki.threads.kept.reader import list_only_kept

        pairs += list_only_kept(pairs, harness, cwd)
    return sorted(pairs, key=lambda pair: -pair[1].modified)


def has_kept_copies() -> bool:
    """Tell whether copies of threads may be kept here."""
    return os.path.isdir(get_data_folder() / "threads")


def get_reader(name: str, path: Path) -> Harness:
    """Return who reads a thread: its harness, or where it is gone, who reads its kept copy."""
    adapter = harnesses.get_harness(name)
    if not has_kept_copies():
        return adapter
    from tasuki.threads.kept.reader import build_reader, is_only_kept

    return build_reader(adapter) if is_only_kept(adapter, path) else adapter


def is_readable(name: str, path: str) -> bool:
    """Tell whether a thread exists, or a kept copy of it; without reading either."""
    if not path:
        return False
    if harnesses.get_containing_file(Path(path)).exists():
        return True
    adapter = harnesses.get_harness(name)
    return get_reader(name, Path(path)) is not adapter


def describe_copy(harness: Harness, path: Path) -> str:
    """Describe in a sentence that a thread is read from its kept copy; empty where it is not."""
    if not has_kept_copies():
        return ""
    from tasuki.threads.kept.reader import describe_copy

    return describe_copy(harness, path)


def list_heads(
    harness: str | None = None,
    cwd: Path | None = None,
    limit: int | None = None,
    known: dict[str, ThreadHead] | None = None,
) -> Iterator[ThreadHead]:
    """Yield threads, those of the newest work first, of one folder if given.

    Heads that are `known`, by their paths, are not read again; those that are read are added.
    """
    files, known = find_thread_files(harness, cwd), {} if known is None else known
    heads = _read_heads(files, known, is_part=bool(harness))
    if cwd is not None:
        here = os.path.realpath(cwd)
        is_here = {f: belongs_to(f, here) for f in {f for h in heads for f in (h.cwd, *h.folders)}}
        heads = [h for h in heads if h.of_project or any(is_here[f] for f in (h.cwd, *h.folders))]
    heads.sort(key=lambda head: -head.modified)
    children: dict[str, list[str]] = {}
    for head in heads:
        if head.parent:
            children.setdefault(head.parent, []).append(head.id)
    own = islice((head for head in heads if not head.is_child), limit)
    return (replace(h, children=tuple(children[h.id])) if h.id in children else h for h in own)


def _read_heads(
    files: Sequence[tuple[Harness, ThreadFile]], known: dict[str, ThreadHead], *, is_part: bool
) -> list[ThreadHead]:
    """Read the heads of files, those of many from the index where it has them; also see `known`.

    `known` gets those that are read. `is_part`: there are more files than these.
    """
    own = [f for h, f in files if harnesses.get_harness(h.name) is h and is_text(f.path)]
    is_stored = not known and (
        len(own) >= MANY or (bool(own) and (get_data_folder() / "index.db").exists())
    )
    counts: dict[str, int] = {}
    if is_stored and (found := _use_store(lambda store: store.find_heads(own))):
        known |= found[0]
        counts = found[1]
    new = []
    heads = []
    for adapter, file in files:
        path = str(file.path)
        head = known.get(path)
        if head is None and (head := read_head(adapter, file)):
            known[path] = head
            new.append((file, head))
        if head is not None:
            if head.messages is None and path in counts:
                head = known[path] = replace(head, messages=counts[path])
            heads.append(head)
    if is_stored and len(new) >= FEW and not is_part:
        kept = {str(file.path) for file in own}
        rows = [(file, head) for file, head in new if str(file.path) in kept and not head.kept]
        _use_store(lambda store: store.put_heads(rows, kept))
    return heads


def is_text(path: Path) -> bool:
    """Tell whether a database can hold a path."""
    text = str(path)
    return text.isascii() or text == text.encode("utf-8", "replace").decode()


def _use_store(use: "Callable[[HeadStore], T]") -> "T | None":
    """Use the heads in the index; None where they cannot be used."""
    from tasuki.threads.index_file import FAILURES, HeadStore

    try:
        with HeadStore() as store:
            return use(store)
    except (TasukiError, *FAILURES):
        return None


def read_head(adapter: Harness, file: ThreadFile) -> ThreadHead | None:
    """Read what both ends of a thread's file show, without secrets.

    The whole file is read where the ends show nothing or no folder. None where there is no
    message. A first or last line may be longer than what is read of an end.
    """
    head = read_ends(adapter, file)
    is_whole = file.bytes <= BOTH_ENDS or (head is not None and (head.cwd or head.of_project))
    if not is_whole:
        with suppress(TasukiError):
            head = build_head(read_whole_thread(adapter, file.path), file) or head
    return redact_head(head) if head else None


def redact_head(head: ThreadHead) -> ThreadHead:
    """Return a head without secrets, nor the beginning of one where its words were cut."""
    words = head.first_words
    if len(words) >= FIRST_WORDS:
        words = words.rpartition(" ")[0] + " …"
    name = "" if head.name.startswith(HANDOFF_TITLE) else head.name  # A program made it of a brief.
    return replace(head, name=redact(name)[0], first_words=redact(words)[0])


def read_ends(adapter: Harness, file: ThreadFile) -> ThreadHead | None:
    """Read what both ends of a thread's file show; None, with a note, where the adapter fails."""
    try:
        return adapter.read_head(file)
    except TasukiError:
        raise
    except Exception as error:  # An adapter is a boundary: one odd file hides no other thread.
        note_unread(_describe_defect(adapter, file.path, error))
        return None


def read_whole_thread(adapter: Harness, path: Path) -> Thread:
    """Read a whole thread. Raises ThreadUnreadable even where the adapter fails.

    For lists, searches and reports, in which one odd file must not hide all other threads.
    """
    try:
        return adapter.read(path)
    except TasukiError:
        raise
    except Exception as error:  # An adapter is a boundary here.
        raise ThreadUnreadable(_describe_defect(adapter, path, error)) from error


def _describe_defect(adapter: Harness, path: Path, error: Exception) -> str:
    return (
        f"{path} cannot be read as a thread of {adapter.title}: {type(error).__name__}: {error}. "
        "This is a bug in tasuki, please report it. The file was not changed."
    )


def list_heads_near(
    harness: str | None, cwd: Path, limit: int | None = None
) -> tuple[list[ThreadHead], Path]:
    """List the threads of a folder, newest first, and return the folder.

    Where it has none, they are those of another folder of its project, which is returned then.
    """
    known: dict[str, ThreadHead] = {}
    for folder in (cwd, *list_project_folders(cwd)):
        if near_heads := list(list_heads(harness, folder, limit, known)):
            return near_heads, folder
    return [], cwd


def describe_folder(folder: Path, cwd: Path) -> str:
    """Return a sentence if threads are of another folder of the project; else empty."""
    if is_same_folder(str(folder), os.path.realpath(cwd)):
        return ""
    return f"No thread was run in {cwd}; this one is from {folder}, in the same project."


class FoundThread(NamedTuple):
    """A thread's harness and file, and a note.

    The note is a sentence where the thread is of another folder of the project, or read from
    its kept copy.
    """

    harness: Harness
    path: Path
    note: str


def find_near(spec: str, cwd: Path) -> FoundThread:
    """Find a thread as `find_thread` does.

    Where `cwd` has no thread, it is the newest of its project, with a sentence that says so.
    """
    with collect_unreadable() as unreadable:
        try:
            if not (spec in harnesses.list_names() or _PLACE.fullmatch(spec or "@1")):
                harness, path = find_thread(spec, cwd)
                return FoundThread(harness, path, describe_copy(harness, path))
            name = spec if spec in harnesses.list_names() else None
            n = 1 if name or not spec else int(spec[1:])
            heads, folder = list_heads_near(name, cwd, n)
            harness, path = _pick_nth(n, heads, cwd, name)
        except ThreadNotFound as error:
            raise ThreadNotFound(" ".join((str(error), *unreadable))) from error
    notes = (describe_folder(folder, cwd), describe_copy(harness, path))
    return FoundThread(harness, path, " ".join(filter(None, notes)))


def find_thread(spec: str, cwd: Path) -> tuple[Harness, Path]:
    """Find the thread that a path, an id, a unique prefix of one, a harness name or `@n` means.

    Its path is absolute. `@1` and the empty text are the newest thread of `cwd`, `@2` the one
    before; a harness name is its newest thread there. Raises ThreadNotFound with what to do,
    UsageError if ambiguous.
    """
    if not spec or _PLACE.fullmatch(spec):
        n = int(spec[1:]) if spec else 1
        return _pick_nth(n, list(list_heads(None, cwd, n)), cwd)
    if spec in harnesses.list_names():
        return _pick_nth(1, list(list_heads(spec, cwd, 1)), cwd, spec)
    if os.sep in spec or spec.endswith(".jsonl") or os.path.isfile(spec):
        path = Path(os.path.abspath(expand_user(spec)))
        if not is_possible(path):
            raise ThreadNotFound(
                f"Not a possible file name: {shorten_to_line(spec, 80)}. List threads with: tasuki threads --all"
            )
        if path.exists() and not (path.is_file() or path.is_dir()):
            raise ThreadUnreadable(
                f"{path} is a pipe or a device. A thread is read more than once: name its file."
            )
        if not path.exists() and has_kept_copies():
            from tasuki.threads.kept.reader import find_kept_harness

            if harness := find_kept_harness(path):
                return harness, path
        return harnesses.detect_harness(path), path
    return _find_by_id(spec)


def _pick_nth(
    n: int, heads: list[ThreadHead], cwd: Path, harness: str | None = None
) -> tuple[Harness, Path]:
    if n < 1:
        raise UsageError("@1 is the newest thread of this folder, @2 the one before.")
    if len(heads) < n:
        of_harness = f" of {harnesses.get_harness(harness).title}" if harness else ""
        count = f"are only {len(heads)}" if len(heads) > 1 else "is only 1" if heads else "is no"
        noun = "threads" if len(heads) > 1 else "thread"
        raise ThreadNotFound(
            f"There {count} {noun}{of_harness} for {cwd}. Threads of other folders: tasuki threads --all. "
            "Any thread: tasuki handoff --from PATH_OR_ID."
        )
    head = heads[-1]
    path = Path(head.path)
    if head.kept:
        return get_reader(head.harness, path), path
    return harnesses.get_harness(head.harness), path


def _find_by_id(spec: str) -> tuple[Harness, Path]:
    if not _WORD.fullmatch(spec):
        raise ThreadNotFound(_describe_unknown(spec))
    wanted = spec.lower()
    everything = find_thread_files()
    # Not all files are named by the id, and names may say more than it.
    named = [(h, f) for h, f in everything if _has_id_in_name(f.path, wanted)]
    heads = _find_heads(named, wanted) or _find_heads(everything, wanted)
    exact = [head for head in heads if head.id.lower() == wanted]
    ids = {head.id for head in exact or heads}
    if len(ids) == 1:  # Several files have it where a program copied one, or began a part of it.
        chosen = max(exact or heads, key=lambda head: head.bytes).path
        return next((h, f.path) for h, f in everything if str(f.path) == chosen)
    if not ids and len(named) == 1:
        return named[0][0], named[0][1].path
    if not ids and not named:
        if not _HEX.fullmatch(spec):
            raise ThreadNotFound(_describe_unknown(spec))
        raise ThreadNotFound(f"No thread has the id {spec}. List them with: tasuki threads --all")
    found = [(h.harness, h.path) for h in heads] or [(h.name, str(f.path)) for h, f in named]
    listing = "\n".join(f"  {name}  {path}" for name, path in found[:8])
    raise UsageError(f"{len(found)} threads begin with {spec}; give more of the id:\n{listing}")


def _find_heads(files: Sequence[tuple[Harness, ThreadFile]], prefix: str) -> list[ThreadHead]:
    heads = _read_heads(files, {}, is_part=True)
    return [head for head in heads if head.id.lower().startswith(prefix)]


def _describe_unknown(spec: str) -> str:
    known = ", ".join(harnesses.list_names())
    return f"{spec!r} is neither a file, a thread id, a harness ({known}) nor @n."


def _has_id_in_name(path: Path, prefix: str) -> bool:
    """Tell whether a name begins with a prefix of an id, perhaps after a date and `_` or `-`."""
    stem = path.stem.lower()
    return stem.startswith(prefix) or f"_{prefix}" in stem or f"-{prefix}" in stem[20:]
