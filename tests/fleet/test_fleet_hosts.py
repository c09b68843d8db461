"""Hosts of one database: any name of a machine, two at once, moved folders, one server for each."""

import json
import os
import shutil
import subprocess
import sys
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest
import sqlalchemy as sa
from databases import Postgres
from fleets import TASUKI, World, once, refusal, world_at
from waiting import retry_until

from tasuki.fleet.hosts import HOSTS_FILE, MOST_LABEL_CHARACTERS, FleetHost, identify_host
from tasuki.fleet.server_locks import AdvisoryClaim
from tasuki.fleet.store.database import FleetDatabase, build_sqlite_url, normalize_url

NAMES = ["Anns-MacBook-Pro.local", "web1.example.com", "x" * 200, "büro-höhle-日本", "A"]


def known(world: World) -> dict[str, dict[str, str]]:
    """What a data folder keeps of the machines that used it."""
    found: dict[str, dict[str, str]] = json.loads((world.data / "fleet" / HOSTS_FILE).read_text())
    return found


# -- names -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_it_starts_on_a_machine_of_any_name(tmp_path: Path, worlds: ExitStack, name: str) -> None:
    """Upper case, dots, 200 characters, letters of any script: the name is for people alone."""
    world = world_at(worlds, tmp_path, name=name)
    world.serve()
    (host,) = known(world).values()

    assert "ok" == world.health()
    assert (13, "h") == (len(host["id"]), host["id"][0])
    assert name.startswith(host["label"].rstrip("…")[:MOST_LABEL_CHARACTERS])


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="root alone may name it")
def test_it_starts_where_the_machine_itself_has_such_a_name(tmp_path: Path) -> None:
    """The kernel's own host name, in a namespace of the test's own."""
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "TASUKI_DATA": str(tmp_path / "data"),
           "TASUKI_CONFIG": str(tmp_path / "none.toml"), "LANG": "C.UTF-8"}  # fmt: skip
    script = f"hostname Anns-MacBook-Pro.local && exec {TASUKI} serve --port 0"
    running = subprocess.Popen(
        ["unshare", "--uts", "sh", "-c", script], env=env, cwd=tmp_path, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        assert running.stdout
        said = running.stdout.readline()
    finally:
        running.terminate()
        _, complaints = running.communicate(timeout=20)

    assert "The fleet is served at" in said, complaints
    assert "Anns-MacBook-Pro.local" in (tmp_path / "data" / "fleet" / HOSTS_FILE).read_text()


def test_a_host_keeps_its_id_when_its_machine_gets_another_name(tmp_path: Path) -> None:
    """The id is made once and kept in the data folder."""
    first = identify_host(tmp_path, [])
    again = identify_host(tmp_path, [])

    assert (first.id, ()) == (again.id, again.others)
    assert 0o600 == (tmp_path / HOSTS_FILE).stat().st_mode & 0o777


# -- two hosts on one database ---------------------------------------------------------


def test_two_hosts_on_one_database(tmp_path: Path, worlds: ExitStack, postgres: Postgres) -> None:
    """Each starts, hands its own agents off, and leaves the other's alone."""
    url = postgres.make()
    worlds.callback(postgres.drop, url)
    one = world_at(worlds, tmp_path / "one", url, "Anns-MacBook-Pro.local")
    two = world_at(worlds, tmp_path / "two", url, "web1.example.com")
    agents = []
    for number, world in enumerate((one, two)):
        world.serve()
        world.install()
        world.script(document=[["document", "{path}"], ["say", "written"]])
        persona = world.api(
            "POST", "/api/personas", {"role": "developer", "name": f"c{number}", "skill": "Be."}
        )["slug"]
        agents.append(world.worked(world.started(persona=persona)))
    ids = [world.hand_off(agent) for world, agent in zip((one, two), agents, strict=True)]

    for world, id in zip((one, two), ids, strict=True):
        once(world, world.ends(id))
    assert 2 == len({row["host"] for row in one.agent_rows()})


def test_a_host_that_waits_for_another_ones_start_holds_up_no_index(
    tmp_path: Path, postgres: Postgres
) -> None:
    """DBOS builds indexes concurrently, which waits for every statement that runs meanwhile."""
    url = normalize_url(postgres.make())
    starts, waits = (AdvisoryClaim(url, FleetHost(f"h00000000000{n}", "x")) for n in (1, 2))
    starts.take()
    waits.take()
    waited = threading.Event()

    def wait() -> None:
        with waits.hold_start_lock():
            waited.set()

    waiting = threading.Thread(target=wait)
    builder = sa.create_engine(url, isolation_level="AUTOCOMMIT")
    with builder.connect() as connection:
        with starts.hold_start_lock():
            waiting.start()
            retry_until(lambda: any(map(asks_for_start, connection.execute(_ACTIVITY).scalars())))
            connection.exec_driver_sql("SET statement_timeout = '20s'")
            connection.exec_driver_sql("CREATE INDEX CONCURRENTLY more ON hosts (label)")
            too_early = waited.is_set()
        waiting.join(20)
    builder.dispose()
    starts.release()
    waits.release()

    assert (False, True) == (too_early, waited.is_set())


_ACTIVITY = sa.text("SELECT query FROM pg_stat_activity WHERE pid <> pg_backend_pid()")


def asks_for_start(query: str) -> bool:
    """Whether a session's last statement was about the lock under which servers start."""
    return "advisory_lock" in query


def test_an_order_for_an_agent_of_a_host_that_is_away_is_refused(
    tmp_path: Path, worlds: ExitStack, postgres: Postgres
) -> None:
    """409 with that host's name: nothing is typed, ended, shown or written; nobody is given up."""
    url = postgres.make()
    worlds.callback(postgres.drop, url)
    one = world_at(worlds, tmp_path / "one", url, "Anns-MacBook-Pro.local")
    two = world_at(worlds, tmp_path / "two", url, "web1.example.com")
    one.serve()
    one.install()
    one.script(document=[["say", "no"]])
    agent = one.worked(one.started())
    of = one.hand_off(agent)
    one.ends(of, "failed")
    retry_until(lambda: one.agent_rows()[0]["context_source"])
    one.kill()
    two.serve()
    two.sql("UPDATE hosts SET last_seen = last_seen - 61 WHERE label LIKE 'Anns%'")
    before = [one.agent_rows(), one.sql("SELECT * FROM handoffs"), len(one.seen("prompt"))]
    orders = [
        (f"/api/agents/{agent}/send", {"text": "hello"}), (f"/api/agents/{agent}/stop", {}),
        (f"/api/agents/{agent}/keys", {"key": "Enter"}),
        (f"/api/agents/{agent}/handoff", {"reason": "context_limit"}),
        *((f"/api/handoffs/{of}/{order}", {}) for order in ("retry", "finish", "skip")),
    ]  # fmt: skip
    said = [refusal(two, path, body) for path, body in orders]
    with pytest.raises(AssertionError, match=r"409.*Anns-MacBook-Pro\.local"):
        two.api("GET", f"/api/agents/{agent}/screen")
    after = [one.agent_rows(), one.sql("SELECT * FROM handoffs"), len(one.seen("prompt"))]
    cancelled = two.api("POST", f"/api/handoffs/{of}/cancel")

    assert {409} == {status for status, _ in said}
    assert all("The host Anns-MacBook-Pro.local is away" in sentence for _, sentence in said), said
    assert before == after
    assert "cancelled" == cancelled["state"]


# -- a folder that was moved, restored or copied ---------------------------------------


def test_a_folder_on_another_machine_leaves_the_agents_alone_until_it_is_told(
    tmp_path: Path, worlds: ExitStack
) -> None:
    """It starts and says what to do; with `--moved` the agents are its own, and the gone ones lost."""
    world = world_at(worlds, tmp_path, name="old.example")
    world.serve()
    world.install()
    alive, gone = world.started(), world.started(persona="", harness="claude")
    world.kill(15)
    world.tmux("kill-pane", "-t", world.agent_rows()[gone - 1]["pane"])
    file = world.data / "fleet" / HOSTS_FILE
    file.write_text(json.dumps({"another machine": next(iter(known(world).values()))}))

    world.serve()
    refused = refusal(world, f"/api/agents/{alive}/stop", {})
    world.kill(15)
    left = [row["ended_at"] for row in world.agent_rows()]
    said = world.output.read_text()
    world.serve("--moved")
    retry_until(lambda: world.agent(gone)["ended_at"], 20)

    assert (409, [None, None]) == (refused[0], left)
    assert "This data folder was used on old.example before. 2 agents from there" in said
    assert "tasuki serve --moved" in said
    assert None is world.agent(alive)["ended_at"]
    assert "ended" == world.api("POST", f"/api/agents/{alive}/stop")["state"]


def test_a_moved_folder_on_the_same_machine_is_the_same_host(
    tmp_path: Path, worlds: ExitStack
) -> None:
    """Its agents are still its own."""
    world = world_at(worlds, tmp_path)
    world.serve()
    world.install()
    agent = world.started()
    world.kill(15)
    world.data = world.data.rename(tmp_path / "elsewhere")
    world.env["TASUKI_DATA"] = str(world.data)
    world.serve()

    assert "ended" == world.api("POST", f"/api/agents/{agent}/stop")["state"]


def test_an_agent_of_another_host_is_not_attached_to(tmp_path: Path, worlds: ExitStack) -> None:
    """`tasuki agent attach` names that host; the pane of the same number here is somebody else's."""
    world = world_at(worlds, tmp_path)
    world.serve()
    world.install()
    agent = world.started()
    world.sql(f"UPDATE agents SET host = 'elsewhere' WHERE id = {agent}")

    assert "not on this one" in world.tasuki("agent", "attach", str(agent), code=1)


def test_a_damaged_list_of_hosts_is_told(tmp_path: Path, worlds: ExitStack) -> None:
    """One sentence with what to do, and the file stays."""
    world = world_at(worlds, tmp_path)
    (world.data / "fleet").mkdir(parents=True)
    (world.data / "fleet" / HOSTS_FILE).write_text("{")

    assert "is damaged" in world.refused()
    assert "{" == (world.data / "fleet" / HOSTS_FILE).read_text()


@pytest.mark.long
def test_a_list_of_hosts_that_is_gone_leaves_a_way_on(
    tmp_path: Path, worlds: ExitStack, database_url: str
) -> None:
    """The list is moved away, as the message on a damaged one says: the agents are left alone until `--moved`."""
    world = world_at(worlds, tmp_path, database_url)
    world.serve()
    world.install()
    agent = world.started()
    world.kill(15)
    (world.data / "fleet" / HOSTS_FILE).rename(tmp_path / "away")
    world.serve()
    said = world.output.read_text()
    refused = refusal(world, f"/api/agents/{agent}/stop", {})
    world.kill(15)
    world.serve("--moved")

    assert ("1 agents from there" in said, "tasuki serve --moved" in said) == (True, True)
    assert 409 == refused[0]
    assert "ended" == world.api("POST", f"/api/agents/{agent}/stop")["state"]


def test_a_host_that_runs_is_not_taken_over(
    tmp_path: Path, worlds: ExitStack, postgres: Postgres
) -> None:
    """Two machines of one name on one database: `--moved` takes no agents of a server that runs."""
    url = postgres.make()
    worlds.callback(postgres.drop, url)
    one = world_at(worlds, tmp_path / "one", url, "laptop")
    two = world_at(worlds, tmp_path / "two", url, "laptop")
    one.serve()
    one.install()
    agent = one.started()
    two.serve("--moved")

    assert "idle" == one.agent(agent)["state"]
    assert 1 == len({row["host"] for row in one.agent_rows()})
    assert one.agent_rows()[0]["host"] in (one.data / "fleet" / HOSTS_FILE).read_text()


# -- one server ------------------------------------------------------------------------


@pytest.mark.long
def test_two_servers_of_one_file_are_refused(tmp_path: Path, worlds: ExitStack) -> None:
    """Two data folders with one SQLite file by its URL, of which one is a link to it."""
    one, two = world_at(worlds, tmp_path / "one"), world_at(worlds, tmp_path / "two")
    one.database_url = build_sqlite_url(tmp_path / "shared.db")
    two.database_url = build_sqlite_url(tmp_path / "link.db")
    (tmp_path / "link.db").symlink_to(tmp_path / "shared.db")
    one.serve()
    assert one.server
    said = two.refused()
    one.kill()
    two.serve()

    assert f"A server has the database {tmp_path / 'shared.db'} already" in said
    assert f"end it first: kill {one.server.pid}" in said


@pytest.fixture
def copied(tmp_path: Path, worlds: ExitStack, postgres: Postgres) -> tuple[World, World, str]:
    """A data folder whose server runs on PostgreSQL, and a copy of it."""
    url = postgres.make()
    worlds.callback(postgres.drop, url)
    one = world_at(worlds, tmp_path / "one", url)
    one.serve()
    two = world_at(worlds, tmp_path / "two", url)
    (two.data / "fleet").mkdir(parents=True)
    shutil.copy(one.data / "fleet" / HOSTS_FILE, two.data / "fleet" / HOSTS_FILE)
    return one, two, url


@pytest.mark.long
def test_a_copied_folder_whose_original_runs_is_refused(copied: tuple[World, World, str]) -> None:
    """One database and one host id: it says how the copy becomes a host of its own."""
    one, two, _ = copied
    said = two.refused()
    (two.data / "fleet" / HOSTS_FILE).unlink()
    two.serve()

    assert "A server of this host" in said
    assert f"remove {HOSTS_FILE}" in said
    assert "ok" == one.health()


CUT = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'tasuki h%'"
)


