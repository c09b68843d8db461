"""Links sign a browser in once; its session is known to the server alone, is listed, and ends."""

import re
import socket
import threading
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path

import pytest
from waiting import retry_until
from web_servers import Answer, Served, serving

from tasuki.fleet.store.database import FleetDatabase
from tasuki.web.security import sessions as sessions_module
from tasuki.web.security.access import ServerHosts, ServerTokens
from tasuki.web.security.sessions import (
    IDLE_SECONDS,
    KEY_SECONDS,
    MOST_KEYS,
    SESSION_SECONDS,
    BrowserSessions,
    SignInKeys,
)
from tasuki.web.server import listen


@pytest.fixture
def served(tmp_path: Path, database_url: str) -> Iterator[Served]:
    """A server, on each kind of database."""
    with serving(tmp_path, "" if database_url.startswith("sqlite") else database_url) as made:
        yield made


def open_link(served: Served, link: str, host: str = "") -> Answer:
    """What a browser is given behind a link."""
    path = link.partition(served.site)[2]
    return served.ask("GET", path, token="", Host=host or served.site, User_Agent="Firefox 150")


def sign_in(served: Served) -> str:
    """The cookie of a browser that used a new link."""
    return open_link(served, served.link).headers["set-cookie"].partition(";")[0]


def status(served: Served, cookie: str, path: str = "/") -> int:
    """How a page is answered to a cookie."""
    return served.ask("GET", path, token="", Cookie=cookie).status


def post(served: Served, path: str, cookie: str, body: bytes = b"") -> Answer:
    """A form that a page sends."""
    return served.ask(
        "POST", path, body, token="", Cookie=cookie, Origin=served.origin,
        Content_Type="application/x-www-form-urlencoded",
    )  # fmt: skip


def test_a_link_signs_one_browser_in(served: Served) -> None:
    """The link of the API sets a cookie that no script reads and no other site sends; used again it is over."""
    made = served.ask("POST", "/api/login").json
    before = served.ask("GET", f"/api/login/{made['id']}").json
    first, second = open_link(served, made["link"]), open_link(served, made["link"])
    given = first.headers["set-cookie"]

    assert made["link"].startswith(f"http://{served.site}/login?key=")
    assert (first.status, second.status) == (200, 401)
    assert "set-cookie" not in second.headers
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(given.split("; "))
    assert "Domain" not in given
    assert status(served, given.partition(";")[0]) == 200
    assert before == {"state": "unused"}
    assert served.ask("GET", f"/api/login/{made['id']}").json == {"state": "used"}


def test_a_key_is_over_after_a_minute() -> None:
    """A key that nobody used within its time signs nobody in, nor one that many newer ones followed."""
    now = [0.0]
    keys = SignInKeys(lambda: now[0])
    late, used = keys.make_key(), keys.make_key()
    now[0] = KEY_SECONDS - 1
    assert keys.use_key(used.key)
    now[0] = KEY_SECONDS
    early = keys.make_key()
    for _ in range(MOST_KEYS):
        keys.make_key()

    assert not keys.use_key(late.key)
    assert not keys.use_key(used.key)
    assert not keys.use_key(early.key)
    assert keys.get_key_state(late.id) == "over"


def test_a_key_is_used_once_by_many_at_once() -> None:
    """Of those who use one key at the same moment one is signed in."""
    keys = SignInKeys()
    key, taken = keys.make_key().key, []
    threads = [threading.Thread(target=lambda: taken.append(keys.use_key(key))) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)

    assert sorted(taken) == [False] * 15 + [True]


def test_a_session_that_was_signed_out_is_over(served: Served) -> None:
    """The cookie opens nothing behind *Sign out*, nor after the server was started again."""
    cookie, other = sign_in(served), sign_in(served)
    known = status(served, cookie)
    left = post(served, "/logout", cookie)
    again = BrowserSessions(served.fleet.database, served.tokens, served.fleet.host)
    again.load()

    assert (known, left.status) == (200, 200)
    assert "Max-Age=0" in left.headers["set-cookie"]
    assert status(served, cookie) == 401
    assert again.find_session(cookie.partition("=")[2]) is None
    assert again.find_session(other.partition("=")[2]) is not None


