"""Plans the move of an agent to another host, and names every obstacle before anything begins.

The agent's host looks at its own side and asks the other host about the other one. A dry run ends
here; a move that is begun has passed the same checks.
"""

import os
import shutil
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from tasuki.errors import HostAway, HostNotFound, NotPossible, Refused, TasukiError
from tasuki.fleet.agents import limits
from tasuki.fleet.exchange.host_list import FleetHostRow, describe_absence, find_host, find_login
from tasuki.fleet.exchange.thread_copies import describe_unstored, load_stored
from tasuki.fleet.handoff.bundles import packs, places, repositories, work_secrets
from tasuki.fleet.orders.bodies import NewHandoff
from tasuki.fleet.store import queries
from tasuki.fleet.store.database import FleetDatabase
from tasuki.fleet.store.models import FleetAgent, MovePlan
from tasuki.harness import registry as harnesses

MOST_FOLDERS = 40
"""Folders of agents that are looked at for a checkout of the same repository."""


class MoveObstacle(Struct, frozen=True):
    """Why a move cannot begin, or what it leaves behind."""

    code: str
    text: str
    blocks: bool = True
    """The move cannot begin; else it is only good to know."""


class MovePreview(Struct, frozen=True):
    """What a move would do, and what stands in its way."""

    host: str
    label: str
    plan: MovePlan
    obstacles: tuple[MoveObstacle, ...] = ()

    @property
    def blockers(self) -> tuple[MoveObstacle, ...]:
        """The obstacles because of which it cannot begin."""
        return tuple(one for one in self.obstacles if one.blocks)

    def check(self) -> None:
        """Raise NotPossible where it cannot begin; the message names every obstacle."""
        if self.blockers:
            sentences = " ".join(one.text for one in self.blockers)
            raise NotPossible(
                f"The agent cannot move to {self.label}: {sentences} Nothing was done."
            )


class TargetQuestion(Struct, frozen=True):
    """What the agent's host asks the other one."""

    harness: str
    slug: str
    folder: str
    """The agent's folder."""
    origin: str = ""
    commit: str = ""
    branch: str = ""
    inside: str = "."
    cwd: str = ""
    worktree: str = ""


class TargetAnswer(Struct, frozen=True):
    """What the other host has for the agent."""

    checkout: str = ""
    place: str = ""
    folder: str = ""
    """The folder in which the successor works: below `place`, as the agent's below its own."""
    branch: str = ""
    in_place: bool = False
    obstacles: tuple[MoveObstacle, ...] = ()


def plan_move(
    database: FleetDatabase,
    agent: FleetAgent,
    request: NewHandoff,
    ask: Callable[[str, TargetQuestion], TargetAnswer],
) -> MovePreview:
    """Plan a move from this host; `ask` asks the other one by its id. Raises HostNotFound."""
    target = find_host(database, request.to_host)
    preview = MovePreview(target.id, target.label, MovePlan(wanted=request.worktree, with_secrets=request.with_secrets))  # fmt: skip
    if obstacle := find_host_obstacle(target, database.host):
        return replace(preview, obstacles=(obstacle,))
    repository = repositories.describe_repository(agent.cwd)
    found = list(_find_source_obstacles(agent, repository, request))
    plan = replace(
        preview.plan, origin=repository.origin, commit=repository.commit, branch=repository.branch,
        inside=repository.inside,
    )  # fmt: skip
    try:
        answer = ask(target.id, _build_question(agent, request, repository))
    except Refused as error:
        answer = TargetAnswer(obstacles=(MoveObstacle("refused_there", str(error)),))
    except (HostAway, HostNotFound) as error:
        answer = TargetAnswer(obstacles=(MoveObstacle("host_away", str(error)),))
    return replace(preview, plan=_add_place(plan, answer), obstacles=(*found, *answer.obstacles))


def _build_question(
    agent: FleetAgent, request: NewHandoff, repository: repositories.RepositoryState
) -> TargetQuestion:
    return TargetQuestion(
        harness=request.to or agent.harness, slug=agent.persona or "", folder=agent.cwd,
        origin=repository.origin, commit=repository.commit, branch=repository.branch,
        inside=repository.inside, cwd=request.to_cwd, worktree=request.worktree,
    )  # fmt: skip


