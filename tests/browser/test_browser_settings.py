"""Settings in a browser: thresholds, automation, notifications, hooks; and leaving."""

import pytest
from browser import Browsing, operator, portraits
from fleets import World
from playwright.sync_api import Page, expect

SECTIONS = ("", "automation", "hooks", "notifications", "browsers", "server")
pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


@pytest.fixture
def seen(world: World, browsing: Browsing) -> Page:
    """A browser that is signed in and shows the settings."""
    page = operator(browsing.page(world.origin()), world.link())
    page.goto("/settings")
    return page


def test_the_threshold_holds_at_once(world: World, browsing: Browsing, seen: Page) -> None:
    """A threshold is saved into the user's file and holds; one that makes no sense is refused beside the form."""
    browsing.expect("status of 400")
    seen.get_by_label("Percent of the context").fill("61")
    seen.locator("#thresholds").get_by_role("button", name="Save").click()
    expect(seen.get_by_role("status").filter(has_text="Saved")).to_be_visible()
    seen.get_by_label("Percent of the context").fill("400")
    seen.locator("#thresholds").get_by_role("button", name="Save").click()
    expect(seen.locator("#thresholds").get_by_role("alert")).to_be_visible()

    assert seen.get_by_label("Percent of the context").input_value() == "400"
    assert world.api("GET", "/api/settings")["context_threshold"] == 61
    assert "context_threshold = 61" in (world.folder / "config.toml").read_text()


@pytest.mark.long
def test_notifications_are_set_and_tried(world: World, seen: Page) -> None:
    """Addresses and kinds are saved, an address is never shown again whole, and a test says what went wrong."""
    seen.get_by_role("navigation", name="Settings").get_by_role(
        "link", name="Notifications"
    ).click()
    place = seen.locator("#notifications")
    place.get_by_label("New addresses").fill("json://127.0.0.1:9/secret-path")
    place.get_by_label("Done").uncheck()
    place.get_by_role("button", name="Save").click()
    expect(place).to_contain_text("json://…")
    place.get_by_role("button", name="Send a test").click()
    expect(place.get_by_role("alert")).to_have_text("A notification could not be delivered.")
    about = world.api("GET", "/api/settings")["notify_about"]
    place.get_by_label("Forget the addresses").check()
    place.get_by_role("button", name="Save").click()
    expect(place).not_to_contain_text("json://…")

    assert about == ["failed", "limited", "needs_you", "stuck", "threshold", "unacknowledged"]
    assert "secret-path" not in seen.content()


def test_automation_is_switched(world: World, seen: Page) -> None:
    """Automatic handoffs of a persona are switched on and off."""
    slug = world.persona()
    seen.goto("/settings/automation")
    seen.get_by_role("button", name=f"Switch on for {slug}").click()
    expect(seen.locator("#automation")).to_contain_text("are on")

    assert world.api("GET", f"/api/personas/{slug}")["automatic"] is True


def test_hooks_are_shown_before_they_are_added(world: World, seen: Page) -> None:
    """What would be added to a harness is shown file by file; then it is there."""
    seen.goto("/settings/hooks")
    seen.get_by_role("link", name="Add to Codex").click()
    form = seen.get_by_role("dialog")
    expect(form).to_contain_text("hooks")
    assert [] == portraits(seen, "hooks-form")
    form.get_by_role("button", name="Add them").click()
    expect(seen.locator("#hooks li", has_text="Codex")).to_contain_text("In place")

    added = [path.read_text() for path in (world.home / ".codex").rglob("*") if path.is_file()]
    assert any("hook.sh" in text for text in added)


@pytest.mark.long
def test_signing_out(browsing: Browsing, seen: Page) -> None:
    """Behind Sign out no page opens, until another link is used."""
    browsing.expect("status of 401")
    seen.goto("/settings/server")
    seen.get_by_role("button", name="Sign out").click()
    expect(seen.get_by_text("You are signed out.")).to_be_visible()
    seen.goto("/")
    expect(seen.get_by_role("heading", name="Sign in")).to_be_visible()

    assert [] == portraits(seen, "sign-in")


def test_the_link_is_told_again(world: World, browsing: Browsing) -> None:
    """`tasuki dashboard` prints a link to the server that runs, another one each time."""
    link = world.tasuki("dashboard").strip()
    page = operator(browsing.page(world.origin()), link)
    expect(page.get_by_role("heading", name="Fleet")).to_be_visible()

    assert link != world.link()


@pytest.mark.parametrize("name", SECTIONS)
def test_its_pages_are_accessible(seen: Page, name: str) -> None:
    """axe-core finds nothing in a section of the settings."""
    seen.goto(f"/settings/{name}".rstrip("/"))

    assert [] == portraits(seen, f"settings-{name or 'general'}")


@pytest.mark.parametrize(("anchor", "path"), [
    ("hooks", "/settings/hooks"), ("sessions", "/settings/browsers"), ("thresholds", "/settings"),
    ("notifications", "/settings/notifications"), ("nobody", "/settings"),
])  # fmt: skip
def test_an_old_address_of_a_part_leads_to_it(seen: Page, anchor: str, path: str) -> None:
    """The settings were one page once; a bookmark of a part of it shows the section that has it."""
    seen.goto("/")
    seen.goto(f"/settings#{anchor}")

    expect(seen.locator("#sections a[aria-current]")).to_have_attribute("href", path)


def test_every_section_is_one_screen_high(world: World, seen: Page) -> None:
    """With thirty personas, too: at a desk no section has to be scrolled."""
    for number in range(30):
        world.api("POST", "/api/personas", {"role": "developer", "name": f"n{number}", "skill": "x"})  # fmt: skip
    seen.set_viewport_size({"width": 1440, "height": 900})
    heights = {}
    for name in SECTIONS:
        seen.goto(f"/settings/{name}".rstrip("/"))
        heights[name] = seen.evaluate("document.documentElement.scrollHeight")

    assert {} == {name: height for name, height in heights.items() if height > 900}


def test_the_doctor_is_a_page(world: World, seen: Page) -> None:
    """What it finds about each program, with the line that mends it; hooks can be added there."""
    world.tasuki("uninstall", "claude", "--fleet", "--yes")
    seen.goto("/settings")
    seen.get_by_role("navigation", name="Settings").get_by_role("link", name="Doctor").click()
    host = seen.get_by_role("region", name="This host", exact=True)
    claude = seen.get_by_role("region", name="Claude Code")
    expect(host).to_contain_text("tmux")
    expect(claude).to_contain_text("tasuki install claude --fleet")
    assert [] == portraits(seen, "doctor")
    claude.get_by_role("link", name="Add …").click()
    seen.get_by_role("dialog").get_by_role("button", name="Add them").click()
    seen.wait_for_url("**/settings/hooks*")
    seen.goto("/doctor")

    expect(claude).to_contain_text("in place")
