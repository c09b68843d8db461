"""What a host may do on another one: its orders are signed, and the other one's own file decides."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from databases import Postgres, make_tables, missing
from fleets import World, refusal
from joins import connected, join_at
from machines import JoinedMachines, Machines, host_of, machines
from test_fleet_machines import move, pair, prepare_move
from waiting import retry_until

from tasuki.errors import NotPossible, Refused, StoreFailed
from tasuki.fleet.exchange.gate import KEY_FILE, POLICY_FILE, HostGate
from tasuki.fleet.hosts import FleetHost, record_host
from tasuki.fleet.membership.urls import read_url
from tasuki.fleet.orders import agents, handoffs  # noqa: F401  they fill the table of orders
from tasuki.fleet.orders.order import carry_out, list_deeds
from tasuki.fleet.store.database import FleetDatabase

pytestmark = pytest.mark.skipif(bool(missing()), reason="PostgreSQL is not installed")


@pytest.fixture
def fleet(tmp_path: Path, guarded: Postgres) -> Iterator[Machines]:
    """Hosts that joined, none of them started yet."""
    with machines(tmp_path, guarded, JoinedMachines) as made:
        yield made


def test_an_agent_moves_between_hosts_that_joined(fleet: Machines) -> None:
    """Their own roles are enough: there and back, and each host signs what it orders."""
    one, two, agent, here, there = prepare_move(fleet)

    successor = one.ends(move(one, two, agent, there), seconds=90)["successor_id"]
    two.idle(successor)
    back = two.ends(move(two, one, successor, here), seconds=90)

    assert host_of(one) == one.agent(back["successor_id"])["host"]
    assert 2 == len(
        {
            row["public_key"]
            for row in one.sql("SELECT public_key FROM hosts WHERE public_key <> ''")
        }
    )
    assert 0o600 == (two.data / "fleet" / KEY_FILE).stat().st_mode & 0o777


# -- the policy ------------------------------------------------------------------------


def write_policy(world: World, text: str) -> Path:
    """Write the file of a host, which it reads at each order."""
    path = world.data / "fleet" / POLICY_FILE
    path.write_text(text)
    return path


def test_a_host_does_what_the_other_ones_file_allows_and_no_more(fleet: Machines) -> None:
    """Each refusal names the rule, the file and what to write; nothing is typed, started or ended."""
    one, two = pair(fleet)
    agent, asker = two.started(), host_of(one)
    path = write_policy(two, f'[hosts.{asker}]\nmay = ["look"]\n')
    start = {"harness": "claude", "cwd": str(two.work), "host": host_of(two)}
    orders = [
        (f"/api/agents/{agent}/send", {"text": "Typed by one"}, "send"), ("/api/agents", start, "start"),
        (f"/api/agents/{agent}/keys", {"key": "Escape"}, "keys"), (f"/api/agents/{agent}/stop", {}, "stop"),
        (f"/api/agents/{agent}/handoff", {"reason": "context_limit"}, "hand_off"),
    ]  # fmt: skip
    said = [(*refusal(one, url, body), deed) for url, body, deed in orders]
    shown = one.api("GET", f"/api/agents/{agent}/screen")["screen"]
    own = two.api("POST", f"/api/agents/{agent}/send", {"text": "Typed by two"})
    path.unlink()
    later = one.api("POST", f"/api/agents/{agent}/send", {"text": "Typed by one, later"})

    for status, sentence, deed in said:
        assert 409 == status
        assert f'refuses "{deed}" from the host' in sentence
        assert f'write under [hosts.{asker}] in {path} there: may = ["look", "{deed}"]' in sentence
    assert shown
    assert ("proven", "proven") == (own["state"], later["state"])
    assert [1, 1] == [len(two.prompts(words)) for words in ("Typed by two", "Typed by one")]
    assert 1 == len(two.agent_rows())


def test_no_host_raises_permissions_on_another_one(fleet: Machines) -> None:
    """By default an agent is started with the program's own, whether started there or moved there."""
    one, two, agent, _, there = prepare_move(fleet)
    asker = host_of(one)
    start = {"harness": "claude", "cwd": str(two.work), "host": host_of(two)}
    raised = [refusal(one, "/api/agents", {**start, **more})
              for more in ({"permission": "bypassPermissions"}, {"arguments": ["--dangerously-skip-permissions"]})]  # fmt: skip
    planned = one.api("POST", "/api/agents", {**start, "permission": "plan"})["id"]
    one.sql(f"UPDATE agents SET permission = 'bypassPermissions' WHERE id = {agent}")
    moved = one.tasuki("agent", "handoff", str(agent), "--reason", "x", "--to-host", host_of(two), "--to-cwd", str(there), code=1)  # fmt: skip
    write_policy(two, f'[default]\nmay = ["start"]\n[hosts.{asker}]\npermissions = ["*"]\n')
    allowed = one.api("POST", "/api/agents", {**start, "permission": "bypassPermissions"})["id"]

    assert [409, 409] == [status for status, _ in raised]
    assert (
        "starts no agent with the permission mode 'bypassPermissions' for the host" in raised[0][1]
    )
    assert (
        f"write under [hosts.{asker}] in {two.data / 'fleet' / POLICY_FILE} there" in raised[0][1]
    )
    assert raised[0][1].endswith('permissions = ["default", "plan", "bypassPermissions"]')
    assert raised[1][1].endswith('permissions = ["*"]')
    assert "starts no agent with the permission mode 'bypassPermissions'" in moved
    assert two.idle(planned)
    assert two.idle(allowed)


