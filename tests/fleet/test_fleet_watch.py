"""A handoff that is watched: its steps as they end, on a terminal and in a pipe; and the whole by the command line."""

import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fleet_records as records
import pytest
import sqlalchemy as sa
from fleet_desk import Desk
from fleets import World
from forked import TASUKI
from waiting import retry_until
from web_servers import serving

from tasuki.cli.fleet.handoffs import format_handoffs
from tasuki.fleet.store import tables
from tasuki.fleet.store.failures import REMEDIES
from tasuki.web.security import single_server


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    """A server of the test's own."""
    with (
        serving(tmp_path) as served,
        single_server.publish_address(tmp_path / "fleet", served.host),
    ):
        yield Desk(tmp_path, served)


def _step(desk: Desk, name: str, outcome: str = "", note: str = "") -> None:
    """A step of the handoff bbbb… as it begins, or ends."""
    steps, handoff = tables.steps, "b" * 32
    with desk.database.write() as connection:
        if outcome:
            values = {"outcome": outcome, "note": note, "ended_at": 12.5}
            connection.execute(sa.update(steps).where(steps.c.step == name).values(**values))
        else:
            values = {"handoff_id": handoff, "attempt": 1, "step": name, "started_at": 10.0}
            connection.execute(sa.insert(steps).values(**values))
    desk.served.fleet.note("handoff", name, handoff_id=handoff)


def _ended(desk: Desk, **values: Any) -> None:
    """The handoff bbbb… has ended."""
    with desk.database.write() as connection:
        connection.execute(sa.update(tables.handoffs).values(**values))
    desk.served.fleet.note("handoff", "ended", handoff_id="b" * 32)


def watching(desk: Desk, *, terminal: bool = False) -> "subprocess.Popen[bytes]":
    """Someone who watches the handoff bbbb…, in a pipe or in a terminal; `out` is what they see."""
    program = "import sys; from tasuki.cli.fleet.client import FleetClient; from tasuki.cli.fleet.handoffs import watch_handoff\nsys.exit(watch_handoff(FleetClient(), 'b' * 32))"
    main, other = pty.openpty() if terminal else os.pipe()
    made = subprocess.Popen(
        [sys.executable, "-c", program], env=desk.env, stdout=other, stderr=subprocess.STDOUT
    )
    os.close(other)
    made.seen = b""  # type: ignore[attr-defined]

    def read() -> None:
        while True:
            try:
                piece = os.read(main, 4096)
            except OSError:
                break
            if not piece:
                break
            made.seen += piece  # type: ignore[attr-defined]
        os.close(main)

    made.reader = threading.Thread(target=read)  # type: ignore[attr-defined]
    made.reader.start()  # type: ignore[attr-defined]
    return made


def saw(one: Any, words: str) -> bool:
    """Whether those who watch have seen some words."""
    return words in one.seen.decode()


@pytest.fixture
def handed(desk: Desk) -> Desk:
    """A handoff that is under way."""
    slug = desk.persona()
    records.handoff(
        desk.database, "b" * 32, records.agent(desk.database, persona=slug), persona=slug
    )
    return desk


def test_the_steps_are_shown_as_they_end(handed: Desk) -> None:
    """Each once, with its time and its note; at the end who works on. Exit code 0."""
    one: Any = watching(handed)
    _step(handed, "instruct")
    _step(handed, "instruct", "ok")
    retry_until(lambda: saw(one, "✓ instruct        2.5 s"))
    _step(handed, "check")
    _step(handed, "check", "ok", "Quality of the document: 80 of 100.")
    successor = records.agent(handed.database)
    _ended(handed, state="done", step="done", successor_id=successor)
    one.wait(30)
    one.reader.join(10)

    assert [
        "✓ instruct        2.5 s",
        "✓ check           2.5 s  Quality of the document: 80 of 100.",
        f"Handoff bbbbbbbb is done: agent {successor} continues the work.",
    ] == one.seen.decode().splitlines()
    assert 0 == one.returncode


def test_a_failure_is_shown_with_what_to_do(handed: Desk) -> None:
    """Exit code 1."""
    one: Any = watching(handed)
    _step(handed, "check")
    _step(handed, "check", "failed", "There is no document.")
    failure = {
        "code": "c",
        "step": "check",
        "sentence": "There is no document.",
        "remedy": "Ask the agent, then retry; or give it up (cancel).",
    }
    _ended(handed, state="failed", step="check", failure=failure)
    one.wait(30)
    one.reader.join(10)

    assert 1 == one.returncode
    assert [
        "✗ check           2.5 s  There is no document.",
        "Handoff bbbbbbbb has failed at check.",
        "There is no document.",
        "Ask the agent, then retry; or give it up (cancel).",
        "tasuki agent retry bbbbbbbb | cancel bbbbbbbb",
    ] == one.seen.decode().splitlines()


