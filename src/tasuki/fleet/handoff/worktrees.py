"""Git worktrees for forks: planned before anything begins, made once, found again after a crash."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from tasuki.draft.facts.git import GitProbe, run_git
from tasuki.errors import NotPossible
from tasuki.fleet.store.failures import StepFailed
from tasuki.text_safety import shorten_to_line

CHECKOUT_SECONDS = 600.0
"""How long git may take to write the files of a worktree."""
MOST_NAMED = 20
"""Uncommitted files that are named."""
MOST_BRANCHES = 1000
_GIT = ("git", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null")
"""Neither a monitor nor a hook of the repository is run."""


class WorktreePlan(Struct, frozen=True):
    """A worktree that is to be made: its folder, a whole path, and its new branch."""

    folder: str
    branch: str


def plan_worktree(cwd: str, wanted: str, slug: str) -> WorktreePlan:
    """Plan a worktree of the repository of `cwd`, for a persona; nothing is made.

    `wanted` is a whole path; empty for a folder next to the repository. Raises NotPossible.
    """
    top = find_repository(cwd)
    if not top:
        raise NotPossible(
            f"{cwd} is in no git repository, so there can be no worktree of it. Fork without one."
        )
    if run_git(cwd, "rev-parse", "--verify", "--quiet", "HEAD^{commit}") is None:
        raise NotPossible(
            f"The repository {top} has no commit yet, so there can be no worktree of it. "
            "Commit first, or fork without one."
        )
    folder = Path(wanted) if wanted else Path(top).with_name(f"{Path(top).name}-{slug}")
    if not folder.is_absolute():
        raise NotPossible(f"The folder of a worktree must be a whole path: {folder}")
    if os.path.lexists(folder):
        raise NotPossible(f"{folder} exists already. Name another folder for the worktree.")
    return WorktreePlan(str(folder), _find_free_branch(cwd, slug))


def find_repository(cwd: str) -> str:
    """Find the top folder of the repository that a folder is in; empty for none."""
    return (run_git(cwd, "rev-parse", "--show-toplevel") or "").removesuffix("\n")


def _find_free_branch(cwd: str, slug: str) -> str:
    for number in range(1, MOST_BRANCHES):
        branch = f"fork/{slug}" if number == 1 else f"fork/{slug}-{number}"
        if not _has_branch(cwd, branch):
            return branch
    raise NotPossible(f"The repository of {cwd} has a thousand branches fork/{slug}.")


def _has_branch(cwd: str, branch: str) -> bool:
    reference = f"refs/heads/{branch}"
    return run_git(cwd, "show-ref", "--verify", "--quiet", reference) is not None


def make_worktree(cwd: str, plan: WorktreePlan) -> str:
    """Make a worktree at the present commit, unless it is there; return a note. Raises StepFailed.

    One that a killed git left half made is removed first.
    """
    existing = next((w for w in _list_worktrees(cwd) if _is_planned(w, plan)), None)
    if existing and "locked initializing" not in existing:
        return f"{plan.folder} is there"
    if existing:
        _run(cwd, "worktree", "remove", "--force", "--force", plan.folder)
    elif os.path.lexists(plan.folder):
        raise StepFailed(
            "worktree_failed", f"{plan.folder} exists, and is no worktree on {plan.branch}."
        )
    new = (
        (plan.folder, plan.branch)
        if _has_branch(cwd, plan.branch)
        else ("-b", plan.branch, plan.folder, "HEAD")
    )
    _run(cwd, "worktree", "add", *new)
    return f"{plan.folder} on {plan.branch}"


def _list_worktrees(cwd: str) -> Iterator[list[str]]:
    """Yield the lines that git says of each worktree."""
    for part in (run_git(cwd, "worktree", "list", "--porcelain") or "").split("\n\n"):
        if lines := part.splitlines():
            yield lines


def _is_planned(lines: list[str], plan: WorktreePlan) -> bool:
    same_folder = lines[0] in (
        f"worktree {plan.folder}",
        f"worktree {os.path.realpath(plan.folder)}",
    )
    return same_folder and f"branch refs/heads/{plan.branch}" in lines


def _run(cwd: str, *arguments: str) -> None:
    """Run git, however long it takes to write files. Raises StepFailed with its own words."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
    try:
        done = subprocess.run(
            (*_GIT, "-C", cwd, *arguments),
            capture_output=True,
            timeout=CHECKOUT_SECONDS,
            env={**environment, "LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0"},
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise StepFailed("worktree_failed", f"git could not be run in {cwd}: {error}") from error
    if done.returncode:
        words = shorten_to_line(done.stderr.decode("utf-8", "replace"), 400)
        raise StepFailed("worktree_failed", f"git worktree failed in {cwd}: {words}")


def find_folder_inside(cwd: str, plan: WorktreePlan) -> str:
    """Find the folder of a worktree that is what `cwd` is in its own; else the worktree's own."""
    top = find_repository(cwd)
    inside = os.path.relpath(os.path.realpath(cwd), top) if top else "."
    folder = os.path.normpath(os.path.join(plan.folder, inside))
    is_inside = not inside.startswith("..") and os.path.isdir(folder)
    return folder if is_inside else plan.folder


def describe_uncommitted(cwd: str) -> str:
    """Describe in a sentence which changes are not committed in a folder; empty for none."""
    files = GitProbe(cwd).read_revision().dirty_now
    if not files:
        return ""
    more = f" and {len(files) - MOST_NAMED} more" if len(files) > MOST_NAMED else ""
    return f"{', '.join(files[:MOST_NAMED])}{more}"
