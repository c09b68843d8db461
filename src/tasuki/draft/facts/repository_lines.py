"""Lines about the repository: the branch, commits, uncommitted files, pull requests."""

from collections import Counter
from collections.abc import Iterator, Sequence

from tasuki.draft.facts.commands import find_formatter, shorten_command
from tasuki.draft.facts.files import find_short_names
from tasuki.draft.facts.repository import find_ignored
from tasuki.draft.text.split import shorten
from tasuki.model import Commit, Facts, Item, RepositoryState, Thread
from tasuki.paths import is_outside

MAX_NAMED = 6
MAX_COMMITS, MAX_EARLIER, MAX_PULLS = 5, 2, 4
"""Commits named of the branch in use, and of others; pull requests."""


def list_repository_items(thread: Thread, facts: Facts) -> Iterator[Item]:
    """Yield what git and gh printed, in the order of use."""
    yield from _list_branch_and_commits(thread, facts)
    yield from _list_uncommitted(thread, facts)
    yield from _list_pull_requests(facts.repository)


def name_paths(paths: Sequence[str], limit: int = MAX_NAMED) -> str:
    """Return the first paths of a list, and how many more there are."""
    named = ", ".join(f"`{p}`" for p in paths[:limit])
    more = len(paths) - limit
    return f"{named} and {more} more" if more > 0 else named


def shorten_paths(facts: Facts, paths: Sequence[str]) -> list[str]:
    """Return paths by their shortest unique ends; the files have them whole."""
    names = find_short_names(f.path for f in facts.files)
    return [names.get(path, path) for path in paths]


def find_formatter_since(facts: Facts, ref: int) -> str:
    """Return the newest formatter of the whole tree that ran after an entry, or ''."""
    found = (
        (c.refs[-1], find_formatter(c.command))
        for c in facts.commands
        if c.result in ("passed", "not shown")
    )
    return max(
        ((last_ref, step) for last_ref, step in found if step and last_ref > ref), default=(0, "")
    )[1]


def _list_branch_and_commits(thread: Thread, facts: Facts) -> Iterator[Item]:
    """Yield the branch in use and its commits, then commits elsewhere."""
    repository = facts.repository
    branch = repository.branch
    live = [c for c in repository.commits if not c.gone]
    here = [c for c in live if c.branch == branch]
    # git reported a clean tree after the last commit and edit
    clean = facts.repository.clean_ref
    edits = [f.edits[-1] for f in facts.files if f.edits and not is_outside(f.path)]
    is_clean = bool(clean) and clean >= max((*(c.ref for c in live), *edits), default=0)
    tree = "; git called the tree clean" if is_clean else ""
    cited = (repository.clean_ref,) if is_clean else ()
    if here:
        refs = (*(c.ref for c in here[-3:]), *cited)
        text = f"{_list_commits(here, MAX_COMMITS)}{tree}"
        yield Item(text=text, refs=refs, label=f"Committed on `{branch}`")
    elif branch:
        refs = ((repository.branch_ref,) if repository.branch_ref else ()) + cited
        text = f"`{branch}`{tree}{_describe_no_commit(thread, live)}"
        yield Item(text=text, refs=refs, label="Branch")
    for other in dict.fromkeys(c.branch for c in reversed(live) if c.branch != branch):
        there = [c for c in live if c.branch == other]
        name = f"`{other}`" if other else "a detached HEAD"
        refs = tuple(c.ref for c in there[-MAX_EARLIER:])
        text = _list_commits(there, MAX_EARLIER)
        yield Item(text=text, refs=refs, label=f"Committed on {name}, earlier")


def _describe_no_commit(thread: Thread, live: Sequence[Commit]) -> str:
    """Return a note that nothing was committed, or '' if sub-agents ran.

    What sub-agents did is not in the thread.
    """
    if live:
        return "; nothing was committed on it in this thread"
    has_agents = any(e.tool and e.tool.kind == "agent" for e in thread.entries)
    return "" if has_agents else "; nothing was committed in this thread"


def _list_commits(commits: Sequence[Commit], limit: int) -> str:
    """Return commits of one branch, the newest first, and whether they were pushed."""
    newest = list(reversed(commits))
    is_mixed = len({c.pushed for c in newest}) > 1
    named = []
    for commit in newest[:limit]:
        hash = f"`{commit.hash}` " if commit.hash else ""
        pushed = f" ({_PUSHED[commit.pushed]})" if is_mixed and _PUSHED[commit.pushed] else ""
        named.append(f"{hash}{shorten(commit.subject, 90)}{pushed}")
    if len(newest) > limit:
        named.append(f"{len(newest) - limit} earlier")
    pushed = "" if is_mixed else _PUSHED[newest[0].pushed]
    return "; ".join(named) + (f" — {pushed}" if pushed else "")


_PUSHED = {True: "pushed", False: "no push seen", None: ""}


def _list_uncommitted(thread: Thread, facts: Facts) -> Iterator[Item]:
    """Yield files edited after the last commit that included them, without ignored ones."""
    if not facts.uncommitted:
        return
    ignored, uncommitted = find_ignored(thread.entries), frozenset(facts.uncommitted)
    edits = {
        f.path: f.edits[-1]
        for f in facts.files
        if f.path in uncommitted and not any(f"/{name}/" in f"/{f.path}/" for name in ignored)
    }
    if not edits:
        return
    newest = sorted(edits, key=lambda path: -edits[path])
    repository = facts.repository
    committed = max((repository.clean_ref, *(ref for ref, _ in repository.staged)))
    formatter = find_formatter_since(facts, committed)
    rest = f", and what `{shorten_command(formatter, 60)}` changed" if formatter else ""
    yield Item(
        text=f"{name_paths(shorten_paths(facts, newest))}{rest}",
        refs=tuple(sorted(edits.values())[-4:]),
        label="Not committed yet",
    )


def _list_pull_requests(repository: RepositoryState) -> Iterator[Item]:
    """Yield pull requests made here, viewed one by one, or of the branch in use."""
    newest = sorted(repository.pull_requests, key=lambda p: (not p.created, -p.ref))
    by_ref = Counter(p.ref for p in newest)
    near = [
        p
        for p in newest
        if p.state and (p.created or by_ref[p.ref] <= MAX_PULLS or p.branch == repository.branch)
    ][:MAX_PULLS]
    if near:
        made = ", made in this thread"
        text = ", ".join(f"#{p.number} {p.state}{made if p.created else ''}" for p in near)
        refs = tuple(sorted({p.ref for p in near}))
        yield Item(text=text, refs=refs, label="Pull requests, as last seen")
