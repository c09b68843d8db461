"""Finds the agent that an event, or a calling program, belongs to.

An event is found by token, else by session, else by pane; a caller by token, session or
process.
"""

import hashlib
import os
import time
from collections.abc import Callable, Iterable, Sequence
from types import SimpleNamespace
from typing import Any

import sqlalchemy as sa
from msgspec import Struct

from tasuki.fleet.delivery.outbox import IS_OPEN
from tasuki.fleet.store import queries, tables
from tasuki.fleet.store.database import FleetDatabase, build_update
from tasuki.fleet.store.models import FleetAgent
from tasuki.fleet.store.states import Row, has_ended
from tasuki.harness.protocol import AgentEvent
from tasuki.harness.registry import find_facts
from tasuki.launch.processes import find_program_above, find_start_time, is_alive, is_below
from tasuki.patterns import compile_pattern


class HookPost(Struct, frozen=True):
    """What a hook sent: the original payload, and what its script added."""

    harness: str
    body: bytes
    token: str = ""
    """The agent's token, from the environment in which the hook ran."""
    event_id: str = ""
    at: float = 0.0
    pane: str = ""
    socket: str = ""
    pid: int = 0
    """Process that ran the hook."""
    spooled: bool = False


class ReceivedEvent(Struct, frozen=True):
    """A hook post that was parsed."""

    post: HookPost
    event: AgentEvent
    at: float


def hash_token(token: str) -> str:
    """Hash a token; only the hash is kept. Return an empty text for an empty token."""
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest() if token else ""


class EventCorrelator:
    """Finds the agents of one batch of events among `rows`, which are changed in place.

    A token binds the first session that is seen with it, and the sessions that the same process
    continues with after `/clear` and the like. A nested agent inherits the token in its
    environment. Its session is another one, in another process, so it becomes an anonymous
    agent.

    A session alone is enough for an agent that was given no token, and for a hook that has
    none, unless the agent's program lives and did not run the hook: then the operator resumed
    its session elsewhere. A hook with another token than that of the session's agent is not of
    that agent, whether the token is known or not: the session was resumed inside of another
    agent, and counts as another one. Harnesses whose hooks may run in the environment of
    another agent (`pane_lies`) are exempt.

    `socket` returns the path of the fleet's own tmux socket, empty while it is unknown. Panes
    of another tmux server have the same numbers but are not the fleet's: a hook that names
    another socket is treated as one without a pane.
    """

    def __init__(
        self,
        connection: sa.Connection,
        rows: Iterable[Row],
        host: str,
        socket: Callable[[], str] = str,
    ) -> None:
        self.connection = connection
        self.host = host
        self.socket = socket
        self.rows: dict[int, Row] = {}
        self.original_rows: dict[int, Row] = {}
        for row in rows:
            self._keep_row(row)

    def _keep_row(self, row: Row) -> None:
        self.rows[row["id"]] = row
        self.original_rows[row["id"]] = dict(row)

    def find_agent(self, received: ReceivedEvent) -> Row | None:
        """Find the agent of an event; None where its session is unknown and it begins nothing."""
        agent = (
            self._find_by_token(received)
            or self._find_by_session(received)
            or self._find_by_pane(received)
        )
        if agent:
            return agent
        if received.event.kind == "ended" or not received.event.session:
            return None
        return self._find_ended_agent(received) or self._create_anonymous(received)

    def _find_live(self, harness: str) -> Iterable[Row]:
        rows = [r for r in self.rows.values() if r["harness"] == harness and not has_ended(r)]
        return reversed(rows)

    def _find_by_token(self, received: ReceivedEvent) -> Row | None:
        wanted, event = hash_token(received.post.token), received.event
        if not wanted:
            return None
        for row in self._find_live(received.post.harness):
            if row["token_hash"] != wanted:
                continue
            if row["session"] == event.session:
                self._learn_process(row, received)
                return row
            if not row["session"] or self._has_changed_session(row, received):
                return self._bind_session(row, received)
        return None

    def _find_by_session(self, received: ReceivedEvent) -> Row | None:
        session = received.event.session
        for row in self._find_live(received.post.harness):
            if session and row["session"] == session and _may_belong_to(row, received.post):
                return row
        return None

    def _find_by_pane(self, received: ReceivedEvent) -> Row | None:
        """Find an agent in this pane whose session is still unknown: one that was adopted."""
        for row in self._find_live(received.post.harness):
            waits = row["pane"] == received.post.pane and not row["session"] and row["adopted"]
            if waits and self._find_pane(received.post):
                return self._bind_session(row, received)
        return None

    def _find_pane(self, post: HookPost) -> str:
        """Return the pane of the fleet's tmux that a hook ran in; empty where it may lie."""
        if not post.pane or find_facts(post.harness).pane_lies:
            return ""
        is_own = not post.socket or is_same_socket(post.socket, self.socket())
        return post.pane if is_own else ""

    def _has_changed_session(self, row: Row, received: ReceivedEvent) -> bool:
        """Whether the agent's own process began another session: `/clear`, `/resume`, `/new`."""
        event = received.event
        if event.kind != "started" or not row["session"]:
            return False
        if event.source == "startup" and not find_facts(received.post.harness).restarts_in_place:
            return False
        if event.previous:
            return event.previous in (row["session"], row["thread"])
        return bool(row["process"]) and find_program_above(received.post.pid) == row["process"]

    def _bind_session(self, row: Row, received: ReceivedEvent) -> Row:
        row["session"] = received.event.session
        self._learn_process(row, received)
        return row

    def _learn_process(self, row: Row, received: ReceivedEvent) -> None:
        live = received.event.kind == "started" and received.post.pid and not received.post.spooled
        process, began = _find_program(received.post.pid) if live else (None, "")
        if process:
            row.update(process=process, process_began=began)

    def _find_ended_agent(self, received: ReceivedEvent) -> Row | None:
        """Find the ended agent that had this session, for an event that arrives after its end.

        A start or a prompt later than that end means that the session was resumed: another agent.
        """
        for row in reversed(list(self.rows.values())):
            if row["session"] != received.event.session or row["harness"] != received.post.harness:
                continue
            if not _may_belong_to(row, received.post):
                continue
            is_later = received.at > (row["ended_at"] or 0)
            is_resumed = received.event.kind in ("started", "prompt") and is_later
            if has_ended(row) and not is_resumed:
                return row
        return None

    def _create_anonymous(self, received: ReceivedEvent) -> Row:
        post, event, now = received.post, received.event, time.time()
        live = post.pid and not post.spooled
        process, began = _find_program(post.pid) if live else (None, "")
        values: dict[str, Any] = {
            "harness": post.harness, "state": "idle" if event.kind == "started" else "starting",
            "state_at": received.at, "cwd": event.cwd or os.sep, "host": self.host,
            "started_at": received.at, "registered_at": now, "session": event.session,
            "thread": event.path, "pane": self._find_pane(post), "process": process,
            "process_began": began,
        }  # fmt: skip
        query = sa.insert(tables.agents).values(**values).returning(tables.agents)
        row = dict(self.connection.execute(query).mappings().one())
        self._keep_row(row)
        return row

    def write_back(self) -> None:
        """Write the changed rows: one statement for all rows in which the same columns changed."""
        changed: dict[tuple[str, ...], list[Row]] = {}
        for id, row in self.rows.items():
            original = self.original_rows[id]
            if names := tuple(name for name, value in row.items() if value != original[name]):
                values = {f"b_{name}": row[name] for name in names}
                changed.setdefault(names, []).append({"b_id": id, **values})
        for names, rows in changed.items():
            self.connection.execute(build_update(tables.agents, names), rows)


