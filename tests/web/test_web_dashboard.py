"""Who may look at the dashboard and change something, and what its answers let a browser do."""

import html
import re
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import fleet_records
import pytest
import sqlalchemy as sa
from waiting import retry_until
from web_servers import Answer, Served, serving

from tasuki.fleet.agents import goal_queue
from tasuki.fleet.store import queries, tables


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    """A server with one agent."""
    with serving(tmp_path) as made:
        fleet_records.persona(made.fleet.database)
        fleet_records.agent(made.fleet.database, persona=fleet_records.SLUG, state_at=1.0)
        yield made


def signed_in(served: Served, path: str = "/", **headers: str) -> Answer:
    """What a browser with a session is given."""
    given = {"Accept": "text/html,*/*", "Cookie": session(served), **headers}
    return served.ask("GET", path, token="", **given)


def session(served: Served) -> str:
    """The cookie of a browser that was signed in."""
    return f"{served.sessions.cookie_name}={served.sessions.sign_in('a browser')}"


def posted(
    served: Served, path: str, cookie: str, form: bytes = b"reason=full", **headers: str
) -> Answer:
    """A form that was sent."""
    given = {"Content_Type": "application/x-www-form-urlencoded", **headers}
    given["Cookie"] = cookie
    return served.ask("POST", path, form, token="", **given)


@pytest.mark.parametrize("key", ["", "wrong", "é", "\x00", "a" * 3000])
def test_another_key_signs_nobody_in(served: Served, key: str) -> None:
    """A wrong key gives no cookie, and says how to come by the right one."""
    query = urlencode({"key": key})
    answer = served.ask("GET", f"/login?{query}", token="", Host=served.site)

    assert answer.status == 401
    assert "set-cookie" not in answer.headers
    assert b"tasuki dashboard" in answer.body


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/agents/1",
        "/handoffs",
        "/live",
        "/agents/1/terminal",
        "/bulk?do=stop&id=1",
        "/palette",
        "/next",
    ],
)
def test_nothing_is_shown_without_a_session(served: Served, path: str) -> None:
    """Every page needs the session; the operator's token, which pages cannot send, does not stand for it."""
    refused = [served.ask("GET", path, token=token) for token in ("", served.tokens.operator)]

    assert [answer.status for answer in refused] == [401, 401]
    assert not any(b"developer-con-1" in answer.body for answer in refused)


def test_a_change_needs_session_and_origin(served: Served) -> None:
    """A form is taken from a page of this server in a signed-in browser, and from nowhere else."""
    known, own = session(served), served.origin
    refused = {
        "no session": posted(served, "/agents/1/handoff", "", Origin=own).status,
        "no origin": posted(served, "/agents/1/handoff", known).status,
        "another origin": posted(
            served, "/agents/1/handoff", known, Origin="http://evil.example"
        ).status,
        "another port": posted(
            served, "/agents/1/handoff", known, Origin="http://127.0.0.1:1"
        ).status,
        "null": posted(served, "/agents/1/handoff", known, Origin="null").status,
        "to the API": posted(served, "/api/agents/1/handoff", known, Origin=own).status,
    }

    assert refused == {
        "no session": 401, "no origin": 403, "another origin": 403, "another port": 403, "null": 403,
        "to the API": 415,
    }  # fmt: skip
    assert served.ask("GET", "/api/handoffs").json["handoffs"] == []


def test_an_undo_needs_them_too_and_the_key_of_its_note(served: Served) -> None:
    """No other site undoes an order, also not with its key; a key that is guessed undoes nothing."""
    id = fleet_records.agent(served.fleet.database)
    known, own = session(served), served.origin
    muted = posted(served, f"/agents/{id}/mute", known, b"for=1h", Origin=own)
    key = muted.headers["location"].rpartition("undo=")[2].encode()
    given = {
        "no session": posted(served, "/undo", "", b"key=" + key, Origin=own).status,
        "no origin": posted(served, "/undo", known, b"key=" + key).status,
        "another origin": posted(
            served, "/undo", known, b"key=" + key, Origin="http://evil.example"
        ).status,
    }
    guessed = posted(served, "/undo", known, b"key=x", Origin=own, HX_Request="true")
    assert {"no session": 401, "no origin": 403, "another origin": 403} == given
    assert (410, True) == (guessed.status, b"Nothing was changed" in guessed.body)
    assert queries.load_agent(served.fleet.database, id).muted_until is not None
    posted(served, "/undo", known, b"key=" + key, Origin=own)

    assert queries.load_agent(served.fleet.database, id).muted_until is None


