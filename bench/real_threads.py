"""The big and the usual thread out of real ones of Claude Code, read from folders outside the project.

A folder holds gzipped JSON Lines under `claude-code`. They are joined, over and over, into one thread:
each part hangs on the one before, its identifiers are fresh, and its time begins where that one ended.
"""

import gzip
import itertools
import json
import os
import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

LINKS = ("uuid", "parentUuid", "logicalParentUuid", "leafUuid", "messageId", "sourceToolAssistantUUID")  # fmt: skip
IDS = re.compile(r"\b((?:toolu|msg|req)_\w{6,})")
PAUSE = timedelta(minutes=1)


class End(NamedTuple):
    """Where a thread has come to: the identifier of its newest line, and its latest time."""

    last: str
    now: str


def unpack_threads(folders: Sequence[Path], place: Path) -> list[Path]:
    """The threads of some folders, unpacked once, by name."""
    place.mkdir(parents=True, exist_ok=True)
    found = []
    for packed in (path for folder in folders for path in (folder / "claude-code").rglob("*.gz")):
        found.append(place / packed.name.removesuffix(".gz"))
        if not found[-1].exists():
            found[-1].write_bytes(gzip.decompress(packed.read_bytes()))
    return sorted(found)


def join_threads(parts: Sequence[Path], out: Path, size: int) -> Path:
    """One thread of about `size` bytes; an existing file of that size is used again."""
    if out.exists() and abs(out.stat().st_size - size) < size // 10:
        return out
    written, end = 0, End("", "")
    with out.open("w", encoding="utf-8") as file:
        for number, part in enumerate(itertools.cycle(parts)):
            lines, end = _renew(part, f"{number:04x}", end)
            written += file.write(lines)
            if written >= size:
                return out
    raise ValueError("There are no threads to join.")


def _renew(part: Path, tag: str, end: End) -> tuple[str, End]:
    """The lines of a part that follows on some end, and its own end."""
    last, now = end
    ahead: timedelta | None = None
    hangs = not last
    lines = []
    for line in part.read_bytes().splitlines():
        try:
            record = json.loads(line)
        except ValueError:
            continue
        for key in LINKS:
            if record.get(key):
                record[key] = record[key][:-4] + tag
        if "uuid" in record:
            if not (hangs or record["parentUuid"] or record["type"] == "system"):
                record["parentUuid"], hangs = last, True
            last = record["uuid"]
        if time := record.get("timestamp"):
            moment = datetime.fromisoformat(time)
            if ahead is None:
                ahead = datetime.fromisoformat(now) + PAUSE - moment if now else timedelta()
            record["timestamp"] = (moment + ahead).isoformat(timespec="milliseconds")[:-6] + "Z"
            now = max(now, record["timestamp"])
        text = json.dumps(record, ensure_ascii=False, separators=(",", ":"))
        lines.append(IDS.sub(rf"\1{tag}", text) + "\n")
    return "".join(lines), End(last, now)


def link_threads(home: Path, sources: Sequence[Path], count: int) -> Path:
    """A home folder in which some threads stand often, in a dozen projects, as links; made once."""
    for number in range(count):
        folder = home / ".claude" / "projects" / f"-home-dev-proj{number % 12}"
        folder.mkdir(parents=True, exist_ok=True)
        if not (linked := folder / f"{number:08x}-0000-4000-8000-000000000000.jsonl").exists():
            os.link(sources[number % len(sources)], linked)
    return home
