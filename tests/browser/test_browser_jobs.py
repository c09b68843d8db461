"""What an operator does all day, with the clicks that it may cost.

A click is a press of the pointer; a key is a key that is pressed, letters of a text apart. Both are counted by the
pages themselves, across pages. Following the link of a notification is in `test_browser_notifications.py`.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import fleet_records
import pytest
from browser import Browsing, operator
from fleets import World
from playwright.sync_api import Page, expect
from waiting import retry_until
from work_trees import WorkFolder

from tasuki.fleet.store.database import FleetDatabase, build_sqlite_url

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)

COUNT = """
for (const type of ["pointerdown", "keydown"]) addEventListener(type, (event) => {
  if (!event.isTrusted || event.repeat || event.target.matches?.("input, textarea") && event.key?.length === 1) return;
  sessionStorage.setItem(type, Number(sessionStorage.getItem(type) || 0) + 1);
}, true);
"""


class Effort:
    """The clicks and keys of a job."""

    clicks = 0
    keys = 0


@contextmanager
def effort(page: Page) -> Iterator[Effort]:
    """Count what a job costs, from the page as it is."""
    page.evaluate("sessionStorage.clear()")
    spent = Effort()
    yield spent
    spent.clicks = int(page.evaluate("sessionStorage.getItem('pointerdown') || 0"))
    spent.keys = int(page.evaluate("sessionStorage.getItem('keydown') || 0"))


@pytest.fixture
def seen(world: World, browsing: Browsing) -> Page:
    """A browser that is signed in, shows the fleet and counts."""
    page = browsing.page(world.origin())
    page.add_init_script(COUNT)
    operator(page, world.link())
    return page


@pytest.fixture
def rows(world: World) -> Iterator[FleetDatabase]:
    """The fleet's database, for agents that are rows only."""
    database = FleetDatabase(build_sqlite_url(world.data / "fleet.db"))
    yield database
    database.close()


def add(rows: FleetDatabase, number: int, **values: Any) -> int:
    """An agent that is a row."""
    slug = f"tester-ada-{number}"
    fleet_records.persona(rows, slug)
    return fleet_records.agent(
        rows, persona=slug, cwd="/src/shop", session=f"row-{number}", started_at=time.time(), state_at=time.time(),
        **values,
    )  # fmt: skip


def test_who_needs_me_costs_nothing(seen: Page, rows: FleetDatabase) -> None:
    """It is on the first page, first, and in the title of every other."""
    waiting = add(rows, 1, state="waiting", waiting_for="Which database?")
    add(rows, 2, state="busy")
    with effort(seen) as spent:
        seen.goto("/")
        expect(seen.locator("#cards-needs .card")).to_have_id(f"agent-{waiting}")
        expect(seen.locator("#cards-needs .card")).to_be_in_viewport()
        seen.goto("/personas")
        expect(seen).to_have_title("(1) Personas · tasuki")

    assert (spent.clicks, spent.keys) == (0, 0)


def test_a_question_costs_one_click(world: World, seen: Page) -> None:
    """On the card, with the command that it is about."""
    world.script(
        migrate=[["permit", "alembic downgrade -1", "Run migration down"], ["say", "Migrated."]]
    )
    agent = world.started()
    world.api("POST", f"/api/agents/{agent}/send", {"text": "migrate it"})
    retry_until(lambda: (world.agent(agent)["question"] or {}).get("is_read"), 20)
    with effort(seen) as spent:
        seen.locator(f"#agent-{agent}").get_by_role("button", name="Yes", exact=True).click()
        world.idle(agent)

    assert spent.clicks == 1
    assert [one["text"] for one in world.seen("answered")] == ["1"]


def test_the_next_that_waits_costs_one_key(seen: Page, rows: FleetDatabase) -> None:
    """On the fleet's page it is marked, on another its page opens."""
    first = add(rows, 1, state="waiting", waiting_for="Which database?")
    second = add(rows, 2, state="waiting", waiting_for="Which colour?")
    seen.goto("/")
    expect(seen.locator("#live-word")).to_have_text("Live")
    with effort(seen) as spent:
        seen.keyboard.press("n")
        expect(seen.locator("[data-cursor]")).to_have_id(f"agent-{first}")
    assert (spent.clicks, spent.keys) == (0, 1)
    seen.goto(f"/agents/{first}")
    with effort(seen) as spent:
        seen.keyboard.press("n")
        seen.wait_for_url(f"**/agents/{second}")

    assert (spent.clicks, spent.keys) == (0, 1)


