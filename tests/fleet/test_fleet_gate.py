"""What a host may do on another one: its orders are signed, and the other one's own file decides."""

import json
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from databases import Postgres, missing
from fleets import World, refusal
from joins import connected
from machines import JoinedMachines, Machines, host_of, machines
from test_fleet_machines import make_away, move, pair, prepare_move
from waiting import retry_until

from tasuki.fleet.exchange.gate import DEEDS, KEY_FILE, POLICY_FILE
from tasuki.fleet.local_orders import LocalOrders
from tasuki.fleet.membership.urls import read_url
from tasuki.fleet.service import Fleet

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
    assert 2 == len({row["public_key"] for row in one.sql("SELECT public_key FROM hosts WHERE public_key <> ''")})
    assert 0o600 == (two.data / "fleet" / KEY_FILE).stat().st_mode & 0o777
