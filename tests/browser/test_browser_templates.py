"""Templates of goals in a browser: made, started with two clicks, filled in, changed."""

import pytest
from browser import Browsing, operator, portraits
from fleets import World
from playwright.sync_api import Page, expect
from waiting import retry_until

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


@pytest.fixture
def seen(world: World, browsing: Browsing) -> Page:
    """A browser that is signed in."""
    return operator(browsing.page(world.origin()), world.link())


def test_a_template_starts_with_two_clicks(world: World, seen: Page) -> None:
    """Saved from the form of an agent; from the fleet's page: open the menu, choose."""
    seen.goto("/agents/new")
    seen.get_by_label("Folder").fill(str(world.work))
    seen.get_by_label("Goal (").fill("Sort the imports")
    seen.get_by_role("button", name="Save as template").click()
    expect(seen.locator("#templates")).to_contain_text("Sort the imports")
    assert [] == portraits(seen, "templates")
    seen.goto("/")
    seen.locator("#start-menu > summary").click()
    seen.get_by_role("button", name="Sort the imports").click()
    seen.wait_for_url("**/agents/1")
    retry_until(lambda: world.prompts("Sort the imports"))


def test_a_template_with_fields_is_filled_in(world: World, seen: Page) -> None:
    """Its form opens over the page, from the menu and from the palette; a new template reaches an open page."""
    body = {"name": "Fix one", "goal": "Fix {issue}", "folder": str(world.work)}
    world.api("POST", "/api/templates", body)
    seen.locator("#start-menu > summary").click()
    seen.get_by_role("link", name="Fix one …").click()
    form = seen.get_by_role("dialog")
    expect(form).to_contain_text("Fix {issue}")
    assert [] == portraits(seen, "template-form")
    form.get_by_role("link", name="Not now").click()
    seen.keyboard.press("Control+k")
    seen.get_by_role("combobox").fill("Fix one")
    seen.get_by_role("option", name="Fix one").click()
    seen.get_by_label("issue").fill("the parser")
    seen.get_by_role("dialog").get_by_role("button", name="Start").click()
    seen.wait_for_url("**/agents/1")

    assert world.agent(1)["goal"] == "Fix the parser"


def test_an_agents_goal_becomes_a_template(world: World, seen: Page) -> None:
    """Its form is filled in from the agent; it is changed and removed later."""
    slug = world.persona()
    agent = world.started(persona=slug, goal="say hello")
    seen.goto(f"/agents/{agent}")
    seen.get_by_role("link", name="Save as template").click()
    assert seen.get_by_label("Goal").input_value() == "say hello"
    assert seen.get_by_label("Works as").input_value() == f"persona:{slug}"
    seen.get_by_label("Name").fill("Greet")
    seen.get_by_role("button", name="Save").click()
    seen.get_by_role("link", name="Edit Greet").click()
    seen.get_by_label("Name").fill("Greet all")
    seen.get_by_label("Works as").select_option("role:developer")
    seen.get_by_role("button", name="Save").click()
    expect(seen.locator("#templates")).to_contain_text("Greet all")
    (kept,) = world.api("GET", "/api/templates")["templates"]
    seen.get_by_role("link", name="Edit Greet all").click()
    seen.get_by_role("button", name="Remove").click()
    retry_until(lambda: world.api("GET", "/api/templates")["templates"] == [])
    expect(seen.locator("#templates")).to_have_count(0)

    assert (kept["role"], kept["persona"]) == ("developer", "")
