"""Whole hosts that joined: their servers, where their URL comes from, and joining over ssh."""

import os
import shlex
import subprocess
from contextlib import ExitStack
from pathlib import Path

import pytest
import sqlalchemy as sa
from databases import Postgres, make_tables
from fleets import TASUKI, World, once, refusal, world_at
from joins import connected, join_at, printed_command, rows, token_for, two_hosts
from waiting import retry_until

from tasuki import __version__
from tasuki.errors import Refused
from tasuki.fleet.hosts import FleetHost
from tasuki.fleet.membership import URL_FILE
from tasuki.fleet.membership.urls import read_url
from tasuki.fleet.server_locks import AdvisoryClaim
from tasuki.fleet.store.database import FleetDatabase, build_sqlite_url, normalize_url

# -- whole hosts --------------------------------------------------------------------


def test_two_hosts_of_which_one_joined(
    tmp_path: Path, worlds: ExitStack, owner_url: str, guarded: Postgres
) -> None:
    """The second host's role is enough for a server: each hands an agent of its own off."""
    one, two = two_hosts(worlds, tmp_path, owner_url)
    said = two.tasuki(*printed_command(one, guarded, "--label", "build2"))
    two.serve()
    agents = []
    for number, world in enumerate((one, two)):
        world.install()
        world.script(document=[["document", "{path}"], ["say", "written"]])
        persona = {"role": "developer", "name": f"c{number}", "skill": "Be."}
        slug = world.api("POST", "/api/personas", persona)["slug"]
        agents.append(world.worked(world.started(persona=slug)))
    ids = [world.hand_off(agent) for world, agent in zip((one, two), agents, strict=True)]
    for world, id in zip((one, two), ids, strict=True):
        once(world, world.ends(id))
    hosts = one.sql("SELECT label, given_label, role FROM hosts ORDER BY label")

    assert "tasuki serve" in said
    assert ["first", "second"] == [host["label"] for host in hosts]
    assert ["", "build2"] == [host["given_label"] for host in hosts]
    assert hosts[1]["role"].startswith("tasuki_host_")
    assert 2 == len({row["host"] for row in one.agent_rows()})
    assert "Agent is not active" == refusal(two, f"/api/agents/{agents[0]}/send", {"text": "x"})[1]


def test_retiring_a_host(
    tmp_path: Path, worlds: ExitStack, owner_url: str, guarded: Postgres
) -> None:
    """Refused while agents live there; then its server does not start until it joins again."""
    one, two = two_hosts(worlds, tmp_path, owner_url)
    two.tasuki(*printed_command(one, guarded))
    two.serve()
    two.install()
    agent = two.started(persona="", harness="claude")
    while_it_lives = one.tasuki("host", "retire", "second", code=1)
    two.api("POST", f"/api/agents/{agent}/stop")
    two.kill(15)
    own = one.tasuki("host", "retire", "first", code=1)
    unknown = one.tasuki("host", "retire", "third", code=1)
    done = one.tasuki("host", "retire", "sec")
    refused = two.refused()
    two.database_url = owner_url
    with_the_owners_role = two.refused()
    two.database_url = ""
    two.tasuki(*printed_command(one, guarded))
    two.serve()

    assert "1 agent of second has not ended" in while_it_lives
    assert "whose server was asked" in own
    assert "No host 'third'" in unknown
    assert "is retired" in done
    assert "This host was retired" in refused
    assert "This host was retired on" in with_the_owners_role


@pytest.mark.long
def test_a_server_of_a_retired_host_ends(
    tmp_path: Path, worlds: ExitStack, owner_url: str, guarded: Postgres
) -> None:
    """It says why, with exit code 1; a server that runs while its host joins is told of."""
    one, two = two_hosts(worlds, tmp_path, owner_url)
    two.serve()
    command = printed_command(one, guarded)
    said = two.tasuki(*command)
    two.kill(15)
    two.serve()
    one.tasuki("host", "retire", "second")
    assert two.server
    code = two.server.wait(20)

    assert "A server runs with what was there before" in said
    assert 1 == code
    assert "it was retired, or joined again elsewhere" in two.output.read_text()


