"""Attacks on the fleet of several hosts: what was lost, done twice, or stuck for ever, and is not any more."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest
import sqlalchemy as sa
from databases import Postgres, missing
from fleets import Refused, World, refusal
from machines import Machines, clone, git, host_of, machines, make_origin, seen_by
from test_fleet_machines import SECRET, make_away, move, pair, prepare_move
from waiting import retry_until

from tasuki.errors import ThreadUnreadable
from tasuki.fleet.agents import personas
from tasuki.fleet.exchange import host_list, shared_files, thread_copies
from tasuki.fleet.handoff import commands
from tasuki.fleet.handoff.engine import HandoffStart
from tasuki.fleet.handoff.runner import STEPS, StepRunner
from tasuki.fleet.store import log, queries, tables
from tasuki.fleet.store.database import FleetDatabase
from tasuki.fleet.store.log import ChangeFeed
from tasuki.fleet.store.models import FleetAgent, FleetHandoff, MovePlan

pytestmark = pytest.mark.skipif(bool(missing()), reason="PostgreSQL is not installed")


@pytest.fixture
def fleet(tmp_path: Path, postgres: Postgres) -> Iterator[Machines]:
    """The hosts of one fleet, none of them started yet."""
    with machines(tmp_path, postgres) as made:
        yield made


# -- keys ------------------------------------------------------------------------------


def test_a_key_names_one_text_to_one_agent(fleet: Machines) -> None:
    """The same key to two agents of another host: both get their text; another text with it is refused."""
    one, two = pair(fleet)
    first, second = two.started(), two.started()
    for agent in (first, second):
        one.tasuki("agent", "send", str(agent), "--key", "k1", f"For agent {agent}")
    said = one.tasuki("agent", "send", str(first), "--key", "k1", "Another text", code=None)
    one.tasuki("agent", "send", str(first), "--key", "k1", f"For agent {first}")

    assert [1, 1] == [len(two.prompts(f"For agent {id}")) for id in (first, second)]
    assert "This key was used for another text" in said
    assert [] == two.prompts("Another text")


def test_an_order_that_was_withdrawn_or_refused_can_be_repeated_with_its_key(
    fleet: Machines,
) -> None:
    """That is what a key is for: repeat until it is done, and it is done once."""
    one, two = pair(fleet)
    agent = two.started()
    words = ("agent", "send", str(agent), "--key", "k1", "Once alone")
    assert two.server
    two.server.send_signal(signal.SIGSTOP)
    late = one.tasuki(*words, code=None)
    two.server.send_signal(signal.SIGCONT)
    seen_by(one, host_of(two), seconds=60)
    repeated = one.tasuki(*words, code=None)
    one.tasuki(*words, code=None)

    assert "withdrawn" in late
    assert 1 == len(two.prompts("Once alone")), repeated


def test_a_text_that_was_sent_does_not_stay_in_the_database(fleet: Machines) -> None:
    """An order holds it until its result is known, or until it is withdrawn."""
    one, two = pair(fleet)
    agent = two.started()
    one.api("POST", f"/api/agents/{agent}/send", {"text": f"The key is {SECRET}"})
    assert two.server
    two.server.send_signal(signal.SIGSTOP)
    late = refusal(one, f"/api/agents/{agent}/send", {"text": "Withdrawn"})
    two.server.send_signal(signal.SIGCONT)
    orders = "SELECT workflow_uuid FROM tasuki_workflows.workflow_status WHERE name = 'order'"

    assert 409 == late[0]
    assert [] == one.sql(orders)


# -- give up ---------------------------------------------------------------------------


def test_the_source_is_given_up_while_the_successor_starts(fleet: Machines) -> None:
    """The move fails with a sentence, instead of waiting for the host that is gone, and can be cancelled."""
    one, two, agent, _, there = prepare_move(fleet)
    (two.folder / "script.json").write_text(json.dumps({"start_delay": 5.0, "rules": []}))
    id = move(one, two, agent, there)
    retry_until(lambda: two.handoff(id)["step"] in ("create", "register"), 60)
    gone = host_of(one)
    one.kill()
    make_away(two, gone, 120)
    two.tasuki("host", "give-up", gone)
    handoff = two.ends(id, seconds=90)
    steps = {step["step"]: step for step in two.handoff(id)["steps"]}

    assert "was given up. The agent may still run there." in steps["shut_down"]["note"]
    assert "lost" == two.agent(agent)["state"]
    assert 1 == len(two.prompts("Begin your answer with this line"))
    assert "3" in (Path(two.agent(handoff["successor_id"])["cwd"]) / "upload.py").read_text()


def test_the_source_is_given_up_while_it_ends_its_agent(fleet: Machines) -> None:
    """The move fails, and a retry from the other host completes it there."""
    one, two, agent, _, there = prepare_move(fleet)
    one.kill()
    one.serve(at="shut_down:before")
    seen_by(one, host_of(two))
    id, gone = move(one, two, agent, there), host_of(one)
    one.kill_at_point()
    make_away(two, gone, 120)
    two.tasuki("host", "give-up", gone)
    failed = two.ends(id, "failed")
    two.tasuki("agent", "retry", id[:8])
    two.ends(id, seconds=90)
    one.serve()
    seen_by(two, gone)
    time.sleep(3)

    assert "Retry it: its successor on the other host has the work" in failed["failure"]["remedy"]
    assert 1 == len(two.prompts("Begin your answer with this line"))
    assert [] == one.seen("exit")
    assert "done" == one.handoff(id)["state"]


def test_the_target_is_given_up_in_the_middle(fleet: Machines) -> None:
    """The agent lives on; a retry is refused with a reason, a cancel frees it, and it is handed off anew."""
    one, two, agent, _, there = prepare_move(fleet)
    one.kill()
    one.serve(at="pack:after")
    seen_by(one, host_of(two))
    id, gone = move(one, two, agent, there), host_of(two)
    one.kill_at_point()
    two.kill()
    one.serve()
    retry_until(lambda: one.handoff(id)["host"] == gone, 30)
    retired = refusal(one, f"/api/hosts/{gone}/retire")
    make_away(one, gone, 120)
    one.tasuki("host", "give-up", gone)
    failed = one.ends(id, "failed")
    retry = one.tasuki("agent", "retry", id[:8], code=None)
    packed = one.sql("SELECT DISTINCT name FROM parcels")
    one.tasuki("agent", "cancel", id[:8])
    left = one.sql("SELECT name FROM parcels")
    again = one.ends(one.hand_off(agent), seconds=60)

    assert (400, True) == (retired[0], "1 handoff under way needs web1.example.com" in retired[1])
    assert ([{"name": "bundle"}], []) == (packed, left)
    assert "was given up at this step" in failed["failure"]["sentence"]
    assert "was given up. Give the handoff up" in retry
    assert host_of(one) == one.agent(again["successor_id"])["host"]


def test_a_target_that_was_retired_meanwhile_fails_the_move(tmp_path: Path, url: str) -> None:
    """Nothing waits for ever on the queue of a host that does not come back."""
    database = FleetDatabase(url, "h1")
    id = add_move(database, step="pack", host="h1")
    with database.write() as connection:
        values = {"label": "build2", "version": "1", "started_at": 0.0, "boot_id": "", "epoch": 1}
        connection.execute(sa.insert(tables.hosts).values(id="h2", retired_at=1.0, **values))
    runner = StepRunner(database, ChangeFeed(), None)  # type: ignore[arg-type]
    went_on = runner.carry_out(id, 1, "unpack")
    failed = queries.load_handoff(database, id)
    database.close()

    assert not went_on
    assert failed.failure
    assert ("failed", "host_given_up") == (failed.state, failed.failure.code)
    assert failed.failure.sentence == "The host build2 was retired. Agent 1 lives on where it is."


def add_move(database: FleetDatabase, step: str, host: str) -> str:
    """A move from h1 to h2 that has come to a step, as rows alone; its id."""
    add_agent(database, Path("/nowhere"))
    persona = {"slug": "developer-con-1", "role": "developer", "name": "con", "number": 1, "folder": "", "created_at": 0.0, "harness": "claude"}  # fmt: skip
    values: dict[str, Any] = {
        "id": "a" * 32, "agent_id": 1, "persona": "developer-con-1", "reason": "x", "state": "running", "step": step,
        "attempt": 1, "created_at": 0.0, "host": host, "queue": f"host-{host}", "target_host": "h2",
        "move": msgspec.to_builtins(MovePlan()),
    }  # fmt: skip
    with database.write() as connection:
        connection.execute(sa.insert(tables.personas).values(**persona))
        connection.execute(sa.insert(tables.handoffs).values(**values))
    return str(values["id"])


def test_a_leg_that_is_carried_out_again_takes_nothing_back(url: str) -> None:
    """Killed when it had passed the move on: the other host has come further, and is not disturbed."""
    database, begun = FleetDatabase(url, "h1"), list[HandoffStart]()
    id = add_move(database, step="shut_down", host="h1")
    runner = StepRunner(database, ChangeFeed(), None)  # type: ignore[arg-type]
    runner.begin = begun.append
    went_on = runner.carry_out(id, 1, "unpack")
    now = queries.load_handoff(database, id)
    database.close()

    assert not went_on
    assert ("h1", "shut_down") == (now.host, now.step)
    assert [] == begun


def test_a_move_that_was_passed_on_is_not_given_up_here(url: str) -> None:
    """What was read before it was passed on is out of date: nothing fails, and nothing is undone."""
    database = FleetDatabase(url, "h2")
    id = add_move(database, step="skill", host="h2")
    known = queries.load_handoff(database, id)
    with database.write() as connection:
        passed = commands.pass_on(connection, known, "shut_down", "h1")
    StepRunner(database, ChangeFeed(), None).give_up(known, "The engine gave this attempt up.")  # type: ignore[arg-type]
    now = queries.load_handoff(database, id)
    database.close()

    assert passed
    assert ("running", "h1", "shut_down") == (now.state, now.host, now.step)


@pytest.mark.parametrize("point", ["pack:after", "unpack:after", "create:after"])
def test_a_move_is_cancelled_while_a_step_ends(fleet: Machines, point: str) -> None:
    """Cancelled from the other host between a step's work and its record: nothing of it stays."""
    one, two, agent, _, there = prepare_move(fleet)
    world, other = (one, two) if point.startswith("pack") else (two, one)
    world.kill()
    world.serve(at=point)
    seen_by(other, host_of(world))
    id = move(other, two, agent, there)
    retry_until(world.reached.exists, 60)
    other.api("POST", f"/api/handoffs/{id}/cancel")
    world.kill()
    world.serve()
    seen_by(other, host_of(world))
    retry_until(lambda: not list(there.parent.glob("repo-*")), 30)
    retry_until(lambda: not other.sql("SELECT name FROM parcels"), 30)
    retry_until(lambda: [x["state"] for x in other.agent_rows() if x["ended_at"] is None] == ["idle"], 30)  # fmt: skip

    assert "idle" == other.agent(agent)["state"]
    assert "cancelled" == other.handoff(id)["state"]
    assert [] == two.prompts("Begin your answer with this line")


