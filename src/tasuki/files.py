"""The folders of the user, and files and folders that only the user can read, written whole or not at all."""

import errno
import fcntl
import os
import stat
import sys
import time
from pathlib import Path

from tasuki.errors import HomeUnknown, StoreFailed, UsageError


def find_home_folder() -> Path:
    """Return the user's home folder, an absolute path. Raises HomeUnknown.

    It is `HOME`, else the folder in the system's list of users.
    """
    home = os.path.expanduser("~")
    if not os.path.isabs(home):
        value = os.environ.get("HOME", "")
        reason = (
            f"HOME={value} is not an absolute path"
            if value
            else f"no HOME, and no user {os.getuid()}"
        )
        raise HomeUnknown(
            f"Your home folder is not known ({reason}). Set HOME to its absolute path."
        )
    return Path(home)


def find_program_folder(variable: str, below_home: str) -> Path:
    """Return the folder of a program, which a variable may move; below the home folder without it."""
    moved = os.environ.get(variable)
    return Path(moved) if moved else find_home_folder() / below_home


def expand_user(path: str, variable: str = "") -> Path:
    """Expand `~` and `~NAME` in a path that a user typed, or gave in a variable.

    Raises HomeUnknown for `~` where the folder is unknown, UsageError for a user who does not
    exist.
    """
    if not path.startswith("~"):
        return Path(path)
    name, _, rest = path[1:].partition(os.sep)
    if not name:
        return find_home_folder() / rest.lstrip(os.sep)
    expanded = os.path.expanduser(f"~{name}")
    if not os.path.isabs(expanded):
        origin = f"{variable}={path}" if variable else path
        raise UsageError(
            f"{origin} names the home folder of {name}, who is not a user here. Give the absolute path, or ./{path}."
        )
    return Path(expanded) / rest.lstrip(os.sep)


def resolve_path(path: str | Path) -> str:
    """Return a path without symbolic links; the path itself where the name is impossible."""
    try:
        return os.path.realpath(path)
    except ValueError:  # a NUL, or half a surrogate pair
        return str(path)


def is_possible(path: str | Path) -> bool:
    """Tell whether a file could have such a name, existing or not.

    It holds no NUL and no half of a surrogate pair, and is not too long.
    """
    try:
        os.lstat(path)
    except ValueError:
        return False
    except OSError as error:
        return error.errno != errno.ENAMETOOLONG
    return True


VARIABLE = "TASUKI_DATA"
_FOLDER_REASONS = {
    errno.EACCES: "you have no permission to read it, or a folder above it",
    errno.ELOOP: "its links form a loop",
    errno.ENAMETOOLONG: "the name is too long",
}


def get_data_folder() -> Path:
    """Return the folder of tasuki's data: `$TASUKI_DATA`, else the user's data folder.

    It is an absolute path. Raises HomeUnknown or UsageError where the home folder that it is in
    is unknown.
    """
    if configured := os.environ.get(VARIABLE):
        return Path(os.path.abspath(expand_user(configured, VARIABLE)))
    base, home = os.environ.get("XDG_DATA_HOME", ""), os.environ.get("HOME", "")
    if sys.platform == "linux" and "ANDROID_DATA" not in os.environ:
        # As platformdirs has it, whose import takes as long as reading a thread of 2 MB.
        folder = base or (os.path.join(home, ".local", "share") if home else "")
        if os.path.isabs(folder):
            return Path(os.path.abspath(folder)) / "tasuki"
    from platformdirs import user_data_path

    if not os.path.isabs(base):
        find_home_folder()  # Its error says what to do where the folder is unknown.
    return Path(os.path.abspath(user_data_path("tasuki")))


def require_text_path() -> Path:
    """Return the data folder, for text files that name it.

    Raises StoreFailed where its name is no UTF-8, or nothing can be stored in it.
    """
    folder = get_data_folder()
    if reason := find_fault(folder):
        raise StoreFailed(describe_fault(folder, reason))
    try:
        str(folder).encode()
    except UnicodeEncodeError as error:
        raise StoreFailed(
            f"The name of the data folder {folder} is not UTF-8, so no settings file and no database can hold it. "
            f"Choose another: {VARIABLE}=/some/folder"
        ) from error
    return folder


def find_fault(folder: Path) -> str:
    """Explain why nothing in a folder can be seen; empty where it can, or does not exist yet."""
    try:
        with os.scandir(folder):
            return ""
    except FileNotFoundError:
        return "it is a link to nothing" if os.path.islink(folder) else ""
    except NotADirectoryError:
        blocking = next(place for place in (folder, *folder.parents) if os.path.lexists(place))
        return "it is a file" if blocking == folder else f"{blocking} is a file"
    except OSError as error:
        return _FOLDER_REASONS.get(error.errno or 0, error.strerror or str(error))


def describe_fault(folder: Path, reason: str) -> str:
    """Describe in a sentence why a data folder cannot be used, and how to name another."""
    if os.environ.get(VARIABLE):
        return f"The data folder {folder}, which {VARIABLE} names, cannot be used: {reason}. Choose another: {VARIABLE}=/some/folder"
    return f"The data folder {folder} cannot be used: {reason}. Fix that, or choose another: {VARIABLE}=/some/folder"


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
    errno.EISDIR: "it is a folder",
    errno.ELOOP: "its links form a loop",
    errno.ENOLCK: "its file system takes no locks (NFS?)",
    errno.ESTALE: "its file server no longer knows it",
}


def explain_error(error: OSError | ValueError | RecursionError) -> str:
    """Explain in words why something could not be stored or read; the caller adds the path."""
    if not isinstance(error, OSError):
        return str(error)
    return _REASONS.get(error.errno or 0) or error.strerror or str(error)


def read_regular_file(path: str | Path, most: int = -1) -> bytes:
    """Read a file, at most so many bytes.

    A pipe or a device, which could block, is an OSError, and so is a name that no file can have.
    """
    try:
        number = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except ValueError as error:
        raise OSError(errno.EINVAL, str(error), str(path)) from None
    with open(number, "rb") as file:
        if not stat.S_ISREG(os.fstat(number).st_mode):
            raise OSError(errno.EINVAL, "it is a pipe or a device", str(path))
        return file.read(most)


def await_lock(number: int, seconds: float = 0.0) -> bool:
    """Wait for the lock of an opened file; False where another process keeps it for so long.

    Raises OSError where the file system takes no locks.
    """
    deadline = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.02)
        else:
            return True


def create_private_folder(path: Path) -> None:
    """Create a folder and the missing ones above it, for the user alone."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    for folder in reversed(missing):
        folder.mkdir(mode=0o700, exist_ok=True)
    if not path.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, "not a folder", str(path))


def create_file(path: Path, content: bytes, mode: int = 0o600, *, synced: bool = True) -> None:
    """Write a new file whole or not at all. Raises FileExistsError where there is one, OSError.

    `synced` waits until the content is on the disk.
    """
    number = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(number, "wb") as file:
            file.write(content)
            file.flush()
            if synced:
                os.fsync(number)
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def replace_file(path: Path, content: bytes, mode: int = 0o600, *, synced: bool = True) -> None:
    """Write a file as `create_file` does; an older one, or a link of that name, is replaced.

    Raises OSError; the old file then stays.
    """
    new = path.with_name(f".{path.name}-{os.urandom(4).hex()}")
    create_file(new, content, synced=synced)
    try:
        new.chmod(mode)
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
