"""Watches what no hook reports: vanished panes, spooled events, context use, stuck handoffs.

An answered question and Escape are noticed by what the program itself shows.
"""

import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from msgspec.structs import asdict, replace

from tasuki.draft.redact.screen import redact_screen
from tasuki.errors import LaunchFailed, TasukiError
from tasuki.fleet import alerts, automation
from tasuki.fleet.agents import limits
from tasuki.fleet.agents.lifecycle import AgentLifecycle
from tasuki.fleet.agents.stuck import StuckAgents, build_change
from tasuki.fleet.background import BackgroundWork
from tasuki.fleet.delivery.answers import find_question, refresh_question
from tasuki.fleet.delivery.typed_input import get_control
from tasuki.fleet.figures import ContextSample
from tasuki.fleet.hooks import spool
from tasuki.fleet.hooks.intake import EventIntake, IntakeOverloaded
from tasuki.fleet.store import log, queries, states, tables
from tasuki.fleet.store.database import FleetDatabase, update_row
from tasuki.fleet.store.log import ChangeFeed
from tasuki.fleet.store.models import AgentState, FleetAgent
from tasuki.fleet.store.questions import describe_question, dump_question
from tasuki.harness import registry as harnesses
from tasuki.harness.protocol import Screenshot, ThreadFile
from tasuki.install.hook_script import HUNG
from tasuki.launch.processes import is_alive
from tasuki.launch.tmux.panes import PaneSurvey, TmuxPanes
from tasuki.model import TurnFailure
from tasuki.text_safety import clean_for_display, shorten_to_line

AGENT_STATES: Mapping[str, AgentState] = {"ready": "idle", "busy": "busy", "waiting": "waiting"}
COMPACTING_SECONDS = 120.0
"""Seconds after which a compacting agent is checked like a busy one: no hook reports Escape."""
REST_SECONDS = 5.0
"""Seconds between two checks of a busy agent's screen, and before the first one."""
START_SECONDS = 20.0
"""How long an agent may start before a screen that is not known means that it waits for the user."""
LAST_LINES = 8
CHECKED_STATES = frozenset({"idle", "busy", "waiting", "stuck"})
STATE_SENTENCES: Mapping[AgentState, str] = {
    "idle": "Its turn was interrupted, or its end was not reported.",
    "busy": "It is working again.",
    "waiting": "It waits for the user.",
    "limited": "Its turn ended at a usage limit.",
    "failed": "Its turn ended with an error.",
}


