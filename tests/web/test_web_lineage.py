"""The page Lineage, from a real fleet database and a real vault."""

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import fleet_records
import pytest
from fleet_records import SLUG
from handoffs import made
from lineage_records import chain
from msgspec.structs import replace
from visitors import Visitor, words
from web_servers import serving

from tasuki.fleet.store.database import FleetDatabase
from tasuki.vault import Vault

HOSTILE = "<script>alert(1)</script>\u202e\"'><img src=x onerror=alert(1)>"


@pytest.fixture
def visitor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Visitor]:
    """Somebody who looks at a fleet of nobody."""
    monkeypatch.setenv("TASUKI_DATA", str(tmp_path))
    with serving(tmp_path) as served:
        yield Visitor(served)


@pytest.fixture
def base(visitor: Visitor) -> FleetDatabase:
    """The database of that fleet, with one persona."""
    fleet_records.persona(visitor.served.fleet.database)
    return visitor.served.fleet.database


def test_without_a_persona_the_page_says_what_to_do_first(visitor: Visitor) -> None:
    """An empty fleet has no chain; the page leads to the personas."""
    page = visitor.page("/lineage")

    assert "No chain yet" in page
    assert 'href="/personas">Create a persona' in page
    assert "No chain yet" in visitor.page("/lineage?by=project")


def test_a_persona_without_agents_says_so(visitor: Visitor, base: FleetDatabase) -> None:
    """Its chain begins with the first agent; the page leads to its start."""
    page = visitor.page("/lineage")

    assert f"No agent has worked as {SLUG} yet." in words(page)
    assert f'href="/agents/new?persona={SLUG}"' in page


def test_the_persona_that_changed_last_is_shown(visitor: Visitor, base: FleetDatabase) -> None:
    """Without a choice it is the one whose agents changed last; a choice needs no script."""
    fleet_records.persona(base, "reviewer-mina-2")
    fleet_records.agent(base, persona="reviewer-mina-2", state_at=5.0)
    chain(base, [84.0, 40.0])

    page = visitor.page("/lineage")
    assert f"<h1>{SLUG}</h1>" in page
    assert '<select name="persona"' in page
    assert "<h1>reviewer-mina-2</h1>" in visitor.page("/lineage?persona=reviewer-mina-2")


def test_each_row_has_its_thread_its_line_and_its_handoff(
    visitor: Visitor, base: FleetDatabase
) -> None:
    """The newest is first; ids are whole, and the line says in words what it shows."""
    chain(base, [84.0, 61.0, 72.0, 40.0])

    page = visitor.page("/lineage")
    table = page.partition("<tbody>")[2].partition("</tbody>")[0]
    links = re.findall(r'href="(/(?:agents|handoffs)/[^"]*)"', table)
    expected = ["/agents/4/thread"]
    for n in (3, 2, 1):
        expected += [f"/agents/{n}/thread", f"/handoffs/{n:08x}{n:08x}{n:08x}{n:08x}"]
    assert expected == links
    assert 4 == table.count('<svg class="spark"')
    assert "Context use 4 % to 84 %, at most 84 %, threshold 80 %, handed off at its end" in table
    assert "past 84 %" in words(table)
    assert "5e55104d-3" in words(table)
    assert "entries not known" in words(table)
    assert "style=" not in page


def test_the_middle_of_a_long_chain_is_asked_for(visitor: Visitor, base: FleetDatabase) -> None:
    """Its ends are there; each link shows forty more, and the last one the rest."""
    chain(base, [50.0] * 100)
    page = visitor.page("/lineage")
    assert 23 == page.count('<td data-h="Agent"')
    assert "77 between. Show 40 more" in words(page)

    (more,) = re.findall(r'href="(/lineage[^"]*newest=60[^"]*)"', page)
    page = visitor.page(more.partition("#")[0].replace("&amp;", "&"))
    assert 63 == page.count('<td data-h="Agent"')
    assert "37 between. Show 37 more" in words(page)
    (rest,) = re.findall(r'href="(/lineage[^"]*newest=100[^"]*)"', page)
    page = visitor.page(rest.partition("#")[0].replace("&amp;", "&"))
    assert 100 == page.count('<td data-h="Agent"')
    assert "between" not in words(page)


