"""Bring a work tree from one state to another, file by file, and over nobody's changes."""

import contextlib
import filecmp
import os
import shutil
import stat
from collections.abc import Iterator, Sequence

from msgspec import Struct

from tasuki.fleet.handoff.bundles import repositories
from tasuki.fleet.handoff.bundles.packs import INTENT, MOST_BUNDLE_BYTES, copy_index
from tasuki.fleet.handoff.git_commands import WRITE_SECONDS, Git
from tasuki.fleet.store.failures import StepFailed
from tasuki.text_safety import format_size

MOST_FOREIGN = 5
"""Files of others that are named."""
_MISSING = b"000000"
_SUBMODULE = b"160000"


class WorkChanged(StepFailed):
    """Somebody changed what would be changed; nothing was overwritten."""


class WorkShape(Struct, frozen=True):
    """A state of a work tree: HEAD, and the commits whose trees are its index and its files."""

    head: str
    index: str
    files: str


class _Change(Struct, frozen=True):
    """A path whose file differs between two shapes: its modes as git gives them, its new hash."""

    path: bytes
    old: bytes
    new: bytes
    hash: bytes


def change_shape(
    repository: repositories.Repository, old: WorkShape, new: WorkShape, id: str
) -> None:
    """Bring a work tree from the old shape to the new one. Raises StepFailed, GitFailed, OSError.

    It may have been killed at any point before: each file that differs between the two must be
    as in one of them, and the index, too; else somebody changed it, and nothing is written.
    Files are written aside first, in the work tree's `.tasuki-move-ID`, and renamed. Those whose
    contents git would keep as in the index are written as git checks them out, all others byte
    for byte.
    """
    if repository.head not in (old.head, new.head):
        raise _refuse(repository, [b"HEAD"])
    aside = os.path.join(os.fsencode(repository.top), f".tasuki-move-{id}".encode())
    _remove_folder(aside)
    changes = list(_list_changes(repository.git, old.files, new.files))
    _check_sizes(repository.git, new)
    try:
        with repositories.open_private_folder(repository) as private:
            trees = [repository.git.read("rev-parse", f"{x.index}^{{tree}}") for x in (old, new)]
            index = private.change(GIT_INDEX_FILE=copy_index(repository, private))
            present = index.read("write-tree")
            if present not in trees:
                raise _refuse(repository, [b"the index"])
            for shape, name in ((old, "old"), (new, "new")):
                _write_aside(
                    repository, private, shape, changes, os.path.join(aside, name.encode())
                )
        _check_files(repository, changes, aside, clean_index=present == trees[0])
        _place_files(repository, changes, os.path.join(aside, b"new"))
        if present != trees[1]:
            repository.git.run("read-tree", "--reset", new.index)
        _mark_intents(repository, new.index)
        if repository.head != new.head:
            repository.git.run("update-ref", "-m", f"tasuki: move {id}", "HEAD", new.head, old.head)
    finally:
        _remove_folder(aside)
    repository.git.read_or_empty("update-index", "-q", "--refresh")


def _remove_folder(folder: bytes) -> None:
    if os.path.isdir(folder) and not os.path.islink(folder):
        shutil.rmtree(folder)


def _list_changes(git: Git, old: str, new: str) -> Iterator[_Change]:
    fields = git.run("diff-tree", "-r", "-z", "--no-renames", "--raw", old, new).split(b"\0")
    for head, path in zip(fields[::2], fields[1::2], strict=False):
        parts = head.split(b" ")
        yield _Change(path, parts[0].lstrip(b":"), parts[1], parts[3])


def _check_sizes(git: Git, new: WorkShape) -> None:
    """Raise StepFailed if the uncommitted files are larger than any that are packed."""
    changes = _list_changes(git, new.head, new.files)
    hashes = (x.hash + b"\n" for x in changes if x.new not in (_MISSING, _SUBMODULE))
    sizes = git.run("cat-file", "--batch-check=%(objectsize)", input=b"".join(hashes)).split()
    total = sum(int(size) for size in sizes)
    if total > 4 * MOST_BUNDLE_BYTES:
        raise StepFailed(
            "work_not_unpacked",
            f"The uncommitted files hold {format_size(total)}. None was written.",
        )


def _write_aside(
    repository: repositories.Repository,
    private: Git,
    shape: WorkShape,
    changes: Sequence[_Change],
    folder: bytes,
) -> None:
    """Write the files of a shape that are to be compared or placed into a folder."""
    is_old = folder.endswith(b"old")
    paths = [c.path for c in changes if (c.old if is_old else c.new) not in (_MISSING, _SUBMODULE)]
    raw = {c.path for c in _list_changes(repository.git, shape.index, shape.files)}
    index = os.path.join(private.variables["GIT_DIR"], f"aside-{is_old}")
    os.makedirs(folder)
    for git, wanted in ((private, True), (repository.git, False)):
        own = git.change(GIT_INDEX_FILE=index)
        own.run("read-tree", shape.files)
        chosen = b"".join(p + b"\0" for p in paths if (p in raw) == wanted)
        prefix = os.fsdecode(os.path.relpath(folder, os.fsencode(repository.top))) + "/"
        own.run("checkout-index", f"--prefix={prefix}", "-z", "--stdin", input=chosen, seconds=WRITE_SECONDS)  # fmt: skip


