"""Pages of a fleet with two hosts, by the rows that the other one left: no process of it is needed."""

import asyncio
import html
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fleet_records
import pytest
import sqlalchemy as sa
from databases import Postgres
from visitors import Visitor, words
from waiting import retry_until
from web_servers import Served, serving

from tasuki.fleet.store import tables
from tasuki.fleet.store.database import FleetDatabase
from tasuki.web import page_news
from tasuki.web.live import EventStream
from tasuki.web.page_news import EVERYTHING, PageStreams
from tasuki.web.pages.threads import remote
from tasuki.web.views.hosts import ShownHost, list_fleet_hosts
from tasuki_testing import story

OTHER = "h0123456789ab"


def host(database: FleetDatabase, id: str, label: str, age: float = 0.0, **details: Any) -> None:
    """The row of a host that was seen some seconds ago."""
    now = time.time()
    row = {
        "id": id, "label": label, "version": "1.0", "started_at": now - 100, "last_seen": now - age,
        "details": {"load": 1.5, "processors": 8, **details},
    }  # fmt: skip
    with database.write() as connection:
        connection.execute(sa.insert(tables.hosts).values(**row))


def set_age(database: FleetDatabase, id: str, age: float) -> None:
    """As if a host had been seen some seconds ago for the last time."""
    with database.write() as connection:
        own = tables.hosts.c.id == id
        connection.execute(sa.update(tables.hosts).where(own).values(last_seen=time.time() - age))


@pytest.fixture
def served(tmp_path: Path, postgres: Postgres) -> Iterator[Served]:
    """This host, "h", with an agent, on PostgreSQL."""
    url = postgres.make()
    with serving(tmp_path, url) as made:
        host(made.fleet.database, "h", "laptop")
        fleet_records.persona(made.fleet.database)
        fleet_records.agent(made.fleet.database, persona=fleet_records.SLUG, cwd="/here/project")
        yield made
    postgres.drop(url)


@pytest.fixture
def two(served: Served) -> Served:
    """And another host, with an agent that works."""
    database = served.fleet.database
    host(database, OTHER, "build2", clock_offset=-42.0)
    fleet_records.persona(database, "reviewer-ann-1")
    fleet_records.agent(
        database, persona="reviewer-ann-1", host=OTHER, state="busy", cwd="/there/project",
        session="5e55104d-0000-4000-8000-000000000001", pane="%1", ordered_at=1.0,
    )  # fmt: skip
    return served


def section(page: str, label: str) -> str:
    """What the section of a host says on the fleet page."""
    (found,) = [
        part for part in re.findall(r"<section.*?</section>", page, re.DOTALL)
        if f">{html.escape(label)}</a></h2>" in part
    ]  # fmt: skip
    return words(found)


# -- the fleet page --------------------------------------------------------------------


def test_one_host_is_not_named(served: Served) -> None:
    """One host on PostgreSQL: the pages are those of a fleet on SQLite, without a word of hosts."""
    visitor = Visitor(served)
    pages = [visitor.page(path) for path in ("/", "/agents/1", "/agents/new", "/agents/1/handoff")]

    assert not any("laptop" in page or "/hosts" in page for page in pages)
    assert ["Needs you", "Working", "Quiet"] == re.findall(r'<h2 id="g-\w+">([^<]+)</h2>', pages[0])


def test_agents_are_grouped_by_host(two: Served) -> None:
    """Each host has its section: state, agents, load, a clock that is off; and its agents' cards."""
    page = Visitor(two).page("/")
    here, there = section(page, "laptop"), section(page, "build2")

    assert "Alive , this host 1 agent load 1.5 on 8 cores" in here
    assert "developer-con-1" in here
    assert "Alive 1 agent load 1.5 on 8 cores Its clock is 42 s slow" in there
    assert "reviewer-ann-1" in there
    assert "developer-con-1" not in there
    assert 'href="/hosts"' in page


def test_what_needs_the_operator_comes_first(two: Served) -> None:
    """An agent that waits is in the first list, whichever host it is on; its card names the host."""
    database = two.fleet.database
    fleet_records.agent(database, host=OTHER, state="waiting", waiting_for="May I?", cwd="/x")
    page = Visitor(two).page("/")
    needs = page[page.index('id="cards-needs"') : page.index("</ul>", page.index("cards-needs"))]

    assert "May I?" in needs
    assert "build2" in needs
    assert "May I?" not in section(page, "build2")


