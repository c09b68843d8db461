"""Folders of the user, and paths that others wrote down."""

import errno
import os
from pathlib import Path

from tasuki.errors import HomeUnknown, UsageError


def home_folder() -> Path:
    """The user's home folder, an absolute path. Raises HomeUnknown.

    It is `HOME`, else what the system's list of users says.
    """
    home = os.path.expanduser("~")
    if not os.path.isabs(home):
        given = os.environ.get("HOME", "")
        why = f"HOME={given} is no whole path" if given else f"no HOME, and no user {os.getuid()}"
        raise HomeUnknown(f"Your home folder is not known ({why}). Set HOME to its whole path.")
    return Path(home)


def expand_user(path: str, variable: str = "") -> Path:
    """A path that a user typed, or gave in a variable, with `~` and `~NAME` as home folders.

    Raises HomeUnknown for `~` where nobody knows the folder, UsageError for a user who is not there.
    """
    if not path.startswith("~"):
        return Path(path)
    name, _, rest = path[1:].partition(os.sep)
    if not name:
        return home_folder() / rest.lstrip(os.sep)
    expanded = os.path.expanduser(f"~{name}")
    if not os.path.isabs(expanded):
        given = f"{variable}={path}" if variable else path
        raise UsageError(
            f"{given} names the home folder of {name}, who is no user here. Give the whole path, or ./{path}."
        )
    return Path(expanded) / rest.lstrip(os.sep)


def real_path(path: str | Path) -> str:
    """A path without symbolic links; the path itself where no file can have that name."""
    try:
        return os.path.realpath(path)
    except ValueError:  # a NUL, or half a pair
        return str(path)


def is_possible(path: str | Path) -> bool:
    """Whether a file could have such a name, there or not: no NUL, no half of a pair, not too long."""
    try:
        os.lstat(path)
    except ValueError:
        return False
    except OSError as error:
        return error.errno != errno.ENAMETOOLONG
    return True
