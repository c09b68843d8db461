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
from cryptography.hazmat.primitives.asymmetric import ec
from inboxes import Inbox
from playwright.sync_api import Browser as Chromium
from playwright.sync_api import Page, Route, expect
from waiting import retry_until
from web_servers import Served, serving

from tasuki.fleet import alerts
from tasuki.fleet.alerts import AlertNotifier
from tasuki.fleet.push.encryption import CURVE, encode_point, encode_text
from tasuki.fleet.push.identity import ServerIdentity
from tasuki.fleet.push.subscriptions import list_subscriptions

pytestmark = pytest.mark.filterwarnings("ignore:'imghdr':DeprecationWarning")  # apprise imports it
SHOWN = """() => navigator.serviceWorker.getRegistration()
  .then((one) => one ? one.getNotifications() : [])
  .then((list) => list.map((one) => [one.tag, one.title, one.body, one.data.path]))"""
HOLDERS = "() => navigator.locks.query().then(({held}) => held.filter((one) => one.name === 'tasuki-looked-at').length)"
OPENED = """() => { self.opened = []; self.clients.openWindow = (url) => { self.opened.push(url); return Promise.resolve(null); };
  WindowClient.prototype.focus = function () { self.opened.push(`focus ${this.url}`); return Promise.resolve(this); }; }"""
CLICK = """async () => { const [one] = await self.registration.getNotifications();
  self.dispatchEvent(new NotificationEvent("notificationclick", {notification: one})); }"""

PUSH_SERVICE = """(() => {
  const make = (options) => ({ endpoint: "https://push.example/1", options,
    toJSON: () => ({ endpoint: "https://push.example/1", keys: { p256dh: "BROWSER", auth: "AAAAAAAAAAAAAAAAAAAAAA" } }),
    unsubscribe: async () => { localStorage.removeItem("subscribed"); return true; } });
  const read = () => { const kept = localStorage.getItem("subscribed");
    return kept ? make({ applicationServerKey: Uint8Array.from(JSON.parse(kept)).buffer }) : null; };
  PushManager.prototype.getSubscription = async () => read();
  PushManager.prototype.subscribe = async ({ applicationServerKey }) => {
    localStorage.setItem("subscribed", JSON.stringify([...applicationServerKey])); return read(); };
})();"""


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
    """A browser that is signed in."""
    return operator(browsing.page(served.origin), served.link)


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
    """The notifications that the browser shows."""
    found: list[Any] = page.evaluate(SHOWN)
    return found


def test_nobody_is_asked_on_loading(page: Page) -> None:
    """The fleet's page offers it in a line that is gone for good once it was dismissed; no page asks by itself."""
    asked = "() => { window.asked = 0; Notification.requestPermission = async () => { window.asked += 1; return 'default'; }; }"
    page.evaluate(asked)
    offer = page.locator("#offer")
    expect(offer).to_be_visible()
    assert page.evaluate("Notification.permission") == "default"
    assert (
        page.evaluate("navigator.serviceWorker.getRegistrations().then((all) => all.length)") == 0
    )
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
    served.fleet.mute_agent(2, "1h")
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
    """A notification opens the page that it is about, or goes to the tab that shows it already."""
    switch_on(page)
    look_away(page)
    raised(served, "first")
    retry_until(lambda: len(shown(page)) == 1)
    (worker,) = page.context.service_workers
    worker.evaluate(OPENED)
    worker.evaluate(CLICK)
    retry_until(lambda: worker.evaluate("self.opened.length") == 1)
    page.goto("/agents/2")
    expect(page.locator("#live-word")).to_have_text("Live")
    look_away(page)
    raised(served, "second", agent_id=2)
    retry_until(lambda: len(shown(page)) == 1)
    worker.evaluate(CLICK)
    retry_until(lambda: worker.evaluate("self.opened.length") == 2 and not shown(page))

    assert worker.evaluate("self.opened") == [
        f"{served.origin}/agents/1",
        f"focus {served.origin}/agents/2",
    ]
    assert shown(page) == []


def test_what_is_pushed_is_shown(served: Served, page: Page) -> None:
    """The service worker shows a message of the push service; one that cannot be read is told, too."""
    switch_on(page)
    look_away(page)
    retry_until(lambda: len(page.context.service_workers) == 1)
    (worker,) = page.context.service_workers
    alert = {"id": 7, "title": "developer-con-1 waits for you", "text": "", "path": "/agents/1"}

    def push() -> bool:
        """Push both; the worker shows none as long as it takes the page for looked at."""
        for data in (json.dumps(alert), "{"):
            worker.evaluate(
                "(data) => { self.dispatchEvent(new PushEvent('push', {data})); }", data
            )
        return len(shown(page)) == 2

    retry_until(push)

    assert sorted(shown(page)) == [
        ["alert-7", "developer-con-1 waits for you", "", "/agents/1"],
        ["alert-undefined", "tasuki", "There is a new alert.", "/alerts"],
    ]


def test_a_browser_subscribes_and_ends_that(served: Served, browsing: Browsing, page: Page) -> None:
    """With HTTPS switching on subscribes the browser, once; another session tells the server again; switching off ends it.

    The push service of Chromium is on the network: what stands for it here answers as that does.
    """
    key = ServerIdentity(served.fleet.data / "key").public_key
    browser = encode_text(encode_point(ec.generate_private_key(CURVE).public_key()))
    page.context.add_init_script(PUSH_SERVICE.replace("BROWSER", browser))
    sent: list[str] = []
    mark = ["1"]

    def answer(route: Route) -> None:
        if route.request.method == "GET":
            route.fulfill(json={"key": key, "mark": mark[0]})
        else:
            sent.append(route.request.url.removeprefix(served.origin))
            route.continue_()

    page.context.route("**/settings/push*", answer)
    page.context.route("**/settings/push/end", answer)
    switch_on(page)
    expect(page.locator("#browser [data-state]")).to_have_text(
        "They are on, also while no page is open."
    )
    database, host = served.fleet.database, served.fleet.host
    (known,) = list_subscriptions(database, host, [])
    page.goto("/")
    expect(page.locator("#live-word")).to_have_text("Live")
    mark[0] = "2"
    page.goto("/settings/browser")
    expect(page.locator("#browser [data-state]")).to_have_text(
        "They are on, also while no page is open."
    )
    retry_until(lambda: sent == ["/settings/push", "/settings/push"])
    page.locator("#browser").get_by_role("button", name="Turn off").click()
    expect(page.locator("#browser [data-state]")).to_have_text("They are off.")

    assert (known.endpoint, known.public_key) == ("https://push.example/1", browser)
    assert known.session_id == served.sessions.list_sessions()[0].id
    assert sent[2:] == ["/settings/push/end"]
    assert list_subscriptions(database, host, []) == []


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
