"""Whether texts occur in the files of a thread, whatever was clipped in memory."""

import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

_SQLITE = b"SQLite format 3\0"
_BLOCK = 1 << 20


def find_occurring(
    paths: Iterable[str], needles: Iterable[str], extents: Mapping[str, int] | None = None
) -> set[str]:
    """Find which texts occur in the strings of thread files, whatever was clipped in memory.

    `extents` are the bytes of each file that count, from its beginning; by default all.
    Compares JSON-escaped bytes, in Markdown the plain ones, block by block, so the cost is that
    of reading the files. Databases are left out: their pages hold other threads, and split
    texts.
    """
    texts = {n for n in needles if n}
    found: set[str] = set()
    for path in paths:
        plain = path.endswith(".md")
        wanted = {
            n: (n.encode("utf-8", "replace"),) if plain else _list_escapes(n) for n in texts - found
        }
        longest = max((len(e) for es in wanted.values() for e in es), default=0)
        for block in _read_blocks(Path(path), longest, (extents or {}).get(path)):
            found |= {n for n, es in wanted.items() if any(e in block for e in es)}
            wanted = {n: es for n, es in wanted.items() if n not in found}
            if not wanted:
                break
    return found


def _list_escapes(text: str) -> tuple[bytes, ...]:
    import json

    plain = json.dumps(text, ensure_ascii=False).encode("utf-8", "replace")[1:-1]
    ascii_only = json.dumps(text)[1:-1].encode()
    return (plain,) if plain == ascii_only else (plain, ascii_only)


def _read_blocks(path: Path, overlap: int, extent: int | None) -> Iterator[bytes]:
    carried = b""
    left = sys.maxsize if extent is None else extent
    try:
        with path.open("rb") as file:
            while block := file.read(min(_BLOCK, left)):
                left -= len(block)
                if not carried and block.startswith(_SQLITE):
                    return
                yield carried + block
                carried = block[-overlap:] if overlap else b""
    except OSError:
        return