def _check_files(
    repository: repositories.Repository,
    changes: Sequence[_Change],
    aside: bytes,
    *,
    clean_index: bool,
) -> None:
    """Raise StepFailed if a file that is to be changed is as in neither shape."""
    dirty = {entry.path for entry in repositories.read_status(repository) if entry.is_work}
    top = os.fsencode(repository.top)
    emptied = [c.path for c in changes if c.new == _MISSING]

    def is_ours(change: _Change) -> bool:
        now = os.path.join(top, change.path)
        if _has_link_above(top, change.path) or not os.path.lexists(now):
            return True
        if _SUBMODULE in (change.old, change.new):
            return True
        if os.path.isdir(now) and not os.path.islink(now):
            return any(path.startswith(change.path + b"/") for path in emptied)
        if clean_index and change.old != _MISSING and change.path not in dirty:
            return True
        return any(_is_same(now, os.path.join(aside, x, change.path)) for x in (b"old", b"new"))

    if foreign := [c.path for c in changes if not is_ours(c)]:
        raise _refuse(repository, foreign)


def _refuse(repository: repositories.Repository, paths: Sequence[bytes]) -> WorkChanged:
    names = ", ".join(repositories.show_path(path) for path in paths[:MOST_FOREIGN])
    return WorkChanged(
        "work_not_unpacked",
        f"In {repository.top} somebody changed what the work would change: {names}. Nothing was overwritten.",
    )


def _has_link_above(top: bytes, path: bytes) -> bool:
    """Return whether a folder of a path is no folder: then nothing is there under this name."""
    parts = path.split(b"/")[:-1]
    above = (os.path.join(top, *parts[: n + 1]) for n in range(len(parts)))
    return any(os.path.islink(x) or not os.path.isdir(x) for x in above)


def _is_same(a: bytes, b: bytes) -> bool:
    """Return whether two files have one kind, executable bit and content."""
    with contextlib.suppress(OSError):
        first, second = os.lstat(a), os.lstat(b)
        if stat.S_IFMT(first.st_mode) != stat.S_IFMT(second.st_mode):
            return False
        if stat.S_ISLNK(first.st_mode):
            return os.readlink(a) == os.readlink(b)
        executable = (first.st_mode & stat.S_IXUSR) == (second.st_mode & stat.S_IXUSR)
        return stat.S_ISREG(first.st_mode) and executable and filecmp.cmp(a, b, shallow=False)
    return False


def _place_files(
    repository: repositories.Repository, changes: Sequence[_Change], source: bytes
) -> None:
    """Delete what is gone in the new shape, then move the files of the new one to their places."""
    top = os.fsencode(repository.top)
    for change in changes:
        if change.new == _MISSING and not _has_link_above(top, change.path):
            _delete_file(top, change)
    for change in changes:
        target = os.path.join(top, change.path)
        if change.new == _MISSING:
            continue
        if _has_link_above(top, change.path):
            _make_folder(repository, top, os.path.dirname(change.path))
        if change.new == _SUBMODULE:
            _make_folder(repository, top, change.path)
        else:
            if os.path.isdir(target) and not os.path.islink(target):
                os.rmdir(target)
            os.replace(os.path.join(source, change.path), target)


def _delete_file(top: bytes, change: _Change) -> None:
    path = os.path.join(top, change.path)
    if change.old == _SUBMODULE:
        return
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    folder = os.path.dirname(path)
    while folder != top:
        try:
            os.rmdir(folder)
        except OSError:
            return
        folder = os.path.dirname(folder)


def _make_folder(repository: repositories.Repository, top: bytes, path: bytes) -> None:
    """Make a folder within a work tree, through no link. Raises StepFailed if one is in the way."""
    folder = top
    for part in path.split(b"/"):
        folder = os.path.join(folder, part)
        if os.path.islink(folder) or (os.path.lexists(folder) and not os.path.isdir(folder)):
            raise _refuse(repository, [path])
        if not os.path.isdir(folder):
            os.mkdir(folder)


def _mark_intents(repository: repositories.Repository, index_commit: str) -> None:
    """Mark those files as added later (`git add -N`) that were so where the work comes from."""
    content = repository.git.run("cat-file", "commit", index_commit)
    lines = content.partition(b"\n\n")[2].decode("utf-8", "replace").splitlines()
    if not lines or not lines[0].startswith("index of refs/tasuki/moves/"):
        return
    for line in lines:
        path = bytes.fromhex(line.removeprefix(INTENT)) if line.startswith(INTENT) else b""
        if path and os.path.lexists(os.path.join(os.fsencode(repository.top), path)):
            repository.git.run("add", "-N", "-f", "--", os.fsdecode(path))
