"""What is different where an agent is forked: the worktree, and how the second agent is started."""

import sqlalchemy as sa

from tasuki.fleet.handoff.step_context import StepContext
from tasuki.fleet.handoff.worktrees import (
    WorktreePlan,
    describe_uncommitted,
    find_folder_inside,
    make_worktree,
)
from tasuki.fleet.orders.bodies import NewAgent
from tasuki.fleet.store import queries
from tasuki.fleet.store.models import FleetAgent, FleetHandoff


def create_worktree(context: StepContext, handoff: FleetHandoff) -> str:
    """Make the worktree of a fork, where one was asked for; it is made once."""
    if not handoff.worktree:
        return "none was asked for"
    agent = context.load_agent(handoff.agent_id)
    note = make_worktree(agent.cwd, WorktreePlan(handoff.worktree, handoff.branch))
    if files := describe_uncommitted(agent.cwd):
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
    if files := describe_uncommitted(agent.cwd):
        place += f" What agent {agent.id} has not committed is not in it, and stays in {agent.cwd}: {files}."
    return place


def find_work_folder(handoff: FleetHandoff, agent: FleetAgent) -> str:
    """Find the folder that a fork works in."""
    if not handoff.worktree:
        return agent.cwd
    return find_folder_inside(agent.cwd, WorktreePlan(handoff.worktree, handoff.branch))


def build_fork_request(
    connection: sa.Connection, handoff: FleetHandoff, agent: FleetAgent
) -> NewAgent:
    """Build the request for a fork: the harness is its persona's, the rest as the first agent's.

    Model, permission and arguments are the first agent's own if both run the same harness.
    """
    persona = queries.load_persona(connection, handoff.persona)
    is_same = persona.harness == agent.harness
    return NewAgent(
        harness=persona.harness,
        persona=persona.slug,
        cwd=find_work_folder(handoff, agent),
        model=agent.model if is_same else persona.model,
        permission=agent.permission if is_same else "",
        goal=handoff.goal,
        arguments=agent.arguments if is_same else (),
    )
