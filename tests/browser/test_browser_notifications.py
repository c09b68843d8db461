"""Notifications of a browser: asked for by a press, shown once for all tabs, and what a link in one opens."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import fleet_records as records
import pytest
from browser import WHOLE, Browsing, missing, operator, portraits
from browser import chromium as open_chromium
from inboxes import Inbox
from playwright.sync_api import Browser as Chromium
from playwright.sync_api import Page, expect
from waiting import retry_until
from web_servers import Served, serving

from tasuki.fleet import alerts
from tasuki.fleet.alerts import AlertNotifier
from tasuki.fleet.orders.agents import mute_agent

pytestmark = pytest.mark.filterwarnings("ignore:'imghdr':DeprecationWarning")  # apprise imports it
RECORD = """() => { const Shown = window.Notification;
  window.clicks = [];
  window.Notification = class extends Shown {
    constructor(title, options) { super(title, options);
      if (options) localStorage.setItem("shown", JSON.stringify([...JSON.parse(localStorage.getItem("shown") || "[]"), [options.tag, title, options.body, options.data.path]]));
      window.newest = this; }
  };
  window.opened = []; window.open = (url) => { window.opened.push(url); }; window.focus = () => { window.opened.push("focus"); }; }"""
DEALT_WITH = "async () => (localStorage.getItem('tasuki-notified') || '').includes('@') && (await navigator.locks.query()).held.every((one) => one.name !== 'tasuki-telling')"
HOLDERS = "() => navigator.locks.query().then(({held}) => held.filter((one) => one.name === 'tasuki-looked-at').length)"


@pytest.fixture(scope="module")
def chromium() -> Iterator[Chromium]:
    """Chromium with all that surrounds a page: the plain one shows no notifications."""
    if reason := missing(WHOLE):
        pytest.skip(reason)
    with open_chromium(WHOLE) as made:
        yield made


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    """A server with two agents."""
    with serving(tmp_path) as made:
        records.persona(made.fleet.database)
        for state in ("waiting", "idle"):
            records.agent(
                made.fleet.database, persona=records.SLUG, host=made.fleet.host, state=state
            )
        yield made


@pytest.fixture
def page(served: Served, browsing: Browsing) -> Page:
    """A browser that is signed in; it writes down what notifications it shows."""
    made = browsing.page(served.origin)
    made.context.add_init_script(f"({RECORD})()")
    return operator(made, served.link)


def raised(served: Served, key: str, kind: str = "needs_you", agent_id: int = 1) -> None:
    """An alert, of which open pages are told."""
    with served.fleet.database.write() as connection:
        alerts.raise_alert(
            connection, kind, key, f"{records.SLUG} {key}", "Which <b>one</b>?", host="elsewhere", agent_id=agent_id
        )  # fmt: skip
    served.fleet.changes.notify([agent_id])


def switch_on(page: Page) -> None:
    """Allow notifications by the button in the settings."""
    page.context.grant_permissions(["notifications"])
    page.goto("/settings/browser")
    page.locator("#browser").get_by_role("button", name="Turn on").click()
    expect(page.locator("#browser [data-state]")).to_contain_text("They are on")


def look_away(*pages: Page) -> None:
    """Nobody looks at these pages any more: another one is in front."""
    for one in pages:
        one.context.new_cdp_session(one).send(
            "Emulation.setFocusEmulationEnabled", {"enabled": False}
        )
    front = pages[0].context.new_page()
    front.bring_to_front()
    retry_until(lambda: pages[0].evaluate(HOLDERS) == 0)


def shown(page: Page) -> list[Any]:
    """The notifications that the tabs of the browser have shown."""
    found: list[Any] = page.evaluate("JSON.parse(localStorage.getItem('shown') || '[]')")
    return found


def test_nobody_is_asked_on_loading(page: Page) -> None:
    """The fleet's page offers it in a line that is gone for good once it was dismissed; no page asks by itself."""
    asked = "() => { window.asked = 0; Notification.requestPermission = async () => { window.asked += 1; return 'default'; }; }"
    page.evaluate(asked)
    offer = page.locator("#offer")
    expect(offer).to_be_visible()
    assert page.evaluate("Notification.permission") == "default"
    offer.get_by_role("button", name="Notify me").click()
    retry_until(lambda: page.evaluate("window.asked") == 1)
    offer.get_by_role("button", name="Not now").click()
    expect(offer).to_be_hidden()
    page.reload()
    expect(page.locator("#live-word")).to_have_text("Live")
    expect(offer).to_be_hidden()


