"""Agents that are busy while nothing of them moves, in real tmux, with real children."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fleets import World
from waiting import retry_until

from tasuki.fleet.agents.stuck import StuckAgents
from tasuki.fleet.store.database import FleetDatabase, build_sqlite_url
from tasuki.fleet.store.log import ChangeFeed
from tasuki.launch.processes import read_process_tree
from tasuki.launch.tmux.panes import TmuxPanes
from tasuki.launch.tmux.server import Tmux

MINUTES = 15 * 60.0
SECRET = "sk-ant-api03-" + "a1B2" * 20


class Watched(World):
    """A fleet whose own watch looks for no stuck agents: the test's does, with a clock of the test's."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.config(notify="", stuck_minutes=0)
        self.serve()
        self.install()
        self.now = 1000.0
        self.database = FleetDatabase(build_sqlite_url(self.data / "fleet.db"))
        self.panes = TmuxPanes(Tmux("default"), self.data / "locks")
        self.stuck = self.watch()

    def watch(self, **values: Any) -> StuckAgents:
        """What looks for stuck agents, as after a start of the server."""
        host = self.sql("select host from agents limit 1")
        name = host[0]["host"] if host else ""
        return StuckAgents(
            self.database, self.panes, ChangeFeed(), name, MINUTES, clock=lambda: self.now, **values
        )

    def close(self) -> None:
        self.panes.close_client()
        self.database.close()
        super().close()

    def works(self, command: str) -> int:
        """An agent in the middle of a turn, in which a tool runs a command; its id."""
        self.script(stall=[["run", command]])
        agent = self.started()
        self.api("POST", f"/api/agents/{agent}/send", {"text": "Now stall"})
        self.wait(agent, "busy")
        retry_until(lambda: command in self.children(agent))
        self.stuck = self.watch()
        return agent

    def children(self, agent: int) -> list[str]:
        """The commands below the agent's program."""
        tree = read_process_tree()
        assert tree
        below = tree.list_below(self.agent(agent)["process"])
        found = [Path(f"/proc/{one.pid}/cmdline") for one in below]
        return [path.read_bytes().split(b"\0")[2].decode() for path in found if path.exists() and b"-c" in path.read_bytes()]  # fmt: skip

    def processor_time(self, agent: int) -> float:
        """Seconds that the processes below the agent's program have used."""
        tree = read_process_tree()
        assert tree
        return sum(one.seconds for one in tree.list_below(self.agent(agent)["process"]))

    def wait(self, agent: int, state: str) -> Any:
        """The agent once it is in a state."""
        return retry_until(lambda: (a := self.agent(agent))["state"] == state and a)

    def pass_minutes(self, minutes: float, step: float = 15.0) -> None:
        """Let time pass for the watch, with a check in every step of so many seconds."""
        end = self.now + 60 * minutes
        while self.now < end:
            self.now += step
            self.stuck.check_agents()

    def alerts(self) -> list[Any]:
        """The alerts of stuck agents."""
        return [a for a in self.api("GET", "/api/alerts")["alerts"] if a["kind"] == "stuck"]


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Watched]:
    """A fleet that a test watches itself."""
    if read_process_tree() is None:
        pytest.skip("this system has no /proc")
    watched = Watched(tmp_path / "fleet")
    monkeypatch.setenv("TMUX_TMPDIR", str(watched.sockets))
    yield watched
    watched.close()


def test_e13_a_child_that_sleeps_makes_it_stuck_once(fleet: Watched) -> None:
    """E13: after the time, not before; with its command and without its keys; one alert; nothing is done to it."""
    agent = fleet.works(f"TOKEN={SECRET} sleep 987")
    fleet.pass_minutes(14)
    early = fleet.agent(agent)["state"]
    fleet.pass_minutes(40)
    found = fleet.agent(agent)
    (alert,) = fleet.alerts()
    listed, shown = fleet.tasuki("agent", "list"), fleet.tasuki("agent", "show", str(agent))

    assert early == "busy"
    assert found["state"] == "stuck"
    assert found["stuck_with"] == "sleep 987"
    assert MINUTES <= time.time() - found["stuck_at"] < MINUTES + 60
    assert (alert["title"], "It runs: sleep 987" in alert["text"]) == (
        "developer-con-1 seems to be stuck", True,
    )  # fmt: skip
    assert " stuck " in listed
    assert "stuck        sleep 987" in shown
    assert SECRET not in f"{found} {alert} {shown}"
    assert f"TOKEN={SECRET} sleep 987" in fleet.children(agent)


def test_e13_a_child_that_computes_is_not_stuck(fleet: Watched) -> None:
    """Processor time of a child is a sign of life, though nothing is written."""
    agent = fleet.works("while :; do :; done")
    for _ in range(25):
        used = fleet.processor_time(agent)
        retry_until(lambda used=used: fleet.processor_time(agent) > used + 0.2, 60)
        fleet.now += 40
        fleet.stuck.check_agents()

    assert fleet.agent(agent)["state"] == "busy"
    assert fleet.alerts() == []