@dataclass(eq=False, repr=False)
class AgentSignals:
    """Compares the states of agents with what their programs show.

    Screens are read of agents that wait for the user, and now and then of those that have been
    busy for long and have no signal. A difference counts once it was seen in two checks: a hook
    may be on its way. Texts typed to an agent are not affected: each waits for its own end.
    """

    database: FleetDatabase
    panes: TmuxPanes
    changes: ChangeFeed
    on_failure: Callable[[set[int]], None]

    def __post_init__(self) -> None:
        self._seen: dict[int, tuple[float, AgentState]] = {}
        self._looked_at: dict[int, float] = {}

    def check_agents(self, agents: Iterable[FleetAgent]) -> None:
        """Check all of these agents once."""
        before, self._seen = self._seen, {}
        for agent in agents:
            is_late = time.time() - agent.state_at > COMPACTING_SECONDS
            is_checked = agent.state in CHECKED_STATES or (agent.state == "compacting" and is_late)
            seen = before.get(agent.id)
            if agent.state == "starting" and agent.pane:
                if shown := self._read_first_screen(agent):
                    self._note_seen(agent, shown, seen)
                continue
            if not is_checked or not (agent.session or agent.state == "waiting"):
                continue
            shown = self._read_state(agent, Screenshot(""))
            is_working = agent.state in ("busy", "compacting", "stuck")
            if agent.pane and (agent.state == "waiting" or (is_working and not shown)):
                if self._should_rest(agent):
                    self._seen.update({agent.id: seen} if seen else {})
                    continue
                screenshot = self._capture_screen(agent)
                shown = self._read_state(agent, screenshot) if screenshot else None
                if screenshot and agent.state == "waiting" and shown in ("waiting", None):
                    refresh_question(self.database, self.changes, agent.id, screenshot)
            if is_working and shown == "idle" and _awaits_first_prompt(agent):
                continue
            if shown and shown != agent.state and not (is_working and shown == "busy"):
                self._note_seen(agent, shown, seen)

    def _note_seen(
        self, agent: FleetAgent, shown: AgentState, seen: tuple[float, AgentState] | None
    ) -> None:
        """Note what an agent shows; seen twice, it becomes its state."""
        self._seen[agent.id] = (agent.state_at, shown)
        if self._seen[agent.id] == seen:
            self._change_state(agent, shown)

    def _read_first_screen(self, agent: FleetAgent) -> AgentState | None:
        """Read what the program of an agent shows whose hooks have reported nothing yet.

        That is a dialog about its folder, the login, the terms; or, after some time, anything that
        is no input. One whose session starts with its first prompt, and that has none, is idle.
        """
        screenshot, control = self._capture_screen(agent), get_control(agent)
        state = self._read_state(agent, screenshot) if screenshot else None
        if screenshot and state != "idle" and control.read_question(screenshot):
            return "waiting"
        if screenshot is None or time.time() - agent.started_at < START_SECONDS:
            return None
        if state == "idle" and not control.starts_at_prompt:
            return None
        return state or ("waiting" if screenshot.text.strip() else None)

    def _should_rest(self, agent: FleetAgent) -> bool:
        """Whether the screen of an agent is skipped this time."""
        now = time.monotonic()
        if agent.state != "waiting":
            fresh = time.time() - agent.state_at < REST_SECONDS
            if fresh or now - self._looked_at.get(agent.id, 0.0) < REST_SECONDS:
                return True
        self._looked_at[agent.id] = now
        return False

    def _change_state(self, agent: FleetAgent, state: AgentState) -> None:
        failure = read_failure(agent) if state == "idle" else None
        is_waiting = state == "waiting"
        question = find_question(self.database, self.panes, agent, is_waiting=is_waiting)
        is_first = agent.state == "starting" and state == "waiting" and not question
        last_words = self._describe_screen(agent) if is_first else ""
        state = states.name_state(failure) if failure else state
        with self.database.write() as connection:
            values: dict[str, Any] = {
                "state": state, "state_at": time.time(), "stuck_at": None, "stuck_with": "",
                "waiting_for": shorten_to_line(question.text if question else last_words, 200) if state == "waiting" else "",
                "question": dump_question(question),
            }  # fmt: skip
            if state in ("idle", "limited", "failed"):
                values["turn_at"] = None
                states.set_failure(values, failure)
            if connection.execute(build_change(asdict(agent), values)).rowcount:
                sentence, seen = STATE_SENTENCES[state], {"seen": True}
                log.note(connection, state, sentence, agent_id=agent.id, data=seen)
                row = dict(connection.execute(_FIND_OWNER, {"agent": agent.id}).mappings().one())
                if state == "waiting":
                    text = describe_question(question) if question else last_words or sentence
                    alerts.raise_agent_alert(connection, "needs_you", row, values["state_at"], text)
                alert = limits.build_failure_alert(agent.failure, failure) if failure else None
                if alert:
                    kind, text = alert
                    alerts.raise_agent_alert(connection, kind, row, values["state_at"], text)
        self.changes.notify([agent.id])
        if failure:
            self.on_failure({agent.id})

    def _describe_screen(self, agent: FleetAgent) -> str:
        """Describe the screen of an agent that has not begun, by its last words."""
        screenshot = self._capture_screen(agent)
        lines = redact_screen(screenshot.text.rstrip()).split("\n") if screenshot else []
        words = " ".join(clean_for_display("\n".join(lines[-LAST_LINES:])).split())
        return f"It has not begun. Its screen shows: {words[-150:]}"

    def _capture_screen(self, agent: FleetAgent) -> Screenshot | None:
        with suppress(LaunchFailed):
            return self.panes.capture_screen(agent.pane)
        return None

    def _read_state(self, agent: FleetAgent, screenshot: Screenshot) -> AgentState | None:
        pid = agent.process or agent.pid or 0
        own_screenshot = replace(screenshot, pid=pid, session=agent.session)
        return AGENT_STATES.get(get_control(agent).read_screen(own_screenshot).state)


def _awaits_first_prompt(agent: FleetAgent) -> bool:
    """Whether the prompt with which an agent was started may still be on its way."""
    registered, turn = agent.registered_at or 0.0, agent.turn_at
    is_new = time.time() - registered < START_SECONDS
    return is_new and turn is not None and turn < registered


_FIND_OWNER = sa.select(*(tables.agents.c[name] for name in ("id", "host", "persona"))).where(
    tables.agents.c.id == sa.bindparam("agent")
)


