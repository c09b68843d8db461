"""Files and folders that only the user can read, and what the system says when they fail."""

import errno
import os
import secrets
from pathlib import Path

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""What the system reports where there is no room."""

_REASONS = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "your disk quota is used up",
    errno.EFBIG: "the file size limit is reached",
    errno.EACCES: "you have no permission there",
    errno.EPERM: "you have no permission there",
    errno.EROFS: "the file system is read-only",
    errno.ENOTDIR: "a part of the path is a file, not a folder",
}


def explain_error(error: OSError | ValueError | RecursionError) -> str:
    """Explain in words why something could not be stored or read; the caller adds the path."""
    if not isinstance(error, OSError):
        return str(error)
    return _REASONS.get(error.errno or 0, error.strerror or str(error))


def create_private_folder(path: Path) -> None:
    """Create a folder and the missing ones above it, for the user alone."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    for folder in reversed(missing):
        folder.mkdir(mode=0o700, exist_ok=True)
    if not path.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, "not a folder", str(path))


def replace_file(path: Path, content: bytes, mode: int = 0o600, *, synced: bool = True) -> None:
    """Write a file whole or not at all; an older one, or a link of that name, is replaced.

    `synced` waits until the content is on the disk. Raises OSError; the old file then stays.
    """
    new = path.with_name(f".{path.name}-{secrets.token_hex(4)}")
    number = os.open(new, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(number, "wb") as file:
            os.fchmod(number, mode)
            file.write(content)
            file.flush()
            if synced:
                os.fsync(number)
        os.replace(new, path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise


def sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on the disk."""
    file = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
