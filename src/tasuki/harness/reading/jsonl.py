"""Threads kept as JSON Lines: tolerant reading, exact search.

Nothing here writes or locks. Of a damaged line the whole records are read; what was repaired or
lost is reported with its number. A truncated last line is normal in a file that is still being
written, and is accepted.
"""

import os
import sys
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import BinaryIO, TypeVar
from zlib import crc32

import msgspec
from msgspec import Struct
from msgspec.structs import force_setattr

from tasuki.errors import ThreadUnreadable
from tasuki.harness.protocol import ThreadFile
from tasuki.harness.reading.records import split_records
from tasuki.harness.reading.speakers import SpeakerGate
from tasuki.model import BrokenLine, Entry, ReadReport
from tasuki.patterns import compile_pattern
from tasuki.text_safety import cut_ends

T = TypeVar("T")
D = TypeVar("D")

TEXT = msgspec.json.Decoder(str)
UNDECODABLE = (msgspec.MsgspecError, UnicodeError, RecursionError)
"""What decoding a part of a thread may raise.

Causes are wrong JSON, bytes that are no text, or a thousand levels of nesting.
"""

BLOCK = 1 << 20
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
"""What an editor of Windows may put in front of a file; not part of the content."""
MAX_BROKEN = 50
COMPARED_BYTES = 4096
"""Bytes before the end of what was read; where they are others, the file was written anew."""
KEEP_WHOLE = 12_000
"""Characters of a tool result that are kept in threads of ordinary size."""
KEEP_HUGE = 500
"""The same in files over `HUGE` bytes, so that memory stays bounded."""
KEEP_FAR = 200
"""The same in those files for what lies far from the end."""
HUGE = 256 << 20
NEAR = 64 << 20
"""What is within so many bytes of the end of a huge file is near it."""

_LONE_SURROGATE = compile_pattern(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])"
    rb"|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F][0-9a-fA-F]{2}"
)
_RAW_BYTES = compile_pattern("[\udc80-\udcff]")


@contextmanager
def explain_errors(path: Path) -> Iterator[None]:
    """Raise ThreadUnreadable, with the reason, where a file cannot be read in this block."""
    try:
        yield
    except FileNotFoundError as exc:
        raise ThreadUnreadable(f"{path} vanished while it was read.") from exc
    except OSError as exc:
        raise ThreadUnreadable(f"Cannot read {path}: {exc.strerror}.") from exc


def _look_back(file: BinaryIO, end: int) -> tuple[int, int, bytes]:
    """Return which file it is, and the bytes before the place up to which it was read."""
    status = os.fstat(file.fileno())
    size = min(end, COMPARED_BYTES)
    return status.st_dev, status.st_ino, os.pread(file.fileno(), size, end - size)


