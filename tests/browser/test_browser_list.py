"""The fleet as a list, one order for many agents, and the keyboard."""

import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fleet_records
import pytest
from browser import Browsing, operator, portraits, violations
from playwright.sync_api import Page, expect
from web_servers import Served, serving

from tasuki.fleet.orders import agents
from tasuki.fleet.store import log

STATES = ("idle", "busy", "waiting", "idle", "compacting")
ROLES = ("developer", "tester")


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    """A server with 30 agents of two roles and three projects; six are past their threshold."""
    with serving(tmp_path) as made:
        for number in range(1, 31):
            add(made, number)
        yield made


@pytest.fixture
def seen(served: Served, browsing: Browsing) -> Page:
    """A browser that shows the list, connected."""
    page = operator(browsing.page(served.origin), served.link)
    page.goto("/?look=list")
    expect(page.locator("#live-word")).to_have_text("Live")
    return page


def add(served: Served, number: int, **values: Any) -> None:
    """An agent of a persona of its own."""
    slug = f"{ROLES[number % 2]}-con-{number}"
    state = STATES[number % 5]
    fleet_records.persona(served.fleet.database, slug)
    fleet_records.agent(
        served.fleet.database, persona=slug, cwd=f"/src/project {number % 3}", session=f"s{number}",
        context_used=90 if number <= 6 else 3 * number % 70, state=state, state_at=time.time() - 10_000 + number,
        pane=f"%{number}", adopted=True, started_at=time.time() - number, **values,
    )  # fmt: skip


def names(page: Page, list: str) -> list[str]:
    """The names in a group, in their order."""
    return page.locator(f"#cards-{list} .name a").all_inner_texts()


def test_rows_are_dense(seen: Page) -> None:
    """A row is 28 px high, at every desk; on a phone nothing scrolls sideways."""
    heights = {
        round(box["height"])
        for row in seen.locator(".dense tbody tr").all()[:5]
        if (box := row.bounding_box())
    }

    assert heights <= {28, 29}
    assert [] == portraits(seen, "fleet-list")


def test_agents_are_grouped_and_sorted(seen: Page) -> None:
    """By project, role or harness, with those that need you first; by context, name or time. The address says it."""
    seen.get_by_text("View", exact=True).click()
    seen.get_by_label("Group").select_option("project")
    expect(seen.get_by_role("heading", name="project 1")).to_be_visible()
    seen.get_by_text("View", exact=False).first.click()
    seen.get_by_label("Sort").select_option("context")
    expect(seen.locator("#cards-needs .name a").first).to_have_text(re.compile("con-[1-6]$"))
    used = [
        int(re.findall(r"\d+", text)[0])
        for text in seen.locator("#s-needs td.use").all_inner_texts()
    ]
    seen.get_by_text("View", exact=False).first.click()
    seen.get_by_label("Group").select_option("role")
    expect(seen.get_by_role("heading", name="tester")).to_be_visible()

    assert used == sorted(used, reverse=True)
    assert "by=role" in seen.url
    assert "look=list" in seen.url


def test_who_is_past_the_threshold_is_asked_for_together(seen: Page) -> None:
    """One click lists them, each can be left out; those that cannot be handed off say why."""
    seen.get_by_role("link", name="Hand off 6 past the threshold").click()
    dialog = seen.get_by_role("dialog")
    expect(dialog.get_by_role("checkbox")).to_have_count(6)
    expect(dialog.get_by_label("Reason")).to_have_value("Context past the threshold")

    assert [] == violations(seen)


def test_many_are_selected_at_once(served: Served, seen: Page) -> None:
    """All that are shown, or with Shift all between two; what is selected stays selected when agents change."""
    seen.get_by_label("All shown").check()
    expect(seen.locator("#picked")).to_have_text("30 selected:")
    seen.get_by_label("All shown").uncheck()
    boxes = seen.locator("#cards-needs input")
    boxes.nth(0).click()
    boxes.nth(3).click(modifiers=["Shift"])
    expect(seen.locator("#picked")).to_have_text("4 selected:")
    with served.fleet.database.write() as connection:
        log.note(connection, "prompt", "Something", agent_id=1)
    served.fleet.changes.notify([1])
    seen.wait_for_timeout(500)

    expect(seen.locator("#picked")).to_have_text("4 selected:")
    expect(boxes.nth(2)).to_be_checked()


def test_a_prompt_goes_to_many(seen: Page) -> None:
    """What is refused is told agent by agent, and what was typed stays where nothing could be sent."""
    for number in (7, 12):
        seen.get_by_label(f"Select {ROLES[number % 2]}-con-{number}", exact=True).check()
    expect(seen.locator("#picked")).to_have_text("2 selected:")
    seen.get_by_role("button", name="Send …").click()
    seen.get_by_label("A prompt, sent once to each").fill("Please write a test.")
    seen.get_by_role("button", name="Send to 2").click()

    expect(seen.get_by_role("heading", name="0 of 2 sent to")).to_be_visible()
    expect(seen.locator("main")).to_contain_text("developer-con-12: tmux")


