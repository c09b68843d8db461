"""Two hosts in a browser: what the dashboard of one shows of the other, does there, and moves there."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import Browsing, operator, shot, violations
from databases import Postgres
from fleets import World
from machines import Machines, clone, host_of, machines, make_origin, seen_by
from playwright.sync_api import Locator, Page, expect
from waiting import retry_until

NARROW, WIDE = 380, 1440
_TIDY = "for (const one of document.querySelectorAll('[style]')) one.removeAttribute('style')"
"""Takes away the empty styles that axe-core leaves, which htmx would carry over to new elements."""
SECRET = "ghp_" + "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC2dF4hJ6"


@pytest.fixture
def fleet(tmp_path: Path, postgres: Postgres) -> Iterator[Machines]:
    """The hosts of one fleet, none of them started yet."""
    with machines(tmp_path, postgres) as made:
        yield made


def pair(fleet: Machines, **settings: str) -> tuple[World, World]:
    """Two hosts that see each other, with names as people give them."""
    one, two = fleet.make("laptop"), fleet.make("build2.example.com")
    for world in (one, two):
        world.config(notify="", **settings)
        world.serve()
        world.install()
    seen_by(one, host_of(two))
    seen_by(two, host_of(one))
    return one, two


def open_page(browsing: Browsing, world: World, path: str = "/") -> Page:
    """A page of a host's dashboard, signed in."""
    page = operator(browsing.page(world.origin(), width=WIDE), world.link())
    if path != "/":
        page.goto(path)
    return page


def make_away(world: World, host: str, seconds: float) -> None:
    """As if a host had not been seen for some seconds."""
    world.sql(f"UPDATE hosts SET last_seen = last_seen - {seconds} WHERE id = '{host}'")


def portray(page: Page, name: str) -> list[str]:
    """Save a page at both widths and in both schemes; what axe-core finds, and where it is too wide."""
    found = []
    for scheme in ("light", "dark"):
        for width in (WIDE, NARROW):
            page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
            page.set_viewport_size({"width": width, "height": 900})
            shot(page, f"hosts-{name}-{scheme}-{width}")
            found += [f"{name} {scheme} {width}: {one}" for one in violations(page)]
            if page.evaluate("document.documentElement.scrollWidth") > width:
                found.append(f"{name} {scheme} {width}: the page scrolls sideways")
    page.evaluate(_TIDY)
    page.emulate_media(color_scheme="light", reduced_motion="no-preference")
    page.set_viewport_size({"width": WIDE, "height": 900})
    return found


def section(page: Page, world_id: str) -> Locator:
    """The section of a host on the fleet page."""
    return page.locator("section").filter(has=page.locator(f"#host-{world_id}"))


def test_the_other_host_is_shown_and_ordered(fleet: Machines, browsing: Browsing) -> None:
    """An agent is started there, appears in its host's section, is told something, shown, read and ended."""
    one, two = pair(fleet)
    there = host_of(two)
    two.script(token=[["say", f"The token is {SECRET}, and the answer 42"]])
    persona = one.persona()
    fleet_page = open_page(browsing, one)
    expect(section(fleet_page, there)).to_contain_text("Alive")
    fleet_page.evaluate("window.same = true")
    page = open_page(browsing, one, f"/agents/new?persona={persona}")
    page.get_by_label("Host").first.select_option(there)
    page.get_by_label("Folder on that host").fill(str(two.work))
    found = portray(page, "new")
    page.get_by_role("button", name="Start").click()
    page.wait_for_url("**/agents/1", timeout=60_000)
    one.idle(1)
    card = section(fleet_page, there).locator("#agent-1")
    expect(card).to_contain_text("developer-con-1", timeout=20_000)
    expect(section(fleet_page, there)).to_contain_text("1 agent")
    assert fleet_page.evaluate("window.same") is True
    found += portray(fleet_page, "fleet")

    page.reload()
    expect(page.locator("#terminal .xterm-rows")).to_be_visible()
    page.get_by_label("Sent once").fill("Tell me the token")
    page.get_by_role("button", name="Send").click()
    expect(page.get_by_text("Delivered: its turn began.", exact=True)).to_be_visible(timeout=30_000)
    one.idle(1)
    expect(page.locator("#terminal .xterm-rows")).to_contain_text("the answer 42", timeout=15_000)
    page.get_by_role("button", name="Escape").click()
    retry_until(lambda: "The key Escape was pressed" in str(one.log()))
    page.locator("#terminal .xterm-screen").click(position={"x": 40, "y": 20})
    page.keyboard.type("typed from afar")
    expect(page.locator("#terminal .xterm-rows")).to_contain_text("typed from afar", timeout=15_000)
    found += portray(page, "agent")
    page.goto("/agents/1/thread?entry=1#e1")
    expect(page.locator("#e1")).to_contain_text("Tell me the token")
    expect(page.locator("ol.thread")).to_contain_text("the answer 42")
    assert SECRET not in page.content()
    found += portray(page, "thread")
    page.goto("/agents/1/peek")
    expect(page.locator(".spoken")).to_contain_text("Tell me the token")
    expect(page.locator(".spoken")).to_contain_text("the answer 42")
    assert SECRET not in page.content()
    page.goto("/hosts")
    expect(page.locator("main")).to_contain_text("build2.example.com")
    found += portray(page, "page")
    page.goto("/agents/1/stop")
    page.get_by_role("button", name="Stop it").click()
    page.wait_for_url("**/agents/1", timeout=60_000)

    assert "ended" == two.agent(1)["state"]
    assert (1, []) == (len(two.prompts("Tell me the token")), one.seen("started"))
    assert [] == found