class ThreadLines:
    """The lines of one thread file, with the problems found in them.

    Iterating yields `(offset, line)` for every line that is not blank. `decode` turns one into
    a struct, or returns None and notes the line as broken.

    With `follows` each iteration yields what was appended since the one before. A last line that
    is still being written is left for the next one.
    """

    def __init__(self, path: Path, end: int | None = None, *, follows: bool = False) -> None:
        self.path = path
        self.follows = follows
        self.end = end
        """Stop at this byte offset; a fork may use only the beginning of its parent's file."""
        self.number = 0
        self.bytes = 0
        self.checksum = 0
        """Of all lines that were read; only with `follows`."""
        self.unknown: Counter[str] = Counter()
        self.unheard: Counter[str] = Counter()
        """Those of unknown lines that hold words or results, which are lost."""
        self.broken: list[BrokenLine] = []
        self.notes: list[str] = []
        self.gate = SpeakerGate()
        self.truncated = False
        self._broken_count = 0
        self._complete = True
        self._last: tuple[int, int, bytes] | None = None
        self.ends_inside = False
        """The last line had no end, so what follows is the rest of it."""
        self.is_recovered = False
        """The current line is a record that was found in a damaged one."""
        self._recovered: deque[bytes] = deque()
        self._repaired: list[int] = []
        self._unfinished = (range(0), b"")
        """The numbers of the last lines, if they hold the beginning of a record that may go on."""

    def __getstate__(self) -> dict[str, object]:
        return vars(self) | {"_last": None}  # The bytes of the file stay in the file.

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        with explain_errors(self.path), self.path.open("rb", buffering=BLOCK) as file:
            yield from self._read(file)

    def _read(self, file: BinaryIO) -> Iterator[tuple[int, bytes]]:
        offset, end = self.bytes, self.end if self.end is not None else sys.maxsize
        if offset:
            file.seek(offset)
        self.truncated = False
        line = b"\n"
        for number, line in enumerate(file, self.number + (not self.ends_inside)):
            if offset >= end or (self.follows and line[-1:] != b"\n" and not _is_whole(line)):
                break
            self.number = number
            size = len(line)
            if self.follows:
                self.checksum = crc32(line, self.checksum)
            if number == 1:
                line = line.removeprefix(BYTE_ORDER_MARK)
            if len(line) > 2 or line.strip():
                yield offset, line
                if self._recovered:
                    yield from self._take_recovered(offset)
            offset += size
            self.ends_inside = line[-1:] != b"\n"
            if self.ends_inside:
                break  # What is written after it from now on would begin in the middle of a line.
        self.bytes = offset
        if not line.endswith(b"\n") and not _is_whole(line):
            self.truncated = True
        if self.follows:
            self._last = _look_back(file, offset)

    def is_continued(self) -> bool:
        """Tell whether the file still begins with what was read of it, as far as its end shows that."""
        try:
            with self.path.open("rb") as file:
                return _look_back(file, self.bytes) == self._last
        except OSError:
            return False

    def decode(self, decoder: msgspec.json.Decoder[T], line: bytes) -> T | None:
        """Decode one line into a struct, repaired if necessary.

        Returns None if it is damaged; the next lines are the whole records that it holds.
        """
        try:
            return decoder.decode(line)
        except UNDECODABLE as first:
            repaired = repair_line(line)
            try:
                return decoder.decode(repaired)
            except UNDECODABLE:
                self._complete = line.endswith(b"\n")
                self._recover(repaired, first)
                return None

    def _take_recovered(self, offset: int) -> Iterator[tuple[int, bytes]]:
        self.is_recovered = True
        while self._recovered:
            yield offset, self._recovered.popleft()
        self.is_recovered = False

    def _recover(self, line: bytes, reason: Exception) -> None:
        """Find the whole records of a damaged line, also together with the rest of the line before it."""
        if self.is_recovered:
            self.note_broken(reason)
            return
        begun, rest = self._unfinished
        found = split_records(rest + line) if rest and begun.stop == self.number else None
        if found and (found.records or found.rest):
            if not found.is_lossy:
                self._broken_count -= len(begun)
                self.broken = [b for b in self.broken if b.line not in begun]
        else:
            begun, found = range(self.number, self.number), split_records(line)
        if found.records == [line.strip() + b"\n"]:  # It is whole, and of another kind.
            self.note_broken(reason)
            return
        self._recovered.extend(found.records)
        goes_on = len(begun) < MAX_BROKEN and not found.records
        self._unfinished = (
            range(begun.start if goes_on else self.number, self.number + 1),
            found.rest if goes_on or found.records else b"",
        )
        if found.is_lossy:
            self.note_broken(reason)
        else:
            self._repaired.append(self.number)

    def count_unknown(self, name: str, *, has_words: object = True) -> None:
        """Count a line of an unknown type, and whether it may belong to what was said."""
        self.unknown[name or "(no type)"] += 1
        if has_words:
            self.unheard[name or "(no type)"] += 1

    def build_error(self, start: str, whole: str) -> ThreadUnreadable:
        """Build the error of a file without a thread: it lacks the start, or it is another's."""
        if self.truncated or self.broken:
            return ThreadUnreadable(f"{self.path} holds no {start}: it is cut off or damaged.")
        return ThreadUnreadable(
            f"{self.path} is no thread of a known harness: it holds no {whole}."
        )

    def note_broken(self, reason: Exception) -> None:
        """Note the current line as broken, or as the truncated tail of an unfinished file."""
        if not self._complete:
            self.truncated = True
            return
        self._broken_count += 1
        if self._broken_count <= MAX_BROKEN:
            text = str(reason).partition("(byte")[0].strip() or type(reason).__name__
            if isinstance(reason, RecursionError):
                text = "it is nested too deeply"
            self.broken.append(BrokenLine(line=self.number, reason=text, path=str(self.path)))

    def build_report(self, more_notes: Iterable[str] = ()) -> ReadReport:
        """Return a report of what was read so far, with notes on the whole thread."""
        notes = [*self.notes, *more_notes, *self.gate.list_notes()]
        notes += [
            f"{n} line(s) of an unknown type are not read: {t}" for t, n in self.unheard.items()
        ]
        if self._broken_count > MAX_BROKEN:
            notes.append(f"{self._broken_count - MAX_BROKEN} more broken lines")
        if count := len(self._repaired):
            numbers = ", ".join(map(str, self._repaired[:6]))
            notes.append(f"{count} damaged line(s) repaired, nothing is lost: {numbers}")
        return ReadReport(
            lines=self.number,
            bytes=self.bytes,
            unknown=dict(self.unknown),
            broken=tuple(self.broken),
            truncated_tail=self.truncated,
            notes=tuple(notes),
        )