def _add_place(plan: MovePlan, answer: TargetAnswer) -> MovePlan:
    """Return a plan with the place that the other host has for the agent."""
    return replace(
        plan, checkout=answer.checkout, folder=answer.folder, place=answer.place,
        place_branch=answer.branch, in_place=answer.in_place,
    )  # fmt: skip


def plan_rescue(
    database: FleetDatabase, data: Path, agent: FleetAgent, request: NewHandoff
) -> MovePreview:
    """Plan the handoff of an agent whose host is gone, on this host; nobody else can be asked."""
    own = find_host(database, database.host)
    plan = MovePlan(kind="rescue", wanted=request.worktree)
    question = _build_question(agent, request, repositories.RepositoryState())
    answer = check_target(database, data, question)
    left = f"What agent {agent.id} had not pushed stays on its old host: {agent.cwd} there is out of reach."
    plan = replace(_add_place(plan, answer), left_out=(left,))
    found = [*answer.obstacles, MoveObstacle("work_stays", left, blocks=False)]
    if load_stored(database, agent.id) is None:
        found.insert(0, MoveObstacle("no_thread", describe_unstored(agent.id)))
    return MovePreview(own.id, own.label, plan, tuple(found))


def find_host_obstacle(target: FleetHostRow, own: str) -> MoveObstacle | None:
    """Find why no agent can move to a host at all; None where it may."""
    if target.id == own:
        return MoveObstacle("same_host", f"It is on {target.label} already.")
    if not target.is_reachable:
        return MoveObstacle("host_away", describe_absence(target))
    return None


def _find_source_obstacles(
    agent: FleetAgent, repository: repositories.RepositoryState, request: NewHandoff
) -> Iterator[MoveObstacle]:
    if agent.ended_at is not None and not request.from_thread:
        text = f"Agent {agent.id} has ended. Hand it off from its thread: --from-thread"
        yield MoveObstacle("agent_ended", text)
    if not agent.persona:
        yield MoveObstacle("no_persona", f"Agent {agent.id} has no persona that its successor could be.")  # fmt: skip
    if not agent.thread:
        yield MoveObstacle("no_thread", f"Agent {agent.id} has no thread yet: it took no turn.")
    if not repository.top:
        yield MoveObstacle(
            "no_repository",
            f"{agent.cwd} is in no git repository, so none of its files travel.",
            blocks=False,
        )
        return
    if repository.problem:
        yield MoveObstacle("repository_busy", repository.problem)
    if not repository.commit:
        yield MoveObstacle(
            "no_commit", f"{repository.top} has no commit yet. Commit and push first."
        )
    elif not repository.origin:
        yield MoveObstacle(
            "no_origin",
            f"{repository.top} has no remote `origin`, by which the same repository is found on the other host.",
        )
    elif not repository.published:
        yield MoveObstacle(
            "not_published", "Commits that were not pushed travel along.", blocks=False
        )
    if repository.dirty:
        count = len(repository.dirty)
        files = (
            "1 file"
            if count == 1
            else f"{count}{' or more' if count >= repositories.MOST_DIRTY else ''} files"
        )
        text = f"Uncommitted work travels along ({files}: {', '.join(repository.dirty[:5])})."
        yield MoveObstacle("uncommitted", text, blocks=False)
    if repository.commit and repository.origin and not repository.problem:
        yield from _look_into_work(agent, request)


def _look_into_work(agent: FleetAgent, request: NewHandoff) -> Iterator[MoveObstacle]:
    """Look for secrets in what would travel, and pack it as the move would; git forgets it again."""
    try:
        if not request.with_secrets:
            secrets = work_secrets.find_secrets_in_work(agent.cwd)
            for sentence in secrets.found:
                text = f"{sentence}. Remove or ignore it, or use --with-secrets."
                yield MoveObstacle("secrets", text)
            for sentence in secrets.unread:
                yield MoveObstacle("unread", sentence, blocks=False)
        id = f"preview-{agent.id}"
        packed = packs.pack_work(agent.cwd, id)
        packs.remove_pack(agent.cwd, id)
    except (TasukiError, OSError) as error:
        yield MoveObstacle("work_not_packed", str(error))
        return
    for sentence in packed.left_out:
        yield MoveObstacle("left_out", sentence, blocks=False)