def test_a_host_whose_tasuki_is_newer_than_the_tables_says_where_to_start_first(
    tmp_path: Path, worlds: ExitStack, owner_url: str, guarded: Postgres
) -> None:
    """Its role may not change them: one sentence with the other host's name, and no traceback."""
    one, two = two_hosts(worlds, tmp_path, owner_url)
    two.tasuki(*printed_command(one, guarded))
    one.sql("UPDATE tasuki_workflows.dbos_migrations SET version = version - 1")
    engine = two.refused()
    one.sql("UPDATE tasuki_workflows.dbos_migrations SET version = version + 1")
    one.sql("UPDATE fleet_schema SET version_num = '0014'")
    older = two.refused()
    one.sql("UPDATE fleet_schema SET version_num = '9999'")
    newer = two.refused()

    assert "those of its engine are not" in engine
    assert "Start the newer tasuki first on first" in engine
    assert "development version of tasuki (revision 0014)" in older
    assert "created by a newer tasuki (revision 9999)" in newer


def test_a_second_server_of_a_host_under_another_role_is_refused(
    tmp_path: Path, owner: FleetDatabase
) -> None:
    """PostgreSQL hides what it knows of other roles' connections: the sentence names the role."""
    joined = join_at(tmp_path, owner)
    first = AdvisoryClaim(owner.url, FleetHost(joined.id, "x"))
    second = AdvisoryClaim(normalize_url(read_url(tmp_path / "fleet")), FleetHost(joined.id, "x"))
    other = AdvisoryClaim(normalize_url(read_url(tmp_path / "fleet")), FleetHost("h0000000000a1", "y"))  # fmt: skip
    first.take()
    other.take()
    try:
        with pytest.raises(Exception, match=f"with the role {owner.engine.url.username}"):
            second.take()

        assert other.is_running(joined.id)
        assert first.is_running("h0000000000a1")
    finally:
        for claim in (first, second, other):
            claim.release()


def test_a_broken_lock_of_a_joined_host_is_taken_again(
    tmp_path: Path, owner: FleetDatabase
) -> None:
    """Its role may end its own connection that PostgreSQL still holds."""
    joined = join_at(tmp_path, owner)
    claim = AdvisoryClaim(normalize_url(read_url(tmp_path / "fleet")), FleetHost(joined.id, "x"))
    claim.take()
    forgotten = claim._connection
    try:
        retry_until(claim._is_taken, 10)

        assert claim._connection is not forgotten
    finally:
        assert forgotten
        forgotten.invalidate()
        forgotten.close()
        claim.release()


# -- where the URL comes from -------------------------------------------------------


def test_a_url_that_others_can_read_is_refused(
    tmp_path: Path, worlds: ExitStack, owner: FleetDatabase
) -> None:
    """The server says how to mend it; an option and the environment come first."""
    world = world_at(worlds, tmp_path)
    join_at(world.data, owner)
    (world.data / "fleet" / URL_FILE).chmod(0o644)
    said = world.refused()
    chosen = build_sqlite_url(tmp_path / "chosen.db")
    world.env["TASUKI_DATABASE_URL"] = chosen
    world.serve()

    assert "chmod 600" in said
    assert (tmp_path / "chosen.db").exists()


