"""Folders of one project, from git's files alone: a list of threads starts no program."""

import os
from collections.abc import Iterator
from pathlib import Path

from tasuki.files import find_home_folder
from tasuki.paths import is_same_folder, normalize_path
from tasuki.patterns import compile_pattern

MOST_WORKTREES = 64
_MAX_POINTER = 4_096
"""Bytes of a file in which git names a folder."""
_WORKTREE = compile_pattern(r"(.+?)/(?:\.[\w-]+/)?\.?(?:git-)?worktrees?/.")
"""A worktree in its repository, as programs make them: `.claude/worktrees/x`, `.worktrees/x`."""


def belongs_to(recorded: str, here: str) -> bool:
    """Tell whether a recorded folder is this one, or was a worktree of its repository and is gone."""
    if is_same_folder(recorded, here):
        return True
    match = _WORKTREE.match(normalize_path(recorded))
    if match is None or os.path.isdir(recorded):
        return False
    return is_same_folder(match[1], here)


def list_project_folders(cwd: Path) -> Iterator[Path]:
    """Yield folders whose threads belong to the project of `cwd`, nearest first, without `cwd`.

    Without a repository these are the folders above it, below the home folder.
    """
    here = Path(os.path.realpath(cwd))
    parents = [*here.parents]
    root = next((folder for folder in (here, *parents) if os.path.lexists(folder / ".git")), None)
    if root is None:
        home = Path(os.path.realpath(find_home_folder()))
        yield from (folder for folder in parents if home in folder.parents)
        return
    yield from (folder for folder in parents if folder == root or root in folder.parents)
    yield from (folder for folder in _list_worktrees(root) if folder != root)


def _list_worktrees(root: Path) -> Iterator[Path]:
    """Yield the folders of all worktrees of a repository, the main one first."""
    common = _find_common_folder(root / ".git")
    if common is None:
        return
    if common.name == ".git" or (common.parent / ".git").is_file():
        yield common.parent
    try:
        names = sorted(os.listdir(common / "worktrees"))[:MOST_WORKTREES]
    except OSError:
        return
    for name in names:
        if pointed := _read_pointer(common / "worktrees" / name / "gitdir"):
            yield Path(os.path.realpath(common / "worktrees" / name / pointed)).parent


def _find_common_folder(git: Path) -> Path | None:
    """Find the folder that all worktrees share, by the `.git` of one: a folder, or a pointer."""
    if git.is_dir():
        return Path(os.path.realpath(git))
    pointer = _read_pointer(git).removeprefix("gitdir:").strip()
    own = git.parent / pointer
    if not pointer or not own.is_dir():
        return None
    shared = _read_pointer(own / "commondir")
    if not shared and not (own / "HEAD").is_file():
        return None
    return Path(os.path.realpath(own / shared if shared else own))


def _read_pointer(file: Path) -> str:
    """Read a small file of git, empty where it cannot be read."""
    try:
        with file.open("rb") as source:
            return os.fsdecode(source.read(_MAX_POINTER)).strip()
    except OSError:
        return ""