@pytest.mark.parametrize(
    ("state", "shown"), [("failed", 3), ("uncertain", 3), ("cancelled", 1), ("done", 0)]
)
def test_advice_is_repeated_only_for_a_handoff_that_waits_for_it(state: str, shown: int) -> None:
    """At `acknowledge` skipping is offered, as its text says; what is over needs no advice."""
    remedy = REMEDIES["not_acknowledged"]
    record: dict[str, Any] = {
        "id": "b" * 32, "created_at": 0.0, "state": state, "step": "acknowledge", "agent_id": 1, "successor_id": 2,
        "persona": "p", "reason": "r", "failure": {"sentence": "No acknowledgement.", "remedy": remedy},
    }  # fmt: skip
    lines = [line.strip() for line in list(format_handoffs([record]))[2:]]

    assert lines == ["No acknowledgement.", remedy, "tasuki agent skip bbbbbbbb"][:shown]


def test_on_a_terminal_the_running_step_stands_below(handed: Desk) -> None:
    """It is replaced by its end."""
    one: Any = watching(handed, terminal=True)
    _step(handed, "instruct")
    retry_until(lambda: saw(one, "… instruct\r\n\x1b[1A"))
    _step(handed, "instruct", "ok")
    retry_until(lambda: saw(one, "\r\x1b[J✓ instruct        2.5 s\r\n"))
    _ended(handed, state="cancelled")
    one.wait(30)
    one.reader.join(10)

    assert 1 == one.returncode


def test_to_stop_watching_ends_no_handoff(handed: Desk) -> None:
    """Ctrl-C says that it goes on, and how to end it."""
    one: Any = watching(handed)
    _step(handed, "instruct")
    _step(handed, "instruct", "ok")
    retry_until(lambda: saw(one, "instruct"))
    one.send_signal(signal.SIGINT)
    one.wait(30)
    one.reader.join(10)

    assert 130 == one.returncode
    assert saw(one, "The handoff continues.")
    assert saw(one, "To end it: tasuki agent cancel bbbbbbbb")


def test_a_server_that_is_away_meanwhile_is_waited_for(handed: Desk) -> None:
    """Its address is gone and comes back."""
    address = handed.folder / "fleet" / "address"
    one: Any = watching(handed)
    _step(handed, "instruct")
    _step(handed, "instruct", "ok")
    retry_until(lambda: saw(one, "instruct"))
    address.rename(address.with_name("away"))
    retry_until(lambda: saw(one, "Waiting for it; the handoff continues then."))
    address.with_name("away").rename(address)
    _ended(handed, state="done", successor_id=1)
    one.wait(30)
    one.reader.join(10)

    assert 0 == one.returncode


# -- the whole -------------------------------------------------------------------------


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A server with tmux and scripted agents, all of the test's own."""
    made = World(tmp_path)
    try:
        made.serve()
        made.install()
        yield made
    finally:
        made.close()


@pytest.mark.skipif(not shutil.which("tmux"), reason="tmux is not installed")
def test_an_agent_from_its_start_to_its_successor(world: World) -> None:
    """By the command line alone: started, typed to, handed off while one watches, stopped."""
    slug = world.tasuki("persona", "add", "developer", "con").splitlines()[0]
    assert "Agent 1 (developer-con-1) was started." in world.tasuki(
        "agent", "start", "--persona", slug, "--model", "m"
    )
    world.idle(1)
    assert "Agent 1 received it." in world.tasuki("agent", "send", "1", "fix", "the", "client")
    world.idle(1)
    assert 1 == len(world.prompts("fix the client"))

    said = world.tasuki("agent", "handoff", "1", "--reason", "context_limit", "--watch")

    steps = [line.split()[1] for line in said.splitlines() if line.startswith("✓")]
    assert [
        "await_idle",
        "instruct",
        "await_turn",
        "check",
        "record",
        "shut_down",
        "create",
        "register",
    ] == steps[:8]
    assert "is done: agent 2 continues the work." in said
    assert "Handoff already in progress" in world.tasuki(
        "agent", "handoff", "1", "--reason", "r", code=1
    )
    assert "1 → 2" in world.tasuki("handoffs", "--agents")
    assert "works as developer-con-1 already" in world.tasuki(
        "agent", "start", "--persona", slug, code=1
    )
    assert "Agent 2 ended" in world.tasuki("agent", "stop", "2")
    assert "No agents." in world.tasuki("agent", "list")


@pytest.mark.skipif(not shutil.which("tmux"), reason="tmux is not installed")
def test_attach_shows_the_agents_pane(world: World) -> None:
    """In a terminal it becomes tmux; without one it says what to run; a pane that is gone is told."""
    world.tasuki("agent", "start", "--harness", "claude")
    world.tasuki("agent", "start", "--harness", "claude")
    pane = world.agent(1)["pane"]

    said = world.tasuki("agent", "attach", "1", code=1)
    assert re.search(rf"In one: tmux -S /\S+/default attach -t {pane}\n", said)
    world.tmux(
        "new-session",
        "-d",
        "-s",
        "desk",
        "-x",
        "100",
        "-y",
        "30",
        "env",
        "-u",
        "TMUX",
        str(TASUKI),
        "agent",
        "attach",
        "1",
    )
    shown = retry_until(lambda: world.tmux("list-clients", "-F", "#{pane_id}", check=False).split())
    assert [pane] == shown
