"""Takes in what hooks tell: one writer thread, many events in one commit.

    decode → find the agent → change its state → match what was sent to it → log → answer

An event that was seen is dropped by its id. The hook is answered after the commit.
"""

import asyncio
import json
import logging
import queue
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import sqlalchemy as sa

from tasuki import harness as harnesses
from tasuki.draft.redact import Redactor
from tasuki.errors import TasukiError
from tasuki.fleet import alerts, intents, log, states, tables, thresholds
from tasuki.fleet.changes import Changes
from tasuki.fleet.correlator import Correlator, Heard, HookPost
from tasuki.fleet.database import Database, is_gone
from tasuki.fleet.failures import Closing
from tasuki.fleet.states import Row
from tasuki.harness.control import AgentEvent, HookReply
from tasuki.plain import one_line

MOST_AT_ONCE = 256
"""Events in one commit."""
WAITING = 20_000
"""Events that may wait; more are refused, and the hook spools them."""
HINDERED_SECONDS = 2.0
"""How long events may take to be written down before that counts as not possible."""
MOST_SESSION = 200
"""Characters of a session's id; a longer one is none."""
FUTURE = 60.0
"""Seconds by which the time of an event may be ahead before it is taken for now."""

_ESCAPES = re.compile(rb"\\u(?:0000|[dD][89a-fA-F])")

logger = logging.getLogger("tasuki.fleet")
Done = Callable[[str], None]


class Overloaded(TasukiError):
    """More events are waiting than can be taken in; the hook keeps this one."""


class Intake:
    """The queue of events and the thread that empties it.

    `skill` gives the text of a persona's skill. `after` is called, outside of the transaction, with
    the ids of agents of which only their thread tells the context use and a turn ended, and of those
    that have a persona and are idle. `socket` gives the path of the fleet's tmux socket.
    """

    def __init__(
        self,
        database: Database,
        changes: Changes,
        host: str,
        *,
        skill: Callable[[str], str],
        threshold: float,
        after: Callable[[set[int], set[int]], None],
        socket: Callable[[], str] = str,
    ) -> None:
        self.database = database
        self.changes = changes
        self.host = host
        self.skill = skill
        self.threshold = threshold
        self.after = after
        self.socket = socket
        self.taken = 0
        """Events taken in since the start."""
        self._at_work: tuple[int, float] | None = None
        """How many events are being taken in, and since when."""
        self._queue: queue.Queue[tuple[HookPost, Done] | None] = queue.Queue(WAITING)
        self._answers: _Answers | None = None
        self._thread = threading.Thread(target=self._run, name="intake", daemon=True)

    def start(self) -> None:
        """Begin to take events in."""
        self._thread.start()

    def close(self, seconds: float) -> None:
        """Take in what is waiting, then stop."""
        self._queue.put(None)
        self._thread.join(seconds)

    @property
    def waiting(self) -> int:
        """Events that are not taken in yet."""
        now = self._at_work
        return self._queue.qsize() + (now[0] if now else 0)

    @property
    def hindered(self) -> bool:
        """Whether events cannot be written down now: a full disk, a lock."""
        now = self._at_work
        return now is not None and time.monotonic() - now[1] > HINDERED_SECONDS

    async def take(self, post: HookPost) -> str:
        """Take an event in; what its hook prints. Raises Overloaded."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[str] = loop.create_future()
        if self._answers is None or self._answers.loop is not loop:
            self._answers = _Answers(loop)
        self.put(post, partial(self._answers.give, answer))
        return await answer

    def put(self, post: HookPost, done: Done) -> None:
        """Take an event in and call `done`, in the writer's thread, once it is committed."""
        try:
            self._queue.put_nowait((post, done))
        except queue.Full:
            raise Overloaded("Too many events are waiting; this one was not taken in.") from None

    # -- the writer's thread -----------------------------------------------------------

    def _run(self) -> None:
        while (first := self._queue.get()) is not None:
            batch, last = [first], False  # a commit costs more than an event
            while len(batch) < MOST_AT_ONCE and not last:
                try:
                    item = self._queue.get_nowait()
                except queue.Empty:
                    break
                if item is None:
                    last = True
                else:
                    batch.append(item)
            self._at_work = (len(batch), time.monotonic())
            self._take(batch)
            self._at_work = None
            if last:
                return

    def _take(self, batch: list[tuple[HookPost, Done]]) -> None:
        try:
            answers = self._patiently([post for post, _ in batch])
        except Closing:
            return  # nobody is told that it was taken in: the hooks keep these events
        except Exception:
            if len(batch) > 1:  # one of them is the cause: the others are not lost with it
                for one in batch:
                    self._take([one])
                return
            logger.exception("An event of %s could not be taken in.", batch[0][0].harness)
            answers = [""]
        for (_, done), said in zip(batch, answers, strict=True):
            done(said)

    def _patiently(self, posts: list[HookPost]) -> list[str]:
        """Commit a batch; while the database is away, wait for it. What came meanwhile waits too."""
        while True:
            try:
                return self._committed(posts)
            except sa.exc.DBAPIError as error:
                if not is_gone(error):
                    raise
                if self.changes.closing.wait(0.5):
                    raise Closing from error

    def _committed(self, posts: list[HookPost]) -> list[str]:
        heard = [self._heard(post) for post in posts]
        known = [h for h in heard if h is not None]
        if not known:
            return [""] * len(posts)
        # an event that is lost with the machine is one of an agent that is lost with it
        with self.database.write(synced=False) as connection:
            batch = _Batch(self, connection, known)
            answers = batch.carried_out()
        self.taken += len(known)
        self.changes.happened(batch.touched)
        if batch.unmeasured or batch.idle:
            self.after(batch.unmeasured, batch.idle)
        return [answers.get(id(h), "") if h else "" for h in heard]

    def _heard(self, post: HookPost) -> Heard | None:
        """A post in tasuki's own words; None for one that says nothing."""
        control = harnesses.control(harnesses.get(post.harness))
        if control is None:
            return None
        try:
            payload = json.loads(post.body.decode("utf-8", "replace"))
        except (ValueError, RecursionError):
            return None
        if _ESCAPES.search(post.body):
            payload = _cleaned(payload)
        if not isinstance(payload, dict) or (event := control.event(payload)) is None:
            return None
        if len(event.session) > MOST_SESSION:
            return None
        now = time.time()
        at = post.at if 0 < post.at <= now + FUTURE and post.spooled else now
        return Heard(post, event, at)


