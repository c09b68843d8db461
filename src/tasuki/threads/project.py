"""Folders that belong to one project: those above a folder up to its repository, and the repository's other worktrees.

Read from git's files alone, since a list of threads starts no program.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from tasuki.paths import home_folder

MOST_WORKTREES = 64
_MAX_POINTER = 4_096
"""Bytes of a file in which git names a folder."""


def project_folders(cwd: Path) -> Iterator[Path]:
    """Folders whose threads are of the project that `cwd` lies in, nearest first, `cwd` itself left out.

    Without a repository these are the folders above it, below the home folder.
    """
    here = Path(os.path.realpath(cwd))
    above = [*here.parents]
    root = next((folder for folder in (here, *above) if _has_git(folder)), None)
    if root is None:
        home = Path(os.path.realpath(home_folder()))
        yield from (folder for folder in above if home in folder.parents)
        return
    yield from (folder for folder in above if folder == root or root in folder.parents)
    yield from (folder for folder in _worktrees(root) if folder != root)


def _has_git(folder: Path) -> bool:
    return os.path.lexists(folder / ".git")


def _worktrees(root: Path) -> Iterator[Path]:
    """The folders of all worktrees of a repository, the main one first."""
    common = _common(root / ".git")
    if common is None:
        return
    if common.name == ".git" or (common.parent / ".git").is_file():
        yield common.parent
    try:
        names = sorted(os.listdir(common / "worktrees"))[:MOST_WORKTREES]
    except OSError:
        return
    for name in names:
        if pointed := _pointed(common / "worktrees" / name / "gitdir"):
            yield Path(os.path.realpath(common / "worktrees" / name / pointed)).parent


def _common(git: Path) -> Path | None:
    """The folder that all worktrees share, from a worktree's `.git`: a folder, or a file that names one."""
    if git.is_dir():
        return Path(os.path.realpath(git))
    named = _pointed(git).removeprefix("gitdir:").strip()
    own = git.parent / named
    if not named or not own.is_dir():
        return None
    shared = _pointed(own / "commondir")
    if not shared and not (own / "HEAD").is_file():
        return None
    return Path(os.path.realpath(own / shared if shared else own))


def _pointed(file: Path) -> str:
    """What a small file of git says, empty where it cannot be read."""
    try:
        with file.open("rb") as source:
            return os.fsdecode(source.read(_MAX_POINTER)).strip()
    except OSError:
        return ""
