"""A thread on its page: its times, what is asked for by time or words, and what goes on at its end."""

import json
import re
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from urllib.parse import quote

import fleet_records
import pytest
from visitors import words
from web_reader import Reader, reading

from tasuki.web.pages.threads.files import ThreadNews
from tasuki_testing import ThreadBuilder

HOUR = 3600.0
NOON = datetime(2026, 3, 4, 12, 0).astimezone().timestamp()


@pytest.fixture
def reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Reader]:
    """Somebody who reads threads."""
    with reading(tmp_path, monkeypatch) as made:
        yield made


def timed(reader: Reader, builder: ThreadBuilder, moments: list[float]) -> str:
    """Write a thread whose lines are of these moments, the last ones of the last; its address."""
    address = reader.thread(builder)
    (path,) = reader.projects.glob(f"*{builder.id}*")
    lines = []
    for number, line in enumerate(path.read_text().splitlines()):
        record = json.loads(line)
        moment = moments[min(number, len(moments) - 1)]
        record["timestamp"] = datetime.fromtimestamp(moment).astimezone().isoformat()
        lines.append(json.dumps(record))
    path.write_text("\n".join(lines) + "\n")
    return address


def talk(count: int) -> ThreadBuilder:
    """Some prompts, each with an answer."""
    builder = ThreadBuilder("claude")
    for number in range(count):
        builder.user(f"Ask {number}").assistant(f"Say {number}")
    return builder


def refs(page: str) -> list[int]:
    """The entries of a page."""
    return [int(ref) for ref in re.findall(r'<li id="e(\d+)"', page)]


def follow(reader: Reader, address: str) -> str:
    """Where an address leads, without the place on the page."""
    answer = reader.get(address)
    assert answer.status == 303, answer.body.decode()
    return answer.headers["location"]


def search(reader: Reader, address: str, text: str) -> str:
    """The page of what is searched in a thread: that of its newest match, or the one that says there is none."""
    answer = reader.get(f"{address}{'&' if '?' in address else '?'}find={quote(text)}")
    if answer.status == 303:
        return reader.page(answer.headers["location"].partition("#")[0])
    return answer.body.decode()


def test_each_entry_has_its_time_and_each_day_a_mark(reader: Reader) -> None:
    """The hour is shown, the exact moment on hover; a day begins with its name, once."""
    address = timed(reader, talk(2), [NOON, NOON + 61, NOON + 24 * HOUR])
    page = reader.page(address)

    assert "Wednesday 4 March 2026 #1 12:00 You Ask 0 #2 12:01" in words(page)
    assert "Thursday 5 March 2026 #3 12:00" in words(page)
    assert 2 == page.count('<li class="day"')
    assert 'title="Wed 4 Mar 2026, 12:01:01 UTC' in page


def test_calls_of_two_days_are_not_folded_together(reader: Reader) -> None:
    """A day has its mark also in a long run of tool calls."""
    builder = ThreadBuilder("claude").user("Look")
    for number in range(20):
        builder.read(f"src/{number}.py", "x\n")
    page = reader.page(timed(reader, builder, [NOON] * 20 + [NOON + 24 * HOUR]))

    assert 2 == len(re.findall(r'<li class="run-of" id="r\d+"', page))
    assert 2 == page.count('<li class="day"')


def test_a_thread_without_times_offers_none(reader: Reader) -> None:
    """Where the harness writes no times there is no field for one, and no mark."""
    builder = talk(2)
    address = reader.thread(builder)
    (path,) = reader.projects.glob(f"*{builder.id}*")
    path.write_text(re.sub(r'"timestamp": ?"[^"]*"', '"timestamp":""', path.read_text()))
    page = reader.page(address)

    assert [1, 2, 3, 4] == refs(page)
    assert 'name="at"' not in page
    assert "Last hour" not in page
    assert 'class="day"' not in page


def test_a_time_leads_to_the_first_entry_after_it(reader: Reader) -> None:
    """The field of date and time means the server's time; what is past the end is the end."""
    address = timed(reader, talk(120), [NOON + 60 * n for n in range(300)])
    first = datetime.fromtimestamp(NOON + 600).strftime("%Y-%m-%dT%H:%M")

    where = follow(reader, f"{address}?at={first}")
    assert where.endswith("entry=11#e11")
    assert 1 == refs(reader.page(where.partition("#")[0]))[0]
    assert follow(reader, f"{address}?at=2030-01-01T00:00").endswith("#e240")
    assert follow(reader, f"{address}?at=1999-01-01").endswith("#e1")


def test_the_last_hour_is_one_page_that_stays(reader: Reader) -> None:
    """`since=1h` becomes the moment that it means now; the page begins with its first entry."""
    now = time.time()
    address = timed(reader, talk(50), [now - 2 * HOUR] * 40 + [now - 60])
    where = follow(reader, f"{address}?since=1h")

    assert re.search(r"since=\d{4}-\d\d-\d\dT\d\d%3A\d\d%3A\d\d", where)
    page = reader.page(where)
    assert list(range(41, 101)) == refs(page)
    assert "Since " in words(page)
    assert "1 new" not in words(page)
    assert 'data-live="thread:' in page