def test_a_host_with_agents_of_its_own_does_not_join(
    tmp_path: Path, worlds: ExitStack, owner: FleetDatabase
) -> None:
    """It says where they are; with --leave-agents they stay in their file."""
    world = world_at(worlds, tmp_path)
    world.serve()
    world.install()
    world.started(persona="", harness="claude")
    world.kill(15)
    url = token_for(owner).url
    said = world.tasuki("host", "join", url, code=3)
    world.tasuki("host", "join", "-", "--leave-agents", input=f"{url}\n")

    history = world.tasuki("handoffs", "prune", "--older-than", "0", "--yes", code=None)

    assert "1 agent that has not ended" in said
    assert "in a database that its server must be asked for" in history
    assert "--leave-agents" in said
    assert read_url(world.data / "fleet").startswith("postgresql://tasuki_host_")
    assert [None] == [row["ended_at"] for row in world.agent_rows()]


def test_a_host_of_another_fleet_is_not_moved_by_accident(
    tmp_path: Path, owner: FleetDatabase, guarded: Postgres
) -> None:
    """It names the fleet that it is in."""
    join_at(tmp_path, owner)
    other_url = guarded.make_owned()
    make_tables(other_url)
    other = FleetDatabase(other_url)
    try:
        with pytest.raises(Refused, match=f"in the fleet of .*{owner.engine.url.database} already"):
            join_at(tmp_path, other)
    finally:
        other.close()


@pytest.mark.long
def test_a_server_warns_of_an_unverified_connection(
    tmp_path: Path, worlds: ExitStack, owner_url: str
) -> None:
    """It starts all the same on loopback, without a word; another name is warned of."""
    world = world_at(worlds, tmp_path, owner_url)
    world.serve()
    quiet = world.output.read_text()
    world.kill(15)
    world.database_url = f"{owner_url.replace('127.0.0.1', 'db.invalid')}?hostaddr=127.0.0.1"
    world.serve()

    assert "is not verified" not in quiet
    assert "is not verified" in world.output.read_text()


# -- over ssh -----------------------------------------------------------------------

FAKE_SSH = """#!/bin/sh
# Runs the command on this machine, in the environment of another host.
echo "$@" >> {log}
while [ "$1" != -- ]; do shift; done
shift 2
exec env -i {environment} sh -c "$1"
"""


def install_ssh(world: World, other: World, log: Path) -> None:
    """On the path of one host there is an ssh that leads to the other."""
    environment = shlex.join(f"{name}={value}" for name, value in other.env.items())
    install_script(world, FAKE_SSH.format(log=log, environment=environment))


def install_script(world: World, script: str) -> None:
    """An ssh of a test's own."""
    path = world.folder / "bin" / "ssh"
    path.write_text(script)
    path.chmod(0o755)


def test_a_host_is_added_over_ssh(
    tmp_path: Path, worlds: ExitStack, owner_url: str, guarded: Postgres
) -> None:
    """Token and certificates go through standard input: no command line has them. The host then serves, over TLS."""
    verified = f"{owner_url}?sslmode=verify-full&sslrootcert={guarded.folder}/ca.pem"
    one = world_at(worlds, tmp_path / "one", verified.replace("127.0.0.1", "localhost"), "first")
    two = world_at(worlds, tmp_path / "two", name="second")
    install_ssh(one, two, tmp_path / "commands")
    one.serve()
    place = f"localhost:{guarded.port}"
    said = one.tasuki("host", "add", "ann@build2", "--database-host", place, "--ssh-option", "-p2222")  # fmt: skip
    printed = one.tasuki("host", "add", "--database-host", place)
    two.serve()
    commands = (tmp_path / "commands").read_text().splitlines()
    kept = sa.make_url(read_url(two.data / "fleet"))
    uses = "SELECT ssl, usename FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE datname = current_database() AND client_port > 0"
    with connected(guarded.url(str(kept.database))) as connection:
        used = set(connection.execute(uses).fetchall())

    assert "joined the fleet" in said
    assert "--ca FILE" in printed
    assert ["tasuki --version", "tasuki host join -"] == [line.partition("build2 ")[2] for line in commands]  # fmt: skip
    assert all("BatchMode=yes -p2222 -- ann@build2" in line for line in commands)
    assert ("verify-full", f"{two.data}/fleet/database-ca.pem") == (kept.query["sslmode"], kept.query["sslrootcert"])  # fmt: skip
    assert "ok" == two.health()
    assert {(True, kept.username), (True, f"{kept.database}_owner")} == used
    assert "is not verified" not in two.output.read_text()