def _cleaned(value: Any) -> Any:
    """A payload without the letters that no database keeps: NUL, halves of surrogate pairs."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode().replace("\0", "")
    if isinstance(value, dict):
        return {_cleaned(name): _cleaned(one) for name, one in value.items()}
    return [_cleaned(one) for one in value] if isinstance(value, list) else value


class _Answers:
    """Brings the answers of a batch into an event loop by waking it once."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._waiting: deque[tuple[asyncio.Future[str], str]] = deque()

    def give(self, answer: "asyncio.Future[str]", said: str) -> None:
        """Answer, from any thread."""
        self._waiting.append((answer, said))
        if len(self._waiting) == 1:  # else the loop has been woken, and takes this one along
            self.loop.call_soon_threadsafe(self._bring)

    def _bring(self) -> None:
        while self._waiting:
            answer, said = self._waiting.popleft()
            if not answer.done():
                answer.set_result(said)


_SEEN = sa.select(tables.events.c.event_id).where(
    tables.events.c.event_id.in_(sa.bindparam("ids", expanding=True))
)


class _Batch:
    """The events of one transaction."""

    def __init__(self, intake: Intake, connection: sa.Connection, heard: Sequence[Heard]) -> None:
        self.intake = intake
        self.connection = connection
        self.heard = heard
        self.rows: list[dict[str, Any]] = []
        self.alerts: list[tuple[str, Row, float, str]] = []
        self.touched: set[int] = set()
        self.idle: set[int] = set()
        self.unmeasured: set[int] = set()
        self.redactor = Redactor()

    def carried_out(self) -> dict[int, str]:
        """Take every event in; the answers by the identity of what was heard."""
        seen = self._seen()
        correlator = Correlator(self.connection, self.heard, self.intake.host, self.intake.socket)
        personas = thresholds.Personas(self.connection, self.intake.threshold)
        matcher = intents.Matcher(self.connection, correlator.ids())
        answers: dict[int, str] = {}
        for heard in self.heard:
            agent = correlator.find(heard)
            if heard.post.event_id in seen:
                _not_answered(agent, heard)
                continue
            seen.add(heard.post.event_id or "-")
            seen.discard("-")
            if agent is None:
                continue
            answers[id(heard)] = self._one(agent, heard, personas, matcher)
        correlator.write_back()
        matcher.write_back()
        log.write(self.connection, self.rows)
        for kind, agent, at, text in self.alerts:
            alerts.of_agent(self.connection, kind, agent, at, text)
        return answers

    def _seen(self) -> set[str]:
        ids = [h.post.event_id for h in self.heard if h.post.event_id]
        return set(self.connection.execute(_SEEN, {"ids": ids}).scalars())

    def _one(
        self, agent: Row, heard: Heard, personas: thresholds.Personas, matcher: intents.Matcher
    ) -> str:
        event, before = heard.event, (agent["state"], agent["context_used"])
        worked = states.turn_runs(agent)
        control = harnesses.control(harnesses.get(agent["harness"]))
        assert control is not None
        if (
            event.kind == "started"
            and agent["registered_at"] is None
            and not control.starts_at_prompt
        ):
            agent["registered_at"] = heard.at
        states.apply(
            agent, event, heard.at,
            spooled=heard.post.spooled, takes_start=not control.starts_at_prompt,
        )  # fmt: skip
        queued = worked and control.queues_prompts
        matcher.match(agent, event, heard.at, queued=queued, spooled=heard.post.spooled)
        _first_turn(agent, event, heard.at)
        reply = self._reply(agent, heard, personas)
        self.touched.add(agent["id"])
        if agent["persona"] and agent["state"] == "idle":
            self.idle.add(agent["id"])
        told = agent["context_source"] in ("status line", "hook")
        if event.kind == "idle" and agent["thread"] and not told:
            self.unmeasured.add(agent["id"])
        if _is_worth_a_line(event, before, agent):
            self.rows.append(self._row(agent, heard))
        if passed := personas.passed(agent):
            self.rows.append(_own_row("threshold", agent["id"], passed))
            self.alerts.append(("threshold", agent, heard.at, passed))
        if agent["state"] == "waiting" != before[0]:
            asked = agent["waiting_for"] or "It asks something."
            self.alerts.append(("needs_you", agent, heard.at, asked))
        return control.answer(event, reply) if reply else ""

    def _reply(self, agent: Row, heard: Heard, personas: thresholds.Personas) -> HookReply | None:
        event = heard.event
        control = harnesses.control(harnesses.get(agent["harness"]))
        if heard.post.spooled or control is None or states.has_ended(agent):
            return None
        if event.kind == "started" and agent["persona"] and control.skill_at_start:
            if not (text := self.intake.skill(agent["persona"])):
                return None
            if agent["skill_at"] is None:
                agent["skill_at"] = heard.at
                said = f"The skill of {agent['persona']} was given to it at its session's start."
                self.rows.append(_own_row("skill", agent["id"], said))
            return HookReply(context=text)
        compacts = event.kind == "compacting" and event.source == "auto"
        if compacts and control.can_veto and (why := personas.veto(agent, heard.at)):
            self.rows.append(_own_row("veto", agent["id"], why))
            return HookReply(veto=why)
        return None

    def _row(self, agent: Row, heard: Heard) -> dict[str, Any]:
        event, post = heard.event, heard.post
        text = one_line(self.redactor.redact(event.text[: 4 * log.EXCERPT]), log.EXCERPT)
        data = {
            name: value
            for name, value in (
                ("session", event.session), ("source", event.source), ("turn", event.turn),
                ("child", event.child), ("interrupted", event.interrupted),
                ("used", event.used), ("spooled", post.spooled),
            )
            if value
        }  # fmt: skip
        return {
            "event_id": post.event_id or None, "at": heard.at, "received_at": time.time(),
            "kind": event.kind, "agent_id": agent["id"], "handoff_id": None, "text": text, "data": data,
        }  # fmt: skip


