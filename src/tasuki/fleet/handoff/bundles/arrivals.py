"""Moved work on its target: received, laid out in its place, or taken back."""

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

from tasuki.errors import NotPossible
from tasuki.files import explain_error
from tasuki.fleet.handoff.bundles import places, repositories
from tasuki.fleet.handoff.bundles.changes import WorkChanged, WorkShape, change_shape
from tasuki.fleet.handoff.bundles.packs import (
    MOST_BUNDLE_BYTES,
    PackedWork,
    check_id,
    make_commits,
    name_pack,
)
from tasuki.fleet.handoff.git_commands import NETWORK, WRITE_SECONDS, Git, GitFailed
from tasuki.fleet.handoff.worktrees import WorktreePlan, has_branch, make_worktree
from tasuki.fleet.store.failures import StepFailed

FETCH_SECONDS = 120.0
"""How long commits may take to come from the origin."""
_CODE = "work_not_unpacked"


class _Marks:
    """The references of one arrival: `moved/ID` once it is whole, and private ones before."""

    def __init__(self, repository: repositories.Repository, id: str) -> None:
        self.git, self._read = repository.git, repository.read_ref
        self.moved = f"refs/tasuki/moved/{id}"
        self._private = f"refs/tasuki/arrivals/{id}"

    def read(self, name: str) -> str:
        """Return the hash of `commit`, `work`, `before`, `placed` or `undoing`; empty for none."""
        return self._read(f"{self._private}/{name}")

    def set(self, name: str, commit: str) -> None:
        """Set a private reference."""
        self.git.run("update-ref", f"{self._private}/{name}", commit)

    def finish(self, placed: str, last: str) -> None:
        """Set at once what was placed and that it is whole."""
        lines = f"update {self._private}/placed {placed}\nupdate {self.moved} {last}\n"
        self.git.run("update-ref", "--stdin", input=lines.encode())

    def remove(self) -> None:
        """Remove all of them."""
        names = self.git.read("for-each-ref", "--format=%(refname)", self._private).split()
        lines = "".join(f"delete {name}\n" for name in (*names, self.moved))
        self.git.run("update-ref", "--stdin", input=lines.encode())


def unpack_work(cwd: str, place: places.WorkPlace, packed: PackedWork, reference_id: str) -> str:
    """Lay packed work out in its place in the repository of `cwd`; return a note.

    Afterwards HEAD is its commit, the index its index, the files its files; what was untracked
    is untracked again. It may be called again after a crash at any point: it continues, or finds
    that it is done. Changes that others made meanwhile are never overwritten. Hooks and
    filters of the repository's own configuration do not run; filters of the user's or the
    system's configuration do, where git writes a file that is unchanged.
    Raises StepFailed (`work_not_unpacked`).
    """
    with _open_arrival(cwd, reference_id, packed) as (repository, marks):
        return _unpack(repository, place, packed, marks, reference_id)


@contextlib.contextmanager
def _open_arrival(
    cwd: str, id: str, packed: PackedWork | None = None
) -> Iterator[tuple[repositories.Repository, _Marks]]:
    """Give the repository of an arrival, locked, and its marks; what fails is StepFailed."""
    try:
        check_id(id)
        if packed:
            _check_fields(packed)
        with places.lock_repository(repositories.open_repository(cwd)) as repository:
            yield repository, _Marks(repository, id)
    except (StepFailed, GitFailed, NotPossible) as error:
        raise StepFailed(_CODE, str(error)) from error
    except OSError as error:
        where = f"{error.filename}: " if error.filename else "The work could not be written: "
        raise StepFailed(_CODE, f"{where}{explain_error(error)}.") from error


def _check_fields(packed: PackedWork) -> None:
    """Raise NotPossible for fields that no pack has."""
    hashes = [packed.commit, *filter(None, (packed.index_commit, packed.work_commit))]
    whole = all(re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}", commit) for commit in hashes)
    if not whole or bool(packed.index_commit) != bool(packed.work_commit):
        raise NotPossible("The packed work is damaged: its commits are no hashes. Pack it again.")
    if len(packed.bundle) > MOST_BUNDLE_BYTES:
        raise NotPossible("The bundle of the packed work is larger than any that is packed.")


def _unpack(
    repository: repositories.Repository,
    place: places.WorkPlace,
    packed: PackedWork,
    marks: _Marks,
    id: str,
) -> str:
    if moved := repository.read_ref(marks.moved):  # the work is whole here
        if moved != packed.last_commit:
            raise NotPossible(f"Other work of the move {id} was unpacked here. Take it back first.")
        if not os.path.isdir(place.folder):
            raise NotPossible(f"The work was unpacked, but {place.folder} is gone.")
        return f"{place.folder} is there"
    if marks.read("work") != packed.last_commit:
        _receive(repository, packed, id)
        marks.set("commit", packed.commit)
        marks.set("work", packed.last_commit)
    _open_place(repository, place, packed, marks)
    target = _reopen(place, repository)
    shape = _get_shape(packed.commit, packed.last_commit, target.git)
    before = marks.read("before")
    change_shape(target, WorkShape(before, before, before), shape, id)
    marks.finish(_save_snapshot(target, id), packed.last_commit)
    kind = "in place" if place.in_place else "a new worktree"
    return f"{place.folder} on {place.branch} ({kind})"


