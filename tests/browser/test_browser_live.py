"""The fleet under the reader's eyes: what changes, changes in its place, and nothing else moves."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fleet_records
import pytest
import sqlalchemy as sa
from browser import Browsing, operator, portraits, violations
from playwright.sync_api import Page, expect
from web_servers import Served, serving

from tasuki.fleet import alerts
from tasuki.fleet.store import log, tables

WATCH = """() => {
  window.touched = new Set(); window.shifts = 0;
  new PerformanceObserver((list) => { for (const one of list.getEntries()) window.shifts += one.value; })
    .observe({type: "layout-shift", buffered: false});
  new MutationObserver((list) => {
    for (const change of list) for (const node of [...change.addedNodes, ...change.removedNodes])
      if (node.id && node.id.startsWith("agent-")) window.touched.add(node.id);
  }).observe(document.getElementById("cards"), {childList: true, subtree: true});
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


@pytest.mark.long
def test_all_of_200_agents_are_reached(seen: Page) -> None:
    """The first 40 cards are there at once, the others once they are scrolled to."""
    first = seen.locator(".card").count()
    seen.get_by_role("link", name="160 more").scroll_into_view_if_needed()
    expect(seen.locator(".card")).to_have_count(200)

    assert first == 40


def test_one_update_touches_one_card(served: Served, seen: Page) -> None:
    """Twenty changes of one agent replace its card alone; nothing else moves, and the focus stays."""
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


def test_a_card_that_was_replaced_works_at_once(served: Served, seen: Page) -> None:
    """The button of a new card opens its form over the page from its first moment on, not a page of its own."""
    id = int((seen.locator(".card").first.get_attribute("id") or "").removeprefix("agent-"))
    seen.evaluate(
        """(id) => new MutationObserver(() => {
          const link = document.querySelector(`#agent-${id} [hx-get]`);
          window.ready = Boolean(link && link["htmx-internal-data"]);
        }).observe(document.getElementById("cards"), {childList: true, subtree: true})""",
        id,
    )
    change(served, id, context_used=55)
    expect(seen.locator(f"#agent-{id}")).to_contain_text("Context 55 %")

    assert seen.evaluate("window.ready") is True


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
    """What the tabs and the line at the top count, changes with the agents; whatever they change to."""
    seen.goto("/?whole=true")
    expect(seen.locator("#live-word")).to_have_text("Live")
    for number in (3, 4):
        change(served, number, state="busy", started_at=1.0)  # long ago: it does not arrive
        expect(seen.get_by_role("link", name=f"Working {number - 2}")).to_be_visible()
    change(served, 5, state="lost")

    expect(seen.locator("#summary")).to_contain_text("1 needs you")


def test_a_card_keeps_its_place_until_it_is_sorted(served: Served, seen: Page) -> None:
    """An agent that begins to wait changes where it stands; that it would move is said, and done when asked."""
    id = int((seen.locator(".card").nth(7).get_attribute("id") or "").removeprefix("agent-"))
    change(served, id, state="waiting", waiting_for="Which database?")
    expect(seen.locator(f"#agent-{id}")).to_contain_text("Which database?")
    expect(seen.locator("#cards-quiet .card").nth(7)).to_have_id(f"agent-{id}")
    expect(seen.locator("#summary")).to_contain_text("1 needs you")
    seen.get_by_role("link", name="1 would move: sort now").click()

    expect(seen.locator("#cards-needs .card")).to_have_id(f"agent-{id}")


def test_an_agent_that_is_new_arrives(served: Served, seen: Page) -> None:
    """An agent that starts has its card at the end of its list; one that was not shown and needs you is shown."""
    add(served, 201, state="busy")
    change(served, 201, context_used=1)
    expect(seen.locator("#cards-working #agent-201")).to_be_visible()
    hidden = next(n for n in range(1, 201) if not seen.locator(f"#agent-{n}").count())
    change(served, hidden, state="waiting", waiting_for="May I?")
    expect(seen.locator(f"#cards-needs #agent-{hidden}")).to_contain_text("May I?")
    expect(seen.locator("#summary")).to_contain_text("201 agents")


@pytest.mark.long
def test_filters(seen: Page) -> None:
    """Cards are filtered by words, project and harness; what is chosen stands in the address."""
    seen.get_by_label("Search agents").fill("developer-con-17")
    seen.keyboard.press("Enter")
    expect(seen.locator(".card")).to_have_count(11)
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
    expect(seen.get_by_role("link", name="1 new alert")).to_be_visible()
    assert [] == violations(seen)
    toast.get_by_role("button", name="Dismiss").click()
    expect(toast).to_have_count(0)
    seen.get_by_role("link", name="1 new alert").click()
    expect(seen.locator("#alert-list")).to_contain_text("developer-con-3 waits for you")
    assert [] == portraits(seen, "alerts")
    seen.get_by_role("button", name="I have seen them").click()
    expect(seen.get_by_role("link", name="Alerts", exact=True)).to_be_visible()


def test_what_is_missed_while_the_page_sleeps_is_made_up_for(served: Served, seen: Page) -> None:
    """A page whose connection broke shows, once it is back, what changed meanwhile."""
    seen.context.set_offline(True)
    change(served, 200, state="waiting", waiting_for="While you were away")
    seen.context.set_offline(False)
    seen.reload()
    expect(seen.locator("#cards-needs")).to_contain_text("While you were away")


def test_the_state_of_the_page_is_accessible(seen: Page) -> None:
    """axe-core finds nothing on a fleet of 200 agents."""
    assert [] == portraits(seen, "fleet-200")
