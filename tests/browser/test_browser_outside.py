"""The dashboard in a browser behind a real Caddy, under its public name."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import Browsing, operator
from caddy import Caddy, behind_caddy, get_account, make_folder, missing
from playwright.sync_api import expect
from web_servers import Served

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing() or "caddy is there")


@pytest.fixture
def proxied() -> Iterator[tuple[Served, Caddy]]:
    """A server, and Caddy in front of it."""
    with make_folder() as folder, behind_caddy(folder) as made:
        yield made


def test_the_dashboard_works_under_the_public_name(
    proxied: tuple[Served, Caddy],
    browsing: Browsing,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The link signs in, the page is live, a form is taken, signing out ends it and its cookie."""
    monkeypatch.setenv("TASUKI_CONFIG", str(tmp_path / "config.toml"))
    served, proxy = proxied
    link = served.ask("POST", "/api/login").json["link"]
    page = operator(browsing.page(proxy.origin, own_authority=True), link)
    expect(page.locator("#live-word")).to_have_text("Live")
    (cookie,) = page.context.cookies()
    page.goto("/settings")
    page.locator("input[name=context_threshold]").fill("66")
    page.locator("#thresholds form").first.get_by_role("button").click()
    expect(page.get_by_text("Saved; it applies from now on.")).to_be_visible()
    browsing.expect("401")
    page.goto("/settings/server")
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_text("You are signed out.")).to_be_visible()

    assert (cookie["secure"], cookie["httpOnly"], cookie["sameSite"]) == (True, True, "Strict")
    assert cookie["name"].startswith("__Host-tasuki-")
    assert page.context.cookies() == []
    assert (tmp_path / "config.toml").read_text() == "context_threshold = 66\n"


def test_a_link_of_another_site_opens_for_the_proxys_user(browsing: Browsing) -> None:
    """The page continues by itself to where the link leads, and stays there when it is loaded again."""
    site = "\treverse_proxy UPSTREAM {\n\t\theader_up Remote-User ann\n\t}"
    settings = {"proxy": f"user:{get_account()}", "proxy_user_header": "Remote-User", "proxy_users": "ann"}  # fmt: skip
    with make_folder() as folder, behind_caddy(folder, site, **settings) as (_, proxy):
        page = browsing.page(proxy.origin, own_authority=True)
        page.route("https://other.example/", lambda route: route.fulfill(content_type="text/html", body=f'<a href="{proxy.origin}/settings/server">here</a>'))  # fmt: skip
        browsing.expect("another origin: GET https://other.example/")
        page.goto("https://other.example/")
        visits: list[str] = []
        page.on("request", lambda asked: asked.is_navigation_request() and visits.append(asked.url))
        page.get_by_role("link", name="here").click()
        expect(page.get_by_text("Signed in as ann by the proxy.")).to_be_visible()
        arrived = list(visits)
        page.reload()
        expect(page.get_by_text("Signed in as ann by the proxy.")).to_be_visible()
        expect(page.locator("#live-word")).to_have_text("Live")
        cookies = page.context.cookies()
        browsing.leave()

    assert cookies == []
    assert arrived == [f"{proxy.origin}/settings/server"] * 2