def _reopen(
    place: places.WorkPlace, repository: repositories.Repository
) -> repositories.Repository:
    """Open the work tree of a place, with the lock that is held. Raises NotPossible."""
    target = repositories.open_repository(place.folder)
    if target.common != repository.common:
        raise NotPossible(f"{place.folder} is of another repository than {repository.top}.")
    branch = target.git.read_or_empty("symbolic-ref", "--short", "--quiet", "HEAD")
    if branch != place.branch:
        raise NotPossible(
            f"{place.folder} is on {branch or 'no branch'} by now, not on {place.branch}."
        )
    target.git.inherited = repository.git.inherited
    return target


def _get_shape(commit: str, last: str, git: Git) -> WorkShape:
    if last == commit:
        return WorkShape(commit, commit, commit)
    return WorkShape(commit, git.read("rev-parse", f"{last}^"), last)


def _save_snapshot(target: repositories.Repository, id: str) -> str:
    """Return the hash of a commit that holds HEAD, index and files as they are."""
    with repositories.open_private_folder(target) as private:
        fresh = repositories.open_repository(target.top)
        fresh.git.inherited = target.git.inherited
        return make_commits(fresh, private, repositories.read_status(target), name_pack(id))[1]


def _receive(repository: repositories.Repository, packed: PackedWork, id: str) -> None:
    """Bring the commits of packed work into the repository's objects; no branch changes."""
    with repositories.open_private_folder(repository) as private:
        _copy_references(repository, private)
        if packed.bundle:
            _receive_bundle(repository, private, packed, name_pack(id))
        elif not _has_commit(private, packed.commit):
            _fetch_origin(repository, private)
        if not _has_commit(private, packed.last_commit):
            raise NotPossible(
                f"The commit {packed.commit[:12]} is not in {repository.top}, and its origin does not have it. "
                "Push it from where the work comes from."
            )
        _check_commits(private, packed)


def _copy_references(repository: repositories.Repository, private: Git) -> None:
    """Let a private git folder know what the repository has, so that no more is fetched."""
    output = repository.git.read("for-each-ref", "--format=%(objectname) %(refname)")
    lines = [f"{repository.head} refs/heads/present", *output.splitlines()]
    names = (f"{line.split()[0]} refs/known/{n}" for n, line in enumerate(lines) if line.strip())
    Path(private.variables["GIT_DIR"], "packed-refs").write_text(
        "".join(f"{x}\n" for x in sorted(names, key=lambda x: x.split()[1]))
    )


def _has_commit(git: Git, commit: str) -> bool:
    return git.succeeds("cat-file", "-e", f"{commit}^{{commit}}")


def _receive_bundle(
    repository: repositories.Repository, git: Git, packed: PackedWork, name: str
) -> None:
    """Store the objects of a bundle, which must hold one reference alone and pass git's own checks."""
    path = Path(git.variables["GIT_DIR"], "bundle")
    path.write_bytes(packed.bundle)
    try:
        heads = git.read("bundle", "list-heads", str(path)).splitlines()
    except GitFailed as error:
        raise NotPossible(
            "The bundle is damaged: git cannot read it. Pack the work again."
        ) from error
    if heads != [f"{packed.last_commit} {name}"]:
        raise NotPossible(
            f"The bundle holds other references than {name} alone. Pack the work again."
        )
    if not git.succeeds("bundle", "verify", "-q", str(path)):
        _fetch_origin(repository, git)
        try:
            git.run("bundle", "verify", "-q", str(path))
        except GitFailed as error:
            raise NotPossible(
                f"The work rests on commits that neither {repository.top} nor its origin has: {error}"
            ) from error
    _, _, objects = packed.bundle.partition(b"\n\n")
    store = ("index-pack", "--strict", "--fix-thin", "--stdin")
    git.run(*store, input=objects, seconds=WRITE_SECONDS)


