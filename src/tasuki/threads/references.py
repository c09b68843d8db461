"""Open what a name means: a thread, or the thread a handoff came from, and so on back."""

import hashlib
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from tasuki.draft.brief import find_handoff_id
from tasuki.draft.text.entries import format_entry, join_entry_text
from tasuki.errors import HandoffNotFound, TasukiError, ThreadNotFound, UsageError
from tasuki.model import FIRST_DOCUMENT, Citation, Entry, Handoff, Thread, format_ref
from tasuki.patterns import compile_pattern
from tasuki.threads import catalog
from tasuki.vault import Vault

if TYPE_CHECKING:
    from tasuki.harness.protocol import Harness
    from tasuki.threads.passages import EntryCleaner, Passage

MAX_REFS = 200
"""Entries that one call may name."""
MAX_CHAIN = 20
"""Threads of one lineage that a question is put to."""
_SPEC = compile_pattern(r"(?P<thread>.+?)#(?P<refs>[\dd,\-\s#]+)", re.DOTALL)
_NUMBER = compile_pattern(r"[0-9]{1,9}")
_DOCUMENT = compile_pattern(r"d([0-9]{1,6})")


class OpenedThread(Struct, frozen=True):
    """What a name means. `label` is what refs are appended to: `3fa9c1d2#12`."""

    label: str
    thread: Thread | None
    handoff: Handoff | None = None
    """Set where the name was that of a handoff: the thread is its predecessor."""
    problem: str = ""
    """Why the thread no longer exists. Then only what the handoff kept can be read."""
    note: str = ""
    """A sentence on where the thread was read from, if it was not its own file."""
    reading: object = None
    """What a thread depends on whose outputs are read when they are asked for."""

    @property
    def citations_by_ref(self) -> dict[int, Citation]:
        """The entries that the handoff kept, by ref."""
        return {c.ref: c for c in self.handoff.citations} if self.handoff else {}

    @property
    def entries(self) -> Sequence[Entry]:
        """The entries of the thread; without it those that the handoff kept."""
        if self.thread is not None:
            return self.thread.entries
        return [_build_entry(citation) for citation in self.citations_by_ref.values()]


class EntryReading(Struct, frozen=True):
    """One entry as it is shown. `kept` is set where it is the copy that a handoff holds."""

    entry: Entry
    kept: bool = False

    @property
    def text(self) -> str:
        """The entry as a person reads it; it still contains secrets."""
        return self.entry.text if self.kept else format_entry(self.entry)


def split_spec(spec: str) -> tuple[str, list[int] | None]:
    """Split `THREAD#12-14,40` into thread and refs; None without refs. Raises UsageError."""
    match = _SPEC.fullmatch(spec.strip())
    if match is None or (os.sep in spec and os.path.isfile(spec)):
        return spec.strip().removesuffix("#"), None
    refs: list[int] = []
    documents = (FIRST_DOCUMENT + int(n) - 1 for n in _DOCUMENT.findall(match["refs"]))
    for part in (
        _DOCUMENT.sub(lambda _: str(next(documents)), match["refs"]).replace("#", "").split(",")
    ):
        first, _, last = part.strip().partition("-")
        if not all(map(_NUMBER.fullmatch, (first, last.strip() or first))):
            raise UsageError(f"{part.strip()!r} is not an entry; write 12 or 12-15.")
        if int(last or first) < int(first):
            raise UsageError(f"{part.strip()!r} runs backwards; put the smaller number first.")
        refs.extend(range(int(first), min(int(last or first), int(first) + MAX_REFS - 1) + 1))
    return match["thread"].strip(), refs[:MAX_REFS]


def open_thread(name: str, cwd: Path, *, shows_few: bool = False) -> OpenedThread:
    """Open the thread of a handoff's id, or of what `--from` takes.

    With `shows_few` it comes from its cache, where a handoff left one. Raises ThreadNotFound,
    ThreadUnreadable or UsageError. Where a handoff's thread is gone, the entries that the handoff
    kept are still available.
    """
    try:
        return open_predecessor(Vault().get(name), shows_few=shows_few)
    except HandoffNotFound as error:
        if "cannot be read" in str(error):
            raise
    try:
        harness, path, note = catalog.find_near(name, cwd)
    except ThreadNotFound as error:
        if not re.fullmatch(r"[0-9a-fA-F-]{4,}", name):
            raise
        raise ThreadNotFound(
            f"Neither a handoff nor a thread has the id {name}. "
            "List them with: tasuki handoffs, tasuki threads --all"
        ) from error
    thread, reading = _read_thread(harness, path, shows_few=shows_few)
    by_path = os.sep in name or os.path.isfile(name)
    label = name if by_path or thread.id.startswith(name) else thread.id
    return OpenedThread(label, thread, note=note, reading=reading)


def _read_thread(harness: "Harness", path: Path, *, shows_few: bool) -> tuple[Thread, object]:
    """Read a thread; return it with what its outputs depend on."""
    if not shows_few:
        return harness.read(path), None
    from tasuki.config.settings import load_settings
    from tasuki.harness.reading.cache import CachedThread

    is_kept = False
    with suppress(TasukiError):
        is_kept = load_settings(Path.cwd()).cache
    cached = CachedThread(harness, path, is_kept=is_kept)
    return cached.thread, cached


