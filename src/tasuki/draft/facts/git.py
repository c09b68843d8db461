"""Read the state of git in a folder, and find how disk and git differ from what a thread left."""

import hashlib
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from tasuki.draft.redact.redactor import redact
from tasuki.model import Facts, FileFact, FileItem, Item, Revision, Thread
from tasuki.text_safety import format_plural

if TYPE_CHECKING:
    from subprocess import Popen

TIMEOUT = 2.0
"""Seconds; a repository on a dead network share must not hang a handoff."""
_ENV = {"GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0"}
_HOOK_VARIABLES = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_NAMESPACE", "GIT_PREFIX")
"""Variables that a git hook sets. They would point git to another folder than the given one."""
_GIT = ("git", "-c", "core.fsmonitor=false")
"""The setting is overridden because a repository's own could name a program to run."""


def run_git(cwd: str | Path, *arguments: str) -> str | None:
    """Return the standard output of one git command, or None without git or a repository."""
    import subprocess

    try:
        result = subprocess.run(
            (*_GIT, "-C", str(cwd), *arguments),
            capture_output=True,
            timeout=TIMEOUT,
            env=_build_environment(),
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired, ValueError):
        return None
    return result.stdout.decode("utf-8", "backslashreplace") if result.returncode == 0 else None


def _build_environment() -> dict[str, str]:
    return {k: v for k, v in os.environ.items() if k not in _HOOK_VARIABLES} | _ENV


MOST_COMMITS = 400
"""Newest commits of a branch among which those of a thread are looked for."""
_STATUS = ("status", "--porcelain=v2", "--branch", "-z")
_HISTORY = ("log", f"-{MOST_COMMITS}", "--format=%H", "HEAD", "--")


class GitProbe:
    """The status and the history of a folder, started at once and waited for on demand."""

    def __init__(self, cwd: str) -> None:
        self.root = find_root(cwd)
        self._processes = (
            [self._start(*words) for words in (_STATUS, _HISTORY)] if self.root else []
        )

    def _start(self, *arguments: str) -> "Popen[bytes] | None":
        import subprocess

        try:
            return subprocess.Popen(
                (*_GIT, "-C", self.root, *arguments),
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                stdin=subprocess.DEVNULL,
                env=_build_environment(),
            )
        except (OSError, ValueError):
            return None

    def read_revision(self) -> Revision:
        """Return branch, HEAD, changed files and newest commits; nothing without a repository."""
        outputs = [self._wait(process) for process in self._processes]
        if not outputs or outputs[0] is None:
            return Revision()
        revision = parse_status(outputs[0])
        history = tuple((outputs[1] or "").split())
        return replace(revision, root=self.root, history=history, is_merging=_is_merging(self.root))

    def _wait(self, process: "Popen[bytes] | None") -> str | None:
        import subprocess

        if process is None:
            return None
        try:
            output, _ = process.communicate(timeout=TIMEOUT)
        except subprocess.TimeoutExpired:
            process.kill()  # Not read to the end: a program that git started may hold the pipe open.
            process.wait()
            return None
        return output.decode("utf-8", "backslashreplace") if process.returncode == 0 else None


def find_root(cwd: str) -> str:
    """Return the folder of the repository that a folder is in, empty for none."""
    folder = os.path.realpath(cwd) if cwd and os.path.isdir(cwd) else ""
    while folder and not os.path.lexists(os.path.join(folder, ".git")):
        above = os.path.dirname(folder)
        folder = above if above != folder else ""
    return folder


