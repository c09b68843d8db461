"""What was, or is to be, typed into an agent's pane: written down before, proven by its events.

intended ──Enter──▶ sent ──a prompt with its words──▶ proven ──that turn's end──▶ (ended_at)
                    sent ──nothing to be seen of it──▶ uncertain
"""

import time
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import sqlalchemy as sa
from msgspec import Struct

from tasuki.fleet import tables
from tasuki.fleet.rows import Agent
from tasuki.fleet.states import Row
from tasuki.harness.control import AgentEvent

WORDS = 20_000
"""Characters of an agent's last words that are kept."""


class Intent(Struct, frozen=True):
    """One text for one pane. `proof` are words that only this text has."""

    id: str
    agent_id: int
    handoff_id: str | None
    kind: str
    pane: str
    proof: str
    created_at: float
    state: str
    proven_at: float | None = None
    turn: str = ""
    turns_before: int = 0
    """Turns that end before the one that it began: it was queued behind the user's own prompt."""
    ended_at: float | None = None
    end: dict[str, Any] | None = None
    """Of the turn that it began: `interrupted` and the last `words`."""


def get(connection: sa.Connection, id: str) -> Intent | None:
    """An intent by its id."""
    row = connection.execute(_INTENT, {"wanted": id}).one_or_none()
    return Intent(*row) if row else None


_INTENT = sa.select(*(tables.intents.c[name] for name in Intent.__struct_fields__)).where(
    tables.intents.c.id == sa.bindparam("wanted")
)


def intend(
    connection: sa.Connection, id: str, *, agent: Agent, kind: str, proof: str,
    handoff_id: str | None = None,
) -> Intent:  # fmt: skip
    """Write down what is to be typed, or give back what was written down before."""
    if found := get(connection, id):
        return found
    made = Intent(id, agent.id, handoff_id, kind, agent.pane, proof, time.time(), "intended")
    values = {name: getattr(made, name) for name in made.__struct_fields__}
    connection.execute(_INSERT, values)
    return made


def mark(connection: sa.Connection, id: str, state: str) -> None:
    """Note how far it is; what is proven stays proven."""
    proven_at = time.time() if state == "proven" else None
    connection.execute(_MARKED, {"wanted": id, "now": state, "then": proven_at})


_INSERT = sa.insert(tables.intents)
_MARKED = (
    sa.update(tables.intents)
    .where(tables.intents.c.id == sa.bindparam("wanted"), tables.intents.c.state != "proven")
    .values(state=sa.bindparam("now"), proven_at=sa.bindparam("then"))
)
_OPEN = (
    sa.select(tables.intents)
    .where(
        tables.intents.c.ended_at.is_(None),
        tables.intents.c.agent_id.in_(sa.bindparam("agents", expanding=True)),
    )
    .order_by(tables.intents.c.created_at.desc())
)

_ENDS = (
    sa.select(tables.events.c.at, tables.events.c.text, tables.events.c.data)
    .where(
        tables.events.c.agent_id == sa.bindparam("agent"),
        tables.events.c.kind == "idle",
        tables.events.c.at >= sa.bindparam("since"),
        tables.events.c.event_id.is_not(None),
    )
    .order_by(tables.events.c.id)
    .limit(50)
)


class Matcher:
    """Matches the prompts and turn ends of one batch of events with what was typed."""

    def __init__(self, connection: sa.Connection, agents: Sequence[int]) -> None:
        self.connection = connection
        self.agents = agents
        self._open: dict[int, list[dict[str, Any]]] | None = None
        self._changed: dict[str, dict[str, Any]] = {}
        self._ends: list[tuple[int, float, str, dict[str, Any]]] = []

    def match(
        self, agent: Row, event: AgentEvent, at: float, *, queued: bool, spooled: bool
    ) -> None:
        """A prompt proves the text that it holds; the end of that turn ends it.

        `queued`: the prompt came while a turn ran, and its own begins when that one has ended. Claude
        Code tells such a prompt at once, with the id of the turn that runs. `spooled`: the prompt is
        told later, so that its turn's end may have been told before it.
        """
        if event.kind == "prompt":
            intent = next((i for i in self._of(agent["id"]) if _is_meant(i, event)), None)
            if intent:
                turn = "" if queued else event.turn
                self._change(
                    intent, state="proven", proven_at=at, turn=turn, turns_before=int(queued)
                )
                for told in self._ends_since(agent["id"], at) if spooled else ():
                    self._end(intent, *told)
        elif event.kind == "idle":
            told = (at, event.turn, _end(event))
            self._ends.append((agent["id"], *told))
            for intent in self._of(agent["id"]):
                self._end(intent, *told)

    def _end(self, intent: dict[str, Any], at: float, turn: str, end: dict[str, Any]) -> None:
        """A turn's end, where it is that of the turn which the text began."""
        if intent["state"] != "proven" or intent["ended_at"] or not _is_its_end(intent, turn, at):
            return
        if intent["turns_before"]:
            self._change(intent, turns_before=intent["turns_before"] - 1)
        else:
            self._change(intent, ended_at=at, end=end)

    def _ends_since(self, agent_id: int, at: float) -> Iterator[tuple[float, str, dict[str, Any]]]:
        """Ends of turns since a time that were told already: those in the log, those of this batch."""
        known = {"agent": agent_id, "since": at}
        for row in self.connection.execute(_ENDS, known):
            end = {"interrupted": bool(row.data.get("interrupted")), "words": row.text}
            yield row.at, row.data.get("turn", ""), end
        for id, when, turn, end in self._ends:
            if id == agent_id and when >= at:
                yield when, turn, end

    def _of(self, agent_id: int) -> list[dict[str, Any]]:
        """What was typed to an agent and has no end yet, the newest first."""
        if self._open is None:
            self._open = {}
            found = self.connection.execute(_OPEN, {"agents": self.agents}).mappings()
            for row in found:
                self._open.setdefault(row["agent_id"], []).append(dict(row))
        return [row for row in self._open.get(agent_id, ()) if row["ended_at"] is None]

    def _change(self, intent: dict[str, Any], **values: Any) -> None:
        intent.update(values)
        self._changed.setdefault(intent["id"], {}).update(values)

    def write_back(self) -> None:
        """Write what changed."""
        for id, values in self._changed.items():
            bound = {f"b_{name}": value for name, value in values.items()}
            self.connection.execute(_update(tuple(values)), {"b_id": id, **bound})


@lru_cache(64)
def _update(names: tuple[str, ...]) -> sa.Update:
    values: dict[str, Any] = {name: sa.bindparam(f"b_{name}") for name in names}
    return (
        sa.update(tables.intents).where(tables.intents.c.id == sa.bindparam("b_id")).values(values)
    )


def _is_meant(intent: dict[str, Any], event: AgentEvent) -> bool:
    """Whether a prompt holds the words of a text that is not proven yet."""
    return bool(intent["state"] != "proven" and intent["proof"] and intent["proof"] in event.text)


def _end(event: AgentEvent) -> dict[str, Any]:
    return {"interrupted": event.interrupted, "words": event.text[:WORDS]}


def _is_its_end(intent: dict[str, Any], turn: str, at: float) -> bool:
    """Whether a turn's end is that of the turn which the text began.

    By the turn's id where both tell one; else by time: an end that happened before the prompt, and
    is only told late, is another turn's.
    """
    if intent["turn"] and turn:
        return bool(intent["turn"] == turn)
    return bool(at >= intent["proven_at"])