def describe_broken_lines(thread: Thread) -> str:
    """Describe in a sentence which lines of a thread were skipped; empty if none were."""
    broken = thread.report.broken
    numbers = ", ".join(str(b.line) for b in broken[:6])
    return f"{len(broken)} broken line(s) skipped in {thread.path}: {numbers}" if broken else ""


def open_predecessor(handoff: Handoff, *, shows_few: bool = False) -> OpenedThread:
    """Open the predecessor of a handoff, as far as it still exists."""
    origin = handoff.predecessor
    path = Path(origin.path)
    try:
        harness = catalog.get_reader(origin.harness, path)
        thread, reading = _read_thread(harness, path, shows_few=shows_few)
    except (TasukiError, OSError, ValueError) as error:  # ValueError: an impossible file name.
        return OpenedThread(handoff.id[:8], None, handoff, str(error))
    note = catalog.describe_copy(harness, path)
    return OpenedThread(handoff.id[:8], thread, handoff, note=note, reading=reading)


def walk_chain(newest: OpenedThread) -> Iterator[OpenedThread]:
    """Yield the thread, the one it was handed on from, and so on back, as far as they are known."""
    seen: set[str] = set()
    current = newest
    while len(seen) < MAX_CHAIN:
        yield current
        parent = _find_parent(current)
        if not parent or parent[:8] in seen:
            return
        seen.add(parent[:8])
        try:
            current = open_predecessor(Vault().get(parent))
        except TasukiError:
            return


def _find_parent(source: OpenedThread) -> str:
    """Return the id of the handoff that a thread began with, empty if there is none."""
    if source.handoff is not None and source.handoff.parent:
        return source.handoff.parent
    for entry in source.thread.entries if source.thread else ():
        if entry.origin == "handoff" and (id := find_handoff_id(entry.text)):
            return id
    return ""


def read_entries(source: OpenedThread, refs: Sequence[int] | None = None) -> Iterator[EntryReading]:
    """Yield the named entries, or all of them.

    A cited entry that changed since is shown as it was kept. Raises ThreadNotFound for a ref
    that is neither in the thread nor kept.
    """
    by_ref = {e.ref: e for e in source.thread.readable} if source.thread else {}
    citations = source.citations_by_ref
    shown = (ref for ref in sorted(by_ref or citations) if ref < FIRST_DOCUMENT)
    for ref in refs if refs is not None else shown:
        entry, citation = by_ref.get(ref), citations.get(ref)
        if citation and (entry is None or _hash_text(entry) != citation.sha256):
            yield EntryReading(_build_entry(citation), kept=True)
        elif entry is not None:
            yield EntryReading(entry)
        else:
            last = max((ref for ref in by_ref if ref < FIRST_DOCUMENT), default=0)
            raise ThreadNotFound(_describe_missing(source, ref, last))


def render_entry(reading: EntryReading, cleaner: "EntryCleaner") -> str:
    """Format an entry for `tasuki read`: a line with ref, kind and time, then its text."""
    entry = reading.entry
    note = "(as stored with the handoff)" if reading.kept else cleaner.clean_line(entry.at, 40)
    head = f"── {format_ref(entry.ref)} {name_speaker(reading)} {note}".rstrip()
    return f"{head}\n{cleaner.clean_text(reading.text)}\n"


def name_speaker(reading: EntryReading) -> str:
    """Return the kind of an entry, with its origin where the user did not simply type it."""
    entry = reading.entry
    shows_origin = entry.kind == "user" and not reading.kept and entry.origin != "typed"
    return f"{entry.kind} ({entry.origin})" if shows_origin else entry.kind


def _describe_missing(source: OpenedThread, ref: int, last: int) -> str:
    if source.thread is None:
        kept_refs = ", ".join(f"#{n}" for n in sorted(source.citations_by_ref)[:12])
        return f"#{ref} is not among the entries stored with handoff {source.label} ({kept_refs}). {source.problem}"
    return f"There is no entry {format_ref(ref)} in {source.label}; the last one is #{last}."


def _build_entry(citation: Citation) -> Entry:
    """Build an entry from a kept citation; of a call it has only the text."""
    return Entry(citation.ref, citation.kind, citation.text, id=citation.entry_id)


def _hash_text(entry: Entry) -> str:
    return hashlib.sha256(join_entry_text(entry).encode("utf-8", "replace")).hexdigest()


def check_question(question: str) -> None:
    """Raise UsageError for an empty question."""
    if not question.strip():
        raise UsageError('Ask something, for example: tasuki read @1 "why was the timeout raised?"')


def find_answers(
    source: OpenedThread, question: str, cleaner: "EntryCleaner", limit: int = 6
) -> "list[tuple[OpenedThread, list[Passage]]]":
    """Find the passages that answer a question, thread by thread, the newest thread first.

    Goes back through the lineage. Raises UsageError for an empty question.
    """
    from tasuki.threads.passages import find_passages

    check_question(question)
    answers_by_thread = []
    for link in walk_chain(source):
        entries = [reading.entry for reading in read_entries(link)]
        entries += link.thread.readable[len(link.thread.entries) :] if link.thread else ()
        if passages := find_passages(entries, question, cleaner, limit):
            answers_by_thread.append((link, passages))
    return answers_by_thread
