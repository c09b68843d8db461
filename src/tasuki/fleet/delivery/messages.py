"""Types the operator's texts and keys into the panes of agents: in order, and never twice."""

import hashlib
import logging
import secrets
import threading
import time
from collections import OrderedDict
from typing import Annotated, Any

from msgspec import Meta, Struct
from sqlalchemy.exc import SQLAlchemyError

from tasuki.errors import NotPossible
from tasuki.fleet.delivery import outbox
from tasuki.fleet.delivery.prompt_delivery import PromptDelivery
from tasuki.fleet.handoff import commands
from tasuki.fleet.store import log, queries
from tasuki.fleet.store.database import FleetDatabase
from tasuki.fleet.store.failures import ServerClosing
from tasuki.fleet.store.models import FleetAgent, TypingIntent
from tasuki.fleet.store.states import WORKING
from tasuki.launch.tmux.paste import PaneKey, PastedText, PressedKey
from tasuki.patterns import compile_pattern
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
    intent: TypingIntent,
    text: str,
) -> dict[str, Any]:
    try:
        result = delivery.deliver_text(
            agent, intent, text, PROOF_SECONDS, at_once=agent.state in WORKING
        )
        note = f"{_RESULTS[result.state]} agent {agent.id}."
        log.note(database, "message", note, agent_id=agent.id, data={"state": result.state})
    except (ServerClosing, SQLAlchemyError, RuntimeError) as error:
        # The database is away, or the server ends.
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
    delivery.type_keys(agent, [PressedKey(key)])
    note = f"The key {key} was pressed in the pane of agent {agent_id}."
    log.note(database, "message", note, agent_id=agent_id, data={"key": key})


def check_typable(agent: FleetAgent) -> None:
    """Raise NotPossible for an agent into whose pane nothing may be typed."""
    if agent.ended_at is not None:
        raise NotPossible("Agent is not active")
    if not agent.pane:
        raise NotPossible("Agent has no tmux pane")
    check_managed(agent)


def check_managed(agent: FleetAgent) -> None:
    """Raise NotPossible for an agent neither started nor adopted: it may be inside another."""
    if agent.ordered_at is None and not agent.adopted:
        raise NotPossible(
            f"Agent {agent.id} is anonymous: tasuki did not start it, and types nothing into its pane. "
            f"To manage it: tasuki agent adopt {agent.pane or 'PANE'} --harness {agent.harness}"
        )


MOST_KEYS = 500
"""Keys, texts and pastes of one batch."""
MOST_TYPED = 4000
"""Characters of the texts of one batch."""
MOST_PASTED = 100_000
MOST_TYPISTS = 256
NOTED_SECONDS = 60.0
"""How often the log says that keys are typed to an agent."""
_NAME = compile_pattern(
    r"Enter|Escape|Tab|BTab|Space|BSpace|DC|IC|F(?:[1-9]|1[0-2])"
    r"|(?:C-|M-|S-){0,3}(?:Up|Down|Left|Right|Home|End|PPage|NPage|PageUp|PageDown)"
    r"|C-[a-z]|M-[a-z0-9]|[a-z0-9]"
)
"""Keys of a terminal by tmux's names, which none of tmux's own commands has."""


class TypedKeys(Struct, frozen=True):
    """A batch of keys. `typist` names the page that they were typed in, `number` counts its batches.

    A batch is typed once: one with a number that is not higher than the last is left out.
    """

    keys: Annotated[tuple[PaneKey, ...], Meta(min_length=1, max_length=MOST_KEYS)]
    typist: Annotated[str, Meta(min_length=1, max_length=64)]
    number: Annotated[int, Meta(ge=1, le=2**53)]


class KeyTypist:
    """Types batches of keys into panes of this host; from any thread."""

    def __init__(self, database: FleetDatabase, delivery: PromptDelivery) -> None:
        self.database = database
        self.delivery = delivery
        self._typed: OrderedDict[tuple[int, str], int] = OrderedDict()
        self._noted: dict[int, float] = {}
        self._lock = threading.Lock()

    def type_keys(self, agent_id: int, keys: TypedKeys) -> bool:
        """Type a batch into an agent's pane; return whether a line about it went into the log.

        Raises AgentNotFound; NotPossible as `press_key`, and for a key that no terminal has.
        """
        agent = queries.load_agent(self.database, agent_id)
        check_typable(agent)
        _check_keys(keys)
        if not self._is_first(agent_id, keys):
            return False
        self.delivery.type_keys(agent, keys.keys)
        return self._note(agent_id)

    def _is_first(self, agent_id: int, keys: TypedKeys) -> bool:
        with self._lock:
            typist = (agent_id, keys.typist)
            if keys.number <= self._typed.get(typist, 0):
                return False
            self._typed[typist] = keys.number
            self._typed.move_to_end(typist)
            while len(self._typed) > MOST_TYPISTS:
                self._typed.popitem(last=False)
            return True

    def _note(self, agent_id: int) -> bool:
        """Note that keys are typed, and not which: a password may be among them."""
        now = time.monotonic()
        with self._lock:
            if now - self._noted.get(agent_id, -NOTED_SECONDS) < NOTED_SECONDS:
                return False
            self._noted[agent_id] = now
        note = f"Keys are typed in the terminal of agent {agent_id}."
        log.note(self.database, "message", note, agent_id=agent_id)
        return True


def _check_keys(keys: TypedKeys) -> None:
    for key in keys.keys:
        if isinstance(key, PressedKey) and not _NAME.fullmatch(key.value):
            raise NotPossible(f"{shorten_to_line(key.value, 20)!r} is no key of a terminal.")
    typed = sum(len(key.value) for key in keys.keys if not isinstance(key, PressedKey | PastedText))
    pasted = sum(len(key.value) for key in keys.keys if isinstance(key, PastedText))
    if typed > MOST_TYPED or pasted > MOST_PASTED:
        raise NotPossible(
            f"{typed + pasted} characters are too many at once. Send them as a message."
        )
