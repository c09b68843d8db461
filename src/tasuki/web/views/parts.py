"""Pages of which a browser has an older version: only what differs is sent.

A page is made of parts, such as cards. `PartHolder.hold` takes a part out while the page is rendered; when
it is sent, a part that the browser already has is replaced by an empty element with the same id and
the attribute `data-same`. The version of a page is a hash of its content, so two browsers with the
same page have the same version, and an unchanged page is answered with 304.
"""

import hashlib
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from functools import lru_cache

from markupsafe import Markup
from msgspec import Struct

from tasuki.patterns import compile_pattern

MOST_VERSIONS = 300
"""Versions of pages whose parts are remembered."""
MOST_PARTS = 1000
"""Parts whose hashes are kept."""
HELD = compile_pattern("\x02([^\x03]*)\x03")
"""A part that was taken out, by its id. Values in pages contain no control characters."""
COUNTED = compile_pattern("\x01([0-9]+(?:[.][0-9]+)?)\x01")
"""A time that counts on: seconds since 1970."""
VERSION_MARK = Markup("\x04")
NEWEST_MARK = Markup("\x05")
NOW_MARK = Markup("\x06")
"""What time it is on the server when the page is sent, in seconds since 1970."""
_PART_BEGIN, _PART_END = Markup("\x02"), Markup("\x03")


class PageVersions:
    """The parts of versions that were sent, by version and id. Used from several threads."""

    def __init__(self, most: int = MOST_VERSIONS) -> None:
        self.most = most
        self._parts: OrderedDict[str, Mapping[str, str]] = OrderedDict()
        self._lock = threading.Lock()

    def remember(self, version: str, hashes: Mapping[str, str]) -> None:
        """Remember a version."""
        with self._lock:
            self._parts[version] = hashes
            self._parts.move_to_end(version)
            while len(self._parts) > self.most:
                self._parts.popitem(last=False)

    def find(self, version: str) -> Mapping[str, str]:
        """Find the hash of each part of a version; none where it is not remembered."""
        with self._lock:
            return self._parts.get(version, {})


VERSIONS = PageVersions()


class PartHolder(Struct):
    """The parts of a page that is being rendered, by id: element, HTML, hash."""

    parts: dict[str, tuple[str, str, str]] = {}

    def hold(self, id: str, html: str, element: str = "li") -> Markup:
        """Take a part out of the page: `element` with this id."""
        self.parts[id] = (element, html, _hash_part(html))
        return _PART_BEGIN + id + _PART_END

    def finish(self, text: str, newest: int) -> "RenderedPage":
        """Return the page that was rendered as `text`; `newest` is the last line of the log that it shows."""
        hashes = {id: part[2] for id, part in self.parts.items()}
        version = compute_hash(text + "".join(hashes.values()))
        VERSIONS.remember(version, hashes)
        return RenderedPage(text, self.parts, version, newest)


class RenderedPage(Struct, frozen=True):
    """A page as it is now, for any number of browsers."""

    text: str
    """Its HTML without its parts."""
    parts: Mapping[str, tuple[str, str, str]]
    version: str
    newest: int
    """Id of the last line of the log that it shows."""

    def fill(self, known: str = "") -> str:
        """Return what a browser lacks that has the version `known`; empty where that is this one."""
        if self.version == known:
            return ""
        known_hashes = VERSIONS.find(known) if known else {}

        def put_back(match: re.Match[str]) -> str:
            if match[1] not in self.parts:
                return ""  # somebody's text, of which markers should have been taken out
            element, html, hash = self.parts[match[1]]
            if known_hashes.get(match[1]) == hash:
                return f'<{element} id="{match[1]}" data-same></{element}>'
            return html

        text = HELD.sub(put_back, self.text).replace(VERSION_MARK, self.version)
        return text.replace(NEWEST_MARK, str(self.newest))


def compute_hash(text: str) -> str:
    """Compute what identifies a text."""
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=8).hexdigest()


_hash_part = lru_cache(2 * MOST_PARTS)(compute_hash)
"""Parts are small, and most of them are as before; whole pages must not be kept."""


def fill_times(html: str, format_span: Callable[[float], str]) -> str:
    """Fill in what time it is now, and how long ago each counted time is."""
    now = time.time()
    html = html.replace(NOW_MARK, f"{now:.3f}")
    return COUNTED.sub(lambda match: format_span(now - float(match[1])), html)
