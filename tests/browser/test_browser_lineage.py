"""Lineage and personas in a real browser: by mouse, by keyboard, in every width, without scripts."""

import time
from collections.abc import Iterator
from pathlib import Path

import fleet_records
import pytest
import sqlalchemy as sa
from browser import Browsing, operator, portraits, violations
from fleet_records import SLUG
from lineage_records import chain, thread
from playwright.sync_api import Page, expect
from web_servers import Served, serving

from tasuki.fleet.agents import personas
from tasuki.fleet.orders.bodies import NewPersona
from tasuki.fleet.store import log, tables


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    """A fleet with one persona that has a folder."""
    monkeypatch.setenv("TASUKI_DATA", str(tmp_path))
    with serving(tmp_path) as made:
        fleet = made.fleet
        skill = "# Develops\n\n- writes tests first\n- `git commit` often"
        personas.add_persona(
            fleet.database, fleet.root, NewPersona(role="developer", name="con", skill=skill)
        )
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
    """Nobody is kept out, nothing scrolls sideways, also at 320 px; light, dark and narrow."""
    five(served, tmp_path)
    page.goto("/lineage")

    assert [] == portraits(page, "lineage")
    page.set_viewport_size({"width": 320, "height": 900})
    assert page.evaluate("document.documentElement.scrollWidth") == 320


def test_ids_are_whole_and_on_one_line(page: Page, served: Served) -> None:
    """At a desk and on a phone an id is neither broken nor cut."""
    session = "00000000-0000-7000-8000-000000000001"
    chain(served.fleet.database, [84.0, 61.0], session=session)
    page.goto("/lineage")
    for width in (1280, 360, 320):
        page.set_viewport_size({"width": width, "height": 900})
        for id in page.locator("code.id").all():
            lines, cut = id.evaluate(
                "e => [Math.round(e.offsetHeight / parseFloat(getComputedStyle(e).lineHeight)), e.scrollWidth > e.clientWidth + 1]"
            )
            assert (1, False) == (lines, cut), width


@pytest.mark.long
def test_a_chain_of_200_agents_begins_with_the_newest(page: Page, served: Served) -> None:
    """The middle is one row, which a press fills where the reader is."""
    chain(served.fleet.database, [float(20 + n % 75) for n in range(200)])
    page.goto("/lineage")
    rows = page.locator("table.lineage td.place")
    expect(rows.first).to_have_text("200")
    expect(rows.last).to_have_text("1")
    expect(rows).to_have_count(23)
    assert [] == portraits(page, "lineage-200")
    page.get_by_role("link", name="Show 40 more").click()
    expect(rows).to_have_count(63)
    expect(page.get_by_role("link", name="Show 40 more")).to_be_in_viewport()


def test_a_chain_goes_on_while_it_is_open(page: Page, served: Served) -> None:
    """A new agent of the chain appears as its first row, without a reload."""
    ids = chain(served.fleet.database, [84.0, 61.0])
    page.goto("/lineage")
    expect(page.locator("#live-word")).to_have_text("Live")
    page.evaluate("window.same = true")
    with served.fleet.database.write() as connection:
        connection.execute(
            sa.update(tables.agents)
            .where(tables.agents.c.id == ids[-1])
            .values(ended_at=2.0, state="ended")
        )
    fleet_records.handoff(
        served.fleet.database, "ab" * 16, ids[-1], state="done", reason="context_limit",
        recorded_at=time.time(), finished_at=time.time(),
    )  # fmt: skip
    new = fleet_records.agent(
        served.fleet.database, persona=SLUG, previous_agent_id=ids[-1], session="new", started_at=time.time()
    )  # fmt: skip
    with served.fleet.database.write() as connection:
        connection.execute(
            sa.update(tables.handoffs)
            .where(tables.handoffs.c.id == "ab" * 16)
            .values(successor_id=new)
        )
        log.note(connection, "agent", "", agent_id=new)
    served.fleet.changes.notify([new])

    expect(page.locator("table.lineage td.place").first).to_have_text("3")
    assert page.evaluate("window.same") is True


def test_the_table_is_walked_by_keyboard(page: Page, served: Served, tmp_path: Path) -> None:
    """Tab goes from thread to handoff, the newest first; Enter opens what has the focus."""
    five(served, tmp_path)
    page.goto("/lineage")
    page.get_by_role("button", name="Show").focus()

    said = []
    for _ in range(4):
        page.keyboard.press("Tab")
        said.append(str(page.evaluate("document.activeElement.getAttribute('href')")))
    assert ["/agents/5/thread", "/agents/6", "/agents/4/thread"] == said[:3]
    page.keyboard.press("Enter")
    expect(page).to_have_url(f"{served.origin}/handoffs/{4:08x}{4:08x}{4:08x}{4:08x}")


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
