"""What breaks around an open page: its connection, its server, its session; and hands that are too quick."""

import gzip
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fleet_records
import msgspec
import pytest
import sqlalchemy as sa
from browser import Browsing, operator
from playwright.sync_api import Page, Route, expect
from waiting import retry_until
from web_servers import Served, serving

from tasuki.fleet.store import log, tables
from tasuki.fleet.store.agent_question import AgentQuestion, QuestionChoice
from tasuki.fleet.store.questions import dump_question
from tasuki.web import page_news
from tasuki.web.views import templates

STATES = ("idle", "busy", "waiting")


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    """A server with nine agents; the third, sixth and ninth ask something."""
    with serving(tmp_path) as made:
        for number in range(1, 10):
            add(made, number)
        yield made


def add(served: Served, number: int) -> None:
    """An agent of a persona of its own."""
    slug = f"developer-con-{number}"
    question: Any = None
    if number % 3 == 2:
        choices = (QuestionChoice("1", "Yes"), QuestionChoice("2", "No"))
        question = dump_question(
            AgentQuestion("May I?", f"m{number}", time.time(), "ls", choices=choices, is_read=True)
        )  # fmt: skip
    fleet_records.persona(served.fleet.database, slug)
    fleet_records.agent(
        served.fleet.database, persona=slug, cwd="/src/shop", session=f"s{number}", pane=f"%{number}",
        adopted=True, state=STATES[number % 3], state_at=time.time(), started_at=time.time(), question=question,
    )  # fmt: skip


@pytest.fixture
def seen(served: Served, browsing: Browsing) -> Page:
    """A browser that shows the fleet, connected."""
    page = operator(browsing.page(served.origin), served.link)
    expect(page.locator("#live-word")).to_have_text("Live")
    return page


def touch(served: Served, id: int) -> None:
    """Something happens to an agent."""
    with served.fleet.database.write() as connection:
        log.note(connection, "prompt", "Something", agent_id=id)
    served.fleet.changes.notify([id])


def wait_in(page: Page, is_there: Callable[[], bool]) -> None:
    """Wait for what the page reports to this test."""
    for _ in range(300):
        if is_there():
            return
        page.wait_for_timeout(50)
    raise AssertionError


# -- the connection --------------------------------------------------------------------


