"""A handoff that is asked for inside an agent of the fleet: the fleet carries it out.

Whether the caller is inside one, the server says: by the token that an agent was started with, by its
session, or by the processes above the caller. A session that runs inside an agent's is not the agent.
"""

import os
from collections.abc import Sequence
from typing import Any

from tasuki.errors import ServerAway, TasukiError
from tasuki.harness.control import TOKEN

REASON = "asked for in the agent"
MOST_REASON = 4000
"""Characters that the server takes of a reason."""
OUTSIDE = "--no-fleet"
HOW_OUTSIDE = f"To hand off to a successor that the fleet does not know: {OUTSIDE}"


def find_own_agent(sessions: Sequence[str] = ()) -> dict[str, Any] | None:
    """The fleet's agent that the caller is a part of; None where it is in none.

    `sessions` are ids or paths of the calling thread, where the harness tells them. Raises ServerAway
    where the caller was started by an agent of the fleet, and no server answers.
    """
    from tasuki.cli.fleet_client import Client
    from tasuki.launch.processes import above

    token = os.environ.get(TOKEN, "")
    client = Client()
    if not token and not (client.folder / "address").exists():
        return None
    body = {"token": token, "sessions": [s[:4096] for s in sessions if s], "processes": above(os.getpid())}  # fmt: skip
    try:
        found: dict[str, Any] | None = client.post("agents", "own", body=body)["agent"]
    except ServerAway as error:
        if not token:
            return None
        raise ServerAway(
            f"This runs inside an agent of the fleet, whose server is away: nothing was started. {error}\n{HOW_OUTSIDE}"
        ) from error
    return found


def calling_sessions() -> list[str]:
    """Ids or paths of threads that the environment names as the caller's."""
    from tasuki import harness as harnesses

    variables = (harnesses.get(name).caller.variable for name in harnesses.names())
    return [named for name in variables if name and (named := os.environ.get(name))]


def hand_off_own(agent: dict[str, Any], goal: str, *, by_model: bool = False) -> str:
    """Ask the fleet to hand an agent off with a goal; what happens now, as sentences. Raises TasukiError.

    A goal that the model proposes is no order of the user: it is told as the reason.
    """
    from tasuki.cli.fleet_client import Client

    id = agent["id"]
    proposed = {"reason": f"{REASON}, which proposes as next: {goal}"[:MOST_REASON]}
    body = proposed if by_model else {"reason": REASON, "goal": goal}
    try:
        made = Client().post("agents", id, "handoff", body=body)
    except TasukiError as error:
        raise type(error)(
            f"The fleet does not hand agent {id} off: {error}\n{HOW_OUTSIDE}"
        ) from error
    return (
        f"Handoff {made['id'][:8]} of agent {id} ({made['persona']}) begins. As soon as nothing of it runs, the "
        "agent is asked for its handoff document and ends; its successor goes on with that goal. "
        "If you are the agent: end your turn now. The steps: tasuki handoffs --agents"
    )


def hand_off_caller(goal: str, sessions: Sequence[str], *, by_model: bool = False) -> str:
    """Hand off the agent that the caller is a part of; empty where it is in none. Raises TasukiError."""
    agent = find_own_agent(sessions)
    return hand_off_own(agent, goal, by_model=by_model) if agent else ""
