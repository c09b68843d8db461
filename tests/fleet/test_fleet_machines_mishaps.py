"""What goes wrong between hosts: PostgreSQL restarted, versions that differ, namespaces, a log with gaps."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import sqlalchemy as sa
from databases import Postgres, missing, postgres
from fleets import SERVER, Refused, World, refusal
from machines import Machines, clone, git, host_of, machines, make_origin, seen_by
from msgspec.structs import replace
from test_fleet_machines import move, pair, prepare_move
from tree import ROOT
from waiting import retry_until

from tasuki.fleet.exchange import shared_files, thread_copies
from tasuki.fleet.handoff import moves
from tasuki.fleet.orders.bodies import NewPersona
from tasuki.fleet.store import log, queries, schema, tables
from tasuki.fleet.store.database import FleetDatabase
from tasuki.threads.kept.store import KeptStore

pytestmark = pytest.mark.skipif(bool(missing()), reason="PostgreSQL is not installed")


@pytest.fixture
def fleet(tmp_path: Path, postgres: Postgres) -> Iterator[Machines]:
    """The hosts of one fleet, none of them started yet."""
    with machines(tmp_path, postgres) as made:
        yield made


# -- PostgreSQL ------------------------------------------------------------------------


def test_postgresql_restarts_in_the_middle_of_a_move(tmp_path: Path) -> None:
    """Gone for ten seconds, while both hosts live: the move goes on, and nothing is done twice."""
    with postgres() as server, machines(tmp_path, server) as fleet:
        one, two, agent, _, there = prepare_move(fleet)
        hold = tmp_path / "go"
        one.script(document=[["wait_for", str(hold)], ["document", "{path}"], ["say", "written"]])
        id = move(one, two, agent, there)
        retry_until(lambda: one.prompts("Write a handoff document"), 30)
        server.stop("fast")
        hold.touch()
        time.sleep(10)
        server.start()
        handoff = one.ends(id, seconds=120)

        assert 1 == len(one.prompts("Write a handoff document for it now"))
        assert 1 == len(two.prompts("Begin your answer with this line"))
        assert host_of(two) == two.agent(handoff["successor_id"])["host"]


def test_agents_go_on_while_the_database_is_away(tmp_path: Path) -> None:
    """Their events are kept and taken in later; a text that was sent meanwhile is not typed later."""
    with postgres() as server, machines(tmp_path, server) as fleet:
        one, two = pair(fleet)
        agent = two.started()
        pane = two.agent(agent)["pane"]
        server.stop("fast")
        two.tmux("send-keys", "-t", pane, "-l", "Typed by hand")
        two.tmux("send-keys", "-t", pane, "Enter")
        retry_until(lambda: two.prompts("Typed by hand"), 20)
        with suppress(Refused, OSError, TimeoutError):
            one.api("POST", f"/api/agents/{agent}/send", {"text": "Ordered meanwhile"})
        server.start()
        seen_by(one, host_of(two), seconds=60)
        retry_until(
            lambda: [x for x in one.log() if x["kind"] == "prompt" and x["agent_id"] == agent], 60
        )
        one.api("POST", f"/api/agents/{agent}/send", {"text": "Ordered later"})

        assert [] == two.prompts("Ordered meanwhile")
        assert (1, 1) == (len(two.prompts("Typed by hand")), len(two.prompts("Ordered later")))


def test_a_host_that_is_frozen_does_nothing_late(fleet: Machines) -> None:
    """A laptop whose lid was closed: orders are withdrawn, its connections are cut, and it wakes up sane."""
    one, two = pair(fleet)
    agent, sleeper = two.started(), host_of(two)
    assert two.server
    two.server.send_signal(signal.SIGSTOP)
    try:
        late = refusal(one, f"/api/agents/{agent}/send", {"text": "While you sleep"})
        looked = refusal(one, f"/api/agents/{agent}/keys", {"key": "Escape"})
        one.sql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() "
            f"AND application_name LIKE 'tasuki {sleeper}%'"
        )
    finally:
        two.server.send_signal(signal.SIGCONT)
    seen_by(one, sleeper, seconds=60)
    sent = one.api("POST", f"/api/agents/{agent}/send", {"text": "Good morning"})
    time.sleep(2)

    assert (409, True) == (late[0], "so it was withdrawn: nothing was done" in late[1])
    assert (409, True) == (looked[0], "did not answer within 8 s. Nothing was done." in looked[1])
    assert "proven" == sent["state"]
    assert ([], 1) == (two.prompts("While you sleep"), len(two.prompts("Good morning")))
    assert two.server.poll() is None


# -- hosts that differ -----------------------------------------------------------------


def test_an_agent_moves_between_versions(fleet: Machines) -> None:
    """The other host runs a later tasuki, with other code of the workflow: the move is done."""
    one, two, agent, _, there = prepare_move(fleet)
    two.kill(15)
    two.serve(later="yes")
    seen_by(one, host_of(two))
    handoff = one.ends(move(one, two, agent, there), seconds=90)
    versions = {host["version"] for host in one.api("GET", "/api/hosts")["hosts"]}

    assert "99.0" in versions
    assert len(versions) == 2
    assert host_of(two) == one.agent(handoff["successor_id"])["host"]


def test_an_agent_goes_on_over_three_hosts(fleet: Machines) -> None:
    """Moved to a second host, then to a third, ordered from the first: one chain, the work with it."""
    one, two, agent, here, there = prepare_move(fleet)
    three = fleet.add()
    seen_by(one, host_of(three))
    seen_by(two, host_of(three))
    third = clone(fleet.folder / "origin.git", three.folder / "repo")
    first = one.ends(move(one, two, agent, there), seconds=90)
    two.idle(first["successor_id"])
    second = one.ends(
        one.hand_off(first["successor_id"], to_host=host_of(three), to_cwd=str(third)), seconds=90
    )
    last = three.agent(second["successor_id"])

    assert [host_of(three), first["successor_id"]] == [last["host"], last["previous_agent_id"]]
    assert git(here, "status", "--porcelain=v2") == git(
        Path(last["cwd"]), "status", "--porcelain=v2"
    )
    assert git(here, "rev-parse", "HEAD") == git(Path(last["cwd"]), "rev-parse", "HEAD")
    (chain,) = one.api("GET", f"/api/lineage/{last['persona']}")["chains"]
    assert 3 == len(chain)


def test_a_place_that_somebody_took_meanwhile_is_left_alone(fleet: Machines) -> None:
    """Between the order and the arrival: the place is chosen when the work arrives, so it lands beside."""
    one, two, agent, _, there = prepare_move(fleet)
    one.kill()
    one.serve(at="pack:after")
    id = move(one, two, agent, there)
    one.kill_at_point()
    taken = Path(json.loads(plan_of(one, id))["place"])
    taken.mkdir()
    (taken / "theirs.txt").write_text("theirs\n")
    one.serve()
    done = one.ends(id, seconds=90)

    assert "theirs\n" == (taken / "theirs.txt").read_text()
    assert ["theirs.txt"] == [path.name for path in taken.iterdir()]
    assert str(taken) != done["move"]["place"]
    assert 1 == len(one.prompts("Write a handoff document for it now"))


def plan_of(world: World, id: str) -> str:
    """The plan of a move as the database has it."""
    (row,) = world.sql(f"SELECT move::text AS move FROM handoffs WHERE id = '{id}'")
    return str(row["move"])


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="root alone may do that")
@pytest.mark.parametrize("name", ["A.B", "UPPER", "x", "y" * 63])
def test_a_host_in_a_machine_of_its_own(fleet: Machines, name: str) -> None:
    """Namespaces for its host name and its network: nothing but PostgreSQL is shared, and all orders arrive."""
    one, two = fleet.add(), fleet.make("")
    del two.env["FLEET_HOST_NAME"]
    script = f'hostname {name} && ip link set lo up && exec "$@"'
    two.install()
    words = ["unshare", "--uts", "--net", "sh", "-c", script, "sh", sys.executable, str(SERVER),
             "serve", "--port", "0", "--database-url", fleet.url]  # fmt: skip
    with two.output.open("wb") as output:
        two.server = subprocess.Popen(
            words, env=two.env, cwd=two.folder, stdout=output, stderr=output
        )

    def find() -> str:
        hosts = one.api("GET", "/api/hosts")["hosts"]
        return next((x["id"] for x in hosts if x["label"] == name and x["state"] == "alive"), "")

    other = retry_until(find, 60)
    agent = one.api(
        "POST", "/api/agents",
        {"harness": "claude", "persona": one.persona(), "cwd": str(two.work), "host": other},
    )["id"]  # fmt: skip
    one.idle(agent)
    sent = one.api("POST", f"/api/agents/{agent}/send", {"text": "Fix it"})
    shown = one.api("GET", f"/api/agents/{agent}/screen")["screen"]
    ended = one.api("POST", f"/api/agents/{agent}/stop")["state"]

    assert ("proven", "ended") == (sent["state"], ended)
    assert "Fix it" in shown


def test_no_workflow_is_started_off_a_queue() -> None:
    """One that is started, forked or resumed without a queue would be carried on by any host of the fleet."""
    calls = re.compile(r"\bDBOS\.(start|fork|resume)_workflow|\.resume_workflows?\(")
    found = [
        f"{path.name}: {line.strip()}"
        for path in sorted((ROOT / "src").rglob("*.py"))
        for line in path.read_text().splitlines()
        if calls.search(line)
    ]

    assert [] == found


# -- the log ---------------------------------------------------------------------------


def test_no_line_is_left_out_whose_transaction_ends_late(postgres: Postgres) -> None:
    """A line with a smaller id is committed after one with a greater: it is read, and in order."""
    url = postgres.make()
    one, two = FleetDatabase(url, "h1"), FleetDatabase(url, "h2")
    read: list[str] = []
    place = queries.find_newest_place(one)

    def take() -> None:
        nonlocal place
        for line_place, event in queries.list_lines_after(one, place, 100):
            place = line_place
            read.append(event.text)

    with one.write() as slow:
        log.note(slow, "agent", "first by id")
        with two.write() as fast:
            log.note(fast, "agent", "second by id")
        take()
        seen_meanwhile = list(read)
    take()
    again = [x.text for x in queries.list_events_after(two, 0, 100)]
    one.close()
    two.close()
    postgres.drop(url)

    assert [] == seen_meanwhile
    assert ["first by id", "second by id"] == read == again


def test_many_writers_and_a_reader_that_misses_nothing(postgres: Postgres) -> None:
    """Four hosts write at once, some roll back: what is read step by step is all there is, once."""
    url = postgres.make()
    databases = [FleetDatabase(url, f"h{number}") for number in range(4)]
    reader, ended = FleetDatabase(url, "r"), threading.Event()
    beginning = queries.find_newest_place(reader)
    read: list[int] = []

    def write(database: FleetDatabase) -> None:
        for number in range(60):
            with suppress(ZeroDivisionError), database.write() as connection:
                log.note(connection, "agent", f"{database.host} {number}")
                _ = 1 // (number % 7)

    def follow() -> None:
        place = beginning
        while True:
            is_last = ended.is_set()
            for line_place, event in queries.list_lines_after(reader, place, 7):
                place = line_place
                read.append(event.id)
            if is_last and not queries.list_lines_after(reader, place, 1):
                return

    threads = [threading.Thread(target=write, args=(one,)) for one in databases]
    following = threading.Thread(target=follow)
    following.start()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    ended.set()
    following.join(60)
    with reader.read() as connection:
        there = set(connection.execute(sa.select(tables.events.c.id)).scalars())
    for database in (*databases, reader):
        database.close()
    postgres.drop(url)

    assert len(there) == 4 * (60 - 9)
    assert (sorted(there), len(read)) == (sorted(read), len(set(read)))


def test_a_restored_database_shows_its_log(postgres: Postgres) -> None:
    """Its lines have numbers of transactions that the new server has not reached: a start mends that."""
    url = postgres.make()
    database = FleetDatabase(url, "h1")
    with database.write() as connection:
        log.note(connection, "agent", "old")
    with database.write() as connection:
        connection.execute(sa.update(tables.events).values(xid=2**50))
    before = queries.list_events_after(database, 0, 10)
    schema.settle_log(database)
    with database.write() as connection:
        log.note(connection, "agent", "new")
    after = [event.text for event in queries.list_events_after(database, 0, 10)]
    database.close()
    postgres.drop(url)

    assert [] == before
    assert ["old", "new"] == after


# -- threads in the database -----------------------------------------------------------


def test_only_what_is_new_of_a_thread_is_stored(
    fleet: Machines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log that grew costs its new lines; one that was rewritten is stored anew; both come back whole."""
    one = fleet.add()
    agent = one.worked(one.started())
    one.kill(15)
    database = FleetDatabase(fleet.url, host="h")
    record = queries.load_agent(database, agent)
    path = Path(record.thread)
    before = path.read_bytes()
    first = thread_copies.store_thread(database, record)
    nothing = thread_copies.store_thread(database, record)
    path.write_bytes(before + before.splitlines(keepends=True)[-1])
    grown = thread_copies.store_thread(database, record)
    path.write_bytes(before.replace(b"upload", b"UPLOAD"))
    rewritten = thread_copies.store_thread(database, record)
    monkeypatch.setenv("TASUKI_DATA", str(tmp_path / "other"))
    thread_copies.restore_thread(database, record)
    copies = list(KeptStore().read_copies())
    database.close()

    assert (first, nothing) == (len(before), 0)
    assert grown == len(before.splitlines(keepends=True)[-1])
    assert rewritten == len(before)
    assert [rewritten] == [copy.record.total_bytes for copy in copies if copy.record]


