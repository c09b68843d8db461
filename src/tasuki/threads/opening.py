"""Opening what a name stands for: a thread, or the thread a handoff came from, and so on back."""

import hashlib
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from tasuki import harness as harnesses
from tasuki.draft.brief import handoff_of
from tasuki.draft.entries import entry_text, readable
from tasuki.errors import HandoffNotFound, TasukiError, ThreadNotFound, UsageError
from tasuki.model import Citation, Entry, Handoff, Thread
from tasuki.threads import catalog
from tasuki.threads.passages import Clean, Passage, answers
from tasuki.threads.safe import Cleaner
from tasuki.vault import Vault

MAX_REFS = 200
"""Entries that one call may name."""
MAX_CHAIN = 20
"""Threads of one lineage that a question goes through."""
_SPEC = re.compile(r"(?P<thread>.+?)#(?P<refs>[\d,\-\s#]+)", re.DOTALL)
_NUMBER = re.compile(r"[0-9]{1,9}")


class Opened(Struct, frozen=True):
    """What a name stands for. `label` is what refs are written behind: `3fa9c1d2#12`."""

    label: str
    thread: Thread | None
    handoff: Handoff | None = None
    """Set where the name was that of a handoff: the thread is its predecessor."""
    problem: str = ""
    """Why there is no thread any more; then only what the handoff kept can be read."""

    @property
    def cited(self) -> dict[int, Citation]:
        """What the handoff kept, by ref."""
        return {c.ref: c for c in self.handoff.citations} if self.handoff else {}


class Reading(Struct, frozen=True):
    """One entry as it is shown. `kept` is set where it is the copy that a handoff holds."""

    entry: Entry
    kept: bool = False

    @property
    def text(self) -> str:
        """The entry as a person reads it; secrets are still in it."""
        return self.entry.text if self.kept else readable(self.entry)


def split(spec: str) -> tuple[str, list[int] | None]:
    """`THREAD#12-14,40` as its thread and refs; None if none are named. Raises UsageError."""
    match = _SPEC.fullmatch(spec.strip())
    if match is None or (os.sep in spec and os.path.isfile(spec)):
        return spec.strip().removesuffix("#"), None
    found: list[int] = []
    for part in match["refs"].replace("#", "").split(","):
        first, _, last = part.strip().partition("-")
        if not all(map(_NUMBER.fullmatch, (first, last.strip() or first))):
            raise UsageError(f"{part.strip()!r} is no entry; write 12 or 12-15.")
        if int(last or first) < int(first):
            raise UsageError(f"{part.strip()!r} runs backwards; write the smaller first.")
        found.extend(range(int(first), min(int(last or first), int(first) + MAX_REFS - 1) + 1))
    return match["thread"].strip(), found[:MAX_REFS]


def opened(name: str, cwd: Path, vault: Vault | None = None) -> Opened:
    """The thread behind a handoff's id, or behind what `--from` takes.

    Raises ThreadNotFound, ThreadUnreadable or UsageError. Where a handoff's thread is gone, what
    the handoff kept is still there.
    """
    vault = vault or Vault()
    try:
        return of_handoff(vault.get(name))
    except HandoffNotFound as error:
        if "cannot be read" in str(error):
            raise
    try:
        harness, path, _ = catalog.find_near(name, cwd)
    except ThreadNotFound as error:
        if not re.fullmatch(r"[0-9a-fA-F-]{4,}", name):
            raise
        raise ThreadNotFound(
            f"Neither a handoff nor a thread has the id {name}. "
            "List them with: tasuki handoffs, tasuki threads --all"
        ) from error
    thread = harness.read(path)
    by_path = os.sep in name or os.path.isfile(name)
    return Opened(name if by_path or thread.id.startswith(name) else thread.id, thread)


def broken_lines(thread: Thread) -> str:
    """What of a thread was skipped, as a sentence; empty if nothing was."""
    broken = thread.report.broken
    numbers = ", ".join(str(b.line) for b in broken[:6])
    return f"{len(broken)} broken line(s) skipped in {thread.path}: {numbers}" if broken else ""


