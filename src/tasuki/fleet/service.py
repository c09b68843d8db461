"""The fleet, as the HTTP API, the command line and tests call it: one facade for its parts."""

import logging
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from tasuki.config import edit
from tasuki.config import settings as config
from tasuki.config.settings import LoadedSettings, find_fleet_root
from tasuki.errors import AlreadyUnderWay, NotPossible, TasukiError
from tasuki.fleet.agents.limits import LimitHandoffs, LimitResumer
from tasuki.fleet.agents.queue_runner import QueueRunner
from tasuki.fleet.agents.watch import FleetWatch
from tasuki.fleet.alerts import AlertNotifier
from tasuki.fleet.automation import AutomationGuard
from tasuki.fleet.changes.keeper import WorkKeeper
from tasuki.fleet.exchange.heartbeat import HostHeartbeat
from tasuki.fleet.exchange.orders import HostListener
from tasuki.fleet.exchange.thread_copies import ThreadKeeper
from tasuki.fleet.handoff.engine import build_queue_name, refused_rows
from tasuki.fleet.handoff.workflow import StepLimits
from tasuki.fleet.hooks.intake import EventIntake
from tasuki.fleet.hosts import settle_hosts
from tasuki.fleet.membership import roles
from tasuki.fleet.membership.retirement import check_retired
from tasuki.fleet.membership.tokens import tidy_tokens
from tasuki.fleet.membership.urls import describe_unverified
from tasuki.fleet.orders.agents import resume_agent
from tasuki.fleet.orders.bodies import NewHandoff, Resumption
from tasuki.fleet.orders.handoffs import hand_off
from tasuki.fleet.parts import FleetParts
from tasuki.fleet.server_locks import build_claim
from tasuki.fleet.store import queries, schema
from tasuki.fleet.store.database import make_shrinkable
from tasuki.fleet.store.pruner import FleetPruner
from tasuki.fleet.store.start_errors import check_file, explain_errors
from tasuki.install.hook_script import get_script_path, write_hook_script
from tasuki.interpreter import prepare_structs

SWITCH_SECONDS = 0.001
"""How long one thread holds Python while another one waits: hooks wait for an answer."""

logger = logging.getLogger("tasuki.fleet")


