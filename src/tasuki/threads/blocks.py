"""Threads for the index: read ahead, and cut into the blocks that it stores."""

import hashlib
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice

from msgspec import Struct

from tasuki.draft.redact.redactor import BEYOND, Redactor, find_unusual_words
from tasuki.errors import TasukiError
from tasuki.harness.protocol import Harness, ThreadFile
from tasuki.harness.reading.speakers import find_first_prompt
from tasuki.model import Entry, Thread
from tasuki.paths import make_relative, normalize_path
from tasuki.text_safety import cut_ends
from tasuki.threads.catalog import read_whole_thread
from tasuki.threads.query import separate_cjk

BLOCK_CHARACTERS = 4_000
BLOCK_ENTRIES = 40
TURN_CHARACTERS = 600
"""A user's message begins a new block if the one before it holds so much."""
KEPT = 6_000
"""Characters of one output, or of one changed text, that are indexed; two thirds are its head."""
FIRST_WORDS = 600
"""Characters of a first prompt that are kept, redacted; lists cut them further."""
MAX_PATH = 1_000
MOST_READ = 3
"""Blocks with the same unusual word that are read for what is secret in them."""


class IndexBlock(Struct, gc=False):
    """Entries `first` to `last` as one text, and its digest."""

    first: int
    last: int
    text: str
    digest: bytes


def split_blocks(entries: Iterable[Entry]) -> Iterator[IndexBlock]:
    """Split entries into blocks; what is appended to a thread changes at most the last one."""
    texts: list[str] = []
    size = first = last = 0
    for entry in entries:
        full = size >= BLOCK_CHARACTERS or len(texts) >= BLOCK_ENTRIES or entry.kind == "document"
        if texts and (full or (entry.kind == "user" and size >= TURN_CHARACTERS)):
            yield _build_block(first, last, texts)
            texts, size = [], 0
        text = extract_searchable_text(entry)
        first = first if texts else entry.ref
        last = entry.ref
        texts.append(text)
        size += len(text)
    if texts:
        yield _build_block(first, last, texts)


def _build_block(first: int, last: int, texts: list[str]) -> IndexBlock:
    data = "\n".join(texts).encode("utf-8", "replace")
    digest = hashlib.blake2b(data, digest_size=8, salt=first.to_bytes(8, "big")).digest()
    return IndexBlock(first, last, data.decode(), digest)


def learn_blocks(known: Sequence[IndexBlock], text: str, redactor: Redactor) -> None:
    """Let a redactor know the secrets of blocks that the index has already, as far as a new text repeats them.

    Only blocks that share an unusual word with it are read.
    """
    for word in find_unusual_words(text) if known else ():
        for block in islice((block for block in known if word in block.text), MOST_READ):
            redactor.redact(block.text)


def clean_blocks(blocks: Sequence[IndexBlock], redactor: Redactor) -> list[str]:
    """Return the texts of the blocks as the index keeps them; what is secret in one is in none."""
    texts = [redactor.redact(block.text) for block in blocks]
    return [separate_cjk(redactor.hide_known(text)) for text in texts]


def extract_searchable_text(entry: Entry) -> str:
    """Return what can be found of an entry: words, command, paths, and ends of long texts."""
    call = entry.tool
    if call is None:
        return entry.text
    parts = [call.command, call.detail, *call.paths]
    for change in call.changes:
        parts += [change.path, _keep_ends(change.old), _keep_ends(change.new)]
    parts += [todo.text for todo in call.todos or ()]
    parts.append(_keep_ends(call.output))
    return "\n".join(part for part in parts if part)


def _keep_ends(text: str) -> str:
    if len(text) <= KEPT:
        return text
    return "\n".join(cut_ends(text, KEPT * 2 // 3, KEPT // 3))


def list_touched_paths(thread: Thread) -> set[str]:
    """Return the paths that a thread read or changed.

    They are relative to the thread's folder where they are below it, in one form.
    """
    paths: set[str] = set()
    for entry in thread.entries:
        if entry.tool:
            paths.update(entry.tool.paths)
            paths.update(change.path for change in entry.tool.changes)
    return {normalize_path(make_relative(p, thread.cwd)) for p in paths if p and len(p) < MAX_PATH}


def extract_first_words(thread: Thread) -> str:
    """Return the beginning of what the user typed first."""
    return find_first_prompt(thread.entries)[: 8 * FIRST_WORDS + BEYOND]


def read_ahead_threads(
    files: Sequence[tuple[Harness, ThreadFile]],
) -> Iterator[tuple[ThreadFile, str, Thread | TasukiError]]:
    """Yield the threads of some files; the next is read while the caller works on one."""
    with ThreadPoolExecutor(1) as pool:
        waiting: deque[tuple[ThreadFile, str, Future[Thread | TasukiError]]] = deque()
        try:
            for pair in (*files, None):
                if pair:
                    harness, file = pair
                    waiting.append((file, harness.name, pool.submit(_read_thread, harness, file)))
                if len(waiting) > 1 or (waiting and not pair):
                    done_file, name, future = waiting.popleft()
                    yield done_file, name, future.result()
        finally:
            for _, _, future in waiting:
                future.cancel()


def _read_thread(harness: Harness, file: ThreadFile) -> Thread | TasukiError:
    try:
        return read_whole_thread(harness, file.path)
    except TasukiError as error:
        return error


class IndexedThread(Struct, frozen=True, gc=False):
    """What the index stores about a thread. `modified` is in seconds since the epoch: of its last line with a time."""

    harness: str
    id: str
    path: str
    cwd: str
    name: str
    first_words: str
    modified: float
    bytes: int
    updated: str
    entries: int


class IndexHit(Struct, frozen=True):
    """A thread that matches: its score, higher is better, and its ranges of matching entries."""

    thread: IndexedThread
    score: float
    ranges: tuple[tuple[int, int], ...]


class IndexUpdate(Struct):
    """The result of an update. `problems` are sentences about unreadable threads."""

    threads: int = 0
    gone: int = 0
    busy: bool = False
    """Another process builds the index: its present content was left as it is."""
    problems: list[str] = []