def test_a_goal_that_waits_is_an_order_of_the_host_that_wrote_it(fleet: Machines) -> None:
    """It is not typed where that host may not send; the queue stops, and says why."""
    one, two = pair(fleet)
    persona = one.persona()
    agent = one.worked(one.started(persona=persona))
    path = write_policy(one, '[default]\nmay = ["look"]\n')
    two.api("POST", f"/api/personas/{persona}/queue", {"text": "Written by two"})
    retry_until(lambda: one.api("GET", f"/api/personas/{persona}/queue")["stopped"], 20)
    stopped = one.api("GET", f"/api/personas/{persona}/queue")["stopped"]
    path.unlink()
    one.api("PATCH", f"/api/personas/{persona}/queue", {"paused": False})
    retry_until(lambda: one.prompts("Written by two"), 20)

    assert f"was not sent to agent {agent}: The host" in stopped
    assert 'refuses "send" from the host web1.example.com' in stopped
    assert [host_of(two)] == [row["host"] for row in one.sql("SELECT host FROM queued_goals")]


def test_a_damaged_policy_lets_nobody_do_anything(fleet: Machines) -> None:
    """It names the file and the fault; this host's own orders go on."""
    one, two = pair(fleet)
    agent = two.started()
    path = write_policy(two, '[default]\nmay = ["everything"]\n')
    status, sentence = refusal(one, f"/api/agents/{agent}/send", {"text": "x"})

    assert 409 == status
    assert f"{path} cannot be used, so no other host may do anything here" in sentence
    assert "everything" in sentence
    assert "proven" == two.api("POST", f"/api/agents/{agent}/send", {"text": "own"})["state"]


@pytest.mark.parametrize(
    ("name", "data", "deeds"),
    [
        ("hand_off", {"to_host": "two"}, ["hand_off", "move"]), ("hand_off", {"to_host": ""}, ["hand_off"]),
        ("preview_move", {"to_host": "two"}, ["look", "move"]), ("undo_move", None, ["move"]), ("nothing", {}, []),
    ],
)  # fmt: skip
def test_what_leads_to_another_host_is_a_move(
    name: str, data: dict[str, str] | None, deeds: list[str]
) -> None:
    """Also to look at what a move would do asks for the rule."""
    assert deeds == list(list_deeds(name, {"id": 1, "data": data}))


