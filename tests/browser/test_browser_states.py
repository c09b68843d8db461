"""An agent has one state, told in the same words on every page, and no page shows a code."""

import time
from collections.abc import Iterator
from pathlib import Path

import fleet_records as records
import pytest
import sqlalchemy as sa
from browser import Browsing, operator
from playwright.sync_api import Page, expect
from web_servers import Served, serving

from tasuki.fleet.store import tables

CODES = ("prompt_input_exit", "Prompt_input", "document_missing", "context_limit", "working now")


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    """A server with an agent whose handoff failed twice, and one that ended after a poor document."""
    with serving(tmp_path) as made:
        database, host, now = made.fleet.database, made.fleet.host, time.time()
        for slug in (records.SLUG, "developer-mira-1"):
            records.persona(database, slug)
        failing = records.agent(database, persona=records.SLUG, host=host, state="idle", state_at=now - 4000,
                                started_at=now - 5000, pane="%1", session="s1", context_used=40)  # fmt: skip
        ended = records.agent(database, persona="developer-mira-1", host=host, state="ended", state_at=now - 60,
                              started_at=now - 3000, ended_at=now - 60, end_reason="prompt_input_exit", session="s2")  # fmt: skip
        records.agent(database, host=host, state="ended", state_at=now - 60, started_at=now - 3000,
                      ended_at=now - 60, end_reason="prompt_input_exit", session="s3")  # fmt: skip
        records.handoff(
            database, "f" * 32, failing, state="failed", step="check", attempt=2, created_at=now - 900, finished_at=now - 780,
            reason="context_limit", failure={"code": "document_missing", "step": "check", "sentence": "It stopped.", "remedy": "Retry."},
        )  # fmt: skip
        records.handoff(
            database, "d" * 32, ended, persona="developer-mira-1", state="done", step="acknowledge", created_at=now - 300,
            finished_at=now - 60, acknowledged_at=now - 60, notes=["Quality of the document: 10 of 100."],
        )  # fmt: skip
        with database.write() as connection:
            for attempt, step, outcome in (
                (1, "instruct", "ok"),
                (1, "await_turn", "failed"),
                (2, "await_turn", "ok"),
                (2, "check", "failed"),
            ):
                values = {"handoff_id": "f" * 32, "attempt": attempt, "step": step, "started_at": now - 890, "ended_at": now - 780, "outcome": outcome}  # fmt: skip
                connection.execute(sa.insert(tables.steps).values(**values))
        yield made


@pytest.fixture
def page(served: Served, browsing: Browsing) -> Page:
    """A browser that is signed in."""
    return operator(browsing.page(served.origin), served.link)


def test_one_state_everywhere(page: Page) -> None:
    """A handoff that failed is the state of its agent on each page that names it."""
    for path, place in (("/", "#agent-1"), ("/?look=list", "#agent-1"), ("/agents/1", "#now-1"), ("/agents/1/peek", "#peek"),
                        ("/personas", "main"), (f"/personas/{records.SLUG}", "main"), (f"/lineage?persona={records.SLUG}", "main")):  # fmt: skip
        page.goto(path)
        expect(page.locator(place).get_by_text("Handoff failed").first).to_be_visible()
        assert page.locator(place).get_by_text("Idle", exact=True).count() == 0, path


def test_its_time_is_a_wait_for_the_operator(page: Page) -> None:
    """Figures count what a failed handoff waits for the operator, and not as handing off."""
    page.goto("/figures?period=hour")
    row = page.locator("table.figures tbody tr", has_text=records.SLUG).first

    expect(row.locator("[data-h='Waiting for you']")).to_contain_text("13 m")
    assert "15 m" not in row.locator("[data-h='Handing off']").inner_text()


def test_a_poor_document_is_not_plainly_done(page: Page) -> None:
    """Its quality is said where the handoff is done, and its step is done, too."""
    page.goto("/handoffs?show=done")
    row = page.get_by_role("row").last
    expect(row).to_contain_text("Done, document 10 of 100")
    assert "Waiting for" not in row.inner_text()
    page.goto(f"/handoffs/{'d' * 32}")

    expect(page.locator("header .st").first).to_have_text("Confirmed, document 10 of 100")


def test_attempts_are_counted_for_each_step(page: Page) -> None:
    """A step that ran for the first time in the second attempt of a handoff is no second attempt."""
    page.goto(f"/handoffs/{'f' * 32}")

    expect(page.locator("li", has_text="Waiting for the end of its turn").first).to_contain_text("attempt 2")  # fmt: skip
    assert "attempt" not in page.locator("li.bad").inner_text()


def test_no_page_shows_a_code(page: Page) -> None:
    """What programs and tasuki name by codes is told in words."""
    for path in ("/", "/?look=list", "/agents/1", "/agents/2", "/agents/3", "/agents/3/peek", "/handoffs", "/handoffs?show=done",
                 f"/handoffs/{'f' * 32}", "/lineage", "/personas", f"/personas/{records.SLUG}", "/personas/developer-mira-1"):  # fmt: skip
        page.goto(path)
        text = page.locator("body").inner_text()
        assert [code for code in CODES if code in text] == [], path
