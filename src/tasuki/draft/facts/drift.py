"""Drift: how disk and git now differ from what the thread left."""

import hashlib
import os
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path

from tasuki.draft.facts import git
from tasuki.draft.redact.redactor import redact
from tasuki.model import Facts, FileFact, FileItem, Item, Revision, Thread

MAX_BYTES = 4 << 20
"""Larger files are compared by size and time alone."""


def find_thread_drift(thread: Thread, facts: Facts, limit: int = 6) -> list[Item]:
    """Return what changed since the thread: branch, HEAD, and the files it had edited."""
    if not thread.cwd:
        return []
    if not os.path.isdir(thread.cwd):
        return [
            Item(
                text=f"the folder `{thread.cwd}` is not on this machine; nothing could be compared"
            )
        ]
    return [*_find_git_drift(thread, facts.revision), *_find_file_drift(thread, facts.files, limit)]


def _find_git_drift(thread: Thread, revision: Revision) -> Iterator[Item]:
    if not revision.repository:
        return
    if revision.branch and revision.branch_now and revision.branch != revision.branch_now:
        yield Item(text=f"branch: was `{revision.branch}`, is now `{revision.branch_now}`")
    recorded = revision.commits[-1].text.split()[0] if revision.commits else revision.head
    if recorded and revision.head_now and not revision.head_now.startswith(recorded):
        count = git.run_git(thread.cwd, "rev-list", "--count", f"{recorded}..HEAD")
        more = f", {count.strip()} commits on" if count and count.strip() != "0" else ""
        refs = (revision.commits[-1].ref,) if revision.commits else ()
        yield Item(
            text=f"HEAD: was `{recorded}`, is now `{revision.head_now[:9]}`{more}", refs=refs
        )


def _find_file_drift(thread: Thread, files: Sequence[FileFact], limit: int) -> Iterator[Item]:
    ended = _parse_seconds(thread.updated)
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
            yield Item(text=f"changed since the thread: `{file.path}`", refs=file.edits[-1:])
        limit -= 1
        if limit <= 0:
            return


def _parse_seconds(iso: str) -> float:
    try:
        return datetime.fromisoformat(iso.replace("Z", "+00:00")).timestamp()
    except ValueError:
        return 0.0


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