def shorten_silence(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Let the stream of a browser count as broken after some seconds without a word."""
    asset = templates.ASSETS["stream.js"]
    content = asset.content.replace(b"SILENCE = 40000", b"SILENCE = %d" % (1000 * seconds))
    assert content != asset.content
    monkeypatch.setitem(
        templates.ASSETS, "stream.js",
        msgspec.structs.replace(asset, content=content, gzipped=gzip.compress(content), version="quick"),
    )  # fmt: skip


def test_a_stream_that_says_nothing_is_opened_again(
    served: Served, browsing: Browsing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a sleep or behind a proxy: nobody said that the connection is gone."""
    shorten_silence(monkeypatch, 0.4)
    page = operator(browsing.page(served.origin), served.link)
    retry_until(lambda: served.pages.streams)
    first = set(served.pages.streams)
    retry_until(lambda: served.pages.streams and not first & served.pages.streams)

    expect(page.locator("#live-word")).to_have_text("Live")


def test_a_stream_without_news_is_kept(
    served: Served, browsing: Browsing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server says that it is there: it is not opened again."""
    monkeypatch.setattr(page_news, "KEEP_ALIVE_SECONDS", 0.2)
    shorten_silence(monkeypatch, 3)
    page = operator(browsing.page(served.origin), served.link)
    retry_until(lambda: served.pages.streams)
    first = set(served.pages.streams)
    page.wait_for_timeout(5000)

    assert first == served.pages.streams


DEAF = """(() => { const Real = window.SharedWorker; let isFirst = true;
  window.SharedWorker = function (address) {
    if (!isFirst) return new Real(address);
    isFirst = false;
    return { port: { postMessage: () => {}, onmessage: null } };
  }; })();"""
"""The first worker of a page is one that is just ending: it answers nothing."""


def test_a_worker_that_never_answers_is_asked_again(served: Served, browsing: Browsing) -> None:
    """A page that came while the worker of the last one ended is connected, and what it missed is shown."""
    page = browsing.page(served.origin)
    page.add_init_script(DEAF)
    operator(page, served.link)
    add(served, 10)
    touch(served, 10)

    expect(page.locator("#live-word")).to_have_text("Live")
    expect(page.locator("#agent-10")).to_be_visible()


def without_shared_worker(served: Served, browsing: Browsing) -> tuple[Page, list[str]]:
    """A page of a browser that has none, and the streams that it opens; its clock is the test's."""
    page = browsing.page(served.origin)
    opened: list[str] = []
    page.on("request", lambda one: opened.append(one.url) if one.url.endswith("/live") else None)
    page.add_init_script("delete window.SharedWorker")
    page.clock.install()
    operator(page, served.link)
    expect(page.locator("#live-word")).to_have_text("Live")
    return page, opened


def test_a_silent_stream_of_one_page_is_opened_again(served: Served, browsing: Browsing) -> None:
    """In a browser without SharedWorker, too."""
    page, opened = without_shared_worker(served, browsing)
    page.clock.fast_forward(61_000)
    wait_in(page, lambda: len(opened) == 2)

    expect(page.locator("#live-word")).to_have_text("Live")


def test_a_page_that_comes_back_has_one_stream(served: Served, browsing: Browsing) -> None:
    """However often one goes back to it: a browser allows six connections."""
    page, opened = without_shared_worker(served, browsing)
    before = len(opened)
    for _ in range(3):
        page.evaluate(
            "window.dispatchEvent(new PageTransitionEvent('pagehide', {persisted: true}))"
        )
        page.evaluate(
            "window.dispatchEvent(new PageTransitionEvent('pageshow', {persisted: true}))"
        )
    page.evaluate(
        "Object.defineProperty(document, 'hidden', {value: true, configurable: true});"
        "document.dispatchEvent(new Event('visibilitychange'));"
        "Object.defineProperty(document, 'hidden', {value: false});"
        "document.dispatchEvent(new Event('visibilitychange'))"
    )
    page.wait_for_timeout(300)

    assert len(opened) - before == 4


# -- the server ------------------------------------------------------------------------


def test_a_form_that_the_server_does_not_answer_says_so(seen: Page, browsing: Browsing) -> None:
    """A click is never followed by nothing; the same sentence stands there once."""
    browsing.expect("ERR_FAILED|htmx:")
    seen.route("**/handoff*", lambda route: route.abort())
    for _ in range(2):
        seen.locator("[data-hand]").first.click()
        expect(seen.locator(".toast")).to_have_text(re.compile("The server does not answer"))
    seen.unroute("**/handoff*")
    seen.locator("[data-hand]").first.click()

    expect(seen.get_by_role("dialog")).to_be_visible()


def test_an_answer_after_the_session_ended_says_so(
    served: Served, seen: Page, browsing: Browsing
) -> None:
    """Nothing was sent, and the page says why."""
    browsing.expect("401")
    seen.route("**/answer", lambda route: route.fulfill(status=401, headers={"HX-Refresh": "true"}))
    seen.locator("#answer-2-1").click()

    expect(seen.locator(".toast")).to_contain_text("You are signed out")


def test_a_session_that_ends_takes_no_text_away(
    served: Served, seen: Page, browsing: Browsing
) -> None:
    """The page says that nobody is signed in; it goes to the sign-in page once nothing is typed."""
    browsing.expect("401")
    seen.goto("/agents/1")
    field = seen.get_by_label("Sent once")
    field.fill("A long prompt")
    expect(seen.locator("#live-word")).to_have_text("Live")
    served.sessions.end_all()
    touch(served, 1)
    expect(seen.locator("#live-word")).to_have_text("Signed out")
    expect(field).to_have_value("A long prompt")
    field.fill("")

    expect(seen.get_by_text("tasuki dashboard").first).to_be_visible()


def test_a_form_over_the_page_outlives_the_session(
    served: Served, seen: Page, browsing: Browsing
) -> None:
    """What is typed stays, and the form says why it was not sent; after signing in elsewhere it is."""
    browsing.expect("401")
    seen.goto("/?look=list")
    seen.get_by_label("Select developer-con-1").check()
    seen.get_by_role("button", name="Send …").click()
    form = seen.get_by_role("dialog")
    form.get_by_label("A prompt").fill("Mind the tests")
    served.sessions.end_all()
    touch(served, 1)
    expect(seen.locator("#live-word")).to_have_text("Signed out")
    form.get_by_role("button", name="Send to 1").click()
    note = form.get_by_role("alert")
    expect(note).to_contain_text("Signed out")
    expect(form.get_by_label("A prompt")).to_have_value("Mind the tests")
    form.get_by_role("button", name="Send to 1").click()
    expect(note).to_have_count(1)

    with seen.context.expect_page() as opened:
        note.get_by_role("link").click()
    expect(opened.value.get_by_role("heading", name="Sign in")).to_be_visible()
    operator(opened.value, served.link)
    seen.bring_to_front()
    expect(note).to_have_count(0)
    form.get_by_role("button", name="Send to 1").click()
    expect(seen.get_by_role("heading", name="0 of 1 sent to")).to_be_visible()


def test_a_form_that_leaves_the_page_as_it_is_says_that_nobody_is_signed_in(
    served: Served, seen: Page, browsing: Browsing
) -> None:
    """Over the page the sentence stands in the form, where it can be read."""
    browsing.expect("401")
    seen.locator("#a1-mute").click()
    form = seen.get_by_role("dialog")
    seen.route("**/mute", lambda route: route.fulfill(status=401, headers={"HX-Refresh": "true"}))
    form.get_by_role("button").first.click()

    expect(form.get_by_role("alert")).to_contain_text("Signed out")


def test_a_second_answer_waits_for_the_first(served: Served, seen: Page) -> None:
    """Also where the card was made anew in between."""
    held: list[Route] = []
    seen.route("**/answer", lambda route: held.append(route))
    seen.locator("#answer-2-1").click()
    wait_in(seen, lambda: bool(held))
    with served.fleet.database.write() as connection:
        connection.execute(
            sa.update(tables.agents).where(tables.agents.c.id == 2).values(context_used=77)
        )
    touch(served, 2)
    expect(seen.locator("#agent-2")).to_contain_text("Context 77 %")
    seen.locator("#answer-2-2").click()
    seen.wait_for_timeout(300)

    assert len(held) == 1


# -- hands -----------------------------------------------------------------------------


def test_keys_give_no_order_to_an_agent_that_nobody_chose(seen: Page) -> None:
    """`h` and `a` first choose one; nothing opens for the first of the page."""
    seen.keyboard.press("h")
    expect(seen.locator("[data-cursor]")).to_have_count(1)
    assert not seen.get_by_role("dialog").is_visible()
    seen.keyboard.press("h")

    expect(seen.get_by_role("dialog")).to_be_visible()


def test_the_palette_takes_no_form_away(seen: Page) -> None:
    """What is typed in a form stays, whatever key is pressed there."""
    seen.locator("[data-hand]").first.click()
    field = seen.get_by_role("dialog").locator("input:not([type=hidden]), textarea").first
    field.fill("typed")
    seen.keyboard.press("Control+k")
    seen.wait_for_timeout(500)

    expect(field).to_have_value("typed")


def test_a_key_that_is_held_is_one_press(seen: Page) -> None:
    """Only the cursor goes on."""
    seen.goto("/?look=list")
    seen.keyboard.press("j")
    for _ in range(4):
        seen.keyboard.down("x")
    expect(seen.locator("#picked")).to_have_text("1 selected:")
    seen.keyboard.up("x")

    expect(seen.locator("tbody input:checked")).to_have_count(1)


def test_a_message_is_of_the_page_on_which_it_was_written(served: Served, seen: Page) -> None:
    """A second click on *Send* is the same message, also where the page was made anew in between."""
    seen.goto("/agents/1")
    field = seen.locator("input[name=page]")
    before = field.input_value()
    expect(seen.locator("#live-word")).to_have_text("Live")
    touch(served, 1)
    expect(seen.locator(".log")).to_contain_text("Something")

    assert before == field.input_value()


@pytest.mark.parametrize("path", ["/?by=project", "/lineage", "/agents/10", "/palette"])
def test_names_without_a_space_are_wrapped(served: Served, seen: Page, path: str) -> None:
    """A folder and a persona may be called whatever they like: nothing scrolls sideways."""
    slug = f"{'r' * 60}-{'n' * 60}-10"
    fleet_records.persona(served.fleet.database, slug)
    fleet_records.agent(
        served.fleet.database, persona=slug, cwd=f"/src/{'p' * 250}", session="s10", pane="%10",
        adopted=True, state="busy", state_at=time.time() + 10, started_at=time.time() + 10,
    )  # fmt: skip
    seen.goto(path)
    for width in (320, 1440):
        seen.set_viewport_size({"width": width, "height": 900})

        assert seen.evaluate("document.documentElement.scrollWidth") <= width
