"""Uncommitted work as a git bundle: two commits outside of every branch, made on the source."""

import os
import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from tasuki.errors import NotPossible
from tasuki.fleet.handoff.bundles import repositories
from tasuki.fleet.handoff.bundles.places import lock_repository
from tasuki.fleet.handoff.git_commands import WRITE_SECONDS, Git, GitFailed
from tasuki.fleet.store.failures import StepFailed
from tasuki.text_safety import format_size

MOST_BUNDLE_BYTES = 50_000_000
"""How much may travel: the size of a bundle, and that of the changed files in it."""
MOST_FILES = 1000
"""Names of changed files that are listed."""
MOST_LARGEST = 5
"""Files that are named where the work is too large."""
MOST_IGNORED = 5
"""Ignored files that are named."""
INTENT = "intent-to-add "
_IDENTITY = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "tasuki"), ("EMAIL", "tasuki@localhost"), ("DATE", "@0 +0000"))
}
"""The same work makes the same commits, at any time and on any host."""


class PackedWork(Struct, frozen=True):
    """Work on its way: `bundle` is empty if the target has it all, or can fetch it from origin.

    `index_commit` and `work_commit` are hashes, empty if nothing is uncommitted: the index as a
    tree on top of `commit`, and the files on top of that, untracked ones included.
    """

    commit: str
    branch: str
    index_commit: str = ""
    work_commit: str = ""
    bundle: bytes = b""
    files: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()

    @property
    def last_commit(self) -> str:
        """The commit that holds all others."""
        return self.work_commit or self.commit


def name_pack(reference_id: str) -> str:
    """Return the reference that holds a pack, on the source and within the bundle."""
    return f"refs/tasuki/moves/{check_id(reference_id)}"


def check_id(reference_id: str) -> str:
    """Return an ID that can be part of a reference's name. Raises NotPossible."""
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,100}", reference_id):
        raise NotPossible(
            f"The ID of a move has letters, digits and - alone, not {reference_id!r}."
        )
    return reference_id


def pack_work(cwd: str, reference_id: str) -> PackedWork:
    """Pack the uncommitted work and the unpublished commits of a folder's repository.

    Index, work tree, HEAD, branches and stash stay as they are. The reference `name_pack` holds
    what is packed. Contents travel byte for byte: no clean filter (LFS, line ends) is applied to
    a changed file, so none runs for it; git itself may run one of the user's own configuration
    to find out whether a file is changed. Calling it again packs anew.
    Raises NotPossible where the work cannot travel, StepFailed (`work_not_packed`) where git fails.
    """
    reference = name_pack(reference_id)
    opened = repositories.open_repository(cwd)
    try:
        with lock_repository(opened) as repository:
            return _pack(repository, reference)
    except (GitFailed, OSError) as error:
        raise StepFailed("work_not_packed", str(error)) from error


def remove_pack(cwd: str, reference_id: str) -> None:
    """Remove the reference of a pack, if it is there. Raises StepFailed."""
    reference = name_pack(reference_id)
    try:
        repositories.open_repository(cwd).git.run("update-ref", "-d", reference)
    except GitFailed as error:
        raise StepFailed("work_not_packed", str(error)) from error


def _pack(repository: repositories.Repository, reference: str) -> PackedWork:
    if not repository.head:
        raise NotPossible(
            f"The repository {repository.top} has no commit yet. Commit and push first."
        )
    if not repositories.read_origin(repository):
        raise NotPossible(
            f"The repository {repository.top} has no remote named origin, by which another host "
            "could know it. Add one: git remote add origin URL"
        )
    entries = repositories.read_status(repository)
    if problem := repositories.find_problem(repository, entries):
        raise NotPossible(problem)
    left_out = tuple(_describe_left_out(repository, entries))
    published = repository.list_published()
    branch = repository.git.read_or_empty("symbolic-ref", "--short", "--quiet", "HEAD")
    with repositories.open_private_folder(repository) as private:
        _check_commits(repository, private, published)
        index, work = make_commits(repository, private, entries, reference) if entries else ("", "")
        last = work or repository.head
        bundle = b""
        if work or _list_unpublished(private, repository.head, published, most=1):
            bundle = _make_bundle(private, reference, last, published)
        repository.git.run("update-ref", reference, last)
    files = tuple(repositories.show_path(e.path) for e in entries[:MOST_FILES])
    return PackedWork(repository.head, branch, index, work, bundle, files, left_out)


