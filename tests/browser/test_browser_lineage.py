"""Lineage and personas in a real browser: by mouse, by keyboard, in every width, without scripts."""

from collections.abc import Iterator
from pathlib import Path

import fleet_records
import pytest
from browser import Browsing, operator, portraits, violations
from fleet_records import SLUG
from lineage_records import chain, thread
from playwright.sync_api import Page, expect
from waiting import retry_until
from web_servers import Served, serving

from tasuki.fleet.agents import personas
from tasuki.fleet.store.queries import find_newest_place


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    """A fleet with one persona that has a folder."""
    monkeypatch.setenv("TASUKI_DATA", str(tmp_path))
    with serving(tmp_path) as made:
        fleet = made.fleet
        skill = "# Develops\n\n- writes tests first\n- `git commit` often"
        personas.add_persona(fleet.database, fleet.root, role="developer", name="con", skill=skill)
        yield made


@pytest.fixture
def page(browsing: Browsing, served: Served) -> Page:
    """The operator's page."""
    return operator(browsing.page(served.origin), served.link)


def five(served: Served, folder: Path) -> list[int]:
    """A chain of five agents with a fork, one of whose threads can be read."""
    fleet = served.fleet
    ids = chain(fleet.database, [84.0, 61.0, 88.0, 72.0, 63.0])
    path = thread(folder / "threads", 80, compacted=True)
    fleet_records.agent(
        fleet.database, persona=SLUG, previous_agent_id=ids[3], state="lost", ended_at=2.0,
        context_used=38.0, thread=str(path), host=fleet.host, cwd="/home/dev/orchard-api",
    )  # fmt: skip
    return ids


def test_the_page_of_a_chain(page: Page, served: Served, tmp_path: Path) -> None:
    """Nobody is kept out, nothing scrolls sideways but the drawing; light, dark and narrow."""
    five(served, tmp_path)
    page.goto("/lineage")

    assert [] == portraits(page, "lineage")


@pytest.mark.long
def test_a_chain_of_200_agents_opens_at_its_newest_end(page: Page, served: Served) -> None:
    """The drawing scrolls in its own region, and begins with what is new."""
    chain(served.fleet.database, [float(20 + n % 75) for n in range(200)])
    served.fleet.changes.notify()
    newest = find_newest_place(served.fleet.database).id
    retry_until(lambda: served.live.position.id == newest)
    page.goto("/lineage")

    expect(page.get_by_role("link", name="Thread 200 of 200")).to_be_in_viewport()
    expect(page.get_by_role("link", name="Thread 1 of 200")).not_to_be_in_viewport()
    assert [] == portraits(page, "lineage-200")


def test_the_drawing_is_walked_by_keyboard(page: Page, served: Served, tmp_path: Path) -> None:
    """Tab goes from thread to handoff in the order of the chain; Enter opens what has the focus."""
    five(served, tmp_path)
    page.goto("/lineage")
    page.get_by_role("region", name="Drawing of the chain").focus()

    said = []
    for _ in range(4):
        page.keyboard.press("Tab")
        said.append(str(page.evaluate("document.activeElement.getAttribute('aria-label')"))[:11])
    assert ["Thread 1 of", "Handoff 1 o", "Thread 2 of", "Handoff 2 o"] == said
    page.keyboard.press("Enter")
    expect(page).to_have_url(f"{served.origin}/handoffs/{2:08x}{2:08x}{2:08x}{2:08x}")


def test_another_persona_is_chosen_without_scripts(browsing: Browsing, served: Served) -> None:
    """The form is one of HTML alone."""
    fleet_records.persona(served.fleet.database, "reviewer-mina-2")
    chain(served.fleet.database, [50.0])
    page = operator(browsing.page(served.origin, javascript=False), served.link)
    page.goto("/lineage")
    page.get_by_label("Persona", exact=True).select_option("reviewer-mina-2")
    page.get_by_role("button", name="Show").click()

    expect(page.get_by_role("heading", level=1)).to_have_text("reviewer-mina-2")


def test_the_empty_pages(page: Page) -> None:
    """What is there before anything is there can be read by everybody."""
    page.goto("/lineage")
    assert [] == portraits(page, "lineage-empty")
    page.goto("/lineage?by=project")
    assert [] == violations(page)


@pytest.mark.long
def test_the_pages_of_personas(page: Page, served: Served, tmp_path: Path) -> None:
    """List, one persona with its history, a document and the question before it is retired."""
    fleet = served.fleet
    fleet_records.persona(fleet.database, "reviewer-mina-2", automatic=True, threshold=70.0)
    five(served, tmp_path)
    folder = personas.get_persona_folder(fleet.root, SLUG)
    (folder / "experience.md").write_text("## Learned\n\nThe tests need `TZ=UTC`.\n")
    (folder / "handoffs" / "20261121.md").write_text(
        "# Handoff\n\n| a | b |\n|---|---|\n| 1 | 2 |\n"
    )
    for path, name in (
        ("/personas", "personas"), (f"/personas/{SLUG}", "persona"),
        (f"/personas/{SLUG}/documents/20261121.md", "persona-document"),
        (f"/personas/{SLUG}/retire", "persona-retire"),
    ):  # fmt: skip
        page.goto(path)
        assert [] == portraits(page, name)


def test_a_persona_is_made_edited_and_retired_without_scripts(
    browsing: Browsing, served: Served
) -> None:
    """Everything is a form: made, given a skill and a threshold, retired behind a question."""
    page = operator(browsing.page(served.origin, javascript=False), served.link)
    page.goto("/personas")
    page.get_by_label("Role:").fill("tester")
    page.get_by_label("Name", exact=True).fill("oki")
    page.get_by_role("button", name="Create it").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("tester-oki-1")
    page.get_by_label("Markdown, at most").fill("# Tests\n\nOnly **tests**.")
    page.get_by_role("button", name="Save the skill").click()
    expect(page.locator("#skill .brief strong")).to_have_text("tests")
    page.get_by_role("textbox", name="Threshold").fill("55")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_role("textbox", name="Threshold")).to_have_value("55")
    page.get_by_role("link", name="Retire").click()
    page.get_by_role("button", name="Retire it").click()

    expect(page.get_by_text("It is retired: no agent starts as it.")).to_be_visible()
