"""A text of the operator's, typed to an agent."""

import secrets
from typing import Any

from tasuki.errors import NotPossible
from tasuki.fleet import handing_off, intents, log, reading
from tasuki.fleet.bridge import Bridge
from tasuki.fleet.database import Database
from tasuki.fleet.rows import Agent
from tasuki.plain import plain

PROOF_SECONDS = 8.0
MOST_CHARACTERS = 100_000
PROOF = 60
"""Characters of a text by which its prompt is known."""


def send_message(database: Database, bridge: Bridge, agent_id: int, text: str) -> dict[str, Any]:
    """Type a text to an agent as a prompt; what became of it: proven, uncertain or refused.

    Raises AgentNotFound, NotPossible: it has ended, has no pane, or its handoff is under way.
    """
    agent = reading.agent(database, agent_id)
    text = plain(text).strip()
    if not text:
        raise NotPossible("There is nothing to send.")
    if len(text) > MOST_CHARACTERS:
        raise NotPossible(f"A text of {len(text)} characters is too long to be typed.")
    if agent.ended_at is not None:
        raise NotPossible("Agent is not active")
    if not agent.pane:
        raise NotPossible("Agent has no tmux pane")
    check_own(agent)
    if of := handing_off.under_way(database, agent_id):
        raise NotPossible(f"Handoff {of.id[:8]} of agent {agent_id} is under way.")
    with database.write() as connection:
        intent = intents.intend(
            connection, f"message-{secrets.token_hex(8)}", agent=agent, kind="message",
            proof=text.split("\n")[0][:PROOF],
        )  # fmt: skip
    sent = bridge.deliver(agent, intent, text, PROOF_SECONDS, at_once=agent.state == "busy")
    said = f"A text was typed to agent {agent_id}: {sent.state}."
    with database.write() as connection:
        log.note(connection, "message", said, agent_id=agent_id, data={"state": sent.state})
    return {"state": sent.state, "why": sent.why, "leftover": sent.leftover}


def check_own(agent: Agent) -> None:
    """Raises NotPossible for an agent that tasuki neither started nor adopted: it may be inside another one."""
    if agent.ordered_at is None and not agent.adopted:
        raise NotPossible(
            f"Agent {agent.id} is anonymous: tasuki did not start it, and types nothing into its pane. "
            f"To take it on: tasuki agent adopt {agent.pane or 'PANE'} --harness {agent.harness}"
        )
