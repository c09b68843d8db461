"""What an agent changed, whole for its page, and in one line for its card."""

import time

from msgspec.structs import replace

from tasuki.draft.redact.redactor import Redactor
from tasuki.fleet.changes.diffs import read_diffs
from tasuki.fleet.changes.files import FoundFiles, find_files
from tasuki.fleet.changes.records import Since, WorkChanges, WorkCommit
from tasuki.fleet.changes.starts import WorkBase, find_base
from tasuki.fleet.changes.work_tree import WorkTree, WorkUnknown, show_text
from tasuki.fleet.store.models import FleetAgent, WorkSummary

MOST_COMMITS = 100
MOST_FILES = 400
SUBJECT_CHARACTERS = 200


def read_changes(
    agent: FleetAgent,
    *,
    since: Since = "start",
    document_at: float | None = None,
    diff: str = "",
) -> WorkChanges:
    """Read what an agent of this host changed. What cannot be read is said in `problem`.

    `diff` is `all` for the differences of all files, or the key of one file; empty for none.
    `document_at` is when the last handoff document of the agent was recorded.
    """
    empty = WorkChanges(agent.id, time.time(), since, begun_branch=agent.begun_branch)
    try:
        return _read(agent, empty, document_at, diff)
    except WorkUnknown as error:
        return replace(empty, problem=Redactor().redact(str(error)))


def _read(
    agent: FleetAgent, empty: WorkChanges, document_at: float | None, diff: str
) -> WorkChanges:
    redactor = Redactor()
    tree = WorkTree(agent.cwd)
    base = find_base(tree, agent, empty.since, document_at)
    compared = base.commit or tree.find_empty_tree()
    found = find_files(tree, compared, redactor)
    upstream, ahead, behind = _read_upstream(tree)
    key = "" if diff == "all" else diff
    wanted = found.files if key else found.files[:MOST_FILES]
    diffs = read_diffs(tree, compared, wanted, redactor, key) if diff else ()
    return replace(
        empty, folder=redactor.redact(show_text(tree.top)), branch=redactor.redact(tree.branch),
        upstream=redactor.redact(upstream), ahead=ahead, behind=behind, head=tree.head,
        base=base.commit, note=base.note, commits=_list_commits(tree, base, redactor),
        commit_count=_count_commits(tree, base), diffs=diffs, **_build_totals(found, diff),
    )  # fmt: skip


def _build_totals(found: FoundFiles, diff: str) -> dict[str, object]:
    files = [file.shown for file in found.files]
    shown = [file for file in files if file.key == diff] if diff not in ("", "all") else files
    left_out = found.left_out
    if len(shown) > MOST_FILES:
        left_out = f"{len(shown) - MOST_FILES:,} more files are not listed. {left_out}".strip()
    return {
        "files": tuple(shown[:MOST_FILES]), "file_count": len(files), "left_out": left_out,
        "added": sum(file.added or 0 for file in files),
        "removed": sum(file.removed or 0 for file in files),
    }  # fmt: skip


def summarize_work(agent: FleetAgent) -> WorkSummary:
    """Read what an agent of this host changed, as its card says it."""
    now, redactor = time.time(), Redactor()
    try:
        tree = WorkTree(agent.cwd)
        base = find_base(tree, agent)
        found = find_files(tree, base.commit or tree.find_empty_tree(), redactor)
        commits = _count_commits(tree, base)
    except WorkUnknown as error:
        return WorkSummary(problem=redactor.redact(str(error)), at=now)
    added, removed = (
        sum(getattr(x.shown, n) or 0 for x in found.files) for n in ("added", "removed")
    )
    branch = redactor.redact_line(tree.branch, 100)
    return WorkSummary(branch, added, removed, len(found.files), commits, at=now)


# -- commits ---------------------------------------------------------------------------


def _read_upstream(tree: WorkTree) -> tuple[str, int, int]:
    """Read the upstream of the branch, and how far the branch is ahead of and behind it."""
    if not (tree.head and tree.branch):
        return "", 0, 0
    name = tree.read_or_empty("rev-parse", "--abbrev-ref", "--symbolic-full-name", "@{upstream}")
    counts = tree.read_or_empty("rev-list", "--left-right", "--count", "HEAD...@{upstream}", "--")
    if not name or len(counts.split()) != 2:
        return "", 0, 0
    ahead, behind = map(int, counts.split())
    return show_text(name), ahead, behind


def _count_commits(tree: WorkTree, base: WorkBase) -> int:
    if not tree.head:
        return 0
    return int(tree.read("rev-list", "--count", _build_range(base), "--"))


def _list_commits(tree: WorkTree, base: WorkBase, redactor: Redactor) -> tuple[WorkCommit, ...]:
    if not tree.head:
        return ()
    output = tree.run(
        "log", "-z", "--format=%H%x1f%ct%x1f%an%x1f%s", "--no-show-signature", "--no-mailmap",
        "--no-decorate", "--no-notes", "--no-color", "--encoding=UTF-8", f"-n{MOST_COMMITS}",
        _build_range(base), "--",
    )  # fmt: skip
    commits = []
    for record in output.decode("utf-8", "replace").split("\0"):
        fields = record.split("\x1f", 3)
        if len(fields) == 4:
            name, at, author, subject = fields
            commits.append(WorkCommit(
                name, redactor.redact_line(subject, SUBJECT_CHARACTERS), float(at or 0),
                redactor.redact_line(author, 80),
            ))  # fmt: skip
    return tuple(commits)


def _build_range(base: WorkBase) -> str:
    return f"{base.commit}..HEAD" if base.commit else "HEAD"
