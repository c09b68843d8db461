"""Files of other programs are replaced whole or not at all; their mode stays, links are followed."""

import errno
import fcntl
import os
import stat
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from tasuki.errors import InstallFailed

MAX_BYTES = 64 << 20
"""A settings file is smaller."""
SETTINGS = (".json", ".toml")
PRIVATE = 0o600
_REASONS = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "your disk quota is used up",
    errno.EACCES: "you have no permission",
    errno.EPERM: "you have no permission",
    errno.EROFS: "the file system is read-only",
    errno.ENOTDIR: "a part of the path is a file, not a folder",
    errno.EISDIR: "it is a folder",
    errno.ELOOP: "its links lead in a circle",
}


def read(path: str | Path) -> bytes | None:
    """What a file holds, None where there is none. Raises InstallFailed where it cannot be read."""
    try:
        with open(path, "rb") as file:
            content = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InstallFailed(
            f"Cannot read {path}: {reason_of(error)}. Nothing was written."
        ) from error
    if len(content) > MAX_BYTES:
        raise InstallFailed(f"{path} is larger than {MAX_BYTES >> 20} MB: no settings file.")
    return content


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of the installer, so that two at once go one after the other."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = (folder / "installed.lock").open("a")
    except OSError as error:
        raise InstallFailed(
            f"Cannot write to {folder}, where tasuki keeps its data: {reason_of(error)}. "
            "Nothing was changed. TASUKI_DATA can name another folder."
        ) from error
    with file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def missing_folders(path: str) -> tuple[str, ...]:
    """Folders that must be made before a file can be written, the outermost first."""
    found, folder = [], os.path.dirname(os.path.realpath(path))
    while folder and not os.path.isdir(folder) and folder != os.path.dirname(folder):
        found.append(folder)
        folder = os.path.dirname(folder)
    return tuple(reversed(found))


def replace_all(files: Mapping[str, bytes | None], before: Mapping[str, bytes | None]) -> None:
    """Give every file its new content, None to remove it; all or none.

    `before` is what they held when that was decided. A file that is made is for the user alone
    where it holds settings. Raises InstallFailed where one cannot be written or holds something else by now.
    """
    made: list[str] = []
    try:
        ready = [_prepared(path, content, made) for path, content in files.items()]
        _replace(ready, before)
    except OSError as error:
        path = error.filename2 or error.filename or next(iter(files))
        raise InstallFailed(
            f"Cannot write {path}: {reason_of(error)}. Nothing was changed."
        ) from error
    finally:
        for left in made:
            with suppress(OSError):
                if os.path.isdir(left):
                    os.rmdir(left)  # only where it is empty
                else:
                    os.unlink(left)


def _prepared(path: str, content: bytes | None, made: list[str]) -> tuple[str, str, str]:
    """Write the new content beside the file: (path, target, temporary file or empty)."""
    target = os.path.realpath(path)
    if content is None:
        return path, target, ""
    for folder in missing_folders(path):
        os.mkdir(folder, 0o700 if os.path.basename(folder).startswith(".") else 0o755)
        made.insert(0, folder)
    try:
        number, temporary = tempfile.mkstemp(prefix=".tasuki-", dir=os.path.dirname(target))
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from error
    made.insert(0, temporary)
    try:
        with os.fdopen(number, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fchmod(stream.fileno(), _mode(target, PRIVATE if path.endswith(SETTINGS) else 0o644))
            os.fsync(stream.fileno())
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from error
    return path, target, temporary


def _mode(target: str, default: int) -> int:
    """The mode of a file that is there; one that may not be written to is an error."""
    try:
        mode = stat.S_IMODE(os.stat(target).st_mode)
    except FileNotFoundError:
        return default
    if not os.access(target, os.W_OK) or not mode & stat.S_IWUSR:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), target)
    return mode


def _replace(ready: list[tuple[str, str, str]], before: Mapping[str, bytes | None]) -> None:
    """Put every file in its place; where one fails, those before get their content back."""
    for path, _, _ in ready:
        if read(path) != before[path]:
            raise InstallFailed(f"{path} changed meanwhile. Nothing was written; run it again.")
    done: list[tuple[str, str]] = []
    try:
        for path, target, temporary in ready:
            if temporary:
                os.replace(temporary, target)
            else:
                os.unlink(target)
            done.append((path, target))
    except OSError:
        for path, target in done:
            _put_back(target, before[path])
        raise


def _put_back(target: str, content: bytes | None) -> None:
    with suppress(OSError):
        if content is None:
            os.unlink(target)
        else:
            Path(target).write_bytes(content)


def remove_if_empty(folders: tuple[str, ...]) -> None:
    """Remove folders that hold nothing any more; the outermost is named first."""
    for folder in reversed(folders):
        with suppress(OSError):
            os.rmdir(folder)


def reason_of(error: OSError) -> str:
    """Why a file cannot be used, in words."""
    return _REASONS.get(error.errno or 0) or error.strerror or str(error)
