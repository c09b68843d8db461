"""Whose terminal and whose process it is: what is typed reaches the agent alone, and its end is its own."""

import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import fleet_records as records
import pytest
from terminals import Terminal
from waiting import retry_until

from tasuki.errors import NotPossible, PaneGone
from tasuki.fleet.agents import lifecycle
from tasuki.fleet.agents.agent_ends import AgentShutdown
from tasuki.fleet.agents.lifecycle import AgentLifecycle
from tasuki.fleet.delivery import outbox
from tasuki.fleet.delivery.prompt_delivery import NOT_IN_FRONT, PromptDelivery
from tasuki.fleet.handoff.workflow import StepLimits
from tasuki.fleet.orders.bodies import Adoption
from tasuki.fleet.store import queries, schema
from tasuki.fleet.store.database import FleetDatabase, build_sqlite_url
from tasuki.fleet.store.log import ChangeFeed
from tasuki.fleet.store.models import FleetAgent
from tasuki.launch.processes import is_alive
from tasuki.launch.tmux.panes import TmuxPanes

pytestmark = pytest.mark.skipif(not shutil.which("tmux"), reason="tmux is not installed")


class Desk:
    """A pane in which an operator's shell runs, and a fleet that takes on what is started there."""

    def __init__(self, folder: Path, terminal: Terminal) -> None:
        self.terminal = terminal
        self.database = FleetDatabase(build_sqlite_url(folder / "fleet.db"))
        schema.create_tables(self.database)
        self.panes = TmuxPanes(terminal, folder / "locks")
        self.bridge = PromptDelivery(self.database, self.panes, ChangeFeed())
        lifecycle = AgentLifecycle(self.database, self.panes, folder, folder, "h")
        self.ending = AgentShutdown(
            lifecycle, self.bridge, StepLimits(shut_down=1.0, signalled=2.0)
        )
        terminal.run(("new-session", "-d", "-s", "own", "-x", "120", "bash", "--norc"))
        self.pane = terminal.run(("list-panes", "-a", "-F", "#{pane_id}")).strip()

    def runs(self, command: str) -> FleetAgent:
        """What is started there, taken on."""
        self.terminal.run(("send-keys", "-t", self.pane, command, "Enter"))
        return retry_until(self._adopted)

    def _adopted(self) -> FleetAgent | None:
        try:
            wanted = Adoption(self.pane, "claude")
            return lifecycle.adopt_agent(self.database, self.panes, "h", wanted)
        except NotPossible:
            return None


@pytest.fixture
def desk(tmp_path: Path, terminal: Terminal) -> Iterator[Desk]:
    """A desk of the test's own."""
    made = Desk(tmp_path, terminal)
    yield made
    made.database.close()


def test_nothing_is_typed_to_the_shell_of_one_that_is_stopped(desk: Desk, tmp_path: Path) -> None:
    """Ctrl-Z: the agent lives, and its shell would carry out what is meant for it."""
    agent = desk.runs("sleep 60")
    desk.terminal.run(("send-keys", "-t", desk.pane, "C-z"))
    desk.terminal.shows(desk.pane, "Stopped")
    with desk.database.write() as connection:
        intent = outbox.record_intent(
            connection, "x-1", agent=agent, kind="instruction", proof="nothing"
        )
    sent = desk.bridge.deliver_text(agent, intent, f"touch {tmp_path}/executed", 1.0)

    assert (sent.state, sent.why) == ("refused", NOT_IN_FRONT)
    assert "touch" not in desk.terminal.capture_screen(desk.pane).text


def test_one_behind_a_pipe_is_known_by_what_still_runs(desk: Desk) -> None:
    """The first program of the pipe, whose number its group has, ended long ago."""
    agent = desk.runs("echo brief | sleep 60")

    assert agent.process
    assert agent.process_began
    assert is_alive(agent.process, agent.process_began)


def test_a_program_that_outlives_its_pane_is_ended(desk: Desk) -> None:
    """It ignores the hang-up: a pane that is closed is no end of it."""
    agent = desk.runs("python3 -c 'import signal, time; signal.signal(1, 1); time.sleep(60)'")
    time.sleep(0.5)  # until it ignores it
    deliver = desk.bridge.deliver_text

    def closing(*given: object, **named: object) -> object:
        desk.terminal.run(("kill-pane", "-t", desk.pane))
        raise PaneGone("closed by hand")

    desk.bridge.deliver_text = closing  # type: ignore[assignment]
    try:
        said = desk.ending.shut_down_agent(agent.id)
    finally:
        desk.bridge.deliver_text = deliver  # type: ignore[method-assign]

    assert "SIGTERM ended it" in said
    assert not is_alive(agent.process or 0, agent.process_began)


def test_one_whose_own_pane_was_closed_has_ended(desk: Desk) -> None:
    """Busy or not. The number that its program had is another one's by now, and that lives on."""
    with subprocess.Popen(["sleep", "60"]) as other:
        try:
            id = records.agent(
                desk.database, pane="%99", pid=other.pid, ordered_at=1.0, state="busy"
            )
            said = desk.ending.shut_down_agent(id)
            lives = other.poll() is None
        finally:
            other.kill()

    assert (said, lives) == ("Its pane was closed.", True)
    assert queries.load_agent(desk.database, id).end_reason == "its pane was closed"
