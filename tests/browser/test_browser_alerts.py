"""Alerts in a browser: each once in the list and in the count, with what became of it."""

from collections.abc import Iterator
from pathlib import Path

import fleet_records as records
import pytest
import sqlalchemy as sa
from browser import Browsing, operator, portraits
from playwright.sync_api import Page, expect
from web_servers import Served, serving

from tasuki.fleet import alerts
from tasuki.fleet.store import tables

STATES = {
    "sent": "", "not_sent": "A notification could not be delivered.", "quiet": "", "due": "",
    "uncertain": "The server ended while it was sent.",
}  # fmt: skip

TEXT_ENDS = """it => { const range = document.createRange(); range.selectNodeContents(it);
  return range.getBoundingClientRect().right; }"""


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    """A server with one agent."""
    with serving(tmp_path) as made:
        made.fleet.notifier.close(5)
        records.persona(made.fleet.database)
        records.agent(made.fleet.database, persona=records.SLUG, host=made.fleet.host)
        yield made


@pytest.fixture
def page(served: Served, browsing: Browsing) -> Page:
    """A browser that is signed in."""
    return operator(browsing.page(served.origin), served.link)


def raised(served: Served, key: str, kind: str = "needs_you", state: str = "due") -> None:
    """An alert that is committed, of which no page was told yet."""
    with served.fleet.database.write() as connection:
        alerts.raise_alert(
            connection, kind, key, f"{records.SLUG} {key}", "Which <b>one</b>?", host="elsewhere", agent_id=1
        )  # fmt: skip
        query = sa.update(tables.alerts).where(tables.alerts.c.key == key)
        connection.execute(query.values(state=state, problem=STATES[state]))


def test_what_a_page_shows_already_does_not_come_again(served: Served, page: Page) -> None:
    """An alert that was written down just before the page was made stands there once, and counts once."""
    expect(page.locator("#live-word")).to_have_text("Live")
    raised(served, "first")
    page.goto("/alerts")
    expect(page.locator("#live-word")).to_have_text("Live")
    raised(served, "second")
    served.fleet.changes.notify([1])
    expect(page.locator(".toast", has_text="second")).to_be_visible()

    assert page.locator("#alert-list li").count() == 2
    assert page.locator(".toast").count() == 1
    expect(page.locator("#alerts-link")).to_have_text("Alerts")


def test_what_became_of_each_is_said(served: Served, page: Page) -> None:
    """Sent, not sent and why, not known; each leads to its agent."""
    for state in STATES:
        raised(served, state, "unacknowledged", state)
    served.fleet.changes.notify([1])
    page.goto("/alerts")
    lines = page.locator("#alert-list li")
    said = {
        "sent": "Which <b>one</b>? sent",
        "not_sent": "not sent: A notification could not be delivered.",
        "due": "not sent yet",
        "uncertain": "not known whether it was sent: The server ended while it was sent.",
    }
    for state, words in said.items():
        expect(lines.filter(has_text=f"{records.SLUG} {state}: ")).to_contain_text(words)

    word, title = lines.first.locator(".st"), lines.first.get_by_role("link")
    place = title.bounding_box()
    ends = word.evaluate(TEXT_ENDS)
    assert place is not None
    assert ends <= place["x"]
    assert title.get_attribute("href") == "/agents/1"
    assert [] == portraits(page, "alerts-states")


def test_looking_marks_alerts_as_seen(served: Served, page: Page) -> None:
    """The page of alerts needs no button for that: the count falls, on other pages too; it says for how long they are kept."""
    raised(served, "first")
    served.fleet.changes.notify([1])
    served.fleet.keep_days = 12
    other = page.context.new_page()
    other.goto("/")
    expect(other.get_by_role("link", name="1 new alert")).to_be_visible()
    page.goto("/alerts")

    expect(page.locator("#alerts-link")).to_have_text("Alerts")
    expect(page.get_by_text("kept for 12 days")).to_be_visible()
    other.bring_to_front()
    expect(other.locator("#alerts-link")).to_have_text("Alerts")
