"""The fleet under the reader's eyes: what changes, changes in its place, and nothing else moves."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fleet_records
import pytest
import sqlalchemy as sa
from browser import Browsing, operator, portraits, violations
from playwright.sync_api import Page, Route, expect
from waiting import retry_until
from web_servers import Served, serving

from tasuki.fleet import alerts
from tasuki.fleet.store import log, tables

WATCH = """() => {
  window.touched = new Set(); window.shifts = 0;
  new PerformanceObserver((list) => { for (const one of list.getEntries()) window.shifts += one.value; })
    .observe({type: "layout-shift", buffered: false});
  new MutationObserver((list) => {
    for (const {target} of list) {
      const node = target.nodeType === Node.TEXT_NODE ? target.parentElement : target;
      const card = node && node.closest("[data-item]");
      if (card && !(node.closest("time"))) window.touched.add(card.id);
    }
  }).observe(document.getElementById("cards"), {childList: true, subtree: true, characterData: true, attributes: true});
}"""


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    """A server with 200 agents, each with a persona of its own."""
    with serving(tmp_path) as made:
        for number in range(1, 201):
            add(made, number)
        yield made


@pytest.fixture
def seen(served: Served, browsing: Browsing) -> Page:
    """A browser that shows them, connected."""
    page = operator(browsing.page(served.origin), served.link)
    expect(page.locator("#live-word")).to_have_text("Live")
    return page


def add(served: Served, number: int, **values: Any) -> None:
    """An agent of a persona of its own."""
    slug = f"developer-con-{number}"
    fleet_records.persona(served.fleet.database, slug)
    fleet_records.agent(
        served.fleet.database, persona=slug, cwd=f"/src/project-{number % 3}", session=f"s{number}",
        context_used=40, state_at=time.time() - 10_000 + number, last_words="Two of nine menus are left.",
        pane=f"%{number}", adopted=True, started_at=time.time(), **values,
    )  # fmt: skip


def change(served: Served, id: int, **values: Any) -> None:
    """An event changes an agent."""
    with served.fleet.database.write() as connection:
        connection.execute(
            sa.update(tables.agents).where(tables.agents.c.id == id).values(**values)
        )
        log.note(connection, "busy", "", agent_id=id)
    served.fleet.changes.notify([id])


def test_all_of_200_agents_are_there_at_once(seen: Page) -> None:
    """No card has to be asked for."""
    assert seen.locator(".card").count() == 200


def test_one_update_touches_one_card(served: Served, seen: Page) -> None:
    """Twenty changes of one agent change its card alone; nothing else moves, and the focus stays."""
    card = seen.locator(".card").first
    id = int((card.get_attribute("id") or "").removeprefix("agent-"))
    card.get_by_role("link", name="Hand off").focus()
    seen.evaluate(WATCH)
    for number in range(20):
        words = "A longer sentence that needs two lines of its card. " * (number % 3 + 1)
        change(served, id, context_used=41 + number, last_words=words, state="busy" if number % 2 else "idle")  # fmt: skip
        expect(seen.locator(f"#agent-{id}")).to_contain_text(f"Context {41 + number} %")

    assert seen.evaluate("[...window.touched]") == [f"agent-{id}"]
    assert seen.evaluate("window.shifts") == 0
    assert seen.evaluate("document.activeElement.id") == f"a{id}-do"


def test_a_button_is_what_it_says_after_a_change(served: Served, seen: Page) -> None:
    """A link that became another one leads where it says: over the page, or to another page."""
    card = seen.locator(".card").first
    id = int((card.get_attribute("id") or "").removeprefix("agent-"))
    change(served, id, context_used=55)
    expect(seen.locator(f"#agent-{id}")).to_contain_text("Context 55 %")
    seen.locator(f"#a{id}-do").click()
    expect(seen.get_by_role("dialog")).to_be_visible()
    seen.keyboard.press("Escape")
    fleet_records.handoff(
        served.fleet.database,
        "ab" * 16,
        id,
        state="failed",
        step="check",
        persona=f"developer-con-{id}",
    )
    change(served, id, context_used=56)
    seen.locator(f"#agent-{id}").get_by_role("link", name="Open handoff").click()

    seen.wait_for_url("**/handoffs/" + "ab" * 16)


def test_a_press_is_not_lost_when_its_card_changes(served: Served, seen: Page) -> None:
    """A card that changes between press and release keeps what was pressed; the change is shown afterwards."""
    id = int((seen.locator(".card").first.get_attribute("id") or "").removeprefix("agent-"))
    card = seen.locator(f"#agent-{id}")
    other = seen.locator(".card").nth(1)
    card.get_by_role("link", name="Hand off").hover()
    seen.mouse.down()
    change(served, id, context_used=55)
    seen.wait_for_timeout(1000)
    held = card.inner_text()
    seen.mouse.up()
    expect(seen.get_by_role("dialog")).to_be_visible()
    expect(card).to_contain_text("Context 55 %")
    change(served, id, context_used=56)
    expect(card).to_contain_text("Context 56 %")
    change(served, int((other.get_attribute("id") or "").removeprefix("agent-")), context_used=57)
    expect(other).to_contain_text("Context 57 %")

    assert "Context 55 %" not in held


def test_the_counts_follow(served: Served, seen: Page) -> None:
    """What tabs, headings, the line at the top and the title count, changes with the agents."""
    for number in (3, 4):
        change(served, number, state="busy")
        expect(seen.get_by_role("link", name=f"Working {number - 2}")).to_be_visible()
    change(served, 5, state="lost")

    expect(seen.locator("#summary")).to_contain_text("1 needs you")
    expect(seen.locator("#s-needs .sec .num")).to_have_text("1")
    expect(seen).to_have_title("(1) Fleet · tasuki")
    assert "icon-needs" in (seen.locator("link[rel=icon]").get_attribute("href") or "")


def test_an_agent_that_begins_to_need_you_goes_there(served: Served, seen: Page) -> None:
    """Its card moves to those that need you; under a filter it arrives, and leaves when it works on."""
    change(served, 7, state="waiting", waiting_for="Which database?")
    expect(seen.locator("#cards-needs .card")).to_have_id("agent-7")
    seen.get_by_role("link", name="Needs you 1").click()
    expect(seen.locator("#live-word")).to_have_text("Live")
    change(served, 8, state="waiting", waiting_for="May I?")
    expect(seen.locator("#cards-needs .card")).to_have_count(2)
    for number in (7, 8):
        change(served, number, state="busy")

    expect(seen.locator(".card")).to_have_count(0)
    expect(seen.get_by_text("All clear.")).to_be_visible()
    expect(seen).to_have_title("Fleet · tasuki")


def test_nothing_moves_under_the_reader(served: Served, seen: Page) -> None:
    """While a card has the focus, cards keep their places; that one would move is said, and done when asked."""
    seen.locator(".card").nth(2).get_by_role("link", name="Hand off").focus()
    id = int((seen.locator(".card").nth(7).get_attribute("id") or "").removeprefix("agent-"))
    change(served, id, state="waiting", waiting_for="Which database?")
    expect(seen.locator(f"#agent-{id}")).to_contain_text("Which database?")
    expect(seen.locator("#cards-quiet .card").nth(7)).to_have_id(f"agent-{id}")
    expect(seen.locator("#summary")).to_contain_text("1 needs you")
    seen.get_by_role("link", name="One would move: sort now").click()

    expect(seen.locator("#cards-needs .card")).to_have_id(f"agent-{id}")
    expect(seen.locator("#moved")).to_be_hidden()


def test_an_agent_that_is_new_arrives(served: Served, seen: Page) -> None:
    """An agent that starts has its card in its group."""
    add(served, 201, state="busy")
    change(served, 201, context_used=1)

    expect(seen.locator("#cards-working #agent-201")).to_be_visible()
    expect(seen.locator("#summary")).to_contain_text("201 agents")


def test_twenty_tabs_of_one_browser_are_live(served: Served, seen: Page) -> None:
    """They share one stream; each shows a change, and pages still open at once."""
    tabs = [seen, *(seen.context.new_page() for _ in range(19))]
    for tab in tabs[1:]:
        tab.goto("/?look=list")
        expect(tab.locator("#live-word")).to_have_text("Live")
    change(served, 9, state="waiting", waiting_for="Which database?")
    for tab in tabs:
        tab.bring_to_front()
        expect(tab.locator("#cards-needs #agent-9")).to_contain_text("Which database?")

    assert len(served.pages.streams) == 1
    for tab in tabs[1:]:
        tab.close()
    seen.bring_to_front()
    change(served, 9, state="busy")
    expect(seen.locator("#cards-working #agent-9")).to_be_visible()


def test_what_is_typed_and_opened_stays(served: Served, seen: Page) -> None:
    """A change of the page leaves a search that is being typed, a selection, and boxes that were ticked."""
    seen.goto("/?look=list")
    expect(seen.locator("#live-word")).to_have_text("Live")
    seen.get_by_label("Search agents").type("developer-con-1")
    seen.get_by_label("Select developer-con-20", exact=True).check()
    seen.evaluate("getSelection().selectAllChildren(document.querySelector('#summary'))")
    change(served, 20, context_used=77)
    expect(seen.locator("#agent-20")).to_contain_text("77 %")

    expect(seen.get_by_label("Search agents")).to_have_value("developer-con-1")
    expect(seen.get_by_label("Select developer-con-20", exact=True)).to_be_checked()
    assert "200 agents" in seen.evaluate("getSelection().toString()")


def test_filters(seen: Page) -> None:
    """Cards are filtered by words, project and harness; what is chosen stands in the address."""
    seen.get_by_label("Search agents").fill("developer-con-17")
    seen.keyboard.press("Enter")
    expect(seen.locator(".card")).to_have_count(11)
    seen.get_by_text("View", exact=True).click()
    seen.get_by_label("Project").select_option("project-2")
    expect(seen.locator(".card")).to_have_count(5)
    seen.goto("/?q=nobody-is-called-so")
    expect(seen.get_by_text("No agent matches.")).to_be_visible()

    assert [] == portraits(seen, "fleet-none")


def test_an_alert_is_a_toast_and_stays_in_the_list(served: Served, seen: Page) -> None:
    """What happens is shown on whatever page is open, counted, and listed for who looked away."""
    seen.goto("/personas")
    expect(seen.locator("#live-word")).to_have_text("Live")
    with served.fleet.database.write() as connection:
        alerts.raise_alert(
            connection, "needs_you", "k", "developer-con-3 waits for you", "Which <b>database</b>?",
            host="h", agent_id=3,
        )  # fmt: skip
    served.fleet.changes.notify([3])
    toast = seen.locator(".toast")
    expect(toast).to_contain_text("Which <b>database</b>?")
    toast.hover()  # it stays while somebody points at it
    expect(seen.get_by_role("link", name="1 new alert")).to_be_visible()
    assert [] == violations(seen)
    toast.get_by_role("button", name="Dismiss").click()
    expect(toast).to_have_count(0)
    seen.get_by_role("link", name="1 new alert").click()
    expect(seen.locator("#alert-list")).to_contain_text("developer-con-3 waits for you")
    assert [] == portraits(seen, "alerts")
    expect(seen.get_by_role("link", name="Alerts", exact=True)).to_be_visible()


def test_an_alert_that_two_answers_hold_is_one_toast(served: Served, seen: Page) -> None:
    """Alerts that come while the page fetches others are shown once each."""
    seen.goto("/personas")
    expect(seen.locator("#live-word")).to_have_text("Live")
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)
        for one in held if len(held) == 2 else ():
            one.continue_()

    seen.route("**/alerts/toasts?*", hold)
    for number in (3, 4):
        with served.fleet.database.write() as connection:
            alerts.raise_alert(
                connection, "needs_you", f"k{number}", f"agent {number} waits", "Which?",
                host="h", agent_id=number,
            )  # fmt: skip
        served.fleet.changes.notify([number])
        retry_until(lambda number=number: seen.wait_for_timeout(50) or len(held) == number - 2)

    expect(seen.locator(".toast")).to_have_count(2)
    seen.wait_for_timeout(300)

    assert 2 == seen.locator(".toast").count()


def test_what_is_missed_while_the_page_sleeps_is_made_up_for(
    served: Served, seen: Page, browsing: Browsing
) -> None:
    """A page that hears of a change while it cannot fetch it shows it by itself, once it is back."""
    browsing.expect("ERR_INTERNET_DISCONNECTED")
    seen.context.set_offline(True)
    with seen.expect_event("requestfailed"):
        change(served, 200, state="waiting", waiting_for="While you were away")
    seen.context.set_offline(False)
    expect(seen.locator("#cards-needs")).to_contain_text("While you were away")


def test_the_state_of_the_page_is_accessible(seen: Page) -> None:
    """axe-core finds nothing on a fleet of 200 agents."""
    assert [] == portraits(seen, "fleet-200")