@pytest.mark.long
def test_a_lock_whose_connection_broke_is_taken_again(copied: tuple[World, World, str]) -> None:
    """The server goes on, and a second one is still refused."""
    one, two, _ = copied
    one.sql(CUT)
    retry_until(lambda: "The lock on the database is held again." in one.output.read_text(), 20)

    assert "A server of this host" in two.refused()
    assert "ok" == one.health()


def test_a_server_whose_lock_another_has_taken_ends(copied: tuple[World, World, str]) -> None:
    """It says so, with exit code 1, and does nothing any more."""
    one, _, url = copied
    (host,) = known(one).values()
    number = (0x7A51 << 48) | int(host["id"][1:], 16)
    database = FleetDatabase(url)
    with database.engine.connect() as other:
        other.execute(sa.text(CUT))
        taken = sa.text(f"SELECT pg_try_advisory_lock({number})")
        retry_until(lambda: other.execute(taken).scalar_one(), 5)
        assert one.server
        code = one.server.wait(20)
    database.close()

    assert 1 == code
    assert "another server of this host took its place" in one.output.read_text()


@pytest.mark.long
def test_of_two_copies_one_has_a_server(tmp_path: Path, worlds: ExitStack) -> None:
    """The original is gone: the second server is refused all the same, and starts once the first has ended."""
    first = world_at(worlds, tmp_path / "first")
    first.serve()
    first.kill(15)
    ignored = shutil.ignore_patterns("*.sock", "lock", "*.server")
    copies = [world_at(worlds, tmp_path / name) for name in ("one", "two")]
    for world in copies:
        shutil.copytree(first.data, world.data, ignore=ignored)
    first.data.rename(tmp_path / "away")
    copies[0].serve()
    said = copies[1].refused()
    copies[0].kill(15)
    shutil.rmtree(copies[0].data)
    copies[1].serve()

    assert "copies of each other" in said
    assert str(copies[0].data / "fleet.db") in said


@pytest.mark.long
def test_a_copied_folder_with_a_file_is_refused(tmp_path: Path, worlds: ExitStack) -> None:
    """With SQLite too, whichever is started first: both would type into the same agents."""
    one = world_at(worlds, tmp_path / "one")
    one.serve()
    one.install()
    agent = one.started()
    two = world_at(worlds, tmp_path / "two")
    shutil.copytree(one.data, two.data, ignore=shutil.ignore_patterns("*.sock", "lock"))
    while_it_runs = two.refused()
    one.kill(15)
    afterwards = two.refused()
    one.serve()
    (two.data / "fleet" / HOSTS_FILE).unlink()
    two.serve()

    for said in (while_it_runs, afterwards):
        assert f"is a copy of {one.data / 'fleet'}" in said
        assert f"remove {HOSTS_FILE}" in said
    assert 409 == refusal(two, f"/api/agents/{agent}/stop", {})[0]
    assert "ended" == one.api("POST", f"/api/agents/{agent}/stop")["state"]