def test_once_for_all_tabs_while_nobody_looks(served: Served, page: Page) -> None:
    """Three tabs show one notification; none while somebody looks at one of them."""
    switch_on(page)
    others = [page.context.new_page() for _ in range(2)]
    for one in others:
        one.goto("/")
        expect(one.locator("#live-word")).to_have_text("Live")
    raised(served, "seen")
    expect(others[1].get_by_role("link", name="1 new alert")).to_be_visible()
    retry_until(lambda: page.evaluate(DEALT_WITH))  # the number may come before what it counts
    look_away(page, *others)
    raised(served, "unseen")
    retry_until(lambda: len(shown(page)) == 1)
    raised(served, "later", "failed", 2)
    retry_until(lambda: len(shown(page)) == 2)

    assert sorted(shown(page)) == [
        ["alert-2", f"{records.SLUG} unseen", "Which <b>one</b>?", "/agents/1"],
        ["alert-3", f"{records.SLUG} later", "Which <b>one</b>?", "/agents/2"],
    ]


def test_only_what_was_chosen(served: Served, page: Page) -> None:
    """Kinds that the settings leave out, and muted agents, show none; switched off nothing does."""
    switch_on(page)
    look_away(page)
    served.fleet.notifier.configure("", "failed")
    mute_agent(served.fleet, 2, "1h")
    raised(served, "left out", "needs_you")
    raised(served, "muted", "failed", 2)
    raised(served, "told", "failed")
    retry_until(lambda: len(shown(page)) == 1)
    assert shown(page)[0][1] == f"{records.SLUG} told"
    page.locator("#browser").get_by_role("button", name="Turn off").click()
    expect(page.locator("#browser [data-state]")).to_have_text("They are off.")
    raised(served, "off", "failed")
    expect(page.get_by_role("link", name="4 new alerts")).to_be_visible()

    assert [one[0] for one in shown(page)] == ["alert-3"]


def test_what_happened_while_the_server_was_away(served: Served, page: Page) -> None:
    """An alert that came while the stream was cut off is shown once it is back; one that is older is not."""
    switch_on(page)
    look_away(page)
    raised(served, "before")
    retry_until(lambda: len(shown(page)) == 1)
    served.pages.close_streams()
    raised(served, "meanwhile")
    retry_until(lambda: len(shown(page)) == 2)
    second = page.context.new_page()
    second.goto("/")
    expect(second.locator("#live-word")).to_have_text("Live")

    assert sorted(one[1] for one in shown(page)) == [
        f"{records.SLUG} before", f"{records.SLUG} meanwhile",
    ]  # fmt: skip


def test_a_press_opens_the_page_of_the_agent(served: Served, page: Page) -> None:
    """A notification opens the page that it is about, or shows the tab that has it already."""
    switch_on(page)
    look_away(page)
    raised(served, "first")
    retry_until(lambda: len(shown(page)) == 1)
    page.evaluate("window.newest.onclick()")
    assert page.evaluate("window.opened") == ["focus", "/agents/1"]
    page.goto("/agents/2")
    expect(page.locator("#live-word")).to_have_text("Live")
    look_away(page)
    raised(served, "second", agent_id=2)
    retry_until(lambda: len(shown(page)) == 2)
    page.evaluate("window.newest.onclick()")

    assert page.evaluate("window.opened") == ["focus"]