def test_a_persona_changed_on_two_hosts_at_once_loses_nothing(
    tmp_path: Path, postgres: Postgres
) -> None:
    """One change counts everywhere; the other one is kept beside the file, with an alarm."""
    from tasuki.fleet.agents import personas

    url = postgres.make()
    hosts = [(FleetDatabase(url, f"h{n}"), tmp_path / str(n)) for n in range(2)]
    (one, here), (two, there) = hosts
    slug = personas.add_persona(
        one, here, NewPersona(role="developer", name="con", skill="First.")
    ).slug
    for database, root in hosts:
        shared_files.share_persona(database, root, slug)
    files = [personas.get_persona_folder(root, slug) / "skill.md" for _, root in hosts]
    files[0].write_text("Here.\n")
    files[1].write_text("There.\n")
    shared_files.share_persona(one, here, slug)
    shared_files.share_persona(two, there, slug)
    kept = [path.read_text() for path in files[1].parent.glob("skill.md.before-*")]
    alarms = [x for x in queries.list_events_after(one, 0, 100) if x.kind == "alarm"]
    for database, _ in hosts:
        database.close()
    postgres.drop(url)

    assert ["Here.\n", "Here.\n"] == [path.read_text() for path in files]
    assert (["There.\n"], 1) == (kept, len(alarms))


def test_a_checkout_is_found_where_another_agent_works(tmp_path: Path, postgres: Postgres) -> None:
    """By the origin, however its URL is written; never one of another repository, nor a folder that is gone."""
    url = postgres.make()
    database = FleetDatabase(url, "h1")
    origin = make_origin(tmp_path)
    there, other = clone(origin, tmp_path / "b"), make_origin(fresh(tmp_path / "other"))
    folders = [tmp_path / "gone", clone(other, tmp_path / "c"), there]
    with database.write() as connection:
        for folder in folders:
            row = {"harness": "claude", "state": "idle", "state_at": 0.0, "cwd": str(folder), "host": "h1", "started_at": 0.0}  # fmt: skip
            connection.execute(sa.insert(tables.agents).values(**row))
    wanted = moves.TargetQuestion("claude", "s", "/nowhere", f"file://{origin}")
    found = moves.find_checkout(database, wanted)
    nothing = moves.find_checkout(database, replace(wanted, origin="ssh://git@example.com/x.git"))
    database.close()
    postgres.drop(url)

    assert (str(there), "") == (found, nothing)


def fresh(folder: Path) -> Path:
    """A new folder."""
    folder.mkdir()
    return folder