def test_a_rescue_without_a_thread_is_refused_before_it_begins(fleet: Machines) -> None:
    """Nothing was stored: the dry run says so, and nothing begins."""
    one, two = pair(fleet)
    agent, gone = two.worked(two.started()), host_of(two)
    two.kill()
    make_away(one, gone, 120)
    one.tasuki("host", "give-up", gone)
    said = one.tasuki(
        "agent", "handoff", str(agent), "--reason", "gone", "--to-host", host_of(one),
        "--to-cwd", str(one.work), "--dry-run", code=None,
    )  # fmt: skip
    begun = one.tasuki(
        "agent", "handoff", str(agent), "--reason", "gone", "--to-host", host_of(one),
        "--to-cwd", str(one.work), code=None,
    )  # fmt: skip

    assert "is not in the database" in begun
    assert "is not in the database" in said
    assert [] == one.api("GET", "/api/handoffs")["handoffs"]


def test_a_rescue_into_a_dirty_checkout_claims_nothing_that_is_not_there(fleet: Machines) -> None:
    """A worktree beside it; the successor is not told that unpushed work came along."""
    one, two = pair(fleet)
    two.config(notify="", keep_threads="all")
    two.kill(15)
    two.serve()
    seen_by(one, host_of(two))
    origin = make_origin(fleet.folder)
    there, here = clone(origin, two.folder / "repo"), clone(origin, one.folder / "repo")
    (here / "upload.py").write_text("mine\n")
    agent, gone = two.worked(two.started(cwd=str(there))), host_of(two)
    retry_until(lambda: one.sql("SELECT 1 FROM thread_copies"), 60)
    two.kill()
    make_away(one, gone, 120)
    one.tasuki("host", "give-up", gone)
    done = one.ends(one.hand_off(agent, to_host=host_of(one), to_cwd=str(here)), seconds=90)
    (prompt,) = one.prompts("Begin your answer with this line")

    assert "mine\n" == (here / "upload.py").read_text()
    assert "repo-developer-con-1" == Path(done["move"]["place"]).name
    assert "its uncommitted work are here" not in prompt["text"]
    assert "which has only what this checkout had" in prompt["text"]