def test_an_order_that_cannot_be_read_says_what_to_do() -> None:
    """Another version of tasuki may give it, with more or other fields."""
    with pytest.raises(
        NotPossible, match=r"reads the order 'press_key' otherwise: .*`hold`.*same tasuki"
    ):
        carry_out(None, "", "press_key", {"id": 1, "data": {"key": "y", "hold": True}})


# -- signatures ------------------------------------------------------------------------


@pytest.fixture
def gates(tmp_path: Path, postgres: Postgres) -> Iterator[tuple[HostGate, HostGate]]:
    """The gates of two hosts on one database."""
    url, made = postgres.make(), []
    for id in ("h00000000000a", "h00000000000b"):
        database = FleetDatabase(url, id)
        with database.write() as connection:
            record_host(connection, FleetHost(id, id))
        (tmp_path / id).mkdir()
        made.append(HostGate(database, tmp_path / id))
        made[-1].publish_key()
    yield made[0], made[1]
    for gate in made:
        gate.database.close()


DATA = {"agent_id": 1, "text": "ä", "at": 0.1, "more": ["x", None, True]}


def test_an_order_is_taken_once_from_who_signed_it(gates: tuple[HostGate, HostGate]) -> None:
    """What was ordered arrives as it was written; the same order again is refused."""
    one, two = gates
    order = json.loads(json.dumps(one.sign("h00000000000b", "id", "send_text", DATA)))
    taken = two.check("id", "send_text", order, 30)

    assert DATA == taken
    with pytest.raises(Refused, match="was given this order before, or too long ago, so it does"):
        two.check(
            "id", "send_text", order, 30
        )  # whether the first one was carried out is not known here


@pytest.mark.parametrize(
    ("id", "kind", "change"),
    [
        ("other", "send", {}), ("id", "stop", {}), ("id", "send_text", {"text": "y"}), ("id", "send_text", {"more": []}),
        ("id", "send_text", {"signed": None}), ("id", "send_text", {"signed": {"host": "h00000000000b"}}),
        ("id", "send_text", {"signed": {"host": "h00000000000f", "at": 1.0, "proof": "00" * 64}}),
        ("id", "send_text", {"signed": {"host": "h00000000000a", "at": 1.0, "proof": "zz"}}),
    ],
)  # fmt: skip
def test_an_order_that_is_not_as_it_was_signed_is_refused(
    gates: tuple[HostGate, HostGate], id: str, kind: str, change: dict[str, Any]
) -> None:
    """Another id, kind or word, or no signature that is one."""
    one, two = gates
    order = {**one.sign("h00000000000b", "id", "send_text", DATA), **change}

    with pytest.raises(Refused, match="takes no order that no host of the fleet has signed"):
        two.check(id, kind, order, 30)


def test_an_order_for_another_host_or_from_a_retired_one_is_refused(
    gates: tuple[HostGate, HostGate],
) -> None:
    """A signature is for one receiver, and ends with its host's membership; an old one is refused."""
    one, two = gates
    elsewhere = one.sign("h00000000000c", "a", "send_text", DATA)
    order = one.sign("h00000000000b", "b", "send_text", DATA)

    with pytest.raises(Refused, match="no host of the fleet has signed"):
        two.check("a", "send_text", elsewhere, 30)
    with pytest.raises(Refused, match="was given this order before"):
        two.check("b", "send_text", order, -1)
    with two.database.write() as connection:
        connection.execute(sa.text("UPDATE hosts SET retired_at = 1 WHERE id = 'h00000000000a'"))
    with pytest.raises(Refused, match="no host of the fleet has signed"):
        two.check("b", "send_text", order, 30)


