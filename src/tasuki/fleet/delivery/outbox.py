"""Texts typed, or to be typed, into an agent's pane: recorded first, proven by its events.

intended ──Enter──▶ sent ──a prompt with its words──▶ proven ──that turn's end──▶ (ended_at)
sent ──no trace of it──▶ uncertain
"""

import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import sqlalchemy as sa
from msgspec.structs import asdict

from tasuki.fleet.store import queries, tables
from tasuki.fleet.store.database import FleetDatabase, build_update
from tasuki.fleet.store.models import FleetAgent, TypingIntent
from tasuki.fleet.store.states import Row
from tasuki.harness.protocol import AgentEvent
from tasuki.harness.typed_text import squeeze_text

MOST_WORDS_CHARACTERS = 20_000
"""Characters of an agent's last words that are kept."""


def load_intent(source: queries.QuerySource, intent_id: str) -> TypingIntent | None:
    """Load an intent by its id."""
    rows = queries.load_rows(TypingIntent, source, _FIND_INTENT, wanted=intent_id)
    return rows[0] if rows else None


_INTENTS, _EVENTS = tables.intents.c, tables.events.c
_FIND_INTENT = queries.select_fields(TypingIntent, tables.intents).where(
    _INTENTS.id == sa.bindparam("wanted")
)


def record_intent(
    connection: sa.Connection, intent_id: str, *, agent: FleetAgent, kind: str, proof: str,
    handoff_id: str | None = None,
) -> TypingIntent:  # fmt: skip
    """Record a text that is to be typed, or return the intent that was recorded before."""
    if existing := load_intent(connection, intent_id):
        return existing
    intent = TypingIntent(
        intent_id, agent.id, handoff_id, kind, agent.pane, proof, time.time(), "intended"
    )
    connection.execute(_INSERT, asdict(intent))
    return intent


def mark_intent(database: FleetDatabase, intent_id: str, state: str) -> None:
    """Record the state of an intent; a proven one stays proven."""
    proven_at = time.time() if state == "proven" else None
    with database.write(synced=False) as connection:
        connection.execute(_MARK_INTENT, {"wanted": intent_id, "now": state, "then": proven_at})


_INSERT = sa.insert(tables.intents)
_MARK_INTENT = (
    sa.update(tables.intents)
    .where(_INTENTS.id == sa.bindparam("wanted"), _INTENTS.state != "proven")
    .values(state=sa.bindparam("now"), proven_at=sa.bindparam("then"))
)
IS_OPEN = _INTENTS.ended_at.is_(None)
"""Whether no end of its turn was reported."""
_FIND_OPEN = (
    sa.select(tables.intents)
    .where(IS_OPEN, _INTENTS.agent_id.in_(sa.bindparam("agents", expanding=True)))
    .order_by(_INTENTS.created_at.desc())
)

_FIND_TURN_ENDS = (
    sa.select(_EVENTS.at, _EVENTS.text, _EVENTS.data)
    .where(_EVENTS.agent_id == sa.bindparam("agent"), _EVENTS.at >= sa.bindparam("since"))
    .where(_EVENTS.kind == "idle", _EVENTS.event_id.is_not(None))
    .order_by(_EVENTS.id)
    .limit(50)
)