def test_nothing_in_the_last_hour_says_when_the_end_was(reader: Reader) -> None:
    """An empty answer leads on."""
    address = timed(reader, talk(2), [NOON])
    page = reader.page(follow(reader, f"{address}?since=30min"))

    assert [] == refs(page)
    assert "The last entry is of 4 Mar 12:00 : go to the end" in words(page)


def test_today_and_days(reader: Reader) -> None:
    """Other spans are possible, too."""
    now = time.time()
    address = timed(reader, talk(2), [now - 72 * HOUR, now - 60 * HOUR, now])

    assert [3, 4] == refs(reader.page(follow(reader, f"{address}?since=2d")))
    assert [3, 4] == refs(reader.page(follow(reader, f"{address}?since=today")))
    assert [1, 2, 3, 4] == refs(reader.page(follow(reader, f"{address}?since=1w")))


def test_only_prompts(reader: Reader) -> None:
    """The filter shows what the user wrote; a number leads to its place among all entries."""
    builder = talk(130)
    page = reader.page(f"{reader.thread(builder)}?who=prompts")

    assert "Ask 129" in words(page)
    assert "Say" not in words(page)
    assert "part 2 of 2" in words(page)
    link = re.search(r'<a href="([^"]*entry=259#e259)">#259</a>', page)
    assert link
    there = reader.page(link[1].replace("&amp;", "&").partition("#")[0])
    assert "Say 129" in words(there)


def test_a_search_within_begins_with_the_newest_match(reader: Reader) -> None:
    """Words are marked wherever they stand; links lead to the match before and after."""
    builder = talk(120).user("Where is café_table?").assistant("In `CAFE_TABLES.md`")
    address = reader.thread(builder)
    page = search(reader, address, "cafe_table")

    assert "Entry 2 of 2 that match" in words(page)
    assert "<mark>CAFE_TABLE</mark>S.md" in page
    assert "<mark>café_table</mark>" in page
    (before,) = re.findall(r'id="match-before" href="([^"]*)"', page)
    page = reader.page(before.replace("&amp;", "&").partition("#")[0])
    assert "Entry 1 of 2 that match" in words(page)
    assert 'id="match-before"' not in page
    assert 'id="match-after"' in page
    assert 'data-live=""' in page
    assert "No entry has these words." in words(search(reader, address, "pelican"))


@pytest.mark.parametrize(
    ("searched", "count", "marked"),
    [
        ("\ufb01le", 2, "\ufb01le"), ("FILE", 2, "file"), ("Мой", 1, "мой"), ("STRASSE", 1, ""),
        ("stra\u1e9ee", 1, ""), ("cafés", 1, ""),
    ],
)  # fmt: skip
def test_a_search_within_folds_its_words_as_it_folds_the_text(
    reader: Reader, searched: str, count: int, marked: str
) -> None:
    """Ligatures, letters of other scripts, accents that are characters of their own."""
    builder = talk(1).user("the \ufb01le").assistant("a file").user("мой, Straße, cafe\u0301s")
    page = search(reader, reader.thread(builder.assistant("ok")), searched)

    assert f"Entry {count} of {count} that match" in words(page)
    assert not marked or f"<mark>{marked}</mark>" in page


def test_a_search_within_finds_old_entries_calls_and_phrases(reader: Reader) -> None:
    """What is far from the end, in a command or in its output, is found and opened."""
    builder = ThreadBuilder("claude").user("Run it").shell("make deploy", "all shipped today")
    for number in range(150):
        builder.user(f"Ask {number}").assistant("ok")
    address = reader.thread(builder)

    page = search(reader, address, '"SHIPPED today"')
    assert "Entry 1 of 1 that matches" in words(page)
    assert 2 in refs(page)
    assert "<details open>" in page
    assert "part 1 of 4" in words(page)
    assert "No entry has" in words(search(reader, address, "shipped pelican"))


def test_a_search_within_finds_what_is_shown(reader: Reader) -> None:
    """A secret that is guessed is not confirmed, whole or in part; its mark is found, and words in colour."""
    secret = "ghp_" + "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC2dF4hJ6"
    builder = ThreadBuilder("claude").user("Log in").shell(f"curl -u me:{secret} x.org", "in\x1b[1mvoi\x1b[0mce")  # fmt: skip
    address = reader.thread(builder.user(f"Use {secret}").assistant("Done"))

    for guess in (secret, secret.upper(), secret[4:12], f"Use {secret[:5]}"):
        page = search(reader, address, guess)
        assert "No entry has these words." in words(page)
        assert secret not in page.replace(f'value="{secret}"', "").replace(f"find={secret}", "")
    assert "Entry 1 of 1 that matches" in words(search(reader, address, "curl invoice"))
    assert "Entry 2 of 2 that match" in words(search(reader, address, "redacted"))


