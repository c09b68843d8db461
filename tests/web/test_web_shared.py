"""Answers that many want at once, and pages of which a browser has an older version."""

import asyncio
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
from waiting import retry_until
from web_servers import serving

from tasuki.fleet.service import Fleet
from tasuki.fleet.store import queries
from tasuki.fleet.store.models import GoalTemplate
from tasuki.web.pages.fleet import routes
from tasuki.web.views.parts import PageVersions, PartHolder, fill_times
from tasuki.web.views.shared_answers import SharedAnswers
from tasuki.web.views.templates import count_since, format_span


class Maker:
    """Counts what it makes; each takes until it is released."""

    def __init__(self) -> None:
        self.made = 0
        self.release = threading.Event()

    def __call__(self) -> int:
        """Make one."""
        self.made += 1
        number = self.made
        assert self.release.wait(10)
        return number


def test_those_who_ask_at_once_share_an_answer() -> None:
    """As long as nothing changes; after a change all get the next one, which is made once."""
    generation = [0]

    async def run() -> tuple[list[int], list[int]]:
        shared: SharedAnswers[int] = SharedAnswers(lambda: generation[0])
        make = Maker()
        early = [asyncio.create_task(shared.get("k", make)) for _ in range(5)]
        await asyncio.sleep(0.05)
        generation[0] += 1
        late = [asyncio.create_task(shared.get("k", make)) for _ in range(5)]
        await asyncio.sleep(0.05)
        make.release.set()
        return list(await asyncio.gather(*early)), list(await asyncio.gather(*late))

    early, late = asyncio.run(run())

    assert (early, late) == ([1] * 5, [2] * 5)


def test_an_error_reaches_all_and_is_not_kept() -> None:
    """Who asks afterwards gets a new answer; a reader that leaves takes nothing from the others."""

    def fail() -> int:
        time.sleep(0.05)
        raise ValueError("no")

    async def run() -> int:
        shared: SharedAnswers[int] = SharedAnswers(lambda: 0)
        asked = [asyncio.create_task(shared.get("k", fail)) for _ in range(3)]
        await asyncio.sleep(0.01)
        asked[0].cancel()
        found = await asyncio.gather(*asked, return_exceptions=True)
        assert [type(one) for one in found[1:]] == [ValueError, ValueError]
        return await shared.get("k", lambda: 7)

    assert asyncio.run(run()) == 7


def page(first: str, second: str, known: str = "") -> tuple[str, str]:
    """A page of two parts for a browser that has a version."""
    holder = PartHolder()
    text = f"<ul>{holder.hold('a', f'<li id=a>{first}</li>')}{holder.hold('b', f'<li id=b>{second}</li>')}</ul>"
    rendered = holder.finish(text, 5)
    return rendered.fill(known), rendered.version


def test_only_parts_that_differ_are_sent_again() -> None:
    """A part that the browser has is an empty element; the same page is nothing; an unknown version is the whole."""
    whole, version = page("one", "two")
    changed, newer = page("one", "three", version)

    assert whole == "<ul><li id=a>one</li><li id=b>two</li></ul>"
    assert changed == '<ul><li id="a" data-same></li><li id=b>three</li></ul>'
    assert page("one", "two", version) == ("", version)
    assert page("one", "three", "f" * 16)[0] == "<ul><li id=a>one</li><li id=b>three</li></ul>"
    assert newer != version


def test_a_moved_part_is_another_version() -> None:
    """The order counts, too."""
    holders = PartHolder(), PartHolder()
    texts = [
        "".join(holder.hold(id, f"<li>{id}</li>") for id in order)
        for holder, order in zip(holders, ("ab", "ba"), strict=True)
    ]

    assert holders[0].finish(texts[0], 1).version != holders[1].finish(texts[1], 1).version


def test_a_time_that_counts_on_makes_no_new_version() -> None:
    """The same moment is the same part; what is sent says how long ago it is."""
    moment = time.time() - 125
    html = str(count_since(moment))

    assert html == str(count_since(moment))
    assert fill_times(f"{html} ago", format_span) == "2 min ago"


@pytest.mark.parametrize("count", [1, 5])
def test_old_versions_are_forgotten(count: int) -> None:
    """Only so many are kept; those that are used stay."""
    versions = PageVersions(most=3)
    for number in range(count):
        versions.remember(str(number), {"a": str(number)})

    assert versions.find(str(count - 1)) == {"a": str(count - 1)}
    assert bool(versions.find("0")) is (count == 1)


def test_markers_in_somebodys_text_do_nothing() -> None:
    """They are taken out of texts before; what slips through is no part and no time."""
    text = PartHolder().finish("a\x02agent-1\x03b\x011.2.3\x01c", 1).fill()

    assert text == "ab\x011.2.3\x01c"
    assert fill_times(text, format_span) == text


def test_who_asks_as_an_answer_is_ready_gets_the_next_one() -> None:
    """Something changed, and the task that made the answer is done but not yet put away."""
    generation = [0]

    async def run() -> tuple[int, int]:
        shared: SharedAnswers[int] = SharedAnswers(lambda: generation[0])
        early = asyncio.create_task(shared.get("k", lambda: 1))
        while "k" not in shared._running:
            await asyncio.sleep(0)
        while not shared._running["k"].done():
            await asyncio.sleep(0)
        generation[0] += 1
        late = await shared.get("k", lambda: 2)
        return await early, late

    assert asyncio.run(run()) == (1, 2)


def test_no_page_is_older_than_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A change while a page is made: who asks afterwards gets it; who asked before knows that there is news.

    A page that is asked for before the live stream has the change shows it too, under an older number.
    """
    read, go_on, list_shown = threading.Event(), threading.Event(), routes.list_shown

    def list_slowly(fleet: Fleet) -> list[tuple[GoalTemplate, bool]]:
        shown = list_shown(fleet)
        read.set()
        assert go_on.wait(20)
        return shown

    monkeypatch.setattr(routes, "list_shown", list_slowly)
    with serving(tmp_path) as served, ThreadPoolExecutor(3) as pool:
        cookie = f"{served.sessions.cookie_name}={served.sessions.sign_in('a browser')}"
        ask = partial(served.ask, "GET", "/", token="", Cookie=cookie)
        before = pool.submit(ask)
        assert read.wait(20)
        served.ask("POST", "/api/templates", {"name": "Tidy up", "goal": "Tidy {folder}"})
        at_once = pool.submit(ask)
        newest = queries.find_newest_place(served.fleet.database)
        retry_until(lambda: served.live.position >= newest)
        after = pool.submit(ask)
        go_on.set()
        asked = (before, at_once, after)
        old, soon, new = (request.result().body.decode() for request in asked)

    assert ["Tidy up" in page for page in (old, soon, new)] == [False, True, True]
    assert [int(re.findall(r'data-newest="(\d+)"', page)[0]) >= newest.id for page in (old, new)] == [False, True]  # fmt: skip
