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
from tasuki.fleet import adopting, intents, reading, schema
from tasuki.fleet.bridge import BEHIND, Bridge
from tasuki.fleet.changes import Changes
from tasuki.fleet.database import Database, sqlite_url
from tasuki.fleet.ending import Ending
from tasuki.fleet.lifecycle import Lifecycle
from tasuki.fleet.limits import Limits
from tasuki.fleet.rows import Agent
from tasuki.launch.panes import Panes
from tasuki.launch.processes import is_alive

pytestmark = pytest.mark.skipif(not shutil.which("tmux"), reason="tmux is not installed")


class Desk:
    """A pane in which an operator's shell runs, and a fleet that takes on what is started there."""

    def __init__(self, folder: Path, terminal: Terminal) -> None:
        self.terminal = terminal
        self.database = Database(sqlite_url(folder / "fleet.db"))
        schema.upgrade(self.database)
        self.panes = Panes(terminal, folder / "locks")
        self.bridge = Bridge(self.database, self.panes, Changes())
        lifecycle = Lifecycle(self.database, self.panes, folder, folder, "h")
        self.ending = Ending(lifecycle, self.bridge, Limits(shut_down=1.0, signalled=2.0))
        terminal.run(("new-session", "-d", "-s", "own", "-x", "120", "bash", "--norc"))
        self.pane = terminal.run(("list-panes", "-a", "-F", "#{pane_id}")).strip()

    def runs(self, command: str) -> Agent:
        """What is started there, taken on."""
        self.terminal.run(("send-keys", "-t", self.pane, command, "Enter"))
        return retry_until(self._adopted)

    def _adopted(self) -> Agent | None:
        try:
            return adopting.adopt(self.database, self.panes, "h", pane=self.pane, harness="claude",
                                  persona="", session="")  # fmt: skip
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
        intent = intents.intend(connection, "x-1", agent=agent, kind="instruction", proof="nothing")
    sent = desk.bridge.deliver(agent, intent, f"touch {tmp_path}/executed", 1.0)

    assert (sent.state, sent.why) == ("refused", BEHIND)
    assert "touch" not in desk.terminal.screen(desk.pane).text


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
    deliver = desk.bridge.deliver

    def closing(*given: object, **named: object) -> object:
        desk.terminal.run(("kill-pane", "-t", desk.pane))
        raise PaneGone("closed by hand")

    desk.bridge.deliver = closing  # type: ignore[assignment]
    try:
        said = desk.ending.shutdown_agent(agent.id)
    finally:
        desk.bridge.deliver = deliver  # type: ignore[method-assign]

    assert "SIGTERM ended it" in said
    assert not is_alive(agent.process or 0, agent.process_began)


def test_one_whose_own_pane_was_closed_has_ended(desk: Desk) -> None:
    """Busy or not. The number that its program had is another one's by now, and that lives on."""
    with subprocess.Popen(["sleep", "60"]) as other:
        try:
            id = records.agent(
                desk.database, pane="%99", pid=other.pid, ordered_at=1.0, state="busy"
            )
            said = desk.ending.shutdown_agent(id)
            lives = other.poll() is None
        finally:
            other.kill()

    assert (said, lives) == ("Its pane was closed.", True)
    assert reading.agent(desk.database, id).end_reason == "its pane was closed"
