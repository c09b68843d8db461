"""Goals that wait, on the pages of a persona and of its agent."""

import pytest
from browser import Browsing, operator, portraits
from fleets import World
from playwright.sync_api import expect

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


def test_goals_are_queued_ordered_and_typed(world: World, browsing: Browsing) -> None:
    """They are added, moved, changed and removed on the persona's page; the agent's page shows the next, and it is typed."""
    slug = world.persona()
    page = operator(browsing.page(world.origin()), world.link())
    page.goto(f"/personas/{slug}")
    queue = page.locator("#queue")
    for text in ("sort the imports", "rename the module", "write the notes"):
        queue.get_by_label("A goal for later").fill(text)
        queue.get_by_role("button", name="Add to the queue").click()
        expect(queue.locator("ol > li").last).to_contain_text(text)
    queue.get_by_role("button", name="Pause").click()
    expect(queue).to_contain_text("Paused")
    queue.locator("li", has_text="write the notes").get_by_role("button", name="earlier").click()
    expect(queue.locator("ol > li").nth(1)).to_contain_text("write the notes")
    third = queue.locator("ol > li").nth(2)
    third.get_by_text("Edit").click()
    third.get_by_label("Goal", exact=True).fill("rename the package")
    third.get_by_role("button", name="Save").click()
    expect(queue.locator("ol > li").nth(2)).to_contain_text("rename the package")
    queue.locator("ol > li").first.get_by_role("button", name="Remove").click()
    expect(queue.locator("ol > li")).to_have_count(2)
    assert [] == portraits(page, "queue")
    agent = world.started(persona=slug)
    page.goto(f"/agents/{agent}")
    expect(page.locator("#queue ol > li").first).to_contain_text("write the notes")
    page.locator("#queue").get_by_role("button", name="Resume").click()
    expect(page.locator("#queue ol > li")).to_have_count(0)  # live: nobody loads the page

    assert page.url.endswith(f"/agents/{agent}#queue")
    assert [len(world.prompts(goal)) for goal in ("write the notes", "rename the package", "sort the imports")] == [1, 1, 0]  # fmt: skip
