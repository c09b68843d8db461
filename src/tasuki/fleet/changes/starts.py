"""Where an agent's work begins: the commit at its start, or at its last handoff document."""

import sqlalchemy as sa
from msgspec import Struct

from tasuki.fleet.changes.records import Since
from tasuki.fleet.changes.work_tree import WorkTree, WorkUnknown
from tasuki.fleet.store import tables
from tasuki.fleet.store.database import FleetDatabase
from tasuki.fleet.store.models import FleetAgent

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
    with database.read() as connection:
        moment = connection.execute(newest).scalar_one()
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
