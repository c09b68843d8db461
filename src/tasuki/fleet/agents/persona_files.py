"""Files of a persona's folder besides its skill, for viewing: experience, handoff documents.

The agents of a persona write there, so files may have any name, size and kind. No link is
followed.
"""

import os
import stat
from pathlib import Path

from msgspec import Struct

from tasuki.errors import HandoffNotFound, StoreFailed
from tasuki.fleet.agents import personas
from tasuki.paths import explain_error
from tasuki.text_safety import shorten_to_line

MOST_LISTED = 500
"""Most documents that are listed; the newest."""


class DocumentFile(Struct, frozen=True):
    """A file of `handoffs/`. `changed_at` is in seconds since 1970."""

    name: str
    path: str
    bytes: int
    changed_at: float


def get_experience_path(root: Path, slug: str) -> Path:
    """Return the path of a persona's experience. Raises PersonaNotFound, StoreFailed."""
    return personas.get_persona_folder(root, slug) / personas.EXPERIENCE


def list_documents(root: Path, slug: str) -> list[DocumentFile]:
    """List the handoff documents of a persona, newest first, at most `MOST_LISTED`.

    Without a folder there are none. Raises PersonaNotFound; StoreFailed where they cannot be
    listed.
    """
    folder = personas.get_persona_folder(root, slug) / personas.HANDOFFS
    listed: list[DocumentFile] = []
    try:
        if not stat.S_ISDIR(os.lstat(folder).st_mode):
            raise StoreFailed(f"{folder} is no folder. Put a folder there, for its documents.")
        with os.scandir(folder) as entries:
            for entry in entries:
                if one := _parse_entry(entry):
                    listed.append(one)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StoreFailed(f"{folder} cannot be listed: {explain_error(error)}.") from error
    return sorted(listed, key=lambda one: (-one.changed_at, one.name))[:MOST_LISTED]


def find_document(root: Path, slug: str, name: str) -> DocumentFile:
    """Find a document of a persona by its name.

    Raises PersonaNotFound, StoreFailed, HandoffNotFound.
    """
    for entry in list_documents(root, slug):
        if entry.name == name:
            return entry
    raise HandoffNotFound(f"{slug} has no document {shorten_to_line(name, 80)!r}.")


def _parse_entry(entry: "os.DirEntry[str]") -> DocumentFile | None:
    """Parse a folder entry into a document.

    None for links, for anything but files of text, and for names that cannot be sent.
    """
    if not entry.name.endswith(".md") or not entry.name.isprintable():
        return None
    try:
        status = entry.stat(follow_symlinks=False)
    except OSError:
        return None
    if not stat.S_ISREG(status.st_mode):
        return None
    return DocumentFile(entry.name, entry.path, status.st_size, status.st_mtime)
