"""What the fleet of this host is made of, as its orders and its automation use it."""

import logging
import os
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy.exc import DBAPIError

from tasuki.config import settings as config
from tasuki.config.settings import LoadedSettings
from tasuki.fleet.agents.agent_ends import AgentShutdown
from tasuki.fleet.agents.lifecycle import AgentLifecycle
from tasuki.fleet.changes.pull_requests import PullRequests
from tasuki.fleet.delivery.messages import KeyTypist
from tasuki.fleet.delivery.prompt_delivery import PromptDelivery
from tasuki.fleet.delivery.terminals import TerminalReader
from tasuki.fleet.exchange.gate import HostGate
from tasuki.fleet.exchange.orders import HostOrders, HostRequests, carry_out_order
from tasuki.fleet.handoff.engine import HandoffEngine
from tasuki.fleet.handoff.runner import StepRunner
from tasuki.fleet.handoff.step_context import StepContext
from tasuki.fleet.handoff.workflow import StepLimits
from tasuki.fleet.hooks import spool
from tasuki.fleet.hooks.intake import EventIntake
from tasuki.fleet.hosts import identify_host
from tasuki.fleet.orders.order import carry_out
from tasuki.fleet.store import log
from tasuki.fleet.store.database import FleetDatabase, build_sqlite_url, is_temporary, normalize_url
from tasuki.fleet.store.log import ChangeFeed
from tasuki.fleet.store.models import FleetHandoff
from tasuki.launch.tmux.panes import TmuxPanes
from tasuki.launch.tmux.server import Tmux

logger = logging.getLogger("tasuki.fleet")


class FleetParts:
    """The database, the panes, the engine and the other hosts of a fleet, before anything runs.

    `data` is the folder of the server's own files, `root` holds `data/personas/`.
    """

    intake: EventIntake

    def __init__(
        self, data: Path, root: Path, loaded: LoadedSettings, database_url: str, limits: StepLimits
    ) -> None:
        data.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.data, self.root, self.loaded = data, root, loaded
        self.host_record = identify_host(data)
        self.host = self.host_record.id
        for path in () if database_url else (data.parent / "fleet.db", data / "workflows.db"):
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))  # readable by the owner alone
        url = normalize_url(database_url or build_sqlite_url(data.parent / "fleet.db"))
        self.database = FleetDatabase(url, self.host)
        self.gate = HostGate(self.database, data)
        self.changes = ChangeFeed()
        tmux = Tmux(loaded.settings.fleet_tmux or "default")
        self.panes = TmuxPanes(tmux, data / "locks", stays=True)
        self.lifecycle = AgentLifecycle(self.database, self.panes, data, root, self.host)
        self.delivery = PromptDelivery(self.database, self.panes, self.changes)
        self.shutdown = AgentShutdown(self.lifecycle, self.delivery, limits)
        self.terminals = TerminalReader(self.panes)
        self.typist = KeyTypist(self.database, self.delivery)
        self.pull_requests = PullRequests()
        context = StepContext(
            self.lifecycle, self.delivery, self.shutdown, limits, self.gate,
            load_settings=partial(config.load_with_sources, Path.cwd()),
            has_waiting_events=lambda: self.intake.waiting > 0 or any(spool.list_waiting(data / "spool")),
        )  # fmt: skip
        self.step_runner = StepRunner(self.database, self.changes, context)
        workflows = build_sqlite_url(data / "workflows.db") if self.database.is_sqlite else url
        self.engine = HandoffEngine(
            workflows, self.host, self.step_runner.carry_out,
            partial(carry_out_order, self.gate, partial(carry_out, self), self.changes.closing.wait),
        )  # fmt: skip
        self.step_runner.begin = self.engine.begin_handoff
        self.orders = HostOrders(self.database, self.engine, self.gate)
        self.requests = HostRequests(self.database, self.gate, partial(carry_out, self))
        self._unstarted: set[str] = set()
        """Handoffs that could not be passed to the engine yet."""

    def give_order(
        self, host: str, name: str, message: dict[str, Any], seconds: float, alone: str
    ) -> Any:
        """Give an order to another host; return its result, a JSON value. Raises HostAway."""
        if seconds:
            return self.requests.ask(host, name, message, seconds)
        return self.orders.give(host, name, message, alone=alone)

    def note(self, kind: str, text: str, **details: Any) -> None:
        """Write a line into the log; `details` are those of `log.note`."""
        log.note(self.database, kind, text, **details)
        self.changes.notify([details["agent_id"]] if "agent_id" in details else [])

    def pass_to_engine(self, handoff: FleetHandoff) -> None:
        """Pass a handoff to the engine; where its database refuses, the watch passes it later.

        The engine itself would wait for a locked file, and its caller with it.
        """
        self.changes.notify([handoff.agent_id])
        why = "it is locked, or there is no room on its disk"
        try:
            if self.engine.is_usable():
                self.engine.begin_handoff(handoff)
                return
        except DBAPIError as error:
            if not is_temporary(error):
                raise
            why = str(error.orig)
        self._unstarted.add(handoff.id)
        text = (
            f"Handoff {handoff.id[:8]} waits to begin: the database of the engine cannot be written to, {why} "
            f"({self.data}). It begins automatically once that is fixed."
        )
        logger.warning(text)
        self.note(
            "alarm", text, agent_id=handoff.agent_id, handoff_id=handoff.id,
            data={"code": "engine_waits"},
        )  # fmt: skip
