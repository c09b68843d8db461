"""The dashboard in a browser: agents in tmux seen, handed off by a click, followed, and mended."""

import pytest
from browser import Browsing, operator, portraits
from fleets import World
from playwright.sync_api import Locator, Page, expect
from waiting import retry_until

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


@pytest.fixture
def seen(world: World, browsing: Browsing) -> Page:
    """A browser that is signed in and shows the fleet."""
    page = browsing.page(world.origin())
    return operator(page, world.link())


def card(page: Page, id: int) -> Locator:
    """The card of an agent."""
    return page.locator(f"#agent-{id}")


def hand_off(page: Page, id: int, reason: str = "The context is full") -> None:
    """Press the button of a card and fill its form in; the page shows the handoff then."""
    card(page, id).get_by_role("link", name="Hand off").click()
    form = page.get_by_role("dialog")
    form.get_by_label("Reason").fill(reason)
    form.get_by_role("button", name="Hand off developer-con-1").click()
    page.wait_for_url("**/handoffs/*")


def test_a_handoff_from_the_click_to_the_acknowledgement(world: World, seen: Page) -> None:
    """A click hands an agent off; the page shows each step as it happens, without being loaded again."""
    hold = world.folder / "go"
    world.script(document=[["wait_for", str(hold)], ["document", "{path}"], ["say", "written"]])
    agent = world.worked(world.started())
    expect(card(seen, agent)).to_contain_text("developer-con-1")
    hand_off(seen, agent)
    seen.evaluate("window.same = true")
    expect(seen.locator("li.now")).to_contain_text("Waiting for the end of its turn")
    hold.touch()
    expect(seen.locator("header .st").first).to_contain_text("Confirmed", timeout=40_000)
    steps = seen.locator("ol.steps > li.ok")
    expect(steps).to_have_count(12)
    expect(seen.locator(".brief")).to_be_attached()

    assert seen.evaluate("window.same") is True
    assert world.api("GET", "/api/handoffs")["handoffs"][0]["reason"] == "The context is full"


@pytest.mark.long
def test_the_document_is_there_once_it_is_written(world: World, seen: Page) -> None:
    """The page of a handoff that is done shows its document, raw and as a file."""
    id = world.hand_off(world.worked(world.started()))
    world.ends(id)
    seen.goto(f"/handoffs/{id}")
    expect(seen.locator(".brief h2, .brief h3").first).to_be_visible()
    with seen.expect_download() as taken:
        seen.get_by_role("link", name="Download").click()

    assert taken.value.suggested_filename == f"handoff-{id[:8]}.md"


def test_what_is_refused_says_why_beside_the_form(
    world: World, browsing: Browsing, seen: Page
) -> None:
    """A handoff that the API refuses is refused with the same sentence, and what was typed stays."""
    browsing.expect("status of 409")
    hold = world.folder / "go"
    world.script(document=[["wait_for", str(hold)], ["say", "no"]])
    agent = world.worked(world.started())
    expect(card(seen, agent)).to_contain_text("Idle")
    card(seen, agent).get_by_role("link", name="Hand off").click()
    form = seen.get_by_role("dialog")
    form.get_by_label("Reason").fill("mine")
    world.hand_off(agent)
    form.get_by_role("button", name="Hand off developer-con-1").click()
    expect(form.get_by_role("alert")).to_have_text("Handoff already in progress")

    assert form.get_by_label("Reason").input_value() == "mine"
    hold.touch()


@pytest.mark.long
def test_a_failure_is_shown_and_retried(world: World, seen: Page) -> None:
    """A failed step shows sentence, what is safe and what can be done; retry carries it on."""
    world.script(document=[["say", "no"]])
    agent = world.worked(world.started())
    expect(card(seen, agent)).to_contain_text("developer-con-1")
    hand_off(seen, agent)
    alert = seen.locator("main").get_by_role("alert")
    expect(alert).to_contain_text("document_missing", timeout=30_000)
    expect(seen.locator("li.bad")).to_contain_text("Checking the document")
    expect(seen.get_by_text(f"Agent {agent} is alive and usable")).to_be_visible()
    expect(seen.get_by_role("button", name="Finish by hand")).to_be_disabled()
    world.script()
    seen.get_by_role("button", name="Retry").click()
    expect(seen.locator("header .st").first).to_contain_text("Confirmed", timeout=40_000)


