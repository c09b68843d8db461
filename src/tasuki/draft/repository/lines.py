"""Lines about the repository: the branch, commits, uncommitted files, pull requests."""

from collections import Counter
from collections.abc import Iterator, Sequence

from tasuki.draft.facts.commands import find_formatter, shorten_command
from tasuki.draft.facts.files import find_short_names, is_noise
from tasuki.draft.repository.checkouts import find_root
from tasuki.draft.repository.git_output import is_covered
from tasuki.draft.runs.scopes import join_folder, locate
from tasuki.draft.text.split import shorten
from tasuki.model import CheckoutState, Commit, Facts, Item, RepositoryState, Thread
from tasuki.paths import is_outside, make_relative

MAX_NAMED = 6
MAX_COMMITS, MAX_EARLIER, MAX_PULLS = 5, 2, 4
"""Commits named of the branch in use, and of others; pull requests."""


def list_repository_items(thread: Thread, facts: Facts) -> Iterator[Item]:
    """Yield what git and gh printed, or what git says now, in the order of use."""
    yield from _list_branch_and_commits(thread, facts)
    ref, now = facts.repository.merging_ref, facts.revision
    if now.is_merging or (ref and not now.repository):
        text = "neither a commit nor an abort of it was seen"
        text = "git has not ended it" if now.is_merging else text
        what = f"Merge or rebase{' with conflicts' if ref else ''}, under way"
        yield Item(text=text, refs=(ref,) if ref else (), label=what)
    yield from _list_uncommitted(thread, facts)
    yield from _list_pull_requests(facts.repository)
    if newest := facts.repository.published[-3:]:
        text = ", ".join(f"`{q.text}`" for q in newest)
        yield Item(text=text, refs=tuple(q.ref for q in newest), label="Published by this thread")


def name_paths(paths: Sequence[str], limit: int = MAX_NAMED) -> str:
    """Return the first paths of a list, and how many more there are."""
    named = ", ".join(f"`{p}`" for p in paths[:limit])
    more = len(paths) - limit
    return f"{named} and {more} more" if more > 0 else named


def shorten_paths(facts: Facts, paths: Sequence[str]) -> list[str]:
    """Return paths by their shortest unique ends; the files have them whole."""
    names = find_short_names(f.path for f in facts.files)
    return [names.get(path, path) for path in paths]


def had_agents(thread: Thread, after: int = 0) -> bool:
    """Return whether sub-agents ran behind an entry, of which nobody knows what they ran and changed."""
    calls = [(e.ref, e.tool) for e in thread.entries if e.tool]
    ids = [b.id for b in thread.background if b.kind == "agent"]
    reports = [n.text for n in thread.notices if n.after > after and n.kind == "note"]
    later = (call for ref, call in calls if ref > after)
    is_called = any(call.kind == "agent" or call.name == "SendMessage" for call in later)
    return is_called or any(id in text for text in reports for id in ids)


def find_formatter_since(facts: Facts, ref: int) -> str:
    """Return the newest formatter of the whole tree that ran after an entry, or ''."""
    later = (c for c in facts.commands if c.result in ("passed", "not shown") and c.refs[-1] > ref)
    found = ((c.refs[-1], find_formatter(c.command)) for c in later)
    return max((one for one in found if one[1]), default=(0, ""))[1]


