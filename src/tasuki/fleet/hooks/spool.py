"""Events that hooks kept in files while no server answered: headers, an empty line, the payload.

The hook script (`install/hook_script.py`) writes them, one file for each event, named by
its time.
"""

import os
import secrets
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from tasuki.fleet.hooks.correlator import HookPost

MOST_BYTES = 2 << 20
MOST_NUMBER = 2.0**40
"""The largest time in seconds, or process number; a larger one, or none, is nonsense."""
STATUS_PREFIX = "status-"
"""The prefix of files that a hook overwrites."""
MOST_AGE_SECONDS = 7 * 86400.0
"""Age at which other files are removed: those set aside, or half written by a killed hook."""
HEADER_FIELDS = {
    "harness": "harness", "x-tasuki-agent": "token", "x-tasuki-event": "event_id",
    "x-tasuki-pane": "pane", "x-tasuki-socket": "socket",
}  # fmt: skip


def list_waiting(folder: Path) -> Iterator[Path]:
    """Yield the files in the spool, oldest first."""
    try:
        names = sorted(e.name for e in os.scandir(folder) if e.name.endswith(".json") and e.is_file(follow_symlinks=False))  # fmt: skip
    except OSError:
        return
    for name in names:
        yield folder / name


def claim_file(path: Path) -> Path:
    """Rename a file to a name that no hook writes to: a newer status line replaces the last."""
    if not path.name.startswith(STATUS_PREFIX):
        return path
    claimed = path.with_name(f"0-{secrets.token_hex(8)}.json")
    try:
        path.rename(claimed)
    except OSError:
        return path
    return claimed


def read_post(path: Path) -> HookPost | None:
    """Read one event; None where the file is not an event."""
    try:
        number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
        with os.fdopen(number, "rb") as file:
            content = file.read(MOST_BYTES)
    except OSError:
        return None
    head, empty, body = content.partition(b"\n\n")
    if not empty:
        return None
    pairs = (line.partition(":") for line in head.decode("utf-8", "replace").split("\n"))
    fields = {name.strip().lower(): value.strip() for name, _, value in pairs}
    return build_post(fields, body, spooled=True)


def build_post(fields: dict[str, str], body: bytes, *, spooled: bool) -> HookPost | None:
    """Build an event from its hook's headers, with lower-case names; None without a harness."""
    values = {name: fields.get(header, "")[:200] for header, name in HEADER_FIELDS.items()}
    if not values["harness"]:
        return None
    return HookPost(
        body=body, at=_parse_number(fields.get("x-tasuki-time", "")),
        pid=int(_parse_number(fields.get("x-tasuki-pid", ""))), spooled=spooled, **values,
    )  # fmt: skip


def _parse_number(text: str) -> float:
    try:
        number = float(text) if len(text) < 32 and text.isascii() else 0.0
    except ValueError:
        return 0.0
    return number if 0 <= number < MOST_NUMBER else 0.0


def set_aside(path: Path) -> None:
    """Rename a file that cannot be read, to keep it out of the way."""
    try:
        path.rename(path.with_suffix(".bad"))
    except OSError:
        path.unlink(missing_ok=True)


def clean_folder(folder: Path) -> None:
    """Remove files that are no events and have been in the spool for `MOST_AGE_SECONDS`."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(".json") or entry.is_dir(follow_symlinks=False):
                continue
            with suppress(OSError):  # a hook may rename its file meanwhile
                if entry.stat(follow_symlinks=False).st_mtime < time.time() - MOST_AGE_SECONDS:
                    os.unlink(entry)


def count_dropped(folder: Path) -> int:
    """Count the events lost because the spool was full, from the hook script's file beside it."""
    with suppress(OSError):
        return (folder.parent / "spool-dropped").read_bytes().count(b"\n")
    return 0


def forget_dropped(folder: Path) -> None:
    """Forget the lost events: they were reported."""
    (folder.parent / "spool-dropped").unlink(missing_ok=True)