def _is_whole(line: bytes) -> bool:
    return not split_records(repair_line(line)).is_lossy


def merge_reports(reports: Iterable[ReadReport]) -> ReadReport:
    """Merge the reports of several files into one."""
    reports = list(reports)
    unknown = sum((Counter(report.unknown) for report in reports), Counter())
    return ReadReport(
        lines=sum(r.lines for r in reports),
        bytes=sum(r.bytes for r in reports),
        unknown=dict(unknown),
        broken=tuple(b for r in reports for b in r.broken),
        truncated_tail=any(r.truncated_tail for r in reports),
        notes=tuple(n for r in reports for n in r.notes),
        lacks_beginning=any(r.lacks_beginning for r in reports),
    )


def repair_line(line: bytes) -> bytes:
    r"""Write out invalid UTF-8 as escapes and replace lone surrogates by U+FFFD.

    An escape is a backslash, `x` and two hex digits.

    JavaScript cuts strings between surrogates, and tools print bytes: both are in real threads.
    """
    line = _LONE_SURROGATE.sub(rb"\\ufffd", line)
    try:
        line.decode()
    except UnicodeDecodeError:
        text = line.decode("utf-8", "surrogateescape")
        line = _RAW_BYTES.sub(lambda m: f"\\\\x{ord(m[0]) - 0xDC00:02x}", text).encode()
    return line


def decode_nested(decoder: msgspec.json.Decoder[T], raw: msgspec.Raw | bytes | str) -> T:
    r"""Decode a part of a line that was left undecoded, repaired like a line. Raises MsgspecError.

    The outer decoding does not look into such a part, so bytes that are no UTF-8 turn up only
    here, and so do the escapes that `repair_line` put into JSON inside a JSON string.
    """
    try:
        return decoder.decode(raw)
    except msgspec.ValidationError:
        raise  # It is whole, and another thing: nothing is there to repair.
    except UNDECODABLE:
        data = raw.encode("utf-8", "replace") if isinstance(raw, str) else bytes(raw)
        try:
            return decoder.decode(_BARE_MARK.sub(rb"\\\1", repair_line(data)))
        except (UnicodeError, RecursionError) as exc:
            raise msgspec.DecodeError(str(exc)) from exc


def decode_part(
    decoder: msgspec.json.Decoder[T], raw: msgspec.Raw | bytes | str, default: D
) -> T | D:
    """Decode a part of a line as `decode_nested` does; the default where that is not possible."""
    try:
        return decode_nested(decoder, raw)
    except UNDECODABLE:
        return default


class TextPart(Struct):
    """A part of what was said or printed, in the form that providers have in common."""

    type: str = ""
    text: str = ""


def extract_text(content: str | Sequence[TextPart] | None) -> str:
    """Return the texts of a message, one a line."""
    if isinstance(content, str):
        return content
    return "\n".join(part.text for part in content or () if part.text)


_BARE_MARK = compile_pattern(rb"(?<!\\)(\\x[0-9a-f]{2})")


def clip(text: str, limit: int, dots: str = "…") -> str:
    """Cut the middle out of a text so that it is at most `limit` long; two thirds are its head."""
    if len(text) <= limit:
        return text
    head = limit * 2 // 3
    before, after = cut_ends(text, head, limit - head)
    left_out = len(text) - len(before) - len(after)
    return f"{before}\n{dots} {left_out} characters left out {dots}\n{after}"