def test_an_unknown_persona_is_told(visitor: Visitor, base: FleetDatabase) -> None:
    """The sentence is that of the API, without its command."""
    page = visitor.page("/lineage?persona=nobody-at-1", 404)

    assert "No persona 'nobody-at-1'." in words(page)


def test_by_project_there_are_the_chains_of_a_folder(visitor: Visitor, base: FleetDatabase) -> None:
    """Those of agents and those of the vault, of that folder alone."""
    chain(base, [84.0, 61.0], cwd="/home/dev/here")
    fleet_records.persona(base, "reviewer-mina-2")
    chain(base, [30.0], persona="reviewer-mina-2", cwd="/home/dev/there", session="a")
    of = made("ab" * 16, "Fix the login")
    Vault().save(replace(of, predecessor=replace(of.predecessor, cwd="/home/dev/here")), "brief")

    page = visitor.page(f"/lineage?project={quote('/home/dev/here')}")
    assert SLUG in page
    assert "Fix the login" in page
    assert "reviewer-mina-2" not in page
    assert "/home/dev/there" in visitor.page("/lineage?by=project")
    nobody = visitor.page("/lineage?project=/nowhere")
    assert "No persona worked in /nowhere" in words(nobody)


def test_of_many_chains_the_newest_are_shown(visitor: Visitor, base: FleetDatabase) -> None:
    """The others are named, and each can be looked at alone."""
    ids = [fleet_records.agent(base, persona=SLUG, state_at=float(n)) for n in range(10)]

    page = visitor.page("/lineage")
    assert 4 == page.count('<table class="lineage"')
    others = re.findall(r'href="(/lineage\?persona=[^"]*chain=\d+)"', page)
    assert 6 == len(others)
    alone = visitor.page(others[-1].replace("&amp;", "&"))
    assert 1 == alone.count('<table class="lineage"')
    assert f'href="/agents/{ids[0]}"' in alone


def test_hostile_names_stay_words(visitor: Visitor, base: FleetDatabase) -> None:
    """Markup, quotes and direction marks in reasons, folders, sessions and goals do nothing."""
    chain(base, [84.0, 61.0], reason=HOSTILE, cwd=f"/home/{HOSTILE}", session=HOSTILE)
    of = made("ab" * 16, HOSTILE, thread=HOSTILE)
    Vault().save(replace(of, predecessor=replace(of.predecessor, cwd=f"/home/{HOSTILE}")), "b")

    for path in ("/lineage", f"/lineage?project={quote('/home/' + HOSTILE)}", f"/lineage?chain={quote(HOSTILE)}"):  # fmt: skip
        page = visitor.page(path)
        assert "<script>alert" not in page
        assert "<img" not in page
        assert "\u202e" not in page
        assert HOSTILE[:20] in words(page) or "chain=" in path


def test_a_page_of_200_agents_is_small(visitor: Visitor, base: FleetDatabase) -> None:
    """Sent with all of its rows, each with its line, it stays small."""
    chain(base, [float(20 + n % 75) for n in range(200)])

    answer = visitor.served.ask(
        "GET", "/lineage?newest=500", token="", Cookie=visitor.cookie, Accept_Encoding="gzip"
    )
    assert len(answer.body) < 100_000
    page = visitor.page("/lineage?newest=500")
    assert 200 == page.count('<td data-h="Agent"')


def test_nobody_sees_it_without_a_session(visitor: Visitor) -> None:
    """Without the cookie the page says how to sign in."""
    assert 401 == visitor.served.ask("GET", "/lineage", token="").status
