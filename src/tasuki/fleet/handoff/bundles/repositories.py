"""What a host says of a repository: where it is, what it comes from, and what is not committed."""

import contextlib
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from tasuki.errors import NotPossible
from tasuki.fleet.handoff.git_commands import Git, GitFailed, mute_filters
from tasuki.patterns import compile_pattern
from tasuki.text_safety import clean_for_display, shorten_to_line

MOST_DIRTY = 20
"""Changed paths that are named."""
MOST_SUBMODULES = 50
"""Submodules that are looked into."""
_UNDER_WAY = {
    "MERGE_HEAD": ("a merge is", "git merge --abort"),
    "rebase-merge": ("a rebase is", "git rebase --abort"),
    "rebase-apply": ("a rebase or git am is", "git rebase --abort"),
    "CHERRY_PICK_HEAD": ("a cherry-pick is", "git cherry-pick --abort"),
    "REVERT_HEAD": ("a revert is", "git revert --abort"),
    "sequencer": ("a cherry-pick or revert is", "git cherry-pick --abort"),
    "BISECT_LOG": ("a bisection is", "git bisect reset"),
}
"""Files of a git folder that say what is under way, and what ends it."""
_COPIED = r"^core\.(filemode|ignorecase|symlinks|precomposeunicode)$"
"""Settings that say what the file system can do."""
_PRIVATE = (
    "[core]\n\trepositoryformatversion = 0\n\tbare = false\n",
    "[core]\n\trepositoryformatversion = 1\n\tbare = false\n[extensions]\n\tobjectformat = sha256\n",
)
"""The configuration of a git folder of our own, for SHA-1 and for SHA-256."""
_RAW = "* -text -eol -filter -ident -working-tree-encoding\n"


class RepositoryState(Struct, frozen=True):
    """What a host says of a folder; `top` is empty where it is in no work tree."""

    top: str = ""
    inside: str = "."
    origin: str = ""
    commit: str = ""
    branch: str = ""
    published: bool = False
    """A remote-tracking branch of `origin` contains the commit."""
    dirty: tuple[str, ...] = ()
    problem: str = ""


class StatusEntry(Struct, frozen=True):
    """A path that git calls changed: states of index and work tree, as in `--porcelain=v2`."""

    states: str
    submodule: str
    path: bytes

    @property
    def is_work(self) -> bool:
        """Whether the work tree differs from the index here."""
        return self.states[1] != "."

    @property
    def is_submodule(self) -> bool:
        """Whether the path is a submodule."""
        return self.submodule.startswith("S")


class Repository(Struct, frozen=True):
    """A work tree with whole paths: its top, its git folder, the shared one, and the objects."""

    git: Git
    top: str
    folder: str
    common: str
    objects: str
    head: str

    def read_ref(self, name: str) -> str:
        """Return the hash that a reference holds; empty for none."""
        return self.git.read_or_empty("rev-parse", "--verify", "--quiet", name)

    def list_published(self) -> tuple[str, ...]:
        """Return the commits at which the remote-tracking branches of `origin` are."""
        output = self.git.read(
            "for-each-ref", "--format=%(objectname) %(objecttype)", "refs/remotes/origin/"
        )
        return tuple(sorted({x.split()[0] for x in output.splitlines() if x.endswith("commit")}))


def describe_repository(cwd: str) -> RepositoryState:
    """Describe the repository of a folder, and change nothing. A problem is a sentence."""
    try:
        repository = open_repository(cwd)
    except NotPossible as error:
        return RepositoryState(problem=str(error))
    git = repository.git
    try:
        entries = read_status(repository)
        problem = find_problem(repository, entries)
    except GitFailed as error:
        entries, problem = [], str(error)
    inside = os.path.relpath(os.path.realpath(cwd), os.path.realpath(repository.top))
    contains = (
        "for-each-ref",
        "--count=1",
        f"--contains={repository.head}",
        "refs/remotes/origin/",
    )
    return RepositoryState(
        repository.top, inside, read_origin(repository), repository.head,
        branch=git.read_or_empty("symbolic-ref", "--short", "--quiet", "HEAD"),
        published=bool(repository.head and git.read_or_empty(*contains)),
        dirty=tuple(show_path(e.path) for e in entries[:MOST_DIRTY]),
        problem=problem,
    )  # fmt: skip


