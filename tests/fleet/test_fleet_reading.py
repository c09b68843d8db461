"""What the fleet's tables say comes back as rows, on both kinds of database."""

from typing import Any

import pytest
import sqlalchemy as sa
from fleet_records import SLUG, agent, handoff, persona

from tasuki.errors import AgentNotFound, HandoffNotFound, PersonaNotFound
from tasuki.fleet.store import log, queries, tables
from tasuki.fleet.store.database import FleetDatabase
from tasuki.fleet.store.models import StepFailure


def test_an_agent_comes_back_whole(database: FleetDatabase) -> None:
    """Lists are tuples, what is not known is None, and the hash of its token is not told."""
    id = agent(
        database, arguments=["-x"], children=["a", "b"], token_hash="secret", context_used=12.5
    )

    got = queries.load_agent(database, id)

    assert (("-x",), ("a", "b"), 12.5, None) == (
        got.arguments,
        got.children,
        got.context_used,
        got.persona,
    )
    assert "token_hash" not in got.__struct_fields__


def test_agents_are_chosen(database: FleetDatabase) -> None:
    """By persona, host, and whether they run; the newest first."""
    persona(database)
    ids = [
        agent(database), agent(database, persona=SLUG), agent(database, ended_at=2.0, state="ended"),
        agent(database, host="other"),
    ]  # fmt: skip

    assert ids[::-1] == [a.id for a in queries.list_agents(database)]
    assert [ids[3], ids[1], ids[0]] == [a.id for a in queries.list_agents(database, ended=False)]
    assert [ids[2]] == [a.id for a in queries.list_agents(database, ended=True)]
    assert [ids[1]] == [a.id for a in queries.list_agents(database, persona=SLUG)]
    assert [ids[3]] == [a.id for a in queries.list_agents(database, host="other")]
    assert ids[:1:-1] == [a.id for a in queries.list_agents(database, limit=2)]
    assert [] == queries.list_agents(database, persona="\0\ud800")


@pytest.mark.parametrize("id", [0, -1, 1, 2**31, 2**63, 10**30])
def test_agents_that_are_not_there(database: FleetDatabase, id: int) -> None:
    """A number of any size is answered by a sentence."""
    with pytest.raises(AgentNotFound, match=f"No agent {id}. List them: tasuki agent list"):
        queries.load_agent(database, id)


def test_a_handoff_is_found_by_its_beginning(database: FleetDatabase) -> None:
    """Four digits are enough where they are its own."""
    persona(database)
    failure = {
        "code": "agent_gone",
        "step": "instruct",
        "sentence": "It is gone.",
        "remedy": "Retry.",
    }
    handoff(database, "ab12" * 8, agent(database), failure=failure, state="failed", notes=["n"])
    handoff(database, "ab13" * 8, agent(database))

    got = queries.load_handoff(database, "AB12")

    assert ("ab12" * 8, StepFailure(**failure), ("n",)) == (got.id, got.failure, got.notes)
    assert got == queries.load_handoff(database, "ab12" * 8)
    for wrong, why in (("ab1", "is not the id"), ("ab12%", "is not the id"), ("x" * 40, "is not the id"), ("\0" * 4, "is not the id"),
                       ("ffff", "No handoff of an agent"), ("ab12" * 7 + "ab13", "No handoff")):  # fmt: skip
        with pytest.raises(HandoffNotFound, match=why):
            queries.load_handoff(database, wrong)
    handoff(database, "ab12" + "0" * 28, agent(database))
    with pytest.raises(HandoffNotFound, match="More than one handoff begins with 'ab12'"):
        queries.load_handoff(database, "ab12")


def test_handoffs_are_chosen(database: FleetDatabase) -> None:
    """By agent, persona, state and host; the newest first."""
    persona(database)
    first, second = agent(database), agent(database)
    handoff(database, "a" * 32, first, created_at=1.0)
    handoff(database, "b" * 32, second, created_at=2.0, state="done", host="other")

    def ids(**wanted: Any) -> str:
        return "".join(of.id[0] for of in queries.list_handoffs(database, **wanted))

    assert "ba" == ids() == ids(persona=SLUG)
    assert ("a", "b", "b", "b", "") == (
        ids(agent_id=first), ids(state="done"), ids(host="other"), ids(limit=1), ids(state="x\0"),
    )  # fmt: skip


def test_steps_come_in_their_order(database: FleetDatabase) -> None:
    """By attempt, then by when they were begun."""
    persona(database)
    handoff(database, "a" * 32, agent(database))
    rows = [("instruct", 1, 2.0), ("await_idle", 1, 1.0), ("await_idle", 2, 3.0)]
    with database.write() as connection:
        for step, attempt, at in rows:
            values = {"handoff_id": "a" * 32, "step": step, "attempt": attempt, "started_at": at}
            connection.execute(sa.insert(tables.steps).values(**values))

    got = [(run.step, run.attempt) for run in queries.list_steps(database, "a" * 32)]
    assert [("await_idle", 1), ("instruct", 1), ("await_idle", 2)] == got


def test_the_log_goes_on_behind_an_id(database: FleetDatabase) -> None:
    """In the order of ids, bounded, of one agent or all."""
    id = agent(database)
    with database.write() as connection:
        for number in range(5):
            log.note(
                connection,
                "agent",
                f"{number}",
                agent_id=id if number % 2 else None,
                data={"n": number},
            )
    newest = queries.find_newest_place(database).id

    texts = [event.text for event in queries.list_events_after(database, newest - 5, 3)]
    assert ["0", "1", "2"] == texts
    assert [{"n": 1}, {"n": 3}] == [
        e.data for e in queries.list_events_after(database, 0, 9, agent_id=id)
    ]
    assert [] == queries.list_events_after(database, newest, 9)
    assert [] == queries.list_events_after(database, 10**30, 9)


def test_a_lineage_is_its_chains(database: FleetDatabase) -> None:
    """Agents by the one before them, with the handoff between; a successor that died is told apart."""
    persona(database)
    a = agent(database, persona=SLUG)
    b = agent(database, persona=SLUG, previous_agent_id=a)
    c = agent(database, persona=SLUG, previous_agent_id=a)
    d = agent(database, persona=SLUG)
    handoff(database, "a" * 32, a, state="cancelled")
    handoff(database, "b" * 32, a, state="done", successor_id=c)

    chains = queries.build_lineage(database, SLUG)

    told = [
        [(n.agent.id, n.handoff and n.handoff.id[0], n.took_over) for n in chain.links]
        for chain in chains
    ]
    assert [[(a, None, True), (b, "b", False), (c, "b", True)], [(d, None, True)]] == told
    with pytest.raises(PersonaNotFound, match="No persona 'nobody-x-1'"):
        queries.build_lineage(database, "nobody-x-1")
