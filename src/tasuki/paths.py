"""One form for the paths of a thread, however the program that wrote them spells them.

`C:\\x`, `c:/x`, `/c/x` of Git Bash, `/mnt/c/x` of WSL and `\\\\?\\C:\\x` are `c:/x`.
"""

import os
import posixpath
from collections.abc import Callable
from functools import lru_cache

from tasuki.files import resolve_path
from tasuki.patterns import compile_pattern

_DRIVE = compile_pattern(
    r"(?:[\\/]{2}[?.][\\/])?(?:([A-Za-z]):(?=[\\/]|$)|/(?:mnt/|cygdrive/)?([A-Za-z])(?=/|$))"
)
_SHARE = compile_pattern(
    r"(?i)[\\/]{2}(?:[?.][\\/]unc[\\/](?=[^\\/])|wsl(?:\$|\.localhost)[\\/][^\\/]+(?=[\\/]))"
)
"""The start of a share's long name, and of a folder of WSL as Windows names it."""


@lru_cache(maxsize=32_768)
def normalize_path(path: str) -> str:
    """Return a path with forward slashes, `c:` for a drive, composed letters and no `.` or `..` in it."""
    if not path.isascii():
        import unicodedata

        path = unicodedata.normalize("NFC", path)
    if path.startswith("file://"):
        from urllib.parse import unquote

        path = unquote(path[7:])
        path = path[1:] if path[2:3] == ":" else path
    if share := _SHARE.match(path):
        path = ("//" if share[0][2] in "?." else "") + path[share.end() :]
    elif drive := _DRIVE.match(path):
        path = f"{(drive[1] or drive[2]).lower()}:{path[drive.end() :] or '/'}"
    path = path.replace("\\", "/")
    if "/." in path or "//" in path[1:] or path.startswith("./"):
        path = posixpath.normpath(path)
    return path


def is_on_drive(path: str) -> bool:
    """Return whether a path is on a drive of Windows, where case says nothing."""
    return normalize_path(path)[1:2] == ":"


def fold_path(path: str) -> str:
    """Return a path for comparison."""
    path = normalize_path(path)
    return path.lower() if is_on_drive(path) else path


@lru_cache(maxsize=32_768)
def make_relative(path: str, folder: str) -> str:
    """Return a path as seen from a folder, if it is below it.

    Another one is spelled as the folder is: `/mnt/d/x` beside `/mnt/c/y`. Where the folder shows
    that the thread ran on another system than Windows, a backslash is a part of a name.
    """
    whole, base = normalize_path(path), normalize_path(folder).rstrip("/")
    size = len(base)
    if base and whole[size : size + 1] == "/" and fold_path(whole[:size]) == fold_path(base):
        return whole[size + 1 :]
    if (linked := follow_links(whole, base)) != whole:
        return linked.removeprefix(f"{base}/")
    drive = _DRIVE.match(folder)
    if folder.startswith("/") and not drive and ("\\" in path or whole[1:2] == ":"):
        return path
    if drive and drive[2] and whole[1:2] == ":":
        return f"{folder[: drive.start(2)]}{whole[0]}{whole[2:]}"
    return whole


def follow_links(path: str, folder: str) -> str:
    """Return a path as a folder of this machine spells it, if symbolic links lead below or above that.

    Any other path is returned as it is, and each path where the folder is not on this machine.
    A link that is itself below the folder keeps its name.
    """
    if (
        path[:1] != "/"
        or f"{path}/".startswith(f"{folder}/")
        or not (real := find_real_folder(folder))
    ):
        return path
    above, _, name = path.rpartition("/")
    found = f"{resolve_links(above)}/{name}"
    if not found.startswith(f"{real}/"):
        found = resolve_links(found)
    if f"{real}/".startswith(f"{found}/") and folder.endswith(below := real[len(found) :]):
        return folder.removesuffix(below)
    return f"{folder}{found[len(real) :]}" if found.startswith(f"{real}/") else path


Found = dict[tuple[str, bool], str]
_found: Found = {}
"""Each path that this process looked up without its links, and each folder as it is on this machine (True)."""
MOST_FOUND = 8_192
DEPENDING: list[Callable[[], None]] = [make_relative.cache_clear]
"""Clear what other caches made of it."""


def resolve_links(path: str) -> str:
    """Return a path in its one form, without the symbolic links that are on this machine."""
    return _recall(path, is_folder=False)


def find_real_folder(folder: str) -> str:
    """Return a folder of this machine without symbolic links, empty where there is none."""
    return _recall(folder, is_folder=True)


def _recall(path: str, *, is_folder: bool) -> str:
    if (found := _found.get((path, is_folder))) is None:
        if len(_found) >= MOST_FOUND:
            forget_links()
        found = _found[path, is_folder] = _look_up(path, is_folder)
    return found


def _look_up(path: str, is_folder: bool) -> str:
    if is_folder and not (path[:1] == "/" and os.path.isdir(path)):
        return ""
    path = normalize_path(path)
    return normalize_path(resolve_path(path)) if path[:1] == "/" else path


def forget_links() -> Found:
    """Forget what was looked up of links and folders; return where what is looked up from now on is noted."""
    global _found
    _found = {}
    for clear in DEPENDING:
        clear()
    return _found


def are_noted_in(found: Found) -> bool:
    """Return whether all that was looked up since is there: nobody has forgotten it."""
    return found is _found


def still_lead(found: Found) -> bool:
    """Return whether links and folders are what they were."""
    return all(_look_up(*what) == there for what, there in found.items())


def is_outside(path: str) -> bool:
    """Return whether a path as seen from a folder is not below it."""
    return path.startswith(("/", "~", "..")) or path[1:3] == ":/"


def is_same_folder(recorded: str, here: str) -> bool:
    """Tell whether a recorded folder is this one, however either is spelled.

    Symbolic links are resolved where they still exist.
    """
    if not recorded:
        return False
    wanted = fold_path(here)
    return fold_path(recorded) == wanted or fold_path(resolve_path(recorded)) == wanted
