"""Ages count by the server's clock, moments are of the reader's zone, whatever the browser's own clock says."""

import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import fleet_records as records
import pytest
from browser import Browsing, operator
from lineage_records import chain
from playwright.sync_api import Page, expect
from web_servers import Served, serving

from tasuki.fleet import alerts
from tasuki.fleet.orders.agents import mute_agent

AHEAD = """(() => { const real = Date.now, Own = Date;
  window.Date = class extends Own { constructor(...given) { if (given.length) super(...given); else super(Own.now()); } };
  Date.now = Own.now = () => real() + 7200000; })()"""
BARE = r"""() => { const found = [];
  const walker = document.createTreeWalker(document.querySelector("body"), NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) { const at = walker.currentNode.parentElement;
    if (/\b\d\d:\d\d\b/.test(walker.currentNode.textContent) && !at.closest("time, script, #live-clock, .words, .prose, pre")) found.push(walker.currentNode.textContent); }
  return found; }"""
TOKYO = timezone(timedelta(hours=9))


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    """A server whose agents wait, are limited, are muted and were handed off; an alert."""
    with serving(tmp_path) as made:
        made.fleet.notifier.close(5)
        database, now = made.fleet.database, time.time()
        records.persona(database)
        chain(database, (60, 20), host=made.fleet.host)
        records.agent(database, host=made.fleet.host, state="limited", state_at=now - 90, limit_text="You have hit your limit.",
                      limited_until=now + 7200, started_at=now - 200, pane="%7")  # fmt: skip
        mute_agent(made.fleet, 2, "2h")
        with database.write() as connection:
            alerts.raise_alert(connection, "needs_you", "k", "Con waits", "?", host="x", agent_id=1)
        yield made


@pytest.fixture
def page(served: Served, browsing: Browsing) -> Page:
    """A browser in Tokyo whose clock is two hours ahead, signed in."""
    made = browsing.page(served.origin, zone="Asia/Tokyo")
    made.context.add_init_script(AHEAD)
    return operator(made, served.link)


def test_ages_are_of_the_servers_clock(page: Page) -> None:
    """A state of a minute is no state of two hours; the clock at the top agrees with the moments."""
    limited = page.locator("[data-item]", has_text="Limited until").first
    expect(limited.locator("time[data-ago]")).to_have_text(re.compile(r"^1 min$"))
    told = datetime.now(TOKYO)
    top = page.locator("#live-clock").inner_text()

    assert top[:2] in (told.strftime("%H"), (told - timedelta(minutes=1)).strftime("%H"))


def test_moments_are_of_the_readers_zone(served: Served, page: Page) -> None:
    """An alert has the time that the reader's wall shows, and on hover that of the server."""
    at = alerts.list_newest_alerts(served.fleet.database, 1)[0].at
    line = page.locator("#alert-list time").first
    here = datetime.fromtimestamp(at, TOKYO)

    expect(line).to_have_text(here.strftime("%H:%M:%S"))
    server = datetime.fromtimestamp(at, UTC).astimezone()
    assert f"{here:%H:%M:%S}\nOn the server: " in (line.get_attribute("title") or "")
    assert f"{server:%H:%M:%S} UTC{server:%z}"[:-2] in (line.get_attribute("title") or "")


def test_no_moment_is_left_in_the_servers_zone(served: Served, page: Page) -> None:
    """On every page, and after news, each time of day is one that the browser has written itself."""
    for path in ("/", "/?look=list", "/alerts", "/agents/1", "/agents/2", "/agents/2/mute", "/agents/2/peek", "/handoffs", "/lineage",
                 "/figures", "/personas", f"/personas/{records.SLUG}", "/hosts", "/settings", "/settings/server", "/threads", "/briefs"):  # fmt: skip
        page.goto(path)
        page.wait_for_function("document.readyState === 'complete'")
        assert page.evaluate(BARE) == [], path
        assert not re.search("NaN|Invalid|undefined", page.locator("body").inner_text()), path
        for one in page.locator("time[data-as]").all():
            expect(one).to_have_attribute("data-server", re.compile("UTC"))
    page.goto("/")
    expect(page.locator("#live-word")).to_have_text("Live")
    mute_agent(served.fleet, 2, "1h")
    served.fleet.changes.notify([2])
    until = page.locator("#agent-2").get_by_text("Muted until").locator("time")
    expect(until).to_have_text(
        re.compile(datetime.fromtimestamp(time.time() + 3600, TOKYO).strftime("%H:"))
    )