def test_a_key_that_is_none_is_told(gates: tuple[HostGate, HostGate]) -> None:
    """The file is named, and what to do."""
    one, _ = gates
    (one.folder / KEY_FILE).write_bytes(b"short")

    with pytest.raises(StoreFailed, match=f"{KEY_FILE} holds no key. Remove it"):
        one.sign("h00000000000b", "id", "send_text", DATA)


# -- rows ------------------------------------------------------------------------------

OTHERS = [
    "UPDATE hosts SET public_key = 'x' WHERE id = 'h00000000000a'", "INSERT INTO hosts (id, label, version, started_at) VALUES ('h00000000000b', '', '', 0)",
    "UPDATE hosts SET id = 'h00000000000b' WHERE id LIKE 'h%' AND role LIKE 'tasuki_host%'",
    "UPDATE agents SET permission = 'bypassPermissions'", "UPDATE agents SET arguments = '[\"--yolo\"]'",
    "UPDATE agents SET pane = '%9'", "UPDATE agents SET goal = 'rm'", "UPDATE agents SET token_hash = 'x'",
    "INSERT INTO agents (harness, state, state_at, cwd, host, started_at) VALUES ('claude', 'idle', 0, '/', 'h00000000000a', 0)",
    "UPDATE handoffs SET context = 'x'", "UPDATE handoffs SET step = 'shut_down'", "UPDATE handoffs SET agent_id = 2",
    "INSERT INTO handoffs (id, agent_id, persona, reason, state, step, created_at, host, queue) "
    "SELECT 'new', agent_id, persona, reason, state, step, created_at, host, queue FROM handoffs",
]  # fmt: skip
"""What would decide what happens on another host."""


@pytest.fixture(scope="module")
def rows_url(guarded: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a host that joined, on a database with an agent and a handoff of another host."""
    url = guarded.make_owned()
    make_tables(url)
    owner = FleetDatabase(url, "h00000000000a")
    with owner.write() as connection:
        record_host(connection, FleetHost("h00000000000a", "first"))
        for statement in (
            "INSERT INTO personas (slug, role, name, number, folder, created_at) VALUES ('d', 'd', 'd', 1, '', 0)",
            "INSERT INTO agents (harness, state, state_at, cwd, host, started_at) VALUES ('claude', 'idle', 0, '/', 'h00000000000a', 0)",
            "INSERT INTO handoffs (id, agent_id, persona, reason, state, step, created_at, host, queue) "
            "VALUES ('of', 1, 'd', 'x', 'running', 'instruct', 0, 'h00000000000a', 'q')",
        ):
            connection.execute(sa.text(statement))
    folder = tmp_path_factory.mktemp("rows")
    join_at(folder, owner)
    owner.close()
    yield read_url(folder / "fleet")
    guarded.drop(url)


@pytest.mark.parametrize("statement", OTHERS)
def test_a_host_does_not_write_what_decides_on_another_one(rows_url: str, statement: str) -> None:
    """PostgreSQL refuses it, whichever of its roles the host takes."""
    with connected(rows_url) as connection:
        group = connection.execute("SELECT rolname FROM pg_roles WHERE rolname LIKE 'tasuki_hosts_%' AND pg_has_role(oid, 'MEMBER')").fetchone()  # fmt: skip
        assert group
        for role in (group[0], "NONE"):
            connection.execute(f"SET ROLE {role}".encode())
            with pytest.raises(
                psycopg.errors.InsufficientPrivilege, match=r"Only|permission denied"
            ):
                connection.execute(statement.encode())


def test_a_host_writes_what_all_may(rows_url: str) -> None:
    """It mutes another host's agent, gives its host up, and cancels its handoff."""
    with connected(rows_url) as connection:
        for statement in (
            "UPDATE agents SET muted_until = 1, state = 'lost', ended_at = 1", "UPDATE handoffs SET state = 'cancelled', finished_at = 1",
            "UPDATE hosts SET given_up_at = 1, given_label = 'x' WHERE id = 'h00000000000a'",
        ):  # fmt: skip
            assert 1 == connection.execute(statement.encode()).rowcount