SPOOL_SECONDS = 0.5
LOOK_SECONDS = 2.0
SWEEP_SECONDS = 15.0
AGENTS_AT_ONCE = 8
"""Agents that are checked before a pause of `PAUSE_SECONDS`."""
PAUSE_SECONDS = 0.001
SILENT_SECONDS = 86400.0
"""Silence after which an agent without a known pane or process is given up."""
MOST_MISSED = 2
"""Checks in a row in which a pane must be missing before its agent is given up."""
PROGRAM_ENDED = "its program ended"
"""Begins the reason for a pane whose program is gone: one check is enough."""

logger = logging.getLogger("tasuki.fleet")


@dataclass(eq=False, repr=False)
class FleetWatch(BackgroundWork):
    """Checks everything now and then; `start_missing` starts handoffs that should be under way."""

    database: FleetDatabase
    panes: TmuxPanes
    lifecycle: AgentLifecycle
    intake: EventIntake
    spool_folder: Path
    start_missing: Callable[[], None]
    hand_off_full: Callable[[set[int]], None]
    hand_off_limited: Callable[[set[int]], None]
    threshold: float
    stuck_seconds: float = 0.0
    name, pause = "watch", SPOOL_SECONDS

    def __post_init__(self) -> None:
        self.signals = AgentSignals(
            self.database, self.panes, self.intake.changes, self.hand_off_limited
        )
        host = self.lifecycle.host if self.lifecycle else ""
        self.stuck = StuckAgents(
            self.database, self.panes, self.intake.changes, host, self.stuck_seconds
        )
        self._missed: dict[int, int] = {}
        self._to_read: set[int] = set()
        self._checked_at = self._started_at = 0.0
        super().__post_init__()

    def _work(self) -> None:
        self._run_safely(self.take_spool)
        now = time.monotonic()
        if now - self._checked_at >= LOOK_SECONDS:
            self._run_safely(self.check_agents)
            self._run_safely(self.read_context)
            self._run_safely(self.stuck.check_if_due)
            self._run_safely(self.database.checkpoint_log)
            self._checked_at = time.monotonic()
        if now - self._started_at >= SWEEP_SECONDS:
            self._run_safely(self.start_missing)
            self._started_at = time.monotonic()

    def take_spool(self) -> None:
        """Take in the events that hooks kept while no server ran, oldest first."""
        self._report_dropped()
        (self.spool_folder.parent / HUNG).unlink(missing_ok=True)  # hooks may ask again
        for path in spool.list_waiting(self.spool_folder):
            if self._stop.is_set():
                return
            path = spool.claim_file(path)
            post = spool.read_post(path)
            if post is None:
                spool.set_aside(path)
                continue
            done = threading.Event()
            try:
                self.intake.put(post, lambda _answer, done=done: done.set())  # type: ignore[misc]
            except IntakeOverloaded:
                return
            while not done.wait(1.0):
                if self._stop.is_set():
                    return
            path.unlink(missing_ok=True)

    def _report_dropped(self) -> None:
        """Raise an alarm where the spool was full and events were lost."""
        if not (count := spool.count_dropped(self.spool_folder)):
            return
        message = f"The spool was full: {count} events of hooks were lost while no server answered."
        log.note(self.database, "alarm", message, data={"code": "events_lost"})
        spool.forget_dropped(self.spool_folder)
        self.intake.changes.notify()

    def check_agents(self) -> None:
        """Notice agents whose pane or process vanished without a report."""
        here = self.lifecycle.host
        agents = queries.load_rows(FleetAgent, self.database, _FIND_AGENTS, here=here)
        with_pane = [agent for agent in agents if agent.pane]
        survey = self.panes.read_status() if with_pane else PaneSurvey(running=False)
        for agent in _pause_between(agents):
            why = self._explain_gone(agent, survey)
            if not why:
                self._missed.pop(agent.id, None)
                continue
            self._missed[agent.id] = self._missed.get(agent.id, 0) + 1
            is_sure = why.startswith(PROGRAM_ENDED) or agent.end_reason
            if self._missed[agent.id] >= MOST_MISSED or is_sure:
                self._note_gone(agent, why)
        present = [agent for agent in agents if agent.id not in self._missed]
        self.signals.check_agents(_pause_between(present))

    def _explain_gone(self, agent: FleetAgent, survey: PaneSurvey) -> str:
        process = agent.process if agent.ordered_at is None else None
        if process and not is_alive(process, agent.process_began):
            return "its process is gone"
        if not agent.pane:
            silent = not agent.process and time.time() - agent.state_at > SILENT_SECONDS
            return "it was silent for a day" if silent else ""
        state = survey.panes.get(agent.pane)
        if state is None or (agent.pid and state.pid != agent.pid):
            return "its pane is gone" if survey.running else "tmux is gone with all its panes"
        if state.dead:
            return f"{PROGRAM_ENDED} with status {'?' if state.status is None else state.status}"
        return ""

    def _note_gone(self, agent: FleetAgent, why: str) -> None:
        self._missed.pop(agent.id, None)
        last_words = ""
        if "status" in why:
            with suppress(LaunchFailed):
                last_words = self.panes.read_last_lines(agent.pane)
                self.panes.close(agent.pane)
        ended = bool(agent.end_reason) or "status 0" in why
        reason = f"{why}; it said: {last_words}" if last_words and not ended else why
        self.lifecycle.note_end(agent.id, "ended" if ended else "lost", reason)
        self.intake.changes.notify([agent.id])

    def queue_context(self, ids: Iterable[int]) -> None:
        """Queue agents whose turn ended, to read their threads later."""
        self._to_read.update(ids)

    def read_context(self) -> None:
        """Read the context use of agents from their threads, where nothing newer is known.

        A thread has tokens; a percentage only where the window is known.
        """
        ids, self._to_read = self._to_read, set()
        for agent_id in ids:
            agent = queries.load_agent(self.database, agent_id)
            if agent.context_source in ("status line", "hook") or not agent.thread:
                continue
            tokens = _read_tokens(agent)
            if tokens is not None and tokens != agent.context_tokens:
                self._record_tokens(agent_id, tokens)

    def _record_tokens(self, agent_id: int, tokens: int) -> None:
        """Record the tokens of a thread, and handle a threshold that they cross."""
        with self.database.write(synced=False) as connection:
            row = dict(connection.execute(_FIND_AGENT, {"agent": agent_id}).mappings().one())
            window = row["context_window"]
            row.update(
                context_tokens=tokens,
                context_at=time.time(),
                context_source="thread",
                context_used=100.0 * tokens / window if window else None,
            )
            personas = automation.PersonaThresholds(connection, self.threshold)
            if crossing := personas.detect_crossing(row):
                log.note(connection, "threshold", crossing, agent_id=agent_id)
                alerts.raise_agent_alert(connection, "threshold", row, row["context_at"], crossing)
            sample = ContextSample(agent_id, row["context_at"], tokens, row["context_used"])
            self.intake.sampler.write(connection, [sample])
            update_row(connection, tables.agents, agent_id, **{x: row[x] for x in _CONTEXT_FIELDS})
        if crossing:
            self.hand_off_full({agent_id})