def test_all_past_the_threshold_cost_two_clicks(world: World, seen: Page) -> None:
    """The button counts them, the form names them, and both handoffs end."""
    agents = [world.worked(world.started()) for _ in range(2)]
    for agent in agents:  # its own measure comes a little after its turn
        retry_until(lambda agent=agent: world.agent(agent)["context_at"])
    world.sql(  # what a status line told is not measured again
        "UPDATE agents SET context_used = 91, over_threshold = 1, context_source = 'status line'"
        " WHERE ended_at IS NULL"
    )
    seen.reload()
    with effort(seen) as spent:
        seen.get_by_role("link", name="Hand off 2 past the threshold").click()
        seen.get_by_role("dialog").get_by_role("button", name="Hand off 2").click()
        expect(seen.get_by_role("heading", name="2 of 2 handed off")).to_be_visible()
    handoffs = world.api("GET", "/api/handoffs")["handoffs"]
    for one in handoffs:
        world.ends(one["id"])

    assert spent.clicks <= 3
    assert sorted(one["agent_id"] for one in handoffs) == sorted(agents)


def test_a_failed_handoff_costs_two_clicks(world: World, seen: Page) -> None:
    """From the card to the reason, what is safe and *Retry*."""
    agent = world.worked(world.started())
    world.script(document=[["say", "I will not."]])
    world.failed(world.hand_off(agent))
    world.script()
    seen.goto("/")
    with effort(seen) as spent:
        seen.locator(f"#agent-{agent}").get_by_role("link", name="Open handoff").click()
        seen.get_by_role("button", name="Retry", exact=True).click()
        expect(seen.locator("article header .st")).to_contain_text("Confirmed", timeout=40_000)

    assert spent.clicks == 2


def test_one_prompt_for_many_costs_a_click_for_each_and_two(world: World, seen: Page) -> None:
    """In the list: tick, *Send …*, write, *Send*."""
    agents = [world.worked(world.started()) for _ in range(2)]
    seen.goto("/?look=list")
    with effort(seen) as spent:
        for agent in agents:
            seen.locator(f"#pick-{agent}").check()
        seen.get_by_role("button", name="Send …").click()
        seen.get_by_label("A prompt, sent once to each").fill("Please write a test.")
        seen.get_by_role("button", name="Send to 2").click()
        expect(seen.get_by_role("heading", name="2 of 2 sent to")).to_be_visible(timeout=30_000)

    assert spent.clicks <= 2 + len(agents) + 1
    assert 2 == len(world.prompts("Please write a test."))


def test_stopping_costs_three_clicks(world: World, seen: Page) -> None:
    """From the card to its page, *Stop*, and the question whether that is meant."""
    agent = world.worked(world.started())
    seen.goto("/")
    with effort(seen) as spent:
        seen.locator(f"#a{agent}-name").click()
        seen.get_by_role("link", name="Stop").click()
        seen.get_by_role("button", name="Stop it").click()
        expect(seen.locator("#now-" + str(agent))).to_contain_text("Ended", timeout=30_000)

    assert spent.clicks == 3


def test_any_agent_by_name_costs_one_chord_its_name_and_enter(
    seen: Page, rows: FleetDatabase
) -> None:
    """From whatever page."""
    ids = [add(rows, number, state="busy") for number in range(1, 30)]
    seen.goto("/settings")
    expect(seen.locator("#live-word")).to_have_text("Live")
    with effort(seen) as spent:
        seen.keyboard.press("Control+k")
        expect(seen.locator("#palette")).to_be_focused()
        seen.keyboard.type("ada-17")
        seen.keyboard.press("Enter")
        seen.wait_for_url(f"**/agents/{ids[16]}")

    assert spent.clicks == 0
    assert spent.keys <= 3  # Control, K, Enter


def test_a_template_costs_two_clicks(world: World, seen: Page) -> None:
    """From the fleet's page: the menu, the template; its agent starts and works on its goal."""
    world.persona()
    world.api("POST", "/api/templates", {"name": "Tidy up", "goal": "Tidy the menus up", "persona": "developer-con-1", "folder": str(world.work)})  # fmt: skip
    seen.goto("/")
    with effort(seen) as spent:
        seen.locator("#start-menu > summary").click()
        seen.get_by_role("button", name="Tidy up").click()
        seen.wait_for_url("**/agents/*")
    world.idle(1)

    assert spent.clicks == 2
    retry_until(lambda: world.prompts("Tidy the menus up"), 30)


def test_what_an_agent_did_in_the_last_hour_costs_one_click(world: World, seen: Page) -> None:
    """Its thread opens where the last hour begins."""
    agent = world.worked(world.started(), "Fix the upload client")
    seen.goto("/")
    with effort(seen) as spent:
        seen.locator(f"#a{agent}-hour").click()
        expect(seen.locator("main")).to_contain_text("Fix the upload client")

    assert spent.clicks == 1


def test_what_an_agent_changed_costs_one_click(world: World, seen: Page) -> None:
    """From its card to every line."""
    repository = WorkFolder(world.folder / "repository")
    agent = world.started(cwd=str(repository.folder))
    repository.write("new.txt", "one line\n")
    world.worked(agent)
    line = seen.locator(f"#a{agent}-work")
    expect(line).to_contain_text("in 1 file", timeout=40_000)
    with effort(seen) as spent:
        line.click()
        expect(seen.locator("main")).to_contain_text("new.txt")

    assert spent.clicks == 1