def test_a_host_that_is_away_keeps_its_agents(two: Served) -> None:
    """They stay, grey, with since when; none is called lost, and none needs the operator."""
    database = two.fleet.database
    fleet_records.agent(database, host=OTHER, state="waiting", waiting_for="May I?", cwd="/x")
    set_age(database, OTHER, 600)
    page = Visitor(two).page("/")
    there = section(page, "build2")

    assert re.search(r"Away since \d\d:\d\d:\d\d 2 agents", there)
    assert "reviewer-ann-1" in there
    assert "build2 is away." in there
    assert "Before that: busy." in there
    assert "Before that: waiting for you." in there
    assert 2 == page.count('class="card away"')
    assert "lost" not in words(page).lower()
    assert "Hand off" not in there


def test_cards_of_one_host_can_be_chosen(two: Served) -> None:
    """A filter by host; the others' sections are hidden."""
    page = Visitor(two).page(f"/?host={OTHER}")

    assert "reviewer-ann-1" in section(page, "build2")
    assert "developer-con-1" not in words(page)


# -- live ------------------------------------------------------------------------------


def test_the_watch_finds_who_went_away(two: Served) -> None:
    """No line of the log says it: the host and its agents are news once, and again when it is back."""
    database = two.fleet.database
    pages = PageStreams(two.fleet)
    pages.streams.add(EventStream())
    nothing = [pages.find_host_news(), pages.find_host_news()]
    set_age(database, OTHER, 600)
    away, still = pages.find_host_news(), pages.find_host_news()
    set_age(database, OTHER, 0)
    back = pages.find_host_news()
    host(database, "habcdefabcdef", "third")
    joined = pages.find_host_news()

    assert [False, False] == [bool(news) for news in nothing]
    assert {"hosts", "agents", "agent:2"} == away == back
    assert not still
    assert {EVERYTHING} == joined


