"""The theme that a browser chose, and muted agents, as they look."""

import re
from collections.abc import Iterator
from pathlib import Path

import fleet_records as records
import pytest
from browser import Browsing, operator, shot
from playwright.sync_api import Page, expect
from tree import ROOT
from web_servers import Served, serving

from tasuki.fleet.orders.agents import mute_agent

LIGHT, DARK = "rgb(247, 247, 245)", "rgb(19, 19, 18)"
GROUND = "() => getComputedStyle(document.body).backgroundColor"
FIRST_GROUND = """addEventListener("DOMContentLoaded", () => {
  window.first = getComputedStyle(document.body).backgroundColor; });"""


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    """A server with an agent that waits, and one that is idle and has no persona."""
    with serving(tmp_path) as made:
        records.persona(made.fleet.database)
        values = {"host": made.fleet.host, "cwd": "/src/shop", "pane": "%1"}
        records.agent(made.fleet.database, persona=records.SLUG, state="waiting", **values)
        records.agent(made.fleet.database, **{**values, "pane": "%2"})
        yield made


def choose(page: Page, word: str) -> None:
    """Choose a theme in the settings."""
    page.goto("/settings/browser")
    page.get_by_role("group", name="Theme").get_by_role("button", name=word).click()
    expect(page.get_by_role("button", name=word)).to_have_attribute("aria-pressed", "true")


@pytest.mark.parametrize("javascript", [True, False])
def test_a_theme_is_chosen(served: Served, browsing: Browsing, javascript: bool) -> None:
    """Light and dark hold whatever the system says, from the first drawing on, without scripts, too; then the system decides again."""
    page = operator(
        browsing.page(served.origin, scheme="light", javascript=javascript), served.link
    )
    if javascript:
        page.add_init_script(FIRST_GROUND)
    assert page.evaluate(GROUND) == LIGHT
    choose(page, "Dark")
    assert page.evaluate(GROUND) == DARK
    page.goto("/")
    assert (page.evaluate(GROUND), page.locator("html").get_attribute("data-theme")) == (
        DARK,
        "dark",
    )
    assert page.locator("meta[name=theme-color]").count() == 1
    if javascript:
        assert page.evaluate("window.first") == DARK
    page.emulate_media(color_scheme="dark")
    choose(page, "Light")
    assert page.evaluate(GROUND) == LIGHT
    choose(page, "As the system")
    assert (page.evaluate(GROUND), page.locator("html").get_attribute("data-theme")) == (DARK, None)


def test_browsers_do_not_share_a_theme(served: Served, browsing: Browsing) -> None:
    """One browser is dark and another light on the same page; a second tab follows once its page changes."""
    dark = operator(browsing.page(served.origin), served.link)
    light = operator(browsing.page(served.origin), served.link)
    tab = dark.context.new_page()
    tab.goto("/")
    expect(tab.locator("#live-word")).to_have_text("Live")
    choose(dark, "Dark")
    for page in (dark, light):
        page.goto("/")
        expect(page.locator("#live-word")).to_have_text("Live")
    mute_agent(served.fleet, 2, "1h")
    expect(tab.get_by_text("Muted until")).to_be_visible()
    expect(light.get_by_text("Muted until")).to_be_visible()

    assert [page.evaluate(GROUND) for page in (dark, light, tab)] == [DARK, LIGHT, DARK]


def test_a_word_that_is_no_theme_is_refused(served: Served, browsing: Browsing) -> None:
    """A cookie of another value counts as none; a form of another value changes nothing."""
    browsing.expect("status of 400")
    page = operator(browsing.page(served.origin), served.link)
    page.goto("/settings/browser")
    page.locator("button[value=dark]").evaluate("(one) => { one.value = 'x\\\"><script>'; }")
    page.locator("button[name=theme]").nth(2).click()
    expect(page.locator(".toast")).to_contain_text("is no choice. Enter system, light or dark.")
    name = f"{served.sessions.cookie_name}-theme"
    page.context.add_cookies([{"name": name, "value": "neon", "url": served.origin}])
    page.goto("/")

    assert page.locator("html").get_attribute("data-theme") is None


def test_both_ways_to_the_dark_are_the_same() -> None:
    """The colours of the chosen dark theme are those of the system's."""
    style = (ROOT / "src/tasuki/web/static/style.css").read_text()
    blocks = re.findall(
        r":root(?::not\(\[data-theme=light\]\)|\[data-theme=dark\]) \{([^}]*)\}", style
    )
    system, chosen = (re.findall(r"--[a-z-]+: [^;]+;", block) for block in blocks)

    assert len(system) > 15
    assert system == chosen


@pytest.mark.parametrize("javascript", [True, False])
def test_an_agent_is_muted_from_its_card(
    served: Served, browsing: Browsing, javascript: bool
) -> None:
    """By the bell for an hour: the card says until when, and it still counts among those that need you; then it is unmuted."""
    page = operator(browsing.page(served.origin, javascript=javascript), served.link)
    card = page.locator("#agent-1")
    card.get_by_role("link", name=f"Mute {records.SLUG}").click()
    page.get_by_role("button", name="For 1 hour").click()
    if not javascript:
        expect(page.get_by_role("link", name="Muted until")).to_be_visible()
        page.goto("/")
    mute = card.get_by_role("link", name=re.compile(r"^Muted until \d\d:\d\d$"))
    expect(mute).to_be_visible()
    expect(page.locator("dialog[open]")).to_have_count(0)
    expect(page.locator("#g-needs + .num")).to_have_text("1")
    shot(page, f"muted-{'live' if javascript else 'plain'}")
    mute.click()
    page.get_by_role("button", name="Unmute", exact=True).click()
    if not javascript:
        page.goto("/")
    expect(card.get_by_role("link", name=f"Mute {records.SLUG}")).to_be_visible()
    expect(mute).to_have_count(0)


def test_an_agent_is_muted_on_its_page(served: Served, browsing: Browsing) -> None:
    """Also one without a persona; cards, the list and its page say so, and nothing scrolls sideways."""
    page = operator(browsing.page(served.origin), served.link)
    page.goto("/agents/2")
    page.locator("#now-2").get_by_role("link", name="Mute").click()
    page.get_by_role("button", name="Until it is unmuted").click()
    expect(page.locator("#now-2").get_by_role("link", name="Muted")).to_be_visible()
    page.goto("/?look=list")
    expect(page.locator("#agent-2 .is")).to_have_text(re.compile("muted"))
    mute_agent(served.fleet, 1, "tomorrow")
    for path in ("/", "/?look=list", "/agents/2", "/agents/2/mute", "/settings/browser"):
        page.goto(path)
        page.set_viewport_size({"width": 320, "height": 800})
        shot(page, f"mute-320{path.replace('/', '-').replace('?', '-')}")
        assert page.evaluate("document.documentElement.scrollWidth") == 320, path
        page.set_viewport_size({"width": 1440, "height": 900})
        shot(page, f"mute-1440{path.replace('/', '-').replace('?', '-')}")
