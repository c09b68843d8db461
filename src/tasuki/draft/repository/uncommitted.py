"""Which files of a thread are not committed: by git where the folder is here, else by the commands."""

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Literal

from msgspec.structs import replace

from tasuki.draft.facts.files import is_noise
from tasuki.draft.repository.checkouts import find_root
from tasuki.draft.repository.commits import is_same_hash
from tasuki.draft.repository.git_output import is_covered
from tasuki.draft.runs.scopes import join_folder, locate
from tasuki.model import Entry, FileFact, RepositoryState, Revision, Thread, ToolCall
from tasuki.paths import fold_path, follow_links, normalize_path
from tasuki.patterns import compile_pattern

_USUALLY_IGNORED = compile_pattern(
    r"(?:^|/)(?:\.env(?:\.\w+)?$|\.DS_Store$|(?:__pycache__|node_modules|dist|build|target|out|bin|obj|coverage"
    r"|\.?venv|\.next|\.cache|\.entire|\.idea|\.vscode|te?mp|logs?)(?:/|$))"
    r"|\.(?:log|tmp|bak|orig|swp|pyc|o|pid)$|\.local\.(?:json|md|toml|ya?ml)$"
)
_IGNORED = compile_pattern(
    r"^The following paths are ignored by one of your \.gitignore files:\n((?:(?!hint:).+\n?)+)",
    re.MULTILINE,
)
_MATCHED_IGNORE = compile_pattern(r"^[^\s:]*:\d+:([^\t\n!][^\t\n]*)\t(\S.*)$", re.MULTILINE)
"""What `git check-ignore -v` prints for a path: the file, line and pattern that ignore it."""
_IGNORE_LINE = compile_pattern(r"(?m)^(?:[^\S\n]*\d+[\t→:])?/?([\w.][\w./-]*?)/?$")


def is_changed(file: FileFact) -> bool:
    """Return whether a file of the project was changed or removed, and not restored."""
    return bool(file.edits) and file.edits[-1] > file.undone and not is_noise(file.path)