def test_a_browser_that_shows_none_says_so(page: Page) -> None:
    """That of a phone refuses to make one: the settings say that, and do not say that they are on."""
    page.add_init_script("window.Notification = class { static permission = 'default';"
        " static requestPermission = async () => 'granted'; constructor() { throw new TypeError('Illegal constructor'); } }")  # fmt: skip
    page.goto("/settings/browser")
    page.locator("#browser").get_by_role("button", name="Turn on").click()

    expect(page.locator("#browser [data-state]")).to_contain_text("cannot show notifications")
    assert page.evaluate("localStorage.getItem('tasuki-notify')") is None


def test_it_can_be_installed(page: Page) -> None:
    """Chromium finds a manifest without faults, whose icons are pictures of the sizes that it names."""
    session = page.context.new_cdp_session(page)
    found = session.send("Page.getAppManifest")
    manifest = json.loads(found["data"])
    sizes = page.evaluate("""(icons) => Promise.all(icons.map(async ({src}) => {
        const image = new Image(); image.src = src; await image.decode(); return `${image.naturalWidth}x${image.naturalHeight}`; }))""",
        manifest["icons"])  # fmt: skip

    assert found["errors"] == []
    assert (manifest["name"], manifest["start_url"], manifest["display"]) == (
        "tasuki",
        "/",
        "standalone",
    )
    assert sizes == [one["sizes"] for one in manifest["icons"]] == ["192x192", "512x512", "512x512"]
    assert {one["purpose"] for one in manifest["icons"]} == {"any", "maskable"}
    errors = session.send("Page.getInstallabilityErrors")["installabilityErrors"]
    assert [one["errorId"] for one in errors] == ["in-incognito"]  # as every test's browser is


def test_a_link_in_a_notification_opens_the_agent(
    served: Served, browsing: Browsing, page: Page, inbox: Inbox
) -> None:
    """One press leads to the page of the agent: in a browser that is signed in at once, in another after it signed in; also from a page of another site."""
    browsing.expect("status of 401")
    browsing.expect("another origin")
    raised(served, "waits")
    notifier = AlertNotifier(served.fleet.database, "elsewhere", inbox.where, "needs_you")
    notifier.origin = served.origin
    notifier.start()
    retry_until(lambda: bool(inbox.got))
    notifier.close(5)
    link = inbox.got[0]["message"].split("\n")[-1]
    mail = page.context.new_page()
    mail.route(
        "http://mail.example/",
        lambda route: route.fulfill(body=f'<a href="{link}">{link}</a>', content_type="text/html"),
    )
    mail.goto("http://mail.example/")
    mail.get_by_role("link").click()
    expect(mail.get_by_role("heading", level=1)).to_have_text(records.SLUG)
    assert mail.url == link == f"{served.origin}/agents/1"
    stranger = browsing.page(served.origin)
    stranger.goto(link)
    expect(stranger.get_by_text("the page that you wanted")).to_contain_text("/agents/1")
    stranger.goto(served.link)
    expect(stranger.get_by_role("heading", level=1)).to_have_text(records.SLUG)
    assert stranger.url == link
    stranger.goto("/logout")
    operator(stranger, served.link)  # it is forgotten by then: the fleet is shown


def test_the_settings_of_a_browser(page: Page) -> None:
    """The section is right at each width, light and dark, and without faults of access."""
    page.goto("/settings/browser")
    expect(page.locator("#browser [data-state]")).to_have_text("They are off.")

    assert [] == portraits(page, "settings-browser")


def test_what_happens_while_a_page_opens(
    served: Served, page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An alert that comes after a page was made, and before its stream has begun, is shown, too."""
    switch_on(page)
    may_begin = threading.Event()
    stream = served.pages.stream_pieces

    async def begin_late(*arguments: Any) -> AsyncIterator[bytes]:
        await asyncio.to_thread(may_begin.wait, 30)
        async for piece in stream(*arguments):
            yield piece

    page.goto("about:blank")
    retry_until(lambda: not served.pages.streams)
    monkeypatch.setattr(served.pages, "stream_pieces", begin_late)
    page.goto("/settings/browser")
    look_away(page)
    raised(served, "early")
    retry_until(lambda: served.pages.newest > 0)
    may_begin.set()
    retry_until(lambda: len(shown(page)) == 1)
    assert shown(page)[0][1] == f"{records.SLUG} early"