def test_e13_a_change_ends_it_and_another_occasion_is_told(fleet: Watched) -> None:
    """A byte of its thread makes it busy again; when nothing moves after that, that is a second alert."""
    agent = fleet.works("sleep 987")
    fleet.pass_minutes(20)
    stuck = fleet.agent(agent)["state"]
    with Path(fleet.agent(agent)["thread"]).open("a") as thread:
        thread.write("\n")
    fleet.pass_minutes(1)
    moving = fleet.agent(agent)
    fleet.pass_minutes(20)

    assert (stuck, moving["state"], moving["stuck_at"], moving["stuck_with"]) == (
        "stuck", "busy", None, "",
    )  # fmt: skip
    assert fleet.agent(agent)["state"] == "stuck"
    assert len(fleet.alerts()) == 2


def test_e13_an_event_ends_it(fleet: Watched) -> None:
    """The end of its turn makes a stuck agent idle, as ever."""
    stop = fleet.folder / "go"
    agent = fleet.works(f"while ! test -e {stop}; do sleep 60; done")
    fleet.pass_minutes(20)
    stuck = fleet.agent(agent)
    fleet.script()
    stop.touch()
    tree = read_process_tree()
    assert tree
    for one in tree.list_below(stuck["process"])[-1:]:
        os.kill(one.pid, signal.SIGKILL)
    idle = fleet.wait(agent, "idle")

    assert stuck["state"] == "stuck"
    assert (idle["stuck_at"], idle["stuck_with"]) == (None, "")


def test_e13_words_of_the_screen_are_a_sign_and_numbers_are_none(fleet: Watched) -> None:
    """Seconds and a spinner go on while a child sleeps; a new line of words does not."""
    agent = fleet.works("sleep 987")
    pane = fleet.agent(agent)["pane"]
    tty = fleet.tmux("display-message", "-p", "-t", pane, "#{pane_tty}").strip()
    for number in range(80):
        Path(tty).write_text(f"\r\u2839 {number}s ")
        fleet.now += 15
        fleet.stuck.check_agents()
    counted = fleet.agent(agent)["state"]
    Path(tty).write_text("\r\nnow something else\r\n")
    retry_until(lambda: "something else" in fleet.screen(pane))
    fleet.pass_minutes(1)

    assert counted == "stuck"
    assert fleet.agent(agent)["state"] == "busy"


def test_e13_a_pause_of_the_server_begins_the_count_again(fleet: Watched) -> None:
    """Hours in which nothing was checked, after sleep of the machine, make nothing stuck at once."""
    agent = fleet.works("sleep 987")
    fleet.pass_minutes(10)
    fleet.now += 8 * 3600
    fleet.stuck.check_agents()
    fleet.pass_minutes(10)
    woken = fleet.agent(agent)["state"]
    fleet.pass_minutes(10)

    assert woken == "busy"
    assert fleet.agent(agent)["state"] == "stuck"


def test_e13_a_restart_begins_the_count_again_and_tells_nothing_twice(fleet: Watched) -> None:
    """What is stuck stays so, without a second alert; what is busy is watched from the start."""
    agent = fleet.works("sleep 987")
    fleet.pass_minutes(10)
    fleet.stuck = fleet.watch()
    fleet.pass_minutes(10)
    restarted = fleet.agent(agent)["state"]
    fleet.pass_minutes(10)
    fleet.stuck = fleet.watch()
    fleet.pass_minutes(30)

    assert restarted == "busy"
    assert fleet.agent(agent)["state"] == "stuck"
    assert len(fleet.alerts()) == 1


def test_e13_without_proc_the_other_signs_decide(fleet: Watched) -> None:
    """The alert says that processor time is not known there."""
    agent = fleet.works("sleep 987")
    fleet.stuck = fleet.watch(read_tree=lambda: None)
    fleet.pass_minutes(20)

    assert fleet.agent(agent)["stuck_with"] == ""
    assert "processor time of its processes is not known" in fleet.alerts()[0]["text"]


def test_e13_an_idle_agent_is_never_stuck(fleet: Watched) -> None:
    """Its screen is not even looked at."""
    fleet.started()
    fleet.stuck = fleet.watch()
    fleet.pass_minutes(60)

    assert fleet.stuck.looked_at == 0
    assert fleet.alerts() == []


def test_e13_zero_minutes_switch_it_off(fleet: Watched) -> None:
    """Then nothing is checked."""
    agent = fleet.works("sleep 987")
    fleet.stuck.seconds = 0
    for _ in range(200):
        fleet.now += 15
        fleet.stuck.check_if_due()

    assert (fleet.agent(agent)["state"], fleet.stuck.looked_at) == ("busy", 0)


@pytest.mark.long
def test_e13_the_server_finds_it_by_itself(fleet: Watched) -> None:
    """With a minute in the settings, on the server's own clock, through a stop of the server."""
    fleet.kill(signal.SIGTERM)
    fleet.config(notify="", stuck_minutes=1)
    fleet.serve()
    agent = fleet.works("sleep 987")
    time.sleep(20)
    assert fleet.server
    fleet.server.send_signal(signal.SIGSTOP)
    time.sleep(50)
    fleet.server.send_signal(signal.SIGCONT)
    time.sleep(5)
    woken = fleet.agent(agent)["state"]

    assert woken == "busy"
    retry_until(lambda: fleet.agent(agent)["state"] == "stuck", 90)
    assert len(fleet.alerts()) == 1
