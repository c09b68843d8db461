"""Finding the entries of a reference: in the thread if it is still the same, else in the handoff."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

from tasuki import harness as harnesses
from tasuki.draft.assemble import readable
from tasuki.draft.checks import entry_text
from tasuki.draft.redact import Redactor
from tasuki.errors import HandoffNotFound, TasukiError, ThreadNotFound
from tasuki.model import Citation, Entry, Handoff, Thread
from tasuki.plain import plain
from tasuki.threads import catalog
from tasuki.vault import Vault


def entries(name: str, refs: list[int]) -> Iterator[str]:
    """The named entries, redacted, each under a line that says what it is."""
    thread, cited = _open(name)
    by_ref = {e.ref: e for e in thread.entries} if thread else {}
    redactor = Redactor()
    for ref in refs:
        entry, citation = by_ref.get(ref), cited.get(ref)
        if citation and (entry is None or not _same(entry, citation)):
            yield f"── #{ref} {citation.kind} (as kept with the handoff)\n{plain(citation.text)}\n"
        elif entry is not None:
            yield f"── #{ref} {entry.kind} {entry.at}\n{plain(redactor.redact(readable(entry)))}\n"
        else:
            last = max(by_ref, default=0)
            raise ThreadNotFound(f"There is no entry #{ref} in {name}; the last one is #{last}.")


def _open(name: str) -> tuple[Thread | None, dict[int, Citation]]:
    """The thread behind a name, and what a handoff kept of it."""
    try:
        handoff = Vault().get(name)
    except HandoffNotFound as error:
        if "cannot be read" in str(error):
            raise
        harness, path = catalog.find(name, Path.cwd())
        return harness.read(path), {}
    return _predecessor(handoff), {c.ref: c for c in handoff.citations}


def _predecessor(handoff: Handoff) -> Thread | None:
    try:
        return harnesses.get(handoff.predecessor.harness).read(Path(handoff.predecessor.path))
    except TasukiError:
        return None


def _same(entry: Entry, citation: Citation) -> bool:
    digest = hashlib.sha256(entry_text(entry).encode("utf-8", "replace")).hexdigest()
    return digest == citation.sha256