def _find_program(pid: int) -> tuple[int | None, str]:
    """Return the program that ran a hook, and when it began: numbers alone are reused."""
    process = find_program_above(pid)
    began = find_start_time(process) if process else ""
    return (process, began) if began else (None, "")


def _may_belong_to(row: Row, post: HookPost) -> bool:
    """Whether a hook can be of an agent: not with another token, or of another program without."""
    if not row["token_hash"] or find_facts(post.harness).pane_lies:
        return True
    if post.token:
        return bool(row["token_hash"] == hash_token(post.token))
    if post.spooled or not (post.pid and row["process"]):
        return True
    lives = is_alive(row["process"], row["process_began"])
    return not lives or is_below(post.pid, row["process"])


def is_same_socket(hook_socket: str, fleet_socket: str) -> bool:
    """Whether a hook's tmux socket is that of the fleet; the hook script omits odd characters."""
    paths = {fleet_socket, os.path.realpath(fleet_socket)} if fleet_socket else set()
    return bool(
        {hook_socket, os.path.realpath(hook_socket)}
        & (paths | {_ODD_CHARACTERS.sub("", path) for path in paths})
    )


_ODD_CHARACTERS = compile_pattern(r"[^A-Za-z0-9%/._,:@+=~-]")


def find_caller(
    database: FleetDatabase,
    host: str,
    token: str,
    sessions: Sequence[str],
    processes: Sequence[int],
) -> FleetAgent | None:
    """Find the running agent of a host that has the caller's token, session or process; or None.

    Anonymous agents are skipped: no order belongs to them. A caller with another session runs
    inside the agent and is not a part of it.
    """
    running = queries.list_agents(database, ended=False, host=host)
    candidates = [agent for agent in running if agent.ordered_at is not None or agent.adopted]
    id = queries.find_agent_by_token(database, hash_token(token)) if token else None
    caller = (
        next((agent for agent in candidates if agent.id == id), None)
        or _find_caller_by_session(sessions, candidates)
        or _find_caller_by_process(processes, candidates)
    )
    has_session = caller is not None and bool(caller.session and sessions)
    if caller and has_session and _find_caller_by_session(sessions, [caller]) is None:
        return None
    return caller