def open_repository(cwd: str) -> Repository:
    """Open the work tree of a folder. Raises NotPossible with what is wrong, and what to do."""
    if not os.path.isdir(cwd):
        raise NotPossible(f"There is no folder {cwd} on this host.")
    top = _find_top(cwd)
    if not os.path.lexists(os.path.join(top, ".git")):
        raise NotPossible(
            f"{cwd} belongs to a work tree {top} that is set elsewhere (core.worktree). "
            "Only a folder with .git in it can be moved."
        )
    git = mute_filters(Git(top))
    absolute = ("rev-parse", "--path-format=absolute")
    try:
        return Repository(
            git, top, git.read("rev-parse", "--absolute-git-dir"),
            git.read(*absolute, "--git-common-dir"), git.read(*absolute, "--git-path", "objects"),
            git.read_or_empty("rev-parse", "--verify", "--quiet", "HEAD^{commit}"),
        )  # fmt: skip
    except GitFailed as error:
        raise NotPossible(f"{error} tasuki needs git 2.31 or newer.") from error


def _find_top(cwd: str) -> str:
    git = Git(cwd)
    words = ""
    try:
        is_bare = git.read("rev-parse", "--is-bare-repository") == "true"
    except GitFailed as error:
        is_bare, words = False, str(error)
    if is_bare:
        raise NotPossible(f"{cwd} is a bare repository, without files. Name a checkout of it.")
    if words and "not a git repository" not in words:
        raise NotPossible(words)
    top = git.read_or_empty("rev-parse", "--show-toplevel")
    if not top:
        raise NotPossible(f"{cwd} is in no git repository's work tree.")
    return top


def read_status(repository: Repository) -> list[StatusEntry]:
    """Return every path that is changed or untracked. Raises GitFailed.

    Submodules are asked for their commit alone: git would run what their own settings name.
    """
    form = ("--porcelain=v2", "-z", "--untracked-files=all", "--no-renames")
    output = repository.git.run("status", *form, "--ignore-submodules=dirty")
    return [e for field in output.split(b"\0") if (e := _parse_entry(field))]


def _parse_entry(field: bytes) -> StatusEntry | None:
    if field.startswith(b"? "):
        return StatusEntry("??", "N...", field[2:])
    spaces = {b"1 ": 8, b"u ": 10}.get(field[:2])
    if not spaces:
        return None
    parts = field.split(b" ", spaces)
    states = "UU" if field.startswith(b"u ") else parts[1].decode()
    return StatusEntry(states, parts[2].decode(), parts[-1])


def find_problem(repository: Repository, entries: list[StatusEntry]) -> str:
    """Describe in a sentence what keeps the work of a repository from being moved as it is."""
    top = repository.top
    for name, (what, end) in _UNDER_WAY.items():
        if os.path.lexists(os.path.join(repository.folder, name)):
            return f"In {top} {what} under way. Finish it, or end it: {end}"
    lock = os.path.join(repository.folder, "index.lock")
    if os.path.lexists(lock):
        return f"In {top} another git is at work: {lock} exists. Wait for it, or remove that file if none runs."
    if unmerged := next((e for e in entries if e.states == "UU"), None):
        return f"In {top} {show_path(unmerged.path)} is unmerged. Resolve the conflict and commit."
    changed = [e.path for e in entries if e.is_submodule] or _find_changed_submodules(repository)
    if changed:
        return (
            f"In {top} the submodule {show_path(changed[0])} is changed. "
            "Commit and push in it, and commit it in the repository, since it does not travel."
        )
    return ""


def list_submodules(repository: Repository) -> list[bytes]:
    """Return the paths of all submodules in the index. Raises GitFailed."""
    if not os.path.lexists(os.path.join(repository.top, ".gitmodules")):
        return []
    output = repository.git.run("ls-files", "-s", "-z")
    return [f.split(b"\t", 1)[1] for f in output.split(b"\0") if f.startswith(b"160000 ")]


