"""The database is away for a while, in the middle of a handoff: nothing is lost, nothing happens twice."""

import json
import signal
import sqlite3
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa
from databases import missing, postgres
from dbos import _sys_db
from fleets import World, once
from waiting import retry_until

from tasuki.errors import HandoffNotFound
from tasuki.fleet.handoff import engine as engine_module
from tasuki.fleet.handoff import workflow
from tasuki.fleet.handoff.engine import HandoffEngine
from tasuki.fleet.handoff.runner import StepRunner
from tasuki.fleet.store.database import FleetDatabase, build_sqlite_url
from tasuki.fleet.store.log import ChangeFeed
from tasuki.fleet.store.models import FleetHandoff
from tasuki.install.hook_script import HUNG

GONE = 8.0
"""Seconds; the server's own patience is a minute."""


def build_handoff(id: str, step: str, queue: str) -> FleetHandoff:
    """Build a handoff that is under way at a step."""
    return FleetHandoff(id, 1, "dev-ada-1", "done", "running", step, 0.0, "h", queue)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A fleet on SQLite whose agent is held in the middle of its document."""
    made = World(tmp_path)
    yield made
    made.close()


def under_way(world: World) -> tuple[str, Path]:
    """A handoff whose agent writes its document once a file is there."""
    hold = world.folder / "go"
    world.serve()
    world.install()
    world.script(document=[["wait_for", str(hold)], ["document", "{path}"], ["say", "written"]])
    id = world.hand_off(world.worked(world.started()))
    retry_until(lambda: world.prompts("Write a handoff document"), 20)
    return id, hold


@pytest.mark.long
def test_a_database_that_is_locked_for_a_while(world: World) -> None:
    """Somebody else holds SQLite's file: events and steps wait, `/health` says so, and they go on."""
    id, hold = under_way(world)
    other = sqlite3.connect(world.data / "fleet.db", isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    hold.touch()
    until = time.monotonic() + GONE
    retry_until(lambda: world.health() != "ok", 20)
    time.sleep(max(0.0, until - time.monotonic()))
    other.execute("ROLLBACK")
    other.close()

    once(world, world.ends(id, seconds=90))
    assert world.health() == "ok"


@pytest.mark.long
def test_health_knows_that_the_engines_file_is_locked(world: World) -> None:
    """Somebody else holds the file of the workflows: `/health` says so, and a handoff that is asked for waits."""
    id, hold = under_way(world)
    other = sqlite3.connect(world.data / "fleet" / "workflows.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    hold.touch()
    retry_until(lambda: world.health() != "ok", 20)
    kim = world.api("POST", "/api/personas", {"role": "developer", "name": "kim", "skill": "Be."})
    asked = world.hand_off(world.started(persona=kim["slug"]))
    alarms = [alarm["text"] for alarm in world.alarms()]
    other.execute("ROLLBACK")
    other.close()

    world.ends(id, seconds=90)
    retry_until(lambda: world.handoff(asked)["step"] != "await_idle", 60)
    assert [f"Handoff {asked[:8]} waits to begin" in alarm for alarm in alarms] == [True]
    retry_until(lambda: world.health() == "ok", 30)


@pytest.mark.skipif(bool(missing()), reason="PostgreSQL is not installed")
def test_a_database_server_that_is_gone_for_a_while(tmp_path: Path) -> None:
    """PostgreSQL is stopped in the middle of a handoff and comes back: it is carried on."""
    with postgres() as server:
        world = World(tmp_path, server.make())
        try:
            id, hold = under_way(world)
            server.stop("fast")
            hold.touch()
            time.sleep(GONE)
            server.start()
            once(world, world.ends(id, seconds=40))
        finally:
            world.close()


@pytest.mark.long
@pytest.mark.skipif(bool(missing()), reason="PostgreSQL is not installed")
def test_a_step_waits_however_long_the_database_is_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a clock on which an hour passes in a few seconds: the step is begun anew once it answers."""
    real = time.monotonic
    with postgres() as server:
        database = FleetDatabase(server.make())
        outcomes = StepRunner(database, ChangeFeed(), None)  # type: ignore[arg-type]
        monkeypatch.setattr(time, "monotonic", lambda: 1000 * real())
        server.stop("fast")
        done: list[bool | BaseException] = []

        def carry_out() -> None:
            try:
                done.append(outcomes.carry_out("0" * 32, 1, "create"))
            except BaseException as error:
                done.append(error)

        thread = threading.Thread(target=carry_out)
        thread.start()
        thread.join(GONE)
        waited = list(done)
        monkeypatch.undo()
        waiting = set(outcomes.waiting)
        server.start()
        thread.join(20)
        database.close()

    assert ([], {"0" * 32}) == (waited, waiting)
    assert isinstance(done[0], HandoffNotFound)  # what a database that answers says of it


@pytest.mark.long
@pytest.mark.skipif(bool(missing()), reason="PostgreSQL is not installed")
def test_a_step_is_recorded_once_the_database_is_back() -> None:
    """PostgreSQL goes while a step runs, and its socket with it: the engine records the step later, and goes on."""
    carried_out: list[str] = []
    away = threading.Event()
    with postgres() as server:

        def carry_out(_id: str, _attempt: int, step: str) -> bool:
            carried_out.append(step)
            if step == "instruct":
                server.stop("fast")
                away.set()
            return True

        engine = HandoffEngine(server.make(), "h", carry_out)
        engine.launch()
        try:
            engine.begin_handoff(build_handoff("0" * 32, workflow.ALL_STEPS[0], engine.queue))
            assert away.wait(20)
            time.sleep(3)
            server.start()  # by the main thread: Linux ends it with the thread that started it
            retry_until(lambda: "done" in carried_out or engine.count_broken(), 40)
            broken = engine.count_broken()
        finally:
            engine.close()

    assert ([*workflow.ALL_STEPS, "done"], 0) == (carried_out, broken)


def test_the_engine_queues_again_what_it_took_and_never_began(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database's answer to the taking was lost: the handoff, and an order, are carried out all the same."""
    monkeypatch.setattr(engine_module, "ABSENT_SECONDS", 0.0)
    carried_out: list[str] = []
    given_up: list[str] = []

    def carry_out(_id: str, _attempt: int, step: str) -> bool:
        carried_out.append(step)
        return True

    path = tmp_path / "workflows.db"
    engine = HandoffEngine(
        build_sqlite_url(path),
        "h",
        carry_out,
        lambda _id, name, _: {"value": carried_out.append(name)},
    )
    engine.launch()
    try:
        start = build_handoff("0" * 32, workflow.ALL_STEPS[0], "host-nobody")
        engine.begin_handoff(start)
        engine.give_order("nobody", "order-1", "an order", {}, "")
        with closing(sqlite3.connect(path)) as file, file:
            file.execute(
                "UPDATE workflow_status SET queue_name = 'host-h', executor_id = 'h', status = 'PENDING'"
            )
        for _ in range(2):
            engine.reconcile([start], lambda _id, why: given_up.append(why))
            time.sleep(0.1)
        retry_until(lambda: {"done", "an order"} <= set(carried_out), 20)
    finally:
        engine.close()

    assert ([], 1) == (given_up, carried_out.count("an order"))
    assert [*workflow.ALL_STEPS, "done"] == [step for step in carried_out if step != "an order"]


def test_the_engine_asks_a_lost_database_again_soon(tmp_path: Path) -> None:
    """DBOS would wait twice as long after each failure, up to 90 s, while the database answers again."""
    engine = HandoffEngine(build_sqlite_url(tmp_path / "workflows.db"), "h", lambda *_: True)
    engine.launch()
    engine.close()
    tries: list[int] = []

    @_sys_db.db_retry(initial_backoff=1000.0)
    def ask() -> None:
        tries.append(1)
        if len(tries) == 1:
            raise sa.exc.TimeoutError

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(20)

    assert 2 == len(tries)


def test_health_says_that_the_database_is_away(tmp_path: Path) -> None:
    """While the database is away `/health` says so, and the API answers with 503, not with a fault."""
    if missing():
        pytest.skip("PostgreSQL is not installed")
    with postgres() as server:
        world = World(tmp_path, server.make())
        try:
            world.serve()
            server.stop("fast")
            why = retry_until(lambda: (text := world.health()) != "ok" and text)
            server.start()
            retry_until(lambda: world.health() == "ok", 30)
        finally:
            world.close()

    assert "The connection that holds this host's lock has not worked since 20" in why


def test_two_servers_for_one_folder_are_refused(world: World) -> None:
    """A second server for the same data folder says which one runs, and does nothing."""
    world.serve()
    done = subprocess.run(
        ["tasuki", "serve", "--port", "0"], env=world.env, cwd=world.folder, capture_output=True,
        text=True, timeout=60, check=False,
    )  # fmt: skip

    assert done.returncode == 1
    assert world.address() in done.stderr


def test_a_server_that_hangs_for_a_while_loses_no_event(world: World) -> None:
    """It is stopped and goes on: each event is taken in once, in its order, and hooks ask again."""
    world.serve()
    world.install()
    assert world.server
    fleet = world.data / "fleet"

    def tell(name: str, **more: str) -> None:
        payload = {"hook_event_name": name, "session_id": "s-1", "cwd": str(world.work), **more}
        subprocess.run(
            ["sh", str(fleet / "hook.sh"), "claude"], input=json.dumps(payload).encode(),
            env=world.env, check=True, timeout=20,
        )  # fmt: skip

    tell("SessionStart", source="startup")
    world.server.send_signal(signal.SIGSTOP)
    try:
        for number in range(4):
            tell("UserPromptSubmit", prompt=f"prompt {number}")
            tell("Stop")
        hung = (fleet / HUNG).exists()
        spooled = len(list((fleet / "spool").iterdir()))
    finally:
        world.server.send_signal(signal.SIGCONT)
    retry_until(lambda: not list((fleet / "spool").iterdir()), 20)
    tell("UserPromptSubmit", prompt="prompt 4")
    told = [line["text"] for line in world.log() if line["kind"] == "prompt"]

    assert (True, 8) == (hung, spooled)
    assert [f"prompt {number}" for number in range(5)] == told
    assert not (fleet / HUNG).exists()
