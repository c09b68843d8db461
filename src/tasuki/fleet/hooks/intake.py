"""Takes in the events of hooks: one writer thread, many events in one commit.

    decode → find the agent → change its state → match what was sent to it → log → answer

An event that was seen before is dropped by its id. The hook is answered after the commit.
"""

import asyncio
import json
import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from typing import Any

import sqlalchemy as sa

from tasuki.draft.redact.redactor import Redactor
from tasuki.errors import TasukiError
from tasuki.fleet import alerts, automation
from tasuki.fleet.agents.limits import build_failure_alert
from tasuki.fleet.delivery import outbox
from tasuki.fleet.figures import ContextSample, ContextSampler, build_sample
from tasuki.fleet.hooks.correlator import (
    BatchRows,
    EventCorrelator,
    HookPost,
    ReceivedEvent,
    load_batch_rows,
)
from tasuki.fleet.store import log, states
from tasuki.fleet.store.database import FleetDatabase, is_temporary
from tasuki.fleet.store.failures import ServerClosing
from tasuki.fleet.store.log import ChangeFeed
from tasuki.fleet.store.questions import describe_question, load_question
from tasuki.fleet.store.states import Row
from tasuki.harness import registry as harnesses
from tasuki.harness.protocol import AgentEvent, HookReply
from tasuki.launch.processes import is_alive
from tasuki.patterns import compile_pattern

MOST_AT_ONCE = 256
"""Events in one commit."""
MOST_WAITING = 20_000
"""Events that may wait; more are refused, and the hook spools them."""
BLOCKED_SECONDS = 2.0
"""How long writing events may take before it counts as blocked."""
MOST_SESSION_CHARACTERS = 200
"""Most characters of a session's id; a longer one is ignored."""
FUTURE_SECONDS = 60.0
"""Seconds by which an event's time may be in the future; later ones become the current time."""

_ESCAPES = compile_pattern(rb"\\u(?:0000|[dD][89a-fA-F])")

logger = logging.getLogger("tasuki.fleet")
DoneCallback = Callable[[str], None]


class IntakeOverloaded(TasukiError):
    """Too many events are waiting; the hook keeps this one."""


@dataclass(eq=False, repr=False)
class EventIntake:
    """The queue of events and the thread that empties it.

    `read_skill` returns the text of a persona's skill. `on_commit` is called outside of the
    transaction with three sets of agent ids: those whose turn ended and whose context use is only
    in their thread, idle ones that have a persona, and those whose turn ended with an error. `on_events` is called then, too, with
    all agents that something happened to. `socket` returns the path of the fleet's tmux socket.
    """

    database: FleetDatabase
    changes: ChangeFeed
    host: str
    _: KW_ONLY
    read_skill: Callable[[str], str]
    threshold: float
    on_commit: Callable[[set[int], set[int], set[int]], None]
    on_events: Callable[[set[int]], None] = lambda _ids: None
    socket: Callable[[], str] = str

    def __post_init__(self) -> None:
        self.sampler = ContextSampler()
        self.taken = 0
        """Events taken in since the start."""
        self._at_work: tuple[int, float] | None = None
        """How many events are being taken in, and since when."""
        self._queue: queue.Queue[tuple[HookPost, DoneCallback] | None] = queue.Queue(MOST_WAITING)
        self._answers: _AnswerRelay | None = None
        self._thread = threading.Thread(target=self._run, name="intake", daemon=True)

    def start(self) -> None:
        """Start taking events in."""
        self._thread.start()

    def close(self, seconds: float) -> None:
        """Take in the waiting events, then stop."""
        self._queue.put(None)
        self._thread.join(seconds)

    @property
    def waiting(self) -> int:
        """Events that are not taken in yet."""
        now = self._at_work
        return self._queue.qsize() + (now[0] if now else 0)

    @property
    def is_blocked(self) -> bool:
        """Whether events cannot be written now: a full disk, a lock."""
        now = self._at_work
        return now is not None and time.monotonic() - now[1] > BLOCKED_SECONDS

    async def take(self, post: HookPost) -> str:
        """Take an event in and return what its hook prints. Raises IntakeOverloaded."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[str] = loop.create_future()
        if self._answers is None or self._answers.loop is not loop:
            self._answers = _AnswerRelay(loop)
        self.put(post, partial(self._answers.give, answer))
        return await answer

    def put(self, post: HookPost, on_done: DoneCallback) -> None:
        """Take an event in and call `on_done`, in the writer's thread, once it is committed."""
        try:
            self._queue.put_nowait((post, on_done))
        except queue.Full:
            raise IntakeOverloaded(
                "Too many events are waiting; this one was not taken in."
            ) from None

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
            self._take_batch(batch)
            self._at_work = None
            if last:
                return

    def _take_batch(self, batch: list[tuple[HookPost, DoneCallback]]) -> None:
        try:
            answers = self._commit_patiently([post for post, _ in batch])
        except ServerClosing:
            return  # no hook is answered, so the hooks keep these events
        except Exception:
            if len(batch) > 1:  # one of them is the cause: the others must not be lost
                for one in batch:
                    self._take_batch([one])
                return
            logger.exception("An event of %s could not be taken in.", batch[0][0].harness)
            answers = [""]
        for (_, on_done), answer in zip(batch, answers, strict=True):
            on_done(answer)

    def _commit_patiently(self, posts: list[HookPost]) -> list[str]:
        """Commit a batch; while the database is away, wait for it. Later events wait too."""
        while True:
            try:
                return self._commit_batch(posts)
            except sa.exc.DBAPIError as error:
                if not is_temporary(error):
                    raise
                if self.changes.closing.wait(0.5):
                    raise ServerClosing from error

    def _commit_batch(self, posts: list[HookPost]) -> list[str]:
        parsed = [self._parse_post(post) for post in posts]
        received = [h for h in parsed if h is not None]
        if not received:
            return [""] * len(posts)
        # an event that is lost with the machine belongs to an agent that is lost too
        read = partial(load_batch_rows, events=received, host=self.host)
        with self.database.write_after_reading(read) as (connection, known):
            batch = _EventBatch(self, connection, received)
            answers = batch.carry_out(known)
        self.taken += len(received)
        self.changes.notify(batch.touched)
        self.on_events(batch.touched)
        if batch.unmeasured or batch.idle or batch.failed:
            self.on_commit(batch.unmeasured, batch.idle, batch.failed)
        return [answers.get(id(h), "") if h else "" for h in parsed]

    def _parse_post(self, post: HookPost) -> ReceivedEvent | None:
        """Parse a post into an event; None for one without meaning."""
        control = harnesses.get_control(harnesses.get_harness(post.harness))
        if control is None:
            return None
        try:
            payload = json.loads(post.body.decode("utf-8", "replace"))
        except (ValueError, RecursionError):
            return None
        if _ESCAPES.search(post.body):
            payload = _clean_payload(payload)
        if not isinstance(payload, dict) or (event := control.parse_event(payload)) is None:
            return None
        if len(event.session) > MOST_SESSION_CHARACTERS:
            return None
        now = time.time()
        at = post.at if 0 < post.at <= now + FUTURE_SECONDS and post.spooled else now
        return ReceivedEvent(post, event, at)


