"""Find rollouts of Codex, and read what a list of them shows."""

import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from io import BytesIO
from pathlib import Path
from shutil import copyfileobj
from typing import IO, BinaryIO

import msgspec

from tasuki.errors import ThreadUnreadable
from tasuki.files import find_program_folder
from tasuki.harness.protocol import ThreadFile
from tasuki.harness.reading.heads import HeadReader, parse_time
from tasuki.harness.reading.jsonl import UNDECODABLE, list_thread_files, scan_folder
from tasuki.harness.reading.speakers import extract_first_words
from tasuki.patterns import compile_pattern

SUFFIX = ".zst"
MAGIC = b"\x28\xb5\x2f\xfd"
MOST_WINDOW_BYTES = 64 << 20
"""Memory that unpacking may take."""
_META = compile_pattern(rb'"type": ?"session_meta"')
_ID = compile_pattern(rb'"id": ?"([^"]+)"')
_CWD = compile_pattern(rb'"cwd": ?("[^"\\]*(?:\\.[^"\\]*)*")')
_CHILD = compile_pattern(
    rb'"source": ?\{"subagent"|"thread_source": ?"subagent"|"parent_thread_id": ?"'
)
_PARENT = compile_pattern(rb'"(?:parent_thread_id|session_id)": ?"([^"]+)"')
_ITEM = compile_pattern(rb'"item": ?\{"type": ?"(User|Agent)Message"')
_TYPED = compile_pattern(
    rb'"type": ?"user_message",.{0,200}?"message": ?("[^"\\]*(?:\\.[^"\\]*)*")'
    rb'|"type": ?"UserMessage".{0,200}?"text": ?("[^"\\]*(?:\\.[^"\\]*)*")'
)
_USAGE = compile_pattern(rb'"last_token_usage": ?\{[^}]*"total_tokens": ?(\d+)')
_WINDOW = compile_pattern(rb'"model_context_window": ?(\d+)')
_NAME = compile_pattern(rb'"thread_name": ?("[^"\\]*(?:\\.[^"\\]*)*")')
_UUID = compile_pattern(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_TIME = compile_pattern(rb'\{"timestamp": ?"([^"]+)"')
_ROLLOUT = compile_pattern(rf"(?s)rollout-.*\.jsonl(?:{re.escape(SUFFIX)})?")
_KIND = slice(50, 150)
"""The part of a line that holds the kind of its record."""


def get_home() -> Path:
    """Return the folder of Codex; `CODEX_HOME` moves it."""
    return find_program_folder("CODEX_HOME", ".codex")


def _list_below(folder: str) -> Iterator[ThreadFile]:
    entries = scan_folder(folder)
    paths = {entry.path for entry in entries}
    for entry in entries:
        is_twin = entry.name.endswith(SUFFIX) and entry.path.removesuffix(SUFFIX) in paths
        if entry.is_dir(follow_symlinks=False):
            yield from _list_below(entry.path)
        elif _ROLLOUT.fullmatch(entry.name) and not is_twin:
            yield from list_thread_files([entry])


def find_rollout(id: str, near: Path) -> Path | None:
    """Find the rollout of a thread by its id: next to another one, or elsewhere in the store.

    Ids are UUIDs of version 7, so they contain the day, and with it the folder.
    """
    if not _UUID.fullmatch(id):
        return None
    patterns = [f"rollout-*-{id}.jsonl{suffix}" for suffix in ("", SUFFIX)]
    own = (p.parent for p in near.parents if p.name in ("sessions", "archived_sessions"))
    stores = (*own, get_home())
    folders = [near.parent, *(folder for store in stores for folder in _list_folders(store, id))]
    places = ((folder, pattern) for folder in dict.fromkeys(folders) for pattern in patterns)
    return next((path for folder, pattern in places for path in folder.glob(pattern)), None)


def _list_folders(store: Path, id: str) -> Iterator[Path]:
    yield store / "archived_sessions"
    try:
        began = datetime.fromtimestamp(int(id.replace("-", "")[:12], 16) / 1000, UTC)
    except (ValueError, OverflowError):
        return  # It is an id of another kind.
    for days in (0, -1, 1):
        day = began + timedelta(days=days)
        yield store / "sessions" / f"{day:%Y}" / f"{day:%m}" / f"{day:%d}"


class CodexHead(HeadReader):
    """What both ends of a rollout show; lines are searched, not decoded."""

    harness = "codex"
    head_bytes = 72 << 10
    tail_bytes = 16 << 10

    @staticmethod
    def list_files() -> Iterator[ThreadFile]:
        """Yield all rollouts: only their heads name the folder."""
        for folder in ("sessions", "archived_sessions"):
            yield from _list_below(str(get_home() / folder))

    @staticmethod
    def is_thread(path: Path, first: bytes) -> bool:
        """Tell whether a file begins as a rollout of Codex does; of a packed one the name tells."""
        if first.startswith(MAGIC):
            return bool(_ROLLOUT.fullmatch(path.name)) and path.suffix == SUFFIX
        line = first.lstrip()[:300].partition(b"\n")[0]
        return line.startswith(b"{") and bool(_META.search(line))

    def __init__(self, file: ThreadFile) -> None:
        super().__init__(file)
        self._counts = [0, 0]
        """Messages, and items that are messages: newer versions write each as both."""

    def open_source(self) -> BinaryIO:
        if self.file.path.suffix != SUFFIX:
            return super().open_source()
        unpacked = BytesIO()
        unpack_to(self.file.path, unpacked)
        return unpacked

    def take_start(self, line: bytes) -> None:
        if not self.id and _META.search(line, 0, 300):
            # It holds many kB of instructions after what is wanted.
            id, cwd = _ID.search(line, 0, 2000), _CWD.search(line, 0, 4000)
            self.id = id[1].decode("utf-8", "replace") if id else ""
            self.cwd = _decode_string(cwd[1]) if cwd else ""
            self.is_child = bool(_CHILD.search(line))
            parent = _PARENT.search(line) if self.is_child else None
            self.parent = parent[1].decode("utf-8", "replace") if parent else ""
            return
        kind = line[_KIND]
        is_item = b'item_completed"' in kind and bool(_ITEM.search(line, 60, 500))
        if is_item or b'_message"' in kind:
            self._counts[is_item] += 1
            self.messages = max(self._counts)
            if not self.words and (match := _TYPED.search(line)):
                self.words = extract_first_words(_decode_string(match[1] or match[2]))

    def take_end(self, line: bytes) -> None:
        kind = line[_KIND]
        if not self.time and (match := _TIME.match(line)):
            self.time = parse_time(match[1].decode())
        if b'token_count"' in kind and self.context is None and (usage := _USAGE.search(line)):
            self.context = int(usage[1])
            self.window = int(window[1]) if (window := _WINDOW.search(line)) else None
        elif b'thread_name_updated"' in kind and not self.name and (name := _NAME.search(line)):
            self.name = _decode_string(name[1])
        elif b'n_context"' in kind and not self.folders and (cwd := _CWD.search(line)):
            self.folders[_decode_string(cwd[1])] = None


def _decode_string(raw: bytes) -> str:
    try:
        return msgspec.json.decode(raw, type=str)
    except UNDECODABLE:
        return raw[1:-1].decode("utf-8", "replace")


# -- rollouts that Codex packed with Zstandard (`.zst`) ---------------------------------


def unpack_to(path: Path, target: IO[bytes]) -> None:
    """Write what a packed file holds. Raises ThreadUnreadable where it is damaged, OSError."""
    import zstandard

    decompressor = zstandard.ZstdDecompressor(max_window_size=MOST_WINDOW_BYTES)
    try:
        with path.open("rb") as file, decompressor.stream_reader(file) as source:
            copyfileobj(source, target, 1 << 20)
    except zstandard.ZstdError as error:
        raise ThreadUnreadable(f"{path} cannot be unpacked: {error}.") from error


@contextmanager
def unpack(path: Path) -> Iterator[Path]:
    """Yield an unpacked file, which is private and removed afterwards, or a plain file itself. Raises ThreadUnreadable."""
    if path.suffix != SUFFIX:
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="tasuki-read-") as folder:
        plain = Path(folder, path.stem)
        try:
            with plain.open("wb") as target:
                unpack_to(path, target)
        except OSError as error:
            raise ThreadUnreadable(f"{path} cannot be unpacked: {error.strerror}.") from error
        yield plain
