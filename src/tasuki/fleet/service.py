"""The fleet, as the HTTP API, the command line and tests call it: one facade over its parts."""

import logging
import os
import socket
import sys
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from tasuki import config, settings_file
from tasuki import harness as harnesses
from tasuki.config import Loaded
from tasuki.errors import AlreadyUnderWay, NotPossible, TasukiError
from tasuki.fleet import adopting, handing_off, log, reading, schema, spool
from tasuki.fleet.automation import Guard
from tasuki.fleet.bridge import Bridge
from tasuki.fleet.changes import Changes
from tasuki.fleet.correlator import HookPost
from tasuki.fleet.database import Database, normal_url, sqlite_url
from tasuki.fleet.ending import Ending
from tasuki.fleet.engine import Engine, queue_of
from tasuki.fleet.intake import Intake
from tasuki.fleet.lifecycle import Lifecycle, check_folder
from tasuki.fleet.limits import Limits
from tasuki.fleet.lost_agents import check_gone
from tasuki.fleet.notifying import Notifier
from tasuki.fleet.outcomes import Outcomes
from tasuki.fleet.rows import Agent, FleetHandoff
from tasuki.fleet.sending import check_own, press, screen, send_message
from tasuki.fleet.steps import Steps
from tasuki.fleet.vacancies import check_vacant
from tasuki.fleet.vault_records import follow_order
from tasuki.fleet.watch import Watch
from tasuki.harness.hook_script import path_in, write_hook_script
from tasuki.harness.install import Installer
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
    ) -> None:
        data.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.data, self.root, self.loaded = data, root, loaded
        self.host = host_of(data)
        for path in () if database_url else (data.parent / "fleet.db", data / "workflows.db"):
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))  # for their owner alone
        url = normal_url(database_url or sqlite_url(data.parent / "fleet.db"))
        self.database = Database(url)
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
        self._launched = False

    # -- life --------------------------------------------------------------------------

    def launch(self) -> None:
        """Begin: the tables are brought up to date, handoffs under way are carried on."""
        sys.setswitchinterval(SWITCH_SECONDS)
        schema.upgrade(self.database)
        if path_in(self.data).exists():
            write_hook_script(self.data)  # that of an older tasuki may not know where we answer
        self.notifier.start()
        self.intake.start()
        self.engine.launch()
        self._resume_starts()
        self._sweep()
        self.watch.start()
        self._launched = True

    def close(self, seconds: float = 5.0) -> None:
        """Stop; steps under way are carried out anew at the next start."""
        self.changes.close()
        if self._launched:
            self.watch.close(seconds / 2)
            self.intake.close(seconds / 2)
            self.engine.close()
            self.notifier.close(seconds / 4)
        self.panes.leave()
        self.database.close()

    def on_change(self, callback: Callable[[], None]) -> None:
        """Call this, from any thread, after new rows of the log were committed."""
        self.changes.on_log(callback)

    def health(self) -> dict[str, Any]:
        """Whether the parts of the server work, for `/health`."""
        database = "ok" if self.database.answers() else "away"
        if self.intake.hindered and database == "ok":
            database = "refuses"
        status = "ok" if database == "ok" else "degraded"
        return {"status": status, "database": database, "waiting": self.intake.waiting}

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
        self._check_hooks(harness, persona)
        agent = self.lifecycle.create_agent(
            persona_slug=persona, harness=harness, cwd=cwd or os.getcwd(), model=model,
            permission=permission, goal=plain(goal), arguments=arguments,
        )  # fmt: skip
        self.changes.happened([agent.id])
        return agent

    def _check_hooks(self, harness: str, persona: str) -> None:
        """An agent whose hooks are not there would never be heard of. Raises NotPossible."""
        name = harness or (reading.persona(self.database, persona).harness if persona else "claude")
        adapter = harnesses.get(name)
        control = harnesses.control(adapter)
        if control is None:
            return
        additions = control.additions(str(path_in(self.data)))
        states = Installer(self.data.parent).states(f"{name}/fleet", additions)
        if not path_in(self.data).exists() or any(s.state == "add" for s in states):
            raise NotPossible(
                f"The fleet's hooks are not in {adapter.title}: nothing would be heard of the agent. "
                f"Put them there: tasuki install {name} --fleet"
            )

    def adopt(self, *, pane: str, harness: str, persona: str = "", session: str = "") -> Agent:
        """Take on an agent that runs in a pane already. Raises NotPossible."""
        agent = adopting.adopt(
            self.database, self.panes, self.host, pane=pane, harness=harness, persona=persona,
            session=session,
        )  # fmt: skip
        self.changes.happened([agent.id])
        return agent

    def send(self, agent_id: int, text: str) -> dict[str, Any]:
        """Type a text to an agent as a prompt. Raises AgentNotFound, NotPossible."""
        return send_message(self.database, self.bridge, agent_id, text)

    def screen(self, agent_id: int) -> str:
        """What the pane of an agent shows, without secrets. Raises AgentNotFound, NotPossible."""
        return screen(self.panes, reading.agent(self.database, agent_id))

    def press(self, agent_id: int, key: str) -> None:
        """Press a key in an agent's pane. Raises AgentNotFound, NotPossible."""
        press(self.database, self.bridge, agent_id, key)
        self.changes.happened([agent_id])

    def stop_agent(self, agent_id: int) -> Agent:
        """End an agent in its own words. Raises AgentNotFound, NotPossible, StepFailed."""
        if under_way := handing_off.under_way(self.database, agent_id):
            raise AlreadyUnderWay(
                f"Handoff {under_way.id[:8]} of agent {agent_id} is under way. Cancel it first: "
                f"tasuki agent cancel {under_way.id[:8]}"
            )
        if (agent := reading.agent(self.database, agent_id)).ended_at is None:
            check_own(agent)
        self.ending.shutdown_agent(agent_id)
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
        """Begin to hand an agent off; returns at once. Raises AgentNotFound, NotPossible, AlreadyUnderWay."""
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
        """Carry a failed handoff on. Raises HandoffNotFound, NotPossible."""
        again = handing_off.retry(self.database, handoff_id, queue)
        self._begin(again)
        return again

    def cancel(self, handoff_id: str) -> FleetHandoff:
        """End a handoff where it is; nothing that was done is undone."""
        return self._settled(handing_off.cancel(self.database, handoff_id))

    def finish(self, handoff_id: str) -> FleetHandoff:
        """The operator did the rest by hand, or saw that it arrived: the handoff is done."""
        return self._settled(handing_off.finish(self.database, handoff_id))

    def skip(self, handoff_id: str) -> FleetHandoff:
        """Do without the acknowledgement."""
        return self._settled(handing_off.skip(self.database, handoff_id))

    def _begin(self, of: FleetHandoff) -> None:
        self.changes.happened([of.agent_id])
        self.engine.begin(handing_off.begun(of))

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
            if self.engine.is_broken(of.id, of.attempt):
                self.outcomes.give_up(of)
        running = reading.handoffs(self.database, state="running", host=self.host)
        for id in self.engine.sweep(map(handing_off.begun, running)):
            logger.warning("Handoff %s had not been begun; it is now.", id[:8])

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