def test_stopping_many_asks_first(seen: Page) -> None:
    """The form names them; *Not now* has the focus, and nothing happens."""
    seen.get_by_label("Select tester-con-7", exact=True).check()
    seen.get_by_role("button", name="Stop …").click()
    expect(seen.get_by_role("button", name="Stop 1")).to_be_visible()
    expect(seen.get_by_role("link", name="Not now")).to_be_focused()
    seen.keyboard.press("Escape")

    expect(seen.get_by_role("dialog")).to_be_hidden()
    expect(seen.get_by_label("Select tester-con-7", exact=True)).to_be_checked()


def test_many_without_javascript(served: Served, browsing: Browsing) -> None:
    """Select, confirm, result: three pages. The result can be loaded again, and nothing is given twice."""
    page = operator(browsing.page(served.origin, javascript=False), served.link)
    page.goto("/?look=list")
    page.get_by_label("Select tester-con-3", exact=True).check()
    page.get_by_role("button", name="Stop …").click()
    page.get_by_role("button", name="Stop 1").click()
    expect(page.get_by_role("heading", name="1 of 1 stopped")).to_be_visible()
    page.reload()

    expect(page.locator("main")).to_contain_text("tester-con-3: It was told to end.")


def test_the_whole_fleet_by_keyboard(seen: Page) -> None:
    """Search, cursor, next that waits, hand off, select, palette and the list of keys: nothing but keys."""
    seen.keyboard.press("n")
    first = seen.evaluate("document.querySelector('[data-cursor]').id")
    seen.keyboard.press("n")
    assert first != seen.evaluate("document.querySelector('[data-cursor]').id")
    for _ in range(3):
        seen.keyboard.press("k")
    seen.keyboard.press("j")
    assert names(seen, "needs")[1] == seen.evaluate("document.activeElement.textContent")
    seen.keyboard.press("x")
    expect(seen.locator("#picked")).to_have_text("1 selected:")
    seen.keyboard.press("h")
    expect(seen.get_by_role("dialog")).to_be_visible()
    seen.keyboard.press("Escape")
    expect(seen.get_by_role("dialog")).to_be_hidden()
    seen.keyboard.press("/")
    expect(seen.get_by_label("Search agents")).to_be_focused()
    seen.keyboard.type("nj")
    expect(seen.get_by_label("Search agents")).to_have_value("nj")
    seen.keyboard.press("Escape")
    seen.keyboard.press("?")
    expect(seen.get_by_role("dialog")).to_contain_text("next agent that waits")
    assert [] == violations(seen)
    seen.keyboard.press("Escape")
    seen.keyboard.press("Control+k")
    expect(seen.get_by_label("Go to an agent, a page or an action")).to_be_focused()
    assert [] == violations(seen)
    seen.keyboard.type("con-17")
    seen.keyboard.press("Enter")
    expect(seen.get_by_role("heading", name="tester-con-17", level=1)).to_be_visible()
    seen.keyboard.press("n")
    expect(seen.get_by_role("heading", name="con-", level=1)).not_to_have_text("tester-con-17")
    seen.keyboard.press("g")
    seen.keyboard.press("h")

    expect(seen.get_by_role("heading", name="Handoffs", level=1)).to_be_visible()


def test_single_keys_can_be_switched_off(seen: Page) -> None:
    """People who speak to their computer type letters by accident."""
    seen.keyboard.press("?")
    seen.get_by_label("Single letters are keys").uncheck()
    seen.keyboard.press("Escape")
    expect(seen.get_by_role("dialog")).to_be_hidden()
    seen.keyboard.press("?")
    expect(seen.get_by_role("dialog")).to_be_hidden()
    seen.keyboard.press("Control+k")

    expect(seen.get_by_role("dialog")).to_be_visible()


def test_a_selection_dragged_out_of_a_form_keeps_it(seen: Page) -> None:
    """A form closes by a click beside it, but not while something is typed in it, nor at the end of a selection."""
    seen.keyboard.press("j")
    seen.keyboard.press("h")
    reason = seen.get_by_label("Reason")
    expect(reason).to_be_visible()
    box = reason.bounding_box()
    assert box
    seen.mouse.move(box["x"] + 20, box["y"] + 10)
    seen.mouse.down()
    seen.mouse.move(5, 5)
    seen.mouse.up()
    expect(seen.get_by_role("dialog")).to_be_visible()
    reason.fill("Because I say so")
    seen.mouse.click(5, 5)
    expect(reason).to_have_value("Because I say so")
    reason.fill("")
    seen.get_by_role("link", name="Not now").click()

    expect(seen.get_by_role("dialog")).to_be_hidden()


def test_an_order_for_many_shows_how_far_it_is(
    served: Served, seen: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page of its results counts while agents get it one after another, and names each result."""
    go = threading.Event()
    given: list[int] = []

    def stop(_: object, id: int) -> None:
        given.append(id)
        if len(given) > 1:
            go.wait(30)

    monkeypatch.setattr(agents, "stop_agent", stop)
    seen.goto("/bulk?do=stop&id=1&id=2&id=3")
    seen.get_by_role("button", name=re.compile("^Stop")).click()
    expect(seen.get_by_role("heading", level=1)).to_have_text("1 of 3 stopped …")
    expect(seen.get_by_text("not yet")).to_have_count(2)
    go.set()

    expect(seen.get_by_role("heading", level=1)).to_have_text("3 of 3 stopped")
    expect(seen.get_by_text("It was told to end.")).to_have_count(3)