def test_a_move_shows_its_obstacles_and_then_goes_on(fleet: Machines, browsing: Browsing) -> None:
    """No checkout there: no button. With one: where it lands and what travels; then both hosts at work."""
    one, two = pair(fleet)
    origin = make_origin(fleet.folder)
    here, there = clone(origin, one.folder / "repo"), two.folder / "checkout"
    (here / "new.py").write_text("untracked\n")
    agent = one.worked(one.started(cwd=str(here)))
    page = open_page(browsing, two)
    page.locator(f"#agent-{agent}").get_by_role("link", name="Hand off").click()
    form = page.get_by_role("dialog")
    form.get_by_label("Reason").fill("More memory there")
    form.get_by_label("Host of the successor").select_option(host_of(two))
    expect(form.locator("#preview-title")).to_have_text("A move to build2.example.com")
    assert "More memory there" == form.get_by_label("Reason").input_value()
    form.get_by_text("Folders there").click()
    form.get_by_label("Checkout on build2.example.com").fill(str(there))
    form.get_by_role("button", name="Check again").click()
    expect(form.get_by_role("alert")).to_contain_text("It cannot begin.")
    expect(form.get_by_role("alert")).to_contain_text(str(there))
    expect(form.get_by_role("button", name="Move developer-con-1")).to_have_count(0)
    found = portray(page, "obstacles")
    clone(origin, there)
    form.get_by_role("button", name="Check again").click()
    expect(form).to_contain_text("Its work goes on in")
    expect(form).to_contain_text("Uncommitted work travels along")
    expect(form.get_by_role("alert")).to_have_count(0)
    found += portray(page, "preview")
    form.get_by_role("button", name="Move developer-con-1 to build2.example.com").click()
    page.wait_for_url("**/handoffs/*", timeout=60_000)
    expect(page.locator("header .st").first).to_contain_text("Confirmed", timeout=90_000)
    expect(page.locator(".leg")).to_have_text(
        ["laptop", "build2.example.com", "laptop", "build2.example.com"]
    )
    expect(page.locator("#document-title")).to_be_visible()
    found += portray(page, "move")
    (handoff,) = two.api("GET", "/api/handoffs")["handoffs"]
    successor = two.agent(handoff["successor_id"])

    assert host_of(two) == successor["host"]
    assert "untracked\n" == (Path(successor["cwd"]) / "new.py").read_text()
    assert [] == found