def _list_branch_and_commits(thread: Thread, facts: Facts) -> Iterator[Item]:
    """Yield the branch in use and its commits, then commits elsewhere."""
    repository = facts.repository
    trials = (c.place and is_noise(c.place) and not c.branch for c in repository.commits)
    pairs = zip(repository.commits, trials, strict=True)
    live = [c for c, is_trial in pairs if not (c.gone or is_trial)]
    by_branch: dict[tuple[str, str], list[Commit]] = {}
    for commit in live:
        by_branch.setdefault((commit.place, commit.branch), []).append(commit)
    places = (repository.folder, "") if repository.folder else ("",)
    own = (by_branch.pop((place, repository.branch), None) for place in places)
    here = next(filter(None, own), None)
    clean = _find_clean(thread, facts, live)
    tree = "; git called the tree clean" if clean else ""
    cited = (clean,) if clean else ()
    name = _name_branch(repository.branch, repository.folder, thread)
    if here:
        refs = (*(c.ref for c in here[-3:]), *cited)
        text = f"{_list_commits(here, MAX_COMMITS)}{tree}"
        yield Item(text=text, refs=refs, label=f"Committed{name and f' {name}'}")
    elif repository.branch:
        refs = ((repository.branch_ref,) if repository.branch_ref else ()) + cited
        note = f"; nothing was committed{' on it' if live else ''} in this thread"
        if repository.maybe_ref or had_agents(thread):
            note = ""  # Somebody may have whom nobody saw.
        text = f"{name.removeprefix('on ')}{tree}{note}"
        yield Item(text=text, refs=refs, label="Branch")
    for (place, branch), there in reversed(by_branch.items()):
        name = _name_branch(branch, place, thread) or "on a detached HEAD"
        refs = tuple(c.ref for c in there[-MAX_EARLIER:])
        text = _list_commits(there, MAX_EARLIER)
        yield Item(text=text, refs=refs, label=f"Committed {name}, earlier")


def _name_branch(branch: str, place: str, thread: Thread) -> str:
    """Name a branch and the checkout that it is in, if that is another one than the thread's folder."""
    names = [f"on `{branch}`"] if branch else []
    return " ".join([*names, f"in `{make_relative(place, thread.cwd)}`"] if place else names)


def _find_clean(thread: Thread, facts: Facts, live: Sequence[Commit]) -> int:
    """Return the entry in which git called the tree clean behind the last commit and edit; 0 for none."""
    here = _find_checkout_in_use(facts)
    clean = here.clean_ref if here else 0
    if any(e.kind == "user" and e.ref > clean for e in thread.entries):
        return 0  # The user may have changed something meanwhile.
    edits = [f.edits[-1] for f in facts.files if f.edits and not is_outside(f.path)]
    latest = max((*(c.ref for c in live), *edits), default=0)
    return clean if clean and clean >= latest and not facts.revision.repository else 0


def _list_commits(commits: Sequence[Commit], limit: int) -> str:
    """Return commits of one branch, the newest first, and whether they were pushed."""
    newest = list(reversed(commits))
    is_mixed = len({c.pushed for c in newest}) > 1
    named = []
    for commit in newest[:limit]:
        hash = f"`{commit.hash}` " if commit.hash else ""
        pushed = f" ({_IN_A_MIX[commit.pushed]})" if is_mixed else ""
        named.append(f"{hash}{shorten(commit.subject, 90)}{pushed}")
    if len(newest) > limit:
        named.append(f"{len(newest) - limit} earlier")
    pushed = "" if is_mixed else _PUSHED[newest[0].pushed]
    return "; ".join(named) + (f" — {pushed}" if pushed else "")


_PUSHED = {True: "pushed", False: "no push seen", None: ""}
_IN_A_MIX = {**_PUSHED, None: "unclear whether pushed"}