def test_a_server_that_is_killed_under_the_open_page(
    world: World, browsing: Browsing, seen: Page
) -> None:
    """The page of a handoff says that the server is away, and goes on with the next server by itself."""
    browsing.expect("ERR_CONNECTION_REFUSED|ERR_INCOMPLETE|ERR_CONNECTION_RESET|ERR_EMPTY")
    browsing.expect(r"\[object Event\]|failed: GET")
    hold = world.folder / "go"
    world.script(document=[["wait_for", str(hold)], ["document", "{path}"], ["say", "written"]])
    agent = world.worked(world.started())
    expect(card(seen, agent)).to_contain_text("developer-con-1")
    hand_off(seen, agent)
    seen.evaluate("window.same = true")
    expect(seen.locator("li.now")).to_contain_text("Waiting for the end of its turn")
    port = world.port
    world.kill()
    expect(seen.locator("#live-word")).to_have_text("Reconnecting")
    assert seen.evaluate("document.body.dataset.away") == ""  # forms are not sent
    hold.touch()
    world.serve(port=port)
    expect(seen.locator("#live-word")).to_have_text("Live", timeout=30_000)
    expect(seen.locator("header .st").first).to_contain_text("Confirmed", timeout=40_000)

    assert seen.evaluate("window.same") is True


@pytest.mark.long
def test_two_browsers_see_the_same(world: World, browsing: Browsing, seen: Page) -> None:
    """What one operator does is seen by the other at once, in its place."""
    other = operator(browsing.page(world.origin()), world.link())
    hold = world.folder / "go"
    world.script(document=[["wait_for", str(hold)], ["document", "{path}"], ["say", "written"]])
    agent = world.worked(world.started())
    for page in (seen, other):
        expect(card(page, agent)).to_contain_text("Idle")
    hand_off(seen, agent)
    expect(card(other, agent)).to_contain_text("Handing off")
    expect(card(other, agent).get_by_role("link", name="Follow")).to_be_visible()
    card(other, agent).get_by_role("link", name="Follow").click()
    other.get_by_role("button", name="Cancel").click()
    expect(seen.locator("main").get_by_text("Cancelled", exact=True).first).to_be_visible()
    hold.touch()


def test_with_the_keyboard_alone(world: World, seen: Page) -> None:
    """An agent is handed off without a mouse; Escape closes the form and gives the focus back."""
    hold = world.folder / "go"
    world.script(document=[["wait_for", str(hold)], ["say", "no"]])
    agent = world.worked(world.started())
    expect(card(seen, agent)).to_contain_text("Idle")
    for _ in range(40):
        seen.keyboard.press("Tab")
        if seen.evaluate("document.activeElement.id") == f"a{agent}-do":
            break
    seen.keyboard.press("Enter")
    expect(seen.get_by_role("dialog")).to_be_visible()
    assert seen.evaluate("document.activeElement.id") == "reason"
    seen.keyboard.press("Escape")
    expect(seen.get_by_role("dialog")).to_be_hidden()
    expect(seen.locator(f"#a{agent}-do")).to_be_focused()
    seen.keyboard.press("Enter")
    expect(seen.get_by_label("Reason")).to_be_focused()
    seen.keyboard.type("By hand")
    seen.keyboard.press("Enter")
    seen.wait_for_url("**/handoffs/*")
    hold.touch()


def test_without_javascript(world: World, browsing: Browsing) -> None:
    """The fleet is read, an agent is handed off and its handoff is followed without any script."""
    agent = world.worked(world.started())
    page = operator(browsing.page(world.origin(), javascript=False), world.link())
    expect(card(page, agent)).to_contain_text("Idle")
    card(page, agent).get_by_role("link", name="Hand off").click()
    page.get_by_label("Reason").fill("Without a script")
    page.get_by_role("button", name="Hand off developer-con-1").click()
    page.wait_for_url("**/handoffs/*")
    world.ends(page.url.rpartition("/")[2])
    page.reload()
    expect(page.get_by_text("Confirmed", exact=True).first).to_be_visible()