_CLIPPED = compile_pattern(r"\n(…|\.\.\.) \d+ characters left out \1\n")
"""What `clip` leaves where it cut."""
_SENTENCE_ENDS = compile_pattern(r"\n|(?<=[.!?])\s")


def drop_torn_sentences(text: str) -> str:
    """Remove the mark of `clip` from a text, and the sentences that the cut tore."""
    cut = _CLIPPED.search(text)
    if cut is None:
        return text
    before, after = text[: cut.start()], text[cut.end() :]
    whole = max(before.rfind("\n"), before.rfind(". "))
    begins = _SENTENCE_ENDS.search(after)
    return f"{before[: whole + 1]}\n\n{after[begins.end() :] if begins else ''}"


def clip_far(text: str) -> str:
    """Cut a text far from the end of a huge file; a mark that is not ASCII would double its memory."""
    return clip(text, KEEP_FAR, "...")


def choose_keep_limit(path: Path) -> int:
    """Return how many characters of each tool result to keep, by the size of the file."""
    return KEEP_HUGE if find_far_offset(path) else KEEP_WHOLE


def find_far_offset(path: Path) -> int:
    """Return the byte offset up to which a huge file is far from its end; 0 in files of ordinary size."""
    try:
        size = path.stat().st_size
    except OSError:
        return 0
    return size - NEAR if size > HUGE else 0


def decode_line(decoder: msgspec.json.Decoder[T], line: bytes) -> T | None:
    """Decode a line, repaired if necessary; None if it is broken. No problem is reported."""
    try:
        return decoder.decode(line)
    except UNDECODABLE:
        with suppress(*UNDECODABLE):
            return decoder.decode(repair_line(line))
    return None


def split_output(output: str) -> list[bytes]:
    """Split what a program printed into lines, for `decode_lines`."""
    return output.encode("utf-8", "replace").splitlines()


def decode_lines(lines: Iterable[bytes], decoder: msgspec.json.Decoder[T]) -> Iterator[T]:
    """Yield the lines that can be decoded: a program may print other things between them."""
    for line in lines:
        if (value := decode_line(decoder, line)) is not None:
            yield value


_NOTED: ContextVar[list[str] | None] = ContextVar("_NOTED", default=None)


@contextmanager
def collect_unreadable() -> Iterator[list[str]]:
    """Collect sentences about folders and files of threads that could not be read in this block."""
    notes: list[str] = []
    token = _NOTED.set(notes)
    try:
        yield notes
    finally:
        _NOTED.reset(token)


def note_unreadable(path: str | Path, error: OSError) -> None:
    """Note a folder or file that cannot be read; one that is gone does not matter."""
    if not isinstance(error, FileNotFoundError | NotADirectoryError):
        note_unread(f"{path} cannot be read: {error.strerror or error}.")


def note_unread(sentence: str) -> None:
    """Note a sentence on something that cannot be read."""
    noted = _NOTED.get()
    if noted is not None and sentence not in noted:
        noted.append(sentence)


def scan_folder(folder: str | Path) -> list[os.DirEntry[str]]:
    """List the entries of a folder; empty if it cannot be read, which `collect_unreadable` reports."""
    try:
        return list(os.scandir(folder))
    except OSError as error:
        note_unreadable(folder, error)
        return []


def list_thread_files(entries: Iterable[os.DirEntry[str]]) -> Iterator[ThreadFile]:
    """Yield those files that exist and are not empty, as thread files."""
    for entry in entries:
        with suppress(OSError):
            if (stat := entry.stat()).st_size:
                yield ThreadFile(Path(entry.path), stat.st_mtime, stat.st_size)


def mark_compacted(entries: list[Entry]) -> list[Entry]:
    """Mark in place the entries of the active branch before the last compaction, and no others."""
    last = max((i for i, e in enumerate(entries) if e.kind == "compaction"), default=0)
    for entry in entries[:last]:
        force_setattr(entry, "compacted", True)
    for entry in entries[last:]:
        if entry.compacted:
            force_setattr(entry, "compacted", False)
    return entries