def find_uncommitted(
    thread: Thread, edited: Sequence[FileFact], repository: RepositoryState, revision: Revision
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return those of some edited files that are not committed, and those of which nobody can tell."""
    cwd = join_folder("", thread.cwd) or ""
    tools = {entry.ref: entry.tool for entry in thread.entries if entry.tool}
    if revision.repository:
        cwd = os.path.realpath(thread.cwd)
        dirty = {f"{revision.root}/{path}".rstrip("/") for path in revision.dirty_now}
        paths = {f.path: follow_links(locate(cwd, f.path), revision.root) for f in edited}
        changed = []
        for file in edited:
            parts = paths[file.path].split("/")  # And all folders above it, unless it is gone.
            first = len(parts) if file.deleted else 2
            if dirty & {"/".join(parts[:n]) for n in range(first, len(parts) + 1)}:
                changed.append(file)
        if revision.is_merging and repository.checkouts:  # What it brings is changed, too.
            judged = {f: _judge_file(tools, f, paths[f.path], repository) for f in changed}
            changed = [file for file, state in judged.items() if state == "left"]
        return tuple(f.path for f in changed), ()
    found = {f.path: _judge_file(tools, f, locate(cwd, f.path), repository) for f in edited}
    told = [path for path, state in found.items() if state != "committed"]
    doubtful = [path for path in told if _USUALLY_IGNORED.search(path)]
    hidden = {path for path in doubtful if not _is_shown(path, thread.entries)} if doubtful else ()
    ignored = find_ignored(thread.entries) if told else ()
    told = [path for path in told if path not in hidden]
    told = [p for p in told if not any(f"/{name}/" in f"/{p}/" for name in ignored)]
    left = tuple(path for path in told if found[path] == "left")
    return left, tuple(path for path in told if found[path] == "unclear")


def _judge_file(
    tools: Mapping[int, ToolCall], file: FileFact, path: str, repository: RepositoryState
) -> Literal["left", "unclear", "committed"]:
    """Judge whether a commit can have included a file, in the checkout that it is in."""
    checkouts = repository.checkouts
    root = find_root(path, [c.root for c in checkouts])
    checkout = next((c for c in checkouts if root and c.root == root), None)
    by_tools = [ref in tools and bool(tools[ref].changes) for ref in file.edits]
    is_left = repository.folder not in ("", root) and not any(by_tools)
    if checkout is None or is_left:  # Elsewhere by now: the user may have committed what was moved.
        return "committed"
    merged = checkout.merging_ref if checkout.merging_ref > file.edits[-1] else 0
    listed = [
        ref
        for ref, paths in checkout.listed
        if not 0 < merged <= ref  # What it brings is listed, too.
        and any(is_covered(path, p) for p in paths if not (file.deleted and p.endswith("/")))
    ]
    later = [paths for ref, paths in checkout.listed if ref > file.edits[-1]]
    named = (locate(checkout.root, p) for paths in later for p in paths)
    if file.deleted and later and path not in named:
        return "committed"  # Git lists what is gone, if it was in a commit before.
    last = max(file.edits[-1], *listed, 0)
    if not any(by_tools) and any(ref > last for ref, _ in checkout.listed):
        return "committed"  # A command wrote or moved it, and git's newest list lacks it.
    if file.is_scrap and last == file.edits[-1]:
        held = (ref for ref, added in checkout.settled if _is_added(path, added))
        if not (set(held) & set(range(file.edits[0], last)) - set(checkout.by_others)):
            return "committed"  # Nobody knows that any commit held it.
    is_moved = last == file.edits[-1] and not by_tools[-1]
    since = last - 1 if is_moved else last  # The line that moved it may also commit it.
    complete = (ref for ref in checkout.complete if ref not in listed)
    if any(ref > since and not 0 < merged <= ref for ref in complete):
        return "committed"
    settled = {ref for ref, added in checkout.settled if ref > since and _is_added(path, added)}
    if settled:
        return "unclear" if settled <= set(checkout.by_others) else "committed"
    is_changed_before = any(ref < file.edits[0] for ref in listed)
    takes_back = is_changed_before and last == file.edits[-1] and _only_removes(tools, file)
    return "unclear" if takes_back else "left"


def _only_removes(tools: Mapping[int, ToolCall], file: FileFact) -> bool:
    """Return whether the edits of a file only remove lines, as of what a command had added."""
    changes = (c for ref in file.edits if ref in tools for c in tools[ref].changes)
    lines = [(c.old.split("\n"), c.new.split("\n")) for c in changes]
    return bool(lines) and all(
        len(new) <= len(old) and old != new and set(new) <= {*old, ""} for old, new in lines
    )


def _is_added(path: str, added: Sequence[str]) -> bool:
    """Whether one of the arguments of `git add` covers a file: its path, a folder above it, a pattern.

    Without an argument everything is added.
    """
    path = fold_path(path)
    for spec in added:
        spec = normalize_path(spec).rstrip("/")
        while spec.startswith("../"):
            spec = spec[3:]
        if path[1:2] == ":":
            spec = spec.lower()
        if "*" in spec or spec in ("", ".") or f"/{spec.strip('/')}/" in f"/{path}/":
            return True
    return not added


def _is_shown(path: str, entries: Iterable[Entry]) -> bool:
    """Return whether git names a file that usually is ignored, or a command adds it."""
    name = path.rpartition("/")[2]
    return any(
        e.tool
        and "git " in e.tool.command
        and "check-ignore" not in e.tool.command
        and (name in e.tool.output or name in e.tool.command)
        for e in entries
    )


def find_ignored(entries: Iterable[Entry]) -> tuple[str, ...]:
    """Return paths, and names of files and folders, that git or a `.gitignore` of the thread ignores."""
    ignored: list[str] = []
    for call in (entry.tool for entry in entries if entry.tool):
        if any(path.endswith(".gitignore") for path in call.paths):
            text = call.output if call.kind == "read" else "\n".join(c.new for c in call.changes)
            ignored += _IGNORE_LINE.findall(text[:8_000])
        elif call.kind == "shell" and "git " in call.command:
            if "are ignored by" in call.output and (match := _IGNORED.search(call.output)):
                ignored += match[1].split("\n")
            if "check-ignore" in call.command:
                ignored += chain.from_iterable(_MATCHED_IGNORE.findall(call.output))
    return tuple(name for path in ignored if (name := path.strip().strip("/")))


def compare_commits(repository: RepositoryState, revision: Revision) -> RepositoryState:
    """Return the state with what git knows now of the commits of a thread on the branch in use."""
    if not revision.history:
        return repository
    commits = []
    for commit in repository.commits:
        same = (n for n, h in enumerate(revision.history) if is_same_hash(h, commit.hash))
        place = next(same, None)
        if place is not None:
            pushed = None if revision.ahead is None else place >= revision.ahead
            commit = replace(
                commit,
                gone=False,
                branch=revision.branch_now or commit.branch,
                pushed=commit.pushed if pushed is None else pushed,
            )
        elif commit.hash and commit.branch == revision.branch_now:
            commit = replace(commit, gone=True)
        commits.append(commit)
    return replace(repository, commits=tuple(commits))
