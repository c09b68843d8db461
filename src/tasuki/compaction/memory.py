"""What is remembered of a thread's compactions between two hooks, as files in tasuki's data folder.

    <data>/compactions/<key of the thread>/summary        what the harness put in place of the past
                                           instructions   what the user asked the summary to keep
                                           given-<key>    that a block was given, once for each
    <data>/compactions/<harness>.json                      the last block, for `tasuki doctor`

Two processes at once are safe.
"""

import hashlib
import os
import time
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from tasuki.draft.redact.redactor import Redactor
from tasuki.files import create_private_folder, get_data_folder, replace_file

KEPT_SECONDS = 30 * 86400
"""How long a thread's compactions are remembered."""
MAX_SUMMARY_BYTES = 4 << 20


class CompactionReport(Struct, frozen=True):
    """What became of the last compaction in one harness."""

    at: float
    """Seconds since the epoch."""
    thread: str
    tokens: int = 0
    """Tokens of the block; 0 where nothing was missing."""
    corrections: int = 0
    rules: int = 0
    replaced: bool = False
    """tasuki wrote the summary itself."""
    problem: str = ""
    """Why there was no block, as a sentence."""


def get_folder() -> Path:
    """Return the folder of everything that is remembered of compactions."""
    return get_data_folder() / "compactions"


class CompactionMemory:
    """What is remembered of the compactions of one thread."""

    def __init__(self, harness: str, thread: str) -> None:
        self.harness = harness
        self.thread = thread
        key = hashlib.sha256(f"{harness}:{thread}".encode("utf-8", "replace")).hexdigest()[:24]
        self.folder = get_folder() / key

    def keep(self, name: str, text: str) -> None:
        """Keep a text under a name, in place of the one before, without its secrets."""
        text = Redactor().redact(text)
        with suppress(OSError):
            create_private_folder(self.folder)
            replace_file(
                self.folder / name,
                text.encode("utf-8", "replace")[:MAX_SUMMARY_BYTES],
                synced=False,
            )

    def read(self, name: str) -> str:
        """Read a kept text, empty where there is none."""
        try:
            with (self.folder / name).open("rb") as file:
                return file.read(MAX_SUMMARY_BYTES).decode("utf-8", "replace")
        except OSError:
            return ""

    def take(self, name: str) -> str:
        """Read a kept text and forget it."""
        text = self.read(name)
        with suppress(OSError):
            (self.folder / name).unlink(missing_ok=True)
        return text

    def keep_block(self, summary: str, block: str) -> None:
        """Keep the block of a summary, for a harness that needs it with each request."""
        self.keep("block", f"{_digest(summary)}\n{block}")

    def read_block(self, summary: str) -> str | None:
        """Read the kept block of a summary, None where there is none of this one."""
        digest, _, block = self.read("block").partition("\n")
        return block if digest == _digest(summary) else None

    def is_first_block(self, compaction: str) -> bool:
        """Return whether no block was given yet for a compaction, and remember that one is.

        `compaction` is its place in the thread, or its id. Without a place to remember it, the
        block is given: twice is better than never.
        """
        name = f"given-{_digest(compaction)}"
        try:
            create_private_folder(self.folder)
            os.close(os.open(self.folder / name, os.O_CREAT | os.O_EXCL, 0o600))
        except FileExistsError:
            return False
        except OSError:
            return True
        forget_old(self.folder.parent)
        return True


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]


def write_report(harness: str, report: CompactionReport) -> None:
    """Write what became of the last compaction in a harness."""
    report = msgspec.structs.replace(report, problem=Redactor().redact(report.problem))
    with suppress(OSError):
        create_private_folder(get_folder())
        replace_file(get_folder() / f"{harness}.json", msgspec.json.encode(report), synced=False)


def read_report(harness: str) -> CompactionReport | None:
    """Read what became of the last compaction in a harness, None if there was none."""
    try:
        return msgspec.json.decode(
            (get_folder() / f"{harness}.json").read_bytes(), type=CompactionReport
        )
    except (OSError, msgspec.MsgspecError):
        return None


def forget_old(folder: Path) -> None:
    """Remove what is remembered of compactions of long ago."""
    oldest = time.time() - KEPT_SECONDS
    with suppress(OSError):
        for entry in list(os.scandir(folder)):
            files = list(os.scandir(entry.path)) if entry.is_dir(follow_symlinks=False) else []
            old = [file for file in files if file.stat(follow_symlinks=False).st_mtime < oldest]
            for file in old:
                os.unlink(file.path)
            if old and len(old) == len(files):
                os.rmdir(entry.path)
