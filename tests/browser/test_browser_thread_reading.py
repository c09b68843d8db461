"""A thread in a browser: it goes on at its end, stays where it is read, and is searched by keyboard."""

import json
import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import fleet_records
import pytest
from browser import Browsing, operator, portraits
from playwright.sync_api import Page, expect
from web_reader import Reader, reading

from tasuki_testing import ThreadBuilder

SCROLLED = "window.scrollY + window.innerHeight >= document.getElementById('thread-end').getBoundingClientRect().bottom + window.scrollY - 4"


class Talk:
    """A thread that an agent goes on writing."""

    def __init__(self, reader: Reader, count: int, begin: float = 0.0) -> None:
        self.reader = reader
        self.builder = ThreadBuilder("claude")
        self.said = self.written = 0
        self.begin = begin or time.time() - 30 * 3600
        self.say(count)

    @property
    def address(self) -> str:
        """The address of its page."""
        return f"/threads/claude/{self.builder.id}"

    def say(self, count: int = 1) -> None:
        """The agent says something more: its file is appended to."""
        for _ in range(count):
            self.builder.assistant(f"Step {self.said} is done.\n\nThe `retry` loop\n\nwaits.")
            self.said += 1
        lines = [json.loads(unit) for unit in self.builder.units()]
        for number, line in enumerate(lines):
            moment = datetime.fromtimestamp(self.begin + number * 60).astimezone()
            line["timestamp"] = moment.isoformat()
        with (self.reader.projects / self.builder.file_name()).open("a") as file:
            file.write("".join(f"{json.dumps(line)}\n" for line in lines[self.written :]))
        self.written = len(lines)


@pytest.fixture
def reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Reader]:
    """Somebody who has threads."""
    with reading(tmp_path, monkeypatch) as made:
        yield made


@pytest.fixture
def page(browsing: Browsing, reader: Reader) -> Page:
    """The operator's page."""
    return operator(browsing.page(reader.served.origin), reader.served.link)


def open_end(page: Page, talk: Talk) -> None:
    """Open a thread at its end, connected."""
    page.goto(f"{talk.address}#thread-end")
    expect(page.locator("#live-word")).to_have_text("Live")
    page.evaluate("window.same = true")


def test_a_reader_at_the_end_stays_there(reader: Reader, page: Page) -> None:
    """New entries come by themselves, the page goes with them, and nothing is loaded anew."""
    talk = Talk(reader, 30)
    open_end(page, talk)
    for number in (30, 31):
        talk.say()
        expect(page.locator(f"#e{number + 1}")).to_be_in_viewport()
    assert page.evaluate(SCROLLED)

    expect(page.locator("#news a")).to_have_count(0)
    assert page.evaluate("window.same") is True


def test_a_reader_elsewhere_is_told_and_not_moved(reader: Reader, page: Page) -> None:
    """What is read stays where it is; a link counts what is new, and leads there."""
    talk = Talk(reader, 60)
    open_end(page, talk)
    page.locator("#e20").scroll_into_view_if_needed()
    expect(page).to_have_url(f"{reader.served.origin}{_start(page)}")
    top = page.locator("#e20").bounding_box()
    talk.say(3)
    news = page.locator("#news a")
    expect(news).to_have_text("3 new entries")
    assert top == page.locator("#e20").bounding_box()

    news.click()
    expect(page.locator("#e63")).to_be_in_viewport()
    expect(news).to_have_count(0)
    talk.say()
    expect(page.locator("#e64")).to_be_in_viewport()


def _start(page: Page) -> str:
    return page.locator("#entries").get_attribute("data-start") or ""


def test_what_is_read_is_not_taken_away(reader: Reader, page: Page) -> None:
    """While more comes than a page has, the part that is read stays whole."""
    talk = Talk(reader, 95)
    open_end(page, talk)
    page.locator("#e10").scroll_into_view_if_needed()
    talk.say(130)
    expect(page.locator("#news a")).to_have_text("130 new entries")
    expect(page.locator("#e1")).to_be_attached()
    expect(page.locator("#e10")).to_be_in_viewport()


def test_an_older_part_tells_of_what_is_new(reader: Reader, page: Page) -> None:
    """There the link leads to the page of the end."""
    talk = Talk(reader, 250)
    page.goto(f"{talk.address}?entry=5#e5")
    expect(page.locator("#live-word")).to_have_text("Live")
    talk.say()
    page.get_by_role("link", name="1 new entry").click()
    expect(page.locator("#e251")).to_be_in_viewport()


def test_an_open_call_stays_open(reader: Reader, page: Page) -> None:
    """What the reader opened, and what has the focus, survives news."""
    talk = Talk(reader, 5)
    talk.builder.shell("make test", "one\ntwo\n")
    talk.say()
    open_end(page, talk)
    summary = page.locator("#e6 summary")
    summary.click()
    talk.say()
    expect(page.locator("#e8")).to_be_attached()
    expect(page.locator("#e6 details")).to_have_attribute("open", "")
    expect(summary).to_be_focused()