def test_the_program_of_an_agent_that_was_given_up_goes_on(fleet: Machines) -> None:
    """Its host is back, it works elsewhere: its old hooks change nothing there."""
    one, two = pair(fleet)
    for world in (one, two):
        world.config(notify="", keep_threads="all")
        world.kill(15)
        world.serve()
    seen_by(one, host_of(two))
    seen_by(two, host_of(one))
    agent, gone = two.worked(two.started()), host_of(two)
    pane = two.agent(agent)["pane"]
    retry_until(lambda: one.sql("SELECT 1 FROM thread_copies"), 60)
    two.kill()
    make_away(one, gone, 120)
    one.tasuki("host", "give-up", gone)
    id = one.hand_off(agent, to_host=host_of(one), to_cwd=str(one.work))
    done = one.ends(id, seconds=90)
    two.serve()
    seen_by(one, gone)
    two.tmux("send-keys", "-t", pane, "-l", "Typed by hand")
    two.tmux("send-keys", "-t", pane, "Enter")
    retry_until(lambda: two.prompts("Typed by hand"), 20)
    time.sleep(4)

    assert "lost" == one.agent(agent)["state"]
    assert "idle" == one.agent(done["successor_id"])["state"]


# -- what a dry run and a list say -----------------------------------------------------


def test_a_dry_run_says_that_the_agent_has_ended(fleet: Machines) -> None:
    """It cannot write a document; from its thread it can move."""
    one, two, agent, _, there = prepare_move(fleet)
    one.api("POST", f"/api/agents/{agent}/stop")
    words = ("agent", "handoff", str(agent), "--reason", "x", "--to-host", host_of(two), "--to-cwd", str(there))  # fmt: skip
    refused = one.tasuki(*words, "--dry-run", code=3)
    fine = one.tasuki(*words, "--from-thread", "--dry-run")
    one.tasuki(*words, "--from-thread")
    (handoff,) = one.api("GET", "/api/handoffs")["handoffs"]
    done = one.ends(handoff["id"], seconds=90)

    assert f"Agent {agent} has ended. Hand it off from its thread: --from-thread" in refused
    assert f"Agent {agent} can move to web1.example.com" in fine
    assert host_of(two) == one.agent(done["successor_id"])["host"]