def _list_uncommitted(thread: Thread, facts: Facts) -> Iterator[Item]:
    """Yield files that no commit includes, and what git says of others where the folder is here."""
    left = frozenset(facts.uncommitted)
    edits = {f.path: f.edits[-1] for f in facts.files if f.path in left}
    newest = sorted(edits, key=lambda path: -edits[path])
    now = facts.revision
    if newest:
        names = name_paths(shorten_paths(facts, newest))
        whole = _list_whole(thread, newest)
        staged = [p for p in now.staged_now if any(is_covered(path, p) for path in whole)]
        rest = f" ({len(staged)} of them staged)" if staged else ""
        listed_refs = (ref for c in facts.repository.checkouts for ref, _ in c.listed)
        known = max((*edits.values(), *listed_refs))
        if not now.repository and (formatter := find_formatter_since(facts, known)):
            rest = f", and what `{shorten_command(formatter, 60)}` changed"
        if unclear := len(facts.maybe_committed):
            rest += f"; of {unclear} more the thread does not tell"
        refs = tuple(sorted(edits.values())[-4:])
        lists = [one for c in facts.repository.checkouts for one in c.listed]
        is_listed = now.repository or all(  # Else somebody may have committed it unseen.
            any(r > edits[p] and any(is_covered(path, one) for one in paths) for r, paths in lists)
            for p, path in zip(newest, whole, strict=True)
        )
        label = f"Not committed yet{'' if is_listed else ', as far as the thread shows'}"
        ended = max((ref for c in facts.repository.checkouts for ref, _ in c.settled), default=0)
        if not is_listed and had_agents(thread, ended):
            rest += "; sub-agents may have changed more"
        yield Item(text=f"{names}{rest}", refs=refs, label=label)
    ref, listed = (0, now.dirty_now) if now.repository else _find_last_listing(facts)
    cwd, repository = join_folder("", thread.cwd) or "", facts.repository
    roots = [c.root for c in repository.checkouts]
    in_use = ("", repository.folder or cwd)  # The checkout in use, as far as that is known.
    edited = [f.path for f in facts.files if f.edits]
    edited = [path for path in edited if find_root(locate(cwd, path), roots) in in_use]
    whole = _list_whole(thread, edited)
    others = [  # A folder that git does not know holds more than what was edited in it.
        p
        for p in dict.fromkeys(listed)
        if p.endswith("/") or not any(is_covered(path, p) for path in whole)
    ]
    if others:
        how = "as git listed it" if ref else "now"
        merging = facts.repository.merging_ref
        is_merging = 0 < merging <= ref if ref else now.is_merging
        by = ", by the merge or rebase too" if is_merging else ""
        label = f"{'Also changed or new' if newest else 'Changed or new'} in the folder{by}, {how}"
        yield Item(text=name_paths(others, 4), refs=(ref,) if ref else (), label=label)


def _list_whole(thread: Thread, paths: Sequence[str]) -> list[str]:
    folder = join_folder("", thread.cwd)
    return [locate(folder, path) for path in paths]


def _find_checkout_in_use(facts: Facts) -> CheckoutState | None:
    root = facts.repository.folder
    return next((c for c in facts.repository.checkouts if not root or c.root == root), None)


def _find_last_listing(facts: Facts) -> tuple[int, tuple[str, ...]]:
    """Find the last list of changes by git in the checkout in use, if nothing was committed since."""
    here = _find_checkout_in_use(facts)
    ref, listed = here.listed[-1] if here and here.listed else (0, ())
    is_old = here and (here.clean_ref > ref or any(r >= ref for r, _ in here.settled))
    return (0, ()) if is_old else (ref, listed)


def _list_pull_requests(repository: RepositoryState) -> Iterator[Item]:
    """Yield pull requests made here, viewed one by one, or of the branch in use."""
    newest = sorted(
        repository.pull_requests,
        key=lambda p: (not p.created, p.state not in ("open", "draft"), -p.ref),
    )
    branch = repository.branch
    own = [p for p in newest if p.created or p.handled or (p.branch and p.branch == branch)]
    by_ref = Counter(p.ref for p in newest)
    seen = [p for p in newest if by_ref[p.ref] <= MAX_PULLS]
    open_ones = [p for p in newest if p.looked_at and p.state in ("open", "draft")]
    shown = [p for p in newest if p in own or p in open_ones] if own else seen
    near = [p for p in shown if p.state][:MAX_PULLS]
    if near:
        made = ", made in this thread"
        several = len({p.repository for p in near if p.repository}) > 1
        text = ", ".join(
            f"{p.repository if several else ''}#{p.number} {p.state}{made if p.created else ''}"
            for p in near
        )
        refs = tuple(sorted({p.ref for p in near}))
        yield Item(text=text, refs=refs, label="Pull requests, as last seen")
    checks = repository.checks
    named = {f"#{p.number}" for p in near if p.state in ("open", "draft")}
    named |= {"", f"`{repository.branch}`"}
    if checks is not None and checks.name in named:
        parts = [f"{checks.passed} passed"] if checks.passed else []
        if checks.failed:
            parts.insert(0, f"{len(checks.failed)} FAILED ({name_paths(checks.failed, 3)})")
        parts += [f"{checks.pending} still running"] if checks.pending else []
        if parts:
            label = f"Checks of {checks.name}, as last seen" if checks.name else "CI, as last seen"
            yield Item(text=", ".join(parts), refs=(checks.ref,), label=label)