def test_sessions_are_listed_and_ended(served: Served) -> None:
    """The API lists the browsers that are signed in, and signs out one or all; a page does the same."""
    first, second, third = (sign_in(served) for _ in range(3))
    found = served.ask("GET", "/api/sessions").json["sessions"]
    ids = sorted(one["id"] for one in found)
    page = served.ask("GET", "/settings/browsers", token="", Cookie=second).body.decode()
    ended = served.ask("POST", f"/api/sessions/{ids[0]}/end")
    after_one = [status(served, cookie) for cookie in (first, second, third)]
    unknown = served.ask("POST", f"/api/sessions/{ids[0]}/end")
    by_page = post(served, "/settings/sessions/end", second, f"id={ids[2]}".encode())
    after_two = [status(served, cookie) for cookie in (first, second, third)]
    everyone = served.ask("POST", "/api/sessions/end").json

    assert {one["user_agent"] for one in found} == {"Firefox 150"}
    assert page.count("Firefox 150") == 3
    assert (ended.status, unknown.status, by_page.status) == (200, 400, 303)
    assert after_one == [401, 200, 200]
    assert after_two == [401, 200, 401]
    assert everyone == {"ended": 1}
    assert status(served, second) == 401


def test_an_open_page_ends_with_its_session(served: Served) -> None:
    """The stream of a page tells nothing more once its session was ended."""
    cookie = sign_in(served)
    with socket.create_connection(("127.0.0.1", served.port), timeout=30) as page:
        page.sendall(f"GET /live?page=fleet&after=0 HTTP/1.1\r\nHost: {served.site}\r\nConnection: close\r\nCookie: {cookie}\r\n\r\n".encode())  # fmt: skip
        assert b"200 OK" in page.recv(65536)
        retry_until(lambda: served.pages.streams)
        served.ask("POST", "/api/sessions/end")
        alert = b"event: alert"
        served.fleet.note("alarm", "a word for those who are signed in")
        received = b""
        for stream in tuple(served.pages.streams):
            stream.put(alert)
        while piece := page.recv(65536):
            received += piece

    assert alert not in received
    retry_until(lambda: not served.pages.streams)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "tasuki.localhost"])
def test_a_shared_host_name_has_no_pages(served: Served, host: str) -> None:
    """Under a name that other programs' pages have, no link is taken, no cookie counts, no page opens."""
    cookie, named = sign_in(served), f"{host}:{served.port}"
    link = served.link
    refused = open_link(served, link, named)
    page = served.ask("GET", "/", token="", Host=named, Cookie=cookie, Accept="text/html")

    assert (refused.status, page.status) == (401, 401)
    assert "set-cookie" not in refused.headers
    assert b"tasuki dashboard --open" in page.body
    assert served.tokens.instance.encode() not in page.body
    assert open_link(served, link).status == 200
    assert served.ask("GET", "/api/agents", Host=named).status == 200


