"""The network between a host and PostgreSQL drops packets: nobody is told, and nothing answers."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from databases import missing
from machines import host_of
from networks import Network, NetworkWorld, lacking, networked
from waiting import retry_until

pytestmark = pytest.mark.skipif(bool(missing() or lacking()), reason=missing() or lacking())

Pair = tuple[Network, NetworkWorld, NetworkWorld]


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    """Two hosts whose servers run, and the network."""
    with networked(tmp_path, 2) as (network, (one, two)):
        for world in (one, two):
            world.serve()
            world.install()
        yield network, one, two


def assert_able(one: NetworkWorld, two: NetworkWorld, agent: int, text: str) -> None:
    """Assert that the second host carries out an order of the first, once, and a handoff."""
    sent = one.api("POST", f"/api/agents/{agent}/send", {"text": text})
    two.idle(agent)
    handoff = two.ends(two.hand_off(agent))

    assert ("proven", 1, "done") == (sent["state"], len(two.prompts(text)), handoff["state"])


def test_a_host_whose_packets_are_dropped_says_so_and_recovers(pair: Pair) -> None:
    """`/health` names the parts that do not work for as long as they do not; no restart is needed."""
    network, one, two = pair
    agent, pid = two.worked(two.started()), two.server and two.server.pid
    network.drop(3)
    why = retry_until(lambda: (text := two.health()) != "ok" and text, 30)
    parts = (
        "Writing signs of life",
        "The queue of handoffs and orders",
        "Listening to other hosts",
    )
    retry_until(
        lambda: (text := two.health()) and all(f"{part} has not worked since 20" in text for part in parts), 60
    )  # fmt: skip
    elsewhere = one.health()
    network.heal()
    retry_until(lambda: two.health() == "ok", 30)

    assert "holds this host's lock has not worked since 20" in why
    assert "ok" == elsewhere
    assert_able(one, two, agent, "Fix the upload client once more")
    assert two.server
    assert (pid, None) == (two.server.pid, two.server.poll())


def test_a_host_whose_connections_are_forgotten_opens_new_ones(pair: Pair) -> None:
    """All that were open are dead in silence, as behind a NAT that forgot them: the host goes on with others."""
    network, one, two = pair
    agent = two.worked(two.started())
    network.forget()
    retry_until(lambda: two.health() != "ok", 30)
    retry_until(lambda: two.health() == "ok", 30)

    assert_able(one, two, agent, "Fix the upload client once more")
    assert host_of(two)
