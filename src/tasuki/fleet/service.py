"""The fleet, as the HTTP API, the command line and tests call it: one facade over its parts."""

import logging
import os
import sys
import uuid
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy.exc import DBAPIError

from tasuki import config, settings_file
from tasuki.config import Loaded, fleet_root
from tasuki.errors import AlreadyUnderWay, NotPossible, OtherHost, ServerEnds, TasukiError
from tasuki.fleet import adopting, handing_off, log, reading, schema, spool
from tasuki.fleet.automation import Guard
from tasuki.fleet.bridge import Bridge
from tasuki.fleet.changes import Changes
from tasuki.fleet.claims import claim_of
from tasuki.fleet.correlator import HookPost
from tasuki.fleet.database import Database, is_gone, make_shrinkable, normal_url, sqlite_url
from tasuki.fleet.ending import Ending
from tasuki.fleet.engine import Engine, queue_of
from tasuki.fleet.failures import Closing
from tasuki.fleet.hosts import check_host, identify_host, settle_hosts
from tasuki.fleet.intake import Intake
from tasuki.fleet.lifecycle import Lifecycle, check_folder, check_hooks
from tasuki.fleet.limits import Limits
from tasuki.fleet.lost_agents import check_gone
from tasuki.fleet.notifying import Notifier
from tasuki.fleet.outcomes import Outcomes
from tasuki.fleet.pruning import Pruner
from tasuki.fleet.rows import Agent, FleetHandoff
from tasuki.fleet.sending import check_own, press, screen, send_message
from tasuki.fleet.start_errors import check_file, explained
from tasuki.fleet.steps import Steps
from tasuki.fleet.vacancies import check_vacant
from tasuki.fleet.vault_records import follow_order
from tasuki.fleet.watch import Watch
from tasuki.harness.hook_script import path_in, write_hook_script
from tasuki.launch.panes import Panes
from tasuki.launch.tmux import Tmux
from tasuki.plain import plain

SWITCH_SECONDS = 0.001
"""How long one thread keeps Python to itself while another one wants it: hooks wait for an answer."""

logger = logging.getLogger("tasuki.fleet")