def _clean_payload(value: Any) -> Any:
    """Remove characters that no database keeps from a payload: NUL, halves of surrogate pairs."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode().replace("\0", "")
    if isinstance(value, dict):
        return {_clean_payload(name): _clean_payload(one) for name, one in value.items()}
    return [_clean_payload(one) for one in value] if isinstance(value, list) else value


class _AnswerRelay:
    """Passes the answers of a batch to an event loop, waking it once."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._waiting: deque[tuple[asyncio.Future[str], str]] = deque()

    def give(self, answer: "asyncio.Future[str]", text: str) -> None:
        """Give an answer, from any thread."""
        self._waiting.append((answer, text))
        if len(self._waiting) == 1:  # otherwise the loop was woken already, and takes this one too
            self.loop.call_soon_threadsafe(self._deliver_answers)

    def _deliver_answers(self) -> None:
        while self._waiting:
            answer, text = self._waiting.popleft()
            if not answer.done():
                answer.set_result(text)


@dataclass(eq=False, repr=False)
class _EventBatch:
    """The events of one transaction."""

    intake: EventIntake
    connection: sa.Connection
    events: Sequence[ReceivedEvent]
    rows: list[dict[str, Any]] = field(default_factory=list)
    alerts: list[tuple[str, Row, float, str]] = field(default_factory=list)
    touched: set[int] = field(default_factory=set)
    idle: set[int] = field(default_factory=set)
    failed: set[int] = field(default_factory=set)
    unmeasured: set[int] = field(default_factory=set)
    samples: list[ContextSample] = field(default_factory=list)
    redactor: Redactor = field(default_factory=Redactor)

    def carry_out(self, known: BatchRows) -> dict[int, str]:
        """Take every event in; return the answers by the identity of the received event."""
        seen = known.seen
        correlator = EventCorrelator(
            self.connection, known.agents, self.intake.host, self.intake.socket
        )
        personas = automation.PersonaThresholds(
            self.connection, self.intake.threshold, known.personas or {}
        )
        # Nothing was typed yet to an agent that is new.
        ids = list(correlator.rows)
        matcher = outbox.IntentMatcher(self.connection, ids, known.intents)
        answers: dict[int, str] = {}
        for received in self.events:
            agent = correlator.find_agent(received)
            if received.post.event_id in seen:
                # Its answer was lost: it comes from the spool, or the connection broke after the commit.
                if agent and received.event.kind == "started":
                    agent["skill_at"] = None
                continue
            seen.add(received.post.event_id or "-")
            seen.discard("-")
            if agent is None:
                continue
            answers[id(received)] = self._take_event(agent, received, personas, matcher)
        # an alert reads the id of its own row
        together = nullcontext if self.alerts else self.intake.database.commit_together
        with together(self.connection):
            correlator.write_back()
            matcher.write_back()
            log.write_lines(self.connection, self.rows)
            self.intake.sampler.write(self.connection, self.samples)
            for kind, agent, at, text in self.alerts:
                alerts.raise_agent_alert(self.connection, kind, agent, at, text)
        return answers

    def _take_event(
        self,
        agent: Row,
        received: ReceivedEvent,
        personas: automation.PersonaThresholds,
        matcher: outbox.IntentMatcher,
    ) -> str:
        event, before = received.event, (agent["state"], agent["context_used"])
        asked = agent["question"]
        failed_before = states.load_failure(agent["failure"])
        was_working = states.has_running_turn(agent)
        control = harnesses.get_control(harnesses.get_harness(agent["harness"]))
        assert control is not None
        is_new = event.kind == "started" and agent["registered_at"] is None
        if is_new and not control.starts_at_prompt:
            agent["registered_at"] = received.at
        states.apply_event(
            agent, event, received.at,
            spooled=received.post.spooled, takes_start=not control.starts_at_prompt,
            is_alive=_has_program,
        )  # fmt: skip
        queued = was_working and control.queues_prompts
        matcher.match(agent, event, received.at, queued=queued, spooled=received.post.spooled)
        _complete_first_turn(agent, event, received.at)
        reply = self._build_reply(agent, received, personas)
        self.touched.add(agent["id"])
        if agent["persona"] and agent["state"] == "idle":
            self.idle.add(agent["id"])
        is_measured = agent["context_source"] in ("status line", "hook")
        if event.kind == "idle" and agent["thread"] and not is_measured:
            self.unmeasured.add(agent["id"])
        if sample := build_sample(agent, event, received.at):
            self.samples.append(sample)
        if _is_worth_a_line(event, before, agent):
            self.rows.append(self._build_row(agent, received))
        if crossing := personas.detect_crossing(agent):
            self.rows.append(log.build_line("threshold", crossing, agent["id"]))
            self.alerts.append(("threshold", agent, received.at, crossing))
        if event.kind == "idle" and (failure := states.load_failure(agent["failure"])):
            self.failed.add(agent["id"])
            if alert := build_failure_alert(failed_before, failure):
                kind, text = alert
                self.alerts.append((kind, agent, received.at, text))
        question = load_question(agent["question"])
        is_late = before[0] == "waiting" and asked is None and event.question is None
        if agent["state"] == "waiting" and question and agent["question"] != asked and not is_late:
            text = describe_question(question)
            self.alerts.append(("needs_you", agent, received.at, text))
        return control.format_reply(event, reply) if reply else ""

    def _build_reply(
        self, agent: Row, received: ReceivedEvent, personas: automation.PersonaThresholds
    ) -> HookReply | None:
        event = received.event
        control = harnesses.get_control(harnesses.get_harness(agent["harness"]))
        if received.post.spooled or control is None or states.has_ended(agent):
            return None
        if event.kind == "started" and agent["persona"] and control.skill_at_start:
            if not (text := self.intake.read_skill(agent["persona"])):
                return None
            if agent["skill_at"] is None:
                agent["skill_at"] = received.at
                note = f"The skill of {agent['persona']} was given to it at its session's start."
                self.rows.append(log.build_line("skill", note, agent["id"]))
            return HookReply(context=text)
        compacts = event.kind == "compacting" and event.source == "auto"
        if compacts and control.can_veto and (why := personas.decide_veto(agent, received.at)):
            self.rows.append(log.build_line("veto", why, agent["id"]))
            return HookReply(veto=why)
        return None

    def _build_row(self, agent: Row, received: ReceivedEvent) -> dict[str, Any]:
        event, post = received.event, received.post
        text = self.redactor.redact_line(event.text, log.EXCERPT_CHARACTERS)
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
            "event_id": post.event_id or None, "at": received.at, "received_at": time.time(),
            "kind": event.kind, "agent_id": agent["id"], "handoff_id": None, "text": text, "data": data,
        }  # fmt: skip


def _complete_first_turn(agent: Row, event: AgentEvent, happened_at: float) -> None:
    """Complete registration and skill at the end of a first turn, whose prompt was the skill."""
    if event.kind == "idle" and agent["registered_at"] is None:
        agent["registered_at"] = happened_at
        if agent["persona"] and agent["skill_at"] is None and not event.interrupted:
            agent["skill_at"] = happened_at


def _has_program(agent: Row) -> bool:
    """Whether the program of an agent of this host lives, as far as it is known."""
    if agent["process"]:
        return is_alive(agent["process"], agent["process_began"])
    return bool(agent["pid"] and agent["ordered_at"]) and is_alive(agent["pid"])


def _is_worth_a_line(event: AgentEvent, before: tuple[str, float | None], agent: Row) -> bool:
    """Whether an event goes into the log; not if it changed nothing worth reading."""
    state, used = before
    if event.kind == "busy":
        return bool(state != agent["state"])
    if event.kind == "context":
        return (used is None) != (agent["context_used"] is None) or (
            used is not None and abs(used - (agent["context_used"] or 0.0)) >= 1.0
        )
    return True