def test_the_list_of_one_host_is_fresh(tmp_path: Path) -> None:
    """On SQLite: what is installed after the start of the server is listed."""
    world = World(tmp_path / "world")
    try:
        world.serve()
        before = world.tasuki("host", "list")
        world.install()
        after = world.tasuki("host", "list")
    finally:
        world.close()

    assert "none ready" in before
    assert "none ready" not in after


def test_names_of_worktrees_do_not_grow_from_move_to_move(fleet: Machines) -> None:
    """To the other host, back, and there again: beside the checkout, numbered."""
    one, two, agent, _, _ = prepare_move(fleet)
    places = []
    for target in (two, one, two):
        id = target.hand_off(agent, to_host=host_of(target))
        done = one.ends(id, seconds=90)
        agent = target.idle(done["successor_id"])
        places.append(done["move"]["place"])

    assert ["repo-developer-con-1", "repo-developer-con-1-2", "repo-developer-con-1-3"] == [
        Path(place).name for place in places
    ]
    assert "MM upload.py\n?? new.py\n" == git(Path(places[-1]), "status", "--porcelain")


def test_a_host_that_reports_nonsense_is_listed_nevertheless(url: str) -> None:
    """Of a later tasuki, or broken: no host of the fleet stops working because of it."""
    database = FleetDatabase(url, "h1")
    broken: list[Any] = ["text", [1], {"login": 5, "harnesses": [{"name": "x", "login": "perhaps"}]},
                         {"load": "much", "stopped": True}, {"clock_offset": None}]  # fmt: skip
    common = {"version": "9", "started_at": 0.0, "boot_id": "", "epoch": 1, "last_seen": 0.0}
    with database.write() as connection:
        for number, details in enumerate(broken):
            values = {"id": f"h{number}", "label": f"b{number}", "details": details, **common}
            connection.execute(sa.insert(tables.hosts).values(**values))
    states = [host.state for host in host_list.list_hosts(database)]
    found = host_list.find_host(database, "b3")
    database.close()

    assert ["away", "here", "away", "off", "away"] == states
    assert "h3" == found.id