class Fleet(FleetParts):
    """Personas, agents and their handoffs on this host.

    Nothing runs before `launch`, which continues what was under way when the last server ended.
    """

    def __init__(
        self,
        data: Path,
        root: Path,
        loaded: LoadedSettings,
        *,
        database_url: str = "",
        limits: StepLimits = StepLimits(),  # noqa: B008 a frozen struct
        moved: bool = False,
    ) -> None:
        super().__init__(data, root, loaded, database_url, limits)
        self.moved, settings = moved, loaded.settings
        self.claim = build_claim(self.database.url, self.host_record)
        self.threshold = float(settings.context_threshold)
        self.guard = AutomationGuard(self.database, self.threshold, self.host)
        self._hand_off = partial(hand_off, self, automatic=True)
        self.limit_handoffs = LimitHandoffs(self.guard, self.changes, self._hand_off)
        self.notifier = AlertNotifier(
            self.database, self.host, settings.notify, config.list_alerts(settings)
        )
        self.heartbeat = HostHeartbeat(self.database, data, self._handle_loss)
        self.listener = HostListener(
            self.database, self.changes.notify_log, self.requests.look,
            lambda: self.heartbeat.others > 0,
        )  # fmt: skip
        self.changes.on_log(self.listener.announce_log)
        self.keeper = ThreadKeeper(self.database, lambda: settings.keep_threads == "all")
        self.work = WorkKeeper(self.database, self.changes, self.host)
        self.intake: EventIntake = EventIntake(
            self.database, self.changes, self.host, read_skill=self._read_skill, threshold=self.threshold,
            on_commit=self._follow_events, on_events=self.work.queue, socket=self.panes.find_socket_path,
        )  # fmt: skip
        self.watch = FleetWatch(
            self.database, self.panes, self.lifecycle, self.intake, data / "spool", self._start_missing,
            self._hand_off_full, self.limit_handoffs.begin, self.threshold,
            60.0 * settings.stuck_minutes,
        )  # fmt: skip
        resumer = LimitResumer(
            self.guard,
            settings.resume_at_reset,
            lambda id, key: resume_agent(self, id, Resumption(), key),
        )
        self.queue = QueueRunner(
            self.database, self.delivery, self.changes, self.gate, resumer.resume_all
        )
        self.keep_days = settings.keep_days
        self.pruner = FleetPruner(self.database, self.engine, data, root, lambda: self.keep_days)
        self._launched = False
        self.lost = ""
        """Why this server must stop; empty while it may continue."""
        self._on_lost: list[Callable[[], None]] = []

    def launch(self) -> None:
        """Launch: upgrade the tables and continue handoffs under way.

        Raises ServerRuns where another server of this host has the database, ServerFailed,
        StoreFailed.
        """
        sys.setswitchinterval(SWITCH_SECONDS)
        with explain_errors(self.database.url):
            self.claim.take()
            check_file(self.database.engine)
            make_shrinkable(self.database.engine)
            with self.claim.hold_start_lock(), roles.explain_missing_rights(self.database):
                schema.create_tables(self.database)
                schema.settle_log(self.database)
                check_retired(self.database, self.host)
                former_hosts = settle_hosts(
                    self.database, self.host_record, build_queue_name(self.host), self.claim.is_running,
                    moved=self.moved,
                )  # fmt: skip
                roles.record_role(self.database, self.host)
                self.gate.publish_key()
                if get_script_path(self.data).exists():
                    # The script of an older tasuki may not know this server's address.
                    write_hook_script(self.data)
                self.heartbeat.start()
                self.notifier.start()
                self.intake.start()
                with explain_errors(self.engine.url, "workflows"):
                    self.engine.launch(former_hosts)
            tidy_tokens(self.database)
            self.lifecycle.resume_starts()
            self._start_missing()
            self.limit_handoffs.begin_all()
        self.claim.watch(self._handle_loss)
        for part in (self.listener, self.keeper, self.work, self.watch, self.queue, self.pruner):
            part.start()
        self._launched = True
        if warning := describe_unverified(self.database.url):
            logger.warning(warning)

    def _handle_loss(self, why: str) -> None:
        """Stop all work: another server has taken this one's place."""
        self.lost = why
        self.changes.close()
        for stop in (self.watch.stop, self.queue.stop, self.pruner.stop, *self._on_lost):
            stop()

    def on_lost(self, callback: Callable[[], None]) -> None:
        """Call back, in any thread, when another server takes this place; `lost` says why."""
        self._on_lost.append(callback)

    def close(self, seconds: float = 5.0) -> None:
        """Stop; the next start carries out again the steps that were under way."""
        self.changes.close()
        if self._launched:
            for first in (self.heartbeat, self.listener):  # Which may still take in a question.
                first.close(seconds / 4)
            self.requests.close()
            for quick in (self.keeper, self.work):
                quick.close(seconds / 4)
            for slow in (self.pruner, self.watch, self.queue, self.intake):
                slow.close(seconds / 2)
            self.engine.close()
            self.notifier.close(seconds / 4)
        self.panes.close_client()
        self.claim.release()
        self.database.close()

    def list_faults(self) -> list[str]:
        """List what does not work, for `/health`; PostgreSQL is not asked, SQLite may take 2 s."""
        parts: tuple[Any, ...] = (self.claim, self.heartbeat, self.listener, self.engine)
        faults = [text for part in parts if (text := part.sign.describe_silence())]
        if self.database.is_sqlite and not self.database.is_answering():
            faults.append("The database does not answer.")
        if self.intake.is_blocked or self.step_runner.waiting or not self.database.has_room():
            faults.append(
                "The database takes no writes, or has just begun to again: events and handoffs wait."
            )
        is_usable = not self.database.is_sqlite or self.engine.is_usable()
        if self._unstarted or self.engine.count_broken() or not is_usable:
            faults.append("The database of the engine takes no writes: handoffs wait.")
        return faults

    def configure(self, **changes: Any) -> None:
        """Change settings of the user's own file, and apply them at once.

        Takes `context_threshold` in percent, `notify` and `notify_about`; None for the default.
        Raises ConfigInvalid, StoreFailed.
        """
        edit.write_settings(changes)
        settings, names = config.load_settings(Path.cwd()), sorted(changes)
        self.threshold, self.keep_days = float(settings.context_threshold), settings.keep_days
        self.guard.threshold = self.intake.threshold = self.watch.threshold = self.threshold
        self.notifier.configure(settings.notify, config.list_alerts(settings))
        self.note("settings", f"Settings were changed: {', '.join(names)}.", data={"names": names})

    def _start_missing(self) -> None:
        """Start recorded handoffs that the engine lacks; record a failure for those it gave up."""
        running = queries.list_handoffs(self.database, state="running", host=self.host)
        started = self.engine.reconcile(running, self.step_runner.give_up)
        if refused_rows:
            self.note("alarm", refused_rows.pop(), data={"code": "row_refused"})
            refused_rows.clear()
        if started is None:
            return
        for id in started:
            logger.warning("Handoff %s had not been begun; it is now.", id[:8])
        self._unstarted.clear()

    def _read_skill(self, slug: str) -> str:
        try:
            return self.lifecycle.read_skill(slug)
        except (OSError, TasukiError) as error:
            logger.error("The skill of %s cannot be read: %s", slug, error)
            return ""

    def _follow_events(self, unmeasured: set[int], idle: set[int], failed: set[int]) -> None:
        """Follow up on events, outside of their transaction; in the intake's thread."""
        self.watch.queue_context(unmeasured)
        self.keeper.queue(idle)
        self._hand_off_full(idle | failed)
        self.limit_handoffs.begin(failed)

    def _hand_off_full(self, agent_ids: set[int]) -> None:
        """Hand agents off automatically where that is wanted."""
        for agent_id in agent_ids:
            is_wanted, stop_reason = self.guard.decide_handoff(agent_id)
            if stop_reason:
                self.changes.notify([agent_id])
            if is_wanted:
                try:
                    self._hand_off(agent_id, NewHandoff("context_limit"))
                except (NotPossible, AlreadyUnderWay) as error:
                    logger.info("Agent %s is not handed off automatically: %s", agent_id, error)


def open_fleet(data: Path, database_url: str, loaded: LoadedSettings, **options: Any) -> Fleet:
    """Open the fleet whose own files are in a folder; it is not launched."""
    prepare_structs()  # before the first of its threads
    root = find_fleet_root(loaded.settings, data.parent)
    return Fleet(data, root, loaded, database_url=database_url, **options)