def test_a_search_within_goes_on_in_a_thread_that_grows_or_is_rewritten(reader: Reader) -> None:
    """What is kept from the search before is never that of another text."""
    builder = talk(2)
    address = reader.thread(builder)
    assert "Entry 2 of 2 that match" in words(search(reader, address, "say"))
    builder.user("Say more").write(reader.projects)
    assert "Entry 3 of 3 that match" in words(search(reader, address, "say"))
    (path,) = reader.projects.glob(f"*{builder.id}*")
    path.write_text(path.read_text().replace("Say 0", "Nil 0"))

    assert "Entry 2 of 2 that match" in words(search(reader, address, "say"))
    assert "Entry 1 of 1 that matches" in words(search(reader, address, "nil"))
    assert "Entry 1 of 1 that matches" in words(search(reader, f"{address}?who=prompts", "say"))


@pytest.mark.parametrize("text", ["", "   ", '"', '""', "(", "a" * 900, "\x00", "%_*[", "\u202e"])
def test_odd_words_are_searched_as_they_are(reader: Reader, text: str) -> None:
    """Nothing that can be typed is a pattern or a fault."""
    address = reader.thread(talk(2))

    assert "Say 1" in search(reader, address, text)


def test_a_start_is_kept_while_the_thread_grows(reader: Reader) -> None:
    """A reader in the middle of the newest part keeps its first entry, whatever comes."""
    builder = talk(60)
    address = reader.thread(builder)
    assert 101 == refs(reader.page(address))[0]
    for number in range(60, 110):
        builder.user(f"Ask {number}").assistant(f"Say {number}")
    builder.write(reader.projects)

    assert list(range(101, 221)) == refs(reader.page(f"{address}?start=101"))
    assert 201 == refs(reader.page(address))[0]


def test_a_new_part_begins_with_the_one_before(reader: Reader) -> None:
    """The end is never a single entry: the part before is there until it has some of its own."""
    page = reader.page(reader.thread(talk(101)))

    assert list(range(101, 203)) == refs(page)
    assert "#101 to #202" in words(page)


def test_a_watch_tells_each_growth_once(tmp_path: Path) -> None:
    """What changed since a page showed it is news, also if that was before the first look."""
    builder = talk(1)
    path = builder.write(tmp_path)
    watch = ThreadNews()
    topic = watch.watch(path)
    assert set() == watch.find_news()
    builder.user("More").write(path)

    assert {topic} == watch.find_news()
    assert set() == watch.find_news()
    path.unlink()
    assert {topic} == watch.find_news()


def test_an_agent_leads_to_its_last_hour(reader: Reader) -> None:
    """The address of an agent's thread passes on what is asked for; its page names the agent's topic."""
    builder = talk(3)
    timed(reader, builder, [time.time() - 60])
    database = reader.served.fleet.database
    id = fleet_records.agent(database, session=builder.id, host=reader.served.fleet.host)
    where = follow(reader, f"/agents/{id}/thread?since=1h")
    assert where.startswith(f"/threads/claude/{builder.id}?since=1h")
    page = reader.page(follow(reader, where))

    assert [1, 2, 3, 4, 5, 6] == refs(page)
    assert re.search(rf'data-live="thread:[0-9a-f]+ agent:{id}"', page)
    assert f'href="/agents/{id}">agent {id}</a>' in page
    assert f'href="/agents/{id}/thread?since=1h"' in reader.page("/")
    assert f'href="/agents/{id}/thread?since=1h"' in reader.page("/?look=list")


def test_an_agent_without_a_session_is_no_dead_end(reader: Reader) -> None:
    """No button is offered; the address says what is there instead, and leads on."""
    fleet = reader.served.fleet
    begun = fleet_records.agent(fleet.database, host=fleet.host, state="busy", pane="%1")
    ended = fleet_records.agent(
        fleet.database, host=fleet.host, state="ended", ended_at=time.time(), cwd="/home/dev/proj",
        state_at=time.time(), end_reason="its pane was closed",
    )  # fmt: skip
    for page in ("/", "/?look=list", f"/agents/{begun}", f"/agents/{ended}"):
        assert "Read thread" not in reader.page(page)

    page = reader.page(f"/agents/{begun}/thread")
    assert "Its session has not begun, so there is no thread yet." in words(page)
    assert f'href="/agents/{begun}">Its terminal</a>' in page
    assert f'data-live="agent:{begun}"' in page
    page = reader.page(f"/agents/{ended}/thread")
    assert "no thread of it is known. Why it ended: its pane was closed." in words(page)
    assert 'href="/threads?project=/home/dev/proj"' in page