_CONTEXT_FIELDS = (
    "context_tokens", "context_at", "context_source", "context_used", "over_threshold",
)  # fmt: skip
_FIND_AGENT = sa.select(tables.agents).where(tables.agents.c.id == sa.bindparam("agent"))
_FIELDS = (
    "id", "harness", "state", "state_at", "cwd", "host", "started_at", "session", "pane", "pid",
    "process", "process_began", "ordered_at", "thread", "failure", "stuck_at", "registered_at", "turn_at", "end_reason",
)  # fmt: skip
_FIND_AGENTS = sa.select(*(tables.agents.c[name] for name in _FIELDS)).where(
    tables.agents.c.ended_at.is_(None), tables.agents.c.host == sa.bindparam("here")
)


def _pause_between(agents: Iterable[FleetAgent]) -> Iterator[FleetAgent]:
    """Yield the same agents, with a pause now and then: hooks need the interpreter meanwhile."""
    for number, agent in enumerate(agents):
        if number % AGENTS_AT_ONCE == AGENTS_AT_ONCE - 1:
            time.sleep(PAUSE_SECONDS)
        yield agent


def read_failure(agent: FleetAgent) -> TurnFailure | None:
    """Read from an agent's thread with which error its last turn ended."""
    if not agent.thread:
        return None
    with suppress(OSError, TasukiError):
        return harnesses.get_harness(agent.harness).read(Path(agent.thread)).failure
    return None


def _read_tokens(agent: FleetAgent) -> int | None:
    path = Path(agent.thread)
    try:
        status = os.stat(harnesses.get_containing_file(path))
        head = harnesses.get_harness(agent.harness).read_head(
            ThreadFile(path, status.st_mtime, status.st_size)
        )
    except (OSError, TasukiError):
        return None
    return head.context_tokens if head else None