_UNDER_WAY = ("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "rebase-merge", "rebase-apply")
"""Files and folders of git's own folder that are there while it merges."""


def _is_merging(root: str) -> bool:
    """Return whether a merge, a rebase or the like is under way in a checkout."""
    folder = Path(root, ".git")
    try:
        if folder.is_file():  # A worktree, or a submodule.
            folder = Path(root, folder.read_text("utf-8").partition("gitdir: ")[2].strip())
        return any((folder / name).exists() for name in _UNDER_WAY)
    except (OSError, ValueError):
        return False


def parse_status(output: str) -> Revision:
    """Return the revision in the output of `git status --porcelain=v2 --branch -z`."""
    head = branch = ""
    ahead: int | None = None
    dirty: list[str] = []
    staged: list[str] = []
    skip = False
    for field in output.split("\0"):
        kind = field[:2]
        if skip:
            skip = False
        elif field.startswith("# branch.oid "):
            head = field[13:].replace("(initial)", "")
        elif field.startswith("# branch.head "):
            branch = field[14:].replace("(detached)", "")
        elif field.startswith("# branch.ab +"):
            ahead = int(field[13:].split(" ")[0])
        elif kind in _PATH_PLACES:
            dirty.append(field.split(" ", _PATH_PLACES[kind])[-1])
            skip = kind == "2 "
            if kind in ("1 ", "2 ") and field[2] != ".":
                staged.append(dirty[-1])
    return Revision(
        branch_now=branch,
        head_now=head,
        dirty_now=tuple(dirty),
        staged_now=tuple(staged),
        ahead=ahead,
        repository=True,
    )


_PATH_PLACES = {"1 ": 8, "2 ": 9, "u ": 10, "? ": 1}
"""Which word of a line of `git status` is the path."""


MAX_BYTES = 4 << 20
"""Larger files are compared by size and time alone."""


def find_thread_drift(thread: Thread, facts: Facts, limit: int = 6) -> list[Item]:
    """Return what changed since the thread: branch, HEAD, and the files it had edited."""
    if not thread.cwd:
        return []
    if not os.path.isdir(thread.cwd):
        text = f"the folder `{thread.cwd}` is not on this machine; nothing could be compared"
        return [Item(text=text)]
    files = [os.path.join(thread.cwd, f.path) for f in facts.files if f.edits]
    if files and not facts.revision.repository and not any(map(os.path.lexists, files)):
        text = f"none of the files is in the folder `{thread.cwd}`; nothing could be compared"
        return [Item(text=text)]
    return [*_find_git_drift(thread, facts.revision), *_find_file_drift(thread, facts.files, limit)]


def _find_git_drift(thread: Thread, revision: Revision) -> Iterator[Item]:
    if not revision.repository:
        return
    if revision.branch and revision.branch_now and revision.branch != revision.branch_now:
        yield Item(text=f"branch: was `{revision.branch}`, is now `{revision.branch_now}`")
    recorded = revision.commits[-1].text.split()[0] if revision.commits else revision.head
    if recorded and revision.head_now and not revision.head_now.startswith(recorded):
        count = run_git(thread.cwd, "rev-list", "--count", f"{recorded}..HEAD")
        more = f", {format_plural(int(count), 'commit')} on" if count and int(count) else ""
        refs = (revision.commits[-1].ref,) if revision.commits else ()
        text = f"HEAD: was `{recorded}`, is now `{revision.head_now[:9]}`{more}"
        yield Item(text=text, refs=refs)


def _find_file_drift(thread: Thread, files: Sequence[FileFact], limit: int) -> Iterator[Item]:
    ended = 0.0
    with suppress(ValueError):
        ended = datetime.fromisoformat(thread.updated.replace("Z", "+00:00")).timestamp()
    edited = [f for f in files if f.edits and not f.deleted]
    for file in edited:
        path = os.path.join(thread.cwd, file.path)
        try:
            modified = os.stat(path).st_mtime
        except (OSError, ValueError):  # ValueError: no file can have such a name
            yield Item(text=f"gone: `{file.path}`, edited last in", refs=file.edits[-1:])
        else:
            if not ended or modified <= ended + 2:
                continue
            yield Item(text=f"changed: `{file.path}`, edited last in", refs=file.edits[-1:])
        limit -= 1
        if limit <= 0:
            return


def take_snapshot(cwd: str, files: Sequence[FileItem], revision: Revision) -> dict[str, str]:
    """Return the data for `describe_snapshot_drift`: hashes of named files, `HEAD` and `branch`."""
    hashes = {f.path: _compute_fingerprint(cwd, f.path) for f in files}
    if revision.repository:
        hashes["HEAD"], hashes["branch"] = revision.head_now, redact(revision.branch_now)[0]
    return hashes


def describe_snapshot_drift(
    cwd: str, saved_snapshot: dict[str, str], revision: Revision
) -> list[str]:
    """Return sentences on what changed between draft and start, or none if nothing did."""
    found = []
    if revision.repository:
        if saved_snapshot.get("HEAD") not in (None, revision.head_now):
            found.append(f"HEAD moved: {saved_snapshot['HEAD'][:9]} → {revision.head_now[:9]}")
        branch = redact(revision.branch_now)[0]
        if saved_snapshot.get("branch") not in (None, branch):
            found.append(f"branch switched: {saved_snapshot['branch']} → {branch}")
    for path, before in saved_snapshot.items():
        if path in ("HEAD", "branch"):
            continue
        now = _compute_fingerprint(cwd, path)
        if now != before:
            verb = "gone" if now == "gone" else "new" if before == "gone" else "changed"
            found.append(f"{verb}: {path}")
    return found


def _compute_fingerprint(cwd: str, path: str) -> str:
    file = Path(cwd, path)
    try:
        stat = file.stat()
        if not stat.st_size:  # Also files the kernel generates on reading, which may never end.
            return "empty"
        if stat.st_size > MAX_BYTES or not file.is_file():
            return f"{stat.st_size}-{stat.st_mtime_ns}"
        return hashlib.sha256(file.read_bytes()).hexdigest()[:16]
    except (OSError, ValueError):
        return "gone"
