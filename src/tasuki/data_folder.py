"""The folder that holds what tasuki keeps."""

import errno
import os
from pathlib import Path

from tasuki.errors import StoreFailed
from tasuki.paths import expand_user, home_folder

NAMED = "TASUKI_DATA"
_REASONS = {
    errno.EACCES: "you have no permission to read it, or a folder above it",
    errno.ELOOP: "its links lead in a circle",
    errno.ENAMETOOLONG: "the name is too long",
}


def data_folder() -> Path:
    """Where tasuki keeps its data: `$TASUKI_DATA`, else the user's data folder; an absolute path.

    Raises HomeUnknown or UsageError where nobody knows the home folder that it lies in.
    """
    if configured := os.environ.get(NAMED):
        return Path(os.path.abspath(expand_user(configured, NAMED)))
    from platformdirs import user_data_path

    if not os.path.isabs(os.environ.get("XDG_DATA_HOME", "")):
        home_folder()  # it says what to do where nobody knows it
    return Path(os.path.abspath(user_data_path("tasuki")))


def writable_in_text() -> Path:
    """The data folder, for files of text that name it.

    Raises StoreFailed where its name is no UTF-8, or nothing can be kept in it.
    """
    folder = data_folder()
    if reason := find_fault(folder):
        raise StoreFailed(tell_fault(folder, reason))
    try:
        str(folder).encode()
    except UnicodeEncodeError as error:
        raise StoreFailed(
            f"The name of the data folder {folder} is not UTF-8, so no settings file and no database can hold it. "
            f"Name another: {NAMED}=/some/folder"
        ) from error
    return folder


def find_fault(folder: Path) -> str:
    """Why nothing in a folder can be seen, in words; empty where it can, or is not there yet."""
    try:
        with os.scandir(folder):
            return ""
    except FileNotFoundError:
        return "it is a link to nothing" if os.path.islink(folder) else ""
    except NotADirectoryError:
        above = next(place for place in (folder, *folder.parents) if os.path.lexists(place))
        return "it is a file" if above == folder else f"{above} is a file"
    except OSError as error:
        return _REASONS.get(error.errno or 0, error.strerror or str(error))


def tell_fault(folder: Path, reason: str) -> str:
    """A sentence on a data folder that cannot be used, with what names it."""
    if os.environ.get(NAMED):
        return f"The data folder {folder}, which {NAMED} names, cannot be used: {reason}. Name another: {NAMED}=/some/folder"
    return f"The data folder {folder} cannot be used: {reason}. Mend that, or name another: {NAMED}=/some/folder"
