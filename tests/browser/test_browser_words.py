"""No word that somebody typed is lost: not without the server, not by a sign-out elsewhere, not by Escape."""

import re
import time
from collections.abc import Iterator
from pathlib import Path

import fleet_records as records
import pytest
from browser import Browsing, operator
from playwright.sync_api import Page, Route, expect
from web_servers import Served, serving


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    """A server with an agent that tasuki may type to."""
    with serving(tmp_path) as made:
        records.persona(made.fleet.database)
        records.agent(made.fleet.database, persona=records.SLUG, host=made.fleet.host, adopted=True,
                      pane="%9", session="s1", state_at=time.time())  # fmt: skip
        yield made


@pytest.fixture
def page(served: Served, browsing: Browsing) -> Page:
    """The page of the agent, live."""
    made = operator(browsing.page(served.origin), served.link)
    made.goto("/agents/1")
    expect(made.locator("#live-word")).to_have_text("Live")
    return made


def send(page: Page, text: str = "Mind the tests") -> None:
    """Type a message and send it."""
    page.locator("#text").fill(text)
    page.locator("#send").get_by_role("button").click()


def test_a_form_stays_while_the_server_is_away(
    served: Served, page: Page, browsing: Browsing
) -> None:
    """It says that nothing was sent, sends nothing by itself later, and once the person presses again."""
    browsing.expect("ERR_|Failed to load")
    sent: list[str] = []
    page.on("request", lambda request: sent.append(request.url) if request.method == "POST" else None)  # fmt: skip
    page.evaluate("document.body.dataset.away = ''")
    send(page)
    expect(page.locator("#send").get_by_role("alert")).to_contain_text("Not sent")
    expect(page.locator("#text")).to_have_value("Mind the tests")
    page.evaluate("delete document.body.dataset.away")
    page.wait_for_timeout(300)
    assert sent == []
    page.locator("#send").get_by_role("button").click()
    page.wait_for_url("**/agents/1?said=*")

    assert len(sent) == 1


def test_a_form_stays_where_nothing_answers(page: Page, browsing: Browsing) -> None:
    """Also where the page did not know that yet: it says that it is not known whether it was sent."""
    browsing.expect("ERR_FAILED")
    page.route("**/send", lambda route: route.abort())
    send(page)

    expect(page.locator("#send").get_by_role("alert")).to_contain_text("it is not known whether")
    expect(page.locator("#text")).to_have_value("Mind the tests")
    assert "/agents/1" in page.url


def test_words_survive_a_sign_out_elsewhere(served: Served, page: Page, browsing: Browsing) -> None:
    """The form says it, the new link lands on the page where one was, and the words are there again."""
    browsing.expect("401")
    served.sessions.end_all()
    send(page)
    expect(page.locator("#send").get_by_role("alert")).to_contain_text("Signed out")
    expect(page.locator("#text")).to_have_value("Mind the tests")
    page.wait_for_timeout(300)
    page.goto(served.link)
    page.wait_for_url("**/agents/1")

    expect(page.locator("#text")).to_have_value("Mind the tests")


def test_a_form_kept_back_learns_of_the_sign_out(
    served: Served, page: Page, browsing: Browsing
) -> None:
    """Pressed while the page does not know yet why nothing comes, it says so once it does."""
    browsing.expect("401")
    page.evaluate("document.body.dataset.away = ''")
    send(page)
    expect(page.locator("#send").get_by_role("alert")).to_contain_text("Not sent: the server")
    served.sessions.end_all()

    expect(page.locator("#send").get_by_role("alert")).to_contain_text("Signed out")
    expect(page.locator("#text")).to_have_value("Mind the tests")


def test_words_of_a_form_over_the_page_survive_it_too(
    served: Served, page: Page, browsing: Browsing
) -> None:
    """The form opens again with what was typed in it."""
    browsing.expect("401")
    page.goto("/")
    page.locator("[data-hand]").first.click()
    form = page.get_by_role("dialog")
    form.get_by_label("Reason").fill("The tests are red")
    served.sessions.end_all()
    form.get_by_role("button", name=re.compile("Hand off")).click()
    expect(form.get_by_role("alert")).to_contain_text("Signed out")
    page.wait_for_timeout(300)
    page.goto(served.link)
    page.wait_for_url("**/")

    expect(page.get_by_role("dialog").get_by_label("Reason")).to_have_value("The tests are red")


@pytest.mark.parametrize("how", ["Escape", "beside"])
def test_a_dialog_with_words_stays_open(page: Page, how: str) -> None:
    """Neither Escape nor a click beside throws them away; its own button does."""
    page.goto("/")
    page.locator("[data-hand]").first.click()
    form = page.get_by_role("dialog")
    form.get_by_label("Reason").fill("The tests are red")
    for _ in range(2):
        if how == "Escape":
            page.keyboard.press("Escape")
        else:
            page.mouse.click(5, 5)
    expect(form.get_by_role("alert")).to_contain_text("What you typed is still here")
    expect(form.get_by_label("Reason")).to_have_value("The tests are red")
    form.get_by_role("link", name="Not now").click()

    expect(form).to_be_hidden()


def test_the_button_says_what_happens(served: Served, page: Page) -> None:
    """While a form is sent its button reads *Sending …*, can be read under the pointer, and sends once."""
    held: list[Route] = []
    page.route("**/send", lambda route: held.append(route))
    send(page)
    button = page.locator("#send").get_by_role("button")
    expect(button).to_have_text("Sending …")
    button.click()
    button.hover()
    colours = button.evaluate("(one) => [getComputedStyle(one).color, getComputedStyle(one).backgroundColor]")  # fmt: skip
    served.fleet.changes.notify([1])
    page.wait_for_timeout(300)
    expect(button).to_have_text("Sending …")

    assert len(held) == 1
    assert colours[0] != colours[1]
    page.goto("/")
    page.route("**/handoff", lambda route: held.append(route) if route.request.method == "POST" else route.continue_())  # fmt: skip
    page.locator("[data-hand]").first.click()
    page.get_by_role("dialog").get_by_label("Reason").fill("Full")
    page.get_by_role("dialog").get_by_role("button", name=re.compile("Hand off")).click()
    expect(page.get_by_role("dialog").get_by_role("button", name="Handing off")).to_be_visible()
