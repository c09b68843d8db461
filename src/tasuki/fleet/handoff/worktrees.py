"""Git worktrees for forks: planned before anything begins, made once, found again after a crash."""

import os
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from tasuki.draft.facts.git import GitProbe, run_git
from tasuki.errors import NotPossible
from tasuki.fleet.handoff.git_commands import NETWORK, WRITE_SECONDS, Git, GitFailed
from tasuki.fleet.store.failures import StepFailed

MOST_NAMED = 20
"""Uncommitted files that are named."""
MOST_BRANCHES = 1000


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
    return WorktreePlan(str(folder), find_free_branch(cwd, f"fork/{slug}"))


def find_repository(cwd: str) -> str:
    """Find the top folder of the repository that a folder is in; empty for none."""
    return (run_git(cwd, "rev-parse", "--show-toplevel") or "").removesuffix("\n")


def find_free_branch(cwd: str, wanted: str) -> str:
    """Return a name for a branch that no branch has yet, `wanted` or with a number. Raises NotPossible."""
    for number in range(1, MOST_BRANCHES):
        branch = wanted if number == 1 else f"{wanted}-{number}"
        if not has_branch(cwd, branch):
            return branch
    raise NotPossible(f"The repository of {cwd} has a thousand branches {wanted}.")


def has_branch(cwd: str, branch: str) -> bool:
    """Return whether the repository of a folder has a branch."""
    return run_git(cwd, "show-ref", "--verify", "--quiet", f"refs/heads/{branch}") is not None


def make_worktree(
    cwd: str, plan: WorktreePlan, commit: str = "HEAD", git: Git | None = None
) -> str:
    """Make a worktree at a commit, unless it is there; return a note. Raises StepFailed.

    One that a killed git left half made is removed first. Without a `git`, filters run as the
    repository says, and a partial clone may fetch what it lacks.
    """
    git = git or Git(cwd, GIT_ALLOW_PROTOCOL=NETWORK, GIT_NO_LAZY_FETCH="0")
    heads = (f"worktree {plan.folder}", f"worktree {os.path.realpath(plan.folder)}")
    branch = f"branch refs/heads/{plan.branch}"
    planned = (x for x in _list_worktrees(cwd) if x[0] in heads and branch in x)
    existing = next(planned, None)
    if existing and "locked initializing" not in existing:
        return f"{plan.folder} is there"
    if existing:
        _run(git, "worktree", "remove", "--force", "--force", plan.folder)
    elif os.path.lexists(plan.folder):
        raise StepFailed(
            "worktree_failed", f"{plan.folder} exists, and is no worktree on {plan.branch}."
        )
    new = (
        (plan.folder, plan.branch)
        if has_branch(cwd, plan.branch)
        else ("-b", plan.branch, plan.folder, commit)
    )
    _run(git, "worktree", "add", *new)
    return f"{plan.folder} on {plan.branch}"


def _list_worktrees(cwd: str) -> Iterator[list[str]]:
    """Yield the lines that git says of each worktree."""
    for part in (run_git(cwd, "worktree", "list", "--porcelain") or "").split("\n\n"):
        if lines := part.splitlines():
            yield lines


def _run(git: Git, *arguments: str) -> None:
    """Run git, however long it takes to write files. Raises StepFailed with its own words."""
    try:
        git.run(*arguments, seconds=WRITE_SECONDS)
    except GitFailed as error:
        raise StepFailed("worktree_failed", str(error)) from error


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