def test_only_what_is_new_is_sent(reader: Reader, page: Page) -> None:
    """The answer to news has new entries; of the others it has the places."""
    talk = Talk(reader, 90)
    open_end(page, talk)
    with page.expect_response(lambda answer: "/threads/claude/" in answer.url) as caught:
        talk.say()
    body = caught.value.text()
    expect(page.locator("#e91")).to_be_attached()

    assert 90 <= body.count("data-same") <= 92
    assert "Step 90 is done" in body
    assert "Step 89 is done" not in body


def test_matches_are_walked_by_keyboard_and_by_link(reader: Reader, page: Page) -> None:
    """k and j go to the match before and after; in a field they are letters."""
    talk = Talk(reader, 120)
    page.goto(talk.address)
    field = page.get_by_role("searchbox", name="Search this thread")
    field.fill("retry")
    field.press("Enter")
    status = page.locator("#matches")
    expect(status).to_contain_text("Entry 120 of 120 that match")
    page.keyboard.press("k")
    expect(status).to_contain_text("Entry 119 of 120")
    expect(page.locator("#e119 mark")).to_be_in_viewport()
    page.get_by_role("link", name="Previous match").click()
    expect(status).to_contain_text("Entry 118 of 120")
    page.keyboard.press("j")
    expect(status).to_contain_text("Entry 119 of 120")
    page.get_by_role("searchbox", name="Search this thread").press("k")
    expect(status).to_contain_text("Entry 119 of 120")


def test_it_is_read_without_scripts(browsing: Browsing, reader: Reader) -> None:
    """Times, search, filter and the last hour are links and forms."""
    talk = Talk(reader, 120)
    page = operator(browsing.page(reader.served.origin, javascript=False), reader.served.link)
    page.goto(talk.address)
    page.get_by_role("searchbox", name="Search this thread").fill("step 7")
    page.get_by_role("button", name="Search").click()
    expect(page.locator("#matches")).to_contain_text("that match")
    page.get_by_role("link", name="Previous match").click()
    expect(page.locator("#matches")).to_contain_text("Next match")
    page.get_by_role("link", name="End the search").click()
    page.get_by_role("link", name="Start", exact=True).click()
    expect(page.locator("#e1")).to_be_in_viewport()
    moment = page.locator("#e1 time").get_attribute("datetime") or ""
    page.get_by_label("Time", exact=True).fill(moment[:16])
    page.get_by_role("button", name="Go").click()
    expect(page).to_have_url(re.compile(r"#e[12]$"))


def test_a_card_leads_to_the_last_hour(reader: Reader, page: Page) -> None:
    """From the fleet it is one click to what an agent did."""
    talk = Talk(reader, 5)
    fleet = reader.served.fleet
    fleet_records.agent(
        fleet.database, session=talk.builder.id, host=fleet.host, state="busy", state_at=time.time()
    )
    page.goto("/")
    page.get_by_role("link", name="Last hour of").click()

    expect(page.locator("#reading")).to_contain_text("ince ")
    expect(page).to_have_url(re.compile("since=20"))


def test_the_page_of_a_thread(reader: Reader, page: Page) -> None:
    """Nobody is kept out, and nothing scrolls sideways: light, dark, narrow, and at 320 px."""
    talk = Talk(reader, 8)
    talk.builder.user("And now?").shell(
        "pytest -q " + "tests/test_a_long_name.py " * 9, "5 passed", 1
    )
    for number in range(9):
        talk.builder.read(f"src/{number}.py", "x\n")
    talk.builder.compaction("What came before.")
    talk.say(2)
    for name, query in (("thread-read", ""), ("thread-found", "?find=retry"), ("thread-prompts", "?who=prompts")):  # fmt: skip
        page.goto(talk.address + query)
        assert [] == portraits(page, name)
        page.set_viewport_size({"width": 320, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") == 320


def test_days_are_those_of_the_reader(browsing: Browsing, reader: Reader) -> None:
    """In Tokyo a new day begins in the middle of a thread that has one day in UTC; a time that is asked for is the reader's own."""
    talk = Talk(reader, 91, datetime(2026, 3, 4, 14, 0, tzinfo=UTC).timestamp())
    page = operator(browsing.page(reader.served.origin, zone="Asia/Tokyo"), reader.served.link)
    page.goto(talk.address)
    days = page.locator("#entries > .day h3")

    expect(days).to_have_text(["Wednesday 4 March 2026", "Thursday 5 March 2026"])
    expect(page.get_by_label("Time", exact=True)).to_have_value("2026-03-05T00:30")
    page.get_by_label("Time", exact=True).fill("2026-03-05T00:10")
    with page.expect_request(re.compile(r"at=2026-03-04T15%3A10%3A00[.]000Z")):
        page.get_by_role("button", name="Go").click()
