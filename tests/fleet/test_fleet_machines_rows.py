"""What hosts of one fleet write and read, without their servers: legs, parcels, threads, files, reports."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest
import sqlalchemy as sa
from databases import Postgres, missing

from tasuki.errors import ThreadUnreadable
from tasuki.fleet.agents import personas
from tasuki.fleet.exchange import host_list, shared_files, thread_copies
from tasuki.fleet.handoff import commands
from tasuki.fleet.handoff.runner import STEPS, StepRunner
from tasuki.fleet.orders.bodies import NewPersona
from tasuki.fleet.store import log, queries, tables
from tasuki.fleet.store.database import FleetDatabase
from tasuki.fleet.store.log import ChangeFeed
from tasuki.fleet.store.models import FleetAgent, FleetHandoff, MovePlan

pytestmark = pytest.mark.skipif(bool(missing()), reason="PostgreSQL is not installed")


@pytest.fixture
def url(postgres: Postgres) -> Iterator[str]:
    """A database of the fleet, dropped behind the test."""
    made = postgres.make()
    yield made
    postgres.drop(made)


def add_agent(database: FleetDatabase, thread: Path) -> FleetAgent:
    """An agent with a thread, as a row alone."""
    row = {"harness": "claude", "state": "idle", "state_at": 0.0, "cwd": "/x", "host": "h1", "started_at": 0.0, "thread": str(thread)}  # fmt: skip
    with database.write() as connection:
        added = connection.execute(sa.insert(tables.agents).values(**row).returning(tables.agents.c.id))  # fmt: skip
        id = int(added.scalar_one())
    return queries.load_agent(database, id)


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


def test_a_leg_that_is_carried_out_again_takes_nothing_back(url: str) -> None:
    """Killed when it had passed the move on: the other host has come further, and is not disturbed."""
    database, begun = FleetDatabase(url, "h1"), list[FleetHandoff]()
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


def test_a_persona_that_a_host_had_before_is_kept_beside(tmp_path: Path, url: str) -> None:
    """From a fleet of its own, with the same slug: the fleet's files count, and nothing is lost."""
    one, two = FleetDatabase(url, "h1"), FleetDatabase(url, "h2")
    here, there = tmp_path / "1", tmp_path / "2"
    slug = personas.add_persona(
        one, here, NewPersona(role="developer", name="con", skill="First.")
    ).slug
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
    database, begun = FleetDatabase(url, "h1"), list[FleetHandoff]()
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
        "import os; from tasuki.fleet.exchange.host_list import find_login\n"
        "os.setgid(65534); os.setuid(65534); print(find_login('claude'))"
    )
    env = {"HOME": str(tmp_path / "home"), "PATH": os.environ["PATH"]}
    done = subprocess.run(
        [sys.executable, "-c", script], env=env, capture_output=True, text=True, check=False
    )

    assert "unknown\n" == done.stdout, done.stderr
