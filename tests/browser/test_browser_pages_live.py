"""What else is on a page that says *Live* follows, too; and headings stand above what they head."""

import time
from collections.abc import Iterator
from pathlib import Path

import fleet_records
import pytest
import sqlalchemy as sa
from browser import Browsing, operator
from playwright.sync_api import Page, expect
from web_servers import Served, serving

from tasuki.fleet import alerts
from tasuki.fleet.store import log, tables


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    """A server with three agents."""
    with serving(tmp_path) as made:
        for number in (1, 2, 3):
            slug = f"developer-con-{number}"
            fleet_records.persona(made.fleet.database, slug)
            fleet_records.agent(
                made.fleet.database, persona=slug, pane=f"%{number}", adopted=True, state="busy", session=f"s{number}",
                state_at=time.time(), started_at=time.time(),
            )  # fmt: skip
        yield made


def open_page(served: Served, browsing: Browsing, address: str) -> Page:
    """A page that is live."""
    page = operator(browsing.page(served.origin), served.link)
    page.goto(address)
    expect(page.locator("#live-word")).to_have_text("Live")
    page.evaluate("window.same = true")
    return page


def note(served: Served, kind: str, text: str, id: int = 1, handoff: str = "") -> None:
    """A line of the log."""
    with served.fleet.database.write() as connection:
        log.note(connection, kind, text, agent_id=id, handoff_id=handoff or None)
    served.fleet.changes.notify([id])


def test_a_new_handoff_and_its_count_appear(served: Served, browsing: Browsing) -> None:
    """On the list of handoffs, without a reload."""
    page = open_page(served, browsing, "/handoffs")
    expect(page.get_by_text("No open handoff")).to_be_visible()
    fleet_records.handoff(served.fleet.database, "ab" * 16, 1, persona="developer-con-1")
    note(served, "handoff", "It has begun", handoff="ab" * 16)

    expect(page.get_by_role("link", name="Open 1")).to_be_visible()
    expect(page.locator("article.panel")).to_contain_text("developer-con-1")
    assert page.evaluate("window.same")


def test_the_log_of_an_agent_grows(served: Served, browsing: Browsing) -> None:
    """Its newest line comes first."""
    page = open_page(served, browsing, "/agents/1")
    note(served, "prompt", "Fix the menu of the shop")

    expect(page.locator("ol.log li").first).to_contain_text("Fix the menu of the shop")


def test_forms_of_an_agent_that_ended_go(served: Served, browsing: Browsing) -> None:
    """Nothing can be typed to it any more; what was typed into a form of the page is not lost before that."""
    browsing.expect("status of 4")
    page = open_page(served, browsing, "/agents/2")
    page.locator("#text").fill("Please")
    note(served, "prompt", "Something else", id=2)
    expect(page.locator("ol.log li").first).to_contain_text("Something else")
    expect(page.locator("#text")).to_have_value("Please")
    with served.fleet.database.write() as connection:
        connection.execute(
            sa.update(tables.agents).where(tables.agents.c.id == 2).values(state="ended", ended_at=time.time(), end_reason="it was stopped")
        )  # fmt: skip
    note(served, "ended", "", id=2)

    expect(page.locator("#text")).to_have_count(0)
    expect(page.locator("main")).to_contain_text("It ended")


def test_lines_of_alerts_come(served: Served, browsing: Browsing) -> None:
    """On the fleet's page and in the list of all."""
    page = open_page(served, browsing, "/")
    every = page.context.new_page()
    every.goto("/alerts")
    expect(every.locator("#live-word")).to_have_text("Live")
    with served.fleet.database.write() as connection:
        alerts.raise_alert(
            connection, "needs_you", "k", "developer-con-3 waits for you", "Which database?", host="h", agent_id=3
        )  # fmt: skip
    served.fleet.changes.notify([3])

    for shown in (page, every):
        shown.bring_to_front()
        expect(shown.locator("#alert-list")).to_contain_text("Which database?")


def test_a_browser_without_shared_workers_is_live_too(served: Served, browsing: Browsing) -> None:
    """As on many phones: the page has a stream of its own while it is shown."""
    page = browsing.page(served.origin)
    page.add_init_script("delete window.SharedWorker")
    operator(page, served.link)
    expect(page.locator("#live-word")).to_have_text("Live")
    note(served, "prompt", "Something")
    with served.fleet.database.write() as connection:
        connection.execute(
            sa.update(tables.agents).where(tables.agents.c.id == 2).values(state="waiting", waiting_for="May I?")
        )  # fmt: skip
    note(served, "waiting", "", id=2)

    expect(page.locator("#cards-needs #agent-2")).to_contain_text("May I?")
    expect(page).to_have_title("(1) Fleet · tasuki")


def test_an_open_page_of_a_session_that_ended_says_so(served: Served, browsing: Browsing) -> None:
    """Within seconds it is the page that says how to sign in."""
    browsing.expect("status of 401")
    page = open_page(served, browsing, "/")
    for session in served.sessions.list_sessions():
        served.sessions.end_session(session.id)
    note(served, "prompt", "Fix the menu of the shop")

    expect(page.locator("main")).to_contain_text("tasuki dashboard", timeout=20_000)


@pytest.mark.parametrize("width", [1280, 1720, 2560])
def test_headings_stand_above_their_cards(served: Served, browsing: Browsing, width: int) -> None:
    """At every width there is room between them, and below the card before."""
    page = operator(browsing.page(served.origin, width=width), served.link)
    for list in page.locator("#cards section:not([hidden])").all():
        head, first = list.locator("h2").bounding_box(), list.locator(".card").first.bounding_box()
        assert head
        assert first
        assert 4 <= first["y"] - (head["y"] + head["height"]) <= 24
