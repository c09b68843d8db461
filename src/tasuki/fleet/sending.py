"""What the operator sees of an agent's pane, and types into it."""

import hashlib
import logging
import secrets
from typing import Any

from sqlalchemy.exc import SQLAlchemyError

from tasuki.draft.screen_redaction import redact_screen
from tasuki.errors import NotPossible, PaneGone
from tasuki.fleet import handing_off, intents, log, reading
from tasuki.fleet.bridge import Bridge
from tasuki.fleet.database import Database
from tasuki.fleet.failures import Closing
from tasuki.fleet.rows import Agent
from tasuki.launch.panes import Panes
from tasuki.plain import one_line, plain, shown

PROOF_SECONDS = 8.0
MOST_CHARACTERS = 100_000
PROOF = 60
"""Characters of a text by which its prompt is known."""
logger = logging.getLogger("tasuki.fleet")
KEYS = (
    "Enter", "Escape", "Tab", "BTab", "Up", "Down", "Left", "Right", "Space", "BSpace", "C-c", "y",
    "n", *"0123456789",
)  # fmt: skip
"""Keys that can be pressed in a pane, by tmux's names: what dialogs of agents take."""
SCREEN_LINES = 60
LOST_SIGHT = "the server or its database went away while it was typed; look at the pane before you send it again"
BEFORE_PROMPT = ("create", "register", "skill", "prompt")
"""Steps of a handoff in which its successor is typed to."""
LINES_ABOVE = 8
"""Lines over the screen that are looked at for the beginning of a secret which ends on it."""


def send_message(
    database: Database, bridge: Bridge, agent_id: int, text: str, key: str = ""
) -> dict[str, Any]:
    """Type a text to an agent as a prompt; what became of it: proven, uncertain or refused.

    `key` names this sending: asked for once more under it, nothing is typed a second time. What fails
    once typing may have begun is `uncertain`, never an error. Raises AgentNotFound, NotPossible: it has
    ended, has no pane, its handoff is under way, or the key named another text.
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
    check_prompted(database, agent_id)
    proof = text.split("\n")[0][:PROOF]
    name = hashlib.sha256(f"{agent_id} {key}".encode("utf-8", "replace")).hexdigest()[:16]
    with database.write() as connection:
        intent = intents.intend(
            connection, f"message-{name if key else secrets.token_hex(8)}", agent=agent,
            kind="message", proof=proof,
        )  # fmt: skip
    if intent.proof != proof or intent.pane != agent.pane:
        raise NotPossible("This key was used for another text, or in another pane. Take a new one.")
    return _typed(database, bridge, agent, intent, text)


def _typed(
    database: Database, bridge: Bridge, agent: Agent, intent: intents.Intent, text: str
) -> dict[str, Any]:
    try:
        sent = bridge.deliver(agent, intent, text, PROOF_SECONDS, at_once=agent.state == "busy")
        said = f"A text was typed to agent {agent.id}: {sent.state}."
        with database.write() as connection:
            log.note(connection, "message", said, agent_id=agent.id, data={"state": sent.state})
    except (
        Closing,
        SQLAlchemyError,
        RuntimeError,
    ) as error:  # the database is away, or the server is ending
        logger.warning("What became of a text for agent %s is not known: %s", agent.id, error)
        return {"state": "uncertain", "why": LOST_SIGHT, "leftover": ""}
    return {"state": sent.state, "why": sent.why, "leftover": sent.leftover}


def check_prompted(database: Database, agent_id: int) -> None:
    """Raises NotPossible for a successor that is still to be told its task: nothing comes before that."""
    of = reading.handoff_to(database, agent_id)
    if of and of.state == "running" and of.step in BEFORE_PROMPT:
        raise NotPossible(
            f"Agent {agent_id} is being told its task by handoff {of.id[:8]}, which is at {of.step}. Send it when that is done."
        )


def screen(panes: Panes, agent: Agent) -> str:
    """What the pane of an agent shows, without secrets. Raises NotPossible where there is none."""
    if not agent.pane:
        raise NotPossible("Agent has no tmux pane")
    try:
        look = panes.look(agent.pane, above=LINES_ABOVE)
    except PaneGone as error:
        raise NotPossible(str(error)) from error
    lines = redact_screen(shown(look.text), shown(look.above)).rstrip().split("\n")
    return "\n".join(lines[-SCREEN_LINES:])


def press(database: Database, bridge: Bridge, agent_id: int, key: str) -> None:
    """Press a key of `KEYS` in an agent's pane, such as a dialog asks for.

    Raises AgentNotFound, NotPossible: it has no pane, is not tasuki's, or its program is not in front.
    """
    agent = reading.agent(database, agent_id)
    if key not in KEYS:
        raise NotPossible(
            f"{one_line(key, 20)!r} is no key that can be pressed: {', '.join(KEYS)}."
        )
    if agent.ended_at is not None:
        raise NotPossible("Agent is not active")
    if not agent.pane:
        raise NotPossible("Agent has no tmux pane")
    check_own(agent)
    bridge.press(agent, key)
    with database.write() as connection:
        said = f"The key {key} was pressed in the pane of agent {agent_id}."
        log.note(connection, "message", said, agent_id=agent_id, data={"key": key})


def check_own(agent: Agent) -> None:
    """Raises NotPossible for an agent that tasuki neither started nor adopted: it may be inside another one."""
    if agent.ordered_at is None and not agent.adopted:
        raise NotPossible(
            f"Agent {agent.id} is anonymous: tasuki did not start it, and types nothing into its pane. "
            f"To take it on: tasuki agent adopt {agent.pane or 'PANE'} --harness {agent.harness}"
        )
