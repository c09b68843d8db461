"""What the fleet, the threads and the vault know of a chain, as rows."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import fleet_records
import pytest
from fleet_records import SLUG
from handoffs import event, made
from lineage_records import DAY, chain, thread, told
from msgspec.structs import replace

from tasuki.config.settings import LoadedSettings, Settings
from tasuki.fleet.service import Fleet, open_fleet
from tasuki.fleet.store import queries, schema
from tasuki.vault import Vault
from tasuki.web.pages.lineage import agents, vault_chains
from tasuki.web.pages.lineage.rows import NEWEST, OLDEST, WIDTH, ChainStory
from tasuki.web.pages.threads.files import ThreadSizeCache

PROJECT = "/home/dev/orchard-api"


@pytest.fixture
def fleet(tmp_path: Path, database_url: str) -> Iterator[Fleet]:
    """A fleet with tables and one persona, on each kind of database; nothing of it runs."""
    url = "" if database_url.startswith("sqlite") else database_url
    made = open_fleet(tmp_path / "fleet", url, LoadedSettings(Settings()))
    schema.create_tables(made.database)
    fleet_records.persona(made.database)
    yield made
    made.database.close()


def stories(fleet: Fleet, cwd: str = "") -> list[ChainStory]:
    return agents.build_stories(fleet, queries.load_persona(fleet.database, SLUG), cwd=cwd)


def test_a_chain_is_told_by_its_agents_and_their_handoffs(fleet: Fleet) -> None:
    """Each agent is a row with what hooks told of its context; each handoff cuts one."""
    chain(fleet.database, [84.0, 61.0, 63.0])

    (story,) = stories(fleet)
    last, second, first = story.rows
    assert [63.0, 61.0, 84.0] == [row.used for row in story.rows]
    assert [20 + 1] * 3 == [len(row.line.points.split()) for row in story.rows if row.line]
    assert [False, True, True] == [row.line.is_cut for row in story.rows if row.line]
    assert [False, False, True] == [row.past for row in story.rows]
    assert ("00000001" * 4, "/handoffs/" + "00000001" * 4) == (first.handoff_id, first.handoff)
    assert ("context limit", None) == (second.why, second.state)
    assert ("", "not due") == (last.handoff, last.acknowledged)
    assert ["3", "2", "1"] == [row.place for row in story.rows]
    assert story.summary.startswith("3 agents, 2 handoffs in ")


def test_the_entries_are_those_of_the_thread(fleet: Fleet, tmp_path: Path) -> None:
    """A thread that can be read tells its entries and compactions; one that is gone is not known."""
    path = thread(tmp_path / "threads", 5, compacted=True)
    at = time.time() - DAY
    for one in (str(path), str(tmp_path / "gone.jsonl"), ""):
        fleet_records.agent(
            fleet.database, persona=SLUG, thread=one, host=fleet.host, started_at=at
        )

    read, gone, none = sorted(stories(fleet), key=lambda story: int(story.key))
    assert [11, None, None] == [story.rows[0].entries for story in (read, gone, none)]
    assert [None, None, None] == [story.rows[0].line for story in (read, gone, none)]
    fleet_records.agent(
        fleet.database, persona=SLUG, thread=str(path), host=fleet.host, started_at=at,
        context_used=50.0, state_at=time.time(),
    )  # fmt: skip
    line = stories(fleet)[0].rows[0].line
    assert line
    assert (round(4 / 11 * WIDTH, 1),) == line.compactions


def test_a_thread_of_another_host_is_not_looked_for(fleet: Fleet, tmp_path: Path) -> None:
    """A path on another machine may be another file here."""
    path = str(thread(tmp_path / "threads", 3))
    fleet_records.agent(fleet.database, persona=SLUG, thread=path, host="elsewhere")

    assert [None] == [row.entries for row in stories(fleet)[0].rows]


def test_a_measurement_lies_where_its_entries_end(fleet: Fleet, tmp_path: Path) -> None:
    """What was told in the middle of a thread is drawn behind the entries that were there then."""
    path = thread(tmp_path / "threads", 4)
    size = ThreadSizeCache().get_size("claude", str(path), time.monotonic() + 60)
    assert size
    id = fleet_records.agent(fleet.database, persona=SLUG, thread=str(path), host=fleet.host)
    told(fleet.database, id, [(size.times[1], 10.0), (size.times[5], 30.0)])

    line = stories(fleet)[0].rows[0].line
    assert line
    xs = [float(point.split(",")[0]) for point in line.points.split()]
    assert [2 / 8 * WIDTH, 6 / 8 * WIDTH] == xs


def test_a_successor_that_did_not_take_over_is_a_fork(fleet: Fleet) -> None:
    """It hangs below the handoff that started it, and the chain goes on with the one that took over."""
    ids = chain(fleet.database, [84.0, 30.0])
    failed = fleet_records.agent(
        fleet.database, persona=SLUG, previous_agent_id=ids[0], state="ended", ended_at=2.0
    )

    (story,) = stories(fleet)
    assert ["2", "fork", "1"] == [row.place for row in story.rows]
    fork = story.rows[1]
    assert (True, "did not take over from handoff 00000001") == (fork.is_fork, fork.why)
    assert f"/agents/{failed}" == fork.thread
    assert "1 fork" in story.summary


def test_a_handoff_that_failed_says_so(fleet: Fleet) -> None:
    """The end of a chain tells how its handoff stands, by a word; a cancelled one is none."""
    (id,) = chain(fleet.database, [90.0])
    fleet_records.handoff(fleet.database, "c" * 32, id, state="cancelled", created_at=1.0)
    assert "" == stories(fleet)[0].rows[0].handoff

    fleet_records.handoff(fleet.database, "d" * 32, id, state="failed", reason="goal reached")

    (story,) = stories(fleet)
    assert ("d" * 32, "goal reached") == (story.rows[0].handoff_id, story.rows[0].why)
    assert story.rows[0].state
    assert "Handoff failed" == story.rows[0].state.word


def test_chains_that_changed_last_come_first(fleet: Fleet) -> None:
    """Each beginning is a chain of its own; the folder of a project leaves out the others."""
    fleet_records.agent(fleet.database, persona=SLUG, cwd="/old", state_at=5.0)
    chain(fleet.database, [20.0])
    fleet_records.agent(fleet.database, persona=SLUG, cwd="/older", state_at=3.0)

    assert ["2", "1", "3"] == [story.key for story in stories(fleet)]
    assert ["1"] == [story.key for story in stories(fleet, "/old")]
    assert [PROJECT, "/old", "/older"] == [cwd for cwd, _ in agents.list_projects(fleet.database)]
    assert SLUG == agents.find_newest_persona(fleet.database)


def test_secrets_in_reasons_are_left_out(fleet: Fleet) -> None:
    """What an operator gave as the reason is redacted before it is drawn."""
    secret = "sk-ant-api03-" + "A1b2C3d4" * 10
    chain(fleet.database, [84.0, 10.0], reason=f"The key {secret} was revoked")

    (story,) = stories(fleet)
    assert secret not in repr(story)
    assert "The key " in repr(story)


def test_a_chain_of_200_agents(fleet: Fleet) -> None:
    """Its two ends are rows, and it says how many lie between; asked for, all of them are."""
    chain(fleet.database, [float(20 + n % 75) for n in range(200)])

    (story,) = stories(fleet)
    assert NEWEST + OLDEST == len(story.rows)
    assert (200 - NEWEST - OLDEST, NEWEST) == (story.hidden, story.hidden_after)
    assert ["200", "1"] == [story.rows[0].place, story.rows[-1].place]
    (whole,) = agents.build_stories(fleet, queries.load_persona(fleet.database, SLUG), newest=500)
    assert [str(n) for n in range(200, 0, -1)] == [row.place for row in whole.rows]


def test_a_fork_of_a_hidden_agent_is_hidden_with_it(fleet: Fleet) -> None:
    """Forks stand before the thread that they came from, or nowhere."""
    ids = chain(fleet.database, [50.0] * 60)
    for id in (ids[0], ids[30], ids[57]):
        fleet_records.agent(
            fleet.database, persona=SLUG, previous_agent_id=id, state="ended", ended_at=2.0
        )

    (story,) = stories(fleet)
    places = [row.place for row in story.rows]
    assert 2 == places.count("fork")
    assert ["59", "fork", "58"] == places[1:4]
    assert ["2", "fork", "1"] == places[-3:]
    assert ("41", "3") == (places[story.hidden_after - 1], places[story.hidden_after])


# -- sizes of threads --------------------------------------------------------------------


def test_a_thread_is_read_again_only_when_it_changed(tmp_path: Path) -> None:
    """Past its time nothing is read, but what is known of an unchanged file stays known."""
    path = thread(tmp_path, 2)
    sizes, late = ThreadSizeCache(), time.monotonic() - 1
    assert sizes.get_size("claude", str(path), late) is None
    known = sizes.get_size("claude", str(path), time.monotonic() + 60)
    assert known
    assert 4 == known.entries
    assert sizes.get_size("claude", str(path), late) is known

    path.write_text(path.read_text() + path.read_text())
    assert sizes.get_size("claude", str(path), late) is None


@pytest.mark.parametrize("kind", ["folder", "pipe", "text", "nul"])
def test_what_is_no_thread_has_no_size(tmp_path: Path, kind: str) -> None:
    """A folder, a pipe, a text and a path that cannot be are not read; nothing hangs."""
    path = tmp_path / "it.jsonl"
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "text":
        path.write_text("no thread")
    name = str(path) + ("\0" if kind == "nul" else "")

    size = ThreadSizeCache().get_size("claude", name, time.monotonic() + 60)
    assert size is None or size.entries == 0


# -- the vault -----------------------------------------------------------------------------


def name(n: int) -> str:
    """The id of the n-th handoff of a test."""
    return f"{n:08x}" * 4


def kept(vault: Vault, n: int, cwd: str = PROJECT, **values: str) -> None:
    of = made(name(n), f"Step {n}", f"2025-11-{n:02d}T10:00:00Z", thread=f"t-{n}", **values)
    old = replace(of.predecessor, cwd=cwd, entries=10 * n)
    vault.save(replace(of, predecessor=old), "brief")


def test_handoffs_of_the_vault_are_a_chain_too(tmp_path: Path) -> None:
    """Each is a thread with the entries that it was made from; nothing is known of its context."""
    vault = Vault(tmp_path / "handoffs")
    kept(vault, 1)
    kept(vault, 2, parent=name(1))
    kept(vault, 9, cwd="/elsewhere")
    vault.append_event(name(2), event("started", harness="pi", successor_thread="t-3"))

    (story,) = vault_chains.build_vault_stories(vault, PROJECT)
    hrefs = [row.thread for row in story.rows]
    assert ["/threads/pi/t-3", "/threads/claude/t-2", "/threads/claude/t-1"] == hrefs
    assert [None, 20, 10] == [row.entries for row in story.rows]
    assert [("3", ""), ("2", name(2)), ("1", name(1))] == [
        (row.place, row.handoff_id) for row in story.rows
    ]
    assert [None] * 3 == [row.used for row in story.rows]
    assert ["/elsewhere", PROJECT] == vault_chains.list_vault_projects(vault)


def test_a_fork_and_a_revision_of_the_vault(tmp_path: Path) -> None:
    """Of two that followed the newest goes on; a revision stands for what it revises."""
    vault = Vault(tmp_path / "handoffs")
    kept(vault, 1)
    kept(vault, 2, parent=name(1))
    kept(vault, 3, parent=name(1))
    kept(vault, 4, revises=name(3))

    (story,) = vault_chains.build_vault_stories(vault, PROJECT)
    rows = [(row.place, row.handoff_id[-1], row.is_fork) for row in story.rows]
    assert [("2", "4", False), ("1", "1", False)] == [row for row in rows if not row[2]]
    assert {("fork", "2", True), ("revised", "3", True)} == {row for row in rows if row[2]}
    assert f"/briefs/{name(4)}" == story.rows[0].handoff
    assert "1 fork" in story.summary


def test_a_handoff_that_is_not_stored_here_is_not_known(tmp_path: Path) -> None:
    """Where only the id of an earlier handoff is known, its place in the chain says so."""
    vault = Vault(tmp_path / "handoffs")
    kept(vault, 2, parent=name(1))

    (story,) = vault_chains.build_vault_stories(vault, PROJECT)
    assert ["Step 2", "Not stored here"] == [row.why for row in story.rows]
    assert ("", name(1), "") == (
        story.rows[1].thread, story.rows[1].handoff_id, story.rows[1].handoff,
    )  # fmt: skip
