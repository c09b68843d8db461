"""A thread cut into the blocks that the index takes in."""

import hashlib
from collections.abc import Iterable, Iterator

from msgspec import Struct

from tasuki.draft.redact import redact, without_tokens
from tasuki.model import Entry, Thread
from tasuki.threads.query import spaced

BLOCK_CHARACTERS = 4_000
BLOCK_ENTRIES = 40
TURN_CHARACTERS = 600
"""A user's message begins a new block if the one before it holds so much."""
KEPT = 6_000
"""Characters of one output, or of one changed text, that are indexed: two thirds from its head."""
FIRST_WORDS = 600
"""Characters of a first prompt that are kept, redacted; lists cut them further."""
BEYOND = 4_096
"""Characters behind them that redaction sees, so that a secret at the cut is known as one."""
MAX_PATH = 1_000


class Block(Struct, gc=False):
    """Entries `first` to `last` as one text, whose words the index keeps, and its digest.

    Tokens of a known issuer are left out. All of redaction would take three times as long as building the index.
    """

    first: int
    last: int
    text: str
    digest: bytes


def blocks(entries: Iterable[Entry]) -> Iterator[Block]:
    """Entries in blocks; what is appended to a thread changes at most the last one."""
    texts: list[str] = []
    size = first = last = 0
    for entry in entries:
        full = size >= BLOCK_CHARACTERS or len(texts) >= BLOCK_ENTRIES
        if texts and (full or (entry.kind == "user" and size >= TURN_CHARACTERS)):
            yield _block(first, last, texts)
            texts, size = [], 0
        text = searchable(entry)
        first = first if texts else entry.ref
        last = entry.ref
        texts.append(text)
        size += len(text)
    if texts:
        yield _block(first, last, texts)


def _block(first: int, last: int, texts: list[str]) -> Block:
    text = spaced(without_tokens("\n".join(texts)))
    data = text.encode("utf-8", "replace")
    digest = hashlib.blake2b(data, digest_size=8, salt=first.to_bytes(8, "big")).digest()
    return Block(first, last, data.decode(), digest)


def searchable(entry: Entry) -> str:
    """What of an entry can be found: words, command, paths, and the ends of long texts."""
    call = entry.tool
    if call is None:
        return entry.text
    parts = [call.command, call.detail, *call.paths]
    for change in call.changes:
        parts += [change.path, _ends(change.old), _ends(change.new)]
    parts += [todo.text for todo in call.todos or ()]
    parts.append(_ends(call.output))
    return "\n".join(part for part in parts if part)


def _ends(text: str) -> str:
    if len(text) <= KEPT:
        return text
    return f"{text[: KEPT * 2 // 3]}\n{text[-KEPT // 3 :]}"


def touched(thread: Thread) -> set[str]:
    """Paths that a thread read or changed, relative to its folder where they lie below it."""
    root = thread.cwd.rstrip("/") + "/" if thread.cwd else ""
    found: set[str] = set()
    for entry in thread.entries:
        if entry.tool:
            found.update(entry.tool.paths)
            found.update(change.path for change in entry.tool.changes)
    return {p.removeprefix(root) for p in found if p and len(p) < MAX_PATH}


def first_words(thread: Thread) -> str:
    """The beginning of what the user typed first, without secrets."""
    for entry in thread.entries:
        if entry.kind == "user" and entry.origin in ("typed", "queued"):
            return " ".join(redact(entry.text[: FIRST_WORDS + BEYOND])[0].split())[:FIRST_WORDS]
    return ""
