"""Which agent an event belongs to: by token, else by session, else by pane."""

import hashlib
import os
import re
import time
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any

import sqlalchemy as sa
from msgspec import Struct

from tasuki.fleet import tables
from tasuki.fleet.states import Row, has_ended
from tasuki.harness.control import AgentEvent
from tasuki.launch.processes import is_alive, is_below, program_above, started_at

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

    A session alone is enough for an agent that nobody gave a token, and for a hook that has none,
    unless the agent's program lives and has not run it: the operator resumed its session elsewhere. A
    hook with another token than that of the session's agent is not of that agent, whether we know
    the token or not: somebody resumed the session inside of another agent, and is another one.
    Not so for harnesses whose hooks may run in the environment of another agent (`PANE_LIES`).

    `socket` gives the path of the fleet's own tmux socket, empty while nobody knows it. Panes of
    another tmux server have the same numbers, and are none of ours: a hook that names another
    socket is taken for one without a pane.
    """

    def __init__(
        self,
        connection: sa.Connection,
        batch: Sequence[Heard],
        host: str,
        socket: Callable[[], str] = str,
    ) -> None:
        self.connection = connection
        self.host = host
        self.socket = socket
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
        for row in self._live(heard.post.harness):
            if session and row["session"] == session and _may_be_of(row, heard.post):
                return row
        return None

    def _by_pane(self, heard: Heard) -> Row | None:
        """An agent in this pane that no session is known of yet: one that was adopted."""
        if not heard.post.pane:
            return None
        for row in self._live(heard.post.harness):
            waits = row["pane"] == heard.post.pane and not row["session"] and row["adopted"]
            if waits and self._pane(heard.post):
                return self._bound(row, heard)
        return None

    def _pane(self, post: HookPost) -> str:
        """The pane of the fleet's tmux that a hook ran in; empty where it ran in none, or may lie."""
        if not post.pane or post.harness in PANE_LIES:
            return ""
        ours = not post.socket or is_same_socket(post.socket, self.socket())
        return post.pane if ours else ""

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
        process, began = _program(heard.post.pid) if live else (None, "")
        if process:
            row.update(process=process, process_began=began)

    def _of_the_past(self, heard: Heard) -> Row | None:
        """The agent that had this session and has ended, for what is told behind its end.

        A start or a prompt later than that is somebody who resumed the session: another agent.
        """
        for row in reversed(list(self.rows.values())):
            if row["session"] != heard.event.session or row["harness"] != heard.post.harness:
                continue
            if not _may_be_of(row, heard.post):
                continue
            resumed = heard.event.kind in ("started", "prompt") and heard.at > (
                row["ended_at"] or 0
            )
            if has_ended(row) and not resumed:
                return row
        return None

    def _anonymous(self, heard: Heard) -> Row:
        post, event, now = heard.post, heard.event, time.time()
        live = post.pid and not post.spooled
        process, began = _program(post.pid) if live else (None, "")
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
            "pane": self._pane(post),
            "process": process,
            "process_began": began,
        }
        query = sa.insert(tables.agents).values(**values).returning(tables.agents)
        row = dict(self.connection.execute(query).mappings().one())
        self._keep(row)
        return row

    def write_back(self) -> None:
        """Write what changed: one statement for all rows in which the same columns did."""
        changed: dict[tuple[str, ...], list[Row]] = {}
        for id, row in self.rows.items():
            before = self.before[id]
            if names := tuple(name for name, value in row.items() if value != before[name]):
                values = {f"b_{name}": row[name] for name in names}
                changed.setdefault(names, []).append({"b_id": id, **values})
        for names, rows in changed.items():
            self.connection.execute(_update(names), rows)


def _program(pid: int) -> tuple[int | None, str]:
    """The program that ran a hook, and when it began: neither without the other, for numbers are used again."""
    process = program_above(pid)
    began = started_at(process) if process else ""
    return (process, began) if began else (None, "")


def _may_be_of(row: Row, post: HookPost) -> bool:
    """Whether a hook can be of an agent: not with another token; without one, not of another program."""
    if not row["token_hash"] or post.harness in PANE_LIES:
        return True
    if post.token:
        return bool(row["token_hash"] == digest(post.token))
    if post.spooled or not (post.pid and row["process"]):
        return True
    lives = is_alive(row["process"], row["process_began"])
    return not lives or is_below(post.pid, row["process"])


def is_same_socket(told: str, ours: str) -> bool:
    """Whether a hook's tmux socket is that of the fleet; the hook script leaves odd characters out."""
    paths = {ours, os.path.realpath(ours)} if ours else set()
    return bool({told, os.path.realpath(told)} & (paths | {_ODD.sub("", path) for path in paths}))


_ODD = re.compile(r"[^A-Za-z0-9%/._,:@+=~-]")


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
)
"""Agents that events may belong to.

Statements are made once: to make them takes longer than to carry them out.
"""


@lru_cache(256)
def _update(names: tuple[str, ...]) -> sa.Update:
    values: dict[str, Any] = {name: sa.bindparam(f"b_{name}") for name in names}
    return sa.update(tables.agents).where(_AGENTS.id == sa.bindparam("b_id")).values(values)