def test_what_is_seen_after_the_last_page_was_closed_is_forgotten(
    two: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next page that is opened compares with what it shows itself."""
    pages = PageStreams(two.fleet)

    async def look() -> tuple[object, set[str]]:
        stream = pages.stream_pieces(0)
        await anext(stream)
        await anext(stream)
        begun, loop = pages.known_hosts, asyncio.get_running_loop()

        def close_meanwhile(database: FleetDatabase) -> list[ShownHost]:
            asyncio.run_coroutine_threadsafe(stream.aclose(), loop).result(20)
            set_age(database, OTHER, 600)
            return list_fleet_hosts(database)

        monkeypatch.setattr(page_news, "list_fleet_hosts", close_meanwhile)
        return begun, await asyncio.to_thread(pages.find_host_news)

    begun, news = asyncio.run(look())
    pages.close()

    assert begun
    assert (news, pages.known_hosts) == (set(), None)


def test_an_open_page_is_told(two: Served) -> None:
    """Its browser hears that hosts and agents changed; the page, fetched again, differs in their parts alone."""
    import http.client

    visitor = Visitor(two)
    page = visitor.page("/")
    version = re.search(r'data-version="([0-9a-f]+)"', page)
    assert version
    connection = http.client.HTTPConnection("127.0.0.1", two.port, timeout=30)
    connection.request("GET", "/live", headers={"Host": two.site, "Cookie": visitor.cookie})
    answer = connection.getresponse()
    retry_until(lambda: two.pages.known_hosts)
    set_age(two.fleet.database, OTHER, 600)
    read = b""
    while b'"hosts"' not in read:
        assert read.count(b":\n\n") < 3, read  # it was silent for that long
        read += answer.readline()
    connection.close()
    headers = {"Host": two.site, "Cookie": visitor.cookie, "If-None-Match": f'"{version[1]}"'}
    again = http.client.HTTPConnection("127.0.0.1", two.port, timeout=30)
    again.request("GET", "/", headers=headers)
    changed = again.getresponse().read().decode()
    again.close()

    assert b'"agent:2"' in read
    assert 'class="card away' in changed
    assert '<li id="agent-1" data-same></li>' in changed


# -- the page of hosts -----------------------------------------------------------------


def test_hosts_are_listed(two: Served) -> None:
    """State, load, version, clock, harnesses that are ready, agents; and how one joins, without a token."""
    harnesses = [
        {"name": "claude", "program": "/usr/bin/claude", "hooks": True, "login": "yes"},
        {"name": "codex", "program": "/usr/bin/codex", "hooks": False, "login": "no"},
    ]
    host(two.fleet.database, "habcdefabcdef", "<b>third</b>", 600, harnesses=harnesses)
    page = Visitor(two).page("/hosts")
    said = words(page)

    assert "build2" in said
    assert "Its clock is 42 s slow" in said
    assert "Claude Code /usr/bin/claude" in said
    assert "/usr/bin/codex without the fleet’s hooks" in said
    assert "tasuki host add user@box" in said
    assert "<b>third" not in page
    assert 1 == page.count("Give up …")


def test_a_fleet_on_sqlite_says_what_several_hosts_need(tmp_path: Path) -> None:
    """One host, no action on it, and what to start for more."""
    with serving(tmp_path) as made:
        host(made.fleet.database, "h", "laptop")
        visitor = Visitor(made)
        said, settings = words(visitor.page("/hosts")), visitor.page("/settings/server")
        fleet = visitor.page("/")

    assert "The fleet has one host." in said
    assert "--database-url" in said
    assert "Give up" not in said
    assert 'href="/hosts"' in settings
    assert 'href="/hosts"' not in fleet


def test_a_host_is_renamed(two: Served) -> None:
    """A name of another host is refused beside the form, and stays typed."""
    visitor = Visitor(two)
    twice = visitor.post(f"/hosts/{OTHER}/label", label="LAPTOP")
    done = visitor.post(f"/hosts/{OTHER}/label", label="big box")
    unknown = visitor.post("/hosts/h000000000000/label", label="x")

    assert 400 == twice.status
    assert "is called laptop already" in words(twice.body.decode())
    assert 'value="LAPTOP"' in twice.body.decode()
    assert (303, f"/hosts#{OTHER}") == (done.status, done.headers["location"])
    assert "big box" in visitor.page("/")
    assert 404 == unknown.status


def test_giving_up_shows_what_would_be_lost(two: Served) -> None:
    """Each agent, and whether its thread is in the database; a host that lives is not given up."""
    visitor = Visitor(two)
    alive = words(visitor.page(f"/hosts/{OTHER}/give-up"))
    refused = visitor.post(f"/hosts/{OTHER}/give-up")
    set_age(two.fleet.database, OTHER, 600)
    form = words(visitor.page(f"/hosts/{OTHER}/give-up"))
    done = visitor.post(f"/hosts/{OTHER}/give-up")
    recovery = words(visitor.page(done.headers["location"]))
    fleet = visitor.page("/")

    assert "is alive" in alive
    assert "Give it up" not in alive
    assert 400 == refused.status
    assert "Agent 2 , reviewer-ann-1: its thread is not in the database" in form
    assert "Give it up" in form
    assert (303, "/agents/recover") == (done.status, done.headers["location"])
    assert "Of build2, which was given up" in recovery
    assert "Given up since" in section(fleet, "build2")
    assert "Lost" in words(fleet[fleet.index('id="cards-needs"') :])


def test_a_host_is_retired(two: Served) -> None:
    """Not while agents live there; afterwards the fleet has one host again."""
    visitor = Visitor(two)
    form = words(visitor.page(f"/hosts/{OTHER}/retire"))
    refused = visitor.post(f"/hosts/{OTHER}/retire")
    with two.fleet.database.write() as connection:
        own = tables.agents.c.host == OTHER
        connection.execute(
            sa.update(tables.agents).where(own).values(ended_at=time.time(), state="ended")
        )
    done = visitor.post(f"/hosts/{OTHER}/retire")

    assert "1 agent of it has not ended" in form
    assert 400 == refused.status
    assert (303, "/hosts") == (done.status, done.headers["location"])
    assert "build2" not in words(visitor.page("/hosts"))


# -- an agent of another host ----------------------------------------------------------


def test_an_agent_of_a_host_that_is_away(two: Served) -> None:
    """Its page says so; each order is refused with the sentence, and nothing is begun."""
    visitor = Visitor(two)
    set_age(two.fleet.database, OTHER, 600)
    page = words(visitor.page("/agents/2"))
    sent = visitor.post("/agents/2/send", text="Hello")
    key = visitor.post("/agents/2/keys", key="Enter")
    stop = visitor.post("/agents/2/stop")
    handoff = visitor.post("/agents/2/handoff", reason="full")
    start = visitor.post("/agents/new", cwd="/x", host=OTHER)
    adopt = visitor.post("/agents/adopt", pane="%3", harness="claude", host=OTHER)
    answers = [stop, handoff, start, adopt]
    back = [visitor.page(one.headers["location"].partition("#")[0]) for one in (sent, key)]

    assert "Host away" in page
    assert "The host build2 is away: it was last seen 10 minutes ago." in page
    assert [409] * 4 == [answer.status for answer in answers]
    assert all(b"The host build2 is away" in answer.body for answer in answers)
    assert all("The host build2 is away" in words(page) for page in back)
    assert "Hello</textarea>" in back[0]
    assert [] == two.ask("GET", "/api/handoffs").json["handoffs"]


def test_forms_offer_the_hosts(two: Served) -> None:
    """The form of a new agent and that of a handoff have a choice; a host that is away is named so."""
    visitor = Visitor(two)
    set_age(two.fleet.database, OTHER, 600)
    new, form = visitor.page("/agents/new"), visitor.page("/agents/1/handoff")

    assert "build2 (away)" in new
    assert "laptop (this host)" in new
    assert "Folder on that host, whole path" in new
    assert "laptop: it stays there" in form
    assert "build2 (away)" in form


def test_the_obstacles_of_a_move_are_shown_before_it_begins(two: Served) -> None:
    """Chosen without a script, the form comes back with them, what was typed, and no button."""
    visitor = Visitor(two)
    set_age(two.fleet.database, OTHER, 600)
    shown = visitor.page(f"/agents/1/handoff?host={OTHER}&reason=too+slow")
    sent = visitor.post("/agents/1/handoff", host=OTHER, reason="too slow")
    begun = visitor.post(
        "/agents/1/handoff", host=OTHER, reason="too slow", previewed=f"{OTHER}||||"
    )

    for page in (shown, sent.body.decode()):
        assert "The host build2 is away" in page
        assert 'value="too slow"' in page
        assert "Move developer-con-1 to" not in page
        assert ">Hand off developer-con-1</button>" not in page
    assert 400 == begun.status
    assert "cannot move to build2" in words(begun.body.decode())
    assert [] == two.ask("GET", "/api/handoffs").json["handoffs"]


def test_a_move_shows_both_hosts(two: Served) -> None:
    """Its legs by host, where the work goes, and what was undone after a failure."""
    move = {
        "kind": "move", "folder": "/there/repo", "place": "/there/repo", "in_place": True,
        "undone": "The worktree /there/repo-2 was removed.", "left_out": ["Ignored files stay."],
    }  # fmt: skip
    failure = {"code": "no_place", "step": "unpack", "sentence": "No place.", "remedy": "Make one."}
    fleet_records.handoff(
        two.fleet.database, "ab" * 16, 1, target_host=OTHER, move=move, state="failed",
        step="unpack", failure=failure, finished_at=time.time(),
    )  # fmt: skip
    page = Visitor(two).page(f"/handoffs/{'ab' * 16}")
    said = words(page)

    assert "From laptop to build2 . Its work goes on in /there/repo" in said
    assert "Undone on build2: The worktree /there/repo-2 was removed." in said
    assert "Ignored files stay." in said
    legs = re.findall(r'class="h4 leg">([^<]+)<', page)
    assert ["laptop", "build2", "laptop", "build2"] == legs


def test_a_document_of_another_host_comes_from_the_database(two: Served) -> None:
    """With its citations as links to the thread there."""
    from tasuki.fleet.exchange.shared_files import store_document

    database, id = two.fleet.database, "cd" * 16
    fleet_records.handoff(
        database, id, 2, persona="reviewer-ann-1", host=OTHER, file_path="/there/handoff.md"
    )
    store_document(
        database,
        id,
        "# Progress\n\nThe retries work [#5]. ghp_" + "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC2dF4hJ6",
    )
    visitor = Visitor(two)
    page = visitor.page(f"/handoffs/{id}")
    raw = visitor.get(f"/handoffs/{id}/document.md").body

    assert "The retries work" in page
    assert 'href="/agents/2/thread?entry=5#e5"' in page
    assert b"The retries work [#5]" in raw
    assert b"ghp_" not in raw


def test_an_agent_of_a_host_that_was_given_up(two: Served) -> None:
    """Its form offers this host at once, and says what stays on the old one."""
    set_age(two.fleet.database, OTHER, 600)
    visitor = Visitor(two)
    visitor.post(f"/hosts/{OTHER}/give-up")
    page = visitor.page("/agents/2/handoff?from=thread")
    said = words(page)

    assert "A move to laptop" in said
    assert 'value="Its host was given up"' in page
    assert "It cannot begin." in said
    assert "What agent 2 had not pushed stays on its old host" in said
    assert f'<option value="{OTHER}"' not in page
    assert "--to-cwd" not in said


PAGES = (
    "/?show=needs", "/?show=working", "/?look=list", "/palette", "/bulk?do=stop&id=1&id=2", "/agents/2/handoff",
    "/agents/2/stop", "/agents/recover", "/handoffs", "/handoffs?show=failed", "/personas",
    "/personas/reviewer-ann-1", "/lineage?persona=reviewer-ann-1", "/threads", "/settings", "/alerts",
)  # fmt: skip


@pytest.mark.parametrize("age", [1, 600])
def test_every_page_works_with_an_agent_of_another_host(two: Served, age: float) -> None:
    """Whether that host lives or not: none looks for its files here, and none fails."""
    database = two.fleet.database
    fleet_records.handoff(
        database, "ef" * 16, 2, persona="reviewer-ann-1", host=OTHER, state="failed",
        file_path="/there/handoff.md", step="check", finished_at=time.time(),
        failure={"code": "x", "step": "check", "sentence": "No.", "remedy": "Retry."},
    )  # fmt: skip
    set_age(database, OTHER, age)
    visitor = Visitor(two)
    statuses = {path: visitor.get(path).status for path in PAGES}

    assert dict.fromkeys(PAGES, 200) == statuses


def test_a_persona_of_another_host_is_fetched(two: Served) -> None:
    """Its skill, as that host wrote it into the database, is on the page and in this host's folder."""
    database = two.fleet.database
    with database.write() as connection:
        values = {"slug": "reviewer-ann-1", "name": "skill.md", "content": "Read it twice.", "changed_at": 1.0, "host": OTHER}  # fmt: skip
        connection.execute(sa.insert(tables.persona_files).values(**values))
    page = Visitor(two).page("/personas/reviewer-ann-1")
    (file,) = two.fleet.root.rglob("reviewer-ann-1/skill.md")

    assert "Read it twice." in page
    assert "Read it twice." in file.read_text()


# -- its thread ------------------------------------------------------------------------


def test_the_thread_of_another_host_when_that_is_away(two: Served) -> None:
    """A sentence, and that there is no copy; nothing of this host is opened in its place."""
    set_age(two.fleet.database, OTHER, 600)
    answer = Visitor(two).get("/agents/2/thread?entry=3")
    said = words(answer.body.decode())

    assert 409 == answer.status
    assert "The host build2 is away" in said
    assert "no copy of it" in said
    assert "Show the copy" not in said


def test_a_peek_at_an_agent_of_a_host_that_is_away(two: Served) -> None:
    """Its messages are there; the peek says so and shows the rest at once."""
    with two.fleet.database.write() as connection:
        connection.execute(sa.update(tables.agents).values(session="s"))
    set_age(two.fleet.database, OTHER, 600)
    said = words(Visitor(two).page("/agents/2/peek"))

    assert "reviewer-ann-1" in said
    assert "The host build2 is away" in said


def test_what_a_host_answers_about_a_thread(served: Served, tmp_path: Path) -> None:
    """The view of a page, cleaned of secrets where the file is, as data that come back as they were."""
    import msgspec

    builder = story("claude")
    secret = "ghp_" + "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC2dF4hJ6"
    builder.user(f"The token is {secret}")
    path = builder.write(tmp_path / "projects")
    fleet = served.fleet
    with fleet.database.write() as connection:
        connection.execute(sa.update(tables.agents).values(session=builder.id, thread=str(path)))
    asked = {"id": 1, "query": {"entry": 0}, "from": "k"}
    answer = fleet.requests.carry_out("", remote.read_thread_part.name, asked)
    view = msgspec.convert(answer, remote.ThreadView)
    last = view.part.items[-1]
    asked = {"id": 1, "entry": last.ref, "from": "k"}
    entry = fleet.requests.carry_out("", remote.read_thread_entry.name, asked)

    assert str(path) == view.thread.path
    assert view.part.last == last.ref
    assert "The token is" in last.text
    assert "The token is" in entry
    assert secret not in f"{answer}{entry}"