def _find_changed_submodules(repository: Repository) -> list[bytes]:
    found = []
    for path in list_submodules(repository)[:MOST_SUBMODULES]:
        folder = os.path.join(repository.top, os.fsdecode(path))
        if os.path.lexists(os.path.join(folder, ".git")):
            git = mute_filters(Git(folder))
            if git.run("status", "--porcelain", "-z", "--ignore-submodules=dirty", most=1):
                found.append(path)
    return found


def show_path(path: bytes) -> str:
    """Return a path as text on one line, whatever bytes it holds."""
    text = path.decode("utf-8", "backslashreplace").replace("\n", "\\n").replace("\r", "\\r")
    return shorten_to_line(clean_for_display(text), 200)


_SHORT = compile_pattern(r"(?:[^@/:\s]+@)?(?P<host>\[[0-9a-fA-F:.]+\]|[^/:\s\[]+):(?!//)(?P<path>.+)", re.DOTALL)  # fmt: skip


def read_origin(repository: Repository) -> str:
    """Return the normalised address of the remote `origin`; empty for none."""
    url = repository.git.read_or_empty("config", "--get", "remote.origin.url")
    if url and not _SHORT.fullmatch(url) and "://" not in url:
        url = os.path.abspath(os.path.join(repository.top, url))
    return normalise_origin(url)


def normalise_origin(url: str) -> str:
    """Return the address of a repository without user, password, port of its scheme and `.git`.

    `git@host:x/y.git`, `ssh://git@host/x/y` and `https://user:token@host/x/y.git` are all
    `host/x/y`; a path stays a path.
    """
    url = url.strip()
    if not url:
        return ""
    if "://" in url:
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            return ""
        host, path = (parts.hostname or "").lower(), unquote(parts.path)
        if parts.scheme.lower() == "file":
            host = ""
        if ":" in host:
            host = f"[{host}]"
        if port and port not in (22, 80, 443, 9418):
            host = f"{parts.scheme.lower()}://{host}:{port}"
        return _join_address(host, path)
    if url.startswith(("/", ".", "~")) or not (short := _SHORT.fullmatch(url)):
        return _join_address("", url)
    return _join_address(short["host"].lower(), short["path"])


def _join_address(host: str, path: str) -> str:
    path = path.rstrip("/").removesuffix(".git").rstrip("/")
    return f"{host}/{path.lstrip('/')}" if host else path


def is_same_origin(a: str, b: str) -> bool:
    """Return whether two addresses name the same repository; an empty one names none."""
    first, second = normalise_origin(a), normalise_origin(b)
    return bool(first) and first == second


@contextlib.contextmanager
def open_private_folder(repository: Repository) -> Iterator[Git]:
    """Give a git folder of our own that uses the objects of a repository, and nothing else of it.

    No configuration, hook, filter or attribute of the repository holds in it: contents of files
    are read and written byte for byte. New objects land in the repository's store. It is
    `tasuki-private` in the repository's git folder, which must be locked (`lock_repository`);
    what a killed process left there is removed.
    """
    folder = Path(repository.common, "tasuki-private")
    _remove_folder(folder)
    try:
        _make_private_folder(repository, folder)
        lines = repository.git.read_or_empty("config", "-z", "--get-regexp", _COPIED).split("\0")
        pairs = (line.partition("\n") for line in lines if "\n" in line)
        yield Git(
            repository.top, settings=[(key, value) for key, _, value in pairs],
            inherited=repository.git.inherited, GIT_DIR=str(folder), GIT_WORK_TREE=repository.top,
            GIT_OBJECT_DIRECTORY=repository.objects, GIT_INDEX_FILE=str(folder / "work-index"),
        )  # fmt: skip
    finally:
        _remove_folder(folder)


def _remove_folder(folder: Path) -> None:
    if folder.is_symlink():
        folder.unlink()
    elif folder.is_dir():
        shutil.rmtree(folder)


def _make_private_folder(repository: Repository, folder: Path) -> None:
    folder.mkdir(0o700)
    for part in ("info", "objects", "refs"):
        (folder / part).mkdir()
    (folder / "info" / "attributes").write_text(_RAW)
    (folder / "HEAD").write_text("ref: refs/heads/none\n")
    (folder / "config").write_text(_PRIVATE[len(repository.head) == 64])
    shallow = Path(repository.common, "shallow")
    if shallow.exists():
        shutil.copy(shallow, folder / "shallow")