# -- two operators ---------------------------------------------------------------------


def test_two_operators_hand_the_same_agent_off_at_once(fleet: Machines) -> None:
    """One begins; the other one is told so, and not that its own has begun."""
    one, two = pair(fleet)
    agent = two.worked(two.started())
    said: list[Any] = []

    def order(world: World, goal: str) -> None:
        try:
            said.append(
                world.api("POST", f"/api/agents/{agent}/handoff", {"reason": "x", "goal": goal})
            )
        except Refused as refused:
            said.append((refused.status, refused.body["error"]))

    threads = [threading.Thread(target=order, args=(one, f"goal {n}")) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    refused = [x for x in said if isinstance(x, tuple)]

    assert [(409, "Handoff already in progress")] * 2 == refused


# -- files and threads -----------------------------------------------------------------


@pytest.fixture
def url(postgres: Postgres) -> Iterator[str]:
    """A database of the fleet, dropped behind the test."""
    made = postgres.make()
    yield made
    postgres.drop(made)


def test_a_persona_that_a_host_had_before_is_kept_beside(tmp_path: Path, url: str) -> None:
    """From a fleet of its own, with the same slug: the fleet's files count, and nothing is lost."""
    one, two = FleetDatabase(url, "h1"), FleetDatabase(url, "h2")
    here, there = tmp_path / "1", tmp_path / "2"
    slug = personas.add_persona(one, here, role="developer", name="con", skill="First.").slug
    shared_files.share_persona(one, here, slug)
    folder = personas.create_folder(there, slug, b"Mine, of before.\n")
    (folder / "experience.md").write_text("Years of it.\n")
    shared_files.share_persona(two, there, slug)
    shared_files.share_persona(two, there, slug)
    kept = sorted(path.read_text() for path in folder.glob("*.before-*"))
    alarms = [x for x in queries.list_events_after(one, 0, 100) if x.kind == "alarm"]
    one.close()
    two.close()

    assert ["Mine, of before.\n", "Years of it.\n"] == kept
    assert "First.\n" == (folder / "skill.md").read_text()
    assert 2 == len(alarms)
    assert all("was here before" in alarm.text for alarm in alarms)


def write_thread(path: Path, lines: int) -> int:
    """Write a thread of Claude Code of so many answers; return its bytes."""
    first = {"type": "user", "message": {"role": "user", "content": "Hello"}}
    text = "".join(map(chr, range(33, 126))) * 40
    answer = {
        "type": "assistant",
        "message": {"role": "assistant", "content": [{"type": "text", "text": text}]},
    }
    with path.open("w") as file:
        for number, line in enumerate([first, *[answer] * lines]):
            common = {"sessionId": "s", "cwd": "/x", "uuid": f"u{number}", "timestamp": "2026-01-01T00:00:00Z"}  # fmt: skip
            file.write(json.dumps({**line, **common}) + "\n")
    return path.stat().st_size


def add_agent(database: FleetDatabase, thread: Path) -> FleetAgent:
    """An agent with a thread, as a row alone."""
    row = {"harness": "claude", "state": "idle", "state_at": 0.0, "cwd": "/x", "host": "h1", "started_at": 0.0, "thread": str(thread)}  # fmt: skip
    with database.write() as connection:
        added = connection.execute(sa.insert(tables.agents).values(**row).returning(tables.agents.c.id))  # fmt: skip
        id = int(added.scalar_one())
    return queries.load_agent(database, id)


def test_a_thread_is_stored_twice_at_once(tmp_path: Path, url: str) -> None:
    """At a turn's end and by a move: neither fails, and it is stored once."""
    database, path = FleetDatabase(url, "h1"), tmp_path / "s.jsonl"
    size = write_thread(path, 2000)
    agent = add_agent(database, path)
    with ThreadPoolExecutor(3) as pool:
        stored = list(pool.map(lambda _: thread_copies.store_thread(database, agent), range(3)))
    blocks = [thread_copies.load_stored(database, agent.id)]
    database.close()

    assert [0, 0, size] == sorted(stored)
    assert [(2,)] == [one.blocks for one in blocks if one]


def test_a_thread_that_is_cut_while_it_is_stored(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was stored of it stays whole, and is stored anew the next time."""
    database, path = FleetDatabase(url, "h1"), tmp_path / "s.jsonl"
    write_thread(path, 10)
    agent = add_agent(database, path)
    before = thread_copies.store_thread(database, agent)
    write_thread(path, 3000)
    read_piece = thread_copies._read_piece

    def cut(part: Any, start: int, length: int) -> bytes:
        if length == thread_copies.BLOCK_BYTES:
            os.truncate(path, 1 << 20)
        return read_piece(part, start, length)

    monkeypatch.setattr(thread_copies, "_read_piece", cut)
    with pytest.raises(ThreadUnreadable, match="was cut while it was read"):
        thread_copies.store_thread(database, agent)
    monkeypatch.undo()
    stored = thread_copies.load_stored(database, agent.id)
    monkeypatch.setenv("TASUKI_DATA", str(tmp_path / "other"))
    restored = thread_copies.restore_thread(database, agent)
    again = thread_copies.store_thread(database, agent)
    database.close()

    assert stored
    assert before == stored.record.total_bytes
    assert restored.startswith("thread as of")
    assert again > before


def test_a_large_parcel_holds_up_nothing_else(tmp_path: Path, url: str) -> None:
    """While it is on its way over a slow line, the host writes, and what it wrote is read."""
    database = FleetDatabase(url, "h1")
    id = add_move(database, step="pack", host="h1")
    content = os.urandom(2 * shared_files.PIECE_BYTES + 5)
    shared_files.store_parcel(database, id, "bundle", content * 2)
    seen: list[list[str]] = []

    def write() -> None:
        with database.write() as connection:
            log.note(connection, "agent", f"line {len(seen)}")
        seen.append([line.text for line in queries.list_events_after(database, 0, 10)])

    def slow_line(_connection: Any, _cursor: Any, statement: str, *_more: Any) -> None:
        if statement.startswith("INSERT INTO parcels"):
            writer = threading.Thread(target=write)
            writer.start()
            writer.join(10)

    sa.event.listen(database.engine, "before_cursor_execute", slow_line)
    shared_files.store_parcel(database, id, "bundle", content)
    sa.event.remove(database.engine, "before_cursor_execute", slow_line)
    stored = shared_files.load_parcel(database, id, "bundle")
    database.close()

    assert [["line 0"], ["line 0", "line 1"], ["line 0", "line 1", "line 2"]] == seen
    assert content == stored


def test_a_step_that_ends_after_the_cancel_leaves_nothing(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cancelled while the work is packed: what was packed goes, and no other host is asked."""
    database, begun = FleetDatabase(url, "h1"), list[HandoffStart]()
    id = add_move(database, step="record", host="h1")

    def pack(_context: Any, handoff: FleetHandoff) -> str:
        commands.cancel_handoff(database, handoff.id)
        shared_files.delete_parcels(database, handoff.id)
        shared_files.store_parcel(database, handoff.id, "bundle", b"secret")
        return ""

    monkeypatch.setitem(STEPS, "pack", pack)
    runner = StepRunner(database, ChangeFeed(), None)  # type: ignore[arg-type]
    runner.begin = begun.append
    went_on = runner.carry_out(id, 1, "pack")
    left = shared_files.load_parcel(database, id, "bundle")
    database.close()

    assert not went_on
    assert (b"", []) == (left, begun)


@pytest.mark.skipif(os.geteuid() != 0, reason="root alone may become somebody else")
def test_a_home_that_may_not_be_read_holds_no_server_up(tmp_path: Path) -> None:
    """Whether somebody is logged in there is unknown."""
    (tmp_path / "home" / ".claude").mkdir(parents=True)
    (tmp_path / "home").chmod(0)
    script = (
        "import os; from tasuki.fleet.exchange.logins import find_login\n"
        "os.setgid(65534); os.setuid(65534); print(find_login('claude'))"
    )
    env = {"HOME": str(tmp_path / "home"), "PATH": os.environ["PATH"]}
    done = subprocess.run(
        [sys.executable, "-c", script], env=env, capture_output=True, text=True, check=False
    )

    assert "unknown\n" == done.stdout, done.stderr
