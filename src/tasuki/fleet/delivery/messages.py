"""Types the operator's texts and keys into the panes of agents."""

import hashlib
import logging
import secrets
from typing import Any

from sqlalchemy.exc import SQLAlchemyError

from tasuki.errors import NotPossible
from tasuki.fleet.delivery import outbox
from tasuki.fleet.delivery.prompt_delivery import PromptDelivery
from tasuki.fleet.handoff import commands
from tasuki.fleet.store import log, queries
from tasuki.fleet.store.database import FleetDatabase
from tasuki.fleet.store.failures import ServerClosing
from tasuki.fleet.store.models import FleetAgent
from tasuki.fleet.store.states import WORKING
from tasuki.text_safety import clean_text, shorten_to_line

PROOF_SECONDS = 8.0
MOST_CHARACTERS = 100_000
PROOF_CHARACTERS = 60
"""Characters of a text by which its prompt is recognized."""
logger = logging.getLogger("tasuki.fleet")
KEYS = (
    "Enter", "Escape", "Tab", "BTab", "Up", "Down", "Left", "Right", "Space", "BSpace", "C-c", "y",
    "n", *"0123456789",
)  # fmt: skip
"""Keys that can be pressed in a pane, by tmux's names: what dialogs of agents take."""
UNCERTAIN_REASON = "the server or its database stopped while the text was typed; look at the pane before you send it again"
STEPS_BEFORE_PROMPT = ("create", "register", "skill", "prompt")
"""Steps of a handoff in which texts are typed to its successor."""


def send_message(
    database: FleetDatabase, delivery: PromptDelivery, agent_id: int, text: str, key: str = ""
) -> dict[str, Any]:
    """Type a text to an agent as a prompt; return the outcome: proven, uncertain or refused.

    `key` names this message: with the same key nothing is typed a second time. A failure after
    typing may have begun is `uncertain`, never an error. Raises AgentNotFound; NotPossible
    where it has ended, has no pane, its handoff is under way, or the key named another text.
    """
    agent = queries.load_agent(database, agent_id)
    text = clean_text(text).strip()
    if not text:
        raise NotPossible("There is nothing to send.")
    if len(text) > MOST_CHARACTERS:
        raise NotPossible(f"A text of {len(text)} characters is too long to be typed.")
    check_typable(agent)
    if handoff := commands.find_running(database, agent_id):
        raise NotPossible(f"Handoff {handoff.id[:8]} of agent {agent_id} is under way.")
    check_has_prompt(database, agent_id)
    proof = text.split("\n")[0][:PROOF_CHARACTERS]
    name = hashlib.sha256(f"{agent_id} {key}".encode("utf-8", "replace")).hexdigest()[:16]
    with database.write() as connection:
        intent = outbox.record_intent(
            connection, f"message-{name if key else secrets.token_hex(8)}", agent=agent,
            kind="message", proof=proof,
        )  # fmt: skip
    if intent.proof != proof or intent.pane != agent.pane:
        raise NotPossible("This key was used for another text, or in another pane. Use a new one.")
    return _type_message(database, delivery, agent, intent, text)


_RESULTS = {
    "proven": "Your message reached", "refused": "Your message was not sent to",
    "uncertain": "It is not known whether your message reached",
}  # fmt: skip


def _type_message(
    database: FleetDatabase,
    delivery: PromptDelivery,
    agent: FleetAgent,
    intent: outbox.TypingIntent,
    text: str,
) -> dict[str, Any]:
    try:
        result = delivery.deliver_text(
            agent, intent, text, PROOF_SECONDS, at_once=agent.state in WORKING
        )
        note = f"{_RESULTS[result.state]} agent {agent.id}."
        with database.write() as connection:
            log.note(connection, "message", note, agent_id=agent.id, data={"state": result.state})
    except (
        ServerClosing,
        SQLAlchemyError,
        RuntimeError,
    ) as error:  # the database is away, or the server ends
        logger.warning("It is not known whether the text for agent %s arrived: %s", agent.id, error)
        return {"state": "uncertain", "why": UNCERTAIN_REASON, "leftover": ""}
    return {"state": result.state, "why": result.why, "leftover": result.leftover}


def check_has_prompt(database: FleetDatabase, agent_id: int) -> None:
    """Raise NotPossible for a successor that still waits for its task."""
    handoff = queries.find_incoming_handoff(database, agent_id)
    if handoff and handoff.state == "running" and handoff.step in STEPS_BEFORE_PROMPT:
        raise NotPossible(
            f"Agent {agent_id} is receiving its task from handoff {handoff.id[:8]}, which is at {handoff.step}. Send the text when that is done."
        )


def press_key(database: FleetDatabase, delivery: PromptDelivery, agent_id: int, key: str) -> None:
    """Press a key of `KEYS` in an agent's pane, such as a dialog asks for.

    Raises AgentNotFound; NotPossible where it has no pane, is not managed by tasuki, or its
    program is not in front.
    """
    agent = queries.load_agent(database, agent_id)
    if key not in KEYS:
        raise NotPossible(
            f"{shorten_to_line(key, 20)!r} is no key that can be pressed: {', '.join(KEYS)}."
        )
    check_typable(agent)
    delivery.press_key(agent, key)
    with database.write() as connection:
        note = f"The key {key} was pressed in the pane of agent {agent_id}."
        log.note(connection, "message", note, agent_id=agent_id, data={"key": key})


def check_typable(agent: FleetAgent) -> None:
    """Raise NotPossible for an agent into whose pane nothing may be typed."""
    if agent.ended_at is not None:
        raise NotPossible("Agent is not active")
    if not agent.pane:
        raise NotPossible("Agent has no tmux pane")
    check_managed(agent)


def check_managed(agent: FleetAgent) -> None:
    """Raise NotPossible for an agent that tasuki neither started nor adopted.

    It may be inside another one.
    """
    if agent.ordered_at is None and not agent.adopted:
        raise NotPossible(
            f"Agent {agent.id} is anonymous: tasuki did not start it, and types nothing into its pane. "
            f"To manage it: tasuki agent adopt {agent.pane or 'PANE'} --harness {agent.harness}"
        )