def test_the_screen_of_an_agent_is_seen_and_typed_to(world: World, seen: Page) -> None:
    """What its remedy asks for is done without a terminal: its pane is seen, a key and a text are typed."""
    agent = world.worked(world.started())
    seen.goto(f"/agents/{agent}")
    expect(seen.locator("#terminal")).to_contain_text("Fix the upload client")
    seen.get_by_label("Sent once").fill("And now the tests")
    seen.get_by_role("button", name="Send").click()
    expect(seen.get_by_role("status").filter(has_text="Delivered")).to_be_visible()
    expect(seen.locator("#terminal")).to_contain_text("And now the tests")
    seen.get_by_role("button", name="Escape").click()
    retry_until(lambda: "The key Escape was pressed" in str(world.log()))

    assert [x["text"] for x in world.prompts("And now the tests")] == ["And now the tests"]


def test_its_pages_are_accessible(world: World, seen: Page) -> None:
    """axe-core finds nothing on the pages of a fleet at work, in light and dark, at every width."""
    world.script(document=[["say", "no"]])
    agent = world.worked(world.started())
    expect(card(seen, agent)).to_contain_text("Idle")
    card(seen, agent).get_by_role("link", name="Hand off").click()
    expect(seen.get_by_role("dialog")).to_be_visible()
    assert portraits(seen, "handoff-form") == []
    id = world.hand_off(agent)
    world.failed(id)
    for name, where in {
        "fleet": "/",
        "handoffs": "/handoffs",
        "handoff": f"/handoffs/{id}",
        "agent": f"/agents/{agent}",
        "new-agent": "/agents/new",
        "stop": f"/agents/{agent}/stop",
    }.items():
        seen.goto(where)

        assert (name, portraits(seen, name)) == (name, [])


@pytest.mark.long
def test_a_dead_agent_is_handed_off_from_its_thread(world: World, seen: Page) -> None:
    """An agent whose pane was closed is handed off from its thread, by the button of its card."""
    agent = world.worked(world.started())
    expect(card(seen, agent)).to_contain_text("Idle")
    world.tmux("kill-pane", "-t", world.agent(agent)["pane"])
    expect(card(seen, agent)).to_contain_text("Ended", timeout=30_000)
    card(seen, agent).get_by_role("link", name="Hand off").click()
    form = seen.get_by_role("dialog")
    expect(form.get_by_label("By the agent")).to_be_disabled()
    form.get_by_role("button", name="Hand off developer-con-1").click()
    seen.wait_for_url("**/handoffs/*")
    expect(seen.locator("article header .st")).to_contain_text("Confirmed", timeout=40_000)
    expect(seen.locator("ol.steps > li").first).to_contain_text("Writing the document")


def test_an_agent_is_started_and_stopped(world: World, seen: Page) -> None:
    """A persona is made, an agent is started as it and stopped again, all of it in the browser."""
    seen.goto("/personas")
    seen.get_by_label("Role").fill("developer")
    seen.get_by_label("Name", exact=True).fill("con")
    seen.get_by_label("Skill").fill("You are Con.")
    seen.get_by_role("button", name="Create it").click()
    expect(seen.get_by_role("heading", name="developer-con-1")).to_be_visible()
    seen.goto("/agents/new?persona=developer-con-1")
    seen.get_by_label("Folder").fill(str(world.work))
    seen.get_by_label("Goal").fill("Say hello")
    seen.get_by_role("button", name="Start", exact=True).click()
    seen.wait_for_url("**/agents/1")
    expect(seen.locator("#now-1")).to_contain_text("Idle", timeout=30_000)
    seen.locator("#now-stop").click()
    seen.get_by_role("dialog").get_by_role("button", name="Stop it").click()
    expect(seen.locator("#now-1")).to_contain_text("Ended", timeout=30_000)

    assert [x["text"] for x in world.prompts("Say hello")] != []
