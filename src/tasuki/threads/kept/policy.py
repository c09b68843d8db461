"""When copies of threads are made, as the setting `keep_threads` says, and what went wrong."""

import os
import shlex
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from msgspec import Struct

from tasuki.config.settings import Settings, load_settings
from tasuki.errors import TasukiError, ThreadNotFound
from tasuki.files import await_lock, create_private_folder, explain_error, replace_file
from tasuki.harness import registry as harnesses
from tasuki.harness.optional import find_file, list_parts
from tasuki.harness.protocol import Harness
from tasuki.harness.reading.jsonl import UNDECODABLE
from tasuki.threads.catalog import read_head
from tasuki.threads.kept.copies import KeptPart, KeptRecord, open_parts
from tasuki.threads.kept.reader import KeptHarness
from tasuki.threads.kept.store import KeptStore

PAUSE_SECONDS = 30.0
"""Between two copies of one thread at the ends of its turns."""
QUIET_SECONDS = 1.0
"""Agents write an answer a moment after the hook of its turn's end."""
FAILURE_FILE = "last-failure.json"


class KeepFailure(Struct, frozen=True):
    """Why a thread could not be copied, and when (UTC, ISO 8601)."""

    at: str
    path: str
    reason: str


def keep_thread(harness: Harness, path: Path, settings: Settings) -> Path | None:
    """Copy a thread, if it changed since its last copy, and remove what is too old or too much.

    Returns the copy's file; None where there is no conversation yet, or nothing to keep. Raises
    TasukiError, OSError.
    """
    if isinstance(harness, KeptHarness):
        return None
    store = KeptStore()
    original = find_file(harness, path)
    if original is None:
        raise ThreadNotFound(f"{path} no longer exists.")
    known = store.find_record(path)
    is_same = known and (known.modified, known.bytes) == (original.modified, original.bytes)
    if is_same and store.confirm(path):
        return store.get_file(path)
    head = read_head(harness, original)
    parts = list_parts(harness, path, head.cwd) if head else ()
    if head is None or not parts:
        return None
    with open_parts(parts) as opened:
        record = KeptRecord(
            harness=harness.name,
            path=str(path),
            head=head,
            modified=original.modified,
            bytes=original.bytes,
            kept=time.time(),
            parts=tuple(KeptPart(part.name, part.length) for part in opened),
        )
        file = store.write(record, opened)
    store.prune(
        days=settings.keep_threads_days, most_bytes=settings.keep_threads_bytes, spared=file
    )
    return file


def keep_at_handoff(harness: Harness, path: Path, settings: Settings) -> str:
    """Copy a thread that is handed off, where the settings say so.

    Returns a sentence for the user where that failed; else empty. Never raises.
    """
    if settings.keep_threads == "off":
        return ""
    reason = _try_keeping(harness, path, settings)
    return f"No copy of the thread was kept: {reason}" if reason else ""


def _try_keeping(harness: Harness, path: Path, settings: Settings) -> str:
    """Copy a thread; return why that failed, which is noted for `tasuki doctor`."""
    try:
        keep_thread(harness, path, settings)
    except TasukiError as error:
        reason = str(error)
    except OSError as error:
        reason = f"{error.filename or KeptStore().folder}: {explain_error(error)}."
    except Exception as error:  # Neither a handoff nor a hook may fail for want of a copy.
        reason = f"{type(error).__name__}: {error}. This is a bug in tasuki, please report it."
    else:
        failure = find_failure()
        if failure and failure.path == str(path):
            with suppress(OSError):
                get_failure_file().unlink()
        return ""
    _note_failure(path, reason)
    return reason


# -- at the end of a turn --------------------------------------------------------------


def run_in_background(name: str, path: str) -> None:
    """Copy a thread after a turn: once it is written, and not again within `PAUSE_SECONDS`.

    A process that waits for the end of the pause takes the turns of the meantime with it.
    """
    store, thread = KeptStore(), Path(path)
    try:
        settings, harness = load_settings(Path("/")), harnesses.get_harness(name)
        create_private_folder(store.folder)
        waiting = os.open(
            store.get_file(thread).with_suffix(".waiting"),
            os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW,
            0o600,
        )
    except (TasukiError, OSError) as error:
        _note_failure(thread, str(error))
        return
    if not await_lock(waiting):
        return
    age = PAUSE_SECONDS
    with suppress(OSError):
        age = max(time.time() - store.get_file(thread).stat().st_mtime, 0.0)
    time.sleep(max(PAUSE_SECONDS - age, QUIET_SECONDS))
    with suppress(OSError):
        store.get_file(thread).with_suffix(".waiting").unlink()
    os.close(waiting)
    _try_keeping(harness, thread, settings)


# -- what went wrong -------------------------------------------------------------------


def _note_failure(path: Path, reason: str) -> None:
    store = KeptStore()
    now = datetime.now(UTC).isoformat(timespec="seconds")
    with suppress(OSError):
        create_private_folder(store.folder)
        content = msgspec.json.encode(KeepFailure(now, str(path), reason))
        replace_file(get_failure_file(), content, synced=False)


def get_failure_file() -> Path:
    """Return the file that says why the last copy failed."""
    return KeptStore().folder / FAILURE_FILE


def find_failure() -> KeepFailure | None:
    """Find why the last copy that failed did; None where none did, or it was made since."""
    try:
        content = get_failure_file().read_bytes()
        return msgspec.json.decode(content, type=KeepFailure)
    except (OSError, *UNDECODABLE):
        return None


# -- for `tasuki doctor` ---------------------------------------------------------------


class KeptSummary(Struct, frozen=True):
    """The setting `keep_threads`, and how many copies there are, with their bytes on disk.

    `failure` is the last one, None where a copy of the same thread succeeded since.
    """

    setting: str
    count: int
    bytes: int
    failure: KeepFailure | None = None


def summarize_copies(settings: Settings) -> KeptSummary:
    """Count the kept copies."""
    copies = KeptStore().list_copies()
    return KeptSummary(
        settings.keep_threads, len(copies), sum(copy.bytes for copy in copies), find_failure()
    )


def list_failures(kept: KeptSummary | None) -> list[tuple[str, str]]:
    """List why the last copy that failed did, as a sentence, and what to do about it."""
    if kept is None or kept.failure is None:
        return []
    failure, file = kept.failure, shlex.quote(str(get_failure_file()))
    return [
        (
            f"No copy of the thread {failure.path} could be kept ({failure.at}): {failure.reason}",
            f"fix that; the note goes with the next copy, or: rm {file}",
        )
    ]


def describe_clean_up(harness: Harness, settings: Settings) -> str:
    """Describe in a sentence that a harness deletes its threads, sooner than copies are kept.

    It is empty where it does not, as far as its own settings say.
    """
    find_days = getattr(harnesses.get_integration(harness), "find_retention_days", None)
    days = find_days() if find_days else None
    keep_days = settings.keep_threads_days
    if days is None or (keep_days and days >= keep_days):
        return ""
    span = f"{days * 24:.0f} hours" if days < 1 else "1 day" if days == 1 else f"{days:.0f} days"
    sentence = f"{harness.title} deletes threads after {span}."
    if settings.keep_threads == "off":
        return f"{sentence} tasuki keeps no copies; the setting keep_threads changes that."
    kept = "of all threads" if settings.keep_threads == "all" else "of those handed off"
    return f"{sentence} Copies {kept} are kept."
