"""What an agent changed, whole for its page, and in one line for its card."""

import time

import sqlalchemy as sa
from msgspec import Struct
from msgspec.structs import replace

from tasuki.draft.redact.redactor import Redactor
from tasuki.fleet.changes.diffs import read_diffs
from tasuki.fleet.changes.files import FoundFiles, find_files
from tasuki.fleet.changes.records import Since, WorkChanges, WorkCommit
from tasuki.fleet.changes.work_tree import WorkTree, WorkUnknown, show_text
from tasuki.fleet.store import tables
from tasuki.fleet.store.database import FleetDatabase
from tasuki.fleet.store.models import FleetAgent, WorkSummary

MOST_COMMITS = 100
MOST_FILES = 400
SUBJECT_CHARACTERS = 200


START_SECONDS = 2.0
"""How long the start of an agent may wait for git."""
EARLIER = "It was not recorded where it began: shown since the newest commit before its start."


class WorkBase(Struct, frozen=True):
    """What the work tree is compared with. Without a `commit` it is compared with nothing."""

    commit: str
    note: str = ""


def build_start_values(cwd: str) -> dict[str, str]:
    """Build the columns of an agent that say where it begins; both empty without a repository."""
    try:
        tree = WorkTree(cwd, START_SECONDS)
    except WorkUnknown:
        return {"begun_commit": "", "begun_branch": ""}
    return {"begun_commit": tree.head, "begun_branch": tree.branch}


def find_document_time(database: FleetDatabase, agent_id: int) -> float | None:
    """Find when the last handoff document of an agent was recorded; None without one."""
    handoffs = tables.handoffs.c
    newest = sa.select(sa.func.max(handoffs.recorded_at)).where(handoffs.agent_id == agent_id)
    moment = database.fetch(newest).scalar_one()
    return None if moment is None else float(moment)


def find_base(
    tree: WorkTree, agent: FleetAgent, since: Since = "start", document_at: float | None = None
) -> WorkBase:
    """Find what the work of an agent is compared with. Raises WorkUnknown."""
    if since == "handoff" and document_at is not None:
        note = "Shown since the newest commit before its last handoff document."
        return WorkBase(_find_commit_before(tree, document_at), note)
    begun = agent.begun_commit
    if begun is None:
        return WorkBase(_find_commit_before(tree, agent.started_at), EARLIER)
    if not begun:
        note = "There was no commit when it began." if tree.head else ""
        return WorkBase("", note)
    if not tree.has_commit(begun):
        note = (
            f"The commit at which it began, {begun[:10]}, is not in this repository: "
            "shown since the newest commit before its start."
        )
        return WorkBase(_find_commit_before(tree, agent.started_at), note)
    common = tree.read_or_empty("merge-base", begun, "HEAD") if tree.head else ""
    if common == begun or not tree.head:
        return WorkBase(begun)
    note = f"The branch no longer holds the commit at which it began, {begun[:10]}: "
    if common:
        return WorkBase(common, f"{note}shown since the last common one.")
    return WorkBase(begun, f"{note}compared with that commit.")


def _find_commit_before(tree: WorkTree, moment: float) -> str:
    if not tree.head:
        return ""
    return tree.read("rev-list", "-1", f"--before={int(moment)}", "HEAD", "--")


def read_changes(
    agent: FleetAgent, *, since: Since = "start", document_at: float | None = None, diff: str = ""
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
