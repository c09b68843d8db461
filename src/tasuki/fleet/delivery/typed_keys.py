"""Keys that the operator types in an agent's terminal, as they come: in order, and never twice."""

import threading
import time
from collections import OrderedDict
from typing import Annotated

from msgspec import Meta, Struct

from tasuki.errors import NotPossible
from tasuki.fleet.delivery.messages import check_typable
from tasuki.fleet.delivery.prompt_delivery import PromptDelivery
from tasuki.fleet.store import log, queries
from tasuki.fleet.store.database import FleetDatabase
from tasuki.launch.tmux.paste import PaneKey, PastedText, PressedKey
from tasuki.patterns import compile_pattern
from tasuki.text_safety import shorten_to_line

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
        with self.database.write() as connection:
            log.note(connection, "message", note, agent_id=agent_id)
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