def make_commits(
    repository: repositories.Repository,
    private: Git,
    entries: Sequence[repositories.StatusEntry],
    name: str,
) -> tuple[str, str]:
    """Make the commits of index and files; return their hashes. `name` goes into their messages.

    What git calls unchanged is taken from the index, all else from the file, byte for byte.
    Raises NotPossible if the files are too large, before any is stored.
    """
    present, gone = _split_entries(repository, entries)
    _check_sizes(repository, present)
    own = private.change(GIT_INDEX_FILE=copy_index(repository, private))
    index_tree = own.read("write-tree")
    private.run("read-tree", "--reset", index_tree)
    update = ("update-index", "--add", "--remove", "--replace", "-z", "--stdin")
    if gone:
        private.run("update-index", "--force-remove", "-z", "--stdin", input=_join(gone))
    if present:
        private.run(*update, input=_join(present), seconds=WRITE_SECONDS)
    work_tree = private.read("write-tree")
    maker = private.change(**_IDENTITY)
    intents = "".join(f"{INTENT}{e.path.hex()}\n" for e in entries if e.states[1] == "A")
    index = _commit(maker, index_tree, repository.head, f"index of {name}\n\n{intents}")
    return index, _commit(maker, work_tree, index, f"files of {name}\n")


def copy_index(repository: repositories.Repository, private: Git) -> str:
    """Copy the index of a repository into a private folder; return the path of the copy."""
    copy = os.path.join(private.variables["GIT_DIR"], "own-index")
    source = Path(repository.folder, "index")
    Path(copy).unlink(missing_ok=True)
    if source.exists():
        shutil.copy(source, copy)
    for shared in Path(repository.folder).glob("sharedindex.*"):
        shutil.copy(shared, private.variables["GIT_DIR"])
    return copy


def _commit(git: Git, tree: str, parent: str, message: str) -> str:
    return git.read("commit-tree", tree, "-p", parent, "-F", "-", input=message.encode())


def _join(paths: Sequence[bytes]) -> bytes:
    return b"".join(path + b"\0" for path in paths)


def _split_entries(
    repository: repositories.Repository, entries: Sequence[repositories.StatusEntry]
) -> tuple[list[bytes], list[bytes]]:
    """Return the changed paths that are there, and the deleted; nested repositories in neither."""
    present: list[bytes] = []
    gone: list[bytes] = []
    for entry in entries:
        if not entry.is_work or entry.path.endswith(b"/"):
            continue
        is_gone = entry.states[1] == "D" or not os.path.lexists(_join_top(repository, entry.path))
        (gone if is_gone else present).append(entry.path)
    return present, gone


def _join_top(repository: repositories.Repository, path: bytes) -> bytes:
    return os.path.join(os.fsencode(repository.top), path)


def _check_sizes(repository: repositories.Repository, present: Sequence[bytes]) -> None:
    sizes = [(os.lstat(_join_top(repository, path)).st_size, path) for path in present]
    total = sum(size for size, _ in sizes)
    if total > MOST_BUNDLE_BYTES:
        raise NotPossible(
            f"The uncommitted files of {repository.top} hold {format_size(total)}, more than "
            f"{format_size(MOST_BUNDLE_BYTES)}: {_name_largest(sizes)}. "
            "Remove or ignore them, or commit and push."
        )


def _name_largest(sizes: Sequence[tuple[int, bytes]]) -> str:
    largest = sorted(sizes, reverse=True)[:MOST_LARGEST]
    return ", ".join(
        f"{repositories.show_path(path)} ({format_size(size)})" for size, path in largest
    )