def _find_caller_by_session(
    sessions: Sequence[str], candidates: Sequence[FleetAgent]
) -> FleetAgent | None:
    named = {name for name in sessions if name}
    return next((a for a in candidates if named & ({a.session, a.thread} - {""})), None)


def _find_caller_by_process(
    processes: Sequence[int], candidates: Sequence[FleetAgent]
) -> FleetAgent | None:
    """Find the agent whose program is the caller's nearest ancestor."""
    by_process = {agent.process: agent for agent in candidates if agent.process}
    for pid in processes:
        agent = by_process.get(pid)
        if agent and agent.process and is_alive(agent.process, agent.process_began):
            return agent
    return None


class BatchRows(Struct):
    """The rows that a batch of events may need."""

    seen: set[str]
    """Ids of its events that were taken in before."""
    agents: list[Row]
    """Agents that the events may belong to, the oldest first."""
    intents: list[dict[str, Any]] | None = None
    """Texts typed to these agents that have no end yet, newest first; None where nobody looked."""
    personas: dict[str, Any] | None = None
    """The personas of these agents by their slugs; None where nobody looked."""


def load_batch_rows(
    connection: sa.Connection, events: Sequence[ReceivedEvent], host: str
) -> BatchRows:
    """Load the rows of a batch; on SQLite texts and personas are read when they are needed."""
    wanted = {
        "ids": [event.post.event_id for event in events if event.post.event_id],
        "hashes": list({hash_token(event.post.token) for event in events} - {""}),
        "sessions": list({event.event.session for event in events} - {""}),
        "panes": list({event.post.pane for event in events} - {""}),
        "host": host,
    }
    if connection.dialect.name == "sqlite":
        seen = set(connection.execute(_FIND_SEEN, {"ids": wanted.pop("ids")}).scalars())
        return BatchRows(
            seen, [dict(row) for row in connection.execute(_FIND_AGENTS, wanted).mappings()]
        )
    rows: dict[str, list[Any]] = {kind: [] for kind in _FOUND}
    for kind, row in connection.execute(_FIND_ALL, wanted):
        rows[kind].append(row)
    return BatchRows(
        {row["event_id"] for row in rows["seen"]},
        sorted(rows["agent"], key=lambda row: row["id"]),
        sorted(rows["intent"], key=lambda row: row["created_at"], reverse=True),
        {row["slug"]: SimpleNamespace(**row) for row in rows["persona"]},
    )


def _match_any(column: sa.Column[Any], name: str) -> Any:
    return column.in_(sa.bindparam(name, expanding=True))


_AGENTS = tables.agents.c
_FIND_SEEN = sa.select(tables.events.c.event_id).where(_match_any(tables.events.c.event_id, "ids"))
_FIND_AGENTS = (
    sa.select(tables.agents)
    .where(
        _match_any(_AGENTS.token_hash, "hashes")
        | _match_any(_AGENTS.session, "sessions")
        | (_match_any(_AGENTS.pane, "panes") & (_AGENTS.session == "")),
        _AGENTS.host == sa.bindparam("host"),
    )
    .order_by(_AGENTS.id)
)
"""Agents that events may belong to. The statement is built once: that is slower than running it."""
_KNOWN = _FIND_AGENTS.order_by(None).cte("known")
_FOUND: dict[str, sa.CTE | sa.Subquery] = {
    "agent": _KNOWN,
    "seen": _FIND_SEEN.subquery("seen"),
    "intent": sa.select(tables.intents)
    .where(IS_OPEN, tables.intents.c.agent_id.in_(sa.select(_KNOWN.c.id)))
    .subquery("intent"),
    "persona": sa.select(tables.personas)
    .where(tables.personas.c.slug.in_(sa.select(_KNOWN.c.persona)))
    .subquery("persona"),
}


_FIND_ALL = sa.union_all(*(
    sa.select(
        sa.literal_column(f"'{kind}'"), sa.func.row_to_json(found.table_valued())
    ).select_from(found)
    for kind, found in _FOUND.items()
))  # fmt: skip
"""PostgreSQL: every row as its kind and its columns. JSON keeps each of their values exactly."""
