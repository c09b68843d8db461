"""Fingers: targets that can be hit, fields that no phone zooms into, tabs that are all there; pages as high as what they say."""

import time
from collections.abc import Iterator
from pathlib import Path

import fleet_records as records
import pytest
from browser import Browsing, operator, shot
from lineage_records import chain
from playwright.sync_api import expect
from web_servers import Served, serving

SMALL = """() => [...document.querySelectorAll(".btn, button, summary, select, textarea, input:not([type=hidden]), nav a, .tabs a, label.opt")]
  .filter((one) => one.checkVisibility({ visibilityProperty: true }) && !one.closest(".vh") && one.getBoundingClientRect().width > 1)
  .map((one) => { const size = one.getBoundingClientRect(), isBox = one.matches("[type=checkbox], [type=radio]");
    const least = isBox ? 24 : 44, font = parseFloat(getComputedStyle(one).fontSize);
    const isField = one.matches("select, textarea, input") && !isBox;
    return size.height < least - 0.5 || (size.width < least - 0.5) || (isField && font < 16) ? `${one.outerHTML.slice(0, 90)} ${size.width}x${size.height} ${font}px` : ""; })
  .filter(Boolean)"""


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    """A server with a chain of three agents, one that asks to be handed off, and a long document."""
    with serving(tmp_path) as made:
        database, host = made.fleet.database, made.fleet.host
        records.persona(database)
        chain(database, (60, 20, 90), host=host)
        records.agent(database, host=host, persona=None, pane="%9", adopted=True, state_at=time.time(), started_at=time.time(), session="x")  # fmt: skip
        document = tmp_path / "long.md"
        document.write_text("# Goal\n\n" + "\n".join(f"Line {n}\n" for n in range(3000)) + "\n## The end\n")  # fmt: skip
        records.handoff(database, "e" * 32, 3, state="cancelled", file_path=str(document), finished_at=time.time())  # fmt: skip
        yield made


@pytest.mark.parametrize("width", [390, 320])
def test_targets_are_large_enough(served: Served, browsing: Browsing, width: int) -> None:
    """On a phone each control is 44 px, a box 24 px, a field's letters 16 px, on each page."""
    page = operator(browsing.page(served.origin, width=width, touch=True), served.link)
    for path in ("/", "/?look=list", "/agents/4", "/agents/3/handoff", "/agents/new", "/settings", "/settings/browser", "/handoffs",
                 "/personas", f"/personas/{records.SLUG}", "/threads", "/alerts", "/lineage", "/figures"):  # fmt: skip
        page.goto(path)
        assert page.evaluate(SMALL) == [], path
        assert page.evaluate("document.documentElement.scrollWidth") <= width, path
    page.goto("/agents/4")
    shot(page, f"touch-agent-{width}")


@pytest.mark.parametrize("touch", [True, False])
def test_every_tab_can_be_reached(served: Served, browsing: Browsing, touch: bool) -> None:
    """The last tab is whole in a window of 320 px."""
    page = operator(browsing.page(served.origin, width=320, touch=touch), served.link)
    for link in page.get_by_role("navigation", name="Main").get_by_role("link").all():
        box = link.bounding_box()
        assert box
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 320, link.inner_text()


def test_the_message_comes_before_the_keys(served: Served, browsing: Browsing) -> None:
    """Keys are behind one button where a finger points, and open where a mouse does."""
    page = operator(browsing.page(served.origin, width=390, touch=True), served.link)
    page.goto("/agents/4")
    expect(page.locator("#keys")).to_be_hidden()
    page.locator("#keybox > summary").click()
    expect(page.locator("#keys")).to_be_visible()
    desk = operator(browsing.page(served.origin), served.link)
    desk.goto("/agents/4")
    expect(desk.locator("#keys")).to_be_visible()


def test_a_long_document_is_folded(served: Served, browsing: Browsing) -> None:
    """Its beginning is shown, the rest opens; the page is no hundred screens high."""
    page = operator(browsing.page(served.origin), served.link)
    page.goto(f"/handoffs/{'e' * 32}")
    rest = page.locator(".brief details.rest")
    expect(rest.locator("summary")).to_contain_text("lines")
    assert page.evaluate("document.documentElement.scrollHeight") < 6000
    rest.locator("summary").click()

    expect(page.get_by_role("heading", name="The end")).to_be_visible()


def test_siblings_have_their_generation(served: Served, browsing: Browsing) -> None:
    """A predecessor and its successor are told apart by name; figures have one row for a persona."""
    page = operator(browsing.page(served.origin), served.link)
    page.goto("/?look=list")
    expect(page.locator("#agent-3 .name")).to_contain_text(f"{records.SLUG} · 3 of 3")
    page.goto("/agents/2")
    expect(page.get_by_role("heading", level=1)).to_have_text(f"{records.SLUG} · 2 of 3")
    page.goto("/figures?period=week")

    expect(page.locator(".timeline li", has_text=records.SLUG)).to_have_count(1)
    expect(page.locator(".timeline")).to_contain_text(f"{records.SLUG} · 3 agents")
