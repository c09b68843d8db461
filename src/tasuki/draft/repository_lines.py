"""Lines about the repository: the branch, commits, what is not committed, pull requests."""

from collections import Counter
from collections.abc import Iterator, Sequence

from tasuki.draft.commands import find_formatter, short_command
from tasuki.draft.files import is_outside, short_names
from tasuki.draft.repository import find_ignored
from tasuki.draft.text import shorten
from tasuki.model import Commit, Facts, Item, RepositoryState, Thread

MOST_NAMED = 6
MOST_COMMITS, MOST_EARLIER, MOST_PULLS = 5, 2, 4
"""Commits named of the branch in use, and of others; pull requests."""


def repository_items(thread: Thread, facts: Facts) -> Iterator[Item]:
    """What git and gh printed, in the order of use."""
    yield from _branch_and_commits(thread, facts)
    yield from _uncommitted(thread, facts)
    yield from _pull_requests(facts.repository)


def name_paths(paths: Sequence[str], limit: int = MOST_NAMED) -> str:
    """The first paths of a list, and how many more there are."""
    named = ", ".join(f"`{p}`" for p in paths[:limit])
    more = len(paths) - limit
    return f"{named} and {more} more" if more > 0 else named


def shorten_paths(facts: Facts, paths: Sequence[str]) -> list[str]:
    """Paths by their shortest ends that tell them from all others; the files have them whole."""
    names = short_names(f.path for f in facts.files)
    return [names.get(path, path) for path in paths]


def formatter_since(facts: Facts, ref: int) -> str:
    """The newest formatter of the whole tree that ran after an entry; empty if none did."""
    found = ((c.refs[-1], find_formatter(c.command)) for c in facts.commands if c.ok)
    return max(((at, step) for at, step in found if step and at > ref), default=(0, ""))[1]


def _branch_and_commits(thread: Thread, facts: Facts) -> Iterator[Item]:
    """The branch in use and what was committed on it, then what was committed elsewhere."""
    repository = facts.repository
    branch = repository.branch
    live = [c for c in repository.commits if not c.gone]
    here = [c for c in live if c.branch == branch]
    is_clean = _is_clean(facts, live)
    tree = "; git called the tree clean" if is_clean else ""
    cited = (repository.clean_ref,) if is_clean else ()
    if here:
        refs = (*(c.ref for c in here[-3:]), *cited)
        text = f"{_list_commits(here, MOST_COMMITS)}{tree}"
        yield Item(text=text, refs=refs, label=f"Committed on `{branch}`")
    elif branch:
        refs = ((repository.branch_ref,) if repository.branch_ref else ()) + cited
        text = f"`{branch}`{tree}{_say_no_commit(thread, live)}"
        yield Item(text=text, refs=refs, label="Branch")
    for other in dict.fromkeys(c.branch for c in reversed(live) if c.branch != branch):
        there = [c for c in live if c.branch == other]
        name = f"`{other}`" if other else "a detached HEAD"
        refs = tuple(c.ref for c in there[-MOST_EARLIER:])
        text = _list_commits(there, MOST_EARLIER)
        yield Item(text=text, refs=refs, label=f"Committed on {name}, earlier")


def _is_clean(facts: Facts, live: Sequence[Commit]) -> bool:
    """Whether git called the tree clean after the last commit and edit."""
    clean = facts.repository.clean_ref
    edits = [f.edits[-1] for f in facts.files if f.edits and not is_outside(f.path)]
    return bool(clean) and clean >= max((*(c.ref for c in live), *edits), default=0)


def _say_no_commit(thread: Thread, live: Sequence[Commit]) -> str:
    """Nothing is said where sub-agents ran: what they did is not in the thread."""
    if live:
        return "; nothing was committed on it in this thread"
    has_agents = any(e.tool and e.tool.kind == "agent" for e in thread.entries)
    return "" if has_agents else "; nothing was committed in this thread"


def _list_commits(commits: Sequence[Commit], most: int) -> str:
    """Commits of one branch, the newest first, and whether they were pushed."""
    newest = list(reversed(commits))
    is_mixed = len({c.pushed for c in newest}) > 1
    named = []
    for commit in newest[:most]:
        hash = f"`{commit.hash}` " if commit.hash else ""
        pushed = f" ({_PUSHED[commit.pushed]})" if is_mixed and _PUSHED[commit.pushed] else ""
        named.append(f"{hash}{shorten(commit.subject, 90)}{pushed}")
    if len(newest) > most:
        named.append(f"{len(newest) - most} earlier")
    pushed = "" if is_mixed else _PUSHED[newest[0].pushed]
    return "; ".join(named) + (f" — {pushed}" if pushed else "")


_PUSHED = {True: "pushed", False: "no push seen", None: ""}


def _uncommitted(thread: Thread, facts: Facts) -> Iterator[Item]:
    """Files that were edited after the last commit took them in, without those that git ignores."""
    if not facts.uncommitted:
        return
    ignored = find_ignored(thread.entries)
    edits = {
        f.path: f.edits[-1]
        for f in facts.files
        if f.path in facts.uncommitted and not _is_below(f.path, ignored)
    }
    if not edits:
        return
    newest = sorted(edits, key=lambda path: -edits[path])
    repository = facts.repository
    committed = max((repository.clean_ref, *(ref for ref, _ in repository.staged)))
    formatter = formatter_since(facts, committed)
    rest = f", and what `{short_command(formatter, 60)}` changed" if formatter else ""
    yield Item(
        text=f"{name_paths(shorten_paths(facts, newest))}{rest}",
        refs=tuple(sorted(edits.values())[-4:]),
        label="Not committed yet",
    )


def _is_below(path: str, names: Sequence[str]) -> bool:
    return any(f"/{name}/" in f"/{path}/" for name in names)


def _pull_requests(repository: RepositoryState) -> Iterator[Item]:
    """Pull requests that were made here, looked at one by one, or belong to the branch in use."""
    newest = sorted(repository.pull_requests, key=lambda p: (not p.created, -p.ref))
    by_ref = Counter(p.ref for p in newest)
    near = [
        p
        for p in newest
        if p.state and (p.created or by_ref[p.ref] <= MOST_PULLS or p.branch == repository.branch)
    ][:MOST_PULLS]
    if near:
        made = ", made in this thread"
        told = ", ".join(f"#{p.number} {p.state}{made if p.created else ''}" for p in near)
        refs = tuple(sorted({p.ref for p in near}))
        yield Item(text=told, refs=refs, label="Pull requests, as last seen")