def of_handoff(handoff: Handoff) -> Opened:
    """The predecessor of a handoff, as far as it is still there."""
    origin = handoff.predecessor
    try:
        thread = harnesses.get(origin.harness).read(Path(origin.path))
    except (TasukiError, OSError, ValueError) as error:  # no file can have such a name
        return Opened(handoff.id[:8], None, handoff, str(error))
    return Opened(handoff.id[:8], thread, handoff)


def chain(newest: Opened, vault: Vault | None = None) -> Iterator[Opened]:
    """The thread, the one it was handed on from, and so on back, as far as they are known."""
    vault = vault or Vault()
    seen: set[str] = set()
    current: Opened | None = newest
    while current is not None and len(seen) < MAX_CHAIN:
        yield current
        parent = _parent(current)
        current = None
        if parent and parent[:8] not in seen:
            seen.add(parent[:8])
            try:
                current = of_handoff(vault.get(parent))
            except TasukiError:
                return


def _parent(of: Opened) -> str:
    """Id of the handoff that a thread began with, empty if it began with none."""
    if of.handoff is not None and of.handoff.parent:
        return of.handoff.parent
    for entry in of.thread.entries if of.thread else ():
        if entry.origin == "handoff" and (id := handoff_of(entry.text)):
            return id
    return ""


def readings(of: Opened, refs: Sequence[int] | None = None) -> Iterator[Reading]:
    """The named entries, or all. A cited entry that changed since is shown as it was kept.

    Raises ThreadNotFound for a ref that is neither in the thread nor kept.
    """
    by_ref = {e.ref: e for e in of.thread.entries} if of.thread else {}
    cited = of.cited
    for ref in refs if refs is not None else sorted(by_ref or cited):
        entry, citation = by_ref.get(ref), cited.get(ref)
        if citation and (entry is None or not _same(entry, citation)):
            yield Reading(_as_entry(citation), kept=True)
        elif entry is not None:
            yield Reading(entry)
        else:
            raise ThreadNotFound(_missing(of, ref, max(by_ref, default=0)))


def render_entry(reading: Reading, cleaner: Cleaner) -> str:
    """An entry as `tasuki read` prints it: a line with its ref, kind and time, then its text."""
    entry = reading.entry
    note = "(as kept with the handoff)" if reading.kept else cleaner.line(entry.at, 40)
    head = f"── #{entry.ref} {name_speaker(reading)} {note}".rstrip()
    return f"{head}\n{cleaner.text(reading.text)}\n"


def name_speaker(reading: Reading) -> str:
    """The kind of an entry, with its origin where the user did not simply type it."""
    entry = reading.entry
    told = entry.kind == "user" and not reading.kept and entry.origin != "typed"
    return f"{entry.kind} ({entry.origin})" if told else entry.kind


def _missing(of: Opened, ref: int, last: int) -> str:
    if of.thread is None:
        kept = ", ".join(f"#{n}" for n in sorted(of.cited)[:12])
        return f"#{ref} is not among what handoff {of.label} kept ({kept}). {of.problem}"
    return f"There is no entry #{ref} in {of.label}; the last one is #{last}."


def _as_entry(citation: Citation) -> Entry:
    """A kept citation; of a call only its text is there."""
    return Entry(citation.ref, citation.kind, citation.text, id=citation.entry_id)


def _same(entry: Entry, citation: Citation) -> bool:
    digest = hashlib.sha256(entry_text(entry).encode("utf-8", "replace")).hexdigest()
    return digest == citation.sha256


def check_question(question: str) -> None:
    """Raises UsageError for a question that asks nothing."""
    if not question.strip():
        raise UsageError('Ask something, for example: tasuki read @1 "why was the timeout raised?"')


def asked(
    of: Opened, question: str, clean: Clean, limit: int = 6, vault: Vault | None = None
) -> list[tuple[Opened, list[Passage]]]:
    """The passages that answer a question, thread by thread, the newest thread first.

    Goes back through the lineage. Raises UsageError for an empty question.
    """
    check_question(question)
    found = []
    for link in chain(of, vault):
        entries = [reading.entry for reading in readings(link)]
        if passages := answers(entries, question, clean, limit):
            found.append((link, passages))
    return found
