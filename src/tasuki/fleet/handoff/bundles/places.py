"""Where moved work lands on its target: a clean checkout, or a new worktree next to it."""

import contextlib
import fcntl
import os
import re
import time
from collections.abc import Collection, Iterator
from pathlib import Path

from msgspec import Struct, structs

from tasuki.errors import NotPossible
from tasuki.fleet.handoff.bundles import repositories
from tasuki.fleet.handoff.git_commands import GitFailed
from tasuki.fleet.handoff.worktrees import find_free_branch, has_branch

LOCK_SECONDS = 120.0
"""How long another move within the same repository is waited for."""
MOST_FOLDERS = 100


class WorkPlace(Struct, frozen=True):
    """Where work lands: a work tree's top, a whole path, and the branch that is checked out there.

    `in_place` is true for the checkout that was there before, false for a worktree to be made.
    """

    folder: str
    branch: str
    in_place: bool


def plan_place(
    cwd: str,
    origin: str,
    packed_branch: str,
    commit: str,
    slug: str,
    wanted: str = "",
    taken: Collection[str] = (),
) -> WorkPlace:
    """Plan where work lands in the repository of `cwd`; nothing is made. Raises NotPossible.

    It lands in place only if that checkout is clean, whole (no sparse checkout), on the branch of
    the work, can be fast-forwarded to `commit`, which it must know, and none of the `taken` folders,
    in which others work, is in it. Else in a worktree:
    at `wanted`, a whole path, or next to the repository, on a new branch `move/SLUG` (`move-SLUG`
    where a branch `move` is in the way).
    """
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}", slug):
        raise NotPossible(f"The name of a worktree has letters, digits and - alone, not {slug!r}.")
    repository = repositories.open_repository(cwd)
    state = repositories.describe_repository(cwd)
    if not repositories.is_same_origin(state.origin, origin):
        said = f"is {state.origin}" if state.origin else "is missing"
        raise NotPossible(
            f"{state.top} is another repository: its origin {said}, that of the work is {origin}. "
            "Name a checkout of the same origin on this host."
        )
    if not state.commit:
        raise NotPossible(
            f"The repository {state.top} has no commit yet. Fetch it from its origin first."
        )
    is_clean = not state.dirty and not state.problem and state.branch == packed_branch != ""
    is_free = is_clean and not wanted and not is_taken(state.top, taken)
    if is_free and not is_sparse(repository) and is_forward(repository, commit):
        return WorkPlace(state.top, state.branch, True)
    # Next to the checkout that a worktree belongs to, so that names do not grow from move to move.
    common = Path(repository.common)
    main = common.parent if common.name == ".git" else Path(state.top)
    folder = _plan_folder(main, slug, wanted, taken)
    wanted_branch = f"move-{slug}" if has_branch(state.top, "move") else f"move/{slug}"
    return WorkPlace(folder, find_free_branch(state.top, wanted_branch), False)


def is_taken(top: str, taken: Collection[str]) -> bool:
    """Whether one of the taken folders is the top of a checkout, or in it."""
    own = os.path.realpath(top)
    return any(f"{os.path.realpath(folder)}/".startswith(f"{own}/") for folder in taken)


def _plan_folder(top: Path, slug: str, wanted: str, taken: Collection[str]) -> str:
    if wanted:
        if not os.path.isabs(wanted) or os.path.normpath(wanted) != wanted.rstrip("/"):
            raise NotPossible(f"The folder of a worktree must be a whole path: {wanted}")
        if os.path.lexists(wanted):
            raise NotPossible(f"{wanted} exists already. Name another folder for the worktree.")
        return wanted.rstrip("/")
    for number in range(1, MOST_FOLDERS):
        name = f"{top.name}-{slug}" if number == 1 else f"{top.name}-{slug}-{number}"
        if not os.path.lexists(top.with_name(name)) and str(top.with_name(name)) not in taken:
            return str(top.with_name(name))
    raise NotPossible(
        f"{top.with_name(top.name)}-{slug} exists a hundred times. Name another folder."
    )


def is_sparse(repository: repositories.Repository) -> bool:
    """Return whether only a part of the files is checked out."""
    return repository.git.read_or_empty("config", "--type=bool", "core.sparseCheckout") == "true"


def is_forward(repository: repositories.Repository, commit: str) -> bool:
    """Return whether a commit is HEAD or descends from it; false where it is not known."""
    return repository.git.succeeds("merge-base", "--is-ancestor", repository.head, commit)


def check_in_place(repository: repositories.Repository, place: WorkPlace, commit: str) -> None:
    """Raise NotPossible unless work can land in place now, as planned."""
    state = repositories.describe_repository(place.folder)
    if state.problem:
        raise NotPossible(state.problem)
    if os.path.realpath(state.top) != os.path.realpath(place.folder):
        raise NotPossible(f"{place.folder} is no checkout's top folder any more.")
    if state.branch != place.branch:
        raise NotPossible(f"{place.folder} is not on {place.branch} any more. Plan the move anew.")
    if entries := repositories.read_status(repository):
        raise NotPossible(
            f"{place.folder} has {len(entries)} changed files by now, among them {state.dirty[0]}. "
            "Commit them, or plan the move anew into a worktree."
        )
    if not is_forward(repository, commit):
        raise NotPossible(
            f"{place.folder} cannot be fast-forwarded to {commit[:12]}. Plan the move anew into a worktree."
        )


@contextlib.contextmanager
def lock_repository(repository: repositories.Repository) -> Iterator[repositories.Repository]:
    """Give a repository while no other move changes it. Raises NotPossible after `LOCK_SECONDS`.

    Every git that is run holds the lock, too: one that outlives a killed server is waited for.
    """
    descriptor = os.open(repository.common, os.O_RDONLY | os.O_CLOEXEC)
    until = time.monotonic() + LOCK_SECONDS
    try:
        while not _is_locked(descriptor, repository.top):
            if time.monotonic() > until:
                raise NotPossible(
                    f"Another move is at work in {repository.top}. Wait for it, then retry."
                )
            time.sleep(0.05)
        git = repository.git.change()
        git.inherited = (descriptor,)
        yield structs.replace(repository, git=git)
    finally:
        os.close(descriptor)


def _is_locked(descriptor: int, top: str) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        raise GitFailed(f"{top} cannot be locked: {error}") from error
    return True