class Fleet:
    """Personas, agents and their handoffs on this host.

    `data` is the folder of the server's own files, `root` holds `data/personas/`. Nothing runs
    before `launch`; what was under way when the last server ended is carried on then.
    """

    def __init__(
        self,
        data: Path,
        root: Path,
        loaded: Loaded,
        *,
        database_url: str = "",
        limits: Limits = Limits(),  # noqa: B008 a frozen struct
        moved: bool = False,
    ) -> None:
        data.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.data, self.root, self.loaded = data, root, loaded
        self.known_host = identify_host(data)
        self.host, self.moved = self.known_host.id, moved
        for path in () if database_url else (data.parent / "fleet.db", data / "workflows.db"):
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))  # for their owner alone
        url = normal_url(database_url or sqlite_url(data.parent / "fleet.db"))
        self.database = Database(url)
        self.claim = claim_of(url, self.known_host)
        self.changes = Changes()
        self.panes = Panes(
            Tmux(loaded.settings.fleet_tmux or "default"), data / "locks", stays=True
        )
        self.lifecycle = Lifecycle(self.database, self.panes, data, root, self.host)
        self.bridge = Bridge(self.database, self.panes, self.changes)
        self.ending = Ending(self.lifecycle, self.bridge, limits)
        self.threshold = float(loaded.settings.context_threshold)
        self.guard = Guard(self.database, self.threshold, self.host)
        settings = loaded.settings
        self.notifier = Notifier(self.database, self.host, settings.notify, config.alerts(settings))
        steps = Steps(
            self.lifecycle, self.bridge, self.ending, limits,
            load_settings=partial(config.loaded, Path.cwd()),
            unheard=lambda: self.intake.waiting > 0 or any(spool.waiting(data / "spool")),
        )  # fmt: skip
        self.outcomes = Outcomes(self.database, self.changes, steps)
        workflows = sqlite_url(data / "workflows.db") if self.database.is_sqlite else url
        self.engine = Engine(workflows, self.host, self.outcomes.carry_out)
        self.intake = Intake(
            self.database, self.changes, self.host, skill=self._skill, threshold=self.threshold,
            after=self._after, socket=self.panes.socket_path,
        )  # fmt: skip
        self.watch = Watch(
            self.database, self.panes, self.lifecycle, self.intake, data / "spool", self._sweep,
            self._automatic, self.threshold,
        )  # fmt: skip
        self.keep_days = int(settings.keep_days)
        self.pruner = Pruner(self.database, self.engine, data, root, lambda: self.keep_days)
        self._launched = False
        self._unbegun: set[str] = set()
        """Handoffs that the engine could not be told of yet."""
        self.lost = ""
        """Why this server may not go on; empty while it may."""
        self._on_lost: list[Callable[[], None]] = []

    # -- life --------------------------------------------------------------------------

    def launch(self) -> None:
        """Begin: the tables are brought up to date, handoffs under way are carried on.

        Raises ServerRuns where another server of this host has the database, ServerFailed, StoreFailed.
        """
        sys.setswitchinterval(SWITCH_SECONDS)
        with explained(self.database.url):
            self.claim.take()
            check_file(self.database.engine)
            make_shrinkable(self.database.engine)
            with self.claim.starting():
                schema.upgrade(self.database)
                formers = settle_hosts(
                    self.database, self.known_host, queue_of(self.host), self.claim.is_running,
                    moved=self.moved,
                )  # fmt: skip
                if path_in(self.data).exists():
                    write_hook_script(self.data)  # an older tasuki's may not know where we answer
                self.notifier.start()
                self.intake.start()
                with explained(self.engine.url, "workflows"):
                    self.engine.launch(formers)
            self._resume_starts()
            self._sweep()
        self.claim.watch(self._lose)
        self.watch.start()
        self.pruner.start()
        self._launched = True

    def _lose(self, why: str) -> None:
        """Another server has taken this one's place: nothing is done from here on."""
        self.lost = why
        self.changes.close()
        self.watch.stop()
        self.pruner.stop()
        for callback in self._on_lost:
            callback()

    def on_lost(self, callback: Callable[[], None]) -> None:
        """Call this, from any thread, when another server has taken this one's place; `lost` says how."""
        self._on_lost.append(callback)

    def close(self, seconds: float = 5.0) -> None:
        """Stop; steps under way are carried out anew at the next start."""
        self.changes.close()
        if self._launched:
            self.pruner.close(seconds / 2)
            self.watch.close(seconds / 2)
            self.intake.close(seconds / 2)
            self.engine.close()
            self.notifier.close(seconds / 4)
        self.panes.leave()
        self.claim.release()
        self.database.close()

    def on_change(self, callback: Callable[[], None]) -> None:
        """Call this, from any thread, after new rows of the log were committed."""
        self.changes.on_log(callback)

    def health(self) -> dict[str, Any]:
        """Whether the parts of the server work, for `/health`."""
        database = "ok" if self.database.answers() else "away"
        is_hindered = self.intake.hindered or self.outcomes.waiting or not self.database.has_room()
        if database == "ok" and is_hindered:
            database = "refuses"
        is_well = database == "away" or (self.engine.is_usable() and not self._unbegun)
        workflows = "ok" if is_well and not self.engine.count_broken() else "refuses"
        status = "ok" if database == workflows == "ok" else "degraded"
        return {
            "status": status, "database": database, "workflows": workflows,
            "waiting": self.intake.waiting,
        }  # fmt: skip

    def note(
        self,
        kind: str,
        text: str,
        *,
        agent_id: int | None = None,
        handoff_id: str | None = None,
        data: dict[str, Any] | None = None,
    ) -> None:
        """Write a line into the log."""
        with self.database.write() as connection:
            log.note(connection, kind, text, agent_id=agent_id, handoff_id=handoff_id, data=data)
        self.changes.happened([agent_id] if agent_id is not None else [])

    # -- settings ----------------------------------------------------------------------

    def configure(self, **changes: Any) -> None:
        """Change settings of the user's own file, and what holds here from now on.

        Takes `context_threshold` in percent, `notify` and `notify_about`; None for the default.
        Raises ConfigInvalid, StoreFailed.
        """
        settings_file.write(changes)
        self._settle(config.load(Path.cwd()))
        names = ", ".join(sorted(changes))
        self.note("settings", f"Settings were changed: {names}.", data={"names": sorted(changes)})

    def _settle(self, settings: config.Settings) -> None:
        threshold = float(settings.context_threshold)
        self.threshold = threshold
        self.keep_days = int(settings.keep_days)
        self.guard.threshold = self.intake.threshold = self.watch.threshold = threshold
        self.notifier.take(settings.notify, config.alerts(settings))

    # -- agents ------------------------------------------------------------------------

    def start_agent(
        self,
        *,
        harness: str = "",
        persona: str = "",
        cwd: str = "",
        model: str = "",
        permission: str = "",
        goal: str = "",
        arguments: Sequence[str] = (),
    ) -> Agent:
        """Start an agent.

        Raises PersonaNotFound, NotPossible, AlreadyUnderWay, HarnessMissing, LaunchFailed.
        """
        if persona:
            with self.database.write() as connection:
                check_vacant(connection, persona)
            self.lifecycle.skill(persona)  # one that cannot be given is told before anything begins
        check_folder(cwd or os.getcwd())
        name = harness or (reading.persona(self.database, persona).harness if persona else "claude")
        check_hooks(self.data, name)
        agent = self.lifecycle.create_agent(
            persona_slug=persona, harness=harness, cwd=cwd or os.getcwd(), model=model,
            permission=permission, goal=plain(goal), arguments=arguments,
        )  # fmt: skip
        self.changes.happened([agent.id])
        return agent

    def adopt(self, *, pane: str, harness: str, persona: str = "", session: str = "") -> Agent:
        """Take on an agent that runs in a pane already. Raises NotPossible."""
        agent = adopting.adopt(
            self.database, self.panes, self.host, pane=pane, harness=harness, persona=persona,
            session=session,
        )  # fmt: skip
        self.changes.happened([agent.id])
        return agent

    def send(self, agent_id: int, text: str, key: str = "") -> dict[str, Any]:
        """Type a text to an agent as a prompt, once for each key. Raises AgentNotFound, OtherHost, NotPossible."""
        self._check_agent(agent_id)
        return send_message(self.database, self.bridge, agent_id, text, key)

    def screen(self, agent_id: int) -> str:
        """What the pane of an agent shows, without secrets. Raises AgentNotFound, OtherHost, NotPossible."""
        return screen(self.panes, self._check_agent(agent_id))

    def press(self, agent_id: int, key: str) -> None:
        """Press a key in an agent's pane. Raises AgentNotFound, OtherHost, NotPossible."""
        self._check_agent(agent_id)
        press(self.database, self.bridge, agent_id, key)
        self.changes.happened([agent_id])

    def stop_agent(self, agent_id: int) -> Agent:
        """End an agent in its own words. Raises AgentNotFound, OtherHost, NotPossible, StepFailed."""
        agent = self._check_agent(agent_id)
        if under_way := handing_off.under_way(self.database, agent_id):
            raise AlreadyUnderWay(
                f"Handoff {under_way.id[:8]} of agent {agent_id} is under way. Cancel it first: "
                f"tasuki agent cancel {under_way.id[:8]}"
            )
        if agent.ended_at is None:
            check_own(agent)
        try:
            self.ending.shutdown_agent(agent_id)
        except Closing as error:
            raise ServerEnds(
                f"The server ends before agent {agent_id} did. Stop it again once the server runs: nothing is done twice."
            ) from error
        self.changes.happened([agent_id])
        return reading.agent(self.database, agent_id)

    # -- handoffs ----------------------------------------------------------------------

    def hand_off(
        self,
        agent_id: int,
        *,
        reason: str,
        context: str = "",
        goal: str = "",
        force: bool = False,
        from_thread: bool = False,
        automatic: bool = False,
        queue: str = "",
    ) -> FleetHandoff:
        """Begin to hand an agent off; returns at once.

        Raises AgentNotFound, OtherHost, NotPossible, AlreadyUnderWay.
        """
        self._check_agent(agent_id)
        request = handing_off.HandoffRequest(reason, context, goal, force, from_thread, automatic)
        agent = reading.agent(self.database, agent_id)
        if from_thread and agent.ended_at is not None and agent.host == self.host:
            check_gone(self.panes, agent)
        made = handing_off.begin(
            self.database, agent_id, request, host=self.host, queue=queue or queue_of(self.host),
            new_id=uuid.uuid4().hex,
        )  # fmt: skip
        self._begin(made)
        return made

    def retry(self, handoff_id: str, queue: str = "") -> FleetHandoff:
        """Carry a failed handoff on. Raises HandoffNotFound, OtherHost, NotPossible."""
        self._check_handoff(handoff_id)
        again = handing_off.retry(self.database, handoff_id, queue)
        self._begin(again)
        return again

    def cancel(self, handoff_id: str) -> FleetHandoff:
        """End a handoff where it is; nothing that was done is undone. Raises HandoffNotFound, OtherHost."""
        self._check_handoff(handoff_id)
        return self._settled(handing_off.cancel(self.database, handoff_id))

    def finish(self, handoff_id: str) -> FleetHandoff:
        """The operator did the rest by hand, or saw that it arrived: the handoff is done. Raises HandoffNotFound, OtherHost."""
        self._check_handoff(handoff_id)
        return self._settled(handing_off.finish(self.database, handoff_id))

    def skip(self, handoff_id: str) -> FleetHandoff:
        """Do without the acknowledgement. Raises HandoffNotFound, OtherHost."""
        self._check_handoff(handoff_id)
        return self._settled(handing_off.skip(self.database, handoff_id))

    def _check_agent(self, id: int) -> Agent:
        """The agent, if it is this host's. Raises AgentNotFound, OtherHost."""
        with self.database.read() as connection:
            agent = reading.agent_in(connection, id)
            check_host(connection, f"Agent {id}", agent.host, self.host)
        return agent

    def tell_elsewhere(self, agent_id: int) -> str:
        """A sentence where an agent is another host's; empty for this one's. Raises AgentNotFound."""
        try:
            self._check_agent(agent_id)
        except OtherHost as error:
            return str(error)
        return ""

    def _check_handoff(self, id: str) -> None:
        """Raises HandoffNotFound, OtherHost."""
        with self.database.read() as connection:
            of = reading.handoff_in(connection, id)
            check_host(connection, f"Handoff {of.id[:8]}", of.host, self.host)

    def _begin(self, of: FleetHandoff) -> None:
        """Tell the engine of a handoff; where it cannot write that down, `_sweep` tells it again.

        The engine itself would wait for a file that is locked, and whoever asked with it.
        """
        self.changes.happened([of.agent_id])
        why = "it is locked, or there is no room on its disk"
        try:
            if self.engine.is_usable(is_fresh=True):
                self.engine.begin(handing_off.begun(of))
                return
        except DBAPIError as error:
            if not is_gone(error):
                raise
            why = str(error.orig)
        self._unbegun.add(of.id)
        text = (
            f"Handoff {of.id[:8]} waits to begin: the database of the engine cannot be written to, {why} "
            f"({self.data}). It begins by itself once that is mended."
        )
        logger.warning(text)
        self.note(
            "alarm", text, agent_id=of.agent_id, handoff_id=of.id, data={"code": "engine_waits"}
        )

    def _settled(self, of: FleetHandoff) -> FleetHandoff:
        follow_order(of)
        ids = [of.agent_id, *([of.successor_id] if of.successor_id is not None else [])]
        self.changes.happened(ids)
        return of

    def _resume_starts(self) -> None:
        """Carry on the start of agents that the last server had begun to start for the operator."""
        with_handoff = {of.successor_id for of in reading.handoffs(self.database, state="running")}
        for agent in reading.agents(self.database, ended=False, host=self.host):
            begun = agent.state == "starting" and not agent.pane and agent.registered_at is None
            if begun and agent.id not in with_handoff:
                try:
                    self.lifecycle.start(agent.id)
                except TasukiError as error:
                    self.lifecycle.gone(agent.id, "ended", f"it could not be started: {error}")

    def _sweep(self) -> None:
        """Start what is written down as under way and unknown to the engine; note what it gave up."""
        for of in reading.handoffs(self.database, state="running", host=self.host):
            if why := self.engine.why_broken(of.id, of.attempt):
                self.outcomes.give_up(of, why)
        under_way = reading.handoffs(self.database, state="running", host=self.host)
        running = [handing_off.begun(of) for of in under_way]
        self.engine.forget_broken(running)
        if not self.engine.is_usable(is_fresh=True):
            return
        for id in self.engine.sweep(running):
            logger.warning("Handoff %s had not been begun; it is now.", id[:8])
        self._unbegun.clear()

    # -- events ------------------------------------------------------------------------

    async def hook(self, post: HookPost) -> str:
        """Take an event of a hook in; what the hook prints."""
        return await self.intake.take(post)

    def _skill(self, slug: str) -> str:
        try:
            return self.lifecycle.skill(slug)
        except (OSError, TasukiError) as error:
            logger.error("The skill of %s cannot be read: %s", slug, error)
            return ""

    def _after(self, unmeasured: set[int], idle: set[int]) -> None:
        """What follows from events, outside of their transaction; in the intake's thread."""
        self.watch.context_of(unmeasured)
        self._automatic(idle)

    def _automatic(self, ids: set[int]) -> None:
        """Hand agents off by themselves where that is wanted."""
        for id in ids:
            wanted, stopped = self.guard.wants(id)
            if stopped:
                self.changes.happened([id])
            if wanted:
                try:
                    self.hand_off(id, reason="context_limit", automatic=True)
                except (NotPossible, AlreadyUnderWay) as error:
                    logger.info("Agent %s is not handed off by itself: %s", id, error)


def open_fleet(data: Path, database_url: str, loaded: Loaded, **options: Any) -> Fleet:
    """The fleet whose own files are in a folder; not launched."""
    root = fleet_root(loaded.settings, data.parent)
    return Fleet(data, root, loaded, database_url=database_url, **options)
