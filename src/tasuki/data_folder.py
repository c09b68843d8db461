"""The folder that holds what tasuki keeps."""

import os
from pathlib import Path

from tasuki.errors import StoreFailed
from tasuki.paths import expand_user, home_folder

NAMED = "TASUKI_DATA"


def data_folder() -> Path:
    """Where tasuki keeps its data: `$TASUKI_DATA`, else the user's data folder; an absolute path.

    Raises HomeUnknown or UsageError where nobody knows the home folder that it lies in.
    """
    if configured := os.environ.get(NAMED):
        return Path(os.path.abspath(expand_user(configured)))
    from platformdirs import user_data_path

    folder = user_data_path("tasuki")
    if str(folder).startswith("~"):  # what platformdirs makes of a home that nobody knows
        home_folder()
    return Path(os.path.abspath(folder))


def readable_data_folder() -> Path:
    """The data folder, after a look whether what lies in it can be seen; it need not be there yet.

    Raises StoreFailed, which says what is wrong with it and that TASUKI_DATA names it.
    """
    folder = data_folder()
    if reason := find_fault(folder):
        raise StoreFailed(tell_fault(folder, reason))
    return folder


def find_fault(folder: Path) -> str:
    """Why nothing in a folder can be seen, in words; empty where it can, or is not there yet."""
    try:
        with os.scandir(folder):
            return ""
    except FileNotFoundError:
        return "it is a link to nothing" if os.path.islink(folder) else ""
    except NotADirectoryError:
        above = next((f for f in folder.parents if os.path.lexists(f)), folder)
        return f"{folder if os.path.lexists(folder) else above} is a file, not a folder"
    except OSError as error:
        return error.strerror or str(error)


def tell_fault(folder: Path, reason: str) -> str:
    """A sentence on a data folder that cannot be used, with what names it."""
    if os.environ.get(NAMED):
        return f"The data folder {folder}, which {NAMED} names, cannot be used: {reason}. Name another: {NAMED}=/some/folder"
    return f"The data folder {folder} cannot be used: {reason}. Mend that, or name another: {NAMED}=/some/folder"