class IntentMatcher:
    """Matches the prompts and turn ends of one batch of events with typed texts.

    `intents` are the open ones of these agents, newest first; None to read them when needed.
    """

    def __init__(
        self,
        connection: sa.Connection,
        agents: Sequence[int],
        intents: Iterable[dict[str, Any]] | None = None,
    ) -> None:
        self.connection = connection
        self.agents = agents
        self._open = None if intents is None else _sort_by_agent(intents)
        self._changed: dict[str, dict[str, Any]] = {}
        self._ends: list[tuple[int, float, str, dict[str, Any]]] = []

    def match(
        self, agent: Row, event: AgentEvent, happened_at: float, *, queued: bool, spooled: bool
    ) -> None:
        """Match an event: a prompt proves the text that it holds; the end of that turn ends it.

        `queued`: the prompt came while a turn ran, and its own turn begins when that one has
        ended. Claude Code reports such a prompt at once, with the id of the running turn.
        `spooled`: the prompt is reported later, so its turn's end may have been reported before
        it.
        """
        if event.kind == "prompt":
            unproven = (i for i in self._find_open(agent["id"]) if i["state"] != "proven")
            prompt = squeeze_text(event.text)
            intent = next(
                (i for i in unproven if i["proof"] and squeeze_text(i["proof"]) in prompt), None
            )
            if intent:
                turn = "" if queued else event.turn
                proof = {"state": "proven", "proven_at": happened_at, "turn": turn}
                self._update_intent(intent, turns_before=int(queued), **proof)
                for turn_end in self._ends_since(agent["id"], happened_at) if spooled else ():
                    self._apply_turn_end(intent, *turn_end)
        elif event.kind == "idle":
            end = {"interrupted": event.interrupted, "words": event.text[:MOST_WORDS_CHARACTERS]}
            turn_end = (happened_at, event.turn, end)
            self._ends.append((agent["id"], *turn_end))
            for intent in self._find_open(agent["id"]):
                self._apply_turn_end(intent, *turn_end)

    def _apply_turn_end(
        self, intent: dict[str, Any], ended_at: float, turn: str, end: dict[str, Any]
    ) -> None:
        """End an intent where the turn's end is that of the turn it began."""
        is_open = intent["state"] == "proven" and not intent["ended_at"]
        if not is_open or not _is_own_end(intent, turn, ended_at):
            return
        if intent["turns_before"]:
            self._update_intent(intent, turns_before=intent["turns_before"] - 1)
        else:
            self._update_intent(intent, ended_at=ended_at, end=end)

    def _ends_since(
        self, agent_id: int, since: float
    ) -> Iterator[tuple[float, str, dict[str, Any]]]:
        """Yield ends of turns since a time that were reported already: in the log or this batch."""
        parameters = {"agent": agent_id, "since": since}
        for row in self.connection.execute(_FIND_TURN_ENDS, parameters):
            end = {"interrupted": bool(row.data.get("interrupted")), "words": row.text}
            yield row.at, row.data.get("turn", ""), end
        for id, when, turn, end in self._ends:
            if id == agent_id and when >= since:
                yield when, turn, end

    def _find_open(self, agent_id: int) -> list[dict[str, Any]]:
        """Find the texts typed to an agent that have no end yet, newest first."""
        if self._open is None:
            rows = self.connection.execute(_FIND_OPEN, {"agents": self.agents}).mappings()
            self._open = _sort_by_agent(map(dict, rows))
        return [row for row in self._open.get(agent_id, ()) if row["ended_at"] is None]

    def _update_intent(self, intent: dict[str, Any], **values: Any) -> None:
        intent.update(values)
        self._changed.setdefault(intent["id"], {}).update(values)

    def write_back(self) -> None:
        """Write the changed intents."""
        for id, values in self._changed.items():
            bound = {f"b_{name}": value for name, value in values.items()}
            self.connection.execute(
                build_update(tables.intents, tuple(values)), {"b_id": id, **bound}
            )


def _sort_by_agent(intents: Iterable[dict[str, Any]]) -> dict[int, list[dict[str, Any]]]:
    by_agent: dict[int, list[dict[str, Any]]] = {}
    for intent in intents:
        by_agent.setdefault(intent["agent_id"], []).append(intent)
    return by_agent


def _is_own_end(intent: dict[str, Any], turn: str, ended_at: float) -> bool:
    """Whether a turn's end is that of the turn which the text began.

    By the turn's id where both have one; else by time: an end that happened before the prompt,
    and is only reported late, belongs to another turn.
    """
    if intent["turn"] and turn:
        return bool(intent["turn"] == turn)
    return bool(ended_at >= intent["proven_at"])
