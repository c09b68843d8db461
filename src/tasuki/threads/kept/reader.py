"""Read threads from their kept copies once the originals are gone."""

import os
import time
import weakref
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, cast

from msgspec.structs import replace

from tasuki.errors import KeptCopyDamaged, NotPossible, TasukiError, ThreadUnreadable
from tasuki.harness import registry as harnesses
from tasuki.harness.optional import find_file
from tasuki.harness.protocol import AskPlan, AskRequest, Harness, ThreadFile
from tasuki.model import Thread, ThreadHead
from tasuki.paths import is_same_folder
from tasuki.threads.kept.copies import KeptRecord, describe_damage, unpack_copy
from tasuki.threads.kept.store import KeptStore


class KeptHarness:
    """An adapter that reads the kept copies of threads, under the paths of the originals.

    It is as `Harness` in all else, but the program cannot be asked about a thread that it no
    longer has.
    """

    can_ask = False

    def __init__(self, adapter: Harness) -> None:
        self._adapter = adapter

    def __getattr__(self, name: str) -> Any:
        if name in ("list_parts", "find_file", "follow"):
            raise AttributeError(name)
        return getattr(self._adapter, name)

    def read_head(self, file: ThreadFile) -> ThreadHead | None:
        record = KeptStore().find_record(file.path)
        return build_head(record) if record else None

    def read(self, path: Path) -> Thread:
        """Read the whole thread. Raises ThreadUnreadable, KeptCopyDamaged."""
        with ExitStack() as stack:
            return self._read_copy(path, stack)

    def read_for_draft(self, path: Path) -> Thread:
        """Read the whole thread; its unpacked files stay for as long as this adapter does.

        A draft looks up in them what is not in memory.
        """
        stack = ExitStack()
        weakref.finalize(self, stack.close)
        return self._read_copy(path, stack, keeps_files=True)

    def _read_copy(self, path: Path, stack: ExitStack, *, keeps_files: bool = False) -> Thread:
        copy = KeptStore().get_file(path)
        try:
            record, folder = stack.enter_context(unpack_copy(copy))
        except FileNotFoundError as error:
            raise ThreadUnreadable(f"Neither {path} nor a kept copy of it exists.") from error
        except OSError as error:
            raise KeptCopyDamaged(describe_damage(copy, error.strerror or str(error))) from error
        thread = _read_unpacked(self._adapter, path, record, folder)
        return thread if keeps_files else replace(thread, sources=(str(path),))

    def ask(self, request: AskRequest) -> AskPlan:
        raise NotPossible(f"{self._adapter.title} no longer has the thread {request.thread.id}.")

    def build_resume_command(self, thread: Thread) -> tuple[str, ...]:
        """Return nothing: the program no longer has the thread."""
        return ()


def _read_unpacked(adapter: Harness, path: Path, record: KeptRecord, folder: Path) -> Thread:
    unpacked = folder / record.parts[0].name
    is_in_database = path.parent.name == unpacked.name
    original = path.parent if is_in_database else path
    try:
        thread = adapter.read(unpacked / path.name if is_in_database else unpacked)
    except TasukiError as error:
        message = str(error).replace(str(unpacked), str(original))
        raise ThreadUnreadable(f"{message} (Read from its kept copy.)") from error
    return replace(thread, path=str(path), sidechains=(), artifacts=())


def build_head(record: KeptRecord) -> ThreadHead:
    """Build what a list shows of a kept thread."""
    return replace(record.head, path=record.path, bytes=record.bytes, kept=True)


def build_reader(adapter: Harness) -> Harness:
    """Build the adapter that reads the kept copies of another one's threads."""
    return cast(Harness, KeptHarness(adapter))


def is_only_kept(adapter: Harness, path: Path) -> bool:
    """Tell whether a thread is gone, and a copy of it is kept."""
    try:
        if not os.path.isfile(KeptStore().get_file(path)):
            return False
        return find_file(adapter, path) is None
    except (OSError, ValueError, TasukiError):
        return False


def find_kept_harness(path: Path) -> Harness | None:
    """Find who reads the kept copy of a path that no longer exists; None without a copy."""
    record = KeptStore().find_record(path)
    if record is None or record.harness not in harnesses.list_names():
        return None
    adapter = harnesses.get_harness(record.harness)
    return build_reader(adapter) if is_only_kept(adapter, path) else None


def describe_copy(adapter: Harness, path: Path) -> str:
    """Describe in a sentence that a thread was read from its copy; empty where it was not."""
    if not (isinstance(adapter, KeptHarness) or is_only_kept(adapter, path)):
        return ""
    record = KeptStore().find_record(path)
    day = f" of {time.strftime('%Y-%m-%d', time.localtime(record.kept))}" if record else ""
    return f"Kept copy{day}: {adapter.title} no longer has its own file of this thread."


def list_only_kept(
    listed: Sequence[tuple[Harness, ThreadFile]], harness: str | None, cwd: Path | None
) -> Iterator[tuple[Harness, ThreadFile]]:
    """Yield the kept threads whose originals are gone, with who reads them.

    `listed` are the threads that exist; with `cwd` and a harness, those of the same folder and
    harness. A thread that its harness moved is not gone.
    """
    here = os.path.realpath(cwd) if cwd is not None else ""
    paths = {str(file.path) for _, file in listed}
    names: dict[str, set[str]] = {}  # of all threads of a harness, to know one that was moved
    for copy in KeptStore().read_copies():
        record = copy.record
        if record is None or record.path in paths or (harness and record.harness != harness):
            continue
        folder = record.head.cwd
        if here and folder and not is_same_folder(folder, here):
            continue
        if record.harness not in harnesses.list_names():
            continue
        adapter, path = harnesses.get_harness(record.harness), Path(record.path)
        if not is_only_kept(adapter, path):
            continue
        if adapter.name not in names:
            names[adapter.name] = {_name_thread(f.path) for f in adapter.list_files()}
        if _name_thread(path) not in names[adapter.name]:
            yield build_reader(adapter), ThreadFile(path, record.modified, record.bytes)


def _name_thread(path: Path) -> str:
    """Return the part of a path that names the thread itself."""
    return path.name if path.name != "events.jsonl" else f"{path.parent.name}/{path.name}"
