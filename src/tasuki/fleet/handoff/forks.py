"""Forks: what is checked and recorded, and the steps in which a fork differs from a handoff.

A fork is a handoff from the thread whose agent goes on. It is of another persona, so that no
two agents work as one.
"""

from pathlib import Path

import sqlalchemy as sa
from msgspec.structs import replace

from tasuki.errors import NotPossible
from tasuki.fleet.agents import personas
from tasuki.fleet.handoff import workflow, worktrees
from tasuki.fleet.handoff.commands import insert_handoff
from tasuki.fleet.handoff.step_context import StepContext
from tasuki.fleet.orders.bodies import NewAgent, NewFork, NewPersona
from tasuki.fleet.store import queries
from tasuki.fleet.store.database import FleetDatabase
from tasuki.fleet.store.models import FleetAgent, FleetHandoff, Persona
from tasuki.text_safety import clean_text
from tasuki.threads.catalog import is_readable


def check_fork(database: FleetDatabase, agent: FleetAgent, request: NewFork) -> str:
    """Check that an agent can be forked; return the name of the fork's harness.

    Raises NotPossible, PersonaNotFound, AlreadyUnderWay.
    """
    if not clean_text(request.goal).strip():
        raise NotPossible("A fork needs a goal: what should the second agent accomplish?")
    if not is_readable(agent.harness, agent.thread):
        raise NotPossible(
            f"Agent {agent.id} has no thread: it took no turn, or its harness deleted it. Start another agent "
            "instead: tasuki agent start"
        )
    if not request.persona:
        if not agent.persona:
            raise NotPossible(
                f"Agent {agent.id} has no persona that a fork could be like. Name one: --persona"
            )
        return agent.harness
    with database.read() as connection:
        persona = queries.load_persona(connection, request.persona)
        personas.check_available(connection, request.persona)
    if persona.retired_at is not None:
        raise NotPossible(f"Persona {persona.slug} is retired. Name another one: --persona")
    return persona.harness


def begin_fork(
    database: FleetDatabase,
    root: Path,
    agent: FleetAgent,
    request: NewFork,
    *,
    host: str,
    queue: str,
    new_id: str,
) -> FleetHandoff:
    """Record a fork as under way, as `check_fork` allowed it; add its persona where needed.

    Raises NotPossible, PersonaNotFound, AlreadyUnderWay, StoreFailed.
    """
    slug = request.persona or personas.find_next_slug(database, root, agent.persona or "")
    plan = worktrees.WorktreePlan("", "")
    if request.worktree is not False:
        folder = request.worktree if isinstance(request.worktree, str) else ""
        plan = worktrees.plan_worktree(agent.cwd, folder, slug)
    if not request.persona:
        slug = _add_twin(database, root, agent).slug
    with database.write(alone=True) as connection:
        personas.check_available(connection, slug)
        goal = clean_text(request.goal)
        return insert_handoff(
            connection, f"Fork {new_id[:8]} of agent {agent.id}, as {slug}, begins: {goal}",
            id=new_id, agent_id=agent.id, persona=slug, reason=clean_text(request.reason), goal=goal,
            from_thread=True, fork=True, worktree=plan.folder, branch=plan.branch,
            step=workflow.FORK_STEPS[0], created_at=database.read_clock(), host=host, queue=queue,
        )  # fmt: skip


def _add_twin(database: FleetDatabase, root: Path, agent: FleetAgent) -> Persona:
    """Add a persona with the skill, the experience and the settings of an agent's own."""
    own = queries.load_persona(database, agent.persona or "")
    twin = personas.add_persona(
        database, root,
        NewPersona(own.role, own.name, personas.read_skill(root, own.slug), agent.harness, own.model, own.threshold),
    )  # fmt: skip
    if experience := personas.read_experience(root, own.slug):
        personas.write_experience(root, twin.slug, experience)
    return twin


def create_worktree(context: StepContext, handoff: FleetHandoff) -> str:
    """Make the worktree of a fork, where one was asked for; it is made once."""
    if not handoff.worktree:
        return "none was asked for"
    agent = context.load_agent(handoff.agent_id)
    note = worktrees.make_worktree(
        agent.cwd, worktrees.WorktreePlan(handoff.worktree, handoff.branch)
    )
    if files := worktrees.describe_uncommitted(agent.cwd):
        left = f"Uncommitted changes stay with agent {agent.id}, in {agent.cwd}: {files}"
        if left not in handoff.notes:
            context.update_handoff(handoff, notes=[*handoff.notes, left])
    return note


def describe_place(handoff: FleetHandoff, agent: FleetAgent) -> str:
    """Describe where a fork works, and what stays with the agent that it comes from."""
    folder = find_work_folder(handoff, agent)
    if not handoff.worktree:
        return f"{folder}, where agent {agent.id} works too: change nothing that it works on."
    place = f"{folder}, in a git worktree of its own, on the new branch {handoff.branch}."
    if files := worktrees.describe_uncommitted(agent.cwd):
        place += f" What agent {agent.id} has not committed is not in it, and stays in {agent.cwd}: {files}."
    return place


def find_work_folder(handoff: FleetHandoff, agent: FleetAgent) -> str:
    """Find the folder that a fork works in."""
    if not handoff.worktree:
        return agent.cwd
    return worktrees.find_folder_inside(
        agent.cwd, worktrees.WorktreePlan(handoff.worktree, handoff.branch)
    )


def build_fork_request(
    connection: sa.Connection, handoff: FleetHandoff, agent: FleetAgent
) -> NewAgent:
    """Build the request for a fork: the harness is its persona's, the rest as the first agent's.

    Model, permission and arguments are the first agent's own if both run the same harness.
    """
    persona = queries.load_persona(connection, handoff.persona)
    request = NewAgent(
        find_work_folder(handoff, agent), persona=persona.slug, harness=persona.harness,
        model=persona.model, goal=handoff.goal,
    )  # fmt: skip
    if persona.harness != agent.harness:
        return request
    return replace(
        request, model=agent.model, permission=agent.permission, arguments=agent.arguments
    )