def test_a_refused_undo_can_be_tried_again(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """The queue was full: the offer stays, also without scripts, and works once."""
    known, own, database = session(served), served.origin, served.fleet.database
    goal = goal_queue.add_goal(database, fleet_records.SLUG, "First")
    address = f"/personas/{fleet_records.SLUG}/queue/{goal.id}"
    removed = posted(served, address, known, b"do=remove", Origin=own)
    key = removed.headers["location"].partition("undo=")[2].partition("#")[0].encode()
    form = b"key=" + key
    with monkeypatch.context() as change:
        change.setattr(goal_queue, "MOST_WAITING", 0)
        full = posted(served, "/undo", known, form, Origin=own, HX_Request="true")
        assert (full.status, b"Remove some first" in full.body) == (400, True)
        plain = posted(served, "/undo", known, form, Origin=own)
    page = signed_in(served, plain.headers["location"], Cookie=known)
    assert b"Remove some first" in page.body
    assert b'name="key" value="' + key in page.body
    given = [posted(served, "/undo", known, form, Origin=own, HX_Request="true") for _ in "ab"]

    assert [one.status for one in given] == [200, 410]
    assert [one.text for one in goal_queue.load_queue(database, fleet_records.SLUG).goals] == [
        "First"
    ]


def test_another_host_is_refused(served: Served) -> None:
    """A page that reached this server by a name of its own is given nothing."""
    assert signed_in(served, Host="evil.example").status == 421


def test_the_session_does_not_open_the_api(served: Served) -> None:
    """The API wants its token: a cookie is no way around it."""
    assert signed_in(served, "/api/agents").status == 401


def test_what_a_page_may_do(served: Served) -> None:
    """Pages load this server's own scripts and styles alone, and nothing stands in the page itself."""
    answer = signed_in(served)
    policy = dict(
        part.split(" ", 1) for part in answer.headers["content-security-policy"].split("; ")
    )
    page = answer.body.decode()

    assert policy["default-src"] == "'none'"
    assert {policy["script-src"], policy["style-src"], policy["connect-src"]} == {"'self'"}
    assert "unsafe" not in answer.headers["content-security-policy"]
    assert answer.headers["cache-control"] == "no-store"
    assert re.findall(r"\sstyle=|\son\w+=|<style|<script(?! src=\"/static/)", page) == []
    assert re.findall(r"(?:src|href)=\"(?!/|#)", page) == []


def test_assets_are_kept_and_compressed(served: Served) -> None:
    """Scripts and styles have an address of their content, are kept for good, and are sent compressed."""
    page = signed_in(served).body.decode()
    paths = re.findall(r"(?:src|href)=\"(/static/[^\"]+)", page)
    answers = [served.ask("GET", path, token="", Accept_Encoding="gzip") for path in paths]

    assert {"live.js", "page.js", "keyboard.js", "style.css"} <= {
        path[8:].partition("?")[0] for path in paths
    }
    assert {answer.status for answer in answers} == {200}
    assert all("immutable" in answer.headers["cache-control"] for answer in answers)
    assert all(answer.headers["content-encoding"] == "gzip" for answer in answers)


@pytest.mark.parametrize("name", ["nothing.js", "..%2f..%2fsessions.py", "htmx-LICENSE", "vendor"])
def test_no_other_file_is_an_asset(served: Served, name: str) -> None:
    """Only the files of the dashboard are served."""
    assert served.ask("GET", f"/static/{name}", token="").status == 404


@pytest.mark.parametrize(
    "path", ["/nothing", "/agents/99", "/handoffs/abcd", "/agents/99999999999"]
)
def test_what_is_not_there_says_so_as_a_page(served: Served, path: str) -> None:
    """A wrong address is answered with a page and a sentence."""
    answer = signed_in(served, path)

    assert (answer.status, answer.headers["content-type"]) == (404, "text/html; charset=utf-8")
    assert b'role="alert"' in answer.body


@pytest.mark.parametrize(
    "path",
    ["//evil.example/x", "/%2Fevil.example/x", "/%5Cevil.example", "/%09/evil.example", "//evil.example/agents/99",
     "///evil.example", "/%0d%0a/evil.example", "/%20//evil.example", "//evil.example", "/x//evil.example"],
)  # fmt: skip
@pytest.mark.parametrize("known", [True, False])
def test_no_page_leads_to_another_host(served: Served, path: str, known: bool) -> None:
    """Whatever address was asked for, every link of the answer stays on this server, as browsers read it."""
    cookie = session(served) if known else "tasuki=x"
    answer = served.ask("GET", path, token="", Cookie=cookie, Accept="text/html")
    links = re.findall(r"(?:href|src|action|url)=\"?([^\"> ]+)", answer.body.decode())
    moved = answer.headers.get("location", "/")

    assert links
    assert [
        one for one in (*links, moved) if re.match(r"[\s\\/]{2}|\w+:", html.unescape(one))
    ] == []


ODD_PATHS = (
    "/agents/1%00", "/agents/-1", "/agents/1/thread?entry=-4",
    "/handoffs/%00", "/handoffs/%ed%a0%80", "/personas/%ed%a0%80", "/lineage?persona=%ed%a0%80%00",
    "/lineage?project=%00", "/threads?q=%ed%a0%80", "/threads?q=%22", "/threads?q=after:zz",
    "/threads/claude/%00", "/threads/nobody/x", "/threads/claude/x?path=/etc/passwd", "/briefs/%00",
    "/briefs?q=%ed%a0%80%00", "/drafts/%00", f"/?q={'x' * 5000}", f"/bulk?{'id=1&' * 3000}", "/?look=x&by=y&sort=z", "/bulk?do=x",
    "/bulk?id=99999999999999", "/next?after=-1", "/alerts/toasts?after=x", "/alerts?before=-5", "/alerts?before=99999999999999999999",
    "/settings/hooks/nobody", "/static/%2e%2e/x", "/login?key=%ed%a0%80",
)  # fmt: skip
ODD_FORMS = (
    ("/agents/1/handoff", b""), ("/agents/1/handoff", b"reason=" + b"x" * 5000), ("/agents/new", b"cwd=%00"), ("/agents/new", b"cwd=/nowhere&persona=%00"),
    ("/agents/adopt", b"pane=%251&harness=%00"), ("/personas", b"role=a&name=%00&skill=%ed%a0%80"),
    ("/settings/threshold", b"context_threshold=1e9"), ("/settings/notifications", b"notify=%00&about=x"),
    ("/settings/automation/%00", b"automatic=on"), ("/alerts/seen", b"up_to=99999999999999999999"),
    ("/agents/1/handoff", b"&".join([b"a=1"] * 5000)), ("/agents/1/handoff", b"reason=" + b"y" * 2_000_000),
    ("/briefs/prune", b"days=x"), ("/drafts/x/cancel", b""),
)  # fmt: skip


@pytest.mark.parametrize("path", ODD_PATHS, ids=lambda path: path[:40])
def test_odd_addresses_are_answered(served: Served, path: str) -> None:
    """Whatever is asked for is answered with a page: no fault of the server's own."""
    assert signed_in(served, path).status < 500


@pytest.mark.parametrize(("path", "body"), ODD_FORMS, ids=lambda it: str(it)[:30])
def test_odd_forms_are_refused(served: Served, path: str, body: bytes) -> None:
    """A form that makes no sense is refused with a sentence."""
    answer = served.ask(
        "POST", path, body, token="", Cookie=session(served), Origin=served.origin,
        Content_Type="application/x-www-form-urlencoded",
    )  # fmt: skip

    assert 400 <= answer.status < 500
    assert b'role="alert"' in answer.body


def test_streams_that_are_left_leave_nothing_behind(served: Served) -> None:
    """Two hundred pages that are opened and left leave no stream, and no thread."""
    known, before = session(served), threading.active_count()
    for number in range(200):
        with socket.create_connection(("127.0.0.1", served.port), timeout=10) as page:
            page.sendall(f"GET /live HTTP/1.1\r\nHost: {served.site}\r\nCookie: {known}\r\n\r\n".encode())  # fmt: skip
            if number % 3:
                page.recv(100)
    pages = served.pages

    retry_until(lambda: not pages.streams)
    retry_until(lambda: threading.active_count() <= before + 3)


HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(1)>\u202eevil\x1b[31m\"'`{{7*7}}"


def test_hostile_words_are_words(served: Served) -> None:
    """Markup, directions and escape sequences of agents are shown as text, or not at all."""
    database = served.fleet.database
    fleet_records.agent(
        database, cwd=f"/{HOSTILE}", waiting_for=HOSTILE, state="waiting", pane=f"%3{HOSTILE}",
        goal=HOSTILE, end_reason=HOSTILE, model=HOSTILE, children=[HOSTILE], session=HOSTILE,
    )  # fmt: skip
    fleet_records.handoff(
        database, "ab" * 16, 1, state="failed", step="check", reason=HOSTILE, context=HOSTILE,
        notes=[HOSTILE], file_path=f"/tmp/{HOSTILE}",
        failure={"code": "unexpected", "step": "check", "sentence": HOSTILE, "remedy": HOSTILE},
    )  # fmt: skip
    for path in ("/", "/agents/2", "/agents/1", "/handoffs", f"/handoffs/{'ab' * 16}", "/agents/new",
                 f"/?{urlencode({'q': HOSTILE, 'project': HOSTILE})}", f"/{urlencode({'x': HOSTILE})}"):  # fmt: skip
        page = signed_in(served, path).body.decode()

        assert "<script>alert" not in page, path
        assert "<img" not in page, path
        assert "\u202e" not in page, path
        assert "\x1b" not in page, path


def test_a_document_that_is_hostile(served: Served, tmp_path: Path) -> None:
    """A document's own markup, images and odd links do nothing; raw it is text that runs nothing."""
    document = tmp_path / "d.md"
    document.write_text(
        "# Hi\n\n<script>alert(1)</script>\n\n<div onclick=alert(1)>x</div>\n\n[a](javascript:alert(1)) "
        "[b](data:text/html,x) ![c](http://evil.example/p.png) [d](https://example.org/) [e][1] \u202erev\n\n"
        "[1]: javascript:alert(1)\n\n" + "x" * 1_000_000 + " sk-ant-api03-" + "A1b2" * 24
    )  # fmt: skip
    fleet_records.handoff(
        served.fleet.database, "cd" * 16, 1, state="done", file_path=str(document)
    )
    page = signed_in(served, f"/handoffs/{'cd' * 16}").body.decode()
    raw = signed_in(served, f"/handoffs/{'cd' * 16}/document.md")

    assert "<script>alert" not in page
    assert "<div onclick" not in page
    assert "<img" not in page
    assert (
        re.findall(r'href="(?!/|#|https://example\.org/|http://evil\.example/p)[^"]*', page) == []
    )
    assert "\u202e" not in page
    assert (len(page) < 400_000, "more characters are not shown" in page) == (True, True)
    assert raw.headers["content-type"] == "text/plain; charset=utf-8"
    assert "sandbox" in raw.headers["content-security-policy"]
    assert b"sk-ant-api03-A1b2" not in raw.body


def test_the_first_page_is_small(served: Served) -> None:
    """With 200 agents the first page with all that it loads is below 100 KB on the wire, and shows every one."""
    words = "Rounding is now half-even everywhere. Next I would start on the export, which touches files."
    for number in range(200):
        slug = f"developer-longername-{number + 1}"
        fleet_records.persona(served.fleet.database, slug)
        fleet_records.agent(
            served.fleet.database, persona=slug, cwd=f"/home/you/src/project-{number % 7}", context_used=88,
            context_tokens=176_000, context_window=200_000, session=f"s{number}", last_words=words,
        )  # fmt: skip
    answer = signed_in(served)
    sent = signed_in(served, Accept_Encoding="gzip")
    page = answer.body.decode()
    assets = re.findall(r"(?:src|href)=\"(/static/[^\"]+)", page)
    loaded = sum(len(served.ask("GET", a, token="", Accept_Encoding="gzip").body) for a in assets)

    assert len(sent.body) + loaded < 100_000
    assert page.count('<li class="card') == 201


def test_lost_agents_are_carried_on_from_the_fleets_page(served: Served) -> None:
    """The page offers it while there are any; the form says which, and why one cannot be."""
    database = served.fleet.database
    before = signed_in(served).body
    fleet_records.persona(database, "developer-kim-1")
    id = fleet_records.agent(
        database, persona="developer-kim-1", state="lost", ended_at=2.0, host=served.fleet.host
    )
    offered, form = signed_in(served).body, signed_in(served, "/agents/recover").body
    sent = posted(served, "/agents/recover", session(served), Origin=served.origin)
    done = signed_in(served, sent.headers["location"])

    assert (b"/agents/recover" in before, b"/agents/recover" in offered) == (False, True)
    assert (f"/agents/{id}".encode() in form, b"has no thread" in form) == (True, True)
    assert (sent.status, b"has no thread" in done.body) == (303, True)


def test_an_agent_that_runs_is_seen_behind_any_number_that_ended(served: Served) -> None:
    """Agents that ended lately take the place of no agent that runs, however many they are."""
    database = served.fleet.database
    agent = fleet_records.agent(database, pane="%1", adopted=True)
    for _ in range(520):
        fleet_records.agent(database, state="ended", ended_at=time.time(), cwd="/src/over")
    page = signed_in(served, "/").body.decode()

    assert f'id="agent-{agent}"' in page


def test_an_old_failed_handoff_is_seen_behind_any_number_of_newer_ones(served: Served) -> None:
    """Failed ones stand first and are counted over all; others go page by page."""
    database = served.fleet.database
    old = "f" * 32
    with database.write() as connection:
        row = {
            "agent_id": 1,
            "persona": fleet_records.SLUG,
            "reason": "r",
            "step": "deliver",
            "host": "h",
            "queue": "q",
        }
        rows = [
            {**row, "id": f"{n:032x}", "state": "cancelled", "created_at": 1000.0 + n}
            for n in range(620)
        ]
        connection.execute(sa.insert(tables.handoffs), [*rows, {**row, "id": old, "state": "failed", "created_at": 1.0}])  # fmt: skip

    def links(page: str) -> set[str]:
        return set(re.findall(r'rel="(\w+)"', page)) & {"next", "prev"}

    first = signed_in(served, "/handoffs").body.decode()
    done = [
        signed_in(served, f"/handoffs?show=cancelled&page={n}").body.decode() for n in (1, 7, 8)
    ]

    assert old in first
    assert re.search(r'Failed <span class="num">1<', first)
    assert re.search(r'Cancelled <span class="num">620<', first)
    assert "Page 1 of 7" in done[0]
    assert [("next" in kinds, "prev" in kinds) for kinds in map(links, done)] == [
        (True, False),
        (False, True),
        (False, True),
    ]
    assert f"{0:032x}" in done[1]
    assert "None here" in done[2]
    assert signed_in(served, "/handoffs?page=0").status == 400
