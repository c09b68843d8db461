"""Replace files of other programs whole or not at all; keep their mode and follow links."""

import errno
import fcntl
import os
import stat
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from tasuki.errors import InstallFailed
from tasuki.files import explain_error, read_regular_file

MAX_BYTES = 64 << 20
"""A settings file is smaller."""
SETTINGS = (".json", ".toml")
PRIVATE = 0o600
LOCK = "installed.lock"


def read_content(path: str | Path) -> bytes | None:
    """Read a file; None where there is none. Raises InstallFailed where it cannot be read."""
    try:
        content = read_regular_file(path, MAX_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InstallFailed(
            f"Cannot read {path}: {explain_error(error)}. Nothing was written."
        ) from error
    if len(content) > MAX_BYTES:
        raise InstallFailed(f"{path} is larger than {MAX_BYTES >> 20} MB: no settings file.")
    return content


@contextmanager
def hold_lock(folder: Path) -> Iterator[tuple[str, ...]]:
    """Hold the lock of the installer, so that two at once run one after the other.

    Yields the folders that were created for it, the outermost first.
    """
    path = folder / LOCK
    created = find_missing_folders(str(path))
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = path.open("a")
    except OSError as error:
        raise InstallFailed(
            f"Cannot write to {folder}, where tasuki keeps its data: {explain_error(error)}. "
            "Nothing was changed. TASUKI_DATA can name another folder."
        ) from error
    with file:
        fcntl.flock(file, fcntl.LOCK_EX)
        if not path.exists() or not os.path.samestat(path.stat(), os.fstat(file.fileno())):
            # The one before removed it together with the last of what was installed.
            with hold_lock(folder) as created:
                yield created
            return
        yield created


def is_replaceable(path: str) -> bool:
    """Tell whether a file may be replaced, or created; links are followed."""
    target = os.path.realpath(path)
    folder = os.path.dirname(target)
    while not os.path.lexists(folder) and folder != os.path.dirname(folder):
        folder = os.path.dirname(folder)
    with suppress(PermissionError):
        return os.access(folder, os.W_OK | os.X_OK) and _choose_mode(target, PRIVATE) > 0
    return False


def find_missing_folders(path: str) -> tuple[str, ...]:
    """Find the folders to create before a file can be written, the outermost first."""
    folders, folder = [], os.path.dirname(os.path.realpath(path))
    while folder and not os.path.isdir(folder) and folder != os.path.dirname(folder):
        folders.append(folder)
        folder = os.path.dirname(folder)
    return tuple(reversed(folders))


def replace_files(files: Mapping[str, bytes | None], before: Mapping[str, bytes | None]) -> None:
    """Give every file its new content, None to remove it; all or none.

    `before` is what they held when that was decided. A new file is readable by the user alone
    where it holds settings. Raises InstallFailed where one cannot be written or holds something
    else by now.
    """
    created: list[str] = []
    try:
        ready = [_write_temporary(path, content, created) for path, content in files.items()]
        _replace_prepared(ready, before)
    except OSError as error:
        path = error.filename2 or error.filename or next(iter(files))
        raise InstallFailed(
            f"Cannot write {path}: {explain_error(error)}. Nothing was changed."
        ) from error
    finally:
        for path_left in created:
            with suppress(OSError):
                if os.path.isdir(path_left):
                    os.rmdir(path_left)  # only where it is empty
                else:
                    os.unlink(path_left)


def _write_temporary(path: str, content: bytes | None, created: list[str]) -> tuple[str, str, str]:
    """Write the new content next to the file: (path, target, temporary file or empty)."""
    target = os.path.realpath(path)
    if content is None:
        return path, target, ""
    for folder in find_missing_folders(path):
        os.mkdir(folder, 0o700 if os.path.basename(folder).startswith(".") else 0o755)
        created.insert(0, folder)
    try:
        number, temporary = tempfile.mkstemp(prefix=".tasuki-", dir=os.path.dirname(target))
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from error
    created.insert(0, temporary)
    try:
        with os.fdopen(number, "wb") as stream:
            stream.write(content)
            stream.flush()
            default = PRIVATE if path.endswith(SETTINGS) else 0o644
            os.fchmod(stream.fileno(), _choose_mode(target, default))
            os.fsync(stream.fileno())
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from error
    return path, target, temporary


def _choose_mode(target: str, default: int) -> int:
    """Return the mode of an existing file; one that may not be written to is an error."""
    try:
        mode = stat.S_IMODE(os.stat(target).st_mode)
    except FileNotFoundError:
        return default
    if not os.access(target, os.W_OK) or not mode & stat.S_IWUSR:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), target)
    return mode


def _replace_prepared(
    prepared: list[tuple[str, str, str]], before: Mapping[str, bytes | None]
) -> None:
    """Put every file in its place; if one fails, restore the content of those before it."""
    for path, _, _ in prepared:
        if read_content(path) != before[path]:
            raise InstallFailed(
                f"{path} changed in the meantime. Nothing was written; run the command again."
            )
    done: list[tuple[str, str]] = []
    try:
        for path, target, temporary in prepared:
            if temporary:
                os.replace(temporary, target)
            else:
                os.unlink(target)
            done.append((path, target))
    except OSError:
        for path, target in done:
            with suppress(OSError):
                if (content := before[path]) is None:
                    os.unlink(target)
                else:
                    Path(target).write_bytes(content)
        raise


def remove_empty_folders(folders: tuple[str, ...]) -> None:
    """Remove folders that hold nothing any more; the outermost is named first."""
    for folder in reversed(folders):
        with suppress(OSError):
            os.rmdir(folder)
