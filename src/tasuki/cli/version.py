"""The version of tasuki, with the commit of the checkout that it runs from.

It is read at each `tasuki --version`, so without git and without pathlib, which take longer.
"""

import os

from tasuki import __version__

SHORT = 7
"""Digits of a commit's hash that are shown."""


def describe_version() -> str:
    """Return the version; in a checkout followed by its commit, `0.2.0 (a1b2c3d)`."""
    commit = find_commit(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    return f"{__version__} ({commit[:SHORT]})" if commit else __version__


def find_commit(package: str) -> str:
    """Return the commit of the checkout that holds a package in its `src`, empty where none does.

    Format: gitrepository-layout(5), with worktrees and packed references.
    """
    source, _ = os.path.split(package)
    root, name = os.path.split(source)
    if name != "src" or os.path.isdir(os.path.join(package, "docs")):  # A wheel holds its docs.
        return ""
    try:
        folder = os.path.join(root, ".git")
        if os.path.isfile(folder):
            folder = os.path.join(root, _read(folder).removeprefix("gitdir: "))
        shared = os.path.join(folder, "commondir")
        common = os.path.join(folder, _read(shared)) if os.path.isfile(shared) else folder
        head = _read(os.path.join(folder, "HEAD"))
        branch = head.removeprefix("ref: ")
        path = os.path.join(common, branch)
        if branch == head:
            commit = head
        elif os.path.isfile(path):
            commit = _read(path)
        else:
            packed = _read(os.path.join(common, "packed-refs")).splitlines()
            commit = next((line.split()[0] for line in packed if line.endswith(f" {branch}")), "")
    except (OSError, ValueError):
        return ""
    return commit if len(commit) >= 40 and not commit.strip("0123456789abcdef") else ""


def _read(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read().strip()