SSH_FAILURES = {
    "echo 'Host key verification failed.' >&2; exit 255": "compare the key",
    "echo 'ann@box: Permission denied (publickey).' >&2; exit 255": "sign in there without asking",
    "echo 'ssh: Could not resolve hostname box' >&2; exit 255": "Is that its name?",
    "echo 'ssh: connect to host box port 22: Connection timed out' >&2; exit 255": "Is it on",
    "echo 'sh: 1: tasuki: not found' >&2; exit 127": "tasuki was not found on ann@box",
    "echo 'Traceback' >&2; exit 1": "does not work on ann@box",
}


@pytest.mark.parametrize(("script", "sentence"), SSH_FAILURES.items())
def test_a_failure_of_ssh_is_told(
    tmp_path: Path, worlds: ExitStack, script: str, sentence: str
) -> None:
    """What ssh said, and what to do; no token is made for it."""
    world = world_at(worlds, tmp_path)
    install_script(world, f"#!/bin/sh\n{script}\n")

    assert sentence in world.tasuki("host", "add", "ann@box", code=1)


def test_without_ssh_it_says_so(tmp_path: Path, worlds: ExitStack) -> None:
    """The command without USER@BOX is left."""
    world = world_at(worlds, tmp_path)
    path = world.env["PATH"]
    world.env["PATH"] = str(world.folder / "bin")
    said = world.tasuki("host", "add", "ann@box", code=1)
    world.env["PATH"] = path

    assert "ssh is not installed" in said


@pytest.mark.parametrize("target", ["-oProxyCommand=id", "ann@box -p2", "ann@-box", "a;id@box", ""])
def test_a_target_that_is_none_is_refused(tmp_path: Path, worlds: ExitStack, target: str) -> None:
    """It could be an option of ssh, or another command: ssh is not called."""
    world = world_at(worlds, tmp_path)
    install_script(world, f"#!/bin/sh\ntouch {tmp_path / 'called'}\n")

    assert "is no USER@BOX" in world.tasuki("host", "add", "--", target, code=2)
    assert not (tmp_path / "called").exists()


@pytest.mark.long
def test_another_version_there_is_told(
    tmp_path: Path, worlds: ExitStack, owner_url: str, guarded: Postgres
) -> None:
    """It goes on, and what the other side refuses is shown."""
    world = world_at(worlds, tmp_path, owner_url)
    script = 'case "$*" in *--version) echo tasuki 99.0;; *) cat > /dev/null; echo it is full >&2; exit 1;; esac'
    install_script(world, f"#!/bin/sh\n{script}\n")
    world.serve()
    said = world.tasuki("host", "add", "ann@box", "--database-host", f"127.0.0.1:{guarded.port}", code=1)  # fmt: skip

    assert f"has tasuki 99.0, this host {__version__}" in said
    assert "ann@box did not join. It says: it is full" in said


def test_the_command_needs_no_server_to_join(tmp_path: Path, owner: FleetDatabase) -> None:
    """As a program with a terminal's words: what it prints has no password."""
    env = {**os.environ, "TASUKI_DATA": str(tmp_path), "HOME": str(tmp_path)}
    token = token_for(owner)
    done = subprocess.run(
        [TASUKI, "host", "join", "-", "--label", "laptop"], env=env, input=token.url, text=True,
        capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    said = done.stdout + done.stderr
    passwords = [sa.make_url(url).password for url in (token.url, read_url(tmp_path / "fleet"))]

    assert 0 == done.returncode, said
    assert not [one for one in passwords if str(one) in said]
    assert "tasuki install claude --fleet" in said
    assert [("laptop",)] == rows(owner, "SELECT given_label FROM hosts")
