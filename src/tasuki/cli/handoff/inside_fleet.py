"""A handoff requested inside an agent of the fleet: the fleet carries it out.

The server decides whether the caller is inside an agent: by the token that an agent was
started with, by its session, or by the processes above the caller. A session that runs
inside an agent's is not the agent.
"""

import os
from collections.abc import Sequence
from typing import Any

from tasuki.errors import ServerAway, TasukiError
from tasuki.harness.plans import TOKEN

REQUEST_REASON = "asked for in the agent"
MOST_REASON_CHARACTERS = 4000
"""Most characters of a reason that the server takes."""
OUTSIDE_FLAG = "--no-fleet"
OUTSIDE_ADVICE = f"To hand off to a successor that the fleet does not know: {OUTSIDE_FLAG}"


def find_own_agent(sessions: Sequence[str] = ()) -> dict[str, Any] | None:
    """Find the fleet's agent that the caller is a part of; None where it is in none.

    `sessions` are ids or paths of the calling thread, where the harness gives them. Raises
    ServerAway where an agent of the fleet started the caller, and no server answers.
    """
    from tasuki.cli.fleet.client import FleetClient
    from tasuki.launch.processes import list_ancestors

    token = os.environ.get(TOKEN, "")
    client = FleetClient()
    if not token and not (client.folder / "address").exists():
        return None
    body = {"token": token, "sessions": [s[:4096] for s in sessions if s], "processes": list_ancestors(os.getpid())}  # fmt: skip
    try:
        agent: dict[str, Any] | None = client.post("agents", "own", body=body)["agent"]
    except ServerAway as error:
        if not token:
            return None
        raise ServerAway(
            f"This runs inside an agent of the fleet, whose server is away: nothing was started. {error}\n{OUTSIDE_ADVICE}"
        ) from error
    return agent


def find_calling_sessions() -> list[str]:
    """Find ids or paths of threads that the environment names as the caller's."""
    from tasuki.harness import registry as harnesses

    variables = (harnesses.get_harness(name).caller.variable for name in harnesses.list_names())
    return [session for name in variables if name and (session := os.environ.get(name))]


def hand_off_own(agent: dict[str, Any], goal: str, *, by_model: bool = False) -> str:
    """Ask the fleet to hand an agent off with a goal; return what happens now, as sentences.

    A goal that the model proposes is no order of the user: it is passed as the reason. Raises
    TasukiError.
    """
    from tasuki.cli.fleet.client import FleetClient

    id = agent["id"]
    proposal = {
        "reason": f"{REQUEST_REASON}, which proposes as next: {goal}"[:MOST_REASON_CHARACTERS]
    }
    body = proposal if by_model else {"reason": REQUEST_REASON, "goal": goal}
    try:
        handoff = FleetClient().post("agents", id, "handoff", body=body)
    except TasukiError as error:
        raise type(error)(
            f"The fleet does not hand agent {id} off: {error}\n{OUTSIDE_ADVICE}"
        ) from error
    return (
        f"Handoff {handoff['id'][:8]} of agent {id} ({handoff['persona']}) begins. As soon as nothing of it runs, the "
        "agent is asked for its handoff document and ends; its successor goes on with that goal. "
        "If you are the agent: end your turn now. The steps: tasuki handoffs --agents"
    )


def hand_off_caller(goal: str, sessions: Sequence[str], *, by_model: bool = False) -> str:
    """Hand off the agent that the caller is a part of; empty where it is in none.

    Raises TasukiError.
    """
    agent = find_own_agent(sessions)
    return hand_off_own(agent, goal, by_model=by_model) if agent else ""