def _list_unpublished(
    private: Git, head: str, published: Sequence[str], *options: str, most: int = -1
) -> bytes:
    lines = "".join(f"{line}\n" for line in (head, *(f"^{commit}" for commit in published)))
    limit = ("--max-count=1",) if most == 1 else ()
    return private.run("rev-list", *limit, *options, "--stdin", input=lines.encode())


def _check_commits(
    repository: repositories.Repository, private: Git, published: Sequence[str]
) -> None:
    """Raise NotPossible if the unpublished commits are too large or not whole."""
    commits = _list_unpublished(private, repository.head, published).split()
    shallow = Path(repository.common, "shallow")
    borders = set(shallow.read_bytes().split()) if shallow.exists() else set()
    if borders.intersection(commits):
        raise NotPossible(
            f"{repository.top} is a shallow clone, and its unpublished commits reach to where it is "
            "cut. Fetch the rest (git fetch --unshallow), or push."
        )
    if not commits:
        return
    used = int(_list_unpublished(private, repository.head, published, "--objects", "--disk-usage"))
    if used > MOST_BUNDLE_BYTES:
        objects = _list_unpublished(private, repository.head, published, "--objects")
        raise NotPossible(
            f"The unpublished commits of {repository.top} hold {format_size(used)}, more than "
            f"{format_size(MOST_BUNDLE_BYTES)}: {_name_largest(_measure(private, objects))}. Push them first."
        )


def _measure(private: Git, objects: bytes) -> list[tuple[int, bytes]]:
    """Return the sizes and paths of the files among objects, as stored."""
    form = "--batch-check=%(objecttype) %(objectsize:disk) %(rest)"
    lines = private.run("cat-file", form, input=objects).splitlines()
    parts = [line.split(b" ", 2) for line in lines if line.startswith(b"blob ")]
    return [(int(part[1]), part[2]) for part in parts]


def _make_bundle(private: Git, reference: str, last: str, published: Sequence[str]) -> bytes:
    private.run("update-ref", reference, last)
    path = Path(private.variables["GIT_DIR"], "bundle")
    lines = "".join(f"^{commit}\n" for commit in published)
    make = ("bundle", "create", "-q", str(path), reference, "--stdin")
    private.run(*make, input=lines.encode(), seconds=WRITE_SECONDS)
    size = path.stat().st_size
    if size > MOST_BUNDLE_BYTES:
        objects = _list_unpublished(private, last, published, "--objects")
        raise NotPossible(
            f"The work would make a bundle of {format_size(size)}, more than {format_size(MOST_BUNDLE_BYTES)}. "
            f"The largest files: {_name_largest(_measure(private, objects))}. Push the commits first, or remove files."
        )
    return path.read_bytes()


def _describe_left_out(
    repository: repositories.Repository, entries: Sequence[repositories.StatusEntry]
) -> Iterator[str]:
    """Yield a sentence for each kind of thing that does not travel."""
    if nested := [repositories.show_path(e.path) for e in entries if e.path.endswith(b"/")]:
        yield f"Repositories of their own do not travel: {', '.join(nested[:MOST_IGNORED])}"
    fields = repository.git.run("ls-files", "-v", "-z").split(b"\0")
    if hidden := [repositories.show_path(f[2:]) for f in fields if f[:1].islower()][:MOST_IGNORED]:
        yield f"Marked assume-unchanged, so a change does not travel: {', '.join(hidden)}"
    if submodules := repositories.list_submodules(repository):
        names = ", ".join(repositories.show_path(path) for path in submodules[:MOST_IGNORED])
        yield f"Submodules do not travel: {names}. On the target: git submodule update --init"
    settings = [key for key, _ in repository.git.settings if key.startswith("filter.")]
    if filters := sorted({key.split(".", 1)[1].rpartition(".")[0] for key in settings}):
        yield f"Filters of the repository's own configuration are not run: {', '.join(filters)}"
    ask = ("ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory")
    fields = repository.git.run(*ask, most=65536).split(b"\0")
    if ignored := [repositories.show_path(f) for f in fields[: MOST_IGNORED + 1] if f]:
        more = " and more" if len(ignored) > MOST_IGNORED else ""
        yield f"Ignored files do not travel: {', '.join(ignored[:MOST_IGNORED])}{more}"