def _fetch_origin(repository: repositories.Repository, private: Git) -> None:
    """Fetch the branches of the origin's address, without any other setting of the repository.

    The repository's remote-tracking branches stay as they are. Raises NotPossible.
    """
    url = repository.git.read_or_empty("config", "--get", "remote.origin.url")
    fetch = ("fetch", "-q", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules")
    safe = ("--upload-pack", "git-upload-pack")
    git = private.change(GIT_ALLOW_PROTOCOL=NETWORK)
    try:
        git.run(*fetch, *safe, "--", url, "+refs/heads/*:refs/fetched/*", seconds=FETCH_SECONDS)
    except GitFailed as error:
        raise NotPossible(
            f"{repository.top} lacks commits that the work rests on, and they could not be fetched "
            f"from its origin: {error} Fetch them yourself (git fetch origin), then retry."
        ) from error


def _check_commits(git: Git, packed: PackedWork) -> None:
    """Raise NotPossible unless the commits rest on one another as those of a pack do."""
    if not packed.work_commit:
        return
    chain = git.read("rev-list", "--max-count=3", "--parents", packed.work_commit).splitlines()
    rests = [line.split() for line in chain[:2]]
    if rests != [[packed.work_commit, packed.index_commit], [packed.index_commit, packed.commit]]:
        raise NotPossible("The bundle's commits do not rest on one another. Pack the work again.")


def _open_place(
    repository: repositories.Repository, place: places.WorkPlace, packed: PackedWork, marks: _Marks
) -> None:
    """Check the place at the first time and note what was there; make the worktree."""
    begun = marks.read("before")
    if place.in_place:
        if not begun:
            target = repositories.open_repository(place.folder)
            places.check_in_place(target, place, packed.commit)
            if places.is_sparse(target):
                raise NotPossible(
                    f"{place.folder} is a sparse checkout. Plan the move anew into a worktree."
                )
            marks.set("before", target.head)
        return
    if not begun:
        if os.path.lexists(place.folder) or has_branch(repository.top, place.branch):
            raise NotPossible(
                f"{place.folder} or the branch {place.branch} exists by now. Plan the move anew."
            )
        marks.set("before", packed.commit)
    elif has_branch(repository.top, place.branch):
        now = repository.read_ref(f"refs/heads/{place.branch}")
        if now != packed.commit:
            raise NotPossible(
                f"The branch {place.branch} has other commits by now. They were left alone."
            )
    plan = WorktreePlan(place.folder, place.branch)
    whole = repository.git.change(("core.sparseCheckout", "false"))
    make_worktree(repository.top, plan, packed.commit, whole)


def remove_arrival(cwd: str, reference_id: str) -> None:
    """Remove what is remembered of an arrival, once the move is over; the work stays in its place.

    It cannot be taken back any more. Raises StepFailed (`work_not_unpacked`).
    """
    with _open_arrival(cwd, reference_id) as (_, marks):
        marks.remove()


def undo_unpack(cwd: str, place: places.WorkPlace, reference_id: str) -> str:
    """Take unpacked work back, where nothing was changed since; return a note on what was done.

    A worktree is removed with its branch; a checkout goes back to the commit before, its index
    and files with it. What somebody changed is left, and so are the references. It may be
    called again, also for work that was not laid out to the end.
    Raises StepFailed (`work_not_unpacked`).
    """
    with _open_arrival(cwd, reference_id) as (repository, marks):
        if not marks.read("before"):
            marks.remove()
            return "Nothing was unpacked."
        try:
            changed = _take_back(repository, place, marks, reference_id)
        except (NotPossible, WorkChanged) as error:
            changed = str(error)
        if changed:
            return f"{place.folder} was left as it is: {changed}"
        marks.remove()
        where = "is as it was before" if place.in_place else "was removed"
        return f"{place.folder} {where}."


def _take_back(
    repository: repositories.Repository, place: places.WorkPlace, marks: _Marks, id: str
) -> str:
    """Take work back; return what was changed since, for which it was left; empty for nothing."""
    before = marks.read("before")
    if os.path.isdir(place.folder) and not _is_half_made(repository, place):
        target = _reopen(place, repository)
        if not marks.read("undoing"):
            if changed := _describe_changed(target, place, marks, id):
                return changed
            marks.set("undoing", before)
        shape = _get_shape(marks.read("commit"), marks.read("work"), target.git)
        change_shape(target, shape, WorkShape(before, before, before), id)
        if not place.in_place and repositories.read_status(target):
            return "other files are in it."
    if not place.in_place:
        _remove_worktree(repository, place, before)
    return ""


def _describe_changed(
    target: repositories.Repository, place: places.WorkPlace, marks: _Marks, id: str
) -> str:
    """Describe what was changed in a place since it was unpacked; empty for nothing."""
    placed = marks.read("placed")
    if placed and _save_snapshot(target, id) != placed:
        return "something in it was changed since."
    ask = ("ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory")
    if not place.in_place and target.git.run(*ask, most=1):
        return "ignored files were made in it since."
    return ""


def _is_half_made(repository: repositories.Repository, place: places.WorkPlace) -> bool:
    """Return whether git was killed while it made the worktree."""
    parts = repository.git.read("worktree", "list", "--porcelain").split("\n\n")
    own = (part for part in parts if f"branch refs/heads/{place.branch}" in part.splitlines())
    return any("locked initializing" in part for part in own)


def _remove_worktree(
    repository: repositories.Repository, place: places.WorkPlace, commit: str
) -> None:
    git = repository.git
    known = git.read("worktree", "list", "--porcelain").splitlines()
    if f"worktree {os.path.realpath(place.folder)}" in known or f"worktree {place.folder}" in known:
        remove = ("worktree", "remove", "--force", "--force", place.folder)
        git.run(*remove, seconds=WRITE_SECONDS)
    name = f"refs/heads/{place.branch}"
    if repository.read_ref(name) == commit:
        git.run("update-ref", "-d", name, commit)