def _not_answered(agent: Row | None, heard: Heard) -> None:
    """A start that was taken in and is told again: its answer did not arrive.

    From the spool; or because the connection to the database broke behind the commit.
    """
    if agent and heard.event.kind == "started":
        agent["skill_at"] = None


def _first_turn(agent: Row, event: AgentEvent, at: float) -> None:
    """Where the session start comes with the first prompt, that prompt is the skill.

    Its finished turn completes the registration and the injection.
    """
    if event.kind == "idle" and agent["registered_at"] is None:
        agent["registered_at"] = at
        if agent["persona"] and agent["skill_at"] is None and not event.interrupted:
            agent["skill_at"] = at


def _is_worth_a_line(event: AgentEvent, before: tuple[str, float | None], agent: Row) -> bool:
    """Whether the log tells of an event; not of one that changed nothing worth reading."""
    state, used = before
    if event.kind == "busy":
        return bool(state != agent["state"])
    if event.kind == "context":
        return (used is None) != (agent["context_used"] is None) or (
            used is not None and abs(used - (agent["context_used"] or 0.0)) >= 1.0
        )
    return True


def _own_row(kind: str, agent_id: int, text: str) -> dict[str, Any]:
    now = time.time()
    return {
        "event_id": None, "at": now, "received_at": now, "kind": kind, "agent_id": agent_id,
        "handoff_id": None, "text": text, "data": {},
    }  # fmt: skip