def test_without_a_script_the_preview_is_a_page(fleet: Machines, browsing: Browsing) -> None:
    """The choice is sent, the form comes back with what would happen, and begins nothing by itself."""
    one, two = pair(fleet)
    agent = one.worked(one.started())
    page = browsing.page(one.origin(), javascript=False)
    page.goto(one.link())
    page.goto(f"/agents/{agent}/handoff")
    page.get_by_label("Reason").fill("More memory there")
    page.get_by_label("Host of the successor").select_option(host_of(two))
    page.get_by_role("button", name="Hand off developer-con-1").click()
    expect(page.locator("#preview-title")).to_have_text("A move to build2.example.com")
    expect(page.get_by_text("Its work goes on in")).to_be_visible()
    assert [] == one.api("GET", "/api/handoffs")["handoffs"]
    page.get_by_role("button", name="Check again").click()
    expect(page).to_have_url(re.compile("host=h"))
    assert "More memory there" == page.get_by_label("Reason").input_value()
    page.get_by_role("button", name="Move developer-con-1 to build2.example.com").click()
    page.wait_for_url("**/handoffs/*")
    (handoff,) = one.api("GET", "/api/handoffs")["handoffs"]

    assert host_of(two) == one.agent(one.ends(handoff["id"], seconds=90)["successor_id"])["host"]


def test_a_host_that_is_killed_is_grey_and_not_lost(fleet: Machines, browsing: Browsing) -> None:
    """The open page says since when, changes back when it lives, and offers the copy of a thread meanwhile."""
    one, two = pair(fleet, keep_threads="all")
    gone = host_of(two)
    agent = two.worked(two.started())
    retry_until(lambda: one.sql("SELECT 1 FROM thread_copies"), 60)
    page = open_page(browsing, one)
    page.evaluate("window.same = true")
    card = page.locator(f"#agent-{agent}")
    expect(card).to_contain_text("Idle")
    two.kill()
    make_away(one, gone, 120)
    expect(card).to_contain_text("Host away", timeout=20_000)
    expect(section(page, gone)).to_contain_text("Away since")
    expect(card).to_have_class("card away")
    assert "lost" not in page.locator("main").inner_text().lower()
    assert page.evaluate("window.same") is True
    found = portray(page, "away")
    page.goto(f"/agents/{agent}")
    expect(page.locator("#screen")).to_contain_text("is away: it was last seen")
    found += portray(page, "away-agent")
    thread = Path(one.agent(agent)["thread"])
    thread.rename(f"{thread}.elsewhere")
    browsing.expect("status of 409")
    page.goto(f"/agents/{agent}/thread")
    expect(page.get_by_role("alert")).to_contain_text("is away")
    found += portray(page, "copy")
    page.get_by_role("button", name="Show the copy of").click()
    expect(page.locator("ol.thread")).to_contain_text("Fix the upload client")
    Path(f"{thread}.elsewhere").rename(thread)
    page.goto(f"/hosts/{gone}/give-up")
    expect(page.locator("form.pad")).to_contain_text("is in the database, so it can be handed off")
    found += portray(page, "give-up")
    page.goto("/")
    page.evaluate("window.same = true")
    two.serve()
    expect(card).to_contain_text("Idle", timeout=30_000)
    expect(section(page, gone)).to_contain_text("Alive")

    assert page.evaluate("window.same") is True
    assert "idle" == two.agent(agent)["state"]
    assert [] == found


def test_work_of_a_host_that_is_gone_goes_on_here(fleet: Machines, browsing: Browsing) -> None:
    """Given up on the page of hosts, its agent is handed off to this host from the copy of its thread."""
    one, two = pair(fleet, keep_threads="all")
    gone = host_of(two)
    agent = two.worked(two.started())
    retry_until(lambda: one.sql("SELECT 1 FROM thread_copies"), 60)
    two.kill()
    make_away(one, gone, 120)
    page = open_page(browsing, one, "/hosts")
    page.get_by_role("link", name="Give build2.example.com up").click()
    page.get_by_role("dialog").get_by_role("button", name="Give it up").click()
    page.wait_for_url("**/agents/recover")
    expect(page.locator("main")).to_contain_text("Of build2.example.com, which was given up")
    page.get_by_role("link", name="hand it off").click()
    expect(page.locator("#preview-title")).to_have_text("A move to laptop")
    found = portray(page, "rescue")
    page.get_by_role("button", name="Move developer-con-1 to laptop").click()
    page.wait_for_url("**/handoffs/*", timeout=60_000)
    expect(page.locator("header .st").first).to_contain_text("Confirmed", timeout=90_000)
    (handoff,) = one.api("GET", "/api/handoffs")["handoffs"]

    assert "lost" == one.agent(agent)["state"]
    assert host_of(one) == one.agent(handoff["successor_id"])["host"]
    assert [] == found
