"""Events that hooks kept in files while no server answered: headers, an empty line, the payload.

Written by the hook script (`harness/hook_script.py`), one file for each event, named by its time.
"""

import os
import secrets
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from tasuki.fleet.correlator import HookPost

MOST_BYTES = 2 << 20
MOST_NUMBER = 2.0**40
"""Of a time in seconds, or a process: more is nonsense, and so is what is no number."""
STATUS = "status-"
"""How the names of files begin that a hook writes more than once."""
LEFT_SECONDS = 7 * 86400.0
"""After which a file goes that is no event: one that was set aside, or half written by a hook that was killed."""
NAMES = {
    "harness": "harness", "x-tasuki-agent": "token", "x-tasuki-event": "event_id",
    "x-tasuki-pane": "pane", "x-tasuki-socket": "socket",
}  # fmt: skip


def waiting(folder: Path) -> Iterator[Path]:
    """The files in the spool, the oldest first."""
    try:
        names = sorted(e.name for e in os.scandir(folder) if e.name.endswith(".json") and e.is_file(follow_symlinks=False))  # fmt: skip
    except OSError:
        return
    for name in names:
        yield folder / name


def taken(path: Path) -> Path:
    """The file under a name that no hook writes to. Of a status line the newest replaces the one before."""
    if not path.name.startswith(STATUS):
        return path
    own = path.with_name(f"0-{secrets.token_hex(8)}.json")
    try:
        path.rename(own)
    except OSError:
        return path
    return own


def read(path: Path) -> HookPost | None:
    """One event; None where the file is none of ours."""
    try:
        number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
        with os.fdopen(number, "rb") as file:
            content = file.read(MOST_BYTES)
    except OSError:
        return None
    head, empty, body = content.partition(b"\n\n")
    if not empty:
        return None
    return of_headers(_fields(head), body, spooled=True)


def _fields(head: bytes) -> dict[str, str]:
    lines = head.decode("utf-8", "replace").split("\n")
    pairs = (line.partition(":") for line in lines)
    return {name.strip().lower(): value.strip() for name, _, value in pairs}


def of_headers(fields: dict[str, str], body: bytes, *, spooled: bool) -> HookPost | None:
    """An event from the headers of its hook, with lower-case names; None without a harness."""
    values = {ours: fields.get(theirs, "")[:200] for theirs, ours in NAMES.items()}
    if not values["harness"]:
        return None
    return HookPost(
        body=body,
        at=_number(fields.get("x-tasuki-time", "")),
        pid=int(_number(fields.get("x-tasuki-pid", ""))),
        spooled=spooled,
        **values,
    )


def _number(text: str) -> float:
    try:
        number = float(text) if len(text) < 32 and text.isascii() else 0.0
    except ValueError:
        return 0.0
    return number if 0 <= number < MOST_NUMBER else 0.0


def set_aside(path: Path) -> None:
    """A file that cannot be read is kept, out of the way."""
    try:
        path.rename(path.with_suffix(".bad"))
    except OSError:
        path.unlink(missing_ok=True)


def tidy(folder: Path) -> None:
    """Take away what has lain in the spool for `LEFT_SECONDS` and is no event."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(".json") or entry.is_dir(follow_symlinks=False):
                continue
            with suppress(OSError):  # a hook renames its file meanwhile
                if entry.stat(follow_symlinks=False).st_mtime < time.time() - LEFT_SECONDS:
                    os.unlink(entry)


def dropped(folder: Path) -> int:
    """How many events were lost because the spool was full; the hook script counts them beside it."""
    try:
        return (folder.parent / "spool-dropped").read_bytes().count(b"\n")
    except OSError:
        return 0


def told(folder: Path) -> None:
    """The loss was told."""
    (folder.parent / "spool-dropped").unlink(missing_ok=True)