def test_a_session_ends_by_itself(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is over 30 days after it was made, or 7 after it was used last, and then its row goes too."""
    cookie = sign_in(served)
    began = sessions_module.time.time()
    now = [began]
    monkeypatch.setattr("tasuki.web.security.sessions.time.time", lambda: now[0])
    seen = []
    while now[0] < began + SESSION_SECONDS + IDLE_SECONDS:
        seen.append(status(served, cookie))
        now[0] += IDLE_SECONDS - 60
    served.sessions.load()
    idle = sign_in(served)
    now[0] += IDLE_SECONDS + 60

    assert seen == [200] * 5 + [401]
    assert status(served, idle) == 401
    assert served.sessions.list_sessions() == []


def test_the_last_use_is_written_down(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """A session that is used later than a minute after is noted so, in the database too."""
    cookie = sign_in(served)
    (made,) = served.sessions.list_sessions()
    later = made.made_at + 3600
    monkeypatch.setattr("tasuki.web.security.sessions.time.time", lambda: later)
    status(served, cookie)

    def noted() -> bool:
        again = BrowserSessions(served.fleet.database, served.tokens, served.fleet.host)
        again.load()
        return [one.used_at for one in again.list_sessions()] == [later]

    retry_until(noted)


def test_the_database_signs_nobody_in(served: Served) -> None:
    """It holds hashes that are made with the operator's token: with another token every session is over."""
    cookie = sign_in(served).partition("=")[2]
    with served.fleet.database.read() as connection:
        rows = str(connection.exec_driver_sql("SELECT * FROM browser_sessions").all())
    other = BrowserSessions(
        served.fleet.database, ServerTokens("o" * 40, "h" * 40), served.fleet.host
    )
    other.load()

    assert "Firefox 150" in rows
    assert cookie not in rows
    assert other.find_session(cookie) is None


def test_a_made_up_cookie_is_no_session(served: Served) -> None:
    """Empty, cut, hostile and long values open nothing."""
    name = sign_in(served).partition("=")[0]
    for value in ("", "x", "é", "a" * 5000, "0" * 64, "None"):
        assert status(served, f"{name}={value}") == 401


def test_each_fleet_has_a_cookie_of_its_own(tmp_path: Path) -> None:
    """Two fleets share neither the host name of their pages nor the name of their cookie."""
    database = FleetDatabase(f"sqlite:///{tmp_path}/x.db")
    both = [ServerTokens(letter * 40, "h" * 40) for letter in "ab"]
    names = {BrowserSessions(database, one, "host").cookie_name for one in both}
    database.close()

    assert len(names) == 2
    assert len({one.dashboard_host for one in both}) == 2
    assert all(re.fullmatch(r"tasuki-[0-9a-f]{10}\.localhost", one.dashboard_host) for one in both)


def test_a_server_that_others_reach_has_pages_under_its_address() -> None:
    """Listening on every address, pages open under the name of the link and under addresses of the network."""
    hosts = ServerHosts("0.0.0.0", "tasuki-x.localhost")
    one = ServerHosts("192.168.1.7", "tasuki-x.localhost")

    assert hosts.dashboard == "tasuki-x.localhost"
    assert hosts.has_pages("192.168.1.7:8787")
    assert not hosts.has_pages("127.0.0.1:8787")
    assert not hosts.has_pages("127.3.2.1:8787")
    assert (one.dashboard, one.has_pages("192.168.1.7:1")) == ("192.168.1.7", True)


def test_the_other_loopback_address_is_taken_too() -> None:
    """A browser asks [::1] first for a name under localhost: no other program can listen there."""
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this machine has no IPv6")
    with listen("127.0.0.1", 0) as sockets:
        port = sockets[0].getsockname()[1]
        families = [one.family for one in sockets]
        with pytest.raises(OSError, match="in use"):
            socket.create_server(("::1", port), family=socket.AF_INET6)

    assert families == [socket.AF_INET, socket.AF_INET6]


def test_another_port_of_the_machine_gets_no_cookie(served: Served) -> None:
    """The cookie belongs to a host name that is not told to those who do not know it."""
    connection = HTTPConnection("127.0.0.1", served.port, timeout=30)
    told = []
    for host in ("127.0.0.1", "localhost", "tasuki.localhost", "tasuki-0000000000.localhost"):
        connection.request("GET", "/login", headers={"Host": f"{host}:{served.port}"})
        answer = connection.getresponse()
        told.append(f"{answer.headers} {answer.read()!r}")
        connection.close()

    assert not [words for words in told if served.tokens.instance in words]