def check_target(database: FleetDatabase, data: Path, question: TargetQuestion) -> TargetAnswer:
    """Check what this host has for an agent that would come here."""
    found = list(_find_target_obstacles(data, question))
    taken = list_taken_folders(database)
    if not question.origin and not question.cwd:  # in no repository: the same folder must exist
        if os.path.isdir(question.folder):
            found += _warn_of_others(question.folder, taken)
            return TargetAnswer(folder=question.folder, obstacles=tuple(found))
        text = f"There is no folder {question.folder} there. Name one: --to-cwd"
        return TargetAnswer(obstacles=(*found, MoveObstacle("no_folder", text)))
    checkout = find_checkout(database, question)
    if not checkout:
        what = question.cwd or question.origin
        text = (
            f"{what} is no checkout of {question.origin}." if question.cwd and question.origin
            else f"There is no folder {what}." if question.cwd
            else f"No checkout of {what} was found there. Clone it, or name one: --to-cwd"
        )  # fmt: skip
        return TargetAnswer(obstacles=(*found, MoveObstacle("no_checkout", text)))
    state = repositories.describe_repository(checkout)
    if not state.top:
        return TargetAnswer(folder=checkout, obstacles=tuple(found))
    known = question.origin or state.origin
    try:
        place = places.plan_place(
            checkout, known, question.branch or state.branch, question.commit or state.commit,
            question.slug, question.worktree, taken,
        )  # fmt: skip
    except TasukiError as error:
        return TargetAnswer(checkout, obstacles=(*found, MoveObstacle("no_place", str(error))))
    found += _warn_of_others(state.top, taken)
    inside = question.inside if question.origin else state.inside
    folder = os.path.normpath(os.path.join(place.folder, inside))
    return TargetAnswer(checkout, place.folder, folder, place.branch, place.in_place, tuple(found))


def list_taken_folders(database: FleetDatabase, handoff_id: str = "") -> list[str]:
    """List the folders of this host in which agents work, or into which other moves go."""
    agents = queries.list_agents(database, ended=False, host=database.host)
    moves = queries.list_handoffs(database, state="running", limit=500)
    others = (one for one in moves if one.target_host == database.host and one.id != handoff_id)
    coming = (one.move.place for one in others if one.move and one.move.is_placed)
    return [*(agent.cwd for agent in agents), *filter(None, coming)]


def _find_target_obstacles(data: Path, question: TargetQuestion) -> Iterator[MoveObstacle]:
    if shutil.which("tmux") is None:
        yield MoveObstacle("no_tmux", "tmux is not installed there.")
    try:
        limits.check_target(data, question.harness)
    except TasukiError as error:
        yield MoveObstacle("no_harness", str(error))
        return
    if find_login(question.harness) == "no":
        title = harnesses.get_harness(question.harness).title
        yield MoveObstacle("no_login", f"No login of {title} was found there.", blocks=False)


def _warn_of_others(folder: str, taken: Collection[str]) -> Iterator[MoveObstacle]:
    """Say that others work where an agent would come, who then works beside them."""
    if places.is_taken(folder, taken):
        text = f"Others work in {folder} there."
        yield MoveObstacle("folder_taken", text, blocks=False)


def find_checkout(database: FleetDatabase, question: TargetQuestion) -> str:
    """Find a checkout of a repository on this host: the named one, the same path, or an agent's."""
    if question.cwd:
        candidates = [question.cwd]
    else:
        agents = queries.list_agents(database, host=database.host, limit=500)
        folders = list(dict.fromkeys(agent.cwd for agent in agents))[:MOST_FOLDERS]
        candidates = [question.folder, *folders]
    for folder in candidates:
        if not os.path.isdir(folder):
            continue
        if not question.origin:
            return folder
        state = repositories.describe_repository(folder)
        if state.top and repositories.is_same_origin(state.origin, question.origin):
            return state.top
    return ""