MACHINE_IDS = (Path("/etc/machine-id"), Path("/var/lib/dbus/machine-id"))


def host_of(data: Path, machine_ids: Sequence[Path] = MACHINE_IDS) -> str:
    """The name under which this machine's agents are kept: its own when it first used the folder.

    A machine may get another name later; its agents stay its own. A folder that was copied, or that
    several machines see, knows each by the id of its system. Where a system has none, it is the one
    without. Lines of the file: that id and the name.
    """
    path = data / "hosts"
    machine = next(filter(None, map(_machine_id, machine_ids)), "-")
    known: dict[str, str] = {}
    with suppress(OSError):
        pairs = (line.partition(" ") for line in path.read_text("utf-8").splitlines())
        known = {id: name for id, _, name in pairs if name}
    if machine not in known:
        name = socket.gethostname() or "localhost"
        if name in known.values():  # a machine that was copied too
            name = f"{name}-{machine[:8]}"
        known[machine] = name
        with path.open("a", encoding="utf-8") as file:
            file.write(f"{machine} {name}\n")
    return known[machine]


def _machine_id(path: Path) -> str:
    with suppress(OSError, UnicodeDecodeError):
        return "".join(path.read_text("utf-8").split())
    return ""


def open_fleet(data: Path, database_url: str, loaded: Loaded, **options: Any) -> Fleet:
    """The fleet whose own files are in a folder; not launched."""
    root = Path(loaded.settings.fleet_root) if loaded.settings.fleet_root else data.parent
    return Fleet(data, root, loaded, database_url=database_url, **options)
