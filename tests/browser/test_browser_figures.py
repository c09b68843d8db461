"""Figures over time in a browser: the timeline of the fleet, its table, and one agent's context."""

import time

import pytest
from browser import Browsing, operator, portraits
from fleets import World
from playwright.sync_api import Page, expect

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


@pytest.fixture
def agent(world: World) -> int:
    """An agent that has worked, waited for the operator and spent something, an hour long."""
    agent = world.worked(world.started())
    now = time.time()
    world.sql(f"update agents set started_at = {now - 3500} where id = {agent}")
    world.sql(f"delete from events where agent_id = {agent}")
    for kind, ago in (("prompt", 3400), ("waiting", 3000), ("prompt", 1800), ("idle", 600)):
        world.sql(
            "insert into events (at, received_at, kind, agent_id, text, data) "
            f"values ({now - ago}, {now - ago}, '{kind}', {agent}, '', '{{}}')"
        )
    for number in range(40):
        world.sql(
            "insert into context_samples (agent_id, at, used, input_tokens, output_tokens, cost) values "
            f"({agent}, {now - 3400 + 80 * number}, {2 * number}, {9000 * number}, {100 * number}, {0.05 * number})"
        )
    return agent


@pytest.fixture
def seen(world: World, browsing: Browsing) -> Page:
    """A browser that is signed in."""
    return operator(browsing.page(world.origin()), world.link())


def test_the_time_spent_waiting_for_you(agent: int, seen: Page) -> None:
    """The page says how long agents waited, draws it, and says the same in a table."""
    seen.goto("/figures?period=hour")
    expect(seen.locator(".head")).to_contain_text("Agents waited for you 20 m 00 s in all.")
    row = seen.locator("table.figures").first.locator("tbody tr")
    bars = seen.locator(".timeline li").locator("rect:not(.track)")

    assert row.locator("td").all_inner_texts()[:2] == ["26 m 40 s", "20 m 00 s"]
    assert [bar.get_attribute("class") for bar in bars.all()] == [
        "idle", "busy", "waiting", "busy", "idle",
    ]  # fmt: skip


def test_what_was_spent(agent: int, seen: Page) -> None:
    """Tokens and cost stand per day and persona, with their sum."""
    seen.goto("/figures")
    table = seen.locator("table.figures").last

    expect(table.locator("tfoot")).to_contain_text("351k")
    expect(table.locator("tfoot")).to_contain_text("$1.95")
    expect(table.locator("tbody tr").first).to_contain_text("developer-con-1")


def test_the_context_of_an_agent(agent: int, seen: Page) -> None:
    """The agent's page draws its context use, and says in words what the drawing shows."""
    seen.goto(f"/agents/{agent}")
    drawing = seen.locator("#context svg")
    expect(drawing).to_be_visible()
    expect(seen.locator("#context")).to_contain_text("at most 78 %")
    expect(seen.locator("#context")).to_contain_text("$1.95")

    assert "at most 78 %, last 78 %" in str(drawing.get_attribute("aria-label"))


def test_it_looks_right(agent: int, seen: Page) -> None:
    """Narrow and wide, light and dark: nothing scrolls sideways, and axe-core finds nothing."""
    seen.goto("/figures?period=hour")
    faults = portraits(seen, "figures")
    seen.set_viewport_size({"width": 320, "height": 800})
    assert seen.evaluate("document.querySelector('main').scrollWidth") <= 320
    seen.goto(f"/agents/{agent}")
    expect(seen.locator("#context svg")).to_be_visible()
    faults += portraits(seen, "agent-context")

    assert [] == faults


def test_nothing_is_known_yet(world: World, seen: Page) -> None:
    """Without an agent and without reports the page says so."""
    seen.goto("/figures?period=week")

    expect(seen.locator("main")).to_contain_text("No agent ran.")
    expect(seen.locator("main")).to_contain_text("Nothing is reported yet.")
