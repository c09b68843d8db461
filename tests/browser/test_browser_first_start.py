"""An empty fleet in a browser: three ticked steps to the first agent."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import Browsing, operator, portraits
from fleets import World
from playwright.sync_api import expect
from waiting import retry_until

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


@pytest.fixture
def bare(tmp_path: Path, database_url: str) -> Iterator[World]:
    """A fleet without hooks and without agents."""
    made = World(tmp_path, database_url)
    made.serve()
    yield made
    made.close()


def test_three_steps_lead_to_the_first_agent(bare: World, browsing: Browsing) -> None:
    """Programs are ticked, hooks are added from a form, the first agent gets a persona, a folder and a goal."""
    browsing.expect("status of 400")
    page = operator(browsing.page(bare.origin()), bare.link())
    steps = page.locator("#first-start")
    expect(steps.get_by_role("heading", name="1 Programs found")).to_be_visible()
    expect(steps.locator("#step-programs")).to_contain_text("Claude Code")
    assert [] == portraits(page, "first-start")
    steps.get_by_role("link", name="Add to Claude Code").click()
    page.get_by_role("dialog").get_by_role("button", name="Add them").click()
    expect(steps.get_by_role("heading", name="2 Hooks added")).to_be_visible()
    steps.get_by_label("Folder").fill("/nowhere/at/all")
    steps.get_by_label("Goal").fill("Sort the imports")
    steps.get_by_role("button", name="Start it").click()
    expect(steps.get_by_role("alert")).to_contain_text("There is no folder")
    assert bare.api("GET", "/api/personas")["personas"] == []
    assert "--cwd" not in steps.get_by_role("alert").inner_text()
    steps.get_by_label("Folder").fill(str(bare.work))
    steps.get_by_role("button", name="Start it").click()
    page.wait_for_url("**/agents/1")
    retry_until(lambda: bare.prompts("Sort the imports"))
    page.goto("/")
    expect(page.locator("#first-start")).to_have_count(0)

    assert bare.agent(1)["persona"] == "developer-con-1"


def test_a_tick_comes_by_itself(bare: World, browsing: Browsing) -> None:
    """Hooks that are added in another tab tick the step of an open page; its first agent ends the steps."""
    page = operator(browsing.page(bare.origin()), bare.link())
    other = page.context.new_page()
    other.goto("/settings/hooks/claude")
    other.get_by_role("button", name="Add them").click()
    page.bring_to_front()
    expect(page.get_by_role("heading", name="2 Hooks added")).to_be_visible()
    bare.started()

    expect(page.locator("#first-start")).to_have_count(0)
