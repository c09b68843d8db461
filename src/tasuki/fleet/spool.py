"""Events that hooks kept in files while no server answered: headers, an empty line, the payload.

Written by the hook script (`harness/hook_script.py`), one file for each event, named by its time.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from tasuki.fleet.correlator import HookPost

MOST_BYTES = 2 << 20
MOST_NUMBER = 2.0**40
"""Of a time in seconds, or a process: more is nonsense, and so is what is no number."""
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


def dropped(folder: Path) -> int:
    """How many events were lost because the spool was full; the hook script counts them beside it."""
    try:
        return (folder.parent / "spool-dropped").read_bytes().count(b"\n")
    except OSError:
        return 0


def told(folder: Path) -> None:
    """The loss was told."""
    (folder.parent / "spool-dropped").unlink(missing_ok=True)
