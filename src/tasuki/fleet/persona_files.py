"""What lies in a persona's folder besides its skill, to be looked at: experience, handoff documents.

The agents of a persona write there: whatever lies there may be of any name, size and kind. No link is
followed.
"""

import os
import stat
from pathlib import Path

from msgspec import Struct

from tasuki.errors import HandoffNotFound, StoreFailed
from tasuki.fleet import personas
from tasuki.plain import one_line
from tasuki.vault.store import why

LISTED = 500
"""Documents that are told, the newest."""


class Document(Struct, frozen=True):
    """A file of `handoffs/`. `changed_at` is in seconds since 1970."""

    name: str
    path: str
    bytes: int
    changed_at: float


def experience_path(root: Path, slug: str) -> Path:
    """Where the experience of a persona's agents stands. Raises PersonaNotFound, StoreFailed."""
    return personas.folder(root, slug) / personas.EXPERIENCE


def documents(root: Path, slug: str) -> list[Document]:
    """The handoff documents of a persona, the newest first, at most `LISTED`; none without a folder.

    Raises PersonaNotFound, StoreFailed where they cannot be listed.
    """
    where = personas.folder(root, slug) / personas.HANDOFFS
    found: list[Document] = []
    try:
        if not stat.S_ISDIR(os.lstat(where).st_mode):
            raise StoreFailed(f"{where} is no folder. Put a folder there, for its documents.")
        with os.scandir(where) as entries:
            for entry in entries:
                if one := _document(entry):
                    found.append(one)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StoreFailed(f"{where} cannot be listed: {why(error)}.") from error
    return sorted(found, key=lambda one: (-one.changed_at, one.name))[:LISTED]


def document(root: Path, slug: str, name: str) -> Document:
    """One of them by its name. Raises PersonaNotFound, StoreFailed, HandoffNotFound."""
    for one in documents(root, slug):
        if one.name == name:
            return one
    raise HandoffNotFound(f"{slug} has no document {one_line(name, 80)!r}.")


def _document(entry: "os.DirEntry[str]") -> Document | None:
    """A file as a document; None for links, for what is no file or no text, and names nobody can send."""
    if not entry.name.endswith(".md") or not entry.name.isprintable():
        return None
    try:
        found = entry.stat(follow_symlinks=False)
    except OSError:
        return None
    if not stat.S_ISREG(found.st_mode):
        return None
    return Document(entry.name, entry.path, found.st_size, found.st_mtime)
