"""Which agent an event belongs to: by token, else by session, else by pane."""

import hashlib
import os
import time
from collections.abc import Iterable, Sequence
from typing import Any

import sqlalchemy as sa
from msgspec import Struct

from tasuki.fleet import tables
from tasuki.fleet.states import Row, has_ended
from tasuki.harness.control import AgentEvent
from tasuki.launch.processes import program_above, started_at

PANE_LIES = frozenset({"codex"})
"""Harnesses whose hooks may see the pane of another agent: Codex with its daemon."""
RESTARTS = frozenset({"codex"})
"""Harnesses that call another session in the same program a `startup`: Codex behind `/new`."""


class HookPost(Struct, frozen=True):
    """What a hook sent: the payload as it came, and what its script added."""

    harness: str
    body: bytes
    token: str = ""
    """That of the agent, from the environment in which the hook ran."""
    event_id: str = ""
    at: float = 0.0
    pane: str = ""
    socket: str = ""
    pid: int = 0
    """Process that ran the hook."""
    spooled: bool = False


class Heard(Struct, frozen=True):
    """A post that was understood."""

    post: HookPost
    event: AgentEvent
    at: float


def digest(token: str) -> str:
    """What is kept of a token."""
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest() if token else ""


class Correlator:
    """Finds the agents of one batch of events; rows are read once and changed in place.

    A token binds the first session that is seen with it, and those that the same process goes on
    to with `/clear` and the like. A nested agent inherits the token in its environment: its session
    is another one, in another process, and it appears as an anonymous agent.
    """

    def __init__(self, connection: sa.Connection, batch: Sequence[Heard], host: str) -> None:
        self.connection = connection
        self.host = host
        self.rows: dict[int, Row] = {}
        self.before: dict[int, Row] = {}
        self._load(batch)

    def _load(self, batch: Sequence[Heard]) -> None:
        wanted = {
            "hashes": list({digest(h.post.token) for h in batch} - {""}),
            "sessions": list({h.event.session for h in batch} - {""}),
            "panes": list({h.post.pane for h in batch} - {""}),
            "host": self.host,
        }
        for row in self.connection.execute(_WANTED, wanted).mappings():
            self._keep(dict(row))

    def _keep(self, row: Row) -> None:
        self.rows[row["id"]] = row
        self.before[row["id"]] = dict(row)

    def ids(self) -> list[int]:
        """Agents that are known from the start; of one that is new nothing was typed yet."""
        return list(self.rows)

    def find(self, heard: Heard) -> Row | None:
        """The agent of an event, None where nobody knows its session and it begins nothing."""
        found = self._by_token(heard) or self._by_session(heard) or self._by_pane(heard)
        if found:
            return found
        if heard.event.kind == "ended" or not heard.event.session:
            return None
        return self._of_the_past(heard) or self._anonymous(heard)

    def _live(self, harness: str) -> Iterable[Row]:
        rows = [r for r in self.rows.values() if r["harness"] == harness and not has_ended(r)]
        return reversed(rows)

    def _by_token(self, heard: Heard) -> Row | None:
        wanted, event = digest(heard.post.token), heard.event
        if not wanted:
            return None
        for row in self._live(heard.post.harness):
            if row["token_hash"] != wanted:
                continue
            if row["session"] == event.session:
                self._learn_process(row, heard)
                return row
            if not row["session"] or self._went_on(row, heard):
                return self._bound(row, heard)
        return None

    def _by_session(self, heard: Heard) -> Row | None:
        session = heard.event.session
        mine = (r for r in self._live(heard.post.harness) if session and r["session"] == session)
        return next(iter(mine), None)

    def _by_pane(self, heard: Heard) -> Row | None:
        """An agent in this pane that no session is known of yet: one that was adopted."""
        if heard.post.harness in PANE_LIES or not heard.post.pane:
            return None
        for row in self._live(heard.post.harness):
            if row["pane"] == heard.post.pane and not row["session"] and row["adopted"]:
                return self._bound(row, heard)
        return None

    def _went_on(self, row: Row, heard: Heard) -> bool:
        """Whether the agent's own process began another session: `/clear`, `/resume`, `/new`."""
        event = heard.event
        if event.kind != "started" or not row["session"]:
            return False
        if event.source == "startup" and heard.post.harness not in RESTARTS:
            return False
        if event.previous:
            return event.previous in (row["session"], row["thread"])
        return bool(row["process"]) and program_above(heard.post.pid) == row["process"]

    def _bound(self, row: Row, heard: Heard) -> Row:
        row["session"] = heard.event.session
        self._learn_process(row, heard)
        return row

    def _learn_process(self, row: Row, heard: Heard) -> None:
        live = heard.event.kind == "started" and heard.post.pid and not heard.post.spooled
        if live and (process := program_above(heard.post.pid)):
            row.update(process=process, process_began=started_at(process))

    def _of_the_past(self, heard: Heard) -> Row | None:
        """The agent that had this session and has ended, for what is told behind its end.

        A start or a prompt later than that is somebody who resumed the session: another agent.
        """
        for row in reversed(list(self.rows.values())):
            if row["session"] != heard.event.session or row["harness"] != heard.post.harness:
                continue
            resumed = heard.event.kind in ("started", "prompt") and heard.at > (
                row["ended_at"] or 0
            )
            if has_ended(row) and not resumed:
                return row
        return None

    def _anonymous(self, heard: Heard) -> Row:
        post, event, now = heard.post, heard.event, time.time()
        lies = post.harness in PANE_LIES
        process = program_above(post.pid) if post.pid and not post.spooled else None
        values: dict[str, Any] = {
            "harness": post.harness,
            "state": "idle" if event.kind == "started" else "starting",
            "state_at": heard.at,
            "cwd": event.cwd or os.sep,
            "host": self.host,
            "started_at": heard.at,
            "registered_at": now,
            "session": event.session,
            "thread": event.path,
            "pane": "" if lies else post.pane,
            "process": process,
            "process_began": started_at(process) if process else "",
        }
        query = sa.insert(tables.agents).values(**values).returning(tables.agents)
        row = dict(self.connection.execute(query).mappings().one())
        self._keep(row)
        return row

    def write_back(self) -> None:
        """Write the rows that changed, in one statement."""
        changed = [row for id, row in self.rows.items() if row != self.before[id]]
        if changed:
            values = [{f"b_{name}": value for name, value in row.items()} for row in changed]
            self.connection.execute(_UPDATE, values)


def _in(column: sa.Column[Any], name: str) -> Any:
    return column.in_(sa.bindparam(name, expanding=True))


_AGENTS = tables.agents.c
_WANTED = (
    sa.select(tables.agents)
    .where(
        _in(_AGENTS.token_hash, "hashes")
        | _in(_AGENTS.session, "sessions")
        | (_in(_AGENTS.pane, "panes") & (_AGENTS.session == "")),
        _AGENTS.host == sa.bindparam("host"),
    )
    .order_by(_AGENTS.id)
    .with_for_update()
)
"""Agents that events may belong to, with their rows locked."""
_UPDATE = (
    sa.update(tables.agents)
    .where(_AGENTS.id == sa.bindparam("b_id"))
    .values({c.name: sa.bindparam(f"b_{c.name}") for c in _AGENTS if c.name != "id"})
)
"""Statements are made once: to make them takes longer than to carry them out."""
